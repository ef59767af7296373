//! Pictures of placements, for a terminal and as SVG.

use meshwork_mesh::{DimSharding, Mesh, Picture, Sharding};

fn picture(axes: &[(&str, i64)], dims: &[&[&str]], shape: &[i64]) -> Picture {
    let mesh = Mesh::new(axes.iter().copied()).unwrap();
    let dims: Vec<DimSharding> = dims.iter().map(|d| DimSharding::closed(d.iter().copied())).collect();
    Picture::new(&Sharding::new("mesh", dims), &mesh, shape).unwrap()
}

#[test]
fn tables_for_one_and_two_dimensions() {
    let row = picture(&[("x", 4)], &[&["x"]], &[102]).to_string();
    assert_eq!(row, "0..26   26..52  52..78  78..102\n0       1       2       3      \n");
    let table = picture(&[("x", 2), ("y", 2)], &[&["x"], &[]], &[5, 4]).to_string();
    assert_eq!(table, "     0..4\n0..3 0,1 \n3..5 2,3 \n");
    let copies = picture(&[("x", 8)], &[&[], &[]], &[2, 2]).to_string();
    assert_eq!(copies, "     0..2\n0..2 0..8\n");
}

#[test]
fn panels_for_more_dimensions() {
    let four = picture(&[("x", 2), ("y", 2), ("z", 2)], &[&["x"], &[], &["y"], &["z"]], &[2, 3, 4, 4]).to_string();
    assert_eq!(
        four,
        "[0..1, 0..3]\n     0..2 2..4\n0..2 0    1   \n2..4 2    3   \n\
         [1..2, 0..3]\n     0..2 2..4\n0..2 4    5   \n2..4 6    7   \n"
    );
}

#[test]
fn scalars_empty_arrays_and_fine_splits_are_listed() {
    assert_eq!(picture(&[("x", 2)], &[], &[]).to_string(), "[] 0,1\n");
    assert_eq!(picture(&[("x", 2)], &[&["x"]], &[0]).to_string(), "0..0\n0,1 \n");
    let fine = picture(&[("x", 64)], &[&["x"]], &[64]);
    assert_eq!(fine.blocks().len(), 64);
    assert!(fine.to_string().starts_with("[0..1] 0\n[1..2] 1\n"));
}

/// 5 elements in blocks of 2: the fourth device has nothing.
#[test]
fn devices_without_elements_are_named() {
    let idle = picture(&[("x", 4)], &[&["x"]], &[5]);
    assert_eq!(idle.to_string(), "0..2 2..4 4..5\n0    1    2   \nnothing: 3\n");
    assert_eq!(idle.idle(), [3]);
    assert!(idle.svg().contains("hold nothing: 3"));
}

/// Every tag that opens closes, quotes are paired, and no text breaks out of it.
fn check_xml(svg: &str) {
    let mut open: Vec<&str> = vec![];
    for tag in svg.split('<').skip(1) {
        let (inside, _) = tag.split_once('>').expect("a tag ends");
        assert_eq!(inside.matches('"').count() % 2, 0, "{inside}");
        let name = inside.trim_start_matches('/').split([' ', '/']).next().unwrap();
        match (inside.starts_with('/'), inside.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            (false, true) => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn svgs_are_well_formed_for_any_rank() {
    type Case<'a> = (&'a [(&'a str, i64)], &'a [&'a [&'a str]], &'a [i64]);
    let cases: [Case<'_>; 6] = [
        (&[("x", 2)], &[], &[]),
        (&[("x", 4)], &[&["x"]], &[102]),
        (&[("x", 2), ("y", 4)], &[&["x"], &["y"]], &[10, 102]),
        (&[("x", 2), ("y", 2)], &[&["x"], &[], &["y"]], &[2, 3, 4]),
        (&[("x", 2), ("y", 2), ("z", 2)], &[&["x"], &["y"], &[], &["z"]], &[2, 4, 4, 4]),
        (&[("x", 128)], &[&["x"]], &[128]),
    ];
    for (i, (axes, dims, shape)) in cases.into_iter().enumerate() {
        let svg = picture(axes, dims, shape).svg();
        check_xml(&svg);
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("[&quot;x&quot;="), "{svg}");
        if let Ok(folder) = std::env::var("MESHWORK_PICTURES") {
            std::fs::write(format!("{folder}/picture{i}.svg"), svg).unwrap();
        }
    }
}

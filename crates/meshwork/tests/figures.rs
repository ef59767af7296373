//! The figures of the book are what `Picture` draws. `UPDATE_FIGURES=1` rewrites them.

use std::path::Path;

use meshwork::prelude::*;
use meshwork_mesh::Picture;

#[test]
fn figures_of_the_book_are_up_to_date() {
    let grid = Mesh::grid(("a", 2), ("b", 2)).unwrap();
    let line = Mesh::linear("x", 4).unwrap();
    let figures: [(&str, &Mesh, P, &[i64]); 5] = [
        ("rows", &grid, P!["a"], &[8, 6]),
        ("blocks", &grid, P!["a", "b"], &[8, 6]),
        ("both", &grid, P![["a", "b"]], &[8, 6]),
        ("copies", &grid, P![], &[8, 6]),
        ("uneven", &line, P!["x"], &[102]),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
    for (name, mesh, spec, shape) in figures {
        let array = Array::shape_only(shape, F32).shard(mesh, &spec).unwrap();
        let placement = array.placement().unwrap();
        let picture = Picture::new(&placement.sharding, &placement.mesh, shape).unwrap();
        let svg = picture.with_title(format!("{spec} of {shape:?} on {mesh}")).svg();
        let file = folder.join(format!("{name}.svg"));
        if std::env::var_os("UPDATE_FIGURES").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &svg).unwrap();
        }
        let drawn = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(drawn, svg, "{} differs; run with UPDATE_FIGURES=1", file.display());
    }
}

//! Lists of axes: each operation against the shard index that a list gives every device.

mod common;

use common::two_lists;
use meshwork_mesh::axis_list::{self, PrefixStatus};
use meshwork_mesh::{AxisRef, Mesh, shard_index};
use proptest::prelude::*;

fn list(text: &str) -> Vec<AxisRef> {
    meshwork_mesh::parse_axis_list(text).unwrap()
}

/// The shard index of every position.
fn indices(axes: &[AxisRef], mesh: &Mesh) -> Vec<i64> {
    let coordinates = |position| mesh.coordinates_at(position).unwrap();
    (0..mesh.device_count()).map(|p| shard_index(axes, &coordinates(p), mesh)).collect()
}

proptest! {
    #[test]
    fn product_counts_the_shards((mesh, first, _) in two_lists()) {
        let shards = indices(&first, &mesh).into_iter().max().unwrap() + 1;
        prop_assert_eq!(axis_list::product(&first, &mesh), shards);
    }

    #[test]
    fn pushing_keeps_the_index((mesh, first, second) in two_lists()) {
        let mut both = first.clone();
        axis_list::extend(&mut both, second.clone(), &mesh);
        let size = axis_list::product(&second, &mesh);
        let expected = std::iter::zip(indices(&first, &mesh), indices(&second, &mesh));
        prop_assert_eq!(indices(&both, &mesh), expected.map(|(a, b)| a * size + b).collect::<Vec<_>>());
        prop_assert!(both.windows(2).all(|pair| !pair[0].can_merge(&pair[1])) || axis_list::overlaps(&first, &second));
    }

    #[test]
    fn common_prefix_is_stripped_from_both((mesh, first, second) in two_lists()) {
        let prefix = axis_list::greatest_common_prefix(&first, &second);
        for list in [&first, &second] {
            prop_assert!(axis_list::is_prefix(&prefix, list));
            let rest = axis_list::strip_prefix(list, &prefix, &mesh).unwrap();
            let size = axis_list::product(&rest, &mesh);
            let whole = std::iter::zip(indices(&prefix, &mesh), indices(&rest, &mesh));
            prop_assert_eq!(indices(list, &mesh), whole.map(|(a, b)| a * size + b).collect::<Vec<_>>());
            prop_assert_eq!(axis_list::strip_suffix(list, &rest, &mesh), Some(prefix.clone()));
        }
        let (mut a, mut b) = (first.clone(), second.clone());
        prop_assert_eq!(axis_list::remove_common_prefix(&mut a, &mut b, &mesh), prefix);
        prop_assert!(axis_list::greatest_common_prefix(&a, &b).is_empty());
    }

    #[test]
    fn truncation_leaves_a_prefix_without_overlap((_, first, second) in two_lists()) {
        let mut cut = first.clone();
        let was_cut = axis_list::truncate_without_overlap(&mut cut, &second);
        prop_assert_eq!(was_cut, cut != first);
        prop_assert!(axis_list::is_prefix(&cut, &first));
        prop_assert!(!axis_list::overlaps(&cut, &second));
        prop_assert!(was_cut || !axis_list::overlaps(&first, &second));
    }

    #[test]
    fn sorting_keeps_the_devices_together((mesh, first, _) in two_lists()) {
        let mut sorted = first.clone();
        axis_list::sort_and_merge(&mut sorted, &mesh);
        prop_assert!(sorted.is_sorted_by(|a, b| a.cmp_in(b, &mesh).is_le()));
        let (before, after) = (indices(&first, &mesh), indices(&sorted, &mesh));
        for (a, b) in std::iter::zip(&before, &after) {
            let same = std::iter::zip(&before, &after).all(|(x, y)| (x == a) == (y == b));
            prop_assert!(same);
        }
    }
}

#[test]
fn prefix_status_of_lists() {
    let cases = [
        ("{}", "{}", PrefixStatus::Equal),
        ("{}", r#"{"x"}"#, PrefixStatus::StrictPrefix),
        (r#"{"x"}"#, r#"{"x"}"#, PrefixStatus::Equal),
        (r#"{"x"}"#, r#"{"x", "y"}"#, PrefixStatus::StrictPrefix),
        (r#"{"x", "y":(1)2}"#, r#"{"x", "y"}"#, PrefixStatus::StrictPrefix),
        (r#"{"x", "y":(2)2}"#, r#"{"x", "y"}"#, PrefixStatus::NotAPrefix),
        (r#"{"x":(1)2, "y"}"#, r#"{"x", "y"}"#, PrefixStatus::NotAPrefix),
        (r#"{"x", "y"}"#, r#"{"x"}"#, PrefixStatus::NotAPrefix),
    ];
    for (first, second, status) in cases {
        assert_eq!(axis_list::prefix_status(&list(first), &list(second)), status, "{first} {second}");
    }
}

#[test]
fn strip_suffix_takes_minor_parts() {
    let mesh = Mesh::grid(("x", 8), ("y", 2)).unwrap();
    let strip = |from: &str, suffix: &str| axis_list::strip_suffix(&list(from), &list(suffix), &mesh);
    assert_eq!(strip(r#"{"y", "x"}"#, r#"{"x":(2)4}"#), Some(list(r#"{"y", "x":(1)2}"#)));
    assert_eq!(strip(r#"{"y", "x"}"#, r#"{"x"}"#), Some(list(r#"{"y"}"#)));
    assert_eq!(strip(r#"{"y", "x"}"#, r#"{"y"}"#), None);
    assert_eq!(strip("{}", r#"{"y"}"#), None);
}

#[test]
fn mesh_parts_are_the_finest_cut() {
    let mesh = Mesh::new([("x", 2), ("y", 16), ("z", 4), ("one", 1)]).unwrap();
    let parts = axis_list::mesh_parts(&list(r#"{"x", "y":(2)2}"#), &mesh);
    assert_eq!(parts, Some(list(r#"{"x", "y":(1)2, "y":(2)2, "y":(4)4, "z", "one"}"#)));
    assert_eq!(axis_list::mesh_parts(&list(r#"{"w"}"#), &mesh), None);
}

//! What each device holds, and which devices work together.

// A list of one range is meant: one dimension.
#![allow(clippy::single_range_in_vec_init)]

mod common;

use std::ops::Range;

use common::{placed, two_lists};
use meshwork_mesh::{AxisRef, Mesh, Sharding, device_groups, shard_index, shard_range, slice_of, slices};
use proptest::prelude::*;

/// The ranges of all shards of a dimension.
fn split(size: i64, shards: i64) -> Vec<Range<i64>> {
    let mesh = Mesh::linear("x", shards).unwrap();
    let sharding = Sharding::data_parallel("m", 1, "x").unwrap();
    let shape = [size];
    let all = slices(&sharding, &mesh, &shape).unwrap();
    all.map(|(device, ranges)| {
        assert_eq!(slice_of(&sharding, &mesh, &shape, device).unwrap(), ranges);
        ranges[0].clone()
    })
    .collect()
}

#[test]
fn even() {
    assert_eq!(split(8, 4), [0..2, 2..4, 4..6, 6..8]);
}

#[test]
fn zero_size() {
    assert_eq!(split(0, 3), [0..0, 0..0, 0..0]);
}

#[test]
fn one_element() {
    assert_eq!(split(1, 3), [0..1, 1..1, 1..1]);
}

#[test]
fn one_device() {
    assert_eq!(split(5, 1), [0..5]);
}

#[test]
fn prime_sizes() {
    assert_eq!(split(13, 5), [0..3, 3..6, 6..9, 9..12, 12..13]);
    assert_eq!(split(11, 7), [0..2, 2..4, 4..6, 6..8, 8..10, 10..11, 11..11]);
}

#[test]
fn uneven_102_over_4() {
    assert_eq!(split(102, 4), [0..26, 26..52, 52..78, 78..102]);
}

#[test]
fn uneven_7_over_4() {
    assert_eq!(split(7, 4), [0..2, 2..4, 4..6, 6..7]);
}

#[test]
fn uneven_3_over_8_leaves_devices_empty() {
    assert_eq!(split(3, 8), [0..1, 1..2, 2..3, 3..3, 3..3, 3..3, 3..3, 3..3]);
}

#[test]
fn largest_sizes_do_not_overflow() {
    assert_eq!(shard_range(i64::MAX, i64::MAX, i64::MAX - 1), i64::MAX - 1..i64::MAX);
    assert_eq!(shard_range(i64::MAX, 2, 1), 1 << 62..i64::MAX);
}

#[test]
fn axis_order_is_major_to_minor() {
    let mesh = Mesh::grid(("x", 2), ("y", 3)).unwrap();
    let on = |axes: &[&str]| Sharding::on_dims("m", &[(0, axes)], 1).unwrap();
    let of = |sharding: &Sharding, device| slice_of(sharding, &mesh, &[6], device).unwrap()[0].start;
    let starts = |axes: &[&str]| (0..6).map(|device| of(&on(axes), device)).collect::<Vec<_>>();
    assert_eq!(starts(&["x", "y"]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(starts(&["y", "x"]), [0, 2, 4, 1, 3, 5]);
}

#[test]
fn device_order_decides_who_holds_what() {
    let mesh = Mesh::linear("x", 2).unwrap().with_device_ids(vec![1, 0]).unwrap();
    let sharding = Sharding::data_parallel("m", 1, "x").unwrap();
    assert_eq!(slice_of(&sharding, &mesh, &[4], 0).unwrap(), [2..4]);
    assert_eq!(slice_of(&sharding, &mesh, &[4], 1).unwrap(), [0..2]);
    assert_eq!(slice_of(&sharding, &mesh, &[4], 2).unwrap_err().to_string(), "device 2 is not in the mesh <[\"x\"=2]>");
}

#[test]
fn maximal_and_empty_meshes_hold_the_whole_array() {
    let whole = Sharding::replicated("m", 0);
    let maximal = Mesh::maximal(3).unwrap();
    assert_eq!(slice_of(&whole, &maximal, &[4, 5], 3).unwrap(), [0..4, 0..5]);
    assert_eq!(
        slice_of(&whole, &maximal, &[4, 5], 0).unwrap_err().to_string(),
        "device 0 is not in the mesh <[], device_ids=[3]>"
    );
    assert_eq!(slices(&whole, &maximal, &[4]).unwrap().collect::<Vec<_>>(), [(3, vec![0..4])]);
    let open = Sharding::fully_open("m", 1);
    assert_eq!(slice_of(&open, &Mesh::empty(), &[4], 0).unwrap(), [0..4]);
}

#[test]
fn groups_follow_the_order_of_the_list_and_the_device_ids() {
    let axis = |text: &str| -> AxisRef { text.parse().unwrap() };
    let mesh = Mesh::grid(("x", 4), ("y", 2)).unwrap();
    assert_eq!(device_groups(&mesh, &[]).unwrap(), (0..8).map(|d| vec![d]).collect::<Vec<_>>());
    assert_eq!(device_groups(&mesh, &[axis(r#""x":(2)2"#)]).unwrap(), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(device_groups(&mesh, &[axis(r#""y""#), axis(r#""x":(1)2"#)]).unwrap(), [[0, 4, 1, 5], [2, 6, 3, 7]]);
    let reversed = mesh.clone().with_device_ids((0..8).rev().collect()).unwrap();
    assert_eq!(device_groups(&reversed, &[axis(r#""y""#)]).unwrap(), [[7, 6], [5, 4], [3, 2], [1, 0]]);
    assert!(device_groups(&mesh, &[axis(r#""z""#)]).is_err());
    assert!(device_groups(&mesh, &[axis(r#""x""#), axis(r#""x""#)]).is_err());
    assert!(device_groups(&Mesh::from_raw([("x", -2)], None), &[axis(r#""x""#)]).is_err());
}

#[test]
fn a_slice_on_a_large_mesh_costs_no_walk() {
    let mesh = Mesh::new([("x", 1 << 20), ("y", 1 << 20), ("z", 1 << 20)]).unwrap();
    let sharding = Sharding::on_dims("m", &[(0, &["z", "x"])], 1).unwrap();
    let device = mesh.device_at(&[5, 0, 7]).unwrap();
    let index = (7i64 << 20) + 5;
    assert_eq!(slice_of(&sharding, &mesh, &[1 << 42], device).unwrap(), [4 * index..4 * index + 4]);
}

proptest! {
    /// Each element is held by as many devices as there are copies, and no slice exceeds the local shape.
    #[test]
    fn slices_cover_the_array((mesh, sharding, shape) in placed()) {
        let local = sharding.local_shape(&mesh, &shape).unwrap();
        let shards = sharding.num_shards(&mesh);
        for (dim, &size) in shape.iter().enumerate() {
            let mut holders = vec![0; size as usize];
            for (_, ranges) in slices(&sharding, &mesh, &shape).unwrap() {
                let range = ranges[dim].clone();
                prop_assert!(range.end - range.start <= local[dim]);
                range.for_each(|element| holders[element as usize] += 1);
            }
            let copies = mesh.device_count() / shards[dim];
            prop_assert!(holders.iter().all(|&count| count == copies), "{:?}", holders);
        }
    }

    /// Groups split the devices; members differ along the axes only, in order.
    #[test]
    fn groups_split_the_devices((mesh, axes, _) in two_lists()) {
        let groups = device_groups(&mesh, &axes).unwrap();
        let mut devices: Vec<i64> = groups.concat();
        devices.sort_unstable();
        prop_assert!(devices.into_iter().eq(0..mesh.device_count()));
        let mut rest = meshwork_mesh::axis_list::mesh_parts(&axes, &mesh).unwrap();
        rest.retain(|part| !axes.iter().any(|axis| axis.overlaps(part)));
        for (at, group) in groups.iter().enumerate() {
            for (member, &device) in group.iter().enumerate() {
                let coordinates = mesh.coordinates(device).unwrap();
                prop_assert_eq!(shard_index(&axes, &coordinates, &mesh), member as i64);
                prop_assert_eq!(shard_index(&rest, &coordinates, &mesh), at as i64);
            }
        }
    }
}

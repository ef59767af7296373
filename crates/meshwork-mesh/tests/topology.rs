//! Meshes on physical topologies: every device once, neighbors close, hosts together.

use meshwork_mesh::{Mesh, MeshError, Split, Topology};

/// Every device has one position in the mesh.
fn check_permutation(mesh: &Mesh) {
    let mut devices: Vec<i64> = (0..mesh.device_count()).map(|p| mesh.device_at_position(p).unwrap()).collect();
    devices.sort_unstable();
    assert!(devices.into_iter().eq(0..mesh.device_count()));
}

#[test]
fn every_line_of_a_torus_is_made_of_neighbors() {
    type Case<'a> = (&'a [i64], &'a [(&'a str, i64)]);
    let cases: [Case<'_>; 7] = [
        (&[4, 4], &[("x", 4), ("y", 4)]),
        (&[4, 4], &[("x", 16)]),
        (&[4, 4], &[("x", 1), ("y", 16)]),
        (&[2, 2, 4], &[("x", 4), ("y", 4)]),
        (&[2, 2, 4], &[("x", 2), ("y", 8)]),
        (&[2, 2, 4], &[("x", 16)]),
        (&[2, 2, 4], &[("x", 2), ("y", 2), ("z", 4)]),
    ];
    for (dims, axes) in cases {
        let torus = Topology::torus(dims);
        let mesh = torus.mesh(axes, Split::Never).unwrap();
        check_permutation(&mesh);
        for &(name, size) in axes {
            assert_eq!(torus.hops(&mesh, name), Some(size - 1), "{dims:?} {axes:?} {name}: {mesh}");
        }
    }
}

/// A snake over an even number of rows ends next to its start.
#[test]
fn a_line_over_a_torus_closes_to_a_ring() {
    let torus = Topology::torus([4, 4]);
    let mesh = torus.mesh(&[("x", 16)], Split::Never).unwrap();
    let (first, last) = (mesh.device_at_position(0).unwrap(), mesh.device_at_position(15).unwrap());
    assert_eq!(torus.distance(first, last), Some(1));
}

#[test]
fn physical_axes_are_split_only_if_allowed() {
    let torus = Topology::torus([4, 4]);
    let axes = [("x", 2), ("y", 8)];
    let error = torus.mesh(&axes, Split::Never).unwrap_err();
    assert_eq!(
        error.to_string(),
        "mesh axes of sizes [2, 8] cannot be laid along the physical axes [4, 4]; allow splitting physical axes with Split::Allowed"
    );
    let mesh = torus.mesh(&axes, Split::Allowed).unwrap();
    check_permutation(&mesh);
    // The axis with the most traffic, the last, has neighbors; the other one is two links away.
    assert_eq!(torus.hops(&mesh, "y"), Some(7));
    assert_eq!(torus.hops(&mesh, "x"), Some(2));
    assert!(torus.mesh(&[("x", 3), ("y", 5)], Split::Allowed).is_err());
    assert!(torus.mesh(&[("x", 16), ("y", 1)], Split::Never).is_ok());
}

#[test]
fn the_last_axis_counts_first() {
    // Without links from end to end, 2x8 along a 2x8 grid.
    let grid = Topology::grid([8, 2]);
    let mesh = grid.mesh(&[("data", 2), ("model", 8)], Split::Never).unwrap();
    assert_eq!(grid.hops(&mesh, "model"), Some(7));
    assert_eq!(grid.hops(&mesh, "data"), Some(1));
    // A grid of 4x4 as a ring needs no link from end to end either.
    let grid = Topology::grid([4, 4]);
    let mesh = grid.mesh(&[("x", 16)], Split::Never).unwrap();
    assert_eq!(grid.hops(&mesh, "x"), Some(15));
}

/// The positions of a host's devices form a box of the mesh.
#[test]
fn devices_of_a_host_stay_together() {
    let pod = Topology::torus([4, 4]).with_hosts([2, 2]);
    for axes in [&[("x", 4), ("y", 4)][..], &[("x", 16)], &[("x", 2), ("y", 8)]] {
        let mesh = pod.mesh(axes, Split::Allowed).unwrap();
        check_permutation(&mesh);
        for host in 0..4 {
            let (row, column) = (2 * (host / 2), 2 * (host % 2));
            let devices = [0, 1, 4, 5].map(|d| d + 4 * row + column);
            let places: Vec<Vec<i64>> = devices.iter().map(|&d| mesh.coordinates(d).unwrap()).collect();
            let extent = |k: usize| {
                let (low, high) = (places.iter().map(|p| p[k]).min(), places.iter().map(|p| p[k]).max());
                high.unwrap() - low.unwrap() + 1
            };
            assert_eq!((0..axes.len()).map(extent).product::<i64>(), 4, "{axes:?} {mesh} host {host}: {places:?}");
        }
    }
}

#[test]
fn devices_keep_the_ids_they_have() {
    let line = Topology::grid([4]).with_device_ids([3, 1, 0, 2]);
    let mesh = line.mesh(&[("x", 4)], Split::Never).unwrap();
    assert_eq!(mesh.device_ids(), Some(&[3, 1, 0, 2][..]));
    assert_eq!(line.distance(3, 2), Some(3));
    assert_eq!(Topology::torus([4]).with_rings([false]).distance(0, 3), Some(3));
}

#[test]
fn wrong_numbers_are_named() {
    let torus = Topology::torus([4, 4]);
    let error = torus.mesh(&[("x", 8)], Split::Never).unwrap_err();
    assert_eq!(error, MeshError::CountMismatch { product: 8, device_count: 16 });
    let error = Topology::torus([4, 0]).mesh(&[("x", 4)], Split::Never).unwrap_err();
    assert!(error.to_string().contains("[4, 0]"), "{error}");
    let error = torus.with_hosts([3, 1]).mesh(&[("x", 16)], Split::Never).unwrap_err();
    assert_eq!(error.to_string(), "hosts with blocks of [3, 1] devices do not tile a grid of [4, 4]");
}

/// 4096 devices take no noticeable time.
#[test]
fn large_pods() {
    let pod = Topology::torus([16, 16, 16]);
    let mesh = pod.mesh(&[("data", 64), ("model", 64)], Split::Allowed).unwrap();
    check_permutation(&mesh);
}

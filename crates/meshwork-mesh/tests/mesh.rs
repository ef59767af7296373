//! Making meshes, the errors of doing it wrong, and finding devices in them.

use meshwork_mesh::{Mesh, MeshError};

fn error(mesh: Result<Mesh, MeshError>) -> String {
    mesh.unwrap_err().to_string()
}

#[test]
fn messages_of_construction() {
    let cases = [
        (Mesh::new([("x", 2), ("", 4)]), "axis 1 of the mesh has an empty name; shardings refer to axes by name"),
        (Mesh::linear("x", 0), "axis size must be at least 1, got: 0; axis \"x\""),
        (Mesh::linear("x", -2), "axis size must be at least 1, got: -2; axis \"x\""),
        (
            Mesh::new([("x", 2), ("y", 2), ("x", 4)]),
            "duplicate axis name: \"x\"; each axis of a mesh needs its own name",
        ),
        (
            Mesh::infer(&[("x", None), ("y", None)], 8),
            "sizes of both \"x\" and \"y\" are left open; only one can be inferred from the device count",
        ),
        (
            Mesh::infer(&[("x", Some(3)), ("y", None)], 8),
            "size of axis \"y\" cannot be inferred: 8 devices are not a positive multiple of 3, the product of the other sizes",
        ),
        (
            Mesh::infer(&[("x", Some(3)), ("y", None)], 0),
            "size of axis \"y\" cannot be inferred: 0 devices are not a positive multiple of 3, the product of the other sizes",
        ),
        (
            Mesh::infer(&[("x", Some(2)), ("y", Some(2))], 8),
            "the axis sizes multiply to 4 but there are 8 devices; leave one size open to infer it",
        ),
        (Mesh::grid(("x", i64::MAX), ("y", 2)), "the sizes of the 2 mesh axes multiply to more than 2^63-1 devices"),
        (Mesh::maximal(-1), "device id must be non-negative, got: -1"),
        (
            Mesh::empty().with_device_ids(vec![1, 0]),
            "axes is empty and device_ids has more than one element; 2 ids need axes that multiply to 2",
        ),
        (
            Mesh::linear("x", 4).unwrap().with_device_ids(vec![0, 2, 1]),
            "total product of axis sizes must match total number of device ids, got: 4 != 3",
        ),
        (
            Mesh::linear("x", 2).unwrap().with_device_ids(vec![1, 1]),
            "sorted device ids must be iota(product(axes)), got: 1, 1; list each of 0..2 once",
        ),
    ];
    for (mesh, message) in cases {
        assert_eq!(error(mesh), message);
    }
}

#[test]
fn identity_ids_are_dropped_by_constructors_and_reported_in_raw_meshes() {
    let mesh = Mesh::linear("x", 2).unwrap();
    assert_eq!(mesh.clone().with_device_ids(vec![0, 1]).unwrap(), mesh);
    let raw = Mesh::from_raw([("x", 2)], Some(vec![0, 1]));
    assert_eq!(raw.verify(), Err(MeshError::IdentityIds { count: 2 }));
    assert_eq!(raw.without_identity_ids(), mesh);
}

#[test]
fn empty_and_maximal_meshes_differ() {
    let (empty, maximal) = (Mesh::empty(), Mesh::maximal(0).unwrap());
    assert!(empty.is_empty() && !empty.is_maximal());
    assert!(!maximal.is_empty() && maximal.is_maximal());
    assert_eq!((maximal.maximal_device(), empty.maximal_device()), (Some(0), None));
    assert!(!empty.same_axes(&maximal));
    assert!(!Mesh::linear("x", 1).unwrap().is_maximal());
    assert_eq!((empty.to_string(), maximal.to_string()), ("<[]>".into(), "<[], device_ids=[0]>".into()));
}

#[test]
fn one_size_is_inferred() {
    let mesh = Mesh::infer(&[("x", None), ("y", Some(3)), ("z", Some(1))], 12).unwrap();
    assert_eq!(mesh, Mesh::new([("x", 4), ("y", 3), ("z", 1)]).unwrap());
    assert_eq!(Mesh::infer(&[("x", Some(2))], 2).unwrap(), Mesh::linear("x", 2).unwrap());
}

#[test]
fn coordinates_and_devices_are_inverse() {
    let mesh = Mesh::new([("x", 2), ("y", 3), ("z", 1)]).unwrap();
    for mesh in [mesh.clone(), mesh.with_device_ids(vec![5, 0, 3, 1, 4, 2]).unwrap()] {
        for device in 0..6 {
            let coordinates = mesh.coordinates(device).unwrap();
            assert_eq!(mesh.device_at(&coordinates), Some(device));
        }
        assert_eq!((mesh.coordinates(6), mesh.coordinates(-1)), (None, None));
        assert_eq!((mesh.device_at(&[0, 3, 0]), mesh.device_at(&[0, 0])), (None, None));
    }
}

#[test]
fn device_ids_name_the_device_of_each_position() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap().with_device_ids(vec![0, 2, 1, 3]).unwrap();
    assert_eq!(mesh.coordinates(2), Some(vec![0, 1]));
    assert_eq!(mesh.device_at(&[1, 0]), Some(1));
    assert!(mesh.same_axes(&Mesh::grid(("x", 2), ("y", 2)).unwrap()));
}

#[test]
fn axes_are_found_by_name() {
    let mesh = Mesh::grid(("x", 2), ("y", 5)).unwrap();
    assert_eq!((mesh.axis_index("y"), mesh.axis_size("y")), (Some(1), Some(5)));
    assert_eq!((mesh.axis_index("z"), mesh.axis_size("z")), (None, None));
    assert_eq!(mesh.device_count(), 10);
}

#[test]
fn raw_meshes_do_not_panic() {
    for sizes in [[0, 3], [-1, -2], [i64::MIN, -1], [i64::MAX, i64::MAX]] {
        let mesh = Mesh::from_raw([("x", sizes[0]), ("x", sizes[1])], Some(vec![7, -7]));
        let _ = (mesh.device_count(), mesh.coordinates(0), mesh.coordinates(7), mesh.device_at(&[0, 0]));
        let _ = (mesh.coordinates_at(i64::MAX), mesh.device_at_position(1), mesh.to_string());
        assert!(mesh.verify().is_err());
    }
}

//! Reshards between all pairs of shardings: right data, and memory within its bound.

use std::collections::HashMap;

use meshwork_ir::ValueId;
use meshwork_mesh::Sharding;
use meshwork_partition::Compiled;

use crate::cases::{Program, shardings, source, t};
use crate::common::try_check_combining;

/// A mesh and the names of the pieces that may split a dimension.
type Pieces = (&'static [(&'static str, i64)], &'static [&'static str]);

/// Meshes of up to eight devices.
const MESHES: &[Pieces] = &[
    (&[("x", 2)], &["\"x\""]),
    (&[("x", 3)], &["\"x\""]),
    (&[("x", 4)], &["\"x\":(1)2", "\"x\":(2)2"]),
    (&[("x", 5)], &["\"x\""]),
    (&[("x", 6)], &["\"x\":(1)2", "\"x\":(2)3"]),
    (&[("x", 7)], &["\"x\""]),
    (&[("x", 2), ("y", 3)], &["\"x\"", "\"y\""]),
    (&[("x", 2), ("y", 4)], &["\"x\"", "\"y\""]),
    (&[("x", 2), ("y", 2), ("z", 2)], &["\"x\"", "\"y\"", "\"z\""]),
];

/// From `from` to every sharding, each with its own argument, in one program.
fn check_from(mesh: &[(&str, i64)], dims: &[i64], from: &str, all: &[String]) {
    let ty = t(dims, "i32");
    let names: Vec<String> = (0..all.len()).map(|i| format!("%r{i} = stablehlo.not %a{i} : {ty}")).collect();
    let program =
        Program { args: vec![ty.clone(); all.len()], results: vec![ty.clone(); all.len()], body: names.join("\n") };
    // Negation separates arguments from results; both have the placement of the argument.
    let args = vec![from; all.len()];
    let results: Vec<Option<&str>> = all.iter().map(|s| Some(s.as_str())).collect();
    let text = source(&program, mesh, &args, &results);
    // Combined reshards could not be distinguished.
    let split = try_check_combining(&text, 0).unwrap_or_else(|what| panic!("from {from}: {what}"));
    memory_is_bounded(&split, dims, from, all);
}

/// No value on the way is larger than the larger end and one shard, extents counted as multiples of the mesh.
fn memory_is_bounded(split: &Compiled, dims: &[i64], from: &str, all: &[String]) {
    let module = &split.module;
    let func = module.entry().expect("a function");
    let body = module.body_of(func, 0).expect("a body");
    let elements = |v: ValueId| module.ty(v).dims().iter().product::<i64>();
    let devices = split.plan.mesh.device_count();
    let padded: Vec<i64> = dims.iter().map(|n| (n + devices - 1) / devices * devices).collect();
    let end = |s: &Sharding| s.local_shape(&split.plan.mesh, &padded).expect("it fits").iter().product::<i64>();
    let mut root: HashMap<ValueId, usize> =
        module.block(body).args().iter().enumerate().map(|(i, &a)| (a, i)).collect();
    for op in module.ops_in(body) {
        let data = module.op(op);
        let Some(&i) = data.operands().iter().find_map(|v| root.get(v)) else { continue };
        let bound = end(&split.inputs()[i].sharding) + end(&split.outputs()[i].sharding);
        for &r in data.results() {
            root.insert(r, i);
            let size = elements(r);
            assert!(
                size <= bound,
                "{from} to {} of {dims:?}: {} of {size} elements, bound {bound}",
                all[i],
                module.describe(op)
            );
        }
    }
}

fn all_pairs(meshes: &[Pieces], shapes: &[&[i64]]) {
    for (mesh, pieces) in meshes {
        let pieces: Vec<String> = pieces.iter().map(|p| p.to_string()).collect();
        for dims in shapes {
            let all = shardings(dims.len(), &pieces);
            for from in &all {
                check_from(mesh, dims, from, &all);
            }
        }
    }
}

const SHAPES: &[&[i64]] = &[&[8], &[7], &[1], &[0], &[6, 8], &[5, 3], &[4, 2, 6], &[3, 5, 2]];

#[test]
fn all_pairs_of_shardings() {
    all_pairs(&MESHES[..MESHES.len() - 1], SHAPES);
}

/// Three axes in three dimensions are 106 shardings: one shape is enough.
#[test]
fn all_pairs_of_shardings_by_three_axes() {
    all_pairs(&MESHES[MESHES.len() - 1..], &SHAPES[..SHAPES.len() - 1]);
}

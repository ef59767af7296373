//! Gather and scatter with all dimension numbers of operands of rank 1 and 2.

use crate::cases::{Failures, Program, list, program, t};

/// Dimension numbers, as far as gather and scatter share them.
struct Numbers {
    operand: Vec<i64>,
    indices: Vec<i64>,
    vector_dim: usize,
    map: Vec<i64>,
    sizes: Vec<i64>,
    dropped: Vec<i64>,
    window: Vec<i64>,
    result: Vec<i64>,
}

/// All lists of distinct numbers below `n`.
fn choices(n: i64) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    let mut from = 0;
    while from < all.len() {
        for d in (0..n).filter(|d| !all[from].contains(d)).collect::<Vec<_>>() {
            let longer = [&all[from][..], &[d]].concat();
            all.push(longer);
        }
        from += 1;
    }
    all
}

fn subsets(items: &[i64]) -> Vec<Vec<i64>> {
    let all = 0..1usize << items.len();
    all.map(|mask| items.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, &x)| x).collect()).collect()
}

fn numbers() -> Vec<Numbers> {
    let mut out = vec![];
    for operand in [vec![5], vec![4, 3]] {
        let rank = operand.len();
        let slices = operand.iter().fold(vec![vec![]], |all: Vec<Vec<i64>>, &n| {
            all.iter().flat_map(|s| [1, 2, n].map(|size| [&s[..], &[size]].concat())).collect()
        });
        for map in choices(rank as i64) {
            for sizes in &slices {
                let ones: Vec<i64> = (0..rank as i64).filter(|&d| sizes[d as usize] == 1).collect();
                for dropped in subsets(&ones) {
                    for batch in [vec![], vec![3]] {
                        // The vector dimension first, last, or left out.
                        for vector_dim in 0..=batch.len() {
                            let implicit = map.len() == 1 && vector_dim == batch.len() && sizes[0] == 1;
                            let mut indices = batch.clone();
                            if !implicit {
                                indices.insert(vector_dim, map.len() as i64);
                            }
                            let kept: Vec<i64> =
                                (0..rank).filter(|&d| !dropped.contains(&(d as i64))).map(|d| sizes[d]).collect();
                            let places: Vec<i64> = (0..(batch.len() + kept.len()) as i64).collect();
                            for window in subsets(&places).into_iter().filter(|w| w.len() == kept.len()) {
                                let (mut slices, mut batches) = (kept.iter(), batch.iter());
                                let result = places
                                    .iter()
                                    .filter_map(|p| if window.contains(p) { slices.next() } else { batches.next() });
                                let result = result.copied().collect();
                                let (operand, map, sizes) = (operand.clone(), map.clone(), sizes.clone());
                                let (dropped, indices) = (dropped.clone(), indices.clone());
                                out.push(Numbers { operand, indices, vector_dim, map, sizes, dropped, window, result });
                            }
                        }
                    }
                }
            }
        }
    }
    out
}

fn gather(d: &Numbers) -> Program {
    let (a, i, r) = (t(&d.operand, "i32"), t(&d.indices, "i32"), t(&d.result, "i32"));
    let body = format!(
        "%r0 = \"stablehlo.gather\"(%a0, %a1) <{{dimension_numbers = #stablehlo.gather<offset_dims = [{}], collapsed_slice_dims = [{}], start_index_map = [{}], index_vector_dim = {}>, slice_sizes = array<i64: {}>}}> : ({a}, {i}) -> {r}",
        list(&d.window),
        list(&d.dropped),
        list(&d.map),
        d.vector_dim,
        list(&d.sizes)
    );
    program(&[&a, &i], &[&r], body)
}

fn scatter(d: &Numbers) -> Program {
    let (a, i, u) = (t(&d.operand, "i32"), t(&d.indices, "i32"), t(&d.result, "i32"));
    let body = format!(
        "%r0 = \"stablehlo.scatter\"(%a0, %a1, %a2) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [{}], inserted_window_dims = [{}], scatter_dims_to_operand_dims = [{}], index_vector_dim = {}>}}> ({{
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %s = stablehlo.add %p, %q : tensor<i32>
  stablehlo.return %s : tensor<i32>
}}) : ({a}, {i}, {u}) -> {a}",
        list(&d.window), list(&d.dropped), list(&d.map), d.vector_dim
    );
    program(&[&a, &i, &u], &[&a], body)
}

#[test]
fn all_dimension_numbers() {
    let mut failures = Failures::default();
    for (k, d) in numbers().iter().enumerate() {
        // Each on one of the meshes, in turn.
        let mesh: &[(&str, i64)] = [&[("x", 2)][..], &[("x", 3)], &[("x", 2), ("y", 2)]][k % 3];
        failures.enumerate_on(mesh, &gather(d), 3);
        failures.enumerate_on(mesh, &scatter(d), 3);
    }
    failures.report();
}

/// A dimension of one element in a frame of more positions: the slices of a gather leave it out.
#[test]
fn a_dropped_dimension_in_a_frame() {
    let mut failures = Failures::default();
    for n in [4, 6, 7] {
        for s in ["[{}, {\"x\"}]", "[{\"x\"}, {}]", "[{}, {\"y\", \"x\"}]"] {
            let (a, column) = (t(&[4, n], "i32"), t(&[4, 1], "i32"));
            failures.check(&format!(
                "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>
func.func @main(%a: {a} {{sdy.sharding = #sdy.sharding<@mesh, {s}>}}, %i: tensor<1x5xi32>) -> tensor<1x5xi32> {{
%c = stablehlo.slice %a [0:4, {}:{n}] : ({a}) -> {column}
%g = \"stablehlo.gather\"(%c, %i) <{{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], operand_batching_dims = [1], start_indices_batching_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}}> : ({column}, tensor<1x5xi32>) -> tensor<1x5xi32>
return %g : tensor<1x5xi32>
}}",
                n - 1
            ));
        }
    }
    failures.report();
}

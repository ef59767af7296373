//! All placements of a small network on small meshes: the gradient is that of the whole batch, and sums, means and norms
//! count every element once, however many devices hold a copy of it.

use meshwork::prelude::*;
use meshwork_testing::wave;

const BATCH: i64 = 5;
const INPUTS: i64 = 3;
const HIDDEN: i64 = 4;

/// The loss, its gradient, and the sum, mean and norm of all parameters.
fn program(x: Tensor, w1: Tensor, b: Tensor, w2: Tensor) -> (Tensor, Vec<Tensor>, Vec<Tensor>) {
    let params = vec![w1, b, w2];
    let loss = |p: Vec<Tensor>| (x.matmul(&p[0]) + &p[1]).tanh().matmul(&p[2]).square().mean_all();
    let (value, slope) = value_and_grad(loss, params.clone());
    let total = |f: fn(&Tensor) -> Tensor| params.iter().map(f).reduce(|a, b| a + b).expect("three parameters");
    let about = vec![total(Tensor::sum_all), total(Tensor::mean_all), total(|p| p.square().sum_all()).sqrt()];
    (value, slope, about)
}

/// All ways to place an array of `rank` dimensions: each axis on one dimension or on none, in every order.
fn placements(rank: usize, axes: &[&str]) -> Vec<P> {
    let mut all = vec![vec![vec![]; rank]];
    for axis in axes {
        let mut next = all.clone();
        for dims in &all {
            for d in 0..rank {
                for at in 0..=dims[d].len() {
                    let mut more = dims.clone();
                    more[d].insert(at, (*axis).into());
                    next.push(more);
                }
            }
        }
        all = next;
    }
    all.into_iter().map(P::of).collect()
}

/// Runs every combination of placements, or each `stride`-th of them.
fn enumerate(mesh: &Mesh, axes: &[&str], stride: usize) {
    let args = [wave(&[BATCH, INPUTS]), wave(&[INPUTS, HIDDEN]), wave(&[HIDDEN]), wave(&[HIDDEN, 2])];
    let (value, slope, about) = jit(program).call((&args[0], &args[1], &args[2], &args[3])).unwrap();
    let (matrix, vector) = (placements(2, axes), placements(1, axes));
    let all = matrix.iter().flat_map(|x| matrix.iter().map(move |w1| (x, w1)));
    let all = all.flat_map(|(x, w1)| vector.iter().map(move |b| (x, w1, b)));
    let all = all.flat_map(|(x, w1, b)| matrix.iter().map(move |w2| [x, w1, b, w2]));
    let mut count = 0;
    for specs in all.step_by(stride) {
        let f = jit(program).on(mesh).in_shardings(specs.map(Clone::clone));
        let out = f.call((&args[0], &args[1], &args[2], &args[3]));
        let (v, s, a) = out.unwrap_or_else(|e| panic!("{specs:?}: {e}"));
        assert!(v.all_close(&value, 1e-12), "{specs:?}: {v} and {value}");
        for (one, other) in slope.iter().chain(&about).zip(s.iter().chain(&a)) {
            assert!(one.all_close(other, 1e-12), "{specs:?}: {other}, on one device {one}");
        }
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn two_devices() {
    enumerate(&Mesh::linear("a", 2).unwrap(), &["a"], 1);
}

#[test]
fn four_devices() {
    enumerate(&Mesh::linear("a", 4).unwrap(), &["a"], 1);
}

/// 6,655 combinations: a part of them, and all with `--ignored`.
#[test]
fn two_by_two_devices_in_part() {
    enumerate(&Mesh::grid(("a", 2), ("b", 2)).unwrap(), &["a", "b"], 13);
}

#[test]
#[ignore = "takes half a minute"]
fn two_by_two_devices() {
    enumerate(&Mesh::grid(("a", 2), ("b", 2)).unwrap(), &["a", "b"], 1);
}

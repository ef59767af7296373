//! Manual regions: the same as the automatic program, on several meshes, forward and backward.

use meshwork::prelude::*;
use meshwork::{Imported, Reference};

fn ramp(shape: &[i64]) -> Array {
    let strides: Vec<i64> = (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect();
    Array::from_fn(shape, |i| {
        let at: i64 = i.iter().zip(&strides).map(|(i, s)| i * s).sum();
        ((at * 7 + 3) % 11) as f32 * 0.25 - 1.0
    })
}

fn meshes() -> Vec<Mesh> {
    vec![
        Mesh::linear("x", 1).unwrap(),
        Mesh::linear("x", 2).unwrap(),
        Mesh::linear("x", 4).unwrap(),
        Mesh::grid(("x", 2), ("y", 2)).unwrap(),
        Mesh::grid(("y", 2), ("x", 4)).unwrap(),
        Mesh::grid(("x", 2), ("y", 3)).unwrap(),
    ]
}

/// `manual` on each mesh, by the engine, by the evaluator, and with its devices on one, is `automatic`.
fn same<F, G>(inputs: &[i64], manual: F, automatic: G)
where
    F: Fn(Tensor) -> Tensor + Copy,
    G: Fn(Tensor) -> Tensor,
{
    let x = ramp(inputs);
    let expected = jit(automatic).call(&x).unwrap();
    for mesh in meshes() {
        let found = jit(manual).on(&mesh).call(&x).unwrap();
        assert!(found.all_close(&expected, 1e-4), "{mesh}: {found} instead of {expected}");
        let slow = jit(manual).on(&mesh).engine(Reference).call(&x).unwrap();
        assert!(slow.all_close(&expected, 1e-4), "{mesh}, reference: {slow} instead of {expected}");
        let one = jit(manual).on(&mesh).single_device().call(&x).unwrap();
        assert!(one.all_close(&expected, 1e-4), "{mesh}, one device: {one} instead of {expected}");
    }
}

#[test]
fn sums_means_and_extremes() {
    same(&[3, 8], |x| shard_map(["x"], [P![_, "x"]], [P![]], x, |x: Tensor| x.sum(&[1]).psum("x")), |x| x.sum(&[1]));
    same(&[3, 8], |x| shard_map(["x"], [P![_, "x"]], [P![]], x, |x: Tensor| x.mean(&[1]).pmean("x")), |x| x.mean(&[1]));
    same(&[3, 8], |x| shard_map(["x"], [P![_, "x"]], [P![]], x, |x: Tensor| x.max(&[1]).pmax("x")), |x| x.max(&[1]));
    same(&[3, 8], |x| shard_map(["x"], [P![_, "x"]], [P![]], x, |x: Tensor| x.min(&[1]).pmin("x")), |x| x.min(&[1]));
}

#[test]
fn gathers_scatters_and_exchanges() {
    same(&[8, 3], |x| shard_map(["x"], [P!["x"]], [P![]], x, |x: Tensor| x.all_gather("x", 0)), |x| x);
    // Every device has the whole and sums it up: the whole as often as there are devices.
    same(
        &[8, 3],
        |x| {
            shard_map(["x"], [P![]], [P!["x"]], x, |x: Tensor| {
                let copies = axis_size("x");
                x.psum_scatter("x", 0) / copies
            })
        },
        |x| x,
    );
    // Split by rows, then by columns: nothing else changes.
    same(&[8, 4], |x| shard_map(["x"], [P!["x"]], [P![_, "x"]], x, |x: Tensor| x.all_to_all("x", 1, 0)), |x| x);
}

#[test]
fn places_along_axes() {
    same(
        &[8],
        |x| {
            shard_map(["x"], [P!["x"]], [P!["x"]], x, |x: Tensor| {
                let first = axis_index("x") * x.dim(0);
                let at = first + iota([x.dim(0)], I32, 0);
                x + at.to(F32)
            })
        },
        |x| x + iota([8], F32, 0),
    );
}

/// One step of diffusion with the ends held, as message passing writes it.
fn halo_step(u: Tensor) -> Tensor {
    let n = axis_size("x");
    let up: Vec<(i64, i64)> = (1..n).map(|i| (i - 1, i)).collect();
    let down: Vec<(i64, i64)> = (1..n).map(|i| (i, i - 1)).collect();
    let left = u.slice(s![-1..]).ppermute("x", &up);
    let right = u.slice(s![..1]).ppermute("x", &down);
    let wide = concatenate(&[left, u.clone(), right], 0);
    let next = 0.5 * &u + 0.25 * wide.slice(s![..-2]) + 0.25 * wide.slice(s![2..]);
    let at = axis_index("x") * u.dim(0) + iota([u.dim(0)], I32, 0);
    select(at.gt(0) & at.lt(n * u.dim(0) - 1), &next, &u)
}

fn automatic_step(u: Tensor) -> Tensor {
    let next = 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
    u.at(s![1..-1]).set(next)
}

/// Halos by hand are those of the partitioner: the same values, and as many permutes.
#[test]
fn manual_region() {
    same(
        &[24],
        |u| shard_map(["x"], [P!["x"]], [P!["x"]], u, |u| for_loop(0..5, u, |_, u| halo_step(u))),
        |u| for_loop(0..5, u, |_, u| automatic_step(u)),
    );
    let mesh = Mesh::linear("x", 4).unwrap();
    let u = ramp(&[24]).shard(&mesh, P!["x"]).unwrap();
    let by_hand = jit(|u: Tensor| shard_map(["x"], [P!["x"]], [P!["x"]], u, halo_step)).plan(&u).unwrap();
    let automatic = jit(automatic_step).plan(&u).unwrap();
    let of = |plan: &meshwork::Plan| (plan.totals()["collective-permute"].count, plan.totals().len());
    assert_eq!(of(&by_hand), of(&automatic));
}

/// The cotangents of the collectives: the gradient of the whole is that of the automatic program.
#[test]
fn gradients_are_those_of_the_automatic_program() {
    fn energy(y: Tensor) -> Tensor {
        (y.sin() * &y).sum_all()
    }
    same(
        &[24],
        |u| grad(|u: Tensor| energy(shard_map(["x"], [P!["x"]], [P!["x"]], u, halo_step)), u),
        |u| grad(|u: Tensor| energy(automatic_step(u)), u),
    );
    same(
        &[4, 8],
        |x| {
            grad(
                |x: Tensor| energy(shard_map(["x"], [P![_, "x"]], [P![]], x, |x: Tensor| x.sin().sum(&[1]).psum("x"))),
                x,
            )
        },
        |x| grad(|x: Tensor| energy(x.sin().sum(&[1])), x),
    );
}

/// Gather, scatter and exchange, whose result depends on the number of devices: against finite differences.
#[test]
fn gradients_of_all_collectives() {
    fn f(x: Tensor) -> Tensor {
        let y = shard_map(["x"], [P!["x"]], [P!["x"]], x, |x: Tensor| {
            let all = x.all_gather("x", 0).sin();
            let back = all.all_to_all("x", 1, 0).cos();
            &x * all.psum_scatter("x", 0) + back.sum_all().psum("x") * x.pmean("x")
        });
        (y.sin() * &y).sum_all()
    }
    let x = ramp(&[8, 4]).to_f64s().unwrap();
    let x = Array::from_vec([8, 4], x).unwrap();
    let d = Array::from_fn([8, 4], |i| ((i[0] * 5 + i[1] * 3) % 7) as f64 / 7.0 - 0.4);
    for mesh in meshes() {
        let slope = jit(|x: Tensor, d: Tensor| (grad(f, x) * d).sum_all()).on(&mesh);
        let moved = jit(|x: Tensor, d: Tensor, h: Tensor| f(x + d * h)).on(&mesh);
        let at = |h: f64| moved.call((&x, &d, &Array::scalar(h))).unwrap().item::<f64>().unwrap();
        let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
        let found = slope.call((&x, &d)).unwrap().item::<f64>().unwrap();
        assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0), "{mesh}: {found} instead of {expected}");
    }
}

/// Data parallelism by hand: each device's gradient of its own loss, averaged.
#[test]
fn gradients_inside() {
    fn loss(w: &Tensor, x: &Tensor) -> Tensor {
        x.matmul(w).tanh().pow(2.0).mean_all()
    }
    let (w, x) = (ramp(&[4, 3]), ramp(&[12, 4]));
    let expected = jit(|w: Tensor, x: Tensor| grad(|w: Tensor| loss(&w, &x), w)).call((&w, &x)).unwrap();
    for mesh in meshes() {
        let by_hand = jit(|w: Tensor, x: Tensor| {
            shard_map(["x"], [P![], P!["x"]], [P![]], (w, x), |(w, x): (Tensor, Tensor)| {
                grad(|w: Tensor| loss(&w, &x), w).pmean("x")
            })
        });
        let found = by_hand.on(&mesh).call((&w, &x)).unwrap();
        assert!(found.all_close(&expected, 1e-5), "{mesh}: {found} instead of {expected}");
    }
}

/// What the body captures is whole on every device, and its gradient is the sum over them.
#[test]
fn captured_tensors() {
    let (w, x) = (ramp(&[8]), ramp(&[24]));
    fn f(w: &Tensor, x: Tensor) -> Tensor {
        shard_map(["x"], [P!["x"]], [P!["x"]], x, |x: Tensor| x * (w * w).sum_all()).sin().sum_all()
    }
    let expected = jit(|w: Tensor, x: Tensor| grad(|w: Tensor| (x * (&w * &w).sum_all()).sin().sum_all(), w));
    let expected = expected.call((&w, &x)).unwrap();
    for mesh in meshes() {
        let found = jit(|w: Tensor, x: Tensor| grad(|w: Tensor| f(&w, x), w)).on(&mesh).call((&w, &x)).unwrap();
        assert!(found.all_close(&expected, 1e-3), "{mesh}: {found} instead of {expected}");
    }
}

/// Along axes that are not manual the program inside is split as elsewhere; regions nest.
#[test]
fn automatic_axes_inside() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let (a, b) = (ramp(&[4, 6]), ramp(&[6, 8]));
    let expected = jit(|a: Tensor, b: Tensor| a.matmul(&b)).call((&a, &b)).unwrap();
    // The inner dimension by hand over `x`; the columns automatically over `y`.
    let half = jit(|a: Tensor, b: Tensor| {
        shard_map(["x"], [P![_, "x"], P!["x"]], [P![]], (a, b), |(a, b): (Tensor, Tensor)| {
            a.matmul(b.shard(P![_, "y"])).psum("x")
        })
    })
    .on(&mesh);
    assert!(half.call((&a, &b)).unwrap().all_close(&expected, 1e-5));
    let device = half.lower((&a, &b)).unwrap().device_text().unwrap();
    assert!(device.contains("tensor<4x4xf32>"), "each device has half of the columns:\n{device}");
    // Both by hand, one in the other.
    let nested = jit(|a: Tensor, b: Tensor| {
        shard_map(["x"], [P![_, "x"], P!["x"]], [P![]], (a, b), |(a, b): (Tensor, Tensor)| {
            shard_map(["y"], [P![], P![_, "y"]], [P![_, "y"]], (a, b), |(a, b): (Tensor, Tensor)| {
                assert_eq!(b.shape(), [3, 4]);
                a.matmul(&b).psum("x")
            })
        })
    });
    assert!(nested.on(&mesh).call((&a, &b)).unwrap().all_close(&expected, 1e-5));
}

/// Devices in another order than their numbers: places count along the axis, not the numbers.
#[test]
fn other_device_orders() {
    let mesh = Mesh::linear("x", 4).unwrap().with_device_ids(vec![2, 0, 3, 1]).unwrap();
    let f = jit(|x: Tensor| {
        shard_map(["x"], [P!["x"]], [P!["x"]], x, |x: Tensor| {
            x.ppermute("x", &[(0, 1), (1, 2), (2, 3)]) + 10.0 * axis_index("x").to(F32)
        })
    });
    let found = f.on(&mesh).call(&Array::from([1.0f32, 2.0, 3.0, 4.0])).unwrap();
    assert_eq!(found.to_vec::<f32>().unwrap(), [0.0, 11.0, 22.0, 33.0]);
}

/// A function of one example with a region inside, on many.
#[test]
fn mapped_over_examples() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let one = |x: Tensor| shard_map(["x"], [P!["x"]], [P![]], x, |x: Tensor| x.sin().sum_all().psum("x"));
    let x = ramp(&[3, 8]);
    let found = jit(move |x: Tensor| vmap(one, x)).on(&mesh).call(&x).unwrap();
    let expected = jit(|x: Tensor| x.sin().sum(&[1])).call(&x).unwrap();
    assert!(found.all_close(&expected, 1e-5), "{found} instead of {expected}");
}

/// The text of a program with a region is read and run again.
#[test]
fn regions_survive_text() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let f = jit(|u: Tensor| shard_map(["x"], [P!["x"]], [P!["x"]], u, halo_step)).on(&mesh);
    let u = ramp(&[24]);
    let text = f.lower(&u).unwrap().text();
    assert!(text.contains("sdy.manual_computation"));
    let again = Imported::from_mlir(&text).unwrap();
    let expected = f.call(&u).unwrap();
    let found = jit(|u: Tensor| again.apply(&[u])[0].clone()).on(&mesh).call(&u).unwrap();
    assert!(found.all_close(&expected, 1e-6));
}

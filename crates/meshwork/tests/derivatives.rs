//! `vjp`, `jvp` and `checkpoint` through the front.

use meshwork::Plan;
use meshwork::prelude::*;
use meshwork_testing::wave;

fn curve(x: &Tensor) -> Tensor {
    let turned = for_loop(0..3, x.clone(), |i, y| (y.sin() * i.to(F64)).exp() + &y);
    turned.matmul(x.t()).softmax(-1)
}

/// The pairing of a cotangent with a tangent is the same on both sides: <dy, J dx> = <J^T dy, dx>.
#[test]
fn vjp_and_jvp_are_transposes() {
    let f = jit(|x: Tensor, dx: Tensor, dy: Tensor| {
        let (y, moved) = jvp(|x: Tensor| curve(&x), x.clone(), dx.clone());
        let (z, back) = vjp(|x: Tensor| curve(&x), x);
        ((moved * &dy).sum_all(), (back(dy) * dx).sum_all(), (y - z).abs().sum_all())
    });
    let (x, dx, dy) = (wave(&[3, 2]), wave(&[2, 3]), wave(&[3, 3]));
    let dx = Array::from_vec([3, 2], dx.to_vec::<f64>().unwrap()).unwrap();
    let (ahead, behind, apart) = f.call((&x, &dx, &dy)).unwrap();
    let (ahead, behind) = (ahead.item::<f64>().unwrap(), behind.item::<f64>().unwrap());
    assert!((ahead - behind).abs() < 1e-12 && ahead.abs() > 1e-3, "{ahead} and {behind}");
    assert_eq!(apart.item::<f64>().unwrap(), 0.0);
}

#[test]
fn the_way_there_is_computed_once_for_several_cotangents() {
    let f = jit(|x: Tensor| {
        let (y, back) = vjp(|x: Tensor| x.exp().tanh(), x);
        (back(y.clone()), back(y * 2.0))
    });
    let text = f.lower(&wave(&[4])).unwrap().text();
    assert_eq!(text.matches("stablehlo.exponential").count(), 1, "{text}");
    let (once, twice) = f.call(&wave(&[4])).unwrap();
    let doubled: Vec<f64> = once.to_f64s().unwrap().iter().map(|v| 2.0 * v).collect();
    assert_eq!(twice.to_f64s().unwrap(), doubled);
}

#[test]
fn integers_and_structures_pass_through() {
    let f = jit(|x: Tensor, i: Tensor| {
        let (y, back) = vjp(|(x, i): (Tensor, Tensor)| (&x * i.to(F64), i + 1), (x, i.clone()));
        let (dx, di) = back((y.0.ones_like(), i));
        (y.1, dx, di)
    });
    let (i, dx, di) = f.call((&wave(&[2]), &Array::from([3i32, 4]))).unwrap();
    assert_eq!(i.to_vec::<i32>().unwrap(), [4, 5]);
    assert_eq!(dx.to_vec::<f64>().unwrap(), [3.0, 4.0]);
    assert_eq!(di.to_vec::<i32>().unwrap(), [0, 0]);
}

#[test]
fn a_cotangent_of_another_shape_is_an_error() {
    let f = jit(|x: Tensor| {
        let (_, back) = vjp(|x: Tensor| x.sum(&[0]), x.clone());
        back(x)
    });
    let error = f.call(&wave(&[3, 2])).unwrap_err().to_string();
    assert!(error.starts_with("vjp: the cotangent is [f64[3, 2]], the result of the function [f64[2]]"), "{error}");
    let f = jit(|x: Tensor| jvp(|x: Tensor| x.sin(), x.clone(), x.sum(&[0])));
    let error = f.call(&wave(&[3, 2])).unwrap_err().to_string();
    assert!(error.contains("the tangent is [f64[2]]"), "{error}");
}

fn block(x: &Tensor, w: &Tensor) -> Tensor {
    x.matmul(w).tanh().matmul(w.t()).tanh() + x
}

fn deep(keep: bool) -> impl Fn(Tensor, Tensor) -> Tensor {
    move |x, w| {
        let mut x = x;
        for _ in 0..12 {
            x = if keep { block(&x, &w) } else { checkpoint(|x: Tensor| block(&x, &w), x) };
        }
        x.square().mean_all()
    }
}

#[test]
fn checkpoint_keeps_the_gradient_and_lowers_the_peak() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let step = |keep: bool| {
        jit(move |x: Tensor, w: Tensor| grad(|w: Tensor| deep(keep)(x, w), w)).on(&mesh).in_shardings([P!["x"], P![]])
    };
    let (x, w) = (wave(&[64, 4]), wave(&[4, 32]));
    let (kept, again) = (step(true), step(false));
    assert!(again.call((&x, &w)).unwrap().all_close(&kept.call((&x, &w)).unwrap(), 1e-12));
    let peak = |f: &Plan| f.peak.bytes;
    let (kept, again) = (peak(&kept.plan((&x, &w)).unwrap()), peak(&again.plan((&x, &w)).unwrap()));
    assert!(2 * again < kept, "{again} with checkpoints, {kept} without");
}

#[test]
fn checkpoint_works_in_loops_and_twice() {
    let f = |remat: bool| {
        move |x: Tensor| {
            let step = move |x: Tensor| x.sin() * x.exp();
            let y = for_loop(0..3, x, |_, x| if remat { checkpoint(step, x) } else { step(x) });
            y.sum_all()
        }
    };
    let slope = |remat: bool| {
        jit(move |x: Tensor| {
            let inner = move |x: Tensor| grad(f(remat), x).square().sum_all();
            (grad(f(remat), x.clone()), grad(inner, x.clone()), jvp(f(remat), x.clone(), x.cos()).1)
        })
    };
    let x = Array::from([0.3, -0.2]);
    let (a, b, c) = slope(true).call(&x).unwrap();
    let (d, e, f) = slope(false).call(&x).unwrap();
    assert!(a.all_close(&d, 1e-12) && b.all_close(&e, 1e-12) && c.all_close(&f, 1e-12));
}

#[test]
fn checkpoint_without_a_gradient_changes_nothing() {
    let x = wave(&[4]);
    let plain = jit(|x: Tensor| x.sin().cos()).lower(&x).unwrap().text();
    let marked = jit(|x: Tensor| checkpoint(|x: Tensor| x.sin().cos(), x)).lower(&x).unwrap().text();
    assert_eq!(plain, marked);
}

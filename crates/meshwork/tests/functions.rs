//! Functions compared with those of JAX and Optax, recorded by bench/record_functions.py: on one device, on four, as
//! derivatives, and of many examples at once.
#![cfg(feature = "npz")]

#[path = "functions/algebra.rs"]
mod algebra;
#[path = "functions/arrays.rs"]
mod arrays;
#[path = "functions/elementwise.rs"]
mod elementwise;
#[path = "functions/networks.rs"]
mod networks;
#[path = "functions/randoms.rs"]
mod randoms;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use meshwork::load_npz;
use meshwork::prelude::*;

type Function = fn(&[Tensor]) -> Vec<Tensor>;

/// What holds of a function beside its values.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Its first argument is of floats, and its results are smooth there.
    Smooth,
    /// No derivative is looked at.
    Plain,
    /// It takes a key first, or has no argument to split.
    Whole,
}

struct Case {
    name: &'static str,
    f: Function,
    kind: Kind,
    /// How far values may be from JAX's, relative to the largest.
    near: f64,
}

const fn smooth(name: &'static str, f: Function) -> Case {
    Case { name, f, kind: Kind::Smooth, near: 2e-5 }
}

const fn plain(name: &'static str, f: Function) -> Case {
    Case { name, f, kind: Kind::Plain, near: 2e-5 }
}

const fn whole(name: &'static str, f: Function) -> Case {
    Case { name, f, kind: Kind::Whole, near: 2e-5 }
}

impl Case {
    const fn near(self, near: f64) -> Case {
        Case { near, ..self }
    }

    fn arrays(&self, letter: char) -> Vec<Array> {
        let names = (0..).map(|i| format!("{}/{letter}{i}", self.name));
        names.map_while(|name| RECORD.get(&name).cloned()).collect()
    }
}

fn cases() -> impl Iterator<Item = &'static Case> {
    [elementwise::CASES, arrays::CASES, algebra::CASES, networks::CASES, randoms::CASES].into_iter().flatten()
}

static RECORD: LazyLock<BTreeMap<String, Array>> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/functions.npz");
    load_npz(path).expect("the recorded values").into_iter().collect()
});

/// The numbers of an array; of complex ones both parts.
fn numbers(x: &Array) -> Vec<f64> {
    let literal = x.literal().expect("numbers");
    (0..literal.len())
        .flat_map(|i| {
            let (re, im) = literal.get(i).as_complex();
            if literal.elem().is_complex() { vec![re, im] } else { vec![re] }
        })
        .collect()
}

/// What differs, relative to the largest number; NaN is NaN, and infinities are themselves.
fn difference(got: &Array, want: &Array, near: f64) -> Option<String> {
    if got.shape() != want.shape() {
        return Some(format!("shape {:?}, not {:?}", got.shape(), want.shape()));
    }
    let (g, w) = (numbers(got), numbers(want));
    let largest = w.iter().filter(|x| x.is_finite()).fold(1.0, |m: f64, x| m.max(x.abs()));
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= near * largest;
    let at = (0..g.len()).find(|&i| !same(g[i], w[i]))?;
    Some(format!("element {at} of {} is {}, not {}", g.len(), g[at], w[at]))
}

/// Collects what differs, so that one run shows all of it.
fn check(cases: impl Iterator<Item = &'static Case>, test: impl Fn(&Case) -> Vec<String>) {
    let found: Vec<String> =
        cases.flat_map(|c| test(c).into_iter().map(|what| format!("{}: {what}", c.name)).collect::<Vec<_>>()).collect();
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

fn compare(got: meshwork::Result<Vec<Array>>, wants: &[Array], near: f64) -> Vec<String> {
    match got {
        Err(e) => vec![e.to_string()],
        Ok(got) if got.len() != wants.len() => vec![format!("{} results, not {}", got.len(), wants.len())],
        Ok(got) => got.iter().zip(wants).filter_map(|(g, w)| difference(g, w, near)).collect(),
    }
}

#[test]
fn values_are_those_of_jax() {
    let mut names: Vec<&str> = RECORD.keys().filter_map(|k| k.rsplit_once('/')).map(|(name, _)| name).collect();
    names.dedup();
    let missing: Vec<&str> = names.into_iter().filter(|name| !cases().any(|c| c.name == *name)).collect();
    assert!(missing.is_empty(), "recorded and not tested: {missing:?}");
    check(cases(), |case| {
        let f = case.f;
        compare(jit(move |xs: Vec<Tensor>| f(&xs)).call(&case.arrays('x')), &case.arrays('y'), case.near)
    });
}

#[test]
fn four_devices_give_the_same() {
    let mesh = Mesh::linear("x", 4).expect("a mesh");
    let split = |case: &&Case| case.kind != Kind::Whole && case.arrays('x').iter().any(|x| !x.shape().is_empty());
    check(cases().filter(split), |case| {
        let f = case.f;
        let xs = case.arrays('x').into_iter().map(|x| match x.shape() {
            [] => Ok(x),
            _ => x.shard(&mesh, P!["x"]),
        });
        let xs: Vec<Array> = xs.collect::<Result<_, _>>().expect("placed arrays");
        compare(jit(move |xs: Vec<Tensor>| f(&xs)).call(&xs), &case.arrays('y'), case.near)
    });
}

/// The first argument in `f64`, the others as they are or in `f64` too if they are floats.
fn wide(xs: &[Tensor]) -> Vec<Tensor> {
    xs.iter().map(|x| if x.dtype() == F32 { x.to(F64) } else { x.clone() }).collect()
}

/// Weights that tell results and their elements apart.
fn weighed(ys: &[Tensor]) -> Tensor {
    let mut sum = zeros((), F64);
    for (i, y) in ys.iter().filter(|y| y.dtype() == F64).enumerate() {
        let weights = (arange(y.size(), F64) * 1.3 + i as f64).cos().reshape(y.shape());
        sum += (y * weights).sum_all();
    }
    sum
}

#[test]
fn slopes_are_differences() {
    check(cases().filter(|c| c.kind == Kind::Smooth), |case| {
        let f = case.f;
        let program = jit(move |xs: Vec<Tensor>| {
            let xs = wide(&xs);
            let others = xs[1..].to_vec();
            let value = |x: Tensor| weighed(&f(&[vec![x], others.clone()].concat()));
            let direction = (arange(xs[0].size(), F64) * 0.7 + 0.2).sin().reshape(xs[0].shape());
            let (_, forward) = jvp(value, xs[0].clone(), direction.clone());
            let backward = (grad(value, xs[0].clone()) * &direction).sum_all();
            let step = 1e-5;
            let around = value(&xs[0] + &direction * step) - value(&xs[0] - &direction * step);
            (forward, backward, around / (2.0 * step))
        });
        match program.call(&case.arrays('x')) {
            Err(e) => vec![e.to_string()],
            Ok((forward, backward, around)) => {
                let far = |x: &Array| difference(x, &around, 1e-5);
                let forward = far(&forward).map(|what| format!("forward: {what}"));
                forward.into_iter().chain(far(&backward).map(|what| format!("backward: {what}"))).collect()
            }
        }
    });
}

#[test]
fn many_examples_are_each_for_itself() {
    check(cases().filter(|c| c.kind == Kind::Smooth), |case| {
        let f = case.f;
        let program = jit(move |xs: Vec<Tensor>| {
            let others = xs[1..].to_vec();
            let of = |x: Tensor| f(&[vec![x], others.clone()].concat());
            let (a, b) = (xs[0].clone(), &xs[0] * 0.9);
            let both = vmap(of, meshwork::prelude::stack(&[a.clone(), b.clone()], 0));
            let apart: Vec<Tensor> = of(a).iter().zip(&of(b)).map(|(a, b)| stack(&[a.clone(), b.clone()], 0)).collect();
            (both, apart)
        });
        match program.call(&case.arrays('x')) {
            Err(e) => vec![e.to_string()],
            Ok((both, apart)) => compare(Ok(both), &apart, case.near),
        }
    });
}

/// Second derivatives go through the rules of functions that have their own.
#[test]
fn second_derivatives_of_linear_algebra() {
    use meshwork::{custom_jvp, custom_vjp, hessian, jacfwd, jacrev, linalg};
    let f = |x: Tensor| linalg::slogdet(&x.reshape([2, 2])).1 + linalg::inv(&x.reshape([2, 2])).sum_all();
    let program = jit(move |x: Tensor| {
        let slope = |x: Tensor| grad(f, x);
        let step = 1e-5;
        let unit = eye(4, F64);
        let rows: Vec<Tensor> = (0..4)
            .map(|i| {
                let e = unit.slice(s![i]) * step;
                (slope(&x + &e) - slope(&x - &e)) / (2.0 * step)
            })
            .collect();
        (hessian(f, x.clone()), stack(&rows, 0), jacfwd(slope, x.clone()), jacrev(slope, x))
    });
    let x = Array::from([2.0f64, 0.3, -0.4, 1.5]);
    let (hessian, rows, forward, backward) = program.call(&x).expect("derivatives");
    for found in [&hessian, &forward, &backward] {
        assert!(found.all_close(&rows, 1e-5), "{found} differs from {rows}");
    }
    // A function and a rule, twice.
    let cube = |x: Tensor| custom_jvp(|x: Tensor| &x * &x * &x, |x, _, dx| x.square() * 3.0 * dx, x);
    let other = |x: Tensor| custom_vjp(|x: Tensor| &x * &x * &x, |x, _, dy| x.square() * 3.0 * dy, x);
    let second = jit(move |x: Tensor| {
        let twice =
            |f: &dyn Fn(Tensor) -> Tensor| grad(|x: Tensor| grad(|x: Tensor| f(x).sum_all(), x).sum_all(), x.clone());
        let mapped = vmap(|x: Tensor| grad(|x: Tensor| grad(cube, x), x), x.clone());
        (twice(&cube), twice(&other), jvp(other, x.clone(), x.ones_like()).1, mapped)
    });
    let x = Array::from([1.0f64, 2.0]);
    let (a, b, c, d) = second.call(&x).expect("derivatives");
    for found in [a, b, d] {
        assert_eq!(found.to_vec::<f64>().expect("numbers"), [6.0, 12.0]);
    }
    assert_eq!(c.to_vec::<f64>().expect("numbers"), [3.0, 12.0]);
}

#[test]
fn a_rule_that_captures_is_refused() {
    let f = jit(|x: Tensor| {
        let y = x.sin();
        grad(|x: Tensor| meshwork::custom_vjp(|x: Tensor| x * &y, |_, _, dy| dy, x).sum_all(), x.clone())
    });
    let error = f.call(&Array::from([1.0f32])).expect_err("it captures").to_string();
    assert!(error.contains("custom_vjp") && error.contains("make it part of its argument"), "{error}");
}

//! Runs a program on one device and partitioned, and compares.
#![allow(dead_code)] // each test binary uses a part

use meshwork_ir::{ElementType, Literal, Module, Type, eval, text};
use meshwork_partition::{Partitioned, partition, prepare, run};

/// Inputs for the entry function of `module`: small distinct numbers, exact in every type.
pub fn inputs(module: &Module) -> Vec<Literal> {
    let func = module.entry().expect("a function");
    let types = module.func_type(func).inputs;
    types.iter().enumerate().map(|(k, ty)| input(ty, k as i64)).collect()
}

fn input(ty: &Type, seed: i64) -> Literal {
    let t = ty.as_tensor().expect("a tensor");
    let n = t.num_elements().expect("static");
    let value = |i: i64| ((i * 7 + seed * 3) % 23 - 5) as f64;
    match t.elem {
        ElementType::I1 => {
            Literal::from_bytes(t.dims.iter().copied(), t.elem, (0..n).map(|i| (i % 3 == 0) as u8).collect())
                .expect("one byte an element")
        }
        elem if elem.is_integer() => {
            let values: Vec<i64> = (0..n).map(|i| (value(i) as i64).abs()).collect();
            Literal::from_i64s(t.dims.iter().copied(), elem, &values).expect("fits")
        }
        elem => {
            let values: Vec<f64> = (0..n).map(|i| value(i) / 4.0).collect();
            Literal::from_f64s(t.dims.iter().copied(), elem, &values).expect("fits")
        }
    }
}

/// Places and partitions `source`.
pub fn split(source: &str) -> (Module, Partitioned) {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
    let mut placed = module.clone();
    meshwork_propagate::place(&mut placed).unwrap_or_else(|d| panic!("{d:?}\n{}", text::print(&module)));
    prepare(&mut placed);
    let program = partition(&placed).unwrap_or_else(|e| panic!("{e}\n{}", text::print(&placed)));
    (module, program)
}

/// Asserts that `source` gives the same on one device and partitioned. Returns the partitioned program.
pub fn check(source: &str) -> Partitioned {
    let (module, program) = split(source);
    let inputs = inputs(&module);
    let expected = eval::run(&module, None, &inputs).unwrap_or_else(|e| panic!("{e}"));
    let types: Vec<Type> = expected.iter().map(Literal::ty).collect();
    let got = run::run(&program, &inputs, &types).unwrap_or_else(|e| panic!("{e}\n{}", text::print(&program.module)));
    for (i, (a, b)) in expected.iter().zip(&got).enumerate() {
        assert!(close(a, b), "result {i}: expected {:?}\ngot {:?}\n{}", show(a), show(b), text::print(&program.module));
    }
    program
}

fn show(l: &Literal) -> String {
    if l.elem().is_integer() {
        format!("{:?}", (0..l.len()).map(|i| l.get_i64(i)).collect::<Vec<_>>())
    } else {
        format!("{:?}", l.to_f64s())
    }
}

/// Equal by bits for anything but floats; floats within rounding of another order of summation.
pub fn close(a: &Literal, b: &Literal) -> bool {
    if !a.elem().is_float() && !a.elem().is_complex() {
        return a == b;
    }
    let (x, y) = (a.to_f64s(), b.to_f64s());
    let scale = x.iter().filter(|v| v.is_finite()).fold(1.0f64, |m, v| m.max(v.abs()));
    x.len() == y.len()
        && x.iter().zip(&y).all(|(p, q)| p == q || (p.is_nan() && q.is_nan()) || (p - q).abs() <= 1e-5 * scale)
}

/// Kind and operand bytes of each collective, with how often it runs.
pub fn collectives(program: &Partitioned) -> Vec<(&'static str, i64, i64)> {
    program
        .plan
        .collectives
        .iter()
        .map(|c| (c.collective.kind.name(), c.collective.operand_bytes, c.collective.times))
        .collect()
}

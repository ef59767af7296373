//! The check: `vmap` of a program equals the stacked results of single runs.

use meshwork_autodiff::{BatchOptions, vmap};
use meshwork_eval as eval;
use meshwork_ir::{ElementType, Literal, Module, Type, text, verify};

/// A program from the arguments, body and results of its function; `$` stands for `stablehlo.`.
pub fn program(signature: &str, body: &str) -> Module {
    let source = format!("func.func @main{signature} {{\n{body}\n}}\n").replace('$', "stablehlo.");
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e:?} in\n{source}"));
    assert_eq!(verify::verify(&module), [], "{source}");
    module
}

/// The numbers of an example: floats in (0.1, 1.9), small integers, booleans.
fn example(ty: &Type, seed: u64) -> Literal {
    let t = ty.as_tensor().expect("a tensor");
    let count = t.num_elements().expect("static") as usize;
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let values: Vec<f64> = (0..count)
        .map(|_| match t.elem {
            ElementType::I1 => (next() * 2.0).floor(),
            e if e.is_float() => 0.1 + 1.8 * next(),
            _ => (next() * 5.0).floor(),
        })
        .collect();
    Literal::from_f64s(t.dims.iter().copied(), t.elem, &values).expect("the count fits")
}

/// Examples along a new dimension `axis`.
fn stack(parts: &[Literal], ty: &Type, axis: usize) -> Literal {
    let mut dims = ty.dims().to_vec();
    let outer: usize = dims[..axis].iter().product::<i64>() as usize;
    dims.insert(axis, parts.len() as i64);
    let elem = ty.elem().expect("a tensor");
    let chunk = dims[axis + 1..].iter().product::<i64>() as usize * elem.storage_bytes();
    let mut bytes = vec![];
    for o in 0..outer {
        for part in parts {
            bytes.extend_from_slice(&part.bytes()[o * chunk..(o + 1) * chunk]);
        }
    }
    Literal::from_bytes(dims, elem, bytes).expect("the pieces fit")
}

/// Checks `@main` for every non-empty choice of batched arguments, 3 examples, along the first and the last dimension.
pub fn check(module: &Module) {
    check_with(module, example);
}

/// [`check`] with arguments that `make` makes from a type and a number.
pub fn check_with(module: &Module, make: impl Fn(&Type, u64) -> Literal) {
    const SIZE: usize = 3;
    let func = module.entry().expect("a function");
    let ty = module.func_type(func);
    let count = ty.inputs.len();
    for choice in 1..1u32 << count {
        let on = |i: usize| choice & (1 << i) != 0;
        for last in [false, true] {
            let axis = |ty: &Type| if last { ty.dims().len() } else { 0 };
            let examples: Vec<Vec<Literal>> = (0..SIZE)
                .map(|n| {
                    let seed = |i: usize| if on(i) { 100 * (n as u64 + 1) + i as u64 } else { i as u64 };
                    ty.inputs.iter().enumerate().map(|(i, ty)| make(ty, seed(i))).collect()
                })
                .collect();
            let single: Vec<Vec<Literal>> =
                examples.iter().map(|args| eval::run(module, None, args).expect("the program runs")).collect();
            let args: Vec<Literal> = (0..count)
                .map(|i| {
                    let parts: Vec<Literal> = examples.iter().map(|e| e[i].clone()).collect();
                    if on(i) { stack(&parts, &ty.inputs[i], axis(&ty.inputs[i])) } else { parts[0].clone() }
                })
                .collect();
            let options = BatchOptions {
                size: SIZE as i64,
                in_axes: (0..count).map(|i| on(i).then(|| axis(&ty.inputs[i]))).collect(),
                out_axes: ty.results.iter().map(|ty| Some(axis(ty))).collect(),
                ..BatchOptions::default()
            };
            let wide = vmap(module, "main", &options).unwrap_or_else(|e| panic!("{e}\n{}", text::print(module)));
            let shown =
                || format!("arguments {choice:b}, last: {last}\n{}\n{}", text::print(module), text::print(&wide));
            assert_eq!(verify::verify(&wide), [], "{}", shown());
            let got = eval::run(&wide, None, &args).unwrap_or_else(|e| panic!("{e}\n{}", shown()));
            for (i, ty) in ty.results.iter().enumerate() {
                let parts: Vec<Literal> = single.iter().map(|r| r[i].clone()).collect();
                let want = stack(&parts, ty, axis(ty));
                assert_eq!(got[i].dims(), want.dims(), "{}", shown());
                if ty.elem().is_some_and(|e| e.is_float()) {
                    for (a, b) in got[i].to_f64s().iter().zip(want.to_f64s()) {
                        let close = (a - b).abs() <= 1e-12 * (1.0 + b.abs()) || (a.is_nan() && b.is_nan()) || *a == b;
                        assert!(close, "result {i}: {a} instead of {b}; {}", shown());
                    }
                } else {
                    assert_eq!(got[i], want, "result {i}; {}", shown());
                }
            }
        }
    }
}

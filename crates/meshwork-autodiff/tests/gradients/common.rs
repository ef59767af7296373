//! Gradients against central finite differences in f64 on the reference evaluator.

use meshwork_autodiff::{GradOptions, jvp, vjp};
use meshwork_eval as eval;
use meshwork_ir::{ElementType, Literal, Module, Type, text, verify};

/// A program from the arguments, body and results of its function; `$` stands for `stablehlo.`.
pub fn program(signature: &str, body: &str) -> Module {
    let source = format!("func.func @main{signature} {{\n{body}\n}}\n").replace('$', "stablehlo.");
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e:?} in\n{source}"));
    assert_eq!(verify::verify(&module), [], "{source}");
    module
}

/// Numbers between `low` and `high` that follow no pattern.
fn numbers(count: usize, seed: u64, low: f64, high: f64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (high - low) * ((state >> 11) as f64 / (1u64 << 53) as f64)
    };
    (0..count).map(|_| next()).collect()
}

fn literal(ty: &Type, seed: u64, (low, high): (f64, f64)) -> Literal {
    let t = ty.as_tensor().expect("a tensor");
    let count = t.num_elements().expect("static") as usize;
    let values = match t.elem {
        ElementType::F64 => numbers(count, seed, low, high),
        _ => panic!("give {ty} as a constant"),
    };
    Literal::from_f64s(t.dims.iter().copied(), t.elem, &values).expect("the count fits")
}

/// Checks the gradients of all f64 arguments of `@main`, drawn between `low` and `high`, for random cotangents.
pub fn check_in(module: &Module, range: (f64, f64)) {
    let func = module.entry().expect("a function");
    let ty = module.func_type(func);
    let args: Vec<Literal> = ty.inputs.iter().zip(1..).map(|(ty, seed)| literal(ty, seed, range)).collect();
    check_at(module, &args);
}

/// Checks the gradients at arguments between -1 and 1.
pub fn check(module: &Module) {
    check_in(module, (-1.0, 1.0));
}

/// Checks the gradients at these arguments.
pub fn check_at(module: &Module, args: &[Literal]) {
    let func = module.entry().expect("a function");
    let ty = module.func_type(func);
    let is_float = |ty: &&Type| ty.elem() == Some(ElementType::F64);
    let cts: Vec<Literal> =
        ty.results.iter().filter(is_float).zip(100..).map(|(ty, seed)| literal(ty, seed, (-1.0, 1.0))).collect();
    let wrt: Vec<usize> = (0..args.len()).filter(|&i| args[i].elem() == ElementType::F64).collect();
    let back = vjp(module, "main", &GradOptions { wrt: wrt.clone(), keep_value: false })
        .unwrap_or_else(|e| panic!("{e}\n{}", text::print(module)));
    assert_eq!(verify::verify(&back), [], "{}", text::print(&back));
    let all: Vec<Literal> = args.iter().chain(&cts).cloned().collect();
    let gradients = eval::run(&back, None, &all).unwrap_or_else(|e| panic!("{e}\n{}", text::print(&back)));
    check_forward(module, args, &wrt, &cts, &gradients);
    let value = |args: &[Literal]| -> f64 {
        let out = eval::run(module, None, args).expect("the program runs");
        let floats = out.iter().filter(|l| l.elem() == ElementType::F64);
        floats.zip(&cts).map(|(y, ct)| y.to_f64s().iter().zip(ct.to_f64s()).map(|(a, b)| a * b).sum::<f64>()).sum()
    };
    for (&arg, gradient) in wrt.iter().zip(&gradients) {
        assert_eq!(gradient.dims(), args[arg].dims());
        for (i, &got) in gradient.to_f64s().iter().enumerate() {
            let step = 1e-5;
            let moved = |by: f64| {
                let mut args = args.to_vec();
                let mut values = args[arg].to_f64s();
                values[i] += by;
                args[arg] = Literal::from_f64s(args[arg].dims().to_vec(), ElementType::F64, &values).expect("fits");
                value(&args)
            };
            let want = (moved(step) - moved(-step)) / (2.0 * step);
            let close = (got - want).abs() <= 1e-6 * (1.0 + want.abs());
            assert!(
                close,
                "argument {arg}, element {i}: {got}, but finite differences say {want}\n{}\n{}",
                text::print(module),
                text::print(&back)
            );
        }
    }
}

/// Forward mode gives the transpose of what reverse mode gave.
fn check_forward(module: &Module, args: &[Literal], wrt: &[usize], cts: &[Literal], gradients: &[Literal]) {
    let ahead = jvp(module, "main", &GradOptions { wrt: wrt.to_vec(), keep_value: false })
        .unwrap_or_else(|e| panic!("{e}\n{}", text::print(module)));
    assert_eq!(verify::verify(&ahead), [], "{}", text::print(&ahead));
    let tangents: Vec<Literal> =
        wrt.iter().zip(200..).map(|(&i, seed)| literal(&args[i].ty(), seed, (-1.0, 1.0))).collect();
    let all: Vec<Literal> = args.iter().chain(&tangents).cloned().collect();
    let moved = eval::run(&ahead, None, &all).unwrap_or_else(|e| panic!("{e}\n{}", text::print(&ahead)));
    let dot = |a: &[Literal], b: &[Literal]| -> f64 {
        let pairs = a.iter().zip(b).flat_map(|(a, b)| a.to_f64s().into_iter().zip(b.to_f64s()));
        pairs.map(|(a, b)| a * b).sum()
    };
    let floats: Vec<Literal> = moved.into_iter().filter(|l| l.elem() == ElementType::F64).collect();
    let (forward, back) = (dot(&floats, cts), dot(&tangents, gradients));
    assert!(
        (forward - back).abs() <= 1e-8 * (1.0 + back.abs()),
        "forward {forward}, back {back}\n{}",
        text::print(&ahead)
    );
}

/// Checks that the products of tangents and of cotangents with the derivative are transposes of each other, at
/// random arguments, tangents and cotangents, all f64.
pub fn check_transposed(module: &Module) {
    let ty = module.func_type(module.entry().expect("a function"));
    let draw = |types: &[Type], seed: u64| -> Vec<Literal> {
        types.iter().zip(seed..).map(|(ty, seed)| literal(ty, seed, (-1.0, 1.0))).collect()
    };
    let (args, tangents, cts) = (draw(&ty.inputs, 1), draw(&ty.inputs, 50), draw(&ty.results, 100));
    let options = GradOptions { wrt: (0..args.len()).collect(), keep_value: false };
    let run = |module: Result<Module, meshwork_autodiff::GradError>, with: &[Literal]| {
        let module = module.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(verify::verify(&module), [], "{}", text::print(&module));
        let all: Vec<Literal> = args.iter().chain(with).cloned().collect();
        eval::run(&module, None, &all).unwrap_or_else(|e| panic!("{e}\n{}", text::print(&module)))
    };
    let dot = |a: &[Literal], b: &[Literal]| -> f64 {
        let pairs = a.iter().zip(b).flat_map(|(a, b)| a.to_f64s().into_iter().zip(b.to_f64s()));
        pairs.map(|(a, b)| a * b).sum()
    };
    let moved = run(jvp(module, "main", &options), &tangents);
    let gradients = run(vjp(module, "main", &options), &cts);
    assert_eq!(moved.len(), cts.len());
    let (forward, back) = (dot(&moved, &cts), dot(&tangents, &gradients));
    assert!((forward - back).abs() <= 1e-9 * (1.0 + back.abs()), "forward {forward}, back {back}");
}

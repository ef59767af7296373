//! How fast modules are parsed, printed, built and verified.
//!
//! Two inputs: a module of ten megabytes of text with the operations of a training step, and a module of 100,000
//! operations built in memory. Each time is the best of five, and counts only what the thread spent on a processor
//! where the system reports it (Linux), so that other work on the machine matters little.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use meshwork_ir::op::{BinaryOp, ControlOp};
use meshwork_ir::text::{PrintOptions, parse, print, print_with};
use meshwork_ir::verify::verify;
use meshwork_ir::{ElementType, FuncSig, FunctionType, Module, OpKind, OpSpec, Type, same};

use crate::timing::on_processor;

const BYTES: usize = 10_000_000;
const OPS: usize = 100_000;
const ROUNDS: usize = 5;

/// Prints a table of times; fails if a module does not survive the way through text.
pub fn run() -> ExitCode {
    let source = training_steps(BYTES);
    let (module, read) = best(|| parse(&source));
    let module = match module {
        Ok(module) => module,
        Err(error) => {
            eprintln!("{}", error.render("generated", &source));
            return ExitCode::FAILURE;
        }
    };
    let (pretty, write) = best(|| print(&module));
    let (generic, write_generic) = best(|| print_with(&module, &PrintOptions { generic: true, locations: false }));
    let (_, read_generic) = best(|| parse(&generic));
    println!("training steps, {} operations", module.op_slots());
    row("parse", read, source.len());
    row("print", write, pretty.len());
    row("parse generic", read_generic, generic.len());
    row("print generic", write_generic, generic.len());

    let (chain, build) = best(|| chain(OPS));
    let (problems, check) = best(|| verify(&chain));
    let (text, write) = best(|| print(&chain));
    let (_, read) = best(|| parse(&text));
    println!("chain, {OPS} operations");
    row("build", build, text.len());
    row("verify", check, text.len());
    row("print", write, text.len());
    row("parse", read, text.len());

    if let Some(problem) = problems.first() {
        eprintln!("the built module is not valid: {problem}");
        return ExitCode::FAILURE;
    }
    let back = parse(&pretty).map_err(|e| e.to_string()).and_then(|again| same(&module, &again));
    if let Err(difference) = back {
        eprintln!("printed text reads as another module: {difference}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn row(what: &str, time: Duration, bytes: usize) {
    let rate = bytes as f64 / 1e6 / time.as_secs_f64();
    println!("  {what:<14} {:8.1} ms  {rate:8.1} MB/s", time.as_secs_f64() * 1e3);
}

fn best<T>(mut work: impl FnMut() -> T) -> (T, Duration) {
    let mut fastest = Duration::MAX;
    let mut result = None;
    for _ in 0..ROUNDS {
        // Freeing the last result is not part of the work.
        drop(result.take());
        let (made, spent) = on_processor(&mut work);
        result = Some(made);
        fastest = fastest.min(spent);
    }
    (result.expect("there is at least one round"), fastest)
}

/// Functions of one layer each, forward and a loop, until the text has `bytes` bytes.
fn training_steps(bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 10_000);
    out.push_str("module @steps attributes {mhlo.num_partitions = 8 : i32} {\n");
    out.push_str("  sdy.mesh @mesh = <[\"data\"=4, \"model\"=2]>\n");
    let mut i = 0;
    while out.len() < bytes {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}", LAYER.replace("NAME", &format!("layer_{i}")));
        i += 1;
    }
    out.push_str("}\n");
    out
}

const LAYER: &str = r#"  func.func private @NAME(%arg0: tensor<128x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, %arg1: tensor<512x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}, %arg2: tensor<2048xf32>, %arg3: tensor<2048x512xf32>) -> (tensor<128x512xf32> {jax.result_info = "result"}, tensor<f32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %cst_1 = stablehlo.constant dense<[1.000000e+00, 0.699999988, 2.500000e-01, 3.14159274]> : tensor<4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_2 = stablehlo.constant dense<16> : tensor<i32>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x512xf32>, tensor<512x2048xf32>) -> tensor<128x2048xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<2048xf32>) -> tensor<128x2048xf32>
    %2 = stablehlo.add %0, %1 : tensor<128x2048xf32>
    %3 = stablehlo.multiply %2, %2 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"data"}, {"model"}]>]>} : tensor<128x2048xf32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<128x2048xf32>
    %5 = stablehlo.multiply %3, %4 : tensor<128x2048xf32>
    %6 = stablehlo.tanh %5 : tensor<128x2048xf32>
    %7 = stablehlo.compare GT, %6, %4, FLOAT : (tensor<128x2048xf32>, tensor<128x2048xf32>) -> tensor<128x2048xi1>
    %8 = stablehlo.select %7, %6, %5 : tensor<128x2048xi1>, tensor<128x2048xf32>
    %9 = stablehlo.dot_general %8, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<128x2048xf32>, tensor<2048x512xf32>) -> tensor<128x512xf32>
    %10 = stablehlo.slice %9 [0:128:2, 0:256] : (tensor<128x512xf32>) -> tensor<64x256xf32>
    %11 = stablehlo.transpose %9, dims = [1, 0] : (tensor<128x512xf32>) -> tensor<512x128xf32>
    %12 = stablehlo.reshape %11 : (tensor<512x128xf32>) -> tensor<65536xf32>
    %13 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<128x512xf32>, tensor<f32>) -> tensor<f32>
    %14:2 = stablehlo.while(%iterArg = %c, %iterArg_3 = %9) : tensor<i32>, tensor<128x512xf32>
    cond {
      %15 = stablehlo.compare LT, %iterArg, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %15 : tensor<i1>
    } do {
      %c_4 = stablehlo.constant dense<1> : tensor<i32>
      %15 = stablehlo.add %iterArg, %c_4 : tensor<i32>
      %16 = stablehlo.negate %iterArg_3 : tensor<128x512xf32>
      stablehlo.return %15, %16 : tensor<i32>, tensor<128x512xf32>
    }
    return %14#1, %13 : tensor<128x512xf32>, tensor<f32>
  }"#;

/// One function of `ops` operations, each on the result of the one before.
fn chain(ops: usize) -> Module {
    let ty = Type::tensor([64, 64], ElementType::F32);
    let mut module = Module::new();
    let sig = FunctionType { inputs: vec![ty.clone()], results: vec![ty.clone()] };
    let func = module.add_func(FuncSig { name: "main".into(), ty: sig, visibility: None });
    let body = module.body_of(func, 0).expect("a new function has a body");
    let input = module.block(body).args()[0];
    let mut last = input;
    for i in 0..ops {
        let kind = [
            OpKind::Binary(BinaryOp::Add),
            OpKind::Binary(BinaryOp::Multiply),
            OpKind::Binary(BinaryOp::Subtract),
            OpKind::Binary(BinaryOp::Maximum),
        ][i % 4];
        let op = module.push(body, OpSpec::new(kind).operands([last, input]).results([ty.clone()]));
        last = module.result(op);
    }
    module.push(body, OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands([last]));
    module
}

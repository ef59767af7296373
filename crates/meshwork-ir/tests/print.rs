//! The text of `tests/printed` is a fixed point: each file reads as a module that prints as that same file.
//!
//! The files are as MLIR's own printer writes them. `NAME.generic.mlir` is the generic form of `NAME.mlir`.

use std::fs;
use std::path::{Path, PathBuf};

use meshwork_ir::op::{BinaryOp, ControlOp};
use meshwork_ir::text::{PrintOptions, parse, print, print_op, print_with};
use meshwork_ir::{Module, OpKind, Walk, same};

const GENERIC: PrintOptions = PrintOptions { generic: true, locations: false };
const LOCATED: PrintOptions = PrintOptions { generic: false, locations: true };

/// The pretty files, with their text.
fn cases() -> Vec<(PathBuf, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/printed");
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| !f.to_string_lossy().ends_with(".generic.mlir"));
    files.sort();
    assert!(files.len() >= 5, "the golden files are there");
    files.into_iter().map(|f| (f.clone(), fs::read_to_string(f).unwrap())).collect()
}

fn read(text: &str) -> Module {
    parse(text).unwrap_or_else(|e| panic!("{}", e.render("text", text)))
}

#[track_caller]
fn assert_lines(name: &Path, ours: &str, expected: &str) {
    for (i, (a, b)) in ours.lines().zip(expected.lines()).enumerate() {
        assert_eq!(a, b, "line {} of {}", i + 1, name.display());
    }
    assert_eq!(ours.len(), expected.len(), "length of {}", name.display());
}

#[test]
fn pretty_form_is_a_fixed_point() {
    for (name, text) in cases() {
        assert_lines(&name, &print(&read(&text)), &text);
    }
}

#[test]
fn generic_form_is_that_of_mlir() {
    for (name, text) in cases() {
        let golden = name.with_extension("generic.mlir");
        if !golden.exists() {
            // MLIR does not know the dialects of StableHLO's own tests.
            assert!(name.ends_with("check_forms.mlir"), "{} has no generic form", name.display());
            continue;
        }
        let expected = fs::read_to_string(&golden).unwrap();
        assert_lines(&golden, &print_with(&read(&text), &GENERIC), &expected);
    }
}

#[test]
fn every_form_reads_back_as_the_same_module() {
    for (name, text) in cases() {
        let module = read(&text);
        for options in [GENERIC, LOCATED] {
            let printed = print_with(&module, &options);
            assert_eq!(same(&module, &read(&printed)), Ok(()), "{} with {options:?}", name.display());
        }
    }
}

#[test]
fn locations_are_printed_in_place() {
    let text = r#"
        func.func @f(%arg0: tensor<f32> loc("x.py":1:2)) -> tensor<f32> {
          %0 = stablehlo.abs %arg0 : tensor<f32> loc(callsite("f"("x.py":3:4) at "y.py":5:6))
          %1 = stablehlo.abs %0 : tensor<f32> loc(fused["a", "b"("x.py":7:8)])
          return %1 : tensor<f32>
        }"#;
    let printed = print_with(&read(text), &LOCATED);
    for expected in [
        r#"(%arg0: tensor<f32> loc("x.py":1:2)) -> tensor<f32>"#,
        r#"tensor<f32> loc(callsite("f"("x.py":3:4) at "y.py":5:6))"#,
        r#"tensor<f32> loc(fused["a", "b"("x.py":7:8)])"#,
        "return %1 : tensor<f32> loc(unknown)",
    ] {
        assert!(printed.contains(expected), "{expected} in {printed}");
    }
}

#[test]
fn one_operation_keeps_the_names_of_its_function() {
    let text = "func.func @f(%a: tensor<i32>) -> tensor<i32> {
        %b = stablehlo.add %a, %a : tensor<i32>
        %c = stablehlo.multiply %b, %a : tensor<i32>
        return %c : tensor<i32>
    }";
    let module = read(text);
    let find = |kind| module.all_ops(Walk::PreOrder).into_iter().find(|&op| module.op(op).kind() == kind).unwrap();
    assert_eq!(
        print_op(&module, find(OpKind::Binary(BinaryOp::Multiply))),
        "%1 = stablehlo.multiply %0, %arg0 : tensor<i32>"
    );
    assert_eq!(print_op(&module, find(OpKind::Control(ControlOp::FuncReturn))), "return %1 : tensor<i32>");
}

#[test]
fn operations_without_a_pretty_form_are_printed_in_generic_form() {
    // No index at all; padding that is not pairs; a broken numbering of dimensions; attributes of a reducer.
    for (text, expected) in [
        (
            "func.func @f(%a: tensor<f32>) -> tensor<f32> {
               %0 = \"stablehlo.dynamic_slice\"(%a) <{slice_sizes = array<i64>}> : (tensor<f32>) -> tensor<f32>
               return %0 : tensor<f32>
             }",
            "\"stablehlo.dynamic_slice\"(%arg0) <{slice_sizes = array<i64>}> : (tensor<f32>) -> tensor<f32>",
        ),
        (
            "func.func @f(%a: tensor<4xf32>, %b: tensor<f32>) -> tensor<f32> {
               %0 = stablehlo.reduce(%a init: %b) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
                reducer(%x: tensor<f32>, %y: tensor<f32>) {
                 %1 = stablehlo.add %x, %y {kept} : tensor<f32>
                 stablehlo.return %1 : tensor<f32>
               }
               return %0 : tensor<f32>
             }",
            "stablehlo.add %arg2, %arg3 {kept} : tensor<f32>",
        ),
    ] {
        let module = read(text);
        let printed = print(&module);
        assert!(printed.contains(expected), "{expected} in {printed}");
        assert_eq!(same(&module, &read(&printed)), Ok(()));
    }
}

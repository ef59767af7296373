//! What the parser says about wrong programs, and where.

use meshwork_ir::Severity;
use meshwork_ir::text::parse;

#[track_caller]
fn fails(text: &str, want: &str) {
    match parse(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(e) => assert_eq!(e.to_string(), want),
    }
}

/// The body of a function of `%a: tensor<4xf32>` and `%i: tensor<i32>`, starting at line 2.
fn body(text: &str) -> String {
    format!("func.func @f(%a: tensor<4xf32>, %i: tensor<i32>) {{\n{text}\n  return\n}}")
}

#[test]
fn values() {
    fails(&body("%0 = stablehlo.abs %b : tensor<4xf32>"), "2:20: error: %b is used here but not defined before");
    fails(
        &body("%a = stablehlo.abs %a : tensor<4xf32>"),
        "2:1: error: %a is defined again; it was defined at line 1, column 14",
    );
    fails(
        &body("%0 = stablehlo.abs %a : tensor<5xf32>"),
        "2:20: error: use of %a expects tensor<5xf32> but it was defined as tensor<4xf32> at line 1",
    );
    fails(
        &body("%0:2 = stablehlo.abs %a : tensor<4xf32>"),
        "2:1: error: 'stablehlo.abs' has 1 results but 2 are named",
    );
    fails(&body("%0 = stablehlo.abs %a#1 : tensor<4xf32>"), "2:20: error: %a#1 is used, but %a is one value");
    fails(&body("%0 = stablehlo.add %a : tensor<4xf32>"), "2:6: error: 'stablehlo.add' has 1 operands, needs 2");
    fails(
        &body("%0 = stablehlo.reshape %a : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>"),
        "2:29: error: 1 operands present, but types of 2 are given",
    );
}

#[test]
fn structure() {
    fails(
        "func.func @f() {",
        "1:17: error: expected '}' that closes the '{' at line 1, column 16, found the end of the text",
    );
    fails("func.func @f() {}", "1:16: error: expected a function body with at least a return");
    fails(
        "module {",
        "1:9: error: expected '}' that closes the module's '{' at line 1, column 8, found the end of the text",
    );
    fails("func.func f()", "1:11: error: expected a symbol such as '@main', found 'f'");
    fails(&body("stablehlo.no_such %a"), "2:1: error: 'stablehlo.no_such' is not an operation");
    fails(
        &body("stablehlo.gather %a"),
        "2:1: error: 'stablehlo.gather' is written in the generic form only: \"stablehlo.gather\"(...)",
    );
    fails(&body("%0 = stablehlo.iota dim 0 : tensor<4xi32>"), "2:25: error: expected '=', found '0'");
    fails(
        &body("%0 = stablehlo.transpose %a : (tensor<4xf32>) -> tensor<4xf32>"),
        "2:29: error: expected ', dims =', found ':'",
    );
    fails(&body("\"stablehlo.no_such\"() : () -> ()"), "2:1: error: 'stablehlo.no_such' is not an operation");
    fails(&body("return"), "2:1: error: 'func.return' must be the last operation of its block");
    fails(&body("%0 = \"func.return\"() : () -> i32"), "2:6: error: 'func.return' has no results");
    fails("#a = 1\n#a = 2", "2:1: error: attribute alias '#a' is defined twice");
    fails(&body("\"a.b\"() : () -> () loc(#nowhere)"), "2:24: error: location alias '#nowhere' is not defined");
    fails("\"a.b\"() : () -> ()  é", "1:21: error: expected an operation, found 'é'");
}

#[test]
fn attributes() {
    fails(
        &body("%0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>"),
        "2:31: error: 2 items are given for dimension 0 of tensor<3xi32>",
    );
    fails(&body("%0 = stablehlo.constant dense<300> : tensor<i8>"), "2:31: error: 300 is out of range for i8");
    fails(&body("\"a.b\"() {x = 1, x = 2} : () -> ()"), "2:17: error: attribute x is given twice");
    fails(
        &body("%0 = stablehlo.compare LESS, %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>"),
        "2:24: error: expected one of EQ, NE, GE, GT, LE, LT, found 'LESS'",
    );
    fails("sdy.mesh @m = <[\"x\"=a]>", "1:21: error: expected integer value, found 'a'");
}

#[test]
fn unsupported_text_is_distinguished_from_errors() {
    let text = body("%q = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>");
    let error = parse(&text).expect_err("quantized");
    assert_eq!(error.severity, Severity::Unsupported);
    assert_eq!(
        error.to_string(),
        "2:66: not supported: quantized type !quant.uniform<i8:f32, 0.5> (in the types of %q)"
    );
    let error = parse(&body("%0 = scf.if %a : i32")).expect_err("foreign");
    assert_eq!(error.severity, Severity::Unsupported);
}

#[test]
fn nesting_is_bounded() {
    for (open, close) in [("[", "]"), ("{a = ", "}"), ("tuple<", ">"), ("(", ") -> i32"), ("dense<[", "")] {
        let text = format!("\"a.b\"() {{x = {}{}}} : () -> ()", open.repeat(100_000), close.repeat(100_000));
        assert!(parse(&text).is_err(), "{open}");
    }
    let regions = format!("{}{}", "\"a.b\"() ({".repeat(50_000), "}) : () -> ()".repeat(50_000));
    fails(&regions, "1:1291: error: this nests deeper than 128 levels");
    let locs =
        format!("\"a.b\"() : () -> () loc({}unknown{})", "callsite(unknown at ".repeat(50_000), ")".repeat(50_000));
    assert!(parse(&locs).is_err());
    let modules = "module {".repeat(50_000);
    assert!(parse(&modules).is_err());
}

#[test]
fn aliases_cannot_expand_a_short_text_without_bound() {
    let mut text = String::from("#a0 = [\"0123456789\", \"0123456789\"]\n!t0 = tuple<i32, i32>\n");
    for i in 0..40 {
        text.push_str(&format!("#a{} = [#a{i}, #a{i}]\n!t{} = tuple<!t{i}, !t{i}>\n", i + 1, i + 1));
    }
    text.push_str("\"a.b\"() {x = #a40, y = !t40} : () -> ()");
    let error = parse(&text).expect_err("too much");
    assert!(error.message.contains("stand for too much text"), "{error}");
}

#[test]
fn a_huge_splat_is_small() {
    parse(&body("%0 = stablehlo.constant dense<1.0> : tensor<9223372036854775807x9223372036854775807xf64>"))
        .expect("a splat");
}

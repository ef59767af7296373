//! Programs under `programs/` read, print and read again to the same text; parts of them mean what they say.

use meshwork_ir::op::{BinaryOp, BodyOp, ControlOp, SdyOp, SourceOp};
use meshwork_ir::text::{parse, parse_attr, parse_type, print};
use meshwork_ir::{Attr, DenseData, ElementType, Loc, LocKind, Module, OpId, OpKind, Type, Walk};

const PROGRAMS: &[(&str, &str)] = &[
    ("control", include_str!("programs/control.mlir")),
    ("dense", include_str!("programs/dense.mlir")),
    ("ops", include_str!("programs/ops.mlir")),
    ("place", include_str!("programs/place.mlir")),
];

fn read(text: &str) -> Module {
    parse(text).unwrap_or_else(|e| panic!("{}", e.render("text", text)))
}

fn ops_of(module: &Module, kind: OpKind) -> Vec<OpId> {
    module.all_ops(Walk::PreOrder).into_iter().filter(|&op| module.op(op).kind() == kind).collect()
}

#[test]
fn print_and_read_again() {
    for (name, text) in PROGRAMS {
        let first = print(&read(text));
        let second = print(&read(&first));
        assert_eq!(first, second, "{name}");
    }
}

#[test]
fn wrong_attributes_print_in_generic_form() {
    let text = "func.func @f(%a: tensor<f32>) {
  %1 = \"stablehlo.cholesky\"(%a) {lower = i1} : (tensor<f32>) -> tensor<f32>
  %0 = \"stablehlo.reduce_precision\"(%a) {exponent_bits = 1 : i32, mantissa_bits = -1 : i32} : (tensor<f32>) -> tensor<f32>
  return
}";
    let first = print(&read(text));
    assert_eq!(first, print(&read(&first)));
}

#[test]
fn shape_of_another_dialect_is_a_constant_of_indices() {
    let module = read("func.func @f() {\n  %0 = shape.const_shape [2, 3] : tensor<2xindex>\n  return\n}");
    let op = ops_of(&module, OpKind::Unregistered)[0];
    assert_eq!(module.op(op).i64s("shape"), Some(vec![2, 3]));
    assert!(matches!(module.op(op).attr("shape"), Some(Attr::Dense(d)) if d.ty.elem == ElementType::Index));
}

#[test]
fn dense_storage() {
    let module = read(PROGRAMS[1].1);
    let data: Vec<DenseData> = ops_of(&module, OpKind::Source(SourceOp::Constant))
        .into_iter()
        .map(|op| match module.op(op).attr("value") {
            Some(Attr::Dense(d)) => d.data.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let full = |bytes: &[u8]| DenseData::Full(bytes.into());
    let splat = |bytes: &[u8]| DenseData::Splat(bytes.into());
    assert_eq!(data[0], full(&[1, 0xFE, 0x7F, 4]));
    assert_eq!(data[1], splat(&0.1f32.to_le_bytes()));
    assert_eq!(data[2], full(&[1, 0, 1]));
    assert_eq!(data[3], splat(&[0, 0, 0xC0, 0x3F, 0, 0, 0, 0x80]));
    assert_eq!(data[5], full(&[]));
    assert_eq!(data[6], full(&[]));
    assert_eq!(data[7], full(&[0, 0, 0x80, 0xBF, 0, 0, 0x80, 0x3F]));
    assert_eq!(data[8], full(&[0xFF, 1]));
    assert_eq!(data[9], full(&[0x80, 0x3F, 0xC0, 0x7F, 1, 0]));
    assert_eq!(data[10], full(&[1, 0, 0, 0, 2, 0, 0, 0]));
    assert_eq!(data[12], splat(&[1, 0, 0, 0]));
}

#[test]
fn module_function_and_locations() {
    let module = read(PROGRAMS[0].1);
    assert_eq!(module.name.as_deref(), Some("control"));
    assert_eq!(module.attrs.get("a.b"), Some(&Attr::i32(1)));
    assert_eq!(module.attrs.get("c"), Some(&Attr::Unit));
    let declared = module.func("declared").expect("declared");
    assert!(module.body_of(declared, 0).is_none());
    assert_eq!(module.arg_attr(declared, 0, "x.y"), Some(&Attr::str("z")));
    assert_eq!(module.res_attr(declared, 0, "x.r"), Some(&Attr::Unit));
    let main = module.func("main").expect("main");
    assert!(matches!(module.arg_attr(main, 0, "sdy.sharding"), Some(Attr::Sharding(_))));
    let body = module.body_of(main, 0).expect("body");
    let arg_loc = &module.block(body).arg_locs[0];
    assert!(matches!(arg_loc, Loc::Of(kind) if matches!(&**kind, LocKind::Name { name, .. } if &**name == "arg")));
    let while_op = ops_of(&module, OpKind::Control(ControlOp::While))[0];
    assert_eq!(module.op(while_op).loc.source(), Some(("late.py", 10, 20)));
    assert_eq!((module.op(while_op).pos.line, module.op(while_op).pos.col), (5, 12));
    let other = ops_of(&module, OpKind::Unregistered)[0];
    assert_eq!(module.op(other).name(), "other.op");
    assert_eq!(module.op(other).results().len(), 3);
    assert_eq!(module.op(other).attr("q"), Some(&Attr::Opaque("#other.attr<[a, \"b>\"] -> c>".into())));
}

#[test]
fn compact_reduce_has_a_body() {
    let module = read(PROGRAMS[0].1);
    let reduce = ops_of(&module, OpKind::Body(BodyOp::Reduce))[0];
    let body = module.body_of(reduce, 0).expect("body");
    let kinds: Vec<OpKind> = module.ops_in(body).map(|op| module.op(op).kind()).collect();
    assert_eq!(kinds, [OpKind::Binary(BinaryOp::Maximum), OpKind::Control(ControlOp::HloReturn)]);
    assert_eq!(module.block(body).args().len(), 2);
}

#[test]
fn generic_and_pretty_spelling_of_sdy_enums_agree() {
    let module = read(PROGRAMS[3].1);
    let barriers = ops_of(&module, OpKind::Sdy(SdyOp::PropagationBarrier));
    let directions: Vec<_> = barriers.iter().map(|&op| module.op(op).enum_value("allowed_direction")).collect();
    assert_eq!(directions, [Some("FORWARD"), Some("BACKWARD")]);
    let reduces = ops_of(&module, OpKind::Sdy(SdyOp::AllReduce));
    assert_eq!(module.op(reduces[1]).enum_value("reduction_op"), Some("max"));
}

#[test]
fn one_module_is_the_module_and_two_are_nested() {
    let one = read("\"builtin.module\"() <{sym_name = \"m\"}> ({\n  func.func private @f()\n}) {a} : () -> ()");
    assert_eq!((one.name.as_deref(), one.funcs().count()), (Some("m"), 1));
    assert!(one.attrs.contains("a"));
    let two = read("module @a { func.func private @f() }\nmodule @b {}");
    assert_eq!(ops_of(&two, OpKind::Control(ControlOp::Module)).len(), 2);
    assert_eq!((two.name.as_deref(), two.funcs().count()), (None, 0));
    assert_eq!(read(" // nothing\n").all_ops(Walk::PreOrder), []);
}

#[test]
fn names_are_scoped() {
    read("func.func @f(%a: tensor<f32>) { return }\nfunc.func @g(%a: tensor<f32>) { return }");
    read(
        "func.func @f(%a: tensor<f32>, %p: tensor<i1>) {
           %0 = \"stablehlo.if\"(%p) ({ %x = stablehlo.negate %a : tensor<f32> stablehlo.return %x : tensor<f32> },
                                      { %x = stablehlo.abs %a : tensor<f32> stablehlo.return %x : tensor<f32> })
             : (tensor<i1>) -> tensor<f32>
           %x = stablehlo.abs %0 : tensor<f32>
           return }",
    );
}

#[test]
fn single_attributes() {
    let is = |text: &str, want: Attr| assert_eq!(parse_attr(text).expect(text), want, "{text}");
    is("-5 : i8", Attr::Int(-5, ElementType::I8));
    is("0xFF : i8", Attr::Int(-1, ElementType::I8));
    is("200 : ui8", Attr::Int(200, ElementType::UI8));
    is("18446744073709551615 : ui64", Attr::Int(-1, ElementType::UI64));
    is("7", Attr::i64(7));
    is("1 : i1", Attr::Bool(true));
    is("0x3F800000 : f32", Attr::Float(1.0, ElementType::F32));
    is("0.1 : f32", Attr::Float(f64::from(0.1f32), ElementType::F32));
    is("1.0e+2", Attr::Float(100.0, ElementType::F64));
    is("array<i64>", Attr::i64s([]));
    is("array<i64: 1, -2>", Attr::i64s([1, -2]));
    is("array<i1: true, 0>", Attr::BoolArray([true, false].into()));
    is("array<i32: 1, 2>", Attr::Opaque("array<i32: 1, 2>".into()));
    is("@a::@\"b c\"", Attr::Symbol("a::@b c".into()));
    is("\"\\0A\\22\"", Attr::str("\n\""));
    is("f32", Attr::Type(Type::Scalar(ElementType::F32)));
    is("#stablehlo<precision HIGH>", Attr::hlo_enum("precision", "HIGH"));
    is("#vhlo.integer_v1<0 : i64>", Attr::Opaque("#vhlo.integer_v1<0 : i64>".into()));
    is("affine_map<(d0) -> (d0)>", Attr::Opaque("affine_map<(d0) -> (d0)>".into()));
    for bad in [
        "256 : i8",
        "-1 : ui8",
        "-129 : i8",
        "1 : f32",
        "0x1FFFF : f16",
        "1.0 : i32",
        "array<f32: x>",
        "#no",
        "[1",
        "{a = 1, a = 2}",
        "dense<[1, 2]> : tensor<3xi32>",
        "dense<1> : tensor<?xi32>",
        "dense<\"0x0\"> : tensor<1xi8>",
        "#stablehlo.nothing",
        "#stablehlo<precision LOW>",
        "\"a\nb\"",
    ] {
        assert!(parse_attr(bad).is_err(), "{bad}");
    }
}

#[test]
fn single_types() {
    let same = |text: &str| assert_eq!(parse_type(text).expect(text).to_string(), text);
    for text in [
        "tensor<2x?xf32>",
        "tensor<0x2xi1>",
        "tensor<f8E4M3FN>",
        "tensor<?xf32, #stablehlo.bounds<4>>",
        "i32",
        "complex<f64>",
        "tuple<tensor<i32>, tuple<>>",
        "(i32) -> (i32, f32)",
        "!stablehlo.token",
        "tensor<*xf32>",
        "memref<2xf32, #m.a<1>>",
        "!a.b<c -> d>",
        "none",
        "tensor<2xi3>",
    ] {
        same(text);
    }
    for bad in
        ["tensor<2xf32", "tensor<99999999999999999999xf32>", "tensor<-1xf32>", "tensor<2x>", "f31", "!x", "tensor"]
    {
        assert!(parse_type(bad).is_err(), "{bad}");
    }
}

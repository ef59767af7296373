//! Illegal modules, and the words for what is wrong with them.

use meshwork_mesh::{DimSharding, Mesh, Sharding};
use std::sync::Arc;

use super::*;
use crate::build::{Builder, FuncBuilder};
use crate::op::{BodyOp, ControlOp, MovementOp, SdyOp, UnaryOp};
use crate::{ElementType, FunctionType, OpSpec, Type};

fn row(n: i64) -> Type {
    Type::tensor([n], ElementType::F32)
}

fn messages(module: &Module) -> Vec<String> {
    verify(module).into_iter().map(|d| d.message).collect()
}

/// A module with `main(tensor<4xf32>) -> tensor<4xf32>`, which returns its argument, and that function.
fn identity() -> (Module, OpId) {
    let mut module = Module::new();
    let f = FuncBuilder::new(&mut module, "main", [row(4)]);
    let x = f.arg(0);
    let main = f.finish([x]).expect("returns its argument");
    (module, main)
}

fn first_block(module: &Module, op: OpId) -> BlockId {
    module.body_of(op, 0).expect("has a body")
}

#[test]
fn declared_result_must_be_the_inferred_one() {
    let (mut module, main) = identity();
    let block = first_block(&module, main);
    let (x, end) = (module.block(block).args()[0], module.block(block).last().expect("a return"));
    module.push_before(end, OpSpec::new(OpKind::Unary(UnaryOp::Negate)).operands([x]).results([row(5)]));
    assert_eq!(
        messages(&module),
        ["'stablehlo.negate' op result 0 must be tensor<4xf32>, but is declared as tensor<5xf32>"]
    );
}

#[test]
fn use_before_definition() {
    let (mut module, main) = identity();
    let block = first_block(&module, main);
    let (x, end) = (module.block(block).args()[0], module.block(block).last().expect("a return"));
    let late = module.push_before(end, OpSpec::new(OpKind::Unary(UnaryOp::Abs)).operands([x]).results([row(4)]));
    let y = module.result(late);
    module.push_before(late, OpSpec::new(OpKind::Unary(UnaryOp::Negate)).operands([y]).results([row(4)]));
    assert_eq!(
        messages(&module),
        ["'stablehlo.negate' op operand 0 is a result of 'stablehlo.abs', which is not defined here"]
    );
}

#[test]
fn functions_see_no_values_of_others() {
    let (mut module, main) = identity();
    let x = module.block(first_block(&module, main)).args()[0];
    let mut f = FuncBuilder::new(&mut module, "other", []);
    let y = f.negate(x).expect("types fit");
    f.finish([y]).expect("returns");
    assert_eq!(messages(&module), ["'stablehlo.negate' op operand 0 is a block argument, which is not defined here"]);
}

#[test]
fn what_a_body_defines_ends_with_it() {
    let mut module = Module::new();
    let mut f = FuncBuilder::new(&mut module, "main", [Type::tensor([], ElementType::I1), row(4)]);
    let (p, x) = (f.arg(0), f.arg(1));
    let mut inner = None;
    f.if_else(p, |b| Ok([*inner.insert(b.negate(x)?)]), |_| Ok([x])).expect("a branch");
    let y = f.abs(inner.expect("built")).expect("types fit");
    f.finish([y]).expect("returns");
    assert_eq!(
        messages(&module),
        ["'stablehlo.abs' op operand 0 is a result of 'stablehlo.negate', which is not defined here"]
    );
}

#[test]
fn returns_and_signature() {
    let (mut module, main) = identity();
    module.set_func_type(main, FunctionType { inputs: vec![row(4)], results: vec![row(5)] });
    assert_eq!(messages(&module), ["'func.return' op returns (tensor<4xf32>), but @main returns (tensor<5xf32>)"]);
    module.set_func_type(main, FunctionType { inputs: vec![row(3)], results: vec![row(4)] });
    assert_eq!(
        messages(&module),
        ["'func.func' op @main takes (tensor<4xf32>), but its type is (tensor<3xf32>) -> tensor<4xf32>"]
    );
}

#[test]
fn calls() {
    let (mut module, _) = identity();
    let mut f = FuncBuilder::new(&mut module, "other", [row(3)]);
    let x = f.arg(0);
    f.call("main", &[x], [row(4)]).expect("built without a look at the callee");
    f.finish([]).expect("returns");
    assert_eq!(messages(&module), ["'func.call' op calls @main with (tensor<3xf32>), but it takes (tensor<4xf32>)"]);
    let call = module
        .all_ops(crate::Walk::PreOrder)
        .into_iter()
        .find(|&op| module.op(op).kind() == OpKind::Control(ControlOp::Call));
    module.op_mut(call.expect("there is one")).attrs.set("callee", Attr::Symbol("gone".into()));
    assert_eq!(messages(&module), ["'func.call' op calls @gone, but there is no function of that name"]);
}

#[test]
fn symbols_are_unique() {
    let (mut module, _) = identity();
    FuncBuilder::new(&mut module, "main", []).finish([]).expect("returns");
    assert_eq!(messages(&module), ["redefinition of symbol @main"]);
}

#[test]
fn terminators() {
    let mut module = Module::new();
    let f = FuncBuilder::new(&mut module, "main", [row(4)]);
    drop(f);
    assert_eq!(messages(&module), ["'func.func' op @main must end with func.return"]);

    let (mut module, main) = identity();
    let block = first_block(&module, main);
    let x = module.block(block).args()[0];
    Builder::at_end(&mut module, block).negate(x).expect("types fit");
    assert_eq!(messages(&module), ["'func.func' op @main must end with func.return"]);
}

#[test]
fn bodies_are_counted() {
    let (mut module, main) = identity();
    let end = module.block(first_block(&module, main)).last().expect("a return");
    let x = module.block(first_block(&module, main)).args()[0];
    let spec = OpSpec::new(OpKind::Body(BodyOp::Sort)).operands([x]).results([row(4)]);
    module.push_before(end, spec);
    assert_eq!(messages(&module), ["'stablehlo.sort' op needs 1 bodies, but has 0"]);
}

#[test]
fn one_error_per_function() {
    let mut module = Module::new();
    for name in ["a", "b"] {
        let f = FuncBuilder::new(&mut module, name, [row(4)]);
        let x = f.arg(0);
        let func = f.finish([x]).expect("returns");
        let block = first_block(&module, func);
        let end = module.block(block).last().expect("a return");
        for _ in 0..2 {
            module.push_before(end, OpSpec::new(OpKind::Unary(UnaryOp::Negate)).operands([x]).results([row(5)]));
        }
    }
    assert_eq!(messages(&module).len(), 2);
}

fn with_mesh() -> Module {
    let mut module = Module::new();
    let mesh = Mesh::new([("x", 2), ("y", 4)]).expect("a mesh");
    let spec = OpSpec::new(OpKind::Sdy(SdyOp::Mesh))
        .attr("sym_name", Attr::str("mesh"))
        .attr("mesh", Attr::Mesh(Arc::new(mesh)));
    module.push(module.body(), spec);
    module
}

fn sharding(axes: &[&str]) -> Sharding {
    Sharding::new("mesh", [DimSharding::closed(axes.iter().copied())])
}

#[test]
fn constraints_fit_mesh_and_rank() {
    let constrain = |sharding: Sharding| {
        let mut module = with_mesh();
        let mut f = FuncBuilder::new(&mut module, "main", [row(8)]);
        let x = f.arg(0);
        let y = f.sharding_constraint(x, sharding).expect("a tensor");
        f.finish([y]).expect("returns");
        messages(&module)
    };
    assert_eq!(constrain(sharding(&["x", "y"])), Vec::<String>::new());
    assert_eq!(
        constrain(sharding(&["z"])),
        ["'sdy.sharding_constraint' op unknown axis name: \"z\"; the mesh is <[\"x\"=2, \"y\"=4]>"]
    );
    assert_eq!(
        constrain(Sharding::replicated("mesh", 2)),
        ["'sdy.sharding_constraint' op sharding doesn't match tensor rank: 2 != 1; write one {...} per dimension"]
    );
    assert_eq!(
        constrain(Sharding::replicated("other", 1)),
        ["'sdy.sharding_constraint' op unknown mesh: @other; define it with sdy.mesh"]
    );
}

#[test]
fn gathers_undo_what_shards() {
    let gather = |axes: &[&str], out: &[&str]| {
        let mut module = with_mesh();
        let mut f = FuncBuilder::new(&mut module, "main", [row(8)]);
        let x = f.arg(0);
        let per_dim = vec![axes.iter().map(|&a| meshwork_mesh::AxisRef::full(a)).collect::<Vec<_>>()];
        let spec = OpSpec::new(OpKind::Sdy(SdyOp::AllGather))
            .operands([x])
            .attr("gathering_axes", Attr::AxesPerDim(per_dim.into()))
            .attr("out_sharding", Attr::Sharding(Arc::new(sharding(out))));
        let y = f.value(spec).expect("a tensor");
        let main = f.finish([y]).expect("returns");
        let placed = Attr::Sharding(Arc::new(sharding(&["x", "y"])));
        module.set_arg_attr(main, 0, "sdy.sharding", Some(placed));
        messages(&module)
    };
    assert_eq!(gather(&["y"], &["x"]), Vec::<String>::new());
    assert_eq!(
        gather(&["x"], &["y"]),
        [
            "'sdy.all_gather' op cannot take axis \"x\" off dimension 0, which is not sharded by it last: <@mesh, [{\"x\", \"y\"}]>"
        ]
    );
    assert_eq!(
        gather(&["y"], &["y"]),
        ["'sdy.all_gather' op should have axes {\"x\"} on dimension 0 of out_sharding <@mesh, [{\"y\"}]>"]
    );
}

#[test]
fn linear_in_the_number_of_operations() {
    let mut module = Module::new();
    let mut f = FuncBuilder::new(&mut module, "main", [row(4)]);
    let mut x = f.arg(0);
    for _ in 0..100_000 {
        x = f.add(x, x).expect("types fit");
    }
    f.finish([x]).expect("returns");
    let start = std::time::Instant::now();
    assert_eq!(verify(&module), []);
    // Far above what it takes; quadratic time would be minutes.
    assert!(start.elapsed().as_secs() < 5, "took {:?}", start.elapsed());
}

#[test]
fn manual_computations_see_local_shapes_and_only_their_own_values() {
    let build = |local: i64, leak: bool| {
        let mut module = with_mesh();
        let mut f = FuncBuilder::new(&mut module, "main", [row(8)]);
        let x = f.arg(0);
        let block = f.module().op(x_owner(f.module(), x)).regions()[0];
        let block = f.module().region(block).blocks()[0];
        let placed = Attr::ShardingPerValue([sharding(&["y", "x"])].into());
        let spec = OpSpec::new(OpKind::Sdy(SdyOp::ManualComputation))
            .operands([x])
            .results([row(8)])
            .attr("in_shardings", placed.clone())
            .attr("out_shardings", placed)
            .attr("manual_axes", Attr::Axes([meshwork_mesh::AxisRef::full("y")].into()));
        let module_mut = f.module_mut();
        let op = module_mut.push(block, spec);
        let body = module_mut.add_body(op, [row(local)]);
        let inner = module_mut.block(body).args()[0];
        let returned = if leak {
            let spec = OpSpec::new(OpKind::Movement(MovementOp::Slice))
                .operands([x])
                .results([row(local)])
                .attr("start_indices", Attr::i64s([0]))
                .attr("limit_indices", Attr::i64s([local]))
                .attr("strides", Attr::i64s([1]));
            let slice = module_mut.push(body, spec);
            module_mut.result(slice)
        } else {
            inner
        };
        module_mut.push(body, OpSpec::new(OpKind::Sdy(SdyOp::Return)).operands([returned]));
        let y = module_mut.result(op);
        f.finish([y]).expect("returns");
        messages(&module)
    };
    assert_eq!(build(2, false), Vec::<String>::new());
    assert_eq!(
        build(1, false),
        [
            "'sdy.manual_computation' op operand 0 is tensor<8xf32> with sharding <@mesh, [{\"y\", \"x\"}]>, so the body should have tensor<2xf32>, but has tensor<1xf32>"
        ]
    );
    assert_eq!(
        build(2, true),
        ["'stablehlo.slice' op operand 0 is a block argument, which is outside sdy.manual_computation: pass it in"]
    );
}

/// The function that argument `x` belongs to.
fn x_owner(module: &Module, x: crate::ValueId) -> OpId {
    match module.value(x).def() {
        crate::Def::Arg(block, _) => module.block_parent_op(block).expect("in a function"),
        crate::Def::Result(op, _) => op,
    }
}

#[test]
fn symbols_stand_in_modules() {
    let source = "func.func @main() {\n  func.func private @inner(tensor<4xf32>)\n  return\n}";
    let module = crate::text::parse(source).expect("it parses");
    assert_eq!(messages(&module), ["'func.func' op defines a symbol, so it must stand directly in a module"]);
}

/// Before anything computes with extents that overflow: as arguments, as results, and as what operands of legal size give.
#[test]
fn tensors_of_too_many_bytes() {
    let large = [
        "func.func @main(%a: tensor<9223372036854775807x64xf32>) { return }",
        "func.func @main(%a: tensor<0x9223372036854775807xi8>) { return }",
        "func.func @main(%a: tensor<4294967296xf32>) {
           %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<4294967296xf32>) -> tensor<4294967296x4294967296xf32>
           return }",
        "func.func @main(%a: tensor<1073741824xf32>) {
           %0 = stablehlo.dot_general %a, %a, contracting_dims = [] x [] :
             (tensor<1073741824xf32>, tensor<1073741824xf32>) -> tensor<1073741824x1073741824xf32>
           return }",
        "func.func @main(%a: tensor<8xf32>, %z: tensor<f32>) {
           %0 = stablehlo.pad %a, %z, low = [9223372036854775000], high = [0], interior = [0] :
             (tensor<8xf32>, tensor<f32>) -> tensor<9223372036854775008xf32>
           return }",
    ];
    for source in large {
        let module = crate::text::parse(source).unwrap();
        let found = messages(&module);
        assert!(found.len() == 1 && found[0].contains("72057594037927936 bytes"), "{found:?}");
    }
    let legal = "func.func @main(%a: tensor<9007199254740992xi8>, %b: tensor<?x4096xf32>) { return }";
    assert_eq!(messages(&crate::text::parse(legal).unwrap()), [""; 0]);
}

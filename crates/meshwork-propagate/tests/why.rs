//! Explanations of placements, on one block of a transformer.

use meshwork_ir::op::UnaryOp;
use meshwork_ir::{Module, OpKind, ValueId, Walk, text};
use meshwork_propagate::why::{Node, Reason, why};
use meshwork_propagate::{Options, Record, propagate};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const BLOCK: &str = r#"
sdy.mesh @mesh = <["data"=4, "model"=2]>
func.func @main(
    %x: tensor<8x16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>},
    %wq: tensor<64x4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>},
    %wo: tensor<4x16x64xf32>) -> tensor<8x16x64xf32> {
  %q = stablehlo.dot_general %x, %wq, contracting_dims = [2] x [0]
      : (tensor<8x16x64xf32>, tensor<64x4x16xf32>) -> tensor<8x16x4x16xf32>
  %t = stablehlo.tanh %q : tensor<8x16x4x16xf32>
  %o = stablehlo.dot_general %t, %wo, contracting_dims = [2, 3] x [0, 1]
      : (tensor<8x16x4x16xf32>, tensor<4x16x64xf32>) -> tensor<8x16x64xf32>
  %y = stablehlo.add %o, %x : tensor<8x16x64xf32>
  return %y : tensor<8x16x64xf32>
}
"#;

fn result_of(module: &Module, kind: OpKind, nth: usize) -> Result<ValueId> {
    let ops = module.all_ops(Walk::PreOrder).into_iter().filter(|&op| module.op(op).kind() == kind);
    Ok(module.result(ops.into_iter().nth(nth).ok_or("no such op")?))
}

fn traced(source: &str) -> Result<(Module, meshwork_propagate::why::Trace)> {
    let mut module = text::parse(source)?;
    let options = Options { record: Record::Trace, ..Options::default() };
    let trace = propagate(&mut module, &options, &mut vec![])?;
    Ok((module, trace))
}

#[test]
fn a_chain_leads_back_to_the_annotation() -> Result<()> {
    let (module, trace) = traced(BLOCK)?;
    let tanh = result_of(&module, OpKind::Unary(UnaryOp::Tanh), 0)?;
    let heads = why(&module, &trace, tanh, 2);
    assert_eq!(
        heads.describe(&module),
        r#""model":
  through 'stablehlo.tanh' at line 9, column 8 along factor k, from dimension 2 of 'stablehlo.dot_general' at line 7, column 8
  through 'stablehlo.dot_general' at line 7, column 8 along factor k, from dimension 1 of argument 1 of 'func.func' at line 3, column 1
  annotated: dimension 1 of argument 1 of 'func.func' at line 3, column 1
"#
    );
    Ok(())
}

#[test]
fn an_unannotated_weight_is_placed_by_its_use() -> Result<()> {
    let (module, trace) = traced(BLOCK)?;
    let body = module.body_of(module.func("main").ok_or("no main")?, 0).ok_or("no body")?;
    let [x, wq, wo] = module.block(body).args() else { return Err("three arguments".into()) };
    let explanation = why(&module, &trace, *wo, 0);
    let [(axis, chain)] = &explanation.axes[..] else { return Err(format!("{explanation:?}").into()) };
    assert_eq!(axis.to_string(), r#""model""#);
    assert_eq!((chain.origin, chain.origin_dim), (Node::Value(*wq), 1));
    // The batch of the activations stays what it was written to be.
    let batch = why(&module, &trace, *x, 0);
    assert_eq!(batch.axes[0].1.links, []);
    Ok(())
}

#[test]
fn what_was_rejected_has_a_reason() -> Result<()> {
    let (module, trace) = traced(
        r#"
sdy.mesh @mesh = <["a"=2, "b"=2]>
func.func @main(
    %x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {?}]>},
    %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {"a", ?}]>}) -> tensor<8x8xf32> {
  %z = stablehlo.add %x, %y : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}
"#,
    )?;
    let body = module.body_of(module.func("main").ok_or("no main")?, 0).ok_or("no body")?;
    let x = module.block(body).args()[0];
    let reasons = |dim| why(&module, &trace, x, dim).rejected.into_iter().map(|r| r.reason).collect::<Vec<_>>();
    assert!(reasons(0).iter().any(|r| matches!(r, Reason::SplitBy(a) if a.to_string() == "\"a\"")), "{:?}", reasons(0));
    assert!(reasons(1).contains(&Reason::UsedByDim(0)), "{:?}", reasons(1));
    Ok(())
}

#[test]
fn nothing_is_recorded_unless_asked() -> Result<()> {
    let mut module = text::parse(BLOCK)?;
    let trace = propagate(&mut module, &Options::default(), &mut vec![])?;
    assert!(trace.steps().is_empty());
    Ok(())
}

//! Type rules family by family: the type that comes out, and the words for what is wrong.

use std::sync::Arc;

use super::*;
use crate::attr::{ConvDims, DotDims, GatherDims};
use crate::op::{
    BinaryOp, BodyOp, ChloOp, CollectiveOp, ContractOp, ControlOp, LinalgOp, MixedOp, MovementOp, SourceOp, UnaryOp,
};
use crate::{Attr, DYNAMIC, Dense, OpSpec};

fn ty(text: &str) -> Type {
    let at = text.find("complex").or_else(|| text.rfind('x').map(|i| i + 1)).unwrap_or(0);
    let (dims, elem) = text.split_at(at);
    let dims = dims.split('x').filter(|d| !d.is_empty());
    let dims = dims.map(|d| if d == "?" { DYNAMIC } else { d.parse().expect("a number") });
    Type::tensor(dims, ElementType::from_text(elem).expect("an element type"))
}

/// A module with values of these types.
fn values(types: impl IntoIterator<Item = Type>) -> (Module, Vec<ValueId>) {
    let mut module = Module::new();
    let ty = crate::FunctionType { inputs: types.into_iter().collect(), results: vec![] };
    let func = module.add_func(crate::FuncSig { ty, ..Default::default() });
    let block = module.body_of(func, 0).expect("a function has a body");
    let values = module.block(block).args().to_vec();
    (module, values)
}

/// The rule of `kind`, as text: result types, or the message.
fn rule(kind: OpKind, operands: &[&str], attrs: &[(&str, Attr)], wanted: &[&str]) -> String {
    rule_with_bodies(kind, operands.iter().map(|t| ty(t)), attrs, wanted, &[])
}

/// The same for an operation whose bodies take and return values of these types.
fn rule_with_bodies(
    kind: OpKind,
    operands: impl IntoIterator<Item = Type>,
    attrs: &[(&str, Attr)],
    wanted: &[&str],
    bodies: &[(&[&Type], &[&Type])],
) -> String {
    let (mut module, operands) = values(operands);
    let spec = OpSpec::new(kind).operands(operands).results(wanted.iter().map(|t| ty(t)));
    let attrs = attrs.iter().map(|(n, a)| (*n, a.clone())).collect();
    let op = module.create(OpSpec { attrs, ..spec });
    for (args, returns) in bodies {
        let body = module.add_body(op, args.iter().map(|&t| t.clone()));
        let returned: Vec<ValueId> = returns.iter().map(|&t| module.add_block_arg(module.body(), t.clone())).collect();
        module.push(body, OpSpec::new(ControlOp::HloReturn).operands(returned));
    }
    match infer_op(&module, op) {
        Ok(types) => type_list(&types),
        Err(e) => e.to_string(),
    }
}

fn list(values: &[i64]) -> Attr {
    Attr::i64s(values.iter().copied())
}

fn dense(rows: i64, cols: i64, values: &[i64]) -> Attr {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let literal = crate::Literal::from_bytes([rows, cols], ElementType::I64, bytes).expect("as many as rows x cols");
    Attr::Dense(Arc::new(Dense::from_literal(&literal)))
}

#[test]
fn elementwise() {
    assert_eq!(rule(OpKind::Binary(BinaryOp::Add), &["2x3xf32", "2x3xf32"], &[], &[]), "(tensor<2x3xf32>)");
    assert_eq!(rule(OpKind::Binary(BinaryOp::Add), &["?x3xf32", "2x?xf32"], &[], &[]), "(tensor<2x3xf32>)");
    assert_eq!(
        rule(OpKind::Binary(BinaryOp::Add), &["2x3xf32", "2x4xf32"], &[], &[]),
        "'stablehlo.add' op operand 1 (rhs) must be of the type of operand 0 (lhs), tensor<2x3xf32>, but is tensor<2x4xf32>"
    );
    assert_eq!(
        rule(OpKind::Binary(BinaryOp::Add), &["f32"], &[], &[]),
        "'stablehlo.add' op takes 2 operands, but has 1"
    );
    assert_eq!(
        rule(OpKind::Binary(BinaryOp::And), &["f32", "f32"], &[], &[]),
        "'stablehlo.and' op operand 0 (lhs) must be a tensor of bool or integer, but is tensor<f32>"
    );
    assert_eq!(rule(OpKind::Unary(UnaryOp::Abs), &["3xcomplex<f32>"], &[], &[]), "(tensor<3xf32>)");
    assert_eq!(rule(OpKind::Unary(UnaryOp::IsFinite), &["0xf64"], &[], &[]), "(tensor<0xi1>)");
    assert_eq!(rule(OpKind::Binary(BinaryOp::Complex), &["f64", "f64"], &[], &[]), "(tensor<complex<f64>>)");
    assert_eq!(rule(OpKind::Mixed(MixedOp::Convert), &["2xi32"], &[], &["2xbf16"]), "(tensor<2xbf16>)");
    let eq = Attr::hlo_enum("comparison_direction", "EQ");
    assert_eq!(
        rule(OpKind::Mixed(MixedOp::Compare), &["2xi32", "2xi32"], &[("comparison_direction", eq)], &[]),
        "(tensor<2xi1>)"
    );
    assert_eq!(
        rule(OpKind::Mixed(MixedOp::Compare), &["i32", "i32"], &[], &[]),
        "'stablehlo.compare' op needs attribute 'comparison_direction': one of EQ, NE, GE, GT, LE, LT"
    );
    assert_eq!(rule(OpKind::Mixed(MixedOp::Clamp), &["f32", "5xf32", "5xf32"], &[], &[]), "(tensor<5xf32>)");
    assert_eq!(
        rule(OpKind::Mixed(MixedOp::Clamp), &["4xf32", "5xf32", "f32"], &[], &[]),
        "'stablehlo.clamp' op operand 0 (min) must be tensor<f32> or of the operand's type tensor<5xf32>, but is tensor<4xf32>"
    );
    assert_eq!(
        rule(OpKind::Mixed(MixedOp::Select), &["2xi1", "3xf32", "3xf32"], &[], &[]),
        "'stablehlo.select' op operand 0 (pred) must be tensor<i1> or tensor<3xi1>, for it chooses between tensor<3xf32>, but is tensor<2xi1>"
    );
}

#[test]
fn movement() {
    assert_eq!(rule(OpKind::Movement(MovementOp::Reshape), &["2x3xf32"], &[], &["6xf32"]), "(tensor<6xf32>)");
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Reshape), &["2x3xf32"], &[], &["7xf32"]),
        "'stablehlo.reshape' op makes tensor<7xf32> (7 elements) out of tensor<2x3xf32> (6 elements)"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Reshape), &["2xf32"], &[], &[]),
        "'stablehlo.reshape' op result 0 does not follow from its operands: its type has to be given"
    );
    let slice = |start, limit, stride| {
        [("start_indices", list(start)), ("limit_indices", list(limit)), ("strides", list(stride))]
    };
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Slice), &["7x4xf32"], &slice(&[1, 0], &[7, 0], &[4, 1]), &[]),
        "(tensor<2x0xf32>)"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Slice), &["7x4xf32"], &slice(&[0, 0], &[7, 5], &[1, 1]), &[]),
        "'stablehlo.slice' op takes 0 to 5 of dimension 1, which has size 4; operand is tensor<7x4xf32>"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Slice), &["7x4xf32"], &slice(&[0], &[7], &[1]), &[]),
        "'stablehlo.slice' op attribute 'start_indices' has 1 entries, but needs 2, one per operand dimension"
    );
    let pad = |low, high, interior| {
        [("edge_padding_low", list(low)), ("edge_padding_high", list(high)), ("interior_padding", list(interior))]
    };
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Pad), &["3x0xf32", "f32"], &pad(&[1, 0], &[-2, 2], &[2, 5]), &[]),
        "(tensor<6x2xf32>)"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Pad), &["3xf32", "f32"], &pad(&[-4], &[0], &[0]), &[]),
        "'stablehlo.pad' op pads dimension 0 of size 3 by low -4, high 0, interior 0, which is not a valid size"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Pad), &["3xf32", "f32"], &pad(&[i64::MAX], &[0], &[0]), &[]),
        format!(
            "'stablehlo.pad' op pads dimension 0 of size 3 by low {}, high 0, interior 0, which is not a valid size",
            i64::MAX
        )
    );
    let along = |d| [("dimension", Attr::i64(d))];
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Concatenate), &["2x3xf32", "2x0xf32", "2x4xf32"], &along(1), &[]),
        "(tensor<2x7xf32>)"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Concatenate), &["2x3xf32", "3x3xf32"], &along(1), &[]),
        "'stablehlo.concatenate' op operand 1 (inputs) must be like operand 0, tensor<2x3xf32>, but along dimension 1, but is tensor<3x3xf32>"
    );
    let permutation = |p| [("permutation", list(p))];
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Transpose), &["2x3x5xf32"], &permutation(&[2, 0, 1]), &[]),
        "(tensor<5x2x3xf32>)"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Transpose), &["2x3xf32"], &permutation(&[0, 0]), &[]),
        "'stablehlo.transpose' op attribute 'permutation' lists dimension 0 twice: [0, 0]"
    );
    let map = |d| [("broadcast_dimensions", list(d))];
    assert_eq!(
        rule(OpKind::Movement(MovementOp::BroadcastInDim), &["1x3xf32"], &map(&[0, 2]), &["2x5x3xf32"]),
        "(tensor<2x5x3xf32>)"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::BroadcastInDim), &["2xf32"], &map(&[0]), &["3xf32"]),
        "'stablehlo.broadcast_in_dim' op cannot stretch operand dimension 0 of size 2 to result dimension 0 of size 3: tensor<2xf32> to tensor<3xf32>"
    );
    assert_eq!(rule(OpKind::Movement(MovementOp::BitcastConvert), &["3x2xi16"], &[], &["3xf32"]), "(tensor<3xf32>)");
}

#[test]
fn products() {
    let dims = DotDims { lhs_batch: vec![0], rhs_batch: vec![0], lhs_contract: vec![2], rhs_contract: vec![1] };
    let dims = [("dot_dimension_numbers", Attr::Dot(Arc::new(dims)))];
    assert_eq!(
        rule(OpKind::Contract(ContractOp::DotGeneral), &["7x2x3xbf16", "7x3x5xbf16"], &dims, &[]),
        "(tensor<7x2x5xbf16>)"
    );
    assert_eq!(
        rule(OpKind::Contract(ContractOp::DotGeneral), &["7x2x3xi8", "7x3x5xi8"], &dims, &["7x2x5xi32"]),
        "(tensor<7x2x5xi32>)"
    );
    assert_eq!(
        rule(OpKind::Contract(ContractOp::DotGeneral), &["7x2x3xf32", "7x4x5xf32"], &dims, &[]),
        "'stablehlo.dot_general' op pairs contracting dimensions of different sizes: lhs dimension 2 of tensor<7x2x3xf32> is 3, rhs dimension 1 of tensor<7x4x5xf32> is 4"
    );
    let conv = ConvDims {
        input_batch: 0,
        input_feature: 3,
        input_spatial: vec![1, 2],
        kernel_input_feature: 2,
        kernel_output_feature: 3,
        kernel_spatial: vec![0, 1],
        output_batch: 0,
        output_feature: 3,
        output_spatial: vec![1, 2],
    };
    let attrs = [
        ("dimension_numbers", Attr::Conv(Arc::new(conv))),
        ("window_strides", list(&[2, 1])),
        ("padding", dense(2, 2, &[1, 1, 0, 2])),
        ("feature_group_count", Attr::i64(1)),
        ("batch_group_count", Attr::i64(1)),
    ];
    assert_eq!(
        rule(OpKind::Contract(ContractOp::Convolution), &["1x8x8x3xf32", "3x3x3x16xf32"], &attrs, &[]),
        "(tensor<1x4x8x16xf32>)"
    );
    assert_eq!(
        rule(OpKind::Contract(ContractOp::Convolution), &["1x8x8x4xf32", "3x3x3x16xf32"], &attrs, &[]),
        "'stablehlo.convolution' op has 4 input features in 1 group(s), so the kernel needs 4 input features, but tensor<3x3x3x16xf32> has 3"
    );
}

#[test]
fn indexing() {
    let dims = GatherDims {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDims::default()
    };
    let attrs = [("dimension_numbers", Attr::Gather(Arc::new(dims))), ("slice_sizes", list(&[1, 5]))];
    assert_eq!(rule(OpKind::Movement(MovementOp::Gather), &["10x5xf32", "3x1xi32"], &attrs, &[]), "(tensor<3x5xf32>)");
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Gather), &["10x4xf32", "3x1xi32"], &attrs, &[]),
        "'stablehlo.gather' op attribute 'slice_sizes' takes 5 of dimension 1, which has size 4; operand is tensor<10x4xf32>"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::Gather), &["10x5xf32", "3x2xi32"], &attrs, &[]),
        "'stablehlo.gather' op attribute 'start_index_map' has 1 entries for indices of 2 component(s), tensor<3x2xi32>"
    );
    let sizes = [("slice_sizes", list(&[2]))];
    assert_eq!(rule(OpKind::Movement(MovementOp::DynamicSlice), &["7xf32", "i32"], &sizes, &[]), "(tensor<2xf32>)");
    assert_eq!(
        rule(OpKind::Movement(MovementOp::DynamicSlice), &["7xf32", "i32", "i32"], &sizes, &[]),
        "'stablehlo.dynamic_slice' op has 2 start indices for an operand of rank 1"
    );
    assert_eq!(
        rule(OpKind::Movement(MovementOp::DynamicUpdateSlice), &["7xf32", "8xf32", "i32"], &[], &[]),
        "'stablehlo.dynamic_update_slice' op operand 1 (update) must be of the operand's rank and element type and no larger, tensor<7xf32>, but is tensor<8xf32>"
    );
}

#[test]
fn linear_algebra() {
    let fft = |kind| [("fft_type", Attr::hlo_enum("fft_type", kind)), ("fft_length", list(&[8]))];
    assert_eq!(rule(OpKind::Linalg(LinalgOp::Fft), &["3x8xf32"], &fft("RFFT"), &[]), "(tensor<3x5xcomplex<f32>>)");
    assert_eq!(rule(OpKind::Linalg(LinalgOp::Fft), &["3x5xcomplex<f64>"], &fft("IRFFT"), &[]), "(tensor<3x8xf64>)");
    assert_eq!(
        rule(OpKind::Linalg(LinalgOp::Fft), &["3x9xf32"], &fft("RFFT"), &[]),
        "'stablehlo.fft' op attribute 'fft_length' [8] needs innermost extents [8], but the operand is tensor<3x9xf32>"
    );
    assert_eq!(
        rule(OpKind::Linalg(LinalgOp::Cholesky), &["2x3xf32"], &[], &[]),
        "'stablehlo.cholesky' op operand 0 (a) must be square in its two last dimensions, but is tensor<2x3xf32>"
    );
    let attrs = [("epsilon", Attr::Float(0.1, ElementType::F32)), ("feature_index", Attr::i64(1))];
    assert_eq!(
        rule(OpKind::Linalg(LinalgOp::BatchNormTraining), &["4x3xf32", "3xf32", "3xf32"], &attrs, &[]),
        "(tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)"
    );
    assert_eq!(
        rule(OpKind::Linalg(LinalgOp::BatchNormTraining), &["4x3xf32", "3xf32", "4xf32"], &attrs, &[]),
        "'stablehlo.batch_norm_training' op operand 2 (offset) must be tensor<3xf32>, but is tensor<4xf32>"
    );
}

#[test]
fn collectives() {
    let groups = |g: Attr| [("all_gather_dim", Attr::i64(0)), ("replica_groups", g)];
    assert_eq!(
        rule(OpKind::Collective(CollectiveOp::AllGather), &["2x5xf32"], &groups(dense(2, 3, &[0, 1, 2, 3, 4, 5])), &[]),
        "(tensor<6x5xf32>)"
    );
    assert_eq!(
        rule(OpKind::Collective(CollectiveOp::AllGather), &["2xf32"], &groups(dense(1, 2, &[0, 0])), &[]),
        "'stablehlo.all_gather' op attribute 'replica_groups' lists id 0 twice"
    );
    assert_eq!(
        rule(OpKind::Collective(CollectiveOp::AllGather), &["2xf32"], &groups(dense(1, 2, &[0, 2])), &[]),
        "'stablehlo.all_gather' op attribute 'replica_groups' lists 2 ids, but id 1 is not among them"
    );
    let scatter = [("scatter_dimension", Attr::i64(0)), ("replica_groups", dense(1, 2, &[0, 1]))];
    assert_eq!(
        rule(OpKind::Collective(CollectiveOp::ReduceScatter), &["5xf32"], &scatter, &[]),
        "'stablehlo.reduce_scatter' op splits dimension 0 of size 5 over 2 devices"
    );
    let pairs = |p: &[i64]| [("source_target_pairs", dense(2, 2, p))];
    assert_eq!(
        rule(OpKind::Collective(CollectiveOp::CollectivePermute), &["2xf32"], &pairs(&[0, 1, 1, 0]), &[]),
        "(tensor<2xf32>)"
    );
    assert_eq!(
        rule(OpKind::Collective(CollectiveOp::CollectivePermute), &["2xf32"], &pairs(&[0, 1, 2, 1]), &[]),
        "'stablehlo.collective_permute' op attribute 'source_target_pairs' lists target 1 twice"
    );
}

#[test]
fn bodies() {
    let (f, i, x) = (ty("f32"), ty("i32"), ty("2x3xf32"));
    let attrs = [("dimensions", list(&[1]))];
    let reduce = |args: &[&Type], returns: &[&Type]| {
        let operands = [x.clone(), f.clone()];
        rule_with_bodies(OpKind::Body(BodyOp::Reduce), operands, &attrs, &[], &[(args, returns)])
    };
    assert_eq!(reduce(&[&f, &f], &[&f]), "(tensor<2xf32>)");
    assert_eq!(
        reduce(&[&f], &[&f]),
        "'stablehlo.reduce' op body takes 1 arguments, but must take 2: 1 accumulator(s) and 1 element(s)"
    );
    assert_eq!(
        reduce(&[&f, &f], &[&i]),
        "'stablehlo.reduce' op body returns tensor<i32> as value 0, but its argument 0 is tensor<f32>"
    );
    let (cond, next) = (ty("i1"), ty("2x4xf32"));
    let bodies: [(&[&Type], &[&Type]); 2] = [(&[&x], &[&cond]), (&[&x], &[&next])];
    assert_eq!(
        rule_with_bodies(OpKind::Control(ControlOp::While), [x.clone()], &[], &[], &bodies),
        "'stablehlo.while' op body returns (tensor<2x4xf32>), but the loop carries (tensor<2x3xf32>)"
    );
}

#[test]
fn chlo() {
    assert_eq!(
        rule(OpKind::Chlo(ChloOp::TopK), &["2x9xf32"], &[("k", Attr::i64(4))], &[]),
        "(tensor<2x4xf32>, tensor<2x4xi32>)"
    );
    assert_eq!(
        rule(OpKind::Chlo(ChloOp::TopK), &["2x3xf32"], &[("k", Attr::i64(4))], &[]),
        "'chlo.top_k' op operand 0 (operand) must be of at least 4 elements in its last dimension, but is tensor<2x3xf32>"
    );
}

#[test]
fn bounds_limit_static_extents() {
    let bounded = |b: &str| {
        let t = crate::TensorType {
            dims: [DYNAMIC].into_iter().collect(),
            elem: ElementType::F32,
            encoding: Some(b.into()),
        };
        Type::from(t)
    };
    assert!(types_agree(&bounded("#stablehlo.bounds<3>"), &ty("3xf32")));
    assert!(!types_agree(&bounded("#stablehlo.bounds<3>"), &ty("4xf32")));
}

#[test]
fn short_text_cannot_ask_for_endless_memory() {
    let huge = crate::TensorType::new([1 << 40, 2], ElementType::I64);
    let huge = Attr::Dense(Arc::new(Dense::splat(Arc::new(huge), &[0; 8])));
    assert_eq!(
        rule(OpKind::Collective(CollectiveOp::CollectivePermute), &["2xf32"], &[("source_target_pairs", huge)], &[]),
        "'stablehlo.collective_permute' op attribute 'source_target_pairs' must be pairs of integers, a constant of shape Nx2, but is of type tensor<1099511627776x2xi64>"
    );
    let uniform = [("rng_distribution", Attr::hlo_enum("rng_distribution", "UNIFORM"))];
    assert_eq!(
        rule(OpKind::Source(SourceOp::Rng), &["f32", "f32", "99999999999xi64"], &uniform, &[]),
        "'stablehlo.rng' op operand 2 (shape) must be a shape of at most 65536 dimensions, but is tensor<99999999999xi64>"
    );
}

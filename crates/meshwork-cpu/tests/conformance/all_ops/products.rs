//! Products of matrices, convolutions, linear algebra, normalizations.

use meshwork_ir::op::{ChloOp, ContractOp, DynamicOp, LinalgOp};
use meshwork_ir::{ElementType, OpKind};

use super::{Case, ty};

pub fn cases(kind: OpKind, elem: ElementType) -> Vec<Case> {
    let t = |dims: &[i64]| ty(dims, elem);
    let conv = |window: &str| {
        format!(
            "{window} dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, \
             feature_group_count = 1 : i64, batch_group_count = 1 : i64"
        )
    };
    match kind {
        OpKind::Contract(ContractOp::Dot) => {
            [(&[4, 5][..], &[5, 3][..], &[4, 3][..]), (&[5], &[5], &[]), (&[4, 5], &[5], &[4])]
                .map(|(a, b, r)| Case::new(kind, &[&t(a), &t(b)], "", &[&t(r)]))
                .into()
        }
        OpKind::Contract(ContractOp::DotGeneral) => {
            let case = |a: &[i64], b: &[i64], batch: &str, over: (&str, &str), r: &[i64]| {
                let attrs = format!(
                    "dot_dimension_numbers = #stablehlo.dot<{batch}lhs_contracting_dimensions = [{}], \
                     rhs_contracting_dimensions = [{}]>",
                    over.0, over.1
                );
                Case::new(kind, &[&t(a), &t(b)], &attrs, &[&t(r)])
            };
            let batch = "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], ";
            vec![
                case(&[17, 31], &[31, 13], "", ("1", "0"), &[17, 13]),
                case(&[31, 17], &[13, 31], "", ("0", "1"), &[17, 13]),
                case(&[3, 5, 7], &[3, 4, 7], batch, ("2", "2"), &[3, 5, 4]),
                case(&[0, 3], &[3, 2], "", ("1", "0"), &[0, 2]),
                case(&[3, 0], &[0, 2], "", ("1", "0"), &[3, 2]),
                case(&[2, 3], &[3, 2], "", ("0, 1", "1, 0"), &[]),
                case(&[2, 0], &[2, 0, 2], "", ("0, 1", "2, 1"), &[2]),
            ]
        }
        OpKind::Contract(ContractOp::Einsum) => {
            vec![Case::new(kind, &[&t(&[3, 4]), &t(&[4, 5])], "einsum_config = \"ij,jk->ik\"", &[&t(&[3, 5])])]
        }
        OpKind::Contract(ContractOp::UnaryEinsum) => {
            vec![Case::new(kind, &[&t(&[3, 4])], "einsum_config = \"ij->i\"", &[&t(&[3])])]
        }
        OpKind::Contract(ContractOp::Convolution) => {
            let args = [t(&[2, 9, 8, 3]), t(&[3, 2, 3, 4])];
            let case = |window: &str, to: &[i64]| Case::new(kind, &[&args[0], &args[1]], &conv(window), &[&t(to)]);
            vec![
                case("", &[2, 7, 7, 4]),
                case(
                    "window_strides = array<i64: 2, 1>, padding = dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>,",
                    &[2, 5, 9, 4],
                ),
                case("lhs_dilation = array<i64: 2, 1>, rhs_dilation = array<i64: 1, 2>,", &[2, 15, 6, 4]),
                case("rhs_dilation = array<i64: 1, 8>,", &[2, 7, 0, 4]),
            ]
        }
        OpKind::Dynamic(DynamicOp::Conv) => {
            let (x, k, p) = (t(&[2, 9, 8, 3]), t(&[3, 2, 3, 4]), "tensor<2x2xi32>");
            let case = Case::of(kind, "%x0, %x1, %c", &[&x, &k, p], &[&x, &k], "", &conv(""), &[&t(&[2, 9, 9, 4])]);
            vec![case.after(&format!("%c = stablehlo.constant dense<[[1, 1], [0, 2]]> : {p}"))]
        }
        OpKind::Linalg(LinalgOp::Fft) => {
            let case = |name: &str, from: &str, to: &str| {
                let attrs = format!("fft_type = #stablehlo<fft_type {name}>, fft_length = array<i64: 12>");
                Case::new(kind, &[from], &attrs, &[to])
            };
            let pair = match elem {
                ElementType::F64 => ElementType::C128,
                _ => ElementType::C64,
            };
            vec![
                case("FFT", &t(&[3, 12]), &t(&[3, 12])),
                case("IFFT", &t(&[3, 12]), &t(&[3, 12])),
                case("RFFT", &t(&[3, 12]), &ty(&[3, 7], pair)),
                case("IRFFT", &t(&[3, 7]), &ty(&[3, 12], elem.real_part())),
            ]
        }
        OpKind::Linalg(LinalgOp::Cholesky) => {
            // x xᵀ + 8 is positive definite.
            let (x, kind_of) = (t(&[4, 4]), if elem.is_complex() { "(8.0, 0.0)" } else { "8.0" });
            let conj = if elem.is_complex() {
                format!("%j = \"chlo.conj\"(%x0) : ({x}) -> {x}")
            } else {
                format!("%j = stablehlo.reshape %x0 : ({x}) -> {x}")
            };
            let before = format!(
                "{conj}
                 %p = stablehlo.dot_general %x0, %j, contracting_dims = [1] x [1] : ({x}, {x}) -> {x}
                 %i = stablehlo.iota dim = 0 : tensor<4x4xi32>
                 %k = stablehlo.iota dim = 1 : tensor<4x4xi32>
                 %d = stablehlo.compare EQ, %i, %k : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
                 %e = stablehlo.constant dense<{kind_of}> : {x}
                 %s = stablehlo.add %p, %e : {x}
                 %a = stablehlo.select %d, %s, %p : tensor<4x4xi1>, {x}"
            );
            let case = |lower: bool| Case::of(kind, "%a", &[&x], &[&x], "", &format!("lower = {lower}"), &[&x]);
            // Only one triangle is defined; the other is taken away.
            vec![case(true), case(false)].into_iter().map(|c| c.after(&before)).collect()
        }
        OpKind::Linalg(LinalgOp::TriangularSolve) => {
            let (a, b) = (t(&[4, 4]), t(&[4, 3]));
            let case = |lower: bool, transpose: &str| {
                let attrs = format!(
                    "left_side = true, lower = {lower}, unit_diagonal = true, \
                     transpose_a = #stablehlo<transpose {transpose}>"
                );
                Case::new(kind, &[&a, &b], &attrs, &[&b])
            };
            vec![case(true, "NO_TRANSPOSE"), case(false, "NO_TRANSPOSE"), case(true, "TRANSPOSE"), {
                case(false, "ADJOINT")
            }]
        }
        OpKind::Linalg(LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining | LinalgOp::BatchNormGrad) => {
            let (x, f) = (t(&[4, 5, 3]), t(&[3]));
            // Of a positive variance.
            let attrs = "epsilon = 1.0 : f32, feature_index = 2 : i64";
            let (before, v) = (format!("%v = stablehlo.multiply %x3, %x3 : {f}"), "%v");
            match kind {
                OpKind::Linalg(LinalgOp::BatchNormTraining) => {
                    vec![Case::new(kind, &[&x, &f, &f], attrs, &[&x, &f, &f])]
                }
                OpKind::Linalg(LinalgOp::BatchNormInference) => {
                    let all = [&x[..], &f, &f, &f, &f];
                    let operands = format!("%x0, %x1, %x2, %x4, {v}");
                    vec![Case::of(kind, &operands, &all, &all, "", attrs, &[&x]).after(&before)]
                }
                _ => {
                    let all = [&x[..], &f, &f, &f, &x];
                    let operands = format!("%x0, %x1, %x2, {v}, %x4");
                    vec![Case::of(kind, &operands, &all, &all, "", attrs, &[&x, &f, &f]).after(&before)]
                }
            }
        }
        OpKind::Chlo(ChloOp::RaggedDot) => {
            let (x, w, r) = (t(&[7, 5]), t(&[2, 5, 3]), t(&[7, 3]));
            let attrs = "ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], \
                         rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], \
                         rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>";
            let types = [&x[..], &w, "tensor<2xi32>"];
            let case = Case::of(kind, "%x0, %x1, %c", &types, &[&x, &w], "", attrs, &[&r]);
            vec![case.after("%c = stablehlo.constant dense<[3, 4]> : tensor<2xi32>")]
        }
        _ => unreachable!("{kind:?} is not a product"),
    }
}

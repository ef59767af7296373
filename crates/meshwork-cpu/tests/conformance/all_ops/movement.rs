//! Sources of data and its movement.

use meshwork_ir::op::{ChloOp, DynamicOp, MovementOp, SourceOp};
use meshwork_ir::{ElementType, OpKind};

use super::{Case, ty};

/// `array<i64: 1, 2>`.
pub fn array(items: &[i64]) -> String {
    let items: Vec<String> = items.iter().map(i64::to_string).collect();
    if items.is_empty() { "array<i64>".into() } else { format!("array<i64: {}>", items.join(", ")) }
}

/// Constants `%c0`, `%c1`, … that hold shapes and indices.
fn constants(lists: &[&[i64]]) -> String {
    let line = |(i, list): (usize, &&[i64])| {
        format!("%c{i} = stablehlo.constant dense<{list:?}> : tensor<{}xi32>", list.len())
    };
    lists.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

pub fn cases(kind: OpKind, elem: ElementType) -> Vec<Case> {
    let t = |dims: &[i64]| ty(dims, elem);
    let (x, one, i) = (t(&[5, 6, 7]), t(&[]), "tensor<i32>");
    let x = x.as_str();
    let literal = match elem {
        e if e.is_complex() => "(1.0, 2.0)",
        e if e.is_float() => "2.0",
        ElementType::I1 => "true",
        _ => "1",
    };
    let gather = "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], \
                  start_index_map = [0], index_vector_dim = 1>";
    match kind {
        OpKind::Source(SourceOp::Constant) | OpKind::Chlo(ChloOp::Constant) => [&[][..], &[0], &[3, 5]]
            .map(|dims| Case::new(kind, &[], &format!("value = dense<{literal}> : {}", t(dims)), &[&t(dims)]))
            .into(),
        OpKind::Chlo(ChloOp::ConstantLike) => {
            let value = match elem {
                e if e.is_float() || e.is_complex() => format!("2.0 : {}", elem.real_part()),
                _ => format!("1 : {elem}"),
            };
            vec![Case::new(kind, &[x], &format!("value = {value}"), &[x])]
        }
        OpKind::Source(SourceOp::Iota) => (0..3)
            .map(|d| Case::new(kind, &[], &format!("iota_dimension = {d} : i64"), &[x]))
            .chain([Case::new(kind, &[], "iota_dimension = 0 : i64", &[&t(&[0])])])
            .collect(),
        OpKind::Dynamic(DynamicOp::Iota) => {
            let case = Case::of(kind, "%c0", &["tensor<2xi32>"], &[], "", "iota_dimension = 1 : i64", &[&t(&[2, 9])]);
            vec![case.after(&constants(&[&[2, 9]]))]
        }
        OpKind::Movement(MovementOp::BitcastConvert) => {
            let to = ElementType::ALL.iter().filter(|to| !to.is_complex() && **to != ElementType::I1);
            let same = to.clone().map(|&to| Case::new(kind, &[x], "", &[&ty(&[5, 6, 7], to)]));
            let split = to.clone().map(|&to| Case::new(kind, &[&t(&[9])], "", &[&ty(&[9, 4], to)]));
            let joined = to.map(|&to| Case::new(kind, &[&t(&[9, 2])], "", &[&ty(&[9], to)]));
            same.chain(split).chain(joined).collect()
        }
        OpKind::Movement(MovementOp::Broadcast) => {
            vec![Case::new(kind, &[x], "broadcast_sizes = array<i64: 2>", &[&t(&[2, 5, 6, 7])])]
        }
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            let case = |from: &[i64], map: &[i64], to: &[i64]| {
                Case::new(kind, &[&t(from)], &format!("broadcast_dimensions = {}", array(map)), &[&t(to)])
            };
            vec![case(&[], &[], &[4, 9]), case(&[9], &[1], &[4, 9]), case(&[4, 1], &[0, 1], &[4, 9]), {
                case(&[9, 4], &[1, 0], &[4, 9, 2])
            }]
        }
        OpKind::Dynamic(DynamicOp::BroadcastInDim) => {
            let (from, to) = (t(&[9]), t(&[4, 9]));
            let attrs = "broadcast_dimensions = array<i64: 1>";
            let case = Case::of(kind, "%x0, %c0", &[&from, "tensor<2xi32>"], &[&from], "", attrs, &[&to]);
            vec![case.after(&constants(&[&[4, 9]]))]
        }
        OpKind::Movement(MovementOp::Concatenate) => {
            let case = |a: &[i64], b: &[i64], dim: usize| {
                let mut r = a.to_vec();
                r[dim] += b[dim];
                Case::new(kind, &[&t(a), &t(b)], &format!("dimension = {dim} : i64"), &[&t(&r)])
            };
            vec![case(&[5, 6], &[5, 2], 1), case(&[5, 6], &[1, 6], 0), case(&[0, 6], &[3, 6], 0)]
        }
        OpKind::Movement(MovementOp::DynamicSlice) => {
            let (x, r) = (t(&[6, 8]), t(&[2, 3]));
            vec![Case::new(kind, &[&x, i, i], "slice_sizes = array<i64: 2, 3>", &[&r])]
        }
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => {
            let (x, u) = (t(&[6, 8]), t(&[2, 3]));
            vec![Case::new(kind, &[&x, &u, i, i], "", &[&x]), Case::new(kind, &[&x, &t(&[0, 3]), i, i], "", &[&x])]
        }
        OpKind::Movement(MovementOp::Gather) => {
            let (x, rows) = (t(&[6, 8]), "tensor<4x1xi32>");
            vec![Case::new(kind, &[&x, rows], &format!("{gather}, slice_sizes = array<i64: 1, 8>"), &[&t(&[4, 8])])]
        }
        OpKind::Dynamic(DynamicOp::Gather) => {
            let (x, rows) = (t(&[6, 8]), "tensor<4x1xi32>");
            let types = [&x, rows, "tensor<2xi32>"];
            let case = Case::of(kind, "%x0, %x1, %c0", &types, &[&x, rows], "", gather, &[&t(&[4, 8])]);
            vec![case.after(&constants(&[&[1, 8]]))]
        }
        OpKind::Movement(MovementOp::GetDimensionSize) => vec![Case::new(kind, &[x], "dimension = 1 : i64", &[i])],
        OpKind::Movement(MovementOp::Pad) => {
            let case = |low: &[i64], high: &[i64], interior: &[i64], to: &[i64]| {
                let attrs = format!(
                    "edge_padding_low = {}, edge_padding_high = {}, interior_padding = {}",
                    array(low),
                    array(high),
                    array(interior)
                );
                Case::new(kind, &[x, &one], &attrs, &[&t(to)])
            };
            vec![
                case(&[1, -1, 0], &[0, 2, -2], &[1, 0, 0], &[10, 7, 5]),
                case(&[0, 3, 1], &[2, 0, 1], &[0, 0, 0], &[7, 9, 9]),
                case(&[-5, 0, 0], &[0, 0, 0], &[0, 0, 0], &[0, 6, 7]),
            ]
        }
        OpKind::Dynamic(DynamicOp::Pad) => {
            let three = "tensor<3xi32>";
            let types = [x, &one, three, three, three];
            let r = t(&[10, 7, 5]);
            let case = Case::of(kind, "%x0, %x1, %c0, %c1, %c2", &types, &[x, &one], "", "", &[&r]);
            vec![case.after(&constants(&[&[1, -1, 0], &[0, 2, -2], &[1, 0, 0]]))]
        }
        OpKind::Movement(MovementOp::Reshape) => {
            vec![Case::new(kind, &[x], "", &[&t(&[35, 6])]), Case::new(kind, &[&t(&[0, 3])], "", &[&t(&[2, 0])])]
        }
        OpKind::Dynamic(DynamicOp::Reshape) => {
            let case = Case::of(kind, "%x0, %c0", &[x, "tensor<2xi32>"], &[x], "", "", &[&t(&[35, 6])]);
            vec![case.after(&constants(&[&[35, 6]]))]
        }
        OpKind::Movement(MovementOp::Reverse) => [&[0, 2][..], &[1], &[]]
            .map(|dims| Case::new(kind, &[x], &format!("dimensions = {}", array(dims)), &[x]))
            .into(),
        OpKind::Movement(MovementOp::Slice) => {
            let case = |start: &[i64], limit: &[i64], strides: &[i64], to: &[i64]| {
                let (a, b, c) = (array(start), array(limit), array(strides));
                let attrs = format!("start_indices = {a}, limit_indices = {b}, strides = {c}");
                Case::new(kind, &[x], &attrs, &[&t(to)])
            };
            vec![
                case(&[1, 0, 3], &[4, 6, 7], &[1, 2, 1], &[3, 3, 4]),
                case(&[2, 0, 0], &[2, 6, 7], &[1, 1, 1], &[0, 6, 7]),
            ]
        }
        OpKind::Dynamic(DynamicOp::Slice) => {
            let three = "tensor<3xi32>";
            let r = t(&[3, 3, 4]);
            let case = Case::of(kind, "%x0, %c0, %c1, %c2", &[x, three, three, three], &[x], "", "", &[&r]);
            vec![case.after(&constants(&[&[1, 0, 3], &[4, 6, 7], &[1, 2, 1]]))]
        }
        OpKind::Movement(MovementOp::TorchIndexSelect) => {
            let attrs = "dim = 1 : i64, batch_dims = 0 : i64";
            let case = Case::of(kind, "%x0, %c0", &[x, "tensor<3xi32>"], &[x], "", attrs, &[&t(&[5, 3, 7])]);
            vec![case.after(&constants(&[&[4, 0, 4]]))]
        }
        OpKind::Movement(MovementOp::Transpose) => {
            [([2, 0, 1], [7, 5, 6]), ([1, 0, 2], [6, 5, 7]), ([0, 1, 2], [5, 6, 7])]
                .map(|(p, to)| Case::new(kind, &[x], &format!("permutation = {}", array(&p)), &[&t(&to)]))
                .into()
        }
        _ => unreachable!("{kind:?} moves nothing"),
    }
}

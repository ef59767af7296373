//! Communication, random numbers, tuples, tokens and checks.

use meshwork_ir::op::{CheckOp, CollectiveOp, ControlOp, SourceOp, TokenOp};
use meshwork_ir::{ElementType, OpKind};

use super::bodies::combine;
use super::{Case, ty};

/// On four devices, in two groups and in one.
pub fn collectives(kind: OpKind, elem: ElementType) -> Vec<Case> {
    let t = |dims: &[i64]| ty(dims, elem);
    let channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";
    let body = combine(if elem == ElementType::I1 { "or" } else { "add" }, &t(&[]));
    let mut all = vec![];
    for (groups, shape, n) in [("[[0, 1, 2, 3]]", "1x4", 4), ("[[3, 1], [0, 2]]", "2x2", 2)] {
        let groups = format!("replica_groups = dense<{groups}> : tensor<{shape}xi64>");
        let usual = format!("{groups}, {channel}");
        let (x, wide) = (t(&[4, 3]), t(&[4 * n, 3]));
        let (x, wide) = (x.as_str(), wide.as_str());
        all.push(match kind {
            OpKind::Collective(CollectiveOp::AllGather) => {
                Case::new(kind, &[x], &format!("all_gather_dim = 0 : i64, use_global_device_ids, {usual}"), &[wide])
            }
            OpKind::Collective(CollectiveOp::CollectiveReduce) => {
                Case::with_body(kind, &[x], &body, &format!("use_global_device_ids, {usual}"), &[x])
            }
            OpKind::Collective(CollectiveOp::AllReduce) => {
                Case::with_body(kind, &[x], &body, &format!("use_global_device_ids, {usual}"), &[x])
            }
            OpKind::Collective(CollectiveOp::ReduceScatter) => {
                let attrs = format!("scatter_dimension = 0 : i64, use_global_device_ids, {usual}");
                Case::with_body(kind, &[wide], &body, &attrs, &[x])
            }
            OpKind::Collective(CollectiveOp::AllToAll) => {
                let attrs =
                    format!("split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = {n} : i64, {usual}");
                Case::new(kind, &[wide], &attrs, &[&t(&[4, 3 * n])])
            }
            OpKind::Collective(CollectiveOp::CollectiveBroadcast) => Case::new(kind, &[x], &usual, &[x]),
            OpKind::Collective(CollectiveOp::RaggedAllToAll) => {
                // By sender, receiver and row: none or one, so that they fit.
                let size = |a: i64, b: i64, row: i64| i64::from((a + b + row) % n < 3).to_string();
                let row = |a: i64, b: i64| (0..4).map(|r| size(a, b, r)).collect::<Vec<_>>().join(", ");
                let sender = |a: i64| (0..n).map(|b| format!("[{}]", row(a, b))).collect::<Vec<_>>().join(", ");
                let sizes = (0..n).map(|a| format!("[{}]", sender(a))).collect::<Vec<_>>().join(", ");
                let table = format!("tensor<{n}x{n}x4xi32>");
                Case::of(kind, "%x0, %sizes", &[x, &table], &[x], "", &usual, &[&t(&[4, 3 * n])])
                    .after(&format!("%sizes = stablehlo.constant dense<[{sizes}]> : {table}"))
            }
            // Its groups are of replicas, of which there is one.
            OpKind::Collective(CollectiveOp::CrossReplicaSum) => {
                Case::new(kind, &[x], "replica_groups = dense<0> : tensor<1x1xi64>", &[x])
            }
            OpKind::Collective(CollectiveOp::CollectivePermute) => {
                let pairs = if n == 4 { "[[0, 1], [1, 2], [2, 3]]" } else { "[[3, 0], [1, 1], [0, 2]]" };
                Case::new(
                    kind,
                    &[x],
                    &format!("source_target_pairs = dense<{pairs}> : tensor<3x2xi64>, {channel}"),
                    &[x],
                )
            }
            _ => unreachable!("{kind:?} is not a collective"),
        });
    }
    all.into_iter().map(|c| c.on(4)).collect()
}

pub fn cases(kind: OpKind, elem: ElementType) -> Vec<Case> {
    let t = |dims: &[i64]| ty(dims, elem);
    let (x, one) = (t(&[3, 5]), t(&[]));
    let x = x.as_str();
    let number = match elem {
        e if e.is_complex() => "(0.0, 0.0)",
        e if e.is_float() => "0.0",
        ElementType::I1 => "false",
        _ => "0",
    };
    let zero = format!("%z = stablehlo.constant dense<{number}> : {x}");
    let value = format!("value = dense<{number}> : {x}");
    match kind {
        OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId) => {
            vec![Case::new(kind, &[], "", &["tensor<ui32>"]).on(4)]
        }
        OpKind::Source(SourceOp::RngBitGenerator) => ["THREE_FRY", "PHILOX", "DEFAULT"]
            .map(|a| {
                let attrs = format!("rng_algorithm = #stablehlo<rng_algorithm {a}>");
                Case::new(kind, &["tensor<2xui64>"], &attrs, &["tensor<2xui64>", x])
            })
            .into(),
        OpKind::Control(ControlOp::OptimizationBarrier) => vec![Case::new(kind, &[x, &one], "", &[x, &one])],
        OpKind::Token(TokenOp::Tuple | TokenOp::GetTupleElement) => {
            let pair = format!("tuple<{x}, {one}>");
            let before = format!("%t = \"stablehlo.tuple\"(%x0, %x1) : ({x}, {one}) -> {pair}");
            let get = OpKind::Token(TokenOp::GetTupleElement);
            vec![Case::of(get, "%t", &[&pair], &[x, &one], "", "index = 1 : i32", &[&one]).after(&before)]
        }
        OpKind::Token(TokenOp::AfterAll | TokenOp::CreateToken) => {
            let token = "!stablehlo.token";
            let before = format!(
                "%k = \"stablehlo.create_token\"() : () -> {token}
                 %m = \"stablehlo.after_all\"(%k, %k) : ({token}, {token}) -> {token}"
            );
            vec![Case::new(OpKind::Control(ControlOp::OptimizationBarrier), &[x], "", &[x]).after(&before)]
        }
        // Zero is like zero, and the arguments are not.
        OpKind::Check(CheckOp::ExpectEq) => {
            vec![Case::of(kind, "%z, %z", &[x, x], &[], "", "", &[]).after(&zero), {
                Case::of(kind, "%x0, %z", &[x, x], &[x], "", "", &[]).after(&zero)
            }]
        }
        OpKind::Check(CheckOp::ExpectEqConst) => {
            vec![Case::of(kind, "%z", &[x], &[], "", &value, &[]).after(&zero), Case::new(kind, &[x], &value, &[])]
        }
        OpKind::Check(CheckOp::ExpectAlmostEq) => {
            vec![Case::of(kind, "%z, %z", &[x, x], &[], "", "", &[]).after(&zero)]
        }
        OpKind::Check(CheckOp::ExpectAlmostEqConst) => {
            vec![Case::of(kind, "%z", &[x], &[], "", &value, &[]).after(&zero), Case::new(kind, &[x], &value, &[])]
        }
        OpKind::Check(CheckOp::ExpectClose) => {
            let attrs = "max_ulp_difference = 3 : ui64";
            vec![Case::of(kind, "%z, %z", &[x, x], &[], "", attrs, &[]).after(&zero)]
        }
        _ => unreachable!("{kind:?} is of another family"),
    }
}

//! Every operation of the op table is enumerated: in one of the files of this suite, or here. An operation that is in neither, and
//! not among those that no program to split has, fails a test.

use meshwork_ir::OpKind;

use crate::cases::{Program, conform, program, t};

/// The files of the suite, in which programs name their operations.
const FILES: [&str; 9] = [
    include_str!("algebra.rs"),
    include_str!("contraction.rs"),
    include_str!("control.rs"),
    include_str!("elementwise.rs"),
    include_str!("indexing.rs"),
    include_str!("manual.rs"),
    include_str!("movement.rs"),
    include_str!("reductions.rs"),
    include_str!("reshards.rs"),
];

/// Operations that are not split under every sharding, and why.
const OTHERS: &[(&str, &[&str])] = &[
    ("they are around the operations of every program", &["builtin.module", "func.return"]),
    (
        "only programs that are split already have it; sort.rs has it, and the engine's all_ops on several devices",
        &["meshwork.ragged_all_to_all"],
    ),
    (
        "calls and composites are inlined before anything is split; compile.rs and composites.rs have them",
        &["func.call", "stablehlo.composite", "sdy.named_computation"],
    ),
    (
        "they are written for one device and stay as they are: in manual computations of meshwork/tests/manual.rs, on devices in \
         meshwork-cpu/tests/conformance",
        &[
            "stablehlo.partition_id",
            "stablehlo.replica_id",
            "stablehlo.all_gather",
            "stablehlo.all_to_all",
            "stablehlo.collective_broadcast",
            "stablehlo.collective_reduce",
            "stablehlo.cross-replica-sum",
            "stablehlo.reduce_scatter",
            "stablehlo.async_start",
            "stablehlo.async_done",
        ],
    ),
    (
        "extents that only a run knows: such programs are not split",
        &[
            "stablehlo.set_dimension_size",
            "stablehlo.dynamic_broadcast_in_dim",
            "stablehlo.dynamic_conv",
            "stablehlo.dynamic_gather",
            "stablehlo.dynamic_iota",
            "stablehlo.dynamic_pad",
            "stablehlo.dynamic_reshape",
            "stablehlo.real_dynamic_slice",
        ],
    ),
    (
        "the outside world, tokens and tuples, which are taken apart first; compile.rs has them",
        &[
            "stablehlo.after_all",
            "stablehlo.create_token",
            "stablehlo.get_tuple_element",
            "stablehlo.tuple",
            "stablehlo.infeed",
            "stablehlo.outfeed",
            "stablehlo.recv",
            "stablehlo.send",
        ],
    ),
    (
        "what Shardy's own passes write: golden tests of meshwork-shardy",
        &[
            "sdy.all_gather",
            "sdy.all_reduce",
            "sdy.all_slice",
            "sdy.all_to_all",
            "sdy.collective_permute",
            "sdy.data_flow_edge",
            "sdy.func_data_flow_edge",
            "sdy.reduce_scatter",
            "sdy.replicated_to_unreduced",
            "sdy.sharded_to_unreduced",
        ],
    ),
    (
        "assertions and printing of StableHLO's tests, which look at whole values on the evaluator",
        &[
            "check.expect_almost_eq",
            "check.expect_almost_eq_const",
            "check.expect_close",
            "check.expect_eq",
            "check.expect_eq_const",
            "check.expect_serialized_eq",
            "interpreter.print",
            "interpreter.probe",
            "interpreter.run_parallel",
        ],
    ),
    ("the evaluator's own random numbers, of which no two runs need agree", &["stablehlo.rng"]),
];

/// Programs around operations that no other file has.
fn programs() -> Vec<Program> {
    let mut all = vec![];
    for n in [1, 3, 4, 7] {
        let (x, row, column) = (t(&[n, 4], "f32"), t(&[4], "f32"), t(&[n], "f32"));
        let mut add = |args: &[&String], results: &[&String], body: String| all.push(program(args, results, body));
        add(
            &[&x, &x],
            &[&x],
            format!(
                "%r0 = \"stablehlo.map\"(%a0, %a1) ({{
^bb0(%p: tensor<f32>, %q: tensor<f32>):
  %s = stablehlo.multiply %p, %q : tensor<f32>
  stablehlo.return %s : tensor<f32>
}}) {{dimensions = array<i64: 0, 1>}} : ({x}, {x}) -> {x}"
            ),
        );
        let square = t(&[4, 4], "f32");
        add(
            &[&x, &square],
            &[&x],
            format!("%r0 = \"stablehlo.einsum\"(%a0, %a1) {{einsum_config = \"ab,bc->ac\"}} : ({x}, {square}) -> {x}"),
        );
        add(
            &[&x],
            &[&column],
            format!("%r0 = \"stablehlo.unary_einsum\"(%a0) {{einsum_config = \"ab->a\"}} : ({x}) -> {column}"),
        );
        let (index, picked) = (t(&[3], "i32"), t(&[n, 3], "f32"));
        add(
            &[&x, &index],
            &[&picked],
            format!(
                "%r0 = \"stablehlo.torch_index_select\"(%a0, %a1) {{dim = 1 : i64, batch_dims = 0 : i64}} : ({x}, {index}) -> {picked}"
            ),
        );
        add(&[&x, &row], &[&x, &row], format!("%r0, %r1 = stablehlo.optimization_barrier %a0, %a1 : {x}, {row}"));
        let number = t(&[], "i32");
        add(&[&x], &[&number], format!("%r0 = stablehlo.get_dimension_size %a0, dim = 0 : ({x}) -> {number}"));
        add(&[&x, &square], &[&x], format!("%r0 = stablehlo.dot %a0, %a1 : ({x}, {square}) -> {x}"));
        add(&[&row], &[&x], format!("%r0 = stablehlo.broadcast %a0, sizes = [{n}] : ({row}) -> {x}"));
        for dialect in ["chlo", "sdy"] {
            add(
                &[&x],
                &[&x],
                format!(
                    "%c = \"{dialect}.constant\"() {{value = dense<3.0> : {x}}} : () -> {x}\n%r0 = stablehlo.add %a0, %c : {x}"
                ),
            );
        }
        add(&[&x], &[&x], format!("%r0 = \"chlo.constant_like\"(%a0) {{value = 2.0 : f32}} : ({x}) -> {x}"));
        let (groups, out) = (t(&[2, 4, 3], "f32"), t(&[n, 3], "f32"));
        add(
            &[&x, &groups],
            &[&out],
            format!(
                "%c = stablehlo.constant dense<[1, {}]> : tensor<2xi32>
%r0 = \"chlo.ragged_dot\"(%a0, %a1, %c) {{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], \
                 rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], \
                 lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}} : ({x}, {groups}, tensor<2xi32>) -> {out}",
                n - 1
            ),
        );
        add(
            &[&x, &row],
            &[&x, &row],
            format!(
                "%r0, %r1 = \"chlo.scan\"(%a0, %a1) ({{
^bb0(%a: {row}, %b: {row}):
  %s = stablehlo.add %a, %b : {row}
  stablehlo.return %s, %s : {row}, {row}
}}) {{dimension = 0 : i64, is_reverse = false, operandSegmentSizes = array<i32: 1, 1>, resultSegmentSizes = array<i32: 1, 1>}} \
                 : ({x}, {row}) -> ({x}, {row})"
            ),
        );
        add(&[&x], &[&x], format!("%r0 = sdy.propagation_barrier %a0 allowed_direction=NONE : {x}"));
        add(&[&x], &[&x], format!("%r0 = sdy.reshard %a0 <@mesh, [{{}}, {{\"x\"}}]> : {x}"));
        add(
            &[&x, &x],
            &[&x],
            format!(
                "sdy.sharding_group %a0 group_id=0 : {x}
%r0 = stablehlo.add %a0, %a1 : {x}
sdy.sharding_group %r0 group_id=0 : {x}"
            ),
        );
    }
    all
}

#[test]
fn operations_without_a_file_of_their_own() {
    conform(programs(), 3);
}

/// Whether a text names an operation: not as the beginning of a longer name.
fn names(text: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    text.match_indices(name).any(|(at, _)| ends(&text[at + name.len()..]))
}

#[test]
fn every_operation_is_enumerated() {
    let here: Vec<String> = programs().into_iter().map(|p| p.body).collect();
    for &kind in OpKind::ALL {
        let name = kind.name();
        if kind == OpKind::Unregistered {
            continue;
        }
        // `elementwise.rs` goes through the table.
        let enumerated = kind.is_elementwise()
            || FILES.iter().copied().chain(here.iter().map(String::as_str)).any(|text| names(text, name));
        let reasons = OTHERS.iter().filter(|(_, ops)| ops.contains(&name)).count();
        assert!(
            enumerated || reasons > 0,
            "{name} is in no program of this suite: add one to `programs`, or to OTHERS why it is never split"
        );
        assert!(!enumerated || reasons == 0, "{name} is enumerated, and OTHERS says that it is not");
        assert!(reasons <= 1, "{name} is in OTHERS {reasons} times");
    }
    for name in OTHERS.iter().flat_map(|(_, ops)| *ops) {
        assert!(OpKind::ALL.iter().any(|kind| kind.name() == *name), "{name} is no operation of the table");
    }
}

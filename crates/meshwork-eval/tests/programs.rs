//! Programs through the whole evaluator: control flow, bodies, many devices, errors.

use meshwork_eval::{EvalError, Outcome, captures, run, run_devices_observed, run_observed, run_op};
use meshwork_ir::op::BodyOp;
use meshwork_ir::{DeviceGrid, ElementType, Literal, Module, Walk, text};

fn i64s(dims: &[i64], values: &[i64]) -> Literal {
    Literal::from_i64s(dims.iter().copied(), ElementType::I64, values).expect("count fits")
}

fn f64s(dims: &[i64], values: &[f64]) -> Literal {
    Literal::from_f64s(dims.iter().copied(), ElementType::F64, values).expect("count fits")
}

fn parse(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|e| panic!("{}", e.render("test", source)))
}

fn eval(source: &str, args: &[Literal]) -> Result<Vec<Literal>, EvalError> {
    run(&parse(source), None, args)
}

fn error(source: &str, args: &[Literal]) -> String {
    eval(source, args).expect_err("the program runs").to_string()
}

/// One function on a grid of devices.
fn devices(source: &str, args: Vec<Vec<Literal>>, replicas: usize, partitions: usize) -> Result<Outcome, EvalError> {
    run_devices_observed(&parse(source), None, args, DeviceGrid { replicas, partitions })
}

fn rows(values: &[&[i64]]) -> Vec<Vec<Literal>> {
    values.iter().map(|v| vec![i64s(&[v.len() as i64], v)]).collect()
}

fn firsts(outcome: &Outcome) -> Vec<Vec<i64>> {
    outcome.results.iter().map(|r| r[0].to_i64s()).collect()
}

#[test]
fn while_loop_uses_values_from_outside() {
    let source = r#"
        func.func @main(%n: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
          %one = stablehlo.constant dense<1> : tensor<i64>
          %zero = stablehlo.constant dense<0> : tensor<i64>
          %r:2 = stablehlo.while(%i = %zero, %sum = %zero) : tensor<i64>, tensor<i64>
          cond {
            %c = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %next = stablehlo.add %i, %one : tensor<i64>
            %more = stablehlo.add %sum, %next : tensor<i64>
            stablehlo.return %next, %more : tensor<i64>, tensor<i64>
          }
          func.return %r#0, %r#1 : tensor<i64>, tensor<i64>
        }"#;
    for (n, sum) in [(0, 0), (1, 1), (1000, 500500)] {
        assert_eq!(eval(source, &[i64s(&[], &[n])]).unwrap(), [i64s(&[], &[n]), i64s(&[], &[sum])]);
    }
}

#[test]
fn case_outside_takes_the_last_branch() {
    let source = r#"
        func.func @main(%i: tensor<i32>) -> tensor<i64> {
          %r = "stablehlo.case"(%i) ({
            %a = stablehlo.constant dense<10> : tensor<i64>
            stablehlo.return %a : tensor<i64>
          }, {
            %b = stablehlo.constant dense<20> : tensor<i64>
            stablehlo.return %b : tensor<i64>
          }) : (tensor<i32>) -> tensor<i64>
          func.return %r : tensor<i64>
        }"#;
    for (i, want) in [(0, 10), (1, 20), (-1, 20), (5, 20)] {
        let i = Literal::from_i64s([], ElementType::I32, &[i]).unwrap();
        assert_eq!(eval(source, &[i]).unwrap(), [i64s(&[], &[want])]);
    }
}

#[test]
fn calls_share_nothing_but_their_arguments() {
    let source = r#"
        func.func @main(%x: tensor<i64>) -> tensor<i64> {
          %a = func.call @twice(%x) : (tensor<i64>) -> tensor<i64>
          %b = func.call @twice(%a) : (tensor<i64>) -> tensor<i64>
          %c = stablehlo.subtract %b, %a : tensor<i64>
          func.return %c : tensor<i64>
        }
        func.func private @twice(%x: tensor<i64>) -> tensor<i64> {
          %y = stablehlo.add %x, %x : tensor<i64>
          func.return %y : tensor<i64>
        }"#;
    assert_eq!(eval(source, &[i64s(&[], &[3])]).unwrap(), [i64s(&[], &[6])]);
}

#[test]
fn recursion_is_an_error() {
    let source = r#"
        func.func @main(%x: tensor<i64>) -> tensor<i64> {
          %y = func.call @f(%x) : (tensor<i64>) -> tensor<i64>
          func.return %y : tensor<i64>
        }
        func.func private @f(%x: tensor<i64>) -> tensor<i64> {
          %y = func.call @f(%x) : (tensor<i64>) -> tensor<i64>
          func.return %y : tensor<i64>
        }"#;
    assert!(error(source, &[i64s(&[], &[3])]).contains("recursion: @f calls itself"));
}

#[test]
fn calls_nested_too_deep_are_an_error() {
    let mut source = String::from("func.func @f300(%x: tensor<i64>) -> tensor<i64> { func.return %x : tensor<i64> }\n");
    for i in 0..300 {
        let name = if i == 0 { "main".to_string() } else { format!("f{i}") };
        source += &format!(
            "func.func @{name}(%x: tensor<i64>) -> tensor<i64> {{\n  %y = func.call @f{}(%x) : (tensor<i64>) -> \
             tensor<i64>\n  func.return %y : tensor<i64>\n}}\n",
            i + 1
        );
    }
    assert!(error(&source, &[i64s(&[], &[3])]).contains("nested more than 200 deep"));
}

#[test]
fn reduce_with_two_operands_and_over_nothing() {
    let source = |n: i64| {
        format!(
            r#"
        func.func @main(%x: tensor<2x{n}xi64>, %i: tensor<2x{n}xi64>) -> (tensor<2xi64>, tensor<2xi64>) {{
          %low = stablehlo.constant dense<-100> : tensor<i64>
          %zero = stablehlo.constant dense<0> : tensor<i64>
          %r:2 = "stablehlo.reduce"(%x, %i, %low, %zero) ({{
          ^bb0(%a: tensor<i64>, %ai: tensor<i64>, %b: tensor<i64>, %bi: tensor<i64>):
            %c = stablehlo.compare GE, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
            %v = stablehlo.select %c, %a, %b : tensor<i1>, tensor<i64>
            %w = stablehlo.select %c, %ai, %bi : tensor<i1>, tensor<i64>
            stablehlo.return %v, %w : tensor<i64>, tensor<i64>
          }}) {{dimensions = array<i64: 1>}} : (tensor<2x{n}xi64>, tensor<2x{n}xi64>, tensor<i64>, tensor<i64>) -> (tensor<2xi64>, tensor<2xi64>)
          func.return %r#0, %r#1 : tensor<2xi64>, tensor<2xi64>
        }}"#
        )
    };
    let (x, i) = (i64s(&[2, 3], &[1, 7, 7, 5, 4, 3]), i64s(&[2, 3], &[0, 1, 2, 0, 1, 2]));
    assert_eq!(eval(&source(3), &[x, i]).unwrap(), [i64s(&[2], &[7, 5]), i64s(&[2], &[1, 0])]);
    let none = i64s(&[2, 0], &[]);
    let out = eval(&source(0), &[none.clone(), none]).unwrap();
    assert_eq!(out, [i64s(&[2], &[-100, -100]), i64s(&[2], &[0, 0])]);
}

#[test]
fn body_with_control_flow_runs_as_a_block() {
    let source = r#"
        func.func @main(%x: tensor<4xi64>) -> tensor<i64> {
          %zero = stablehlo.constant dense<0> : tensor<i64>
          %r = "stablehlo.reduce"(%x, %zero) ({
          ^bb0(%a: tensor<i64>, %b: tensor<i64>):
            %c = stablehlo.compare GT, %b, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
            %s = "stablehlo.if"(%c) ({
              %t = stablehlo.add %a, %b : tensor<i64>
              stablehlo.return %t : tensor<i64>
            }, {
              stablehlo.return %a : tensor<i64>
            }) : (tensor<i1>) -> tensor<i64>
            stablehlo.return %s : tensor<i64>
          }) {dimensions = array<i64: 0>} : (tensor<4xi64>, tensor<i64>) -> tensor<i64>
          func.return %r : tensor<i64>
        }"#;
    assert_eq!(eval(source, &[i64s(&[4], &[1, -5, 2, 3])]).unwrap(), [i64s(&[], &[6])]);
}

#[test]
fn window_outside_the_input_counts_the_initial_value() {
    let source = r#"
        func.func @main(%x: tensor<3xi64>) -> tensor<4xi64> {
          %init = stablehlo.constant dense<10> : tensor<i64>
          %r = "stablehlo.reduce_window"(%x, %init) ({
          ^bb0(%a: tensor<i64>, %b: tensor<i64>):
            %s = stablehlo.add %a, %b : tensor<i64>
            stablehlo.return %s : tensor<i64>
          }) {window_dimensions = array<i64: 2>, padding = dense<[[1, 1]]> : tensor<1x2xi64>} : (tensor<3xi64>, tensor<i64>) -> tensor<4xi64>
          func.return %r : tensor<4xi64>
        }"#;
    assert_eq!(eval(source, &[i64s(&[3], &[1, 2, 3])]).unwrap(), [i64s(&[4], &[21, 13, 15, 23])]);
}

#[test]
fn select_and_scatter_picks_the_first_of_equals() {
    let source = r#"
        func.func @main(%x: tensor<5xi64>, %s: tensor<2xi64>) -> tensor<5xi64> {
          %init = stablehlo.constant dense<0> : tensor<i64>
          %r = "stablehlo.select_and_scatter"(%x, %s, %init) ({
          ^bb0(%a: tensor<i64>, %b: tensor<i64>):
            %c = stablehlo.compare GE, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }, {
          ^bb0(%a: tensor<i64>, %b: tensor<i64>):
            %t = stablehlo.add %a, %b : tensor<i64>
            stablehlo.return %t : tensor<i64>
          }) {window_dimensions = array<i64: 3>, window_strides = array<i64: 2>} : (tensor<5xi64>, tensor<2xi64>, tensor<i64>) -> tensor<5xi64>
          func.return %r : tensor<5xi64>
        }"#;
    let out = eval(source, &[i64s(&[5], &[1, 4, 4, 4, 1]), i64s(&[2], &[5, 7])]).unwrap();
    assert_eq!(out, [i64s(&[5], &[0, 5, 7, 0, 0])]);
}

#[test]
fn sort_descending_with_a_payload() {
    let source = r#"
        func.func @main(%k: tensor<5xi64>, %p: tensor<5xi64>) -> (tensor<5xi64>, tensor<5xi64>) {
          %r:2 = "stablehlo.sort"(%k, %p) ({
          ^bb0(%a: tensor<i64>, %b: tensor<i64>, %c: tensor<i64>, %d: tensor<i64>):
            %t = stablehlo.compare GT, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
            stablehlo.return %t : tensor<i1>
          }) {dimension = 0 : i64, is_stable = true} : (tensor<5xi64>, tensor<5xi64>) -> (tensor<5xi64>, tensor<5xi64>)
          func.return %r#0, %r#1 : tensor<5xi64>, tensor<5xi64>
        }"#;
    let out = eval(source, &[i64s(&[5], &[1, 3, 2, 3, 1]), i64s(&[5], &[0, 1, 2, 3, 4])]).unwrap();
    assert_eq!(out, [i64s(&[5], &[3, 3, 2, 1, 1]), i64s(&[5], &[1, 3, 2, 0, 4])]);
}

#[test]
fn dead_values_return_their_memory() {
    let mut source = String::from("func.func @main(%v0: tensor<1000xf64>) -> tensor<1000xf64> {\n");
    for i in 0..20 {
        source += &format!("  %v{} = stablehlo.add %v{i}, %v{i} : tensor<1000xf64>\n", i + 1);
    }
    source += "  func.return %v20 : tensor<1000xf64>\n}";
    let outcome = run_observed(&parse(&source), None, &[f64s(&[1000], &[1.0; 1000])]).unwrap();
    assert_eq!(outcome.results[0][0].to_f64s()[7], (1u64 << 20) as f64);
    // The operand and the result of one step.
    assert_eq!(outcome.stats.peak_bytes, 2 * 8000);
}

#[test]
fn wrong_arguments_are_named() {
    let source = "func.func @main(%x: tensor<2xi64>) -> tensor<2xi64> { func.return %x : tensor<2xi64> }";
    assert!(error(source, &[]).ends_with("it takes 1 arguments, 0 given"));
    assert!(
        error(source, &[i64s(&[3], &[1, 2, 3])])
            .ends_with("argument 0 is declared tensor<2xi64>, the array given is tensor<3xi64>")
    );
}

#[test]
fn shapes_that_are_data_are_checked() {
    let source = r#"
        func.func @main(%x: tensor<2xi64>, %s: tensor<1xi64>) -> tensor<2xi64> {
          %y = stablehlo.dynamic_reshape %x, %s : (tensor<2xi64>, tensor<1xi64>) -> tensor<2xi64>
          func.return %y : tensor<2xi64>
        }"#;
    let x = i64s(&[2], &[1, 2]);
    assert_eq!(eval(source, &[x.clone(), i64s(&[1], &[2])]).unwrap()[0], x);
    assert!(error(source, &[x.clone(), i64s(&[1], &[3])]).contains("does not have [3] elements"));
    assert!(error(source, &[x, i64s(&[1], &[-2])]).contains("not all extents are known"));
}

#[test]
fn unknown_custom_call_is_named() {
    let source = r#"
        func.func @main(%x: tensor<2xi64>) -> tensor<2xi64> {
          %y = stablehlo.custom_call @magic(%x) : (tensor<2xi64>) -> tensor<2xi64>
          func.return %y : tensor<2xi64>
        }"#;
    assert!(error(source, &[i64s(&[2], &[1, 2])]).contains("custom call @magic"));
}

#[test]
fn scan_backwards_over_columns() {
    let source = r#"
        func.func @main(%x: tensor<2x3xi64>) -> (tensor<2x3xi64>, tensor<2xi64>) {
          %init = stablehlo.constant dense<0> : tensor<2xi64>
          %r:2 = chlo.scan(%x) inits(%init) dimension=1 attributes {is_reverse = true} {
          ^bb0(%a: tensor<2xi64>, %sum: tensor<2xi64>):
            %s = stablehlo.add %a, %sum : tensor<2xi64>
            stablehlo.return %s, %s : tensor<2xi64>, tensor<2xi64>
          } : (tensor<2x3xi64>, tensor<2xi64>) -> (tensor<2x3xi64>, tensor<2xi64>)
          func.return %r#0, %r#1 : tensor<2x3xi64>, tensor<2xi64>
        }"#;
    let out = eval(source, &[i64s(&[2, 3], &[1, 2, 3, 4, 5, 6])]).unwrap();
    assert_eq!(out, [i64s(&[2, 3], &[6, 5, 3, 15, 11, 6]), i64s(&[2], &[6, 15])]);
}

const SUM: &str = r#"({
  ^bb0(%left: tensor<i64>, %right: tensor<i64>):
    %total = stablehlo.add %left, %right : tensor<i64>
    stablehlo.return %total : tensor<i64>
  })"#;

#[test]
fn all_reduce_in_padded_groups_counts_its_bytes() {
    let source = format!(
        r#"
        func.func @main(%x: tensor<2xi64>) -> tensor<2xi64> {{
          %r = "stablehlo.all_reduce"(%x) {SUM} {{
            replica_groups = dense<[[0, 2, 1], [3, -1, -1]]> : tensor<2x3xi64>,
            channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids
          }} : (tensor<2xi64>) -> tensor<2xi64>
          func.return %r : tensor<2xi64>
        }}"#
    );
    let out = devices(&source, rows(&[&[1, 10], &[2, 20], &[3, 30], &[4, 40]]), 1, 4).unwrap();
    assert_eq!(firsts(&out), [[6, 60], [6, 60], [6, 60], [4, 40]]);
    let stats = out.stats.collectives["all-reduce"];
    assert_eq!((stats.count, stats.operand_bytes), (1, 16));
    assert!((stats.wire_bytes - 2.0 * 2.0 / 3.0 * 16.0).abs() < 1e-9);
}

#[test]
fn gather_scatter_and_exchange_along_a_group() {
    let source = format!(
        r#"
        func.func @main(%x: tensor<4xi64>) -> (tensor<8xi64>, tensor<2xi64>, tensor<4xi64>) {{
          %g = "stablehlo.all_gather"(%x) {{all_gather_dim = 0 : i64, replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}} : (tensor<4xi64>) -> tensor<8xi64>
          %s = "stablehlo.reduce_scatter"(%x) {SUM} {{scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<4xi64>) -> tensor<2xi64>
          %t = "stablehlo.all_to_all"(%x) {{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<4xi64>) -> tensor<4xi64>
          func.return %g, %s, %t : tensor<8xi64>, tensor<2xi64>, tensor<4xi64>
        }}"#
    );
    let out = devices(&source, rows(&[&[1, 2, 3, 4], &[5, 6, 7, 8]]), 2, 1).unwrap();
    let all: Vec<Vec<Vec<i64>>> = out.results.iter().map(|r| r.iter().map(Literal::to_i64s).collect()).collect();
    assert_eq!(all[0], [vec![5, 6, 7, 8, 1, 2, 3, 4], vec![6, 8], vec![1, 2, 5, 6]]);
    assert_eq!(all[1], [vec![5, 6, 7, 8, 1, 2, 3, 4], vec![10, 12], vec![3, 4, 7, 8]]);
    let kinds: Vec<&str> = out.stats.collectives.keys().copied().collect();
    assert_eq!(kinds, ["all-gather", "all-to-all", "reduce-scatter"]);
    assert_eq!(out.stats.collectives["all-gather"].wire_bytes, 32.0);
}

#[test]
fn permute_gives_zeros_to_those_without_a_source() {
    let source = r#"
        func.func @main(%x: tensor<1xi64>) -> tensor<1xi64> {
          %r = "stablehlo.collective_permute"(%x) {
            source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>,
            channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>
          } : (tensor<1xi64>) -> tensor<1xi64>
          func.return %r : tensor<1xi64>
        }"#;
    let out = devices(source, rows(&[&[1], &[2], &[3]]), 1, 3).unwrap();
    assert_eq!(firsts(&out), [[0], [1], [2]]);
    assert!((out.stats.collectives["collective-permute"].wire_bytes - 8.0 * 2.0 / 3.0).abs() < 1e-9);
}

/// Each pair of devices loops as often as its first device says, with a collective in the loop.
#[test]
fn groups_may_diverge_in_control_flow() {
    let source = format!(
        r#"
        func.func @main(%n: tensor<1xi64>) -> tensor<1xi64> {{
          %zero = stablehlo.constant dense<0> : tensor<i64>
          %one = stablehlo.constant dense<1> : tensor<1xi64>
          %s = stablehlo.reshape %n : (tensor<1xi64>) -> tensor<i64>
          %step = stablehlo.constant dense<1> : tensor<i64>
          %r:2 = stablehlo.while(%i = %zero, %x = %one) : tensor<i64>, tensor<1xi64>
          cond {{
            %c = stablehlo.compare LT, %i, %s : (tensor<i64>, tensor<i64>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }} do {{
            %j = stablehlo.add %i, %step : tensor<i64>
            %y = "stablehlo.all_reduce"(%x) {SUM} {{
              replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>,
              channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids
            }} : (tensor<1xi64>) -> tensor<1xi64>
            stablehlo.return %j, %y : tensor<i64>, tensor<1xi64>
          }}
          func.return %r#1 : tensor<1xi64>
        }}"#
    );
    let out = devices(&source, rows(&[&[3], &[3], &[5], &[5]]), 1, 4).unwrap();
    assert_eq!(firsts(&out), [[8], [8], [32], [32]]);
    let stuck = devices(&source, rows(&[&[3], &[2], &[5], &[5]]), 1, 4).unwrap_err().to_string();
    assert!(stuck.contains("device 0 waits in 'stablehlo.all_reduce'"), "{stuck}");
    assert!(stuck.contains("for devices 1"), "{stuck}");
}

#[test]
fn error_of_one_device_is_reported_not_the_waiting_of_the_others() {
    let source = format!(
        r#"
        func.func @main(%x: tensor<1xi64>) -> tensor<1xi64> {{
          %zero = stablehlo.constant dense<0> : tensor<1xi64>
          check.expect_eq %x, %zero : tensor<1xi64>
          %r = "stablehlo.all_reduce"(%x) {SUM} {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<1xi64>) -> tensor<1xi64>
          func.return %r : tensor<1xi64>
        }}"#
    );
    let error = devices(&source, rows(&[&[0], &[1]]), 2, 1).unwrap_err();
    assert!(matches!(error, EvalError::CheckFailed { .. }), "{error}");
}

#[test]
fn manual_computation_splits_and_joins() {
    let source = format!(
        r#"
        sdy.mesh @mesh = <["x"=2, "y"=2]>
        func.func @main(%x: tensor<4x2xi64>) -> (tensor<4x2xi64>, tensor<2xi64>) {{
          %r:2 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"x", "y"}}, {{}}]>] out_shardings=[<@mesh, [{{"x", "y"}}, {{}}]>, <@mesh, [{{"x"}}]>] manual_axes={{"x", "y"}} (%a: tensor<1x2xi64>) {{
            %b = stablehlo.add %a, %a : tensor<1x2xi64>
            %c = stablehlo.slice %a [0:1, 0:1] : (tensor<1x2xi64>) -> tensor<1x1xi64>
            %d = stablehlo.reshape %c : (tensor<1x1xi64>) -> tensor<1xi64>
            %e = "stablehlo.all_reduce"(%d) {SUM} {{
              replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>,
              channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids
            }} : (tensor<1xi64>) -> tensor<1xi64>
            sdy.return %b, %e : tensor<1x2xi64>, tensor<1xi64>
          }} : (tensor<4x2xi64>) -> (tensor<4x2xi64>, tensor<2xi64>)
          func.return %r#0, %r#1 : tensor<4x2xi64>, tensor<2xi64>
        }}"#
    );
    let outcome = run_observed(&parse(&source), None, &[i64s(&[4, 2], &[1, 2, 3, 4, 5, 6, 7, 8])]).unwrap();
    let want = [i64s(&[4, 2], &[2, 4, 6, 8, 10, 12, 14, 16]), i64s(&[2], &[4, 12])];
    assert_eq!(outcome.results[0], want);
    assert_eq!(outcome.stats.collectives["all-reduce"].count, 1);
}

#[test]
fn manual_computation_inside_another() {
    let source = r#"
        sdy.mesh @mesh = <["x"=2, "y"=2]>
        func.func @main(%x: tensor<4xi64>) -> tensor<4xi64> {
          %r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%a: tensor<2xi64>) {
            %s = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"y"}]>] out_shardings=[<@mesh, [{"y"}]>] manual_axes={"y"} (%b: tensor<1xi64>) {
              %p = stablehlo.partition_id : tensor<ui32>
              %q = stablehlo.convert %p : (tensor<ui32>) -> tensor<i64>
              %t = stablehlo.reshape %q : (tensor<i64>) -> tensor<1xi64>
              %u = stablehlo.add %b, %t : tensor<1xi64>
              sdy.return %u : tensor<1xi64>
            } : (tensor<2xi64>) -> tensor<2xi64>
            sdy.return %s : tensor<2xi64>
          } : (tensor<4xi64>) -> tensor<4xi64>
          func.return %r : tensor<4xi64>
        }"#;
    assert_eq!(eval(source, &[i64s(&[4], &[10, 20, 30, 40])]).unwrap(), [i64s(&[4], &[10, 21, 32, 43])]);
}

#[test]
fn collective_beyond_the_devices_is_an_error() {
    let source = r#"
        func.func @main(%x: tensor<1xi64>) -> tensor<2xi64> {
          %g = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi64>) -> tensor<2xi64>
          func.return %g : tensor<2xi64>
        }"#;
    assert!(error(source, &[i64s(&[1], &[1])]).contains("replica groups name id 1 where there are 1"));
}

#[test]
fn started_operation_is_picked_up_later() {
    let source = r#"
        func.func @main(%x: tensor<1xi64>) -> tensor<2xi64> {
          %f = "stablehlo.async_start"(%x) ({
          ^bb0(%a: tensor<1xi64>):
            %g = "stablehlo.all_gather"(%a) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<1xi64>) -> tensor<2xi64>
            stablehlo.return %g : tensor<2xi64>
          }) : (tensor<1xi64>) -> !stablehlo.future<tensor<2xi64>>
          %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<2xi64>>) -> tensor<2xi64>
          func.return %r : tensor<2xi64>
        }"#;
    let out = devices(source, rows(&[&[1], &[2]]), 2, 1).unwrap();
    assert_eq!(firsts(&out), [[1, 2], [1, 2]]);
}

#[test]
fn sums_round_as_their_type_does() {
    let source = r#"
        func.func @main(%x: tensor<3xf32>) -> (tensor<f32>, tensor<f32>) {
          %zero = stablehlo.constant dense<0.0> : tensor<f32>
          %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
          %one = stablehlo.constant dense<1.0> : tensor<3xf32>
          %d = stablehlo.dot_general %x, %one, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
          func.return %s, %d : tensor<f32>, tensor<f32>
        }"#;
    // 2^24 + 1 is not an f32, so adding 1 twice is lost.
    let x = Literal::from_f64s([3], ElementType::F32, &[16777216.0, 1.0, 1.0]).unwrap();
    let out = eval(source, &[x]).unwrap();
    assert_eq!((out[0].to_f64s(), out[1].to_f64s()), (vec![16777216.0], vec![16777216.0]));
}

#[test]
fn the_smallest_elements_by_custom_call() {
    let source = r#"
        func.func @main(%x: tensor<2x3xi64>, %i: tensor<2x3xi64>, %z: tensor<i64>)
            -> (tensor<2x2xi64>, tensor<2x2xi64>, tensor<2x1xi64>) {
          %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %z, %z) {called_computations = [@top_k_lt_i64_comparator],
            mhlo.backend_config = {aggregate_to_topk = true, reduction_dim = 1 : i64, top_k = 2 : i64}}
            : (tensor<2x3xi64>, tensor<2x3xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x2xi64>, tensor<2x2xi64>)
          %1:2 = stablehlo.custom_call @mhlo.topk(%x) {mhlo.attributes = {k = 1 : i64, largest = false}}
            : (tensor<2x3xi64>) -> (tensor<2x1xi64>, tensor<2x1xi32>)
          return %0#0, %0#1, %1#0 : tensor<2x2xi64>, tensor<2x2xi64>, tensor<2x1xi64>
        }
        func.func private @top_k_lt_i64_comparator(%a: tensor<i64>, %b: tensor<i64>) -> tensor<i1> {
          %0 = stablehlo.compare LT, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
          return %0 : tensor<i1>
        }"#;
    let args = [i64s(&[2, 3], &[5, 1, 3, 2, 9, 2]), i64s(&[2, 3], &[10, 11, 12, 10, 11, 12]), i64s(&[], &[0])];
    let results = eval(source, &args).unwrap();
    assert_eq!(results[0].to_i64s(), [1, 3, 2, 2]);
    assert_eq!(results[1].to_i64s(), [11, 12, 10, 12]);
    assert_eq!(results[2].to_i64s(), [1, 2]);
}

#[test]
fn the_smallest_elements_of_columns() {
    let source = r#"
        func.func @main(%x: tensor<3x2xi64>, %i: tensor<3x2xi64>, %z: tensor<i64>) -> (tensor<2x2xi64>, tensor<2x2xi64>) {
          %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %z, %z) {called_computations = [@top_k_lt_i64_comparator],
            mhlo.backend_config = {aggregate_to_topk = false, reduction_dim = 0 : i64, top_k = 1 : i64}}
            : (tensor<3x2xi64>, tensor<3x2xi64>, tensor<i64>, tensor<i64>) -> (tensor<2x2xi64>, tensor<2x2xi64>)
          return %0#0, %0#1 : tensor<2x2xi64>, tensor<2x2xi64>
        }
        func.func private @top_k_lt_i64_comparator(%a: tensor<i64>, %b: tensor<i64>) -> tensor<i1> {
          %0 = stablehlo.compare LT, %a, %b : (tensor<i64>, tensor<i64>) -> tensor<i1>
          return %0 : tensor<i1>
        }"#;
    let args = [i64s(&[3, 2], &[5, 1, 3, 2, 9, 0]), i64s(&[3, 2], &[10, 11, 20, 21, 30, 31]), i64s(&[], &[0])];
    let results = eval(source, &args).unwrap();
    assert_eq!(results[0].to_i64s(), [3, 0, 5, 1]);
    assert_eq!(results[1].to_i64s(), [20, 31, 10, 11]);
}

#[test]
fn one_op_runs_by_itself_with_what_its_regions_capture() {
    let source = r#"
        func.func @main(%x: tensor<3xi64>, %k: tensor<i64>) -> tensor<i64> {
          %zero = stablehlo.constant dense<0> : tensor<i64>
          %r = "stablehlo.reduce"(%x, %zero) ({
          ^bb0(%a: tensor<i64>, %b: tensor<i64>):
            %scaled = stablehlo.multiply %b, %k : tensor<i64>
            %sum = func.call @plus(%a, %scaled) : (tensor<i64>, tensor<i64>) -> tensor<i64>
            stablehlo.return %sum : tensor<i64>
          }) {dimensions = array<i64: 0>} : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
          func.return %r : tensor<i64>
        }
        func.func private @plus(%a: tensor<i64>, %b: tensor<i64>) -> tensor<i64> {
          %sum = stablehlo.add %a, %b : tensor<i64>
          func.return %sum : tensor<i64>
        }"#;
    let module = parse(source);
    let kind = |k| module.all_ops(Walk::PreOrder).into_iter().find(|&op| module.op(op).kind() == k).unwrap();
    let reduce = kind(meshwork_ir::OpKind::Body(BodyOp::Reduce));
    let captured = captures(&module, reduce);
    assert_eq!(captured, [module.block(module.body_of(module.entry().unwrap(), 0).unwrap()).args()[1]]);
    let args = || vec![i64s(&[3], &[1, 2, 3]), i64s(&[], &[5]), i64s(&[], &[10])];
    assert_eq!(run_op(&module, reduce, args()).unwrap(), [i64s(&[], &[65])]);
    let wrong = run_op(&module, reduce, args().split_off(1)).unwrap_err().to_string();
    assert!(wrong.contains("declared tensor<3xi64> is given as tensor<i64>"), "{wrong}");
}

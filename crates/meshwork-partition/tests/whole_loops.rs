//! Loops that take a row of a split dimension in every turn.

mod common;

use common::{check, collectives};

/// A running sum along the rows of `%x`, which the loop carries or reads from outside; `times` such sweeps.
fn sweeps(rows: i64, columns: i64, devices: i64, carried: bool, times: i64) -> String {
    let (whole, row) = (format!("tensor<{rows}x{columns}xf32>"), format!("tensor<1x{columns}xf32>"));
    let (carries, types, ends, x) = if carried {
        ("%x = %source, ", format!("{whole}, "), "%x, ", "%x")
    } else {
        ("", String::new(), "", "%source")
    };
    let first = if carried { 1 } else { 0 };
    format!(
        r#"sdy.mesh @mesh = <["x"={devices}]>
        func.func @main(%a: {whole} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> {whole} {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %out:2 = stablehlo.while(%k = %zero, %source = %a) : tensor<i32>, {whole}
          cond {{
            %times = stablehlo.constant dense<{times}> : tensor<i32>
            %c = stablehlo.compare LT, %k, %times : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }} do {{
            %none = stablehlo.constant dense<0.0> : {row}
            %log = stablehlo.constant dense<0.0> : {whole}
            %in:{count} = stablehlo.while({carries}%i = %zero, %h = %none, %y = %log) : {types}tensor<i32>, {row}, {whole}
            cond {{
              %n = stablehlo.constant dense<{rows}> : tensor<i32>
              %d = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %d : tensor<i1>
            }} do {{
              %here = stablehlo.dynamic_slice {x}, %i, %zero, sizes = [1, {columns}] : ({whole}, tensor<i32>, tensor<i32>) -> {row}
              %sum = stablehlo.add %h, %here : {row}
              %half = stablehlo.constant dense<0.5> : {row}
              %new = stablehlo.multiply %sum, %half : {row}
              %z = stablehlo.dynamic_update_slice %y, %new, %i, %zero : ({whole}, {row}, tensor<i32>, tensor<i32>) -> {whole}
              %next = stablehlo.add %i, %one : tensor<i32>
              stablehlo.return {ends}%next, %new, %z : {types}tensor<i32>, {row}, {whole}
            }}
            %more = stablehlo.add %k, %one : tensor<i32>
            stablehlo.return %more, %in#{last} : tensor<i32>, {whole}
          }}
          return %out#1 : {whole}
        }}"#,
        count = 3 + first,
        last = 2 + first,
    )
}

#[test]
fn recurrences_along_a_split_dimension_gather_once() {
    for (rows, devices) in [(16, 2), (16, 8), (17, 4), (64, 8), (31, 3)] {
        for carried in [true, false] {
            let source = sweeps(rows, 5, devices, carried, 3);
            let program = check(&source);
            let times: Vec<i64> = collectives(&program).iter().map(|c| c.2).collect();
            assert!(times.iter().all(|&t| t == 1) && times.len() <= 2, "{:?}\n{source}", collectives(&program));
        }
    }
}

/// Few rows, or more than a device should hold, stay where they are.
#[test]
fn short_and_large_loops_stay_split() {
    let few = check(&sweeps(4, 5, 2, true, 1));
    assert!(collectives(&few).iter().any(|c| c.2 == 4), "{:?}", collectives(&few));
    let (_, large) = common::split(&sweeps(4096, 4096, 8, true, 2));
    assert!(collectives(&large).iter().any(|c| c.2 > 1), "{:?}", collectives(&large));
}

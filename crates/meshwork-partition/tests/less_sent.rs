//! What is sent once instead of several times: reductions that are added up, and gathers in loops. What is sent again where
//! memory has no room.

mod common;

use common::{check, close, collectives, inputs, try_check_on};
use meshwork_partition::{CompileOptions, Compiled};

/// Two products over split rows, `%g` and `%h`, and `%r` made of them by `body`.
fn products(rows: i64, elem: &str, body: &str, out: &str) -> String {
    let (a, m) = (format!("tensor<{rows}x8x{elem}>"), format!("tensor<8x8x{elem}>"));
    let split = r#"{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}"#;
    format!(
        r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%a: {a} {split}, %b: {a} {split}, %c: {a} {split}) -> ({m} {{sdy.sharding = #sdy.sharding<@mesh, {out}>}}) {{
          %g = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : ({a}, {a}) -> {m}
          %h = stablehlo.dot_general %b, %c, contracting_dims = [0] x [0] : ({a}, {a}) -> {m}
          {body}
          return %r : {m}
        }}"#
    )
}

/// Bytes that reductions take in.
fn reduced(program: &Compiled) -> i64 {
    let reduces = |name: &str| name == "all-reduce" || name == "reduce-scatter";
    collectives(program).iter().filter(|c| reduces(c.0)).map(|c| c.1 * c.2).sum()
}

#[test]
fn sums_of_reductions_are_reduced_once() {
    let m = "tensor<8x8xf32>";
    let bodies = [
        format!("%r = stablehlo.add %g, %h : {m}"),
        format!("%r = stablehlo.subtract %g, %h : {m}"),
        format!("%n = stablehlo.negate %g : {m}\n%r = stablehlo.add %n, %h : {m}"),
        format!("%t = stablehlo.transpose %g, dims = [1, 0] : ({m}) -> {m}\n%r = stablehlo.add %h, %t : {m}"),
        format!(
            "%t = stablehlo.transpose %g, dims = [1, 0] : ({m}) -> {m}
             %u = stablehlo.transpose %t, dims = [1, 0] : ({m}) -> {m}
             %k = stablehlo.dot_general %a, %c, contracting_dims = [0] x [0] : (tensor<ROWSx8xf32>, tensor<ROWSx8xf32>) -> {m}
             %s = stablehlo.add %h, %u : {m}
             %r = stablehlo.subtract %s, %k : {m}"
        ),
    ];
    for rows in [4, 7, 64] {
        for out in ["[{}, {}]", r#"[{"x"}, {}]"#, r#"[{}, {"x"}]"#] {
            for body in &bodies {
                let source = products(rows, "f32", &body.replace("ROWS", &rows.to_string()), out);
                let program = check(&source);
                let most = if body.contains("transpose") && out != "[{}, {}]" { 2 } else { 1 };
                if rows == 64 {
                    assert!(reduced(&program) <= most * 256, "{:?}\n{source}", collectives(&program));
                }
            }
        }
    }
}

#[test]
fn reductions_that_something_else_reads_stay_apart() {
    let m = "tensor<8x8xf32>";
    for body in [
        format!("%s = stablehlo.add %g, %h : {m}\n%r = stablehlo.multiply %s, %g : {m}"),
        format!("%r = stablehlo.multiply %g, %h : {m}"),
        format!("%t = stablehlo.tanh %g : {m}\n%r = stablehlo.add %t, %h : {m}"),
        format!("%r = stablehlo.maximum %g, %h : {m}"),
    ] {
        let program = check(&products(64, "f32", &body, "[{}, {}]"));
        assert_eq!(reduced(&program), 512, "{body}: {:?}", collectives(&program));
    }
    let program = check(&products(64, "i32", "%r = stablehlo.add %g, %h : tensor<8x8xi32>", "[{}, {}]"));
    assert_eq!(reduced(&program), 256);
}

/// Maxima of rows that are split: the greater of two is a maximum too.
#[test]
fn a_maximum_of_maxima_is_one() {
    let source = r#"sdy.mesh @mesh = <["x"=4]>
    func.func @main(%a: tensor<7x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
                    %b: tensor<5x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<3xf32> {
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %g = stablehlo.reduce(%a init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<7x3xf32>, tensor<f32>) -> tensor<3xf32>
      %h = stablehlo.reduce(%b init: %low) applies stablehlo.maximum across dimensions = [0] : (tensor<5x3xf32>, tensor<f32>) -> tensor<3xf32>
      %r = stablehlo.maximum %g, %h : tensor<3xf32>
      return %r : tensor<3xf32> }"#;
    assert_eq!(reduced(&check(source)), 12);
}

/// A stack of `layers` weights, split by `placed`, that one or two loops go through, forwards and backwards.
fn layers(layers: i64, n: i64, placed: &str, loops: usize) -> String {
    let (w, x) = (format!("tensor<{layers}x{n}x{n}xf32>"), format!("tensor<{n}x64xf32>"));
    let mut text = String::new();
    for i in 0..loops {
        let (before, start) = if i == 0 {
            ("%w".to_string(), "%x".to_string())
        } else {
            (format!("%r{}#1", i - 1), format!("%r{}#2", i - 1))
        };
        let at = if i % 2 == 0 { "%k" } else { "%back" };
        text += &format!(
            "%r{i}:3 = stablehlo.while(%k = %zero, %v = {before}, %y = {start}) : tensor<i32>, {w}, {x}
             cond {{
               %n = stablehlo.constant dense<{layers}> : tensor<i32>
               %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1>
             }} do {{
               %z = stablehlo.constant dense<0> : tensor<i32>
               %one = stablehlo.constant dense<1> : tensor<i32>
               %last = stablehlo.constant dense<{}> : tensor<i32>
               %back = stablehlo.subtract %last, %k : tensor<i32>
               %s = stablehlo.dynamic_slice %v, {at}, %z, %z, sizes = [1, {n}, {n}] : ({w}, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{n}x{n}xf32>
               %m = stablehlo.reshape %s : (tensor<1x{n}x{n}xf32>) -> tensor<{n}x{n}xf32>
               %d = stablehlo.dot_general %m, %y, contracting_dims = [1] x [0] : (tensor<{n}x{n}xf32>, {x}) -> {x}
               %t = stablehlo.tanh %d : {x}
               %j = stablehlo.add %k, %one : tensor<i32>
               stablehlo.return %j, %v, %t : tensor<i32>, {w}, {x}
             }}\n",
            layers - 1
        );
    }
    format!(
        r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%w: {w} {{sdy.sharding = #sdy.sharding<@mesh, {placed}>}},
                        %x: {x} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}}) -> ({x} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}}) {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          {text}
          return %r{}#2 : {x}
        }}"#,
        loops - 1
    )
}

fn gathers(program: &Compiled) -> Vec<(i64, i64)> {
    collectives(program).iter().filter(|c| c.0 == "all-gather").map(|c| (c.1, c.2)).collect()
}

#[test]
fn what_two_loops_gather_is_gathered_once() {
    for placed in [r#"[{}, {"x"}, {}]"#, r#"[{}, {}, {"x"}]"#] {
        let (one, two) = (check(&layers(3, 16, placed, 1)), check(&layers(3, 16, placed, 2)));
        // One loop gains nothing: a layer at a time takes less memory.
        assert_eq!(gathers(&one), [(256, 3)], "{placed}");
        assert_eq!(gathers(&two), [(768, 1)], "{placed}");
        assert_eq!(one.plan.wire_bytes(), two.plan.wire_bytes());
        // Blocks that are not even, and more loops.
        check(&layers(3, 6, placed, 2));
        check(&layers(2, 3, placed, 3));
    }
}

/// With the memory of a device known, layers are gathered at once only if they fit.
#[test]
fn memory_decides_what_is_gathered_at_once() {
    let source = layers(3, 16, r#"[{}, {"x"}, {}]"#, 2);
    let mut options = CompileOptions::default();
    let on = |options: &CompileOptions| {
        try_check_on(&source, options, inputs, close).unwrap_or_else(|what| panic!("{what}"))
    };
    let free = on(&options);
    options.machine.device.capacity = Some(free.plan.peak.bytes as f64 + 3.0 * 16.0 * 16.0 * 4.0);
    assert_eq!(gathers(&on(&options)), gathers(&free));
    options.machine.device.capacity = Some(free.plan.peak.bytes as f64 - 4.0);
    let tight = on(&options);
    assert_eq!(gathers(&tight), [(256, 3), (256, 3)]);
    assert!(tight.plan.peak.bytes < free.plan.peak.bytes);
}

/// Layers written out one by one: what is gathered for the way there is kept for the way back if it fits, else gathered
/// again.
#[test]
fn gathers_are_repeated_where_memory_has_no_room() {
    let (n, count) = (32, 4);
    let (w, x) = (format!("tensor<{n}x{n}xf32>"), format!("tensor<64x{n}xf32>"));
    let mut body = String::new();
    let mut at = "%x".to_string();
    for i in (0..count).chain((0..count).rev()).enumerate() {
        let (step, layer) = i;
        body += &format!(
            "%d{step} = stablehlo.dot_general {at}, %w{layer}, contracting_dims = [1] x [0] : ({x}, {w}) -> {x}
             %t{step} = stablehlo.tanh %d{step} : {x}\n"
        );
        at = format!("%t{step}");
    }
    let split = r#"{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}"#;
    let weights: Vec<String> = (0..count).map(|i| format!("%w{i}: {w} {split}")).collect();
    let source = format!(
        r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%x: {x} {split}, {}) -> ({x} {split}) {{
          {body}
          return {at} : {x} }}"#,
        weights.join(", ")
    );
    let mut options = CompileOptions { combine_bytes: 0, ..CompileOptions::default() };
    let on = |options: &CompileOptions| {
        try_check_on(&source, options, inputs, close).unwrap_or_else(|what| panic!("{what}"))
    };
    let free = on(&options);
    assert_eq!(gathers(&free).len(), count);
    let mut sent = free.plan.wire_bytes();
    for share in [0.9, 0.75, 0.6] {
        let room = share * free.plan.peak.bytes as f64;
        options.machine.device.capacity = Some(room);
        let tight = on(&options);
        assert!(tight.plan.peak.bytes as f64 <= room, "{} of {room}", tight.plan.peak.bytes);
        assert!(tight.plan.wire_bytes() >= sent);
        sent = tight.plan.wire_bytes();
        let again =
            tight.plan.collectives.iter().flat_map(|c| &c.causes).filter(|c| c.reason.contains("gathered again"));
        assert!(again.count() > 0);
    }
    // No room at all: it is done as well as it can be.
    options.machine.device.capacity = Some(1.0);
    assert!(gathers(&on(&options)).len() <= 2 * count);
}

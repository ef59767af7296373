//! Simulated runs: what is hidden, what is waited for, what is fused, and that time follows the machine.

use meshwork_ir::text;
use meshwork_partition::plan::{MACHINES, Machine, Operand, Simulation, simulate};
use meshwork_partition::{CompileOptions, Compiled, compile};

fn compiled(source: &str) -> Compiled {
    let module = text::parse(source).unwrap_or_else(|e| panic!("{e:?}"));
    compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn machine(text: &str) -> Machine {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

fn run(source: &str, text: &str) -> Simulation {
    simulate(&compiled(source), &machine(text))
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-12), "{a} is not {b}");
}

/// Two products: of gathered columns, and of something that needs no communication and is asked for before or after.
fn beside(independent_first: bool) -> String {
    let gathered = "%g = sdy.sharding_constraint %a <@mesh, [{}, {}]> : tensor<512x512xf32>";
    let used = "%u = stablehlo.dot_general %g, %b, contracting_dims = [1] x [0]
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>";
    let own = "%o = stablehlo.dot_general %b, %b, contracting_dims = [1] x [0]
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>";
    let (first, last) = if independent_first { (own, used) } else { (used, own) };
    format!(
        r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%a: tensor<512x512xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}, %b: tensor<512x512xf32>)
            -> (tensor<512x512xf32>, tensor<512x512xf32>) {{
          {gathered}
          {first}
          {last}
          return %u, %o : tensor<512x512xf32>, tensor<512x512xf32>
        }}"#
    )
}

#[test]
fn a_collective_is_hidden_by_arithmetic_that_does_not_need_it() {
    let links = "* 1 10\ndevice=1,1e6";
    // In whatever order the program asks for them, what needs nothing is done while the other waits.
    for hidden in [true, false].map(|first| run(&beside(first), links)) {
        assert!(hidden.communication_seconds > 0.0);
        close(hidden.exposed_seconds(), 0.0);
        close(hidden.seconds, hidden.compute_seconds);
    }
    // Where it needs the other's result, nothing is hidden.
    let dependent = beside(true).replace("%o = stablehlo.dot_general %b, %b", "%o = stablehlo.dot_general %g, %g");
    let shown = run(&dependent, links);
    close(shown.exposed_seconds(), shown.communication_seconds);
    close(shown.seconds, shown.compute_seconds + shown.communication_seconds);
    // A part of the arithmetic is lost beside a collective.
    let levels = "device=1,1e6\nlevel=all,*,switch,1,10";
    let (free, lossy) = (run(&beside(true), levels), run(&beside(true), &format!("{levels},lost=0.25")));
    close(lossy.seconds - free.seconds, 0.25 * free.communication_seconds);
}

/// What nothing waits for stands before a product whose sum the run ends with: it is left for the time of the sum.
#[test]
fn what_a_collective_waits_for_is_computed_first() {
    let (x, c) = ("tensor<512x512xf32>", "tensor<512x256xf32>");
    let source = format!(
        r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%a: {x} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}},
            %b: {x} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}, %c: {c}) -> ({x}, {x}) {{
          %own = stablehlo.dot_general %c, %c, contracting_dims = [1] x [1] : ({c}, {c}) -> {x}
          %sum = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          return %own, %sum : {x}, {x}
        }}"#
    );
    let run = run(&source, "* 1 10\ndevice=1,1e6");
    let own = run.ops.iter().filter(|op| op.collective.is_none()).map(|op| op.seconds).fold(0.0, f64::max);
    assert!(own < run.communication_seconds);
    close(run.seconds, run.compute_seconds + run.communication_seconds - own);
}

/// A large gather that is needed last could start at once; then the sum that everything waits for would come behind it.
#[test]
fn collectives_do_not_overtake_those_that_are_needed_first() {
    let x = "tensor<512x512xf32>";
    let source = format!(
        r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%a: {x} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}},
            %b: {x} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}, %c: {x},
            %d: tensor<4096x512xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) -> tensor<4096x512xf32> {{
          %sum = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          %next = stablehlo.dot_general %sum, %c, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
          %all = sdy.sharding_constraint %d <@mesh, [{{}}, {{}}]> : tensor<4096x512xf32>
          %last = stablehlo.dot_general %all, %next, contracting_dims = [1] x [0]
            : (tensor<4096x512xf32>, {x}) -> tensor<4096x512xf32>
          return %last : tensor<4096x512xf32>
        }}"#
    );
    let run = run(&source, "* 1 10\ndevice=1,1e6");
    // The second of three products runs beside the gather.
    let products: Vec<f64> =
        run.ops.iter().filter(|op| op.collective.is_none() && op.seconds > 0.0).map(|op| op.seconds).collect();
    assert_eq!(products.len(), 3);
    close(run.seconds, run.compute_seconds + run.communication_seconds - products[1]);
}

#[test]
fn time_adds_up_and_one_operation_runs_at_a_time() {
    for name in MACHINES {
        let machine = Machine::named(name).expect("its own name");
        for first in [true, false] {
            let run = simulate(&compiled(&beside(first)), &machine);
            assert!(run.seconds >= run.compute_seconds, "{name}");
            assert!(run.seconds <= run.compute_seconds + run.communication_seconds + 1e-12, "{name}");
            assert!(run.utilization > 0.0 && run.utilization <= 1.0, "{name}: {}", run.utilization);
            let mut computing: Vec<(f64, f64)> =
                run.ops.iter().filter(|o| o.collective.is_none()).map(|o| (o.start, o.start + o.seconds)).collect();
            computing.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
            assert!(computing.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-12), "{name}: {computing:?}");
            for op in &run.ops {
                for operand in &op.operands {
                    let Operand::Op(from) = operand else { continue };
                    let from = &run.ops[*from];
                    assert!(op.start >= from.start + from.seconds - 1e-12, "{name}");
                }
            }
        }
    }
}

fn chain(length: usize) -> String {
    let line = |i: usize| {
        let from = if i == 0 { "%a".to_string() } else { format!("%{}", i - 1) };
        format!("%{i} = stablehlo.multiply {from}, %a : tensor<1024x1024xf32>")
    };
    let lines: Vec<String> = (0..length).map(line).collect();
    format!(
        "func.func @main(%a: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {{ {}\n return %{} : tensor<1024x1024xf32> }}",
        lines.join("\n"),
        length - 1
    )
}

#[test]
fn arithmetic_on_elements_passes_memory_once() {
    let memory_bound = "device=1000,100";
    close(run(&chain(1), memory_bound).seconds, 2.0 * 4.0 * 1048576.0 / 100e9);
    close(run(&chain(9), memory_bound).seconds, 2.0 * 4.0 * 1048576.0 / 100e9);
    // With slow arithmetic every operation counts, and a kernel starts once.
    close(run(&chain(9), "device=1e-3,100").seconds, 9.0 * 1048576.0 / 1e9);
    close(run(&chain(9), "device=1000,1e9\nelementwise=1,0,50").seconds, 50e-6 + 9.0 * 1048576.0 / 1000e12);
}

#[test]
fn a_softmax_is_two_loops_and_what_both_read_is_written() {
    let source = "func.func @main(%a: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %e = stablehlo.exponential %a : tensor<512x1024xf32>
        %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
          : (tensor<512x1024xf32>, tensor<f32>) -> tensor<512xf32>
        %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<512xf32>) -> tensor<512x1024xf32>
        %r = stablehlo.divide %e, %b : tensor<512x1024xf32>
        return %r : tensor<512x1024xf32> }";
    let traffic = |machine: &str| run(source, machine).ops.iter().map(|op| op.traffic).sum::<i64>();
    let (whole, row) = (512 * 1024 * 4, 512 * 4);
    // Read and written by the exponential, read by the sum and by the division, which writes the result.
    let apart = traffic("device=1000,100");
    assert!((5 * whole..5 * whole + 4 * row).contains(&apart), "{apart} bytes of {whole}");
    // A computer keeps a row in its cache until it is divided: read once and written once.
    let at_once = traffic("device=1000,100\nhost=1,1,0,1e6");
    assert!((2 * whole..2 * whole + 4 * row).contains(&at_once), "{at_once} bytes of {whole}");
}

/// Threads of one computer read the edges of each other's blocks where they are.
#[test]
fn halos_of_a_host_are_not_sent() {
    let source = r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%a: tensor<4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
            -> (tensor<4094xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
          %l = stablehlo.slice %a [0:4094] : (tensor<4096xf32>) -> tensor<4094xf32>
          %r = stablehlo.slice %a [2:4096] : (tensor<4096xf32>) -> tensor<4094xf32>
          %s = stablehlo.add %l, %r : tensor<4094xf32>
          return %s : tensor<4094xf32>
        }"#;
    let host = "device=0.1,1e6\nhost=1,1,0,1e6\ncollective.collective-permute=10,1,1";
    assert_eq!(run(source, host).communication_seconds, 0.0);
    assert!(run(source, "* 10 1\ndevice=0.1,1e6").communication_seconds > 0.0);
}

/// A number takes no loop of its own on a computer; an array does.
#[test]
fn numbers_start_no_loop_of_a_host() {
    let sum =
        |ty: &str| format!("func.func @main(%a: {ty}) -> {ty} {{ %r = stablehlo.add %a, %a : {ty} return %r : {ty} }}");
    let host = "device=0.1,1e6\nelementwise=1,0,10\nhost=1,1,0,1e6";
    assert_eq!(run(&sum("tensor<i32>"), host).seconds, 0.0);
    assert!(run(&sum("tensor<64xf32>"), host).seconds >= 10e-6);
    assert!(run(&sum("tensor<i32>"), "device=0.1,1e6\nelementwise=1,0,10").seconds >= 10e-6);
}

#[test]
fn every_round_of_a_loop_counts() {
    let looped = |rounds: i64| {
        format!(
            "func.func @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {{
              %zero = stablehlo.constant dense<0> : tensor<i32>
              %one = stablehlo.constant dense<1> : tensor<i32>
              %end = stablehlo.constant dense<{rounds}> : tensor<i32>
              %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<256x256xf32>
              cond {{
                %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
              }} do {{
                %n = stablehlo.add %i, %one : tensor<i32>
                %y = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0]
                  : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
                stablehlo.return %n, %y : tensor<i32>, tensor<256x256xf32>
              }}
              return %r#1 : tensor<256x256xf32> }}"
        )
    };
    let seconds = |rounds| run(&looped(rounds), "device=1,1e6").seconds;
    let product = 2.0 * 256.0_f64.powi(3) / 1e12;
    assert!((seconds(10) / (10.0 * product) - 1.0).abs() < 1e-3);
    assert!((seconds(30) / seconds(10) - 3.0).abs() < 1e-3);
}

#[test]
fn devices_of_a_host_share_its_threads() {
    let source = |devices: i64| {
        format!(
            r#"sdy.mesh @mesh = <["x"={devices}]>
            func.func @main(%a: tensor<512x512xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}, %b: tensor<512x512xf32>)
                -> tensor<512x512xf32> {{
              %r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
                : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
              return %r : tensor<512x512xf32>
            }}"#
        )
    };
    let host = |threads: i64| format!("device=0.1,1e6\nhost={threads},1,0,1e6\ncollective.all-gather=1,1e6,1e6");
    let flops = 2.0 * 512.0_f64.powi(3);
    close(run(&source(1), &host(1)).compute_seconds, flops / 1e11);
    close(run(&source(1), &host(4)).compute_seconds, flops / 4e11);
    // The same work in eight pieces takes as long.
    close(run(&source(8), &host(4)).compute_seconds, flops / 4e11);
}

/// What waits for nothing is computed beside a collective, even if more than a thousand operations that wait stand before it.
#[test]
fn updates_far_behind_are_computed_beside_a_sum() {
    let m = "tensor<256x256xf32>";
    let product = |to: &str, a: &str, b: &str| {
        format!("%{to} = stablehlo.dot_general %{a}, %{b}, contracting_dims = [1] x [0] : ({m}, {m}) -> {m}\n")
    };
    let mut body = product("c0", "a", "b");
    for i in 0..1100 {
        body += &product(&format!("c{}", i + 1), &format!("c{i}"), "w");
    }
    body += &product("late", "w", "w");
    let source = format!(
        r#"sdy.mesh @mesh = <["x"=2]>
        func.func @main(%a: {m} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}},
                        %b: {m} {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
                        %w: {m} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}}) -> ({m}, {m}) {{
          {body} return %c1100, %late : {m}, {m} }}"#
    );
    let run = simulate(&compiled(&source), &Machine::default());
    let hidden = run.communication_seconds - run.exposed_seconds();
    assert!(hidden > 0.0, "nothing is computed beside {:?}", run.lanes);
}

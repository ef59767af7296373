//! Which way an operation is computed: by the time that sending and computing take on a machine.

use meshwork_ir::op::ContractOp;
use meshwork_ir::{OpKind, Walk, text};
use meshwork_partition::plan::{Device, Machine, op_flops};
use meshwork_partition::{CompileOptions, Compiled, compile};

fn split_for(source: &str, machine: &Machine) -> Compiled {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
    let options = CompileOptions { combine_bytes: 0, machine: machine.clone(), ..CompileOptions::default() };
    compile(&module, &options).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

fn kinds(program: &Compiled) -> Vec<&'static str> {
    program.plan.collectives.iter().map(|c| c.collective.kind.name()).collect()
}

/// `lhs` and `rhs` of extents m x k and k x n, placed so, and their product.
fn product(mesh: &str, [m, k, n]: [i64; 3], [lhs, rhs, out]: [&str; 3]) -> String {
    let placed = |dims: &str| format!("{{sdy.sharding = #sdy.sharding<@mesh, {dims}>}}");
    format!(
        "sdy.mesh @mesh = <{mesh}>
        func.func @main(%a: tensor<{m}x{k}xf32> {}, %b: tensor<{k}x{n}xf32> {}) -> (tensor<{m}x{n}xf32> {}) {{
          %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
            {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, {out}>]>}}
            : (tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32>
          return %0 : tensor<{m}x{n}xf32> }}",
        placed(lhs),
        placed(rhs),
        placed(out)
    )
}

const WHOLE: &str = "[{}, {}]";

/// The gradient of a weight of 512 x 512 for a batch that is split over 8 devices.
fn gradient(batch: i64) -> String {
    product(r#"["data"=8]"#, [512, batch, 512], [r#"[{}, {"data"}]"#, r#"[{"data"}, {}]"#, WHOLE])
}

#[test]
fn a_gradient_is_added_up_where_gathering_the_batch_would_repeat_much_arithmetic() {
    // Both operands gathered are less than the gradient twice: by bytes alone they would be.
    let program = split_for(&gradient(256), &Machine::default());
    assert_eq!(kinds(&program), ["all-reduce"]);
    let [cause] = &program.plan.collectives[0].causes[..] else { panic!("{:?}", program.plan.collectives) };
    let why = "each device has a part of the sum (1.8 MiB sent; gathering the operands would send 896.0 KiB but repeat \
               117.4 MFLOP on each of 8 devices)";
    assert_eq!(cause.reason, why);
}

#[test]
fn a_large_result_of_little_arithmetic_is_computed_everywhere() {
    let program = split_for(&gradient(8), &Machine::default());
    assert_eq!(kinds(&program), ["all-gather", "all-gather"]);
    let cause = &program.plan.collectives[0].causes[0];
    let why = "its operands are not placed as it needs them (28.0 KiB sent; combining parts of the result would send 1.8 MiB to \
               spare 3.7 MFLOP a device)";
    assert_eq!(cause.reason, why);
}

#[test]
fn rates_decide() {
    let fast = Device::new(100.0, 2000.0);
    let program = split_for(&gradient(256), &Machine { device: fast, ..Machine::default() });
    assert_eq!(kinds(&program), ["all-gather", "all-gather"]);
    let slow = Device::new(0.01, 10.0);
    let program = split_for(&gradient(8), &Machine { device: slow, ..Machine::default() });
    assert_eq!(kinds(&program), ["all-reduce"]);
}

#[test]
fn slow_links_are_crossed_while_there_is_least_to_send() {
    let source = r#"
      sdy.mesh @mesh = <["pod"=2, "x"=2]>
      func.func @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"pod"}, {"x"}]>})
          -> (tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
        %0 = stablehlo.tanh %a : tensor<64x64xf32>
        return %0 : tensor<64x64xf32> }"#;
    for slow in ["pod", "x"] {
        let machine: Machine = format!("{slow} 20 5").parse().expect("links");
        let program = split_for(source, &machine);
        let sent: Vec<(String, f64)> = program.plan.collectives.iter().map(|c| (c.axes_text(), c.sent())).collect();
        let other = if slow == "pod" { "x" } else { "pod" };
        assert_eq!(sent, [(slow.to_string(), 4096.0), (other.to_string(), 8192.0)]);
    }
}

/// What one device sends and how much it multiplies and adds.
fn sent_and_flops(program: &Compiled) -> (f64, f64) {
    let module = &program.module;
    let dots = module
        .all_ops(Walk::PreOrder)
        .into_iter()
        .filter(|&op| module.op(op).kind() == OpKind::Contract(ContractOp::DotGeneral));
    (program.plan.wire_bytes(), dots.map(|op| op_flops(module, op)).sum())
}

#[test]
fn no_other_way_is_quicker_on_the_machine_it_was_chosen_for() {
    let placements = [WHOLE, r#"[{"x"}, {}]"#, r#"[{}, {"x"}]"#, r#"[{"y"}, {"x"}]"#, r#"[{}, {"x", "y"}]"#];
    // From devices that compute next to nothing, for which the least arithmetic wins, to those for which only bytes count.
    let rates = [1e-6, 0.1, 2.0, 50.0, 1e9];
    let machine = |teraflops: f64| Machine { device: Device::new(teraflops, 1e12), ..Machine::default() };
    let mut different = 0;
    // Even splits only: what it takes to bring blocks of other lengths into place is estimated.
    for extents in [[8, 64, 8], [64, 8, 64], [16, 16, 16], [32, 16, 8], [256, 64, 256]] {
        for lhs in placements {
            for rhs in placements {
                for out in placements {
                    let source = product(r#"["x"=2, "y"=4]"#, extents, [lhs, rhs, out]);
                    let ways = rates.map(|rate| sent_and_flops(&split_for(&source, &machine(rate))));
                    for (rate, chosen) in rates.iter().zip(ways) {
                        let seconds = |(sent, flops): (f64, f64)| sent / 50e9 + flops / (rate * 1e12);
                        for other in ways {
                            let limit = seconds(other) * (1.0 + 1e-9) + 1e-12;
                            assert!(seconds(chosen) <= limit, "{rate}: {chosen:?}, not {other:?}\n{source}");
                            different += usize::from(chosen != other);
                        }
                    }
                }
            }
        }
    }
    assert!(different > 100, "{different}");
}

//! What the engine itself costs: fork and join, communication, loop turns. `cargo run --release --example engine_costs`

use std::sync::Arc;
use std::time::Instant;

use meshwork_cpu::CpuEngine;
use meshwork_ir::DeviceGrid;
use meshwork_ir::text;
use meshwork_runtime::{Buffer, Shards};

/// The least and the middle time of `f`, in microseconds.
fn time(rounds: usize, mut f: impl FnMut()) -> (f64, f64) {
    let mut all: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    all.sort_by(f64::total_cmp);
    (all[0], all[rounds / 2])
}

fn collective(kind: &str, n: usize, devices: usize) -> String {
    let group: Vec<String> = (0..devices).map(|d| d.to_string()).collect();
    let groups = format!("replica_groups = dense<[[{}]]> : tensor<1x{devices}xi64>", group.join(", "));
    let body = "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32> })";
    let ring: Vec<String> = (0..devices).map(|d| format!("[{d}, {}]", (d + 1) % devices)).collect();
    let (body, attrs, to) = match kind {
        "all_reduce" => (body, format!("{groups}, use_global_device_ids"), n),
        "reduce_scatter" => {
            (body, format!("{groups}, scatter_dimension = 0 : i64, use_global_device_ids"), n / devices)
        }
        "all_gather" => ("", format!("{groups}, all_gather_dim = 0 : i64, use_global_device_ids"), n * devices),
        "all_to_all" => (
            "",
            format!("{groups}, split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = {devices} : i64"),
            n,
        ),
        _ => ("", format!("source_target_pairs = dense<[{}]> : tensor<{devices}x2xi64>", ring.join(", ")), n),
    };
    format!(
        "func.func @main(%x: tensor<{n}xf32>) -> tensor<{to}xf32> {{
           %r = \"stablehlo.{kind}\"(%x) {body} {{{attrs}, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : (tensor<{n}xf32>) -> tensor<{to}xf32>
           return %r : tensor<{to}xf32> }}"
    )
}

fn main() {
    let engine = CpuEngine::shared();
    let pool = engine.pool();
    let (least, middle) = time(20_000, || pool.run(2, 0, &|_, _| {}));
    println!(
        "fork and join of 2 tasks on {} threads: {least:.2} us at least, {middle:.2} us typically",
        pool.threads()
    );

    println!("\nmicroseconds per call, least / middle");
    for devices in [2, 4, 8] {
        for kind in ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "collective_permute"] {
            print!("{kind:20} {devices} devices:");
            for bytes in [1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20] {
                if kind == "all_gather" && bytes * devices * devices > 1 << 31 {
                    continue;
                }
                let n = bytes / 4;
                let module = text::parse(&collective(kind, n, devices)).expect("a program");
                let grid = DeviceGrid { replicas: 1, partitions: devices };
                let run = engine.compile(&module, None, grid).expect("it compiles");
                let shard = || Arc::new(Buffer::new(bytes).expect("memory"));
                let x: Shards = (0..devices).map(|_| shard()).collect();
                let rounds = if bytes > 8 << 20 { 9 } else { 60 };
                let (least, middle) = time(rounds, || drop(run.run(vec![x.clone()]).expect("it runs")));
                print!("  {}K {least:.1}/{middle:.1}", bytes >> 10);
            }
            println!();
        }
    }

    let turns = 200_000;
    let source = format!(
        "func.func @main() -> (tensor<i32>, tensor<f32>) {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %n = stablehlo.constant dense<{turns}> : tensor<i32>
           %x = stablehlo.constant dense<1.0> : tensor<f32>
           %h = stablehlo.constant dense<0.5> : tensor<f32>
           %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f32>
           cond {{
             %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           }} do {{
             %j = stablehlo.add %i, %one : tensor<i32>
             %b = stablehlo.multiply %a, %h : tensor<f32>
             %c = stablehlo.add %b, %x : tensor<f32>
             stablehlo.return %j, %c : tensor<i32>, tensor<f32>
           }}
           return %r#0, %r#1 : tensor<i32>, tensor<f32> }}"
    );
    let module = text::parse(&source).expect("a program");
    let run = engine.compile(&module, None, DeviceGrid { replicas: 1, partitions: 1 }).expect("it compiles");
    let (least, middle) = time(7, || drop(run.run(vec![]).expect("it runs")));
    let each = |us: f64| us * 1e3 / f64::from(turns);
    println!("\na loop of two scalars: {:.1} ns a turn at least, {:.1} typically", each(least), each(middle));

    for devices in [2, 4, 8] {
        let pairs: Vec<String> = (0..devices).map(|d| format!("[{d}, {}]", (d + 1) % devices)).collect();
        let source = format!(
            "func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {{
               %zero = stablehlo.constant dense<0> : tensor<i32>
               %one = stablehlo.constant dense<1> : tensor<i32>
               %n = stablehlo.constant dense<20000> : tensor<i32>
               %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1xf32>
               cond {{
                 %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                 stablehlo.return %p : tensor<i1>
               }} do {{
                 %j = stablehlo.add %i, %one : tensor<i32>
                 %c = \"stablehlo.collective_permute\"(%a) {{source_target_pairs = dense<[{}]> : tensor<{devices}x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : (tensor<1xf32>) -> tensor<1xf32>
                 stablehlo.return %j, %c : tensor<i32>, tensor<1xf32>
               }}
               return %r#1 : tensor<1xf32> }}",
            pairs.join(", ")
        );
        let module = text::parse(&source).expect("a program");
        let grid = DeviceGrid { replicas: 1, partitions: devices };
        let run = engine.compile(&module, None, grid).expect("it compiles");
        let x: Shards = (0..devices).map(|_| Arc::new(Buffer::new(4).expect("memory"))).collect();
        let (least, middle) = time(7, || drop(run.run(vec![x.clone()]).expect("it runs")));
        println!(
            "a loop with one neighbour permute of 4 bytes on {devices} devices: {:.2} us a turn at least, {:.2} typically",
            least / 2e4,
            middle / 2e4
        );
    }
}

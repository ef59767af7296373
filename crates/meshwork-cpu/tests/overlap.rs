//! Collectives that are started early and awaited late, on several processes: work goes on meanwhile, and nothing comes out
//! differently.
#![cfg(feature = "mpi")]

#[allow(dead_code)]
#[path = "conformance/harness.rs"]
mod harness;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use harness::Check;
use meshwork_cpu::CpuEngine;
use meshwork_ir::{DeviceGrid, ElementType, Literal};
use meshwork_partition::{Algorithm, Algorithms, CompileOptions, Use, compile};
use meshwork_runtime::profile::Activity;
use meshwork_runtime::{Array, Buffer, Engine, Runtime, Shards};
use meshwork_testing::ranks::across;

/// A collective of `x`, over all of `devices` devices; `%NAME` is the result.
fn sum(name: &str, x: &str, ty: &str, devices: usize) -> String {
    let all: Vec<String> = (0..devices).map(|d| d.to_string()).collect();
    format!(
        "%{name} = \"stablehlo.all_reduce\"({x}) ({{ ^bb0(%{name}a: tensor<f32>, %{name}b: tensor<f32>):
           %{name}c = stablehlo.add %{name}a, %{name}b : tensor<f32>
           stablehlo.return %{name}c : tensor<f32> }}) {{replica_groups = dense<[[{}]]> : tensor<1x{devices}xi64>,
           channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}} : ({ty}) -> {ty}\n",
        all.join(", ")
    )
}

/// Training in small: in each of three turns as many sums as there are lengths, whose operands and results are used
/// before, between and after.
fn training(lengths: &[usize], devices: usize) -> String {
    let ty = |n: &usize| format!("tensor<{n}xf32>");
    let list = |f: &dyn Fn(usize) -> String| (0..lengths.len()).map(f).collect::<Vec<_>>().join(", ");
    let types = list(&|i| ty(&lengths[i]));
    let mut body = String::new();
    for (i, n) in lengths.iter().enumerate() {
        let t = ty(n);
        let _ = writeln!(body, "%g{i} = stablehlo.sine %p{i} : {t}");
        body += &sum(&format!("r{i}"), &format!("%g{i}"), &t, devices);
        // Read while its sum is under way.
        let _ = writeln!(body, "%h{i} = stablehlo.cosine %g{i} : {t}");
        let _ = writeln!(
            body,
            "%d{i} = stablehlo.dot_general %h{i}, %h{i}, contracting_dims = [0] x [0] : ({t}, {t}) -> tensor<f32>"
        );
        let _ = writeln!(body, "%e{i} = stablehlo.broadcast_in_dim %d{i}, dims = [] : (tensor<f32>) -> {t}");
    }
    for (i, n) in lengths.iter().enumerate() {
        let t = ty(n);
        let _ = writeln!(body, "%s{i} = stablehlo.subtract %p{i}, %r{i} : {t}");
        let _ = writeln!(body, "%t{i} = stablehlo.multiply %e{i}, %s{i} : {t}");
        let _ = writeln!(body, "%u{i} = stablehlo.tanh %t{i} : {t}");
    }
    format!(
        "func.func @main({args}) -> ({types}) {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %three = stablehlo.constant dense<3> : tensor<i32>
           %o:{count} = stablehlo.while(%i = %zero, {inits}) : tensor<i32>, {types}
           cond {{
             %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %c : tensor<i1>
           }} do {{
             {body}
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, {next} : tensor<i32>, {types}
           }}
           return {results} : {types} }}",
        args = list(&|i| format!("%x{i}: {}", ty(&lengths[i]))),
        count = lengths.len() + 1,
        inits = list(&|i| format!("%p{i} = %x{i}")),
        next = list(&|i| format!("%u{i}")),
        results = list(&|i| format!("%o#{}", i + 1)),
    )
}

/// More sums than can be under way at once, short, long and in between; loops and the entry block; the same bits always.
#[test]
fn many_sums_under_way_come_out_as_one_after_the_other() {
    across(&[2, 3, 4], "many_sums_under_way_come_out_as_one_after_the_other", || {
        Runtime::init().unwrap();
        let lengths: Vec<usize> = (0..17).map(|i| [3, 40_000, 700, 5_000][i % 4] + i).collect();
        for (lengths, devices) in [(&lengths[..], 4), (&lengths[..3], 8)] {
            let source = training(lengths, devices);
            for threads in [1, 2] {
                let engine = CpuEngine::new(threads);
                let first = harness::run(&engine, &source, devices).unwrap();
                for _ in 0..2 {
                    assert_eq!(harness::run(&engine, &source, devices).unwrap(), first, "{source}");
                }
                Check::new(engine).devices(&source, devices);
            }
        }
    });
}

/// Rank 1 comes late: rank 0 has done what it can before it waits.
#[test]
fn work_is_done_while_a_late_process_is_waited_for() {
    across(&[2], "work_is_done_while_a_late_process_is_waited_for", || {
        let rank = Runtime::init().unwrap().rank();
        let (x, w) = ("tensor<100000xf32>", "tensor<128x128xf32>");
        let source = format!(
            "func.func @main(%x: {x}, %w: {w}) -> ({x}, {w}) {{
               %g = stablehlo.sine %x : {x}
               {}
               %u = stablehlo.negate %r : {x}
               %y = stablehlo.dot %w, %w : ({w}, {w}) -> {w}
               return %u, %y : {x}, {w} }}",
            sum("r", "%g", x, 2)
        );
        let module = harness::parse(&source);
        let loaded = CpuEngine::new(1).compile(&module, None, DeviceGrid { replicas: 1, partitions: 2 }).unwrap();
        let args = || -> Vec<Shards> {
            let shards = |n: usize| (0..2).map(|_| Arc::new(Buffer::from_bytes(&vec![0; 4 * n]).unwrap())).collect();
            vec![shards(100_000), shards(128 * 128)]
        };
        loaded.run(args()).unwrap();
        let late = Duration::from_millis(300);
        if rank == 1 {
            std::thread::sleep(late);
        }
        let (_, profile) = loaded.run_profiled(args()).unwrap();
        // Every process has the events of both.
        for device in 0..2 {
            let own = || profile.events.iter().filter(move |e| e.device == device && e.rank == device);
            let find = |what: &str, activity: Activity| {
                let found = own().find(|e| e.name.starts_with(what) && e.activity == activity);
                found.unwrap_or_else(|| panic!("no {what} on {device}: {:?}", profile.events))
            };
            let (start, dot) = (find("all_reduce", Activity::Moving), find("dot", Activity::Computing));
            let (memory, after) = (find("allocate", Activity::Allocating), find("fused neg", Activity::Computing));
            assert!(memory.bytes >= 4 * 100_000, "{memory:?}");
            assert!(start.end_ns <= dot.start_ns, "{:?}", profile.events);
            let end = own().rfind(|e| e.is_collective()).unwrap();
            assert!(dot.end_ns <= end.start_ns && end.end_ns <= after.start_ns, "{:?}", profile.events);
            let waited: u64 = own().filter(|e| e.activity == Activity::Waiting).map(|e| e.end_ns - e.start_ns).sum();
            if device == 0 {
                assert!(waited >= late.as_nanos() as u64 / 3, "only {waited} ns: {:?}", profile.events);
            }
        }
    });
}

/// In every turn of a stencil halos are under way while the interior is computed, and awaited before the edges are.
#[test]
fn the_interior_is_computed_while_halos_are_under_way() {
    across(&[2], "the_interior_is_computed_while_halos_are_under_way", || {
        Runtime::init().unwrap();
        let (x, y) = ("tensor<200x300xf32>", "tensor<198x300xf32>");
        let at = r#"{sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}"#;
        let source = format!(
            r#"sdy.mesh @mesh = <["x"=2]>
            func.func @main(%x: {x} {at}) -> ({x} {at}) {{
              %zero = stablehlo.constant dense<0> : tensor<i32>
              %one = stablehlo.constant dense<1> : tensor<i32>
              %turns = stablehlo.constant dense<5> : tensor<i32>
              %r:2 = stablehlo.while(%i = %zero, %u = %x) : tensor<i32>, {x}
              cond {{
                %go = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %go : tensor<i1>
              }} do {{
                %up = stablehlo.slice %u [0:198, 0:300] : ({x}) -> {y}
                %down = stablehlo.slice %u [2:200, 0:300] : ({x}) -> {y}
                %d = stablehlo.subtract %up, %down : {y}
                %new = stablehlo.dynamic_update_slice %u, %d, %one, %zero : ({x}, {y}, tensor<i32>, tensor<i32>) -> {x}
                %j = stablehlo.add %i, %one : tensor<i32>
                stablehlo.return %j, %new : tensor<i32>, {x}
              }}
              return %r#1 : {x} }}"#
        );
        for when in [Use::Never, Use::Always] {
            let algorithms = Algorithms::default().with(Algorithm::OverlappedHalos, when);
            let options = CompileOptions { algorithms, ..CompileOptions::default() };
            let compiled = compile(&harness::parse(&source), &options).unwrap();
            let loaded = CpuEngine::new(1).load(&compiled).unwrap();
            let numbers: Vec<f64> = (0..200 * 300).map(|i| f64::from(i % 17)).collect();
            let x = Literal::from_f64s([200, 300], ElementType::F32, &numbers).unwrap();
            let (_, profile) = loaded.run_profiled(vec![Array::from_literal(x)]).unwrap();
            for device in 0..2 {
                // Each turn as letters: exchanges, interior, edges.
                let own = profile.events.iter().filter(|e| e.device == device && e.rank == device);
                let letter = |e: &meshwork_runtime::profile::Event| match e {
                    e if e.name.contains(", interior") => Some('I'),
                    e if e.name.contains(", edges") => Some('E'),
                    e => e.is_collective().then_some('x'),
                };
                let mut order: Vec<char> = own.filter_map(letter).collect();
                order.dedup();
                let order: String = order.into_iter().collect();
                assert_eq!(order, "xIxE".repeat(5), "{when:?}: {:?}", profile.events);
            }
        }
    });
}

/// A step fails on one device while a sum is in flight: its messages are cancelled, and the next run is not disturbed.
#[test]
fn what_is_under_way_when_a_run_fails_does_not_disturb_the_next() {
    across(&[2, 3], "what_is_under_way_when_a_run_fails_does_not_disturb_the_next", || {
        let rank = Runtime::init().unwrap().rank();
        let engine = CpuEngine::new(1);
        let x = "tensor<100000xf32>";
        let failing = |device: usize| {
            format!(
                "func.func @main(%x: {x}) -> {x} {{
                   %g = stablehlo.sine %x : {x}
                   {}
                   %id = stablehlo.partition_id : tensor<ui32>
                   %n = stablehlo.constant dense<{device}> : tensor<ui32>
                   %p = stablehlo.compare EQ, %id, %n : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
                   check.expect_eq_const %p, dense<false> : tensor<i1>
                   return %r : {x} }}",
                sum("r", "%g", x, 3)
            )
        };
        let good = training(&[50_000, 7, 9_000], 3);
        let want = harness::run(&engine, &good, 3).unwrap();
        for turn in 0..6 {
            let error = harness::run(&engine, &failing(turn % 3), 3).unwrap_err();
            assert!(error.contains("check failed"), "rank {rank}: {error}");
            assert_eq!(harness::run(&engine, &good, 3).unwrap(), want, "turn {turn}");
        }
    });
}

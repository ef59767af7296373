//! Several processes, started by `mpirun`: each test starts itself again on some numbers of ranks.
#![cfg(feature = "mpi")]

#[allow(dead_code)]
#[path = "conformance/collectives.rs"]
mod collectives;
#[allow(dead_code)]
#[path = "conformance/control.rs"]
mod control;
#[allow(dead_code)]
#[path = "conformance/distributed.rs"]
mod distributed;
#[allow(dead_code)]
#[path = "conformance/harness.rs"]
mod harness;

use harness::Check;
use meshwork_cpu::CpuEngine;
use meshwork_ir::ElementType;
use meshwork_runtime::{ProcessError, ReduceOp, Runtime};
use meshwork_testing::hosts;
use meshwork_testing::ranks::across;

/// Some bytes that only `rank` has, as many as `length`.
fn bytes_of(rank: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + rank * 31) as u8).collect()
}

#[test]
fn bytes_are_broadcast_gathered_scattered_and_sent() {
    across(&[2, 3, 5], "bytes_are_broadcast_gathered_scattered_and_sent", || {
        let runtime = Runtime::init().unwrap();
        let (rank, size) = (runtime.rank(), runtime.size());
        runtime.barrier().unwrap();
        for length in [0, 1, 5000, 100_000] {
            for root in 0..size {
                let got = runtime.broadcast(root, &bytes_of(rank, length)).unwrap();
                assert_eq!(got, bytes_of(root, length));
                // Each rank has another number of them.
                let gathered = runtime.gather(root, &bytes_of(rank, length * rank)).unwrap();
                let wanted: Vec<Vec<u8>> = (0..size).map(|r| bytes_of(r, length * r)).collect();
                assert_eq!(gathered, (rank == root).then(|| wanted.clone()));
                let parts = if rank == root { wanted } else { vec![] };
                assert_eq!(runtime.scatter(root, &parts).unwrap(), bytes_of(rank, length * rank));
            }
            let all = runtime.all_gather(&bytes_of(rank, length)).unwrap();
            assert_eq!(all, (0..size).map(|r| bytes_of(r, length)).collect::<Vec<_>>());
            // A ring: every rank sends before any receives.
            runtime.send((rank + 1) % size, &bytes_of(rank, length.min(4000))).unwrap();
            let before = (rank + size - 1) % size;
            assert_eq!(runtime.receive(before).unwrap(), bytes_of(before, length.min(4000)));
        }
        runtime.barrier().unwrap();
    });
}

#[test]
fn a_wrong_scatter_is_the_same_error_on_all_and_others_follow() {
    across(&[3], "a_wrong_scatter_is_the_same_error_on_all_and_others_follow", || {
        let runtime = Runtime::init().unwrap();
        let error = runtime.scatter(1, &[vec![1], vec![2]]).unwrap_err();
        assert_eq!(error, ProcessError::Failed("scatter: rank 1 has 2 parts for 3 ranks".into()));
        assert_eq!(runtime.broadcast(0, b"on").unwrap(), b"on");
    });
}

/// The suite that every engine passes, with devices spread over processes: evenly, unevenly, and some without any.
#[test]
fn the_conformance_suite() {
    across(&[2, 3, 4, 8], "the_conformance_suite", conformance);
}

fn conformance() {
    Runtime::init().unwrap();
    let check = || Check::new(CpuEngine::new(1));
    control::loops(&check());
    control::branches(&check());
    control::scans(&check());
    control::nested(&check());
    control::errors(&check());
    collectives::reduce(&check());
    collectives::gather(&check());
    collectives::scatter(&check());
    collectives::exchange(&check());
    collectives::ragged(&check());
    collectives::ragged_misfits(&check());
    collectives::permute(&check());
    collectives::identity(&check());
    collectives::parts_of_buffers(&check());
    collectives::loops_with_communication(&check());
}

/// The same between hosts, which share no memory and reach each other by TCP.
#[test]
fn the_conformance_suite_across_hosts() {
    hosts::across(&[2, 4], "the_conformance_suite_across_hosts", conformance);
}

/// Algorithms for split dimensions, with devices spread over processes: evenly, unevenly, and some without any.
#[test]
fn distributed_algorithms() {
    across(&[2, 3, 8], "distributed_algorithms", || {
        Runtime::init().unwrap();
        let engine = CpuEngine::new(1);
        distributed::sorts(&engine);
        distributed::transforms(&engine);
        distributed::factors(&engine);
        distributed::systems(&engine);
        distributed::rings(&engine);
        distributed::halos(&engine);
    });
}

/// A process may learn that another has failed before it has begun the run itself.
#[test]
fn failures_right_after_the_start_are_the_same_on_all() {
    across(&[3, 4, 8], "failures_right_after_the_start_are_the_same_on_all", || {
        Runtime::init().unwrap();
        (0..50).for_each(|_| control::errors(&Check::new(CpuEngine::new(1))));
    });
}

/// Arrays too long for one message with others, several devices in a process and none, and the same bits on every run.
#[test]
fn long_arrays_on_eight_devices() {
    across(&[2, 3, 5], "long_arrays_on_eight_devices", || {
        Runtime::init().unwrap();
        let engine = CpuEngine::new(1);
        let check = Check::new(CpuEngine::new(2));
        for source in long_programs() {
            check.devices(&source, 8);
            let first = harness::run(&engine, &source, 8).unwrap();
            for _ in 0..3 {
                assert_eq!(harness::run(&engine, &source, 8).unwrap(), first, "{source}");
            }
        }
        for (source, devices) in control::DETERMINISM.iter().filter(|d| d.0.contains("all_reduce")) {
            check.devices(source, *devices);
        }
    });
}

/// Each kind of communication on 8 devices, along the first and the second dimension.
fn long_programs() -> Vec<String> {
    let channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";
    let sum = "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32> })";
    let all = "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>";
    let pairs = "replica_groups = dense<[[0, 7], [1, 6], [5, 2], [3, 4]]> : tensor<4x2xi64>";
    let ids = "use_global_device_ids";
    let mut programs = vec![];
    let mut add = |op: &str, body: &str, attrs: &str, from: &str, to: &str| {
        programs.push(format!(
            "func.func @main(%x: {from}) -> {to} {{
               %y = stablehlo.add %x, %x : {from}
               %r = \"stablehlo.{op}\"(%y) {body} {{{attrs}, {channel}}} : ({from}) -> {to}
               return %r : {to} }}"
        ));
    };
    let x = "tensor<96x160xf32>";
    // Shared out to threads.
    add("all_reduce", sum, &format!("{all}, {ids}"), "tensor<300000xf32>", "tensor<300000xf32>");
    for (groups, n) in [(all, 8), (pairs, 2)] {
        add("all_reduce", sum, &format!("{groups}, {ids}"), x, x);
        add("all_reduce", sum, &format!("{groups}, {ids}"), "tensor<7xf32>", "tensor<7xf32>");
        for dim in 0..2 {
            let (mut wide, mut narrow) = ([96, 160], [96, 160]);
            wide[dim] *= n;
            narrow[dim] /= n;
            let ty = |d: [i64; 2]| harness::tensor(&d, "f32");
            add("all_gather", "", &format!("all_gather_dim = {dim} : i64, {groups}, {ids}"), x, &ty(wide));
            add("reduce_scatter", sum, &format!("scatter_dimension = {dim} : i64, {groups}, {ids}"), x, &ty(narrow));
            let (mut to, concat) = (narrow, 1 - dim);
            to[concat] *= n;
            let split = format!("split_dimension = {dim} : i64, concat_dimension = {concat} : i64");
            add("all_to_all", "", &format!("{split}, split_count = {n} : i64, {groups}"), x, &ty(to));
        }
    }
    let shift =
        "source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7]]> : tensor<7x2xi64>";
    add("collective_permute", "", shift, x, x);
    add("collective_broadcast", "", "replica_groups = dense<[[6, 0, 1, 2, 3]]> : tensor<1x5xi64>", x, x);
    programs
}

#[test]
fn host_arrays_are_reduced_in_order_of_rank_and_mismatches_refused() {
    across(&[2, 3], "host_arrays_are_reduced_in_order_of_rank_and_mismatches_refused", || {
        let runtime = Runtime::init().unwrap();
        let (rank, size) = (runtime.rank(), runtime.size());
        let bytes =
            |r: usize| (0..1001).flat_map(|i| (0.1f32 * i as f32 + r as f32).to_le_bytes()).collect::<Vec<u8>>();
        let got = runtime.all_reduce(ElementType::F32, ReduceOp::Sum, &bytes(rank)).unwrap();
        for (i, got) in got.chunks_exact(4).enumerate() {
            let sum = (0..size).map(|r| 0.1f32 * i as f32 + r as f32).reduce(|a, b| a + b).unwrap();
            assert_eq!(got, sum.to_le_bytes());
        }
        let uneven = vec![0; 4 * (1 + usize::from(rank == 1))];
        let error = runtime.all_reduce(ElementType::F32, ReduceOp::Max, &uneven).unwrap_err();
        let message = "all_reduce: rank 0 has Max of f32 in 4 bytes, rank 1 has Max of f32 in 8 bytes";
        assert_eq!(error, ProcessError::Failed(message.into()));
        assert_eq!(runtime.all_reduce(ElementType::I8, ReduceOp::Max, &[rank as u8]).unwrap(), [size as u8 - 1]);
    });
}

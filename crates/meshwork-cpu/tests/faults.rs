//! Processes that stop, die, panic, leave or do something else: the others learn it, and say who and where.
#![cfg(feature = "mpi")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use meshwork_cpu::{CpuEngine, DeviceProgram};
use meshwork_ir::DeviceGrid;
use meshwork_ir::text;
use meshwork_runtime::RunError;
use meshwork_runtime::{Buffer, ProcessError, Runtime, Shards};
use meshwork_testing::ranks::{self, command, is_rank, output};

const RANKS: usize = 4;

/// A sum over all devices, in a loop of ten turns.
fn program(op: &str) -> String {
    format!(
        "func.func @main(%x: tensor<600xf32>) -> tensor<600xf32> {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %n = stablehlo.constant dense<10> : tensor<i32>
           %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<600xf32>
           cond {{
             %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           }} do {{
             %s = \"stablehlo.all_reduce\"(%a) ({{ ^bb0(%b: tensor<f32>, %c: tensor<f32>):
               %d = stablehlo.{op} %b, %c : tensor<f32>
               stablehlo.return %d : tensor<f32> }}) {{replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}} : (tensor<600xf32>) -> tensor<600xf32>
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, %s : tensor<i32>, tensor<600xf32>
           }}
           return %r#1 : tensor<600xf32> }}"
    )
}

/// Compiles the program.
fn compile(engine: &CpuEngine, source: &str) -> DeviceProgram {
    let module = text::parse(source).expect("a program");
    engine.compile(&module, None, DeviceGrid { replicas: 1, partitions: RANKS }).expect("it compiles")
}

/// Compiles the program and runs it once.
fn step(engine: &CpuEngine, source: &str) -> Result<Vec<Shards>, RunError> {
    run(&compile(engine, source))
}

/// Runs a compiled program.
fn run(loaded: &DeviceProgram) -> Result<Vec<Shards>, RunError> {
    let shard = || Arc::new(Buffer::from_bytes(&[0; 2400]).expect("memory"));
    loaded.run(vec![(0..RANKS).map(|_| shard()).collect()])
}

/// Runs the program many times; rank 2 does something else before step 50.
fn train(fault: impl Fn()) -> Result<(), RunError> {
    let runtime = Runtime::init().expect("a runtime");
    let loaded = compile(&CpuEngine::new(1), &program("maximum"));
    for number in 0..200 {
        if number == 50 && runtime.rank() == 2 {
            fault();
        }
        run(&loaded)?;
    }
    Ok(())
}

/// In the test `name`: runs `body` on four ranks, which must end badly and in time. Gives what they printed and the
/// record of each.
fn ends_badly(name: &str, body: impl FnOnce()) -> Option<(String, Vec<String>)> {
    if is_rank() {
        body();
        return None;
    }
    let start = Instant::now();
    let record = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let of_rank = |rank: usize| format!("{}.{rank}", record.display());
    (0..RANKS).for_each(|rank| drop(std::fs::remove_file(of_rank(rank))));
    let mut command = command(RANKS, name);
    command.env("MESHWORK_DEADLINE", "5").env("RUST_BACKTRACE", "0").env("MESHWORK_RECORD", &record);
    let output = output(&mut command);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it ended well:\n{err}");
    assert!(start.elapsed() < Duration::from_secs(40), "it took {:?}:\n{err}", start.elapsed());
    let records = (0..RANKS).map(|rank| std::fs::read_to_string(of_rank(rank)).unwrap_or_default());
    Some((err, records.collect()))
}

/// All survivors wrote this about rank 2.
fn all_said((err, records): &(String, Vec<String>), words: &str) {
    for rank in [0, 1, 3] {
        let record = &records[rank];
        assert!(
            record.contains(&format!("rank {rank}: {words}")),
            "rank {rank} did not say '{words}':\n{record}\n{err}"
        );
        assert!(record.contains(&format!("rank {rank}: the last ")), "rank {rank} has no record:\n{err}");
    }
}

#[test]
fn a_stopped_rank_is_named_by_all_others() {
    let end = ends_badly("a_stopped_rank_is_named_by_all_others", || {
        // SAFETY: a signal to this process.
        let done = train(|| unsafe {
            libc::raise(libc::SIGSTOP);
        });
        panic!("{}", done.unwrap_err());
    });
    if let Some(end) = end {
        all_said(&end, "rank 2 does not answer: it stands still, or computes");
        assert!(end.1[0].contains("all_reduce 600 ('stablehlo.all_reduce' at line 10"), "{}", end.1[0]);
    }
}

#[test]
fn a_killed_rank_is_named_by_all_others() {
    let end = ends_badly("a_killed_rank_is_named_by_all_others", || {
        // SAFETY: a signal to this process.
        let done = train(|| unsafe {
            libc::raise(libc::SIGKILL);
        });
        panic!("{}", done.unwrap_err());
    });
    if let Some(end) = end {
        all_said(&end, "rank 2 has died");
    }
}

#[test]
fn a_panic_ends_the_job_with_its_message() {
    let end = ends_badly("a_panic_ends_the_job_with_its_message", || {
        let done = train(|| panic!("out of luck"));
        // Those that wait get it as an error.
        panic!("{}", done.unwrap_err());
    });
    if let Some(end) = end {
        assert!(end.0.contains("out of luck"), "{}", end.0);
        all_said(&end, "rank 2 panicked at");
    }
}

#[test]
fn a_rank_that_leaves_is_named_by_all_others() {
    let end = ends_badly("a_rank_that_leaves_is_named_by_all_others", || {
        let done = train(|| std::process::exit(0));
        panic!("{}", done.unwrap_err());
    });
    if let Some(end) = end {
        all_said(&end, "rank 2 has ended its program");
    }
}

#[test]
fn another_program_on_one_rank_is_refused_by_all_and_others_can_follow() {
    ranks::across(&[RANKS], "another_program_on_one_rank_is_refused_by_all_and_others_can_follow", || {
        let runtime = Runtime::init().unwrap();
        let engine = CpuEngine::new(1);
        let op = if runtime.rank() == 2 { "minimum" } else { "maximum" };
        let error = step(&engine, &program(op)).unwrap_err();
        let message = "rank 2 runs another program than the others";
        assert_eq!(error, RunError::Processes(ProcessError::Failed(message.into())));
        step(&engine, &program("add")).unwrap();
    });
}

/// Devices of one group take different ways, of which only one leads to communication: all say so, and go on.
#[test]
fn a_torn_group_is_an_error_on_all_and_others_can_follow() {
    ranks::across(&[2, 3, RANKS], "a_torn_group_is_an_error_on_all_and_others_can_follow", || {
        let runtime = Runtime::init().unwrap();
        let engine = CpuEngine::new(1);
        let sum = "\"stablehlo.all_reduce\"(%x) ({ ^bb0(%b: tensor<f32>, %c: tensor<f32>):
               %d = stablehlo.add %b, %c : tensor<f32>
               stablehlo.return %d : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<600xf32>) -> tensor<600xf32>";
        for (lonely, then) in [(2, false), (0, true), (3, true), (1, false)] {
            // The others go to the end, or to another sum.
            let again = if then {
                sum.replace("%x", "%r").replace("%b", "%e").replace("%c", "%f").replace("%d", "%g")
            } else {
                "stablehlo.negate %r : tensor<600xf32>".into()
            };
            let source = format!(
                "func.func @main(%x: tensor<600xf32>) -> tensor<600xf32> {{
                   %id = stablehlo.partition_id : tensor<ui32>
                   %n = stablehlo.constant dense<{lonely}> : tensor<ui32>
                   %p = stablehlo.compare EQ, %id, %n : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
                   %r = \"stablehlo.if\"(%p) ({{
                     stablehlo.return %x : tensor<600xf32>
                   }}, {{
                     %s = {sum}
                     stablehlo.return %s : tensor<600xf32>
                   }}) : (tensor<i1>) -> tensor<600xf32>
                   %q = {again}
                   return %q : tensor<600xf32> }}"
            );
            let start = Instant::now();
            let error = step(&engine, &source).unwrap_err().to_string();
            let says = error.contains("torn apart") || error.contains("do not reach it");
            assert!(says, "rank {}, {lonely} apart: {error}", runtime.rank());
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
            step(&engine, &program("add")).unwrap();
        }
    });
}

#[test]
fn an_operation_out_of_order_is_reported_by_both_sides() {
    let end = ends_badly("an_operation_out_of_order_is_reported_by_both_sides", || {
        let done = train(|| {
            Runtime::init().unwrap().barrier().unwrap();
        });
        panic!("{}", done.unwrap_err());
    });
    if let Some(end) = end {
        let record = &end.1[2];
        assert!(record.contains("do different things"), "{record}");
        assert!(record.contains("at barrier (step") && record.contains("at all_reduce 600"), "{record}");
    }
}

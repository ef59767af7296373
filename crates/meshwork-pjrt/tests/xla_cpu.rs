//! Programs on XLA's CPU devices. The plugin is the wheel `xla-cpu-pjrt`; without it every test here says that it was
//! skipped. XLA ends the process when something is badly wrong, so each test runs in a process of its own under
//! cargo-nextest.

use std::sync::Arc;

use meshwork_ir::text;
use meshwork_mesh::{Mesh, P};
use meshwork_partition::{CompileOptions, Compiled, compile};
use meshwork_pjrt::PjrtEngine;
use meshwork_runtime::{Array, Engine, Evaluator, Executable};

/// The engine; `None`, with a line on standard error, where the plugin is not installed.
fn engine(options: &str) -> Option<PjrtEngine> {
    let found = meshwork_testing::xla::cpu()?;
    let path = found.client().plugin().path().display().to_string();
    Some(PjrtEngine::open(&format!("{path}{options}")).expect("it opens"))
}

fn program(source: &str) -> Compiled {
    compile(&text::parse(source).expect("a program"), &CompileOptions::default()).expect("it compiles")
}

const TRAIN: &str = "
    sdy.mesh @mesh = <[\"x\"=4]>
    func.func @main(%w: tensor<8x8xf32> {tf.aliasing_output = 0 : i32},
                    %x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}, {}]>}) -> (tensor<8x8xf32>, tensor<f32>) {
      %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
      %t = stablehlo.tanh %h : tensor<16x8xf32>
      %g = stablehlo.dot_general %x, %t, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
      %rate = stablehlo.constant dense<0.01> : tensor<8x8xf32>
      %s = stablehlo.multiply %g, %rate : tensor<8x8xf32>
      %n = stablehlo.subtract %w, %s : tensor<8x8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %l = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<16x8xf32>, tensor<f32>) -> tensor<f32>
      return %n, %l : tensor<8x8xf32>, tensor<f32>
    }";

fn numbers(shape: [i64; 2]) -> Array {
    Array::from_fn(shape, |i| ((i[0] * 7 + i[1] * 3) % 11) as f32 * 0.05 - 0.2)
}

/// The weights after `steps` steps.
fn train(loaded: &Arc<dyn Executable>, steps: usize) -> Array {
    let (mut w, x) = (numbers([8, 8]), numbers([16, 8]));
    for _ in 0..steps {
        w = loaded.run(vec![w, x.clone()]).expect("it runs").swap_remove(0);
    }
    w
}

#[test]
fn training_gives_what_the_evaluator_gives() {
    let Some(engine) = engine("") else { return };
    let program = program(TRAIN);
    let loaded = engine.load(&program).expect("it loads");
    assert_eq!(loaded.fallbacks(), []);
    let want = train(&Evaluator.load(&program).expect("it loads"), 40);
    let got = train(&loaded, 40);
    assert!(got.all_close(&want, 1e-5), "{got} instead of {want}");
}

/// The results of a call are arguments of the next without a way through the host.
#[test]
fn arrays_stay_on_the_devices() {
    let Some(engine) = engine("") else { return };
    let loaded = engine.load(&program(TRAIN)).expect("it loads");
    let w = train(&loaded, 1);
    let shards = w.sharded().expect("on devices");
    assert_eq!(shards.shards().len(), 4);
    assert!(shards.shards().iter().all(|s| format!("{s:?}").starts_with("PjrtBuffer")), "{shards:?}");
}

/// A donated argument that nobody else holds is gone; one that somebody holds stays as it is.
#[test]
fn donated_memory_is_taken_only_if_nobody_else_has_it() {
    let Some(engine) = engine("") else { return };
    let loaded = engine.load(&program(TRAIN)).expect("it loads");
    let (w, x) = (train(&loaded, 1), numbers([16, 8]));
    let before = w.copy().expect("readable");
    let first = loaded.run(vec![w.clone(), x.clone()]).expect("it runs").swap_remove(0);
    assert!(w.hold().all_close(&before, 0.0));
    let again = loaded.run(vec![w, x]).expect("it runs").swap_remove(0);
    assert!(first.all_close(&again, 0.0));
}

#[test]
fn uneven_shards_and_device_orders_come_back_whole() {
    let Some(engine) = engine("") else { return };
    let source = "
        sdy.mesh @mesh = <[\"x\"=2, \"y\"=2], device_ids=[3, 1, 0, 2]>
        func.func @main(%x: tensor<7x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\", \"y\"}, {}]>})
            -> (tensor<7x5xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\"}, {\"x\"}]>}) {
          %y = stablehlo.add %x, %x : tensor<7x5xf32>
          return %y : tensor<7x5xf32> }";
    let loaded = engine.load(&program(source)).expect("it loads");
    assert_eq!(loaded.fallbacks(), []);
    let x = numbers([7, 5]);
    let got = loaded.run(vec![x.clone()]).expect("it runs").swap_remove(0);
    let want: Vec<f32> = x.to_vec::<f32>().expect("f32").iter().map(|x| x + x).collect();
    assert_eq!(got.to_vec::<f32>().expect("f32"), want);
}

/// By one switch XLA's own partitioner gets the global program.
#[test]
fn xla_partitions_the_same_program() {
    let Some(engine) = engine(",partitioner=xla") else { return };
    let program = program(TRAIN);
    let loaded = engine.load(&program).expect("it loads");
    assert_eq!(loaded.fallbacks(), []);
    let want = train(&Evaluator.load(&program).expect("it loads"), 5);
    assert!(train(&loaded, 5).all_close(&want, 1e-5));
}

#[test]
fn compiled_programs_are_found_again_on_disk() {
    let folder = std::env::temp_dir().join(format!("meshwork-pjrt-cache-{}", std::process::id()));
    let Some(engine) = engine(&format!(",cache={}", folder.display())) else { return };
    let program = program(TRAIN);
    let first = train(&engine.load(&program).expect("it loads"), 3);
    let files = || std::fs::read_dir(&folder).expect("a folder").count();
    assert_eq!(files(), 1);
    let second = train(&engine.load(&program).expect("it loads"), 3);
    assert!(first.all_close(&second, 1e-6));
    assert_eq!(files(), 1);
    std::fs::remove_dir_all(&folder).expect("a folder");
}

#[test]
fn what_is_wrong_is_said() {
    let Some(engine) = engine(",cpu_device_count=2") else { return };
    let Err(error) = engine.load(&program(TRAIN)) else { panic!("it loads") };
    assert_eq!(error.to_string(), "the mesh has 4 devices; pjrt:cpu runs at most 2");
    let source = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
    let loaded = engine.load(&program(source)).expect("it loads");
    let error = loaded.run(vec![]).expect_err("it runs").to_string();
    assert_eq!(error, "the program takes 1 arguments, 0 given");
    // What a plugin cannot do runs on the evaluator, which says so.
    let source = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %y = stablehlo.custom_call @no_such_call(%x) : (tensor<2xf32>) -> tensor<2xf32>
        return %y : tensor<2xf32> }";
    let fallbacks = engine.load(&program(source)).expect("it loads").fallbacks();
    assert!(fallbacks[0].to_string().contains("no_such_call"), "{fallbacks:?}");
}

#[test]
fn flags_reach_the_compiler() {
    let Some(engine) = engine(",xla_no_such_flag=true") else { return };
    let source = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
    let fallbacks = engine.load(&program(source)).expect("it loads").fallbacks();
    assert!(fallbacks[0].to_string().contains("xla_no_such_flag"), "{fallbacks:?}");
}

/// Arrays of a placement of the user's own go to the devices that it names.
#[test]
fn placed_arrays_are_sent_in_pieces() {
    let Some(engine) = engine("") else { return };
    let mesh = Mesh::linear("x", 4).expect("a mesh");
    let loaded = engine.load(&program(TRAIN)).expect("it loads");
    let x = numbers([16, 8]).shard(&mesh, P!["x"]).expect("it fits");
    let results = loaded.run(vec![numbers([8, 8]), x]).expect("it runs");
    assert!(results[1].shape().is_empty());
    assert!(results[1].item::<f32>().expect("a number").is_finite());
}

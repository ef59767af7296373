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

/// Heat by slice assignment, and the numbers of a program that is rewritten are those of one that is not.
#[test]
fn rewritten_programs_give_the_same_bits() {
    let source = "func.func @main(%u: tensor<40x30xf32>) -> tensor<40x30xf32> {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %r:2 = stablehlo.while(%n = %zero, %x = %u) : tensor<i32>, tensor<40x30xf32>
        cond {
          %end = stablehlo.constant dense<11> : tensor<i32>
          %more = stablehlo.compare LT, %n, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %more : tensor<i1>
        } do {
          %a = stablehlo.slice %x [0:38, 1:29] : (tensor<40x30xf32>) -> tensor<38x28xf32>
          %b = stablehlo.slice %x [2:40, 1:29] : (tensor<40x30xf32>) -> tensor<38x28xf32>
          %s = stablehlo.add %a, %b : tensor<38x28xf32>
          %half = stablehlo.constant dense<0.5> : tensor<38x28xf32>
          %i = stablehlo.multiply %s, %half : tensor<38x28xf32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %y = stablehlo.dynamic_update_slice %x, %i, %one, %one
              : (tensor<40x30xf32>, tensor<38x28xf32>, tensor<i32>, tensor<i32>) -> tensor<40x30xf32>
          %next = stablehlo.add %n, %one : tensor<i32>
          stablehlo.return %next, %y : tensor<i32>, tensor<40x30xf32>
        }
        return %r#1 : tensor<40x30xf32> }";
    let program = program(source);
    let mut results = vec![];
    for options in [",rewrite=true", ",rewrite=false", ",rewrite=true,turns=1", ",rewrite=true,turns=3"] {
        let Some(engine) = engine(options) else { return };
        let is_rewritten = !engine.source(&program).expect("text").contains("dynamic_update_slice");
        assert_eq!(is_rewritten, options.contains("true"), "{options}");
        let loaded = engine.load(&program).expect("it loads");
        assert_eq!(loaded.fallbacks(), []);
        let got = loaded.run(vec![numbers([40, 30])]).expect("it runs").swap_remove(0);
        results.push(got.to_vec::<f32>().expect("f32"));
    }
    let want =
        Evaluator.load(&program).expect("it loads").run(vec![numbers([40, 30])]).expect("it runs").swap_remove(0);
    results.push(want.to_vec::<f32>().expect("f32"));
    assert!(results.iter().all(|r| r == &results[0]));
}

/// Arrays of more than one piece of pinned memory, or the ordinary way where the plugin has none.
#[test]
fn large_arrays_come_back_as_they_went() {
    let source = "func.func @main(%x: tensor<3000001xi32>) -> tensor<3000001xi32> {
        %y = stablehlo.add %x, %x : tensor<3000001xi32>
        return %y : tensor<3000001xi32> }";
    for options in [",transfers=staged", ",transfers=direct"] {
        let Some(engine) = engine(options) else { return };
        let x = Array::from_fn([3_000_001], |i| i[0] as i32);
        let y = engine.load(&program(source)).expect("it loads").run(vec![x]).expect("it runs").swap_remove(0);
        let y = y.to_vec::<i32>().expect("i32");
        assert!(y.iter().enumerate().all(|(i, &y)| y == 2 * i as i32), "{options}");
    }
}

/// What a product keeps is said where it is rounded, and nothing on XLA's CPU devices.
#[test]
fn notes_and_memory() {
    let Some(engine) = engine("") else { return };
    assert_eq!(engine.notes(&program(TRAIN)), Vec::<String>::new());
    let Some(engine) = self::engine(",precision=highest") else { return };
    assert!(engine.source(&program(TRAIN)).expect("text").contains("[HIGHEST, HIGHEST]"));
    // The plugin does not count memory; what it tells is for all devices or none.
    assert!([0, 20].contains(&engine.memory().len()), "{:?}", engine.memory());
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

//! What a run takes is what the buffer plan says.

use std::sync::{Arc, Mutex, PoisonError};

use meshwork_cpu::CpuEngine;
use meshwork_ir::DeviceGrid;
use meshwork_ir::text;
use meshwork_runtime::memory::usage;
use meshwork_runtime::{Buffer, Shards};

const HEAT: &str = "func.func @main(%x: tensor<1000xf32>) -> tensor<1000xf32> {
   %zero = stablehlo.constant dense<0> : tensor<i32>
   %one = stablehlo.constant dense<1> : tensor<i32>
   %n = stablehlo.constant dense<9> : tensor<i32>
   %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1000xf32>
   cond {
     %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
     stablehlo.return %p : tensor<i1>
   } do {
     %l = stablehlo.slice %a [0:998] : (tensor<1000xf32>) -> tensor<998xf32>
     %m = stablehlo.slice %a [1:999] : (tensor<1000xf32>) -> tensor<998xf32>
     %h = stablehlo.slice %a [2:1000] : (tensor<1000xf32>) -> tensor<998xf32>
     %s = stablehlo.add %l, %h : tensor<998xf32>
     %t = stablehlo.subtract %s, %m : tensor<998xf32>
     %b = stablehlo.dynamic_update_slice %a, %t, %one : (tensor<1000xf32>, tensor<998xf32>, tensor<i32>) -> tensor<1000xf32>
     %j = stablehlo.add %i, %one : tensor<i32>
     stablehlo.return %j, %b : tensor<i32>, tensor<1000xf32>
   }
   return %r#1 : tensor<1000xf32> }";

const MLP: &str = "func.func @main(%x: tensor<64x80xf32>, %w: tensor<80x96xf32>, %v: tensor<96x10xf32>) -> (tensor<64x10xf32>, tensor<96x10xf32>) {
   %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x80xf32>, tensor<80x96xf32>) -> tensor<64x96xf32>
   %t = stablehlo.tanh %h : tensor<64x96xf32>
   %y = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0] : (tensor<64x96xf32>, tensor<96x10xf32>) -> tensor<64x10xf32>
   %g = stablehlo.dot_general %t, %y, contracting_dims = [0] x [0] : (tensor<64x96xf32>, tensor<64x10xf32>) -> tensor<96x10xf32>
   return %y, %g : tensor<64x10xf32>, tensor<96x10xf32> }";

const SUM: &str = "func.func @main(%x: tensor<300x7xf32>) -> tensor<300x7xf32> {
   %e = stablehlo.exponential %x : tensor<300x7xf32>
   %r = \"stablehlo.all_reduce\"(%e) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
     %s = stablehlo.add %a, %b : tensor<f32>
     stablehlo.return %s : tensor<f32> })
     {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<300x7xf32>) -> tensor<300x7xf32>
   return %r : tensor<300x7xf32> }";

/// The sum is large enough for memory shared by all devices; each device has its own result.
const COMMON: &str = "func.func @main(%x: tensor<300x70xf32>) -> tensor<300x70xf32> {
   %r = \"stablehlo.all_reduce\"(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
     %s = stablehlo.add %a, %b : tensor<f32>
     stablehlo.return %s : tensor<f32> })
     {replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<300x70xf32>) -> tensor<300x70xf32>
   %e = stablehlo.subtract %r, %x : tensor<300x70xf32>
   return %e : tensor<300x70xf32> }";

/// The counters are the process's, and constants of a compiled program count: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_run_uses_the_planned_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let engine = CpuEngine::new(2);
    for (source, devices) in [(HEAT, 1), (HEAT, 3), (MLP, 1), (MLP, 2), (SUM, 4), (COMMON, 4)] {
        let module = text::parse(source).unwrap();
        let grid = DeviceGrid { replicas: 1, partitions: devices };
        let executable = engine.compile(&module, None, grid).unwrap();
        let bytes = |t: &meshwork_ir::TensorType| t.dims.iter().product::<i64>() as usize * t.elem.storage_bytes();
        let shard = |n: usize| Arc::new(Buffer::from_bytes(&vec![0; n]).unwrap());
        let args: Vec<Shards> =
            executable.inputs().iter().map(|t| (0..devices).map(|_| shard(bytes(t))).collect()).collect();
        assert_eq!(executable.total_bytes() < devices * executable.peak_bytes(), source == COMMON);
        for turn in 0..3 {
            let before = usage::live_bytes();
            usage::restart();
            let results = executable.run(args.clone()).unwrap();
            assert_eq!(usage::peak_bytes() - before, executable.total_bytes(), "run {turn} of\n{source}");
            // Devices that have the same result have one buffer.
            let own: Vec<&Arc<Buffer>> = results.iter().flatten().collect();
            let first = |i: usize| !own[..i].iter().any(|b| Arc::ptr_eq(b, own[i]));
            let kept: usize = (0..own.len()).filter(|&i| first(i)).map(|i| own[i].len()).sum();
            assert_eq!(usage::live_bytes() - before, kept, "after run {turn} of\n{source}");
            drop(results);
            assert_eq!(usage::live_bytes(), before, "after the results of run {turn} of\n{source}");
        }
    }
}

/// Attention of 4,096 positions and its gradient need memory for what they read and return, not for a matrix of scores.
#[test]
fn attention_needs_no_matrix_of_scores() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (n, h, d) = (4096, 4, 64);
    let (x, s, r) =
        (format!("tensor<{h}x{n}x{d}xf32>"), format!("tensor<{h}x{n}x{n}xf32>"), format!("tensor<{h}x{n}xf32>"));
    let stack = "batching_dims = [0] x [0]";
    let forward = format!(
        "%s0 = stablehlo.dot_general %q, %k, {stack}, contracting_dims = [2] x [2] : ({x}, {x}) -> {s}
         %i = stablehlo.iota dim = 1 : tensor<{h}x{n}x{n}xi32>
         %j = stablehlo.iota dim = 2 : tensor<{h}x{n}x{n}xi32>
         %keep = stablehlo.compare GE, %i, %j, SIGNED : (tensor<{h}x{n}x{n}xi32>, tensor<{h}x{n}x{n}xi32>) -> tensor<{h}x{n}x{n}xi1>
         %fill = stablehlo.constant dense<-1.0e30> : {s}
         %s1 = stablehlo.select %keep, %s0, %fill : tensor<{h}x{n}x{n}xi1>, {s}
         %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
         %zero = stablehlo.constant dense<0.0> : tensor<f32>
         %m = stablehlo.reduce(%s1 init: %low) applies stablehlo.maximum across dimensions = [2] : ({s}, tensor<f32>) -> {r}
         %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : ({r}) -> {s}
         %t = stablehlo.subtract %s1, %mb : {s}
         %e = stablehlo.exponential %t : {s}
         %l = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] : ({s}, tensor<f32>) -> {r}
         %lb = stablehlo.broadcast_in_dim %l, dims = [0, 1] : ({r}) -> {s}
         %p = stablehlo.divide %e, %lb : {s}
         %o = stablehlo.dot_general %p, %v, {stack}, contracting_dims = [2] x [1] : ({s}, {x}) -> {x}\n"
    );
    let gradient = format!(
        "%do = stablehlo.multiply %o, %o : {x}
         %dv = stablehlo.dot_general %p, %do, {stack}, contracting_dims = [1] x [1] : ({s}, {x}) -> {x}
         %dp = stablehlo.dot_general %do, %v, {stack}, contracting_dims = [2] x [2] : ({x}, {x}) -> {s}
         %both = stablehlo.multiply %dp, %p : {s}
         %delta = stablehlo.reduce(%both init: %zero) applies stablehlo.add across dimensions = [2] : ({s}, tensor<f32>) -> {r}
         %deltas = stablehlo.broadcast_in_dim %delta, dims = [0, 1] : ({r}) -> {s}
         %rest = stablehlo.subtract %dp, %deltas : {s}
         %ds = stablehlo.multiply %rest, %p : {s}
         %dq = stablehlo.dot_general %ds, %k, {stack}, contracting_dims = [2] x [1] : ({s}, {x}) -> {x}
         %dk = stablehlo.dot_general %ds, %q, {stack}, contracting_dims = [1] x [1] : ({s}, {x}) -> {x}\n"
    );
    let one = format!("func.func @main(%q: {x}, %k: {x}, %v: {x}) -> {x} {{ {forward} return %o : {x} }}");
    let all = format!(
        "func.func @main(%q: {x}, %k: {x}, %v: {x}) -> ({x}, {x}, {x}) {{ {forward} {gradient} return %dq, %dk, %dv : {x}, {x}, {x} }}"
    );
    let engine = CpuEngine::new(2);
    for (source, arrays) in [(one, 2), (all, 20)] {
        let module = text::parse(&source).unwrap();
        let executable = engine.compile(&module, None, DeviceGrid { replicas: 1, partitions: 1 }).unwrap();
        let bytes = executable.peak_bytes();
        assert!(bytes <= arrays * h * n * d * 4, "{bytes} bytes");
    }
}

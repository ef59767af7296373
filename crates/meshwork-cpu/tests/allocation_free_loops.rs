//! A loop allocates nothing in the turns after its first ones. One test, because the counter is the process's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use meshwork_cpu::{CpuEngine, DeviceProgram};
use meshwork_ir::DeviceGrid;
use meshwork_ir::text;
use meshwork_runtime::{Buffer, Shards};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A loop of `%n` turns around `body`, which computes `%y` from `%x`; both are `ty`.
fn looped(ty: &str, body: &str) -> String {
    format!(
        "func.func @main(%a: {ty}, %n: tensor<i32>) -> {ty} {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, {ty}
           cond {{
             %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           }} do {{
             {body}
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, %y : tensor<i32>, {ty}
           }}
           return %r#1 : {ty} }}"
    )
}

/// `x[1:-1] = x[2:] - x[:-2]` on `n` numbers.
fn stencil(n: usize) -> String {
    let (ty, inner) = (format!("tensor<{n}xf32>"), format!("tensor<{}xf32>", n - 2));
    let body = format!(
        "%l = stablehlo.slice %x [0:{}] : ({ty}) -> {inner}
         %h = stablehlo.slice %x [2:{n}] : ({ty}) -> {inner}
         %d = stablehlo.subtract %h, %l : {inner}
         %y = stablehlo.dynamic_update_slice %x, %d, %one : ({ty}, {inner}, tensor<i32>) -> {ty}",
        n - 2
    );
    looped(&ty, &body)
}

/// Each device adds the numbers of the one before it.
fn ring(n: usize, devices: usize) -> String {
    let ty = format!("tensor<{n}xf32>");
    let pairs: Vec<String> = (0..devices).map(|d| format!("[{d}, {}]", (d + 1) % devices)).collect();
    let body = format!(
        "%q = \"stablehlo.collective_permute\"(%x) {{source_target_pairs = dense<[{}]> : tensor<{devices}x2xi64>, \
         channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : ({ty}) -> {ty}
         %y = stablehlo.subtract %x, %q : {ty}",
        pairs.join(", ")
    );
    looped(&ty, &body)
}

fn product() -> String {
    let ty = "tensor<96x96xf32>";
    let dot = format!("%y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}");
    looped(ty, &dot)
}

/// The fewest allocations of some runs: other threads may do something of their own in one of them.
fn fewest(executable: &DeviceProgram, turns: i32, devices: usize) -> usize {
    let bytes = |t: &meshwork_ir::TensorType| t.dims.iter().product::<i64>() as usize * t.elem.storage_bytes();
    let own = |bytes: &[u8]| Arc::new(Buffer::from_bytes(bytes).unwrap());
    let array: Shards = (0..devices).map(|_| own(&vec![0; bytes(&executable.inputs()[0])])).collect();
    let count: Shards = (0..devices).map(|_| own(&turns.to_le_bytes())).collect();
    let run = |_| {
        let args = vec![array.clone(), count.clone()];
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        executable.run(args).unwrap();
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    (0..5).map(run).min().unwrap()
}

#[test]
fn further_turns_of_a_loop_allocate_nothing() {
    let engine = CpuEngine::new(2);
    let programs = [
        (looped("tensor<f32>", "%y = stablehlo.add %x, %x : tensor<f32>"), 1),
        (stencil(1000), 1),
        (stencil(1 << 20), 1),
        (ring(8, 4), 4),
        (ring(1 << 18, 4), 4),
        (product(), 1),
    ];
    for (source, devices) in programs {
        let module = text::parse(&source).unwrap();
        let grid = DeviceGrid { replicas: 1, partitions: devices };
        let executable = engine.compile(&module, None, grid).unwrap();
        let few = fewest(&executable, 70, devices);
        assert_eq!(fewest(&executable, 300, devices), few, "{source}");
    }
}

//! Results common to several devices are computed once; only the time differs.

use std::sync::Arc;

use meshwork_cpu::device_program::Replication;
use meshwork_cpu::memory::share::Leaders;
use meshwork_cpu::{CpuEngine, DeviceProgram};
use meshwork_eval as eval;
use meshwork_ir::DeviceGrid;
use meshwork_ir::{ElementType, Literal, text};
use meshwork_runtime::{Buffer, Shards};

const SUM: &str = "({ ^bb0(%k: tensor<f32>, %l: tensor<f32>):
   %m = stablehlo.add %k, %l : tensor<f32>
   stablehlo.return %m : tensor<f32> })";

fn groups(list: &str, shape: &str) -> String {
    format!(
        "replica_groups = dense<{list}> : tensor<{shape}xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids"
    )
}

/// A step of training: `x` differs between devices, `w` and `s` are what they have in common. The gradient is summed over
/// `groups`; the rows of `x` are gathered, so that all can compute a product of them; each device's number enters late.
fn training(groups: &str, members: usize) -> String {
    let rows = 64 * members;
    format!(
        "func.func @main(%x: tensor<64x96xf32>, %w: tensor<96x128xf32>, %s: tensor<f32>, %i: tensor<40x1xi32>) -> (tensor<96x128xf32>, tensor<96x96xf32>, tensor<96x128xf32>, tensor<f32>) {{
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x96xf32>, tensor<96x128xf32>) -> tensor<64x128xf32>
  %t = stablehlo.tanh %h : tensor<64x128xf32>
  %d = stablehlo.dot_general %x, %t, contracting_dims = [0] x [0] : (tensor<64x96xf32>, tensor<64x128xf32>) -> tensor<96x128xf32>
  %g = \"stablehlo.all_reduce\"(%d) {SUM} {{{groups}}} : (tensor<96x128xf32>) -> tensor<96x128xf32>
  %half = stablehlo.constant dense<0.5> : tensor<f32>
  %s2 = stablehlo.multiply %s, %half : tensor<f32>
  %sb = stablehlo.broadcast_in_dim %s2, dims = [] : (tensor<f32>) -> tensor<96x128xf32>
  %e = stablehlo.exponential %w : tensor<96x128xf32>
  %g1 = stablehlo.multiply %g, %sb : tensor<96x128xf32>
  %g2 = stablehlo.multiply %g1, %e : tensor<96x128xf32>
  %new = stablehlo.subtract %w, %g2 : tensor<96x128xf32>
  %all = \"stablehlo.all_gather\"(%x) {{all_gather_dim = 0 : i64, {groups}}} : (tensor<64x96xf32>) -> tensor<{rows}x96xf32>
  %p = stablehlo.dot_general %all, %all, contracting_dims = [0] x [0] : (tensor<{rows}x96xf32>, tensor<{rows}x96xf32>) -> tensor<96x96xf32>
  %part = stablehlo.slice %g2 [0:40, 0:128] : (tensor<96x128xf32>) -> tensor<40x128xf32>
  %c = \"stablehlo.scatter\"(%new, %i, %part) ({{ ^bb0(%k: tensor<f32>, %l: tensor<f32>):
    %m = stablehlo.add %k, %l : tensor<f32>
    stablehlo.return %m : tensor<f32> }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}} : (tensor<96x128xf32>, tensor<40x1xi32>, tensor<40x128xf32>) -> tensor<96x128xf32>
  %id = stablehlo.partition_id : tensor<ui32>
  %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
  %own = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<96x128xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%j = %zero, %a = %own) : tensor<i32>, tensor<96x128xf32>
  cond {{
    %q = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  }} do {{
    %b = stablehlo.add %a, %c : tensor<96x128xf32>
    %n = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %n, %b : tensor<i32>, tensor<96x128xf32>
  }}
  return %new, %p, %r#1, %s2 : tensor<96x128xf32>, tensor<96x96xf32>, tensor<96x128xf32>, tensor<f32>
}}"
    )
}

fn numbers(dims: &[i64], seed: usize) -> Literal {
    let n: i64 = dims.iter().product();
    let values: Vec<f64> =
        (0..n as usize).map(|i| ((i * 7919 + seed * 104_729) % 1000) as f64 / 1000.0 - 0.5).collect();
    Literal::from_f64s(dims.iter().copied(), ElementType::F32, &values).unwrap()
}

fn buffer(x: &Literal) -> Arc<Buffer> {
    Arc::new(Buffer::from_bytes(x.bytes()).unwrap())
}

/// Results of a run as bytes, per result and device.
fn run(executable: &DeviceProgram, args: &[Shards]) -> Vec<Vec<Vec<u8>>> {
    let results = executable.run(args.to_vec()).unwrap();
    results.iter().map(|shards| shards.iter().map(|s| s.as_slice().to_vec()).collect()).collect()
}

fn near(got: &[u8], want: &Literal, what: &str) {
    let got = Literal::from_bytes(want.dims().iter().copied(), want.elem(), got.to_vec()).unwrap();
    for (i, (a, b)) in got.to_f64s().iter().zip(want.to_f64s()).enumerate() {
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{what}: element {i} is {a}, not {b}");
    }
}

#[test]
fn one_device_computes_for_all_that_have_the_same() {
    let cases = [("[[0, 1, 2, 3]]", "1x4", 4, vec![0; 4]), ("[[0, 2], [3, 1]]", "2x2", 2, vec![0, 1, 0, 1])];
    for (list, shape, members, leader) in cases {
        let source = training(&groups(list, shape), members);
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{}", e.render("test", &source)));
        let grid = DeviceGrid { replicas: 1, partitions: 4 };
        let x: Vec<Literal> = (0..4).map(|d| numbers(&[64, 96], d)).collect();
        // Devices of a group have the same; another group has something else.
        let w: Vec<Literal> = (0..4).map(|d| numbers(&[96, 128], 10 + leader[d])).collect();
        let s = numbers(&[], 77);
        let i =
            Literal::from_i64s([40, 1], ElementType::I32, &(0..40).map(|i| i * 5 % 90).collect::<Vec<_>>()).unwrap();
        let args: Vec<Vec<Literal>> = (0..4).map(|d| vec![x[d].clone(), w[d].clone(), s.clone(), i.clone()]).collect();
        let want = eval::run_devices(&module, None, args, grid).unwrap();

        let own: Shards = x.iter().map(buffer).collect();
        let first: Vec<Arc<Buffer>> = w.iter().map(buffer).collect();
        let shared: Shards = leader.iter().map(|&l| first[l].clone()).collect();
        let (s_all, i_all) = (vec![buffer(&s); 4], vec![buffer(&i); 4]);
        let apart = |l: &Literal| -> Shards { (0..4).map(|_| buffer(l)).collect() };
        for threads in [1, 2] {
            let engine = CpuEngine::new(threads);
            let all: Leaders = vec![0; 4].into();
            let replicas = vec![None, Some(leader.clone().into()), Some(all.clone()), Some(all)];
            let replication = Replication { args: replicas, results: vec![] };
            let executable = engine.compile_replicated(&module, None, grid, replication).unwrap();
            let together = [own.clone(), shared.clone(), s_all.clone(), i_all.clone()];
            let separate = [own.clone(), w.iter().map(buffer).collect(), apart(&s), apart(&i)];
            let plain = run(&engine.compile(&module, None, grid).unwrap(), &separate);
            for (r, shards) in plain.iter().enumerate() {
                for (d, bytes) in shards.iter().enumerate() {
                    near(bytes, &want[d][r], &format!("result {r} on device {d} of groups {list}"));
                }
            }
            // The same bits, whichever device computes them and in any order of runs with and without sharing.
            assert_eq!(run(&executable, &together), plain, "groups {list}, {threads} threads");
            assert_eq!(run(&executable, &separate), plain, "groups {list}, {threads} threads");
            assert_eq!(run(&executable, &together), plain, "groups {list}, {threads} threads");

            // The new weights are one buffer per group, and again so after the next step.
            let results = executable.run(together.to_vec()).unwrap();
            let shared = |shards: &Shards| (0..4).all(|d| Arc::ptr_eq(&shards[d], &shards[leader[d]]));
            assert!(shared(&results[0]) && shared(&results[1]) && !shared(&results[2]), "groups {list}");
            // So are numbers that every device computes for itself.
            assert!(shared(&results[3]), "groups {list}");
            let next =
                executable.run(vec![own.clone(), results[0].clone(), results[3].clone(), i_all.clone()]).unwrap();
            assert!(shared(&next[0]));
            let copies: Shards =
                results[0].iter().map(|b| Arc::new(Buffer::from_bytes(b.as_slice()).unwrap())).collect();
            let half: Shards = results[3].iter().map(|b| Arc::new(Buffer::from_bytes(b.as_slice()).unwrap())).collect();
            let again = executable.run(vec![own.clone(), copies, half, apart(&i)]).unwrap();
            for (a, b) in next.iter().flatten().zip(again.iter().flatten()) {
                assert_eq!(a.as_slice(), b.as_slice());
            }
        }
    }
}

/// Permutes and a broadcast of `x`, which is never written, one after the other; `%t` is written by a loop that begins with one.
const MOVES: &str = "func.func @main(%x: tensor<500xf32>, %y: tensor<500xf32> DONATED) -> (tensor<500xf32>, tensor<500xf32>, tensor<500xf32>, tensor<500xf32>, tensor<500xf32>) {
  %a = \"stablehlo.collective_permute\"(%x) {source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>, CHANNEL} : (tensor<500xf32>) -> tensor<500xf32>
  %b = \"stablehlo.collective_permute\"(%a) {source_target_pairs = dense<[[0, 3], [3, 0], [1, 1], [2, 2]]> : tensor<4x2xi64>, CHANNEL} : (tensor<500xf32>) -> tensor<500xf32>
  %c = \"stablehlo.collective_broadcast\"(%x) {replica_groups = dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>, CHANNEL} : (tensor<500xf32>) -> tensor<500xf32>
  %d = \"stablehlo.collective_permute\"(%y) {source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>, CHANNEL} : (tensor<500xf32>) -> tensor<500xf32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%j = %zero, %t = %a) : tensor<i32>, tensor<500xf32>
  cond {
    %q = stablehlo.compare LT, %j, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %u = stablehlo.add %t, %c : tensor<500xf32>
    %n = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %n, %u : tensor<i32>, tensor<500xf32>
  }
  return %a, %b, %c, %d, %r#1 : tensor<500xf32>, tensor<500xf32>, tensor<500xf32>, tensor<500xf32>, tensor<500xf32>
}";

#[test]
fn a_peers_argument_is_passed_on_without_a_copy() {
    let grid = DeviceGrid { replicas: 1, partitions: 4 };
    for donated in [false, true] {
        let source = MOVES
            .replace("CHANNEL", "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>")
            .replace("DONATED", if donated { "{jax.buffer_donor = true}" } else { "" });
        let module = text::parse(&source).unwrap_or_else(|e| panic!("{}", e.render("test", &source)));
        let literals: Vec<Vec<Literal>> = (0..4).map(|d| vec![numbers(&[500], d), numbers(&[500], 10 + d)]).collect();
        let want = eval::run_devices(&module, None, literals.clone(), grid).unwrap();
        let executable = CpuEngine::new(2).compile(&module, None, grid).unwrap();
        let x: Shards = literals.iter().map(|l| buffer(&l[0])).collect();
        for _ in 0..2 {
            let y: Shards = literals.iter().map(|l| buffer(&l[1])).collect();
            let results = executable.run(vec![x.clone(), y]).unwrap();
            for (r, shards) in results.iter().enumerate() {
                for (d, shard) in shards.iter().enumerate() {
                    near(shard.as_slice(), &want[d][r], &format!("result {r} on device {d}"));
                }
            }
            let is = |r: usize, from: [usize; 4]| (0..4).all(|d| Arc::ptr_eq(&results[r][d], &x[from[d]]));
            assert!(is(0, [3, 0, 1, 2]) && is(1, [2, 0, 1, 3]), "donated: {donated}");
            // Results that devices share are kept apart where results may be donated.
            assert_eq!(is(2, [2, 1, 2, 1]), !donated);
        }
        for (shard, l) in x.iter().zip(&literals) {
            assert_eq!(shard.as_slice(), l[0].bytes());
        }
    }
}

/// A loop over what devices have in common, with another in it, and then something of each device.
const LOOP: &str =
    "func.func @main(%x: tensor<96xf32>, %w: tensor<96xf32>) -> (tensor<96xf32>, tensor<96xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %r:3 = stablehlo.while(%j = %zero, %a = %w, %b = %w) : tensor<i32>, tensor<96xf32>, tensor<96xf32>
  cond {
    %q = stablehlo.compare LT, %j, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %i:2 = stablehlo.while(%k = %zero, %c = %b) : tensor<i32>, tensor<96xf32>
    cond {
      %q = stablehlo.compare LE, %k, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %d = stablehlo.reverse %c, dims = [0] : tensor<96xf32>
      %e = stablehlo.add %d, %a : tensor<96xf32>
      %f = stablehlo.tanh %e : tensor<96xf32>
      %n = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %n, %f : tensor<i32>, tensor<96xf32>
    }
    %n = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %n, %i#1, %a : tensor<i32>, tensor<96xf32>, tensor<96xf32>
  }
  %y = stablehlo.multiply %r#1, %x : tensor<96xf32>
  return %y, %r#2, %r#0 : tensor<96xf32>, tensor<96xf32>, tensor<i32>
}";

#[test]
fn a_loop_over_what_devices_share_runs_once() {
    let module = text::parse(LOOP).unwrap_or_else(|e| panic!("{}", e.render("test", LOOP)));
    let grid = DeviceGrid { replicas: 1, partitions: 4 };
    for leader in [vec![0; 4], vec![0, 1, 0, 1]] {
        let args: Vec<Vec<Literal>> = (0..4).map(|d| vec![numbers(&[96], d), numbers(&[96], 10 + leader[d])]).collect();
        let want = eval::run_devices(&module, None, args.clone(), grid).unwrap();
        let shards = |i: usize| -> Shards { args.iter().map(|a| buffer(&a[i])).collect() };
        for threads in [1, 2] {
            let engine = CpuEngine::new(threads);
            let replication = Replication { args: vec![None, Some(leader.clone().into())], results: vec![] };
            let executable = engine.compile_replicated(&module, None, grid, replication).unwrap();
            let got = run(&executable, &[shards(0), shards(1)]);
            for (r, shards) in got.iter().enumerate() {
                for (d, bytes) in shards.iter().enumerate() {
                    near(bytes, &want[d][r], &format!("result {r} on device {d}, leaders {leader:?}"));
                }
            }
            assert_eq!(run(&engine.compile(&module, None, grid).unwrap(), &[shards(0), shards(1)]), got);
            assert_eq!(run(&executable, &[shards(0), shards(1)]), got);
            // Only those who lead take the turns.
            let (_, profile) = executable.run_profiled(vec![shards(0), shards(1)]).unwrap();
            let leaders = leader.iter().enumerate().filter(|&(d, &l)| d == l).count();
            let turns = profile.events.iter().filter(|e| e.name.contains("tanh")).count();
            assert_eq!(turns, 15 * leaders, "leaders {leader:?}");
        }
    }
}

const OPEN_LOOP: &str = "func.func @main(%x: tensor<f32>, %a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = stablehlo.while(%v = %a, %n = %zero) : tensor<f32>, tensor<f32>
  cond {
    %least = stablehlo.constant dense<0.01> : tensor<f32>
    %more = stablehlo.compare GT, %v, %least : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %part = stablehlo.constant dense<0.875> : tensor<f32>
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %w = stablehlo.multiply %v, %part : tensor<f32>
    %m = stablehlo.add %n, %one : tensor<f32>
    stablehlo.return %w, %m : tensor<f32>, tensor<f32>
  }
  %y = stablehlo.multiply %r#1, %x : tensor<f32>
  return %y, %r#0 : tensor<f32>, tensor<f32>
}";

/// A loop that turns as often as data says is one step, which runs once as well.
#[test]
fn a_loop_that_data_decides_runs_once() {
    let module = text::parse(OPEN_LOOP).unwrap_or_else(|e| panic!("{}", e.render("test", OPEN_LOOP)));
    let grid = DeviceGrid { replicas: 1, partitions: 4 };
    let leader = vec![0; 4];
    let args: Vec<Vec<Literal>> = (0..4).map(|d| vec![numbers(&[], d), numbers(&[], 5)]).collect();
    let want = eval::run_devices(&module, None, args.clone(), grid).unwrap();
    let shards = |i: usize| -> Shards { args.iter().map(|a| buffer(&a[i])).collect() };
    for threads in [1, 2] {
        let replication = Replication { args: vec![None, Some(leader.clone().into())], results: vec![] };
        let executable = CpuEngine::new(threads).compile_replicated(&module, None, grid, replication).unwrap();
        let (got, profile) = executable.run_profiled(vec![shards(0), shards(1)]).unwrap();
        for (r, shards) in got.iter().enumerate() {
            for (d, shard) in shards.iter().enumerate() {
                near(shard.as_slice(), &want[d][r], &format!("result {r} on device {d}"));
            }
        }
        let routines = profile.events.iter().filter(|e| e.name.contains("routine")).count();
        assert_eq!(routines, usize::from(meshwork_cpu::kernel::jit_is_available()));
    }
}

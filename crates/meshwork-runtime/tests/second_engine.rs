//! An engine from outside: it counts calls and delegates, and needs nothing but the public seam.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use meshwork_ir::text;
use meshwork_partition::{CompileOptions, Compiled, compile};
use meshwork_runtime::{Array, Buffer, Engine, Evaluator, Executable, Fallback, LoadError, Profile, RunError, Shards};

#[derive(Default)]
struct Counts {
    loads: AtomicUsize,
    runs: AtomicUsize,
}

struct Counting<E> {
    inner: E,
    counts: Arc<Counts>,
}

struct Counted {
    inner: Arc<dyn Executable>,
    counts: Arc<Counts>,
}

impl<E: Engine> Engine for Counting<E> {
    fn name(&self) -> &str {
        "counting"
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        self.counts.loads.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Counted { inner: self.inner.load(program)?, counts: self.counts.clone() }))
    }
}

impl Executable for Counted {
    fn run(&self, args: Vec<Array>) -> Result<Vec<Array>, RunError> {
        self.counts.runs.fetch_add(1, Ordering::Relaxed);
        self.inner.run(args)
    }

    fn run_shards(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        self.counts.runs.fetch_add(1, Ordering::Relaxed);
        self.inner.run_shards(args)
    }

    fn run_profiled(&self, args: Vec<Array>) -> Result<(Vec<Array>, Profile), RunError> {
        self.counts.runs.fetch_add(1, Ordering::Relaxed);
        self.inner.run_profiled(args)
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        self.inner.fallbacks()
    }

    fn peak_bytes(&self) -> usize {
        self.inner.peak_bytes()
    }
}

/// The rows of `x` over 4 devices, and their sum.
const SUM: &str = "sdy.mesh @mesh = <[\"x\"=4]>
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}) -> tensor<f32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}";

#[test]
fn an_engine_from_outside_counts_and_delegates() {
    let module = text::parse(SUM).unwrap();
    let program = compile(&module, &CompileOptions::default()).unwrap();
    let counts = Arc::new(Counts::default());
    let engine: Box<dyn Engine> = Box::new(Counting { inner: Evaluator, counts: counts.clone() });
    assert_eq!(engine.name(), "counting");
    let loaded = engine.load(&program).unwrap();
    let x = Array::from_fn([8], |i| i[0] as f32);
    for _ in 0..3 {
        assert_eq!(loaded.run(vec![x.clone()]).unwrap()[0].item::<f32>().unwrap(), 28.0);
    }
    // On shards of the caller: rows 2d and 2d + 1 on device d.
    let shard = |d: i64| [2 * d, 2 * d + 1].iter().flat_map(|&i| (i as f32).to_le_bytes()).collect::<Vec<_>>();
    let shards = (0..4).map(|d| Arc::new(Buffer::from_bytes(&shard(d)).unwrap())).collect();
    let sums = loaded.run_shards(vec![shards]).unwrap();
    assert!(sums[0].len() == 4 && sums[0].iter().all(|s| s.as_slice() == 28f32.to_le_bytes()));
    let (results, profile) = loaded.run_profiled(vec![x]).unwrap();
    assert_eq!(results[0].item::<f32>().unwrap(), 28.0);
    assert!(profile.fallbacks.is_empty() && loaded.fallbacks().is_empty());
    assert_eq!((counts.loads.load(Ordering::Relaxed), counts.runs.load(Ordering::Relaxed)), (1, 5));
}

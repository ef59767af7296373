//! Engines plug in through the public seam alone, and one policy decides what runs on the evaluator.
#![allow(clippy::single_range_in_vec_init)] // slices of arrays of one dimension

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use meshwork::prelude::*;
use meshwork::{Compiled, Cpu, Engine, Executable, Fallback, LoadError, Profile, Reference, RunError};
use meshwork_runtime::Shards;

/// Counts loads and runs, and leaves the work to another engine.
#[derive(Clone)]
struct Counting {
    engine: Arc<dyn Engine>,
    loads: Arc<AtomicUsize>,
    runs: Arc<AtomicUsize>,
}

impl Counting {
    fn new(engine: impl Engine + 'static) -> Counting {
        Counting { engine: Arc::new(engine), loads: Arc::default(), runs: Arc::default() }
    }

    fn counts(&self) -> (usize, usize) {
        (self.loads.load(Ordering::Relaxed), self.runs.load(Ordering::Relaxed))
    }
}

impl Engine for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Counted { executable: self.engine.load(program)?, runs: self.runs.clone() }))
    }
}

struct Counted {
    executable: Arc<dyn Executable>,
    runs: Arc<AtomicUsize>,
}

impl Executable for Counted {
    fn run(&self, args: Vec<Array>) -> Result<Vec<Array>, RunError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.executable.run(args)
    }

    fn run_shards(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.executable.run_shards(args)
    }

    fn run_profiled(&self, args: Vec<Array>) -> Result<(Vec<Array>, Profile), RunError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.executable.run_profiled(args)
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        self.executable.fallbacks()
    }

    fn peak_bytes(&self) -> usize {
        self.executable.peak_bytes()
    }
}

#[test]
fn a_foreign_engine_loads_once_per_program_and_runs_every_call() {
    for counting in [Counting::new(Cpu), Counting::new(Reference)] {
        let mesh = Mesh::linear("x", 2).unwrap();
        let f = jit(|x: Tensor| (&x * &x).sum_all()).engine(counting.clone());
        let x = Array::from([1.0f32, 2.0, 3.0, 4.0]);
        let placed = x.clone().shard(&mesh, P!["x"]).unwrap();
        for _ in 0..3 {
            assert_eq!(f.call(&x).unwrap().item::<f32>().unwrap(), 30.0);
            assert_eq!(f.call(&placed).unwrap().item::<f32>().unwrap(), 30.0);
        }
        assert_eq!(counting.counts(), (2, 6));
    }
}

#[test]
fn results_carry_their_placement_on_every_engine() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let x = Array::from([1.0f32, 2.0, 3.0, 4.0]).shard(&mesh, P!["x"]).unwrap();
    for engine in [Counting::new(Cpu), Counting::new(Reference)] {
        let y = jit(|x: Tensor| x * 2.0).engine(engine).call(&x).unwrap();
        assert_eq!(y.placement().unwrap().sharding, x.placement().unwrap().sharding);
        assert_eq!(y.shards()[1].slice, [2..4]);
    }
}

const SQUARE: &str = "func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.multiply %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}";

#[test]
fn an_imported_function_runs_on_the_engine() {
    let counting = Counting::new(Cpu);
    let f = Imported::from_mlir(SQUARE).unwrap().engine(counting.clone());
    for _ in 0..2 {
        let y = f.call(&[&Array::from([2.0f32, 3.0])]).unwrap();
        assert_eq!(y[0].to_vec::<f32>().unwrap(), [4.0, 9.0]);
    }
    assert_eq!(counting.counts(), (1, 2));
}

/// The sum of the numbers below `n`: an extent is known at run time only.
const DYNAMIC: &str = "func.func public @main(%n: tensor<1xi32>) -> tensor<f32> {
  %d = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%d init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}";

#[test]
fn what_the_cpu_engine_cannot_compile_runs_on_the_evaluator_and_says_so() {
    let module = meshwork_ir::text::parse(DYNAMIC).unwrap();
    let program = meshwork_partition::compile(&module, &Default::default()).unwrap();
    let executable = Cpu.load(&program).unwrap();
    assert!(matches!(&executable.fallbacks()[..], [Fallback::Program { .. }]), "{:?}", executable.fallbacks());
    let args = vec![Array::from([4i32])];
    assert_eq!(executable.run(args.clone()).unwrap()[0].item::<f32>().unwrap(), 6.0);
    let (_, profile) = executable.run_profiled(args).unwrap();
    assert_eq!(profile.fallbacks, executable.fallbacks());
}

/// Matrices of `bf16` and vectors, on either side, transposed or not, in stacks, against the evaluator.
#[test]
fn narrow_matrices_times_vectors() {
    let wave = |shape: Vec<i64>| {
        Array::from_fn(shape, |i| half::bf16::from_f32((i.iter().fold(7, |n, &i| 31 * n + i) as f32).sin()))
    };
    let cases = [("ok,k->o", 0), ("k,ok->o", 1), ("ko,k->o", 0), ("bok,bk->bo", 0), ("btk,ok->bto", 1)];
    for ((formula, matrix), (outer, depth)) in
        cases.into_iter().flat_map(|c| [(1, 1), (67, 37), (3, 64), (130, 2100)].map(|s| (c, s)))
    {
        let (left, right) = formula.split_once("->").unwrap().0.split_once(',').unwrap();
        let extents = |names: &str| {
            let extent = |name: char| match name {
                'o' => outer,
                'k' => depth,
                't' => 1,
                _ => 1 + 2 * i64::from(matrix == 0),
            };
            names.chars().map(extent).collect::<Vec<i64>>()
        };
        let (a, b) = (wave(extents(left)), wave(extents(right)));
        let product = move |a: Tensor, b: Tensor| einsum(formula, &[&a, &b]).to(F32);
        let found = jit(product).engine(Cpu).call((&a, &b)).unwrap();
        let wanted = jit(product).engine(Reference).call((&a, &b)).unwrap();
        // A step of bf16 at the largest sum.
        let most = wanted.to_f64s().unwrap().iter().fold(1.0, |m: f64, x| m.max(x.abs()));
        assert!(found.all_close(&wanted, most / 128.0), "{formula} {outer} {depth}\n{found:?}\n{wanted:?}");
    }
}

//! Running a program on an engine and on the evaluator, on the same numbers.

use std::sync::Arc;

use meshwork_cpu::Engine;
use meshwork_eval::{self as eval, EvalError};
use meshwork_ir::DeviceGrid;
use meshwork_ir::Scalar;
use meshwork_ir::{ElementType, Literal, Module, text};
use meshwork_runtime::{Buffer, Shards};

/// An engine under test.
pub struct Check {
    engine: Box<dyn Engine>,
}

impl Check {
    pub fn new(engine: impl Engine + 'static) -> Check {
        Check { engine: Box::new(engine) }
    }

    /// The program gives on one device what the evaluator gives.
    pub fn single(&self, source: &str) {
        self.devices(source, 1);
    }

    /// The same on `devices` devices.
    pub fn devices(&self, source: &str, devices: usize) {
        if let Err(error) = self.compare(source, devices) {
            panic!("evaluator: {error}\n{source}");
        }
    }

    /// Whether the evaluator runs the program. If so, the engine gives the same; if not, it refuses it too.
    pub fn agrees(&self, source: &str, devices: usize) -> bool {
        let runs = self.compare(source, devices).is_ok();
        assert!(runs || run(self.engine.as_ref(), source, devices).is_err(), "the evaluator refuses it:\n{source}");
        runs
    }

    /// Compares the engine with the evaluator, unless that gives an error.
    fn compare(&self, source: &str, devices: usize) -> Result<(), EvalError> {
        let module = parse(source);
        let args = arguments(&module, devices);
        let grid = DeviceGrid { replicas: 1, partitions: devices };
        let want = match devices {
            1 => vec![eval::run(&module, None, &args[0])?],
            _ => eval::run_devices(&module, None, args, grid)?,
        };
        let got = run(self.engine.as_ref(), source, devices).unwrap_or_else(|e| panic!("engine: {e}\n{source}"));
        let here = local_devices(devices);
        for (d, (got, want)) in got.iter().zip(&want).enumerate().filter(|(d, _)| here.contains(d)) {
            assert_eq!(got.len(), want.len(), "{source}");
            for (i, (g, w)) in got.iter().zip(want).enumerate() {
                compare(g, w, &format!("result {i} on device {d} of\n{source}"));
            }
        }
        Ok(())
    }

    /// The program fails on the engine with a message that has these words.
    pub fn fails(&self, source: &str, devices: usize, words: &[&str]) {
        let error = run(self.engine.as_ref(), source, devices).expect_err("it runs");
        assert!(words.iter().all(|w| error.contains(w)), "{error}\n{source}");
        // The engine is still of use.
        self.single(
            "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
          %y = stablehlo.add %x, %x : tensor<3xf32>
          return %y : tensor<3xf32> }",
        );
    }
}

pub fn parse(source: &str) -> Module {
    text::parse(source).unwrap_or_else(|e| panic!("{}", e.render("test", source)))
}

/// Runs `source` on the engine; results per device.
pub fn run(engine: &dyn Engine, source: &str, devices: usize) -> Result<Vec<Vec<Literal>>, String> {
    let module = parse(source);
    let args = arguments(&module, devices);
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    let loaded = engine.compile(&module, None, grid).map_err(|e| e.to_string())?;
    let shard = |d: usize, i: usize| Arc::new(Buffer::from_bytes(args[d][i].bytes()).expect("memory"));
    let shards: Vec<Shards> = (0..args[0].len()).map(|i| (0..devices).map(|d| shard(d, i)).collect()).collect();
    let results = loaded.run(shards).map_err(|e| e.to_string())?;
    let types = module.func_type(module.entry().expect("an entry")).results;
    let literal = |d: usize, i: usize| {
        let ty = types[i].as_tensor().expect("a tensor");
        let bytes = results[i][d].as_slice().to_vec();
        Literal::from_bytes(ty.dims.iter().copied(), ty.elem, bytes).expect("a result of the declared type")
    };
    let here = local_devices(devices);
    let device = |d: usize| match here.contains(&d) {
        true => (0..results.len()).map(|i| literal(d, i)).collect(),
        false => vec![],
    };
    Ok((0..devices).map(device).collect())
}

/// The devices of this process; a program of one device is run by every process.
fn local_devices(devices: usize) -> std::ops::Range<usize> {
    match devices {
        1 => 0..1,
        _ => meshwork_runtime::Runtime::init().expect("a runtime").local_devices_of(devices),
    }
}

/// Arguments for every device: small numbers of both signs, whole ones for integers.
fn arguments(module: &Module, devices: usize) -> Vec<Vec<Literal>> {
    let types = module.func_type(module.entry().expect("an entry")).inputs;
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let mut one = |elem: ElementType, dims: &[i64]| {
        let mut x = Literal::zeros(dims.iter().copied(), elem);
        for i in 0..x.len() {
            let number = next() * 8.0 - 4.0;
            let value = match elem {
                e if e.is_integer() => Scalar::from_i64(e, number as i64),
                e if e.is_complex() => Scalar::Complex(number, 1.0 - number).cast_to(e),
                ElementType::I1 => Scalar::Bool(number > 0.0),
                // It has no sign: a negative number would be none.
                e @ ElementType::F8E8M0FNU => Scalar::from_f64(e, number.abs()),
                e => Scalar::from_f64(e, number),
            };
            x.set(i, value);
        }
        x
    };
    (0..devices).map(|_| types.iter().map(|t| one(t.as_tensor().expect("a tensor").elem, t.dims())).collect()).collect()
}

fn compare(got: &Literal, want: &Literal, what: &str) {
    assert_eq!(got.ty(), want.ty(), "{what}");
    let tolerance = match want.elem().real_part() {
        ElementType::F64 => 1e-12,
        ElementType::F32 => 2e-5,
        ElementType::F16 => 2e-3,
        e if e.is_float() => 2e-2,
        _ => {
            assert_eq!(got.bytes(), want.bytes(), "{what}");
            return;
        }
    };
    for i in 0..want.len() {
        let ((a, b), (c, d)) = (got.get(i).as_complex(), want.get(i).as_complex());
        let near =
            |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= tolerance * (1.0 + y.abs());
        assert!(near(a, c) && near(b, d), "element {i}: {a} {b} instead of {c} {d}; {what}");
    }
}

/// `tensor<2x3xf32>`.
pub fn tensor(dims: &[i64], elem: &str) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

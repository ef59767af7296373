//! Running a program in every way and comparing: the evaluator on one device, on many, and the CPU engine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use meshwork_cpu::CpuEngine;
use meshwork_eval as eval;
use meshwork_ir::{DeviceGrid, ElementType, Literal, Module, Type, Walk, same, text, verify};
use meshwork_mesh::Sharding;
use meshwork_partition::{Algorithm, Algorithms, Border, CompileOptions, Compiled, Use, compile};
use meshwork_runtime::array::pieces::{cut, join};
use meshwork_runtime::{Array, Engine};

use crate::generate::unit;

/// What came of running a program.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Every way gives the same.
    Same,
    /// The program does not run on one device, so there is nothing to compare with.
    Invalid(String),
    /// It runs on one device, and is refused on many.
    Refused(String),
    /// Something is wrong: results differ, the split program does not verify, or something panics.
    Wrong(String),
}

impl Verdict {
    /// What kind of finding it is: its first line without numbers.
    pub fn kind(&self) -> String {
        let what = match self {
            Verdict::Same => "same",
            Verdict::Invalid(what) | Verdict::Refused(what) | Verdict::Wrong(what) => what,
        };
        what.lines().next().unwrap_or_default().chars().filter(|c| !c.is_ascii_digit()).take(90).collect()
    }
}

/// What a split program runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engines {
    /// The evaluator: only splitting is checked.
    Evaluator,
    /// The evaluator and the CPU engine.
    All,
}

/// A placed program with its arguments.
#[derive(Clone, Debug)]
pub struct Case {
    /// The program.
    pub module: Module,
    /// Arguments of its entry function.
    pub args: Vec<Literal>,
    /// How far right results may be apart.
    pub precision: Precision,
}

/// How far right results may be apart.
#[derive(Clone, Debug)]
pub enum Precision {
    /// Nothing is rounded.
    Exact,
    /// Twice this much, for each result.
    Errors(Vec<f64>),
    /// Nobody knows: by what sums in another order usually differ, this much of the largest element.
    Relative(f64),
}

impl Precision {
    /// That of a program of which only the types of its values are known.
    pub fn of(module: &Module) -> Precision {
        let values = module.all_ops(Walk::PreOrder).into_iter().flat_map(|op| module.op(op).results().to_vec());
        let inexact = values.filter_map(|v| module.ty(v).elem()).filter(|elem| elem.is_float() || elem.is_complex());
        Precision::Relative(inexact.map(|elem| 16.0 * unit(elem)).fold(1e-3, f64::max))
    }

    /// Whether `b` is right where `a`, the result `index`, is.
    fn allows(&self, index: usize, a: &Literal, b: &Literal) -> bool {
        if a.dims() != b.dims() || a.elem() != b.elem() {
            return false;
        }
        let is_inexact = a.elem().is_float() || a.elem().is_complex();
        let apart = match self {
            _ if !is_inexact => 0.0,
            Precision::Exact => 0.0,
            Precision::Errors(errors) => 2.0 * errors[index],
            Precision::Relative(share) => {
                let finite =
                    (0..a.len()).flat_map(|i| <[f64; 2]>::from(a.get(i).as_complex())).filter(|v| v.is_finite());
                share * finite.fold(1.0, |m, v| v.abs().max(m))
            }
        };
        if apart == 0.0 && !is_inexact {
            return a == b;
        }
        let near = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan()) || (x - y).abs() <= apart;
        (0..a.len()).all(|i| {
            let ((x, y), (z, w)) = (a.get(i).as_complex(), b.get(i).as_complex());
            near(x, z) && near(y, w)
        })
    }
}

/// Runs a program in every way. What panics is wrong.
pub fn check(case: &Case, engines: Engines) -> Verdict {
    let ran = catch_unwind(AssertUnwindSafe(|| run(case, engines)));
    ran.unwrap_or_else(|_| {
        let where_ = LAST_PANIC.lock().map(|text| text.clone()).unwrap_or_default();
        Verdict::Wrong(format!("panics{where_}"))
    })
}

/// Text and place of the last panic, if [`record_panics`] was called.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Notes panics for the verdict instead of printing them.
pub fn record_panics() {
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = format!(": {info}").replace('\n', " ");
        }
    }));
}

fn run(case: &Case, engines: Engines) -> Verdict {
    let (placed, inputs) = (&case.module, &case.args);
    if let Some(d) = verify::verify(placed).first() {
        return Verdict::Invalid(format!("the program does not verify: {d}"));
    }
    let expected = match eval::run(placed, None, inputs) {
        Ok(results) => results,
        Err(e) => return Verdict::Invalid(format!("on one device: {e}")),
    };
    let mut seen = vec![];
    // Algorithms for split dimensions cost more than they spare in programs as small as these: once as is predicted to be
    // fastest, and once more with each wherever it can be. Halos cannot be both wide and overlapped.
    let always = Algorithms::all(&Algorithm::ALL, Use::Always);
    let overlapped = always.clone().with(Algorithm::WideHalos, Use::Never);
    for algorithms in [Algorithms::default(), always, overlapped] {
        let compiled = match compile(placed, &CompileOptions { algorithms, ..CompileOptions::default() }) {
            Ok(compiled) => compiled,
            Err(e) => return Verdict::Refused(e.to_string()),
        };
        let printed = text::print(&compiled.module);
        if seen.contains(&printed) {
            continue;
        }
        match run_split(case, &compiled, &printed, &expected, engines) {
            Verdict::Same => seen.push(printed),
            other => return other,
        }
    }
    Verdict::Same
}

/// Runs `compiled`, the split form of a case, whose text is `printed`.
fn run_split(case: &Case, compiled: &Compiled, printed: &str, expected: &[Literal], engines: Engines) -> Verdict {
    if let Some(d) = verify::verify(&compiled.module).first() {
        return Verdict::Wrong(format!("the split program does not verify: {d}"));
    }
    let again = text::parse(printed).map_err(|d| d.to_string()).and_then(|again| same(&compiled.module, &again));
    if let Err(what) = again {
        return Verdict::Wrong(format!("the split program reads back differently: {what}"));
    }
    let mut outcomes = vec![("evaluator on many devices", on_devices(compiled, case))];
    if engines == Engines::All {
        outcomes.push(("CPU engine", on_engine(compiled, case.args.clone())));
    }
    for (name, got) in outcomes {
        match got {
            Err(what) => return Verdict::Wrong(format!("{name}: {what}")),
            Ok(got) => {
                for (i, (a, b)) in expected.iter().zip(&got).enumerate() {
                    if !case.precision.allows(i, a, b) {
                        return Verdict::Wrong(format!(
                            "{name}: result {i} differs\nexpected {}\ngot      {}",
                            show(a),
                            show(b)
                        ));
                    }
                }
            }
        }
    }
    Verdict::Same
}

fn on_engine(program: &Compiled, inputs: Vec<Literal>) -> Result<Vec<Literal>, String> {
    let loaded = CpuEngine::shared().load(program).map_err(|e| e.to_string())?;
    let results = loaded.run(inputs.into_iter().map(Array::from_literal).collect()).map_err(|e| e.to_string())?;
    results.iter().map(|r| r.literal().cloned().map_err(|e| e.to_string())).collect()
}

/// Runs the per-device program on the evaluator, with garbage at all positions of the input shards that hold no
/// element. Devices that hold the same part of a result must agree about it.
fn on_devices(program: &Compiled, case: &Case) -> Result<Vec<Literal>, String> {
    let (devices, mesh) = (program.devices(), &program.plan.mesh);
    let is_element = |dims: &[i64], border: &Border| {
        let ones = vec![1; dims.iter().product::<i64>() as usize];
        let ones = Literal::from_bytes(dims.iter().copied(), ElementType::I8, ones).ok_or("sizes differ")?;
        // Of values in parts every device holds all of its slice, as a part of it.
        let whole = Sharding { unreduced: vec![], ..(*border.sharding).clone() };
        cut(&ones, &whole, mesh).map_err(|e| e.to_string())
    };
    let mut per_device = vec![vec![]; devices];
    for (input, border) in case.args.iter().zip(program.inputs()) {
        let real = is_element(input.dims(), border)?;
        let shards = cut(input, &border.sharding, mesh).map_err(|e| e.to_string())?;
        for (device, (mut shard, real)) in shards.into_iter().zip(real).enumerate() {
            let garbage = garbage(shard.elem());
            for i in (0..shard.len()).filter(|&i| real.bytes()[i] == 0) {
                shard.set_element(i, &garbage);
            }
            per_device[device].push(shard);
        }
    }
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    let outputs = eval::run_devices(&program.module, None, per_device, grid).map_err(|e| e.to_string())?;
    let mut joined = vec![];
    for (i, border) in program.outputs().iter().enumerate() {
        let parts: Vec<Literal> = outputs.iter().map(|o| o[i].clone()).collect();
        let whole = join(&parts, border.ty.dims(), &border.sharding, mesh).map_err(|e| e.to_string())?;
        if !border.sharding.unreduced.is_empty() {
            // Any parts will do that make up the whole.
            joined.push(whole);
            continue;
        }
        let real = is_element(whole.dims(), border)?;
        let again = cut(&whole, &border.sharding, mesh).map_err(|e| e.to_string())?;
        for (device, (part, real)) in parts.iter().zip(real).enumerate() {
            let size = part.elem().storage_bytes();
            let differs = |&j: &usize| {
                let at = j * size..(j + 1) * size;
                real.bytes()[j] == 1 && part.bytes()[at.clone()] != again[device].bytes()[at]
            };
            if let Some(j) = (0..part.len()).find(differs).filter(|_| !case.precision.allows(i, part, &again[device])) {
                return Err(format!(
                    "result {i}: devices that hold the same part disagree: device {device}, element {j}"
                ));
            }
        }
        joined.push(whole);
    }
    Ok(joined)
}

/// Arguments for the entry function: small whole numbers.
pub fn inputs(module: &Module) -> Vec<Literal> {
    let types = module.entry().map(|func| module.func_type(func).inputs).unwrap_or_default();
    types.iter().enumerate().filter_map(|(k, ty)| input(ty, k as i64)).collect()
}

fn input(ty: &Type, seed: i64) -> Option<Literal> {
    let t = ty.as_tensor()?;
    let n = t.num_elements()?;
    let value = |i: i64| (i * 7 + seed * 3) % 23 - 5;
    let dims = t.dims.iter().copied();
    match t.elem {
        ElementType::I1 => Literal::from_bytes(dims, t.elem, (0..n).map(|i| u8::from(value(i) % 3 == 0)).collect()),
        elem if elem.is_integer() => {
            let signed = elem.class() == meshwork_ir::ElementClass::Signed;
            let values: Vec<i64> = (0..n).map(|i| if signed { value(i) } else { value(i).abs() }).collect();
            Literal::from_i64s(dims, elem, &values)
        }
        elem => Literal::from_f64s(dims, elem, &(0..n).map(|i| value(i) as f64).collect::<Vec<_>>()),
    }
}

/// Not a number for floats; an odd number with many bits for integers; true for booleans.
fn garbage(elem: ElementType) -> Vec<u8> {
    let one = match elem {
        ElementType::I1 => return vec![1],
        e if e.is_integer() => Literal::from_i64s([1], e, &[0x55]).or_else(|| Literal::from_i64s([1], e, &[1])),
        e => Literal::from_f64s([1], e, &[f64::NAN]),
    };
    one.map_or_else(|| vec![0x55; elem.storage_bytes()], |l| l.bytes().to_vec())
}

fn show(l: &Literal) -> String {
    if l.elem().is_integer() {
        format!("{:?}", (0..l.len()).map(|i| l.get_i64(i)).collect::<Vec<_>>())
    } else {
        format!("{:?}", (0..l.len()).map(|i| l.get(i).as_complex()).collect::<Vec<_>>())
    }
}

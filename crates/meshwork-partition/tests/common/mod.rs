//! Runs a program on one device and partitioned, and compares.
#![allow(dead_code)] // each test binary uses a part

mod shards;
pub mod stencils;

use meshwork_eval as eval;
use meshwork_ir::{ElementType, Literal, Module, Type, text, verify};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::{Border, CompileOptions, Compiled, DEFAULT_COMBINE_BYTES, compile};

/// Inputs for the entry function of `module`: small distinct numbers, exact in every type.
pub fn inputs(module: &Module) -> Vec<Literal> {
    let func = module.entry().expect("a function");
    let types = module.func_type(func).inputs;
    types.iter().enumerate().map(|(k, ty)| input(ty, k as i64)).collect()
}

fn input(ty: &Type, seed: i64) -> Literal {
    let t = ty.as_tensor().expect("a tensor");
    let n = t.num_elements().expect("static");
    let value = |i: i64| ((i * 7 + seed * 3) % 23 - 5) as f64;
    match t.elem {
        ElementType::I1 => {
            Literal::from_bytes(t.dims.iter().copied(), t.elem, (0..n).map(|i| (i % 3 == 0) as u8).collect())
                .expect("one byte an element")
        }
        elem if elem.is_integer() => {
            let values: Vec<i64> = (0..n).map(|i| (value(i) as i64).abs()).collect();
            Literal::from_i64s(t.dims.iter().copied(), elem, &values).expect("fits")
        }
        elem => {
            let values: Vec<f64> = (0..n).map(|i| value(i) / 4.0).collect();
            Literal::from_f64s(t.dims.iter().copied(), elem, &values).expect("fits")
        }
    }
}

/// Places and partitions `source`.
pub fn split(source: &str) -> (Module, Compiled) {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
    let program = compile(&module, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{source}"));
    (module, program)
}

/// Asserts that `source` gives the same on one device and partitioned. Returns the partitioned program.
pub fn check(source: &str) -> Compiled {
    try_check(source).unwrap_or_else(|what| panic!("{what}"))
}

/// Whether `source` gives the same on one device and partitioned; if not, what differs. Positions of input shards that
/// hold no element are poisoned, so that a result that depends on them differs.
pub fn try_check(source: &str) -> Result<Compiled, String> {
    try_check_combining(source, DEFAULT_COMBINE_BYTES)
}

/// As [`try_check`], with collectives combined up to `combine_bytes`.
pub fn try_check_combining(source: &str, combine_bytes: i64) -> Result<Compiled, String> {
    let options = CompileOptions { combine_bytes, ..CompileOptions::default() };
    try_check_on(source, &options, inputs, close)
}

/// As [`try_check`], compiled with `options`, on `inputs` of the program, with results that are `alike`.
pub fn try_check_on(
    source: &str,
    options: &CompileOptions,
    inputs: impl FnOnce(&Module) -> Vec<Literal>,
    alike: fn(&Literal, &Literal) -> bool,
) -> Result<Compiled, String> {
    let module = text::parse(source).map_err(|d| d.render("test", source))?;
    let program = compile(&module, options).map_err(|e| format!("{e}\n{source}"))?;
    let context = || format!("{source}\nis split into\n{}", text::print(&program.module));
    if let Some(d) = verify::verify(&program.module).first() {
        return Err(format!("the per-device program is not valid: {d}\n{}", context()));
    }
    let inputs = inputs(&module);
    let expected = eval::run(&module, None, &inputs).map_err(|e| format!("on one device: {e}\n{source}"))?;
    let got = run(&program, &inputs).map_err(|e| format!("{e}\n{}", context()))?;
    for (i, (a, b)) in expected.iter().zip(&got).enumerate() {
        if !alike(a, b) {
            return Err(format!("result {i}: expected {}\ngot {}\n{}", show(a), show(b), context()));
        }
    }
    Ok(program)
}

/// Runs `program` with garbage at all positions of the input shards that hold no element.
pub fn run(program: &Compiled, inputs: &[Literal]) -> Result<Vec<Literal>, String> {
    let (devices, mesh) = (program.devices(), &program.plan.mesh);
    let mut per_device = vec![vec![]; devices];
    for (input, Border { sharding, .. }) in inputs.iter().zip(program.inputs()) {
        let ones = Literal::from_bytes(input.dims().iter().copied(), ElementType::I8, vec![1; input.len()]);
        let real = shards::cut(&ones.expect("one byte an element"), sharding, mesh).map_err(err)?;
        let mut cut = shards::cut(input, sharding, mesh).map_err(err)?;
        shards::into_parts(&mut cut, sharding, mesh).map_err(err)?;
        for (device, (mut shard, real)) in cut.into_iter().zip(real).enumerate() {
            let poison = poison(shard.elem());
            for i in (0..shard.len()).filter(|&i| real.bytes()[i] == 0) {
                shard.set_element(i, &poison);
            }
            per_device[device].push(shard);
        }
    }
    let grid = meshwork_ir::DeviceGrid { replicas: 1, partitions: devices };
    let outputs = eval::run_devices(&program.module, None, per_device, grid).map_err(|e| e.to_string())?;
    let mut joined = vec![];
    for (i, Border { sharding, ty, .. }) in program.outputs().iter().enumerate() {
        let parts: Vec<Literal> = outputs.iter().map(|o| o[i].clone()).collect();
        joined.push(shards::join(&parts, ty.dims(), sharding, mesh).map_err(err)?);
    }
    Ok(joined)
}

/// The shards of `x`, one per device, whole along the axes over which it is to be in parts.
pub fn cut_whole(x: &Literal, sharding: &Sharding, mesh: &Mesh) -> Vec<Literal> {
    shards::cut(x, sharding, mesh).expect("it fits")
}

fn err(e: impl ToString) -> String {
    e.to_string()
}

/// Not a number for floats; an odd number with many bits for integers; true for booleans.
fn poison(elem: ElementType) -> Vec<u8> {
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
        format!("{:?}", l.to_f64s())
    }
}

/// Equal by bits for anything but floats; floats within rounding of another order of summation.
pub fn close(a: &Literal, b: &Literal) -> bool {
    if !a.elem().is_float() && !a.elem().is_complex() {
        return a == b;
    }
    let (x, y) = (a.to_f64s(), b.to_f64s());
    let scale = x.iter().filter(|v| v.is_finite()).fold(1.0f64, |m, v| m.max(v.abs()));
    x.len() == y.len()
        && x.iter().zip(&y).all(|(p, q)| p == q || (p.is_nan() && q.is_nan()) || (p - q).abs() <= 1e-5 * scale)
}

/// Kind and operand bytes of each collective, with how often it runs.
pub fn collectives(program: &Compiled) -> Vec<(&'static str, i64, i64)> {
    program
        .plan
        .collectives
        .iter()
        .map(|c| (c.collective.kind.name(), c.collective.operand_bytes, c.collective.times))
        .collect()
}

//! Running a program on an engine and on the evaluator, on the same numbers.

use std::sync::Arc;

use meshwork_eval::{self as eval, EvalError};
use meshwork_ir::op::{ControlOp, MovementOp};
use meshwork_ir::{
    Attr, DeviceGrid, ElementType, FuncSig, FunctionType, Literal, Module, OpKind, OpSpec, Scalar, Type, text,
};
use meshwork_mesh::{Mesh, MeshRef, P};
use meshwork_partition::{Border, CompileOptions, Compiled, Plan, compile};
use meshwork_runtime::{Array, Engine, Fallback};

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
        let got = run_listed(self.engine.as_ref(), source, devices);
        let (got, fallbacks) = got.unwrap_or_else(|e| panic!("engine: {e}\n{source}"));
        // Nothing in a compiled program runs on the evaluator.
        assert!(fallbacks.is_empty(), "{fallbacks:?}\n{source}");
        for (d, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got.len(), want.len(), "{source}");
            for (i, (g, w)) in got.iter().zip(want).enumerate() {
                compare(g, w, &format!("result {i} on device {d} of\n{source}"));
            }
        }
        Ok(())
    }

    /// The program fails with a message that has these words on every engine, and `native` on all but the evaluator, which
    /// does not say on which device it stopped.
    pub fn fails(&self, source: &str, devices: usize, words: &[&str], native: &[&str]) {
        let native = if self.engine.name() == "evaluator" { &[] } else { native };
        let words: Vec<&str> = words.iter().chain(native).copied().collect();
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
    run_listed(engine, source, devices).map(|(results, _)| results)
}

/// [`run`], and what ran on the evaluator.
#[allow(clippy::type_complexity)]
fn run_listed(engine: &dyn Engine, source: &str, devices: usize) -> Result<(Vec<Vec<Literal>>, Vec<Fallback>), String> {
    let module = parse(source);
    let args = arguments(&module, devices);
    let program = program(&module, devices)?;
    let arrays = (0..args[0].len()).map(|i| stack(args.iter().map(|a| &a[i]), devices)).collect();
    let loaded = engine.load(&program).map_err(|e| e.to_string())?;
    // Otherwise the evaluator would be compared with itself.
    if let Some(whole) = loaded.fallbacks().iter().find(|f| matches!(f, Fallback::Program { .. })) {
        return Err(whole.to_string());
    }
    let results = loaded.run(arrays).map_err(|e| e.to_string())?;
    let wholes =
        results.iter().map(|r| r.literal().cloned()).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    let parts = (0..devices).map(|d| wholes.iter().map(|whole| part(whole, d, devices)).collect()).collect();
    Ok((parts, loaded.fallbacks()))
}

/// The per-device program `module` on `devices` devices. Of several, each takes and gives its arrays as one row of
/// global arrays that are split by rows.
fn program(module: &Module, devices: usize) -> Result<Compiled, String> {
    if devices == 1 {
        return compile(module, &CompileOptions::default()).map_err(|e| e.to_string());
    }
    let module = by_rows(module);
    let mesh = Mesh::linear("x", devices as i64).expect("a mesh");
    let ty = module.func_type(module.entry().expect("an entry"));
    let border = |ty: &Type| {
        let local = ty.as_tensor().expect("a tensor");
        let dims = [&[devices as i64], &local.dims[1..]].concat();
        let spec = P!["x"].sharding(MeshRef::from(mesh.clone()), &mesh, dims.len()).expect("a sharding");
        Border { name: String::new(), ty: Type::tensor(dims, local.elem), sharding: Arc::new(spec) }
    };
    let plan = Plan {
        mesh: mesh.clone(),
        arguments: ty.inputs.iter().map(border).collect(),
        results: ty.results.iter().map(border).collect(),
        collectives: vec![],
        peak: Default::default(),
        flops: 0.0,
    };
    Ok(Compiled {
        placed: module.clone(),
        module: Arc::new(module),
        plan,
        mesh: Some(Arc::new(mesh)),
        donation: vec![],
        provenance: None,
        warnings: vec![],
    })
}

/// `module` with a row of each array in front of its entry, and of each result behind.
fn by_rows(module: &Module) -> Module {
    let mut module = module.clone();
    let entry = module.entry().expect("an entry");
    let ty = module.func_type(entry);
    let row = |ty: &Type| Type::tensor([&[1], ty.dims()].concat(), ty.as_tensor().expect("a tensor").elem);
    let (inputs, results): (Vec<Type>, Vec<Type>) =
        (ty.inputs.iter().map(row).collect(), ty.results.iter().map(row).collect());
    module.op_mut(entry).attrs.set("sym_name", Attr::str("program"));
    let sig = FuncSig {
        name: "main".into(),
        ty: FunctionType { inputs, results: results.clone() },
        visibility: Some("public".into()),
    };
    let main = module.add_func(sig);
    let block = module.body_of(main, 0).expect("a body");
    let rows = module.block(block).args().to_vec();
    let reshape = OpKind::Movement(MovementOp::Reshape);
    let mut args = vec![];
    for (row, ty) in rows.into_iter().zip(&ty.inputs) {
        let op = module.push(block, OpSpec::new(reshape).operands([row]).results([ty.clone()]));
        args.push(module.result(op));
    }
    let call = OpSpec::new(OpKind::Control(ControlOp::Call)).operands(args).results(ty.results.clone());
    let call = module.push(block, call.attr("callee", Attr::Symbol("program".into())));
    let mut rows = vec![];
    for (value, ty) in module.op(call).results().to_vec().into_iter().zip(results) {
        let op = module.push(block, OpSpec::new(reshape).operands([value]).results([ty]));
        rows.push(module.result(op));
    }
    module.push(block, OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands(rows));
    module
}

/// The arrays of all devices as rows of one; that of one device as it is.
fn stack<'a>(parts: impl Iterator<Item = &'a Literal>, devices: usize) -> Array {
    let parts: Vec<&Literal> = parts.collect();
    if devices == 1 {
        return Array::from_literal(parts[0].clone());
    }
    let bytes = parts.iter().flat_map(|p| p.bytes().to_vec()).collect();
    let dims = [&[devices as i64], parts[0].dims()].concat();
    Array::from_literal(Literal::from_bytes(dims, parts[0].elem(), bytes).expect("rows"))
}

/// The row of `device`.
fn part(whole: &Literal, device: usize, devices: usize) -> Literal {
    if devices == 1 {
        return whole.clone();
    }
    let size = whole.bytes().len() / devices;
    let bytes = whole.bytes()[device * size..(device + 1) * size].to_vec();
    Literal::from_bytes(whole.dims()[1..].iter().copied(), whole.elem(), bytes).expect("a row")
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

//! A program as JAX hands it over, compiled: bytecode, placed and split, and loaded by the engine.

use std::sync::{Arc, OnceLock};

use meshwork_eval::CALLBACK_TARGET;
use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, ElementType, Module, OpId, Type, Walk, text};
use meshwork_partition::{Border, CompileOptions, Compiled, Plan, compile};
use meshwork_runtime::{Engine, Executable};

use crate::buffer::Shape;
use crate::client::{MEMORY_KINDS, VERSION};
use crate::failure::{Failure, Outcome};
use crate::op_sharding::op_sharding;
use crate::options::Options;

/// Work up to this many operations, on up to this many bytes, is done by the calling thread.
const SHORT: f64 = 1e6;

/// A compiled program.
pub(crate) struct Program {
    pub name: String,
    /// Equal programs with equal options have equal ones, also in another process.
    pub fingerprint: String,
    /// What it was made from, to make it again.
    pub source: Vec<u8>,
    pub options_bytes: Vec<u8>,
    pub options: Options,
    pub plan: Plan,
    module: Arc<Module>,
    text: OnceLock<String>,
    pub executable: Arc<dyn Executable>,
    /// How many devices the split program has: 1 for one without a mesh, whatever the number of partitions.
    pub split: usize,
    pub inputs: Vec<Arc<Shape>>,
    pub outputs: Vec<Arc<Shape>>,
    pub donated: Vec<bool>,
    /// Which arguments and results are tokens: buffers without elements for the caller, nothing for the engine.
    pub input_tokens: Vec<bool>,
    pub output_tokens: Vec<bool>,
    /// Kinds of memory, as numbers.
    pub input_kinds: Vec<usize>,
    pub output_kinds: Vec<usize>,
    pub input_shardings: Vec<Vec<u8>>,
    pub output_shardings: Vec<Vec<u8>>,
    /// Whether it runs no longer than it takes to hand it to another thread.
    pub is_short: bool,
    /// Whether it calls functions of this process.
    pub calls_back: bool,
}

impl Program {
    pub fn compile(source: &[u8], options: &[u8], engine: &dyn Engine) -> Outcome<Program> {
        let module = read(source)?;
        let parsed = Options::read(options)?;
        let compiled = compile(&module, &CompileOptions::default())?;
        let entry = module.entry().ok_or_else(|| Failure::invalid("the program has no entry function"))?;
        let ty = module.func_type(entry);
        let input_kinds = kinds(ty.inputs.len(), |i| module.arg_attr(entry, i, MEMORY_KIND))?;
        let output_kinds = kinds(ty.results.len(), |i| module.res_attr(entry, i, MEMORY_KIND))?;
        let loaded = Program::load(compiled, source, options, parsed, engine)?;
        Ok(Program { input_kinds, output_kinds, ..loaded })
    }

    fn load(
        compiled: Compiled,
        source: &[u8],
        bytes: &[u8],
        options: Options,
        engine: &dyn Engine,
    ) -> Outcome<Program> {
        let (split, partitions) = (compiled.devices(), options.devices.len());
        if split > 1 && split != partitions {
            return Err(Failure::invalid(format!("a mesh of {split} devices for {partitions} partitions")));
        }
        let executable = engine.load(&compiled)?;
        let Compiled { module, plan, donation, .. } = compiled;
        let entry = module.entry().ok_or_else(|| Failure::invalid("the program has no entry function"))?;
        let ty = module.func_type(entry);
        let inputs = ty.inputs.iter().map(shape).collect::<Outcome<Vec<_>>>()?;
        let outputs = ty.results.iter().map(shape).collect::<Outcome<Vec<_>>>()?;
        let mut donated = vec![false; inputs.len()];
        donation.iter().for_each(|d| donated[d.argument] = true);
        let is_token = |ty: &Type| *ty == Type::Token;
        let input_tokens: Vec<bool> = ty.inputs.iter().map(is_token).collect();
        let output_tokens: Vec<bool> = ty.results.iter().map(is_token).collect();
        // Plans leave tokens out.
        let shardings = |borders: &[Border], tokens: &[bool]| {
            let mut borders = borders.iter().filter(|b| b.ty != Type::Token);
            let mut of = |&is_token: &bool| if is_token { None } else { borders.next() };
            let bytes = |b: Option<&Border>| b.map_or(vec![], |b| op_sharding(&b.sharding, &plan.mesh));
            tokens.iter().map(|token| bytes(of(token))).collect::<Vec<_>>()
        };
        let bytes_moved: usize = inputs.iter().chain(&outputs).map(|s| s.bytes()).sum::<usize>() * split;
        let calls_back = module.all_ops(Walk::PreOrder).into_iter().any(|op| is_callback(&module, op));
        let is_short = !calls_back
            && plan.flops * (split as f64) < SHORT
            && (bytes_moved as f64) < SHORT
            && !plan.has_unknown_trip_counts();
        Ok(Program {
            name: module.name.as_deref().unwrap_or("main").to_string(),
            fingerprint: fingerprint(&[VERSION.as_bytes(), bytes, source]),
            source: source.to_vec(),
            options_bytes: bytes.to_vec(),
            input_kinds: vec![],
            output_kinds: vec![],
            input_shardings: shardings(&plan.arguments, &input_tokens),
            output_shardings: shardings(&plan.results, &output_tokens),
            input_tokens,
            output_tokens,
            options,
            text: OnceLock::new(),
            executable,
            split,
            inputs,
            outputs,
            donated,
            is_short,
            calls_back,
            module,
            plan,
        })
    }

    /// What one device runs, as text.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| text::print(&self.module))
    }
}

const MEMORY_KIND: &str = "mhlo.memory_kind";

fn is_callback(module: &Module, op: OpId) -> bool {
    let op = module.op(op);
    op.kind() == ControlOp::CustomCall && op.attr("call_target_name").and_then(Attr::as_str) == Some(CALLBACK_TARGET)
}

/// The module that JAX's bytes or text say.
pub(crate) fn read(source: &[u8]) -> Outcome<Module> {
    meshwork_ir::read(source).map_err(|e| Failure::invalid(e.to_string()))
}

fn shape(ty: &Type) -> Outcome<Arc<Shape>> {
    let unknown = || Failure::unimplemented(format!("{ty} as argument or result of a program"));
    let (elem, dims) = match ty {
        Type::Token => (ElementType::I1, vec![0]),
        _ => ty.as_tensor().map(|t| (t.elem, t.dims.to_vec())).ok_or_else(unknown)?,
    };
    Ok(Arc::new(Shape { elem, dims }))
}

/// The kinds of memory that arguments or results are in, the default if nothing is said.
fn kinds<'a>(count: usize, attr: impl Fn(usize) -> Option<&'a Attr>) -> Outcome<Vec<usize>> {
    let kind = |i: usize| match attr(i).and_then(Attr::as_str) {
        None => Ok(0),
        Some(kind) => {
            let known = MEMORY_KINDS.iter().position(|k| *k == kind);
            known.ok_or_else(|| {
                Failure::invalid(format!("there is no memory {kind:?}, but {}", MEMORY_KINDS.join(", ")))
            })
        }
    };
    (0..count).map(kind).collect()
}

/// A hash (FNV-1a, 128 bits) of all parts.
fn fingerprint(parts: &[&[u8]]) -> String {
    const PRIME: u128 = 0x0000000001000000000000000000013B;
    let mut hash = 0x6c62272e07bb014262b821756295c58d_u128;
    for byte in parts.iter().flat_map(|part| part.len().to_le_bytes().into_iter().chain(part.iter().copied())) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    }
    format!("{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_depend_on_where_parts_end() {
        assert_eq!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"ab", b"c"]));
        assert_ne!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"a", b"bc"]));
    }
}

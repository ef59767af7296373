//! A program as JAX hands it over, compiled: bytecode, placed and split, and loaded by the engine.

use std::sync::{Arc, OnceLock};

use meshwork_ir::{Attr, Module, Type, text};
use meshwork_partition::{Border, CompileOptions, Compiled, Plan, compile};
use meshwork_runtime::{Engine, Executable};

use crate::buffer::Shape;
use crate::callback::Functions;
use crate::client::{MEMORY_KINDS, VERSION};
use crate::failure::{Failure, Outcome};
use crate::layouts::asked_order;
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
    /// The functions of this process that it calls.
    pub functions: Functions,
}

impl Program {
    pub fn compile(source: &[u8], bytes: &[u8], engine: &dyn Engine) -> Outcome<Program> {
        let written = read(source)?;
        let options = Options::read(bytes)?;
        let compiled = compile_even(&written, &CompileOptions::default())?;
        let (split, partitions) = (compiled.devices(), options.devices.len());
        if split > 1 && split != partitions {
            return Err(Failure::invalid(format!("a mesh of {split} devices for {partitions} partitions")));
        }
        let executable = engine.load(&compiled)?;
        let Compiled { module, plan, donation, .. } = compiled;
        let no_entry = || Failure::invalid("the program has no entry function");
        let (from, to) = (written.entry().ok_or_else(no_entry)?, module.entry().ok_or_else(no_entry)?);
        let (ty, local) = (written.func_type(from), module.func_type(to));
        // Where the arguments of the split program stand among those of the caller.
        let is_token = |ty: &Type| *ty == Type::Token;
        let input_tokens: Vec<bool> = ty.inputs.iter().map(is_token).collect();
        let output_tokens: Vec<bool> = ty.results.iter().map(is_token).collect();
        let inputs = shapes(&local.inputs, &input_tokens, |i| written.arg_attr(from, i, LAYOUT_MODE))?;
        let outputs = shapes(&local.results, &output_tokens, |i| written.res_attr(from, i, LAYOUT_MODE))?;
        let mut is_donated = vec![false; local.inputs.len()];
        donation.iter().for_each(|d| is_donated[d.argument] = true);
        let bytes_moved: usize = inputs.iter().chain(&outputs).map(|s| s.bytes()).sum::<usize>() * split;
        let functions = Functions::of(&module);
        let is_short = functions.is_empty()
            && plan.flops * (split as f64) < SHORT
            && (bytes_moved as f64) < SHORT
            && !plan.has_unknown_trip_counts();
        let sharding = |b: Option<&Border>| b.map_or(vec![], |b| op_sharding(&b.sharding, &plan.mesh));
        let shardings = |borders: &[Border], tokens: &[bool]| weave(borders.iter(), tokens).map(sharding).collect();
        Ok(Program {
            name: written.name.as_deref().unwrap_or("main").to_string(),
            fingerprint: fingerprint(&[VERSION.as_bytes(), bytes, source]),
            source: source.to_vec(),
            options_bytes: bytes.to_vec(),
            input_kinds: kinds(inputs.len(), |i| written.arg_attr(from, i, MEMORY_KIND))?,
            output_kinds: kinds(outputs.len(), |i| written.res_attr(from, i, MEMORY_KIND))?,
            input_shardings: shardings(&plan.arguments, &input_tokens),
            output_shardings: shardings(&plan.results, &output_tokens),
            donated: weave(is_donated.into_iter(), &input_tokens).map(|d| d.unwrap_or(false)).collect(),
            input_tokens,
            output_tokens,
            options,
            text: OnceLock::new(),
            executable,
            split,
            inputs,
            outputs,
            is_short,
            functions,
            module,
            plan,
        })
    }

    /// What one device runs, as text.
    pub fn text(&self) -> &str {
        self.text.get_or_init(|| text::print(&self.module))
    }
}

/// Compiles `written`. JAX has no arrays whose parts differ in size, so a result that would be split unevenly stays
/// whole along that dimension.
pub(crate) fn compile_even(written: &Module, options: &CompileOptions) -> Outcome<Compiled> {
    let compiled = compile(written, options)?;
    let Some(entry) = written.entry() else { return Ok(compiled) };
    let (mesh, types) = (&compiled.plan.mesh, written.func_type(entry).results);
    let results = (0..types.len()).filter(|&i| types[i] != Type::Token);
    let mut even = None;
    for (i, border) in results.zip(compiled.outputs()) {
        let (dims, mut sharding) = (border.ty.dims(), (*border.sharding).clone());
        if sharding.is_even(mesh, dims) {
            continue;
        }
        let parts = sharding.num_shards(mesh);
        for (d, dim) in sharding.dims.iter_mut().enumerate() {
            dim.is_closed = true;
            if dims[d] % parts[d] != 0 {
                dim.axes.clear();
            }
        }
        let module = even.get_or_insert_with(|| written.clone());
        module.set_res_attr(entry, i, "sdy.sharding", Some(Attr::Sharding(sharding.into())));
    }
    match even {
        Some(module) => Ok(compile(&module, options)?),
        None => Ok(compiled),
    }
}

const MEMORY_KIND: &str = "mhlo.memory_kind";
const LAYOUT_MODE: &str = "mhlo.layout_mode";

/// The module that JAX's bytes or text say.
pub(crate) fn read(source: &[u8]) -> Outcome<Module> {
    meshwork_ir::read(source).map_err(|e| Failure::invalid(e.to_string()))
}

/// The values of a list that leaves tokens out, with `None` for the tokens.
fn weave<T>(mut values: impl Iterator<Item = T>, tokens: &[bool]) -> impl Iterator<Item = Option<T>> {
    tokens.iter().map(move |&is_token| if is_token { None } else { values.next() })
}

/// What buffers of arguments or results are, with the layouts that are asked for.
fn shapes<'a>(types: &[Type], tokens: &[bool], layout: impl Fn(usize) -> Option<&'a Attr>) -> Outcome<Vec<Arc<Shape>>> {
    let shape = |(i, ty): (usize, Option<&Type>)| {
        let Some(ty) = ty else { return Ok(Arc::new(Shape::token())) };
        let unknown = || Failure::unimplemented(format!("{ty} as argument or result of a program"));
        let tensor = ty.as_tensor().ok_or_else(unknown)?;
        let shape = Shape::new(tensor.elem, tensor.dims.to_vec());
        let order = layout(i).and_then(Attr::as_str).map(asked_order).transpose()?.flatten();
        Ok(Arc::new(match order {
            Some(order) => shape.ordered(order)?,
            None => shape,
        }))
    };
    weave(types.iter(), tokens).enumerate().map(shape).collect()
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

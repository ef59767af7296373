//! The transformations: `grad` of a scalar, `vjp` of any results, `jvp` of any arguments.

use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::build::Builder;
use meshwork_ir::op::ControlOp;
use meshwork_ir::transform::dead::remove_dead;
use meshwork_ir::{
    Attr, AttrDict, BlockId, ElementType, FuncSig, FunctionType, Module, OpId, OpKind, OpSpec, ValueId, ValueMap,
};

use crate::GradError;
use crate::activity::{Active, has_tangent, spread};
use crate::forward::Forward;
use crate::prepare::flatten;
use crate::reverse::Reverse;

/// What to differentiate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GradOptions {
    /// The arguments to differentiate with respect to, in the order of the gradients.
    pub wrt: Vec<usize>,
    /// Whether the function also returns what it returned before: for [`grad`] the value that is differentiated, for
    /// [`vjp`] and [`jvp`] all results.
    pub keep_value: bool,
}

/// The gradient of the first result of `func`, a float scalar.
///
/// In the new module, the function of the same name takes the same arguments and returns the value (where
/// `keep_value` says so), one gradient for each argument of `wrt`, and then its other results as they were.
pub fn grad(module: &Module, func: &str, options: &GradOptions) -> Result<Module, GradError> {
    let mut task = Task::new(module, func, options)?;
    let scalar = task.returned.first().map(|&v| task.module.ty(v).clone());
    if !scalar.as_ref().is_some_and(|ty| ty.dims().is_empty() && ty.elem().is_some_and(|e| e.is_float())) {
        let found = scalar.map_or("missing".into(), |ty| ty.to_string());
        return Err(GradError::NotScalar { name: func.into(), found });
    }
    let loss = task.returned[0];
    let gradients = task.walk(options, |back| {
        let one = back.splat_like(loss, 1.0)?;
        Ok(vec![(loss, one)])
    })?;
    let others = (1..task.returned.len()).map(Slot::Old);
    let slots = options.keep_value.then_some(Slot::Old(0)).into_iter();
    let slots: Vec<Slot> = slots.chain(gradients.into_iter().map(Slot::New)).chain(others).collect();
    task.finish(&slots, 0..0)
}

/// The product of cotangents of all results of `func` with its derivative (the vector-Jacobian product).
///
/// In the new module, the function of the same name takes, after its own arguments, one cotangent for each result
/// of float or complex elements, of the result's type. It returns its results (where `keep_value` says so) and then
/// one gradient for each argument of `wrt`.
///
/// Complex cotangents follow the convention that the pairing of a cotangent with a tangent is the real part of
/// their product, without conjugation.
pub fn vjp(module: &Module, func: &str, options: &GradOptions) -> Result<Module, GradError> {
    let mut task = Task::new(module, func, options)?;
    let mut seeds = vec![];
    for &value in &task.returned {
        let ty = task.module.ty(value).clone();
        if has_tangent(&ty) {
            seeds.push((value, task.module.add_block_arg(task.body, ty)));
        }
    }
    let gradients = task.walk(options, |_| Ok(seeds))?;
    let kept = if options.keep_value { task.returned.len() } else { 0 };
    let slots: Vec<Slot> = (0..kept).map(Slot::Old).chain(gradients.into_iter().map(Slot::New)).collect();
    task.finish(&slots, 0..0)
}

/// The product of the derivative of `func` with tangents of the chosen arguments (the Jacobian-vector product).
///
/// In the new module, the function of the same name takes, after its own arguments, one tangent for each argument of
/// `wrt`. It returns its results (where `keep_value` says so) and then one tangent for each result of float or
/// complex elements.
///
/// Trip counts of loops may depend on data: nothing is stored per step.
pub fn jvp(module: &Module, func: &str, options: &GradOptions) -> Result<Module, GradError> {
    let task = Task::new(module, func, options)?;
    let Task { mut module, func: old, body, returned, .. } = task;
    let args = module.block(body).args().to_vec();
    let wrt: Vec<ValueId> = options.wrt.iter().map(|&i| args[i]).collect();
    let inputs: Vec<_> = args.iter().chain(&wrt).map(|&v| module.ty(v).clone()).collect();
    let ty = FunctionType { inputs, results: vec![] };
    let new = module.add_func(FuncSig { name: func.into(), ty, visibility: None });
    // `add_func` gives every function a block.
    let to = module.region(module.op(new).regions()[0]).blocks()[0];
    let given = module.block(to).args().to_vec();
    let (values, moved) = given.split_at(args.len());
    let mut active: Active = wrt.iter().copied().collect();
    spread(&module, body, &mut active);
    let mut map: ValueMap = args.iter().copied().zip(values.iter().copied()).collect();
    let mut tangents = wrt.iter().copied().zip(moved.iter().copied()).collect();
    let ops = module.op_list(body);
    let mut forward =
        Forward { module: &mut module, block: to, active: &active, map: &mut map, tangents: &mut tangents };
    forward.run(&ops)?;
    let mut rates = vec![];
    for &value in &returned {
        if has_tangent(forward.module.ty(value)) {
            rates.push(forward.tangent_or_zeros(value)?);
        }
    }
    let kept = if options.keep_value { &returned[..] } else { &[] };
    let results: Vec<ValueId> = kept.iter().map(|v| *map.get(v).unwrap_or(v)).chain(rates).collect();
    let slots: Vec<Slot> = (0..kept.len()).map(Slot::Old).collect();
    module.push(to, OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands(results.iter().copied()));
    let data = module.op(old).clone();
    let mut ty = module.func_type(new);
    ty.results = results.iter().map(|&v| module.ty(v).clone()).collect();
    let mut task = Task { module, func: old, body: to, end: old, returned };
    let attrs = task.slot_attrs(&slots);
    task.func = new;
    task.module.op_mut(new).attrs = data.attrs.clone();
    task.module.op_mut(new).loc = data.loc.clone();
    let count = ty.inputs.len();
    task.module.set_func_type(new, ty);
    task.module.op_mut(new).attrs.remove("res_attrs");
    for (index, name, attr) in attrs {
        task.module.set_res_attr(new, index, &name, Some(attr));
    }
    task.set_arg_attrs(0..0, count);
    task.module.block_mut(to).arg_locs = task.module.block(body).arg_locs.clone();
    task.module.erase(old);
    remove_dead(&mut task.module);
    Ok(task.module)
}

/// [`jvp`] without control flow of its own: the product with a cotangent is linear in the cotangent, and its derivative
/// by the cotangent is the product with a tangent. So it is [`vjp`] applied twice, and every operation needs a rule that
/// has rules itself.
pub(crate) fn jvp_by_transposing(module: &Module, func: &str, options: &GradOptions) -> Result<Module, GradError> {
    let back = vjp(module, func, &GradOptions { wrt: options.wrt.clone(), keep_value: true })?;
    let args = |module: &Module| module.func(func).map_or(0, |f| module.func_type(f).inputs.len());
    let cotangents = args(module)..args(&back);
    let twice = GradOptions { wrt: cotangents.clone().collect(), keep_value: false };
    let mut task = Task::new(&back, func, &twice)?;
    let kept = task.returned.len() - options.wrt.len();
    let mut seeds = vec![];
    for &value in &task.returned[kept..] {
        let ty = task.module.ty(value).clone();
        seeds.push((value, task.module.add_block_arg(task.body, ty)));
    }
    let tangents = task.walk(&twice, |_| Ok(seeds))?;
    let kept = if options.keep_value { kept } else { 0 };
    let slots: Vec<Slot> = (0..kept).map(Slot::Old).chain(tangents.into_iter().map(Slot::New)).collect();
    task.finish(&slots, cotangents)
}

/// A result of the new function.
#[derive(Clone, Copy)]
enum Slot {
    /// This result of the old one.
    Old(usize),
    /// A gradient.
    New(ValueId),
}

/// A copy of the module, with the function to change.
struct Task {
    module: Module,
    func: OpId,
    body: BlockId,
    end: OpId,
    returned: Vec<ValueId>,
}

impl Task {
    fn new(module: &Module, name: &str, options: &GradOptions) -> Result<Task, GradError> {
        let mut module = module.clone();
        let Some(func) = module.func(name) else {
            let known: Vec<String> =
                module.funcs().filter_map(|f| module.symbol_name(f)).map(|n| format!("@{n}")).collect();
            let known = if known.is_empty() { "no functions".to_string() } else { known.join(", ") };
            return Err(GradError::NoFunction { name: name.into(), known });
        };
        // A private function may be inlined into its callers and removed; the one asked for stays.
        if module.op(func).attr("sym_visibility").and_then(Attr::as_str) == Some("private") {
            module.op_mut(func).attrs.remove("sym_visibility");
        }
        flatten(&mut module);
        let no_body = || GradError::NoBody { name: name.into() };
        let blocks = module.op(func).regions().first().map_or(&[][..], |&r| module.region(r).blocks());
        let &[body] = blocks else { return Err(no_body()) };
        let end = module.terminator(body).ok_or_else(no_body)?;
        let args = module.block(body).args();
        for &index in &options.wrt {
            let Some(&arg) = args.get(index) else {
                return Err(GradError::NoArgument { name: name.into(), index, count: args.len() });
            };
            let ty = module.ty(arg);
            if !has_tangent(ty) || !ty.as_tensor().is_some_and(|t| t.is_static()) {
                return Err(GradError::Argument { name: name.into(), index, ty: ty.clone() });
            }
        }
        let returned = module.returned(body).to_vec();
        Ok(Task { module, func, body, end, returned })
    }

    /// Appends the backward pass to the body, from the cotangents that `seed` gives; returns one gradient per argument.
    fn walk(
        &mut self,
        options: &GradOptions,
        seed: impl FnOnce(&mut Reverse<'_>) -> Result<Vec<(ValueId, ValueId)>, GradError>,
    ) -> Result<Vec<ValueId>, GradError> {
        let args = self.module.block(self.body).args().to_vec();
        let wrt: Vec<ValueId> = options.wrt.iter().map(|&i| args[i]).collect();
        let mut active: Active = wrt.iter().copied().collect();
        spread(&self.module, self.body, &mut active);
        let mut ops = self.module.op_list(self.body);
        ops.retain(|&op| op != self.end);
        self.module.detach(self.end);
        let mut back = Reverse::new(&mut self.module, self.body, &mut active);
        for (value, ct) in seed(&mut back)? {
            back.give(value, ct)?;
        }
        back.walk(&ops)?;
        wrt.iter().map(|&arg| Ok(back.cotangent_or_zeros(arg)?)).collect()
    }

    /// Returns `slots`, removes what is no longer needed, then the arguments `dropped`, and sets the signature.
    fn finish(mut self, slots: &[Slot], dropped: Range<usize>) -> Result<Module, GradError> {
        let attrs = self.slot_attrs(slots);
        let module = &mut self.module;
        // The backward pass may have replaced loops, and so results.
        let returned = module.op(self.end).operands().to_vec();
        let values = slots.iter().map(|slot| match *slot {
            Slot::Old(i) => returned[i],
            Slot::New(v) => v,
        });
        let values: Vec<ValueId> = values.collect();
        let loc = module.op(self.end).loc.clone();
        module.push(
            self.body,
            OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands(values.iter().copied()).loc(loc),
        );
        module.erase(self.end);
        remove_dead(module);
        for index in dropped.clone().rev() {
            let arg = module.block(self.body).args()[index];
            if let Some(first) = module.block(self.body).first().filter(|_| !module.value(arg).uses().is_empty()) {
                let ty = module.ty(arg).clone();
                let elem = ty.elem().unwrap_or(ElementType::F32);
                let zeros = Builder::before(module, first).splat(ty.dims().iter().copied(), elem, 0.0)?;
                module.replace_all_uses(arg, zeros);
            }
            module.remove_block_arg(self.body, index);
        }
        let end = module.returned(self.body).to_vec();
        let mut ty = module.func_type(self.func);
        ty.inputs = module.block(self.body).args().iter().map(|&v| module.ty(v).clone()).collect();
        ty.results = end.iter().map(|&v| module.ty(v).clone()).collect();
        let count = ty.inputs.len();
        module.set_func_type(self.func, ty);
        module.op_mut(self.func).attrs.remove("res_attrs");
        for (index, name, attr) in attrs {
            module.set_res_attr(self.func, index, &name, Some(attr));
        }
        self.set_arg_attrs(dropped, count);
        Ok(self.module)
    }

    /// Brings the list of argument attributes to the new arguments.
    fn set_arg_attrs(&mut self, dropped: Range<usize>, count: usize) {
        let attrs = &mut self.module.op_mut(self.func).attrs;
        let Some(Attr::Array(old)) = attrs.remove("arg_attrs") else { return };
        let kept = old.iter().enumerate().filter(|(i, _)| !dropped.contains(i)).map(|(_, attr)| match attr {
            Attr::Dict(dict) => {
                let mut dict = (**dict).clone();
                // Results have moved, so an alias to one of them no longer holds.
                dict.remove("tf.aliasing_output");
                dict
            }
            _ => AttrDict::new(),
        });
        let slots: Vec<AttrDict> = kept.chain(std::iter::repeat_with(AttrDict::new)).take(count).collect();
        if slots.iter().any(|slot| !slot.is_empty()) {
            attrs.set("arg_attrs", Attr::Array(slots.into_iter().map(|slot| Attr::Dict(Arc::new(slot))).collect()));
        }
    }

    /// The attributes of results that stay, at their new places.
    fn slot_attrs(&self, slots: &[Slot]) -> Vec<(usize, String, Attr)> {
        let Some(old) = self.module.op(self.func).attr("res_attrs").and_then(Attr::as_array) else { return vec![] };
        let mut out = vec![];
        for (index, slot) in slots.iter().enumerate() {
            if let Slot::Old(i) = *slot
                && let Some(Attr::Dict(dict)) = old.get(i)
            {
                out.extend(dict.iter().map(|(name, attr)| (index, name.to_string(), attr.clone())));
            }
        }
        out
    }
}

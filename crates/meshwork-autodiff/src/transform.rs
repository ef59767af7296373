//! The two transformations: `grad` of a scalar and `vjp` of any results.

use meshwork_ir::transform::dead::remove_dead;
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind, OpSpec, ValueId};

use crate::GradError;
use crate::activity::{Active, has_tangent, spread};
use crate::prepare::flatten;
use crate::reverse::Reverse;

/// What to differentiate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GradOptions {
    /// The arguments to differentiate with respect to, in the order of the gradients.
    pub wrt: Vec<usize>,
    /// Whether the function also returns what it returned before: for [`grad`] the value that is differentiated, for
    /// [`vjp`] all results.
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
    Ok(task.finish(&slots))
}

/// The product of cotangents of all results of `func` with its derivative.
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
    Ok(task.finish(&slots))
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
        module.op_mut(func).attrs.remove("sym_visibility");
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

    /// Writes the way back behind the body, from the cotangents that `seed` gives; returns one gradient per argument.
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

    /// Returns `slots`, sets the type, and removes what is no longer needed.
    fn finish(mut self, slots: &[Slot]) -> Module {
        let module = &mut self.module;
        // Loops on the way back may have replaced results.
        let returned = module.op(self.end).operands().to_vec();
        let values = slots.iter().map(|slot| match *slot {
            Slot::Old(i) => returned[i],
            Slot::New(v) => v,
        });
        let values: Vec<ValueId> = values.collect();
        let loc = module.op(self.end).loc.clone();
        let end = self.end;
        module.push(self.body, OpSpec::new(OpKind::FuncReturn).operands(values.iter().copied()).loc(loc));
        module.erase(end);
        let attrs = self.slot_attrs(slots);
        let module = &mut self.module;
        let mut ty = module.func_type(self.func);
        ty.inputs = module.block(self.body).args().iter().map(|&v| module.ty(v).clone()).collect();
        ty.results = values.iter().map(|&v| module.ty(v).clone()).collect();
        let added = ty.inputs.len();
        module.set_func_type(self.func, ty);
        module.op_mut(self.func).attrs.remove("res_attrs");
        for (index, name, attr) in attrs {
            module.set_res_attr(self.func, index, &name, Some(attr));
        }
        let old_args = match module.op(self.func).attr("arg_attrs") {
            Some(Attr::Array(list)) => list.len(),
            _ => added,
        };
        if old_args != added {
            // Setting any slot brings the list to the new length.
            module.set_arg_attr(self.func, added - 1, "meshwork.cotangent", Some(Attr::Unit));
            module.set_arg_attr(self.func, added - 1, "meshwork.cotangent", None);
        }
        for index in 0..added {
            // Results have moved, so a promise to share memory with one of them no longer holds.
            if module.arg_attr(self.func, index, "tf.aliasing_output").is_some() {
                module.set_arg_attr(self.func, index, "tf.aliasing_output", None);
            }
        }
        remove_dead(module);
        self.module
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

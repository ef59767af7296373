//! Derivatives that a program brings along: a named computation whose derivative is a function of the user's.
//!
//! The rule is traced when a derivative asks for it, not before: it may call what it is the rule of. A computation knows
//! its rule by number. The rules belong to the thread that traces, which forgets them when it is done.

use std::cell::RefCell;
use std::rc::Rc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, BlockId, Module, Op, OpId, OpKind, Type, ValueId, ValueMap};

use crate::activity::has_tangent;
use crate::batch::{BatchOptions, vmap};
use crate::reverse::{Reverse, Site};
use crate::transform::{GradOptions, vjp};
use crate::{CUSTOM, GradError};

/// The attribute with the number of the rule.
pub const RULE: &str = "meshwork.rule";
/// The attribute with the number of batch dimensions that all operands and results have in front.
pub(crate) const BATCHED: &str = "meshwork.batched";

/// What a rule computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Custom {
    /// From operands, results and a tangent for each operand of floats: a tangent for each result of floats. Linear in the
    /// tangents.
    Jvp,
    /// From operands, results and a cotangent for each result of floats: a cotangent for each operand of floats.
    Vjp,
}

/// Traces a rule for operands and results of these types, as function `main` of a module.
type Tracer = Rc<dyn Fn(&[Type], &[Type]) -> Result<Module, String>>;

thread_local! {
    static RULES: RefCell<Vec<(Custom, Tracer)>> = const { RefCell::new(vec![]) };
}

/// Adds a rule and returns its number, for the attribute [`RULE`] of a named computation that is called [`CUSTOM`].
pub fn add_rule(kind: Custom, trace: impl Fn(&[Type], &[Type]) -> Result<Module, String> + 'static) -> i64 {
    RULES.with_borrow_mut(|rules| {
        rules.push((kind, Rc::new(trace)));
        rules.len() as i64 - 1
    })
}

/// Forgets all rules of this thread.
pub fn clear_rules() {
    RULES.with_borrow_mut(Vec::clear);
}

/// Whether `op` has a derivative of its own.
pub(crate) fn is_custom(op: &Op) -> bool {
    op.kind() == OpKind::Sdy(SdyOp::NamedComputation) && op.attr("name").and_then(Attr::as_str) == Some(CUSTOM)
}

/// The rule of `op`, for its types.
fn rule_of(module: &Module, id: OpId) -> Result<(Custom, Module), GradError> {
    let op = module.op(id);
    let missing = |why: String| GradError::no_rule(module, id, why);
    let found = op.int(RULE).and_then(|i| RULES.with_borrow(|rules| rules.get(usize::try_from(i).ok()?).cloned()));
    let Some((kind, trace)) = found else { return Err(missing("its own rule is not known here".into())) };
    let batched = op.int(BATCHED).unwrap_or(0) as usize;
    let types = |values: &[ValueId]| -> Vec<Type> {
        let single = |v: &ValueId| match module.ty(*v).as_tensor() {
            Some(t) => t.with_dims(t.dims[batched.min(t.dims.len())..].iter().copied()).into(),
            None => module.ty(*v).clone(),
        };
        values.iter().map(single).collect()
    };
    let mut rule = trace(&types(op.operands()), &types(op.results())).map_err(missing)?;
    let extents = op.operands().first().map_or(&[][..], |&v| module.ty(v).dims());
    for size in extents.iter().take(batched).rev() {
        let count = rule.func("main").map_or(0, |f| rule.func_type(f).inputs.len());
        let options = BatchOptions { size: *size, in_axes: vec![Some(0); count], ..BatchOptions::default() };
        rule = vmap(&rule, "main", &options).map_err(|e| GradError::no_rule(module, id, e.to_string()))?;
    }
    Ok((kind, rule))
}

/// The rule as a function of operands, results, what the rule is linear in (which may be anything) and the cotangents of
/// what it returns: the cotangents of what it is linear in.
fn transposed(rule: &Module, first: usize) -> Result<Module, GradError> {
    let count = rule.func("main").map_or(0, |f| rule.func_type(f).inputs.len());
    vjp(rule, "main", &GradOptions { wrt: (first..count).collect(), keep_value: false })
}

/// Writes what `rule` makes of `args` to the end of `block`.
fn call(
    module: &mut Module,
    id: OpId,
    block: BlockId,
    rule: &Module,
    args: &[ValueId],
) -> Result<Vec<ValueId>, GradError> {
    let Some(body) = rule.func("main").and_then(|f| rule.body_of(f, 0)) else { return Ok(vec![]) };
    let mut map: ValueMap = rule.block(body).args().iter().copied().zip(args.iter().copied()).collect();
    for op in rule.op_list(body) {
        if !rule.op(op).kind().is_terminator() {
            let copied = module.import_op(rule, op, block, &mut map);
            copied.map_err(|why| GradError::no_rule(module, id, why))?;
        }
    }
    Ok(rule.returned(body).iter().map(|v| map[v]).collect())
}

/// Reverse mode.
pub(crate) fn reverse(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (kind, rule) = rule_of(r.module(), site.id)?;
    let (xs, ys) = (site.op.operands().to_vec(), site.op.results().to_vec());
    let floats: Vec<ValueId> = xs.iter().copied().filter(|&x| has_tangent(r.ty(x))).collect();
    let mut args = [xs.clone(), ys.clone()].concat();
    let rule = match kind {
        Custom::Vjp => rule,
        Custom::Jvp => {
            for &x in &floats {
                args.push(r.zeros_like(x)?);
            }
            transposed(&rule, xs.len() + ys.len())?
        }
    };
    for (&y, ct) in ys.iter().zip(&site.cts) {
        if has_tangent(r.ty(y)) {
            args.push(match ct {
                Some(ct) => *ct,
                None => r.zeros_like(y)?,
            });
        }
    }
    let block = r.block;
    let cts = call(r.module_mut(), site.id, block, &rule, &args)?;
    for (x, ct) in floats.into_iter().zip(cts) {
        r.give(x, ct)?;
    }
    Ok(())
}

/// Forward mode: from the values and tangents of the operands, which are those of floats, and the values of the results.
/// Returns a tangent for each result of floats.
pub(crate) fn forward(
    module: &mut Module,
    id: OpId,
    block: BlockId,
    values: &[ValueId],
    tangents: &[ValueId],
) -> Result<Vec<ValueId>, GradError> {
    let (kind, rule) = rule_of(module, id)?;
    let mut args = values.to_vec();
    let rule = match kind {
        Custom::Jvp => rule,
        Custom::Vjp => {
            let linear = rule.func("main").map_or(vec![], |f| rule.func_type(f).inputs);
            for ty in &linear[values.len()..] {
                let mut b = meshwork_ir::build::Builder::at_end(module, block);
                let elem = ty.elem().unwrap_or(meshwork_ir::ElementType::F32);
                args.push(b.splat(ty.dims().iter().copied(), elem, 0.0)?);
            }
            transposed(&rule, values.len())?
        }
    };
    args.extend(tangents);
    call(module, id, block, &rule, &args)
}

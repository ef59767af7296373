//! Writing a program without some of its blocks.

use std::collections::{BTreeMap, HashMap, HashSet};

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, FuncSig, FunctionType, Module, OpId, OpSpec, ValueId, ValueMap, Walk};

use super::runs::Run;
use crate::site::Members;
use crate::space::View;

/// `whole` without `missing` repetitions of each run behind its first `fronts`. `None` if what is left does not make a program with all
/// sites of the whole.
pub fn cut_to(whole: &View, runs: &[Run], fronts: &[usize], missing: usize) -> Option<View> {
    let module = &whole.module;
    let func = module.entry()?;
    let block = module.body_of(func, 0)?;
    let ops = module.op_list(block);
    let number: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
    let shape = Shape { module, number, runs, fronts, missing };
    let (last, ops) = ops.split_last()?;
    let is_gone = shape.gone(ops);
    let returned = module.op(*last).operands();
    let is_kept = |v: &ValueId| shape.source(*v).is_none_or(|i| !is_gone[i]);
    let results: Vec<usize> = (0..returned.len()).filter(|&r| is_kept(&returned[r])).collect();
    let live = shape.live(ops, &is_gone, results.iter().filter_map(|&r| shape.source(returned[r])))?;
    let alive = || ops.iter().enumerate().filter(|(i, _)| live[*i]);
    let used: HashSet<ValueId> = alive().flat_map(|(_, &op)| shape.reads(op)).collect();
    let args = module.block(block).args();
    let kept: Vec<usize> = (0..args.len()).filter(|&i| used.contains(&args[i])).collect();
    let results: Vec<usize> =
        results.into_iter().filter(|&r| shape.source(returned[r]).is_some() || used.contains(&returned[r])).collect();

    let mut out = Module::new();
    out.name = module.name.clone();
    let types = |values: &mut dyn Iterator<Item = ValueId>| values.map(|v| module.ty(v).clone()).collect::<Vec<_>>();
    let ty = FunctionType {
        inputs: types(&mut kept.iter().map(|&i| args[i])),
        results: types(&mut results.iter().map(|&r| returned[r])),
    };
    for op in module.ops_in(module.body()).filter(|&op| op != func) {
        let body = out.body();
        out.import_op(module, op, body, &mut ValueMap::default()).ok()?;
    }
    let name = module.symbol_name(func).unwrap_or("main").into();
    let copy = out.add_func(FuncSig { name, ty, visibility: Some("public".into()) });
    let body = out.body_of(copy, 0)?;
    let mut map = ValueMap::default();
    for (new, &old) in kept.iter().enumerate() {
        map.insert(args[old], out.block(body).args()[new]);
    }
    for (i, &op) in alive() {
        for v in shape.reads(op) {
            if let Some(source) = shape.source(v).filter(|&source| is_gone[source]) {
                let other = ops[shape.counterpart(source).filter(|&other| other < i)?];
                let result = module.op(ops[source]).results().iter().position(|&r| r == v)?;
                let stands_for = *map.get(&module.op(other).results()[result])?;
                map.insert(v, stands_for);
            }
        }
        out.import_op(module, op, body, &mut map).ok()?;
    }
    let values: Option<Vec<ValueId>> = results.iter().map(|&r| map.get(&returned[r]).copied()).collect();
    out.push(body, OpSpec::new(ControlOp::FuncReturn).operands(values?));
    let renumbered: BTreeMap<usize, usize> = results.iter().enumerate().map(|(new, &old)| (old, new)).collect();
    copy_slots(module, func, &mut out, copy, &kept, &renumbered);
    // A value that is gone has a counterpart, which is a member itself.
    let left = |v: ValueId| shape.source(v).is_none_or(|i| live[i]).then(|| map.get(&v).copied()).flatten();
    let members = members(whole, &kept, &renumbered, &left)?;
    Some(View { module: out, members })
}

/// The attributes of arguments and results that are left.
fn copy_slots(
    module: &Module,
    func: OpId,
    out: &mut Module,
    copy: OpId,
    kept: &[usize],
    results: &BTreeMap<usize, usize>,
) {
    let slots = |list: &str| module.op(func).attr(list).and_then(Attr::as_array).map(<[Attr]>::to_vec);
    let named = |slots: &Option<Vec<Attr>>, i: usize| match slots.as_ref().and_then(|list| list.get(i)) {
        Some(Attr::Dict(dict)) => dict.iter().map(|(name, attr)| (name.to_string(), attr.clone())).collect(),
        _ => vec![],
    };
    let arguments = slots("arg_attrs");
    for (new, &old) in kept.iter().enumerate() {
        for (name, attr) in named(&arguments, old) {
            let attr = match name.as_str() {
                "tf.aliasing_output" => {
                    let target = attr.as_int().and_then(|r| results.get(&usize::try_from(r).ok()?));
                    let Some(&target) = target else { continue };
                    Attr::i32(target as i64)
                }
                _ => attr,
            };
            out.set_arg_attr(copy, new, &name, Some(attr));
        }
    }
    let of_results = slots("res_attrs");
    for (&old, &new) in results {
        for (name, attr) in named(&of_results, old) {
            out.set_res_attr(copy, new, &name, Some(attr));
        }
    }
}

/// The members of each site that are left; `None` if a site has none of its arguments or none of its values any more.
fn members(
    whole: &View,
    kept: &[usize],
    results: &BTreeMap<usize, usize>,
    left: &dyn Fn(ValueId) -> Option<ValueId>,
) -> Option<Vec<Members>> {
    let arguments: HashMap<usize, usize> = kept.iter().enumerate().map(|(new, &old)| (old, new)).collect();
    let of = |site: &Members| {
        let own = Members {
            arguments: site.arguments.iter().filter_map(|i| arguments.get(i).copied()).collect(),
            results: site.results.iter().filter_map(|r| results.get(r).copied()).collect(),
            values: site.values.iter().filter_map(|&v| left(v)).collect(),
        };
        let all = own.arguments.is_empty() == site.arguments.is_empty()
            && own.results.is_empty() == site.results.is_empty()
            && own.values.is_empty() == site.values.is_empty();
        all.then_some(own)
    };
    whole.members.iter().map(of).collect()
}

/// What is taken out of a program.
struct Shape<'a> {
    module: &'a Module,
    /// Of each operation of the function's body.
    number: HashMap<OpId, usize>,
    runs: &'a [Run],
    fronts: &'a [usize],
    missing: usize,
}

impl Shape<'_> {
    /// The operation of the body that makes `v`; `None` for arguments.
    fn source(&self, v: ValueId) -> Option<usize> {
        self.number.get(&self.module.def_op(v)?).copied()
    }

    /// The values of the body that `op` reads, with what is inside it.
    fn reads(&self, op: OpId) -> Vec<ValueId> {
        let own = self.module.op(op);
        if own.regions().is_empty() {
            return own.operands().to_vec();
        }
        let inner = self.module.ops_below(op, Walk::PreOrder);
        let all = inner.into_iter().flat_map(|inner| self.module.op(inner).operands().to_vec());
        all.filter(|&v| match self.module.def_op(v) {
            Some(def) => self.number.contains_key(&def),
            None => matches!(self.module.value(v).def(), meshwork_ir::Def::Arg(block, _)
                if self.module.op(op).parent() == Some(block)),
        })
        .collect()
    }

    fn place(&self, i: usize) -> Option<(usize, (usize, usize))> {
        self.runs.iter().enumerate().find_map(|(r, run)| Some((r, run.place(i)?)))
    }

    /// Which operations are taken out: those of the repetitions in the middle, and what outside the runs reads something that is.
    fn gone(&self, ops: &[OpId]) -> Vec<bool> {
        let mut out = vec![false; ops.len()];
        for (i, &op) in ops.iter().enumerate() {
            out[i] = match self.place(i) {
                Some((r, (repetition, _))) => (self.fronts[r]..self.fronts[r] + self.missing).contains(&repetition),
                None => self.reads(op).into_iter().filter_map(|v| self.source(v)).any(|source| out[source]),
            };
        }
        out
    }

    /// What stands for operation `i`, which is taken out: the same one of the repetition that takes the place of its own.
    fn counterpart(&self, i: usize) -> Option<usize> {
        let (r, (repetition, number)) = self.place(i)?;
        let run = &self.runs[r];
        let before = repetition.checked_sub(self.missing).filter(|&other| other < self.fronts[r]);
        let behind = Some(repetition + self.missing).filter(|&other| other < run.count);
        before.or(behind).map(|other| run.at((other, number)))
    }

    /// Which operations are needed for what is made by `results`. `None` if one of them reads something that nothing stands for.
    fn live(&self, ops: &[OpId], is_gone: &[bool], results: impl Iterator<Item = usize>) -> Option<Vec<bool>> {
        let mut out = vec![false; ops.len()];
        results.for_each(|i| out[i] = true);
        for i in (0..ops.len()).rev().filter(|&i| !is_gone[i]) {
            if !out[i] {
                continue;
            }
            for source in self.reads(ops[i]).into_iter().filter_map(|v| self.source(v)) {
                let source =
                    if is_gone[source] { self.counterpart(source).filter(|&other| other < i)? } else { source };
                out[source] = true;
            }
        }
        Some(out)
    }
}

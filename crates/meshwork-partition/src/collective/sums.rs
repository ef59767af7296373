//! Reductions whose results are only combined in the same way are one reduction of what is combined before it.
//!
//! ```text
//! all_reduce(a) + all_reduce(b)                 ──►   all_reduce(a + b)
//! reduce_scatter(a) + transpose(reduce_scatter(b))    ──►   reduce_scatter(a + transpose(b))
//! ```
//!
//! The gradients of what is used several times are such sums: of an embedding that also makes the logits, of the input
//! of several products. Half or less is sent for them.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{Attr, BlockId, Combine, ElementClass, Module, OpId, OpKind, OpSpec, ValueId, ValueMap};

use super::linear::{follow, is_linear, rebuild};
use super::{Collective, CollectiveKind, Peers};

/// A reduction, and what is done with its result before it is combined with another.
struct Term {
    /// Its number among the collectives.
    index: usize,
    /// Linear operations, first to last.
    chain: Vec<OpId>,
    /// Where the dimension that is scattered stands in the end.
    scattered: Option<usize>,
}

/// Merges reductions of `module` that are only combined with each other.
pub fn reduce_sums(module: &mut Module, collectives: &mut [Collective]) {
    let mut by_op: HashMap<OpId, usize> = HashMap::default();
    let mut blocks: Vec<BlockId> = vec![];
    for (i, c) in collectives.iter().enumerate() {
        if combine_of(c).is_some() {
            by_op.insert(c.emitted, i);
            blocks.extend(module.op(c.emitted).parent());
        }
    }
    blocks.sort_unstable();
    blocks.dedup();
    for block in blocks {
        for op in module.op_list(block) {
            if !module.is_erased(op)
                && let Some((first, second)) = terms(module, op, collectives, &by_op)
            {
                merge(module, op, &first, &second, collectives, &mut by_op);
            }
        }
    }
}

/// How `c` combines, if it does and the partitioner chose its group.
fn combine_of(c: &Collective) -> Option<Combine> {
    match (&c.kind, &c.peers) {
        (CollectiveKind::AllReduce(combine) | CollectiveKind::ReduceScatter(combine), Peers::Group(_)) => {
            Some(*combine)
        }
        _ => None,
    }
}

/// The two reductions that `op` combines as they do, if nothing else uses them.
fn terms(module: &Module, op: OpId, collectives: &[Collective], by_op: &HashMap<OpId, usize>) -> Option<(Term, Term)> {
    let &[a, b] = module.op(op).operands() else { return None };
    let OpKind::Binary(_) = module.op(op).kind() else { return None };
    let (first, second) = (term(module, op, a, by_op)?, term(module, op, b, by_op)?);
    let (x, y) = (&collectives[first.index], &collectives[second.index]);
    let combine = combine_of(x)?;
    let same = x.kind == y.kind && x.peers == y.peers && first.scattered == second.scattered;
    let kind = module.op(op).kind();
    let is_number = module.ty(a).elem().is_some_and(|e| e.class() != ElementClass::Bool);
    let is_sum = combine == Combine::Add && is_number;
    let combines = kind == combine.op() || (is_sum && kind == BinaryOp::Subtract);
    // A negated maximum is a minimum: only sums go through a negation.
    let plain = |t: &Term| t.chain.iter().all(|&op| !matches!(module.op(op).kind(), OpKind::Unary(_)));
    (same && combines && first.index != second.index && (is_sum || (plain(&first) && plain(&second))))
        .then_some((first, second))
}

/// The reduction that `v`, an operand of `op`, comes from, if it is only moved about on the way and used by nothing else.
fn term(module: &Module, op: OpId, v: ValueId, by_op: &HashMap<OpId, usize>) -> Option<Term> {
    let (mut at, mut chain) = (v, vec![]);
    loop {
        let def = module.def_op(at)?;
        let [only] = module.value(at).uses() else { return None };
        if module.op(def).parent() != module.op(op).parent() || module.op(only.op).parent() != module.op(op).parent() {
            return None;
        }
        if let Some(&index) = by_op.get(&def) {
            chain.reverse();
            let scattered = match module.op(def).int("scatter_dimension") {
                None => None,
                Some(d) => Some(follow(module, &chain, d as usize)?),
            };
            let [_] = module.op(def).operands() else { return None };
            return Some(Term { index, chain, scattered });
        }
        if !is_linear(module, def) {
            return None;
        }
        chain.push(def);
        at = module.op(def).operands()[0];
    }
}

/// Replaces `op`, which combines two reductions, by a reduction of what it combines.
fn merge(
    module: &mut Module,
    op: OpId,
    first: &Term,
    second: &Term,
    collectives: &mut [Collective],
    by_op: &mut HashMap<OpId, usize>,
) {
    let like = collectives[first.index].emitted;
    let group = |module: &Module, emitted: OpId, d: usize| {
        let whole = module.ty(module.op(emitted).operands()[0]).dims()[d];
        whole / module.ty(module.result(emitted)).dims()[d].max(1)
    };
    let mut parts = vec![];
    for term in [first, second] {
        let emitted = collectives[term.index].emitted;
        let dim = module.op(emitted).int("scatter_dimension").map(|d| d as usize);
        let dim = dim.map(|d| (d, group(module, emitted, d)));
        let start = module.op(emitted).operands()[0];
        // The dimension was followed before.
        let Some((value, _)) = rebuild(module, &term.chain, start, dim, op) else { return };
        parts.push(value);
    }
    let spec = OpSpec::new(module.op(op).kind())
        .operands(parts.iter().copied())
        .results([module.ty(parts[0]).clone()])
        .loc(module.op(op).loc.clone());
    let joint = module.push_before(op, spec);
    let joint = module.result(joint);
    let old = module.op(like).operands()[0];
    let copy = module.clone_op(like, &mut ValueMap::from_iter([(old, joint)]));
    module.insert_before(op, copy);
    if let Some(d) = first.scattered {
        module.op_mut(copy).attrs.set("scatter_dimension", Attr::i64(d as i64));
    }
    let (result, made) = (module.result(op), module.result(copy));
    module.set_ty(made, module.ty(result).clone());
    module.replace_all_uses(result, made);
    module.erase(op);
    for term in [first, second] {
        term.chain.iter().rev().for_each(|&op| module.erase(op));
        let emitted = collectives[term.index].emitted;
        by_op.remove(&emitted);
        module.erase(emitted);
    }
    let dropped = std::mem::take(&mut collectives[second.index].origins);
    let c = &mut collectives[first.index];
    c.emitted = copy;
    c.origins.extend(dropped);
    let bytes = crate::plan::memory::type_bytes(module.ty(joint));
    c.wire_bytes *= bytes as f64 / c.operand_bytes.max(1) as f64;
    c.operand_bytes = bytes;
    let each = c.wire_bytes / c.origins.len() as f64;
    c.origins.iter_mut().for_each(|origin| origin.wire_bytes = each);
    by_op.insert(copy, first.index);
}

//! The least that the loops over elements take: what no plan keeps out of memory.
//!
//! Arithmetic on elements is fused into loops. The simulated device runs a loop for each *group*: an operation joins the group of its
//! readers if these are all in one group, and *leads* one otherwise. Reductions, products and everything else that is no arithmetic
//! lead groups of their own. So from a member of a group all paths stay in the group until they reach its leader, and
//!
//! > if a path from `a` to `b` passes an operation that leads in every plan, or `a` is one, then `a` and `b` are in different groups:
//! > were `b` in the group of `a`, the group's leader would come before `b` on that path, and after it.
//!
//! Two operations that read one value and are so connected both read it from memory, and it has to be written before. The same
//! holds for an element-wise value that a product reads or the program returns: it leads a group. A plan adds collectives and
//! slices between operations and leaves these paths as they are, and a device has at least one part in `devices` of each array. The
//! groups are disjoint in time from each other and from products, and each takes at least as long as its traffic, and starts once.
//!
//! More values start a loop than are certain to be written: what plans combine for one collective is one group, of which each piece
//! starts by itself. An operation is in the same piece as all that reads it, and starts one if there is no such piece. So
//!
//! > if nothing is behind both `a` and `b` up to what starts in every plan, they are in different pieces, and what both of them read, or
//! > read in another shape, starts one.
//!
//! What is found so starts in every plan, which may show more: this goes on until nothing is added.

use std::ops::Range;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BodyOp, ContractOp, MovementOp};
use meshwork_ir::{BlockId, Module, OpId, OpKind, ValueId};

use super::pieces::{self, Kinds};

/// Programs with more operations are not looked into: what follows from what takes time in proportion to the square.
const MOST_OPS: usize = 1 << 15;

/// What the loops of all devices do at least, together.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Loops {
    /// Bytes that they read and write.
    pub bytes: f64,
    /// The operations that start them.
    pub started: Vec<OpId>,
    /// Of those, the ones whose results are written.
    pub written: Vec<OpId>,
    /// The operations that read values from memory.
    pub reads: Vec<(OpId, ValueId)>,
}

/// How many operations are looked at together as those that others lead to.
const TOGETHER: usize = 1 << 11;

fn is_arithmetic(kind: OpKind) -> bool {
    matches!(kind, OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_))
}

fn is_product(kind: OpKind) -> bool {
    matches!(kind, OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot | ContractOp::Convolution))
}

/// Whether an operation leads a group in every plan. What moves or spreads elements may join one.
fn leads(kind: OpKind) -> bool {
    is_product(kind) || kind == BodyOp::Reduce
}

/// Whether an operation only spreads its operand or gives it another shape.
fn passes_on(kind: OpKind) -> bool {
    matches!(kind, OpKind::Movement(MovementOp::Reshape | MovementOp::BroadcastInDim | MovementOp::Broadcast))
}

/// What the loops in `body` do at least.
pub(super) fn least(module: &Module, body: BlockId) -> Loops {
    least_by(module, body, TOGETHER)
}

/// The loops that read a value, and which of those looked at so far are apart from each other.
struct Reads {
    /// Ascending.
    loops: Vec<usize>,
    looked_at: usize,
    /// Ascending.
    apart: Vec<usize>,
}

/// As [`least`], with `together` operations at a time.
fn least_by(module: &Module, body: BlockId, together: usize) -> Loops {
    let ops = module.op_list(body);
    if ops.len() > MOST_OPS {
        return Loops::default();
    }
    let number: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
    let kind = |i: usize| module.op(ops[i]).kind();
    let readers = |v: ValueId| module.value(v).uses().iter().filter_map(|u| number.get(&u.op).copied());
    let results = ops.iter().flat_map(|&op| module.op(op).results());
    let values: Vec<ValueId> = module.block(body).args().iter().chain(results).copied().collect();
    let is_loop = |&i: &usize| is_arithmetic(kind(i)) || kind(i) == BodyOp::Reduce;
    let mut reads: Vec<Reads> = values
        .iter()
        .map(|&v| {
            let mut loops: Vec<usize> = readers(v).filter(is_loop).collect();
            loops.sort_unstable();
            Reads { loops, looked_at: 0, apart: vec![] }
        })
        .collect();
    let leads: Vec<bool> = (0..ops.len()).map(|i| leads(kind(i))).collect();
    let after: Vec<Vec<usize>> = (0..ops.len())
        .map(|i| {
            let mut all: Vec<usize> = module.op(ops[i]).results().iter().flat_map(|&v| readers(v)).collect();
            all.retain(|&r| r > i);
            all.sort_unstable();
            all.dedup();
            all
        })
        .collect();
    for from in (0..ops.len()).step_by(together) {
        let until = (from + together).min(ops.len());
        let behind = Behind::leaders(&after, &leads, from..until);
        for read in &mut reads {
            while let Some(&i) = read.loops.get(read.looked_at).filter(|&&i| i < until) {
                // Each of these is in another group than those before it.
                if read.apart.last().is_none_or(|&last| behind.has(last, i)) {
                    read.apart.push(i);
                }
                read.looked_at += 1;
            }
        }
    }
    let mut out = Loops::default();
    let mut starts = vec![false; ops.len()];
    for (&v, read) in values.iter().zip(&reads) {
        let Some(bytes) = bytes(module, v) else { continue };
        let maker = module.def_op(v);
        let asks = |i: usize| is_product(kind(i)) || kind(i).is_terminator();
        // What is computed on the way stays in a loop unless others ask for it.
        let (is_written, is_read) = match maker.map(|op| module.op(op).kind()) {
            Some(kind) if is_arithmetic(kind) => {
                let is_written = read.apart.len() > 1 || readers(v).any(asks);
                (is_written, is_written)
            }
            Some(kind) if is_product(kind) => (false, true),
            Some(kind) => (kind == BodyOp::Reduce, false),
            None => (false, true),
        };
        if is_written {
            out.bytes += bytes;
            out.written.extend(maker);
            maker.and_then(|op| number.get(&op)).into_iter().for_each(|&i| starts[i] = true);
        }
        if is_read {
            out.bytes += bytes * read.apart.len() as f64;
            out.reads.extend(read.apart.iter().map(|&i| (ops[i], v)));
        }
    }
    out.written.dedup();
    let is_arithmetic: Vec<bool> = (0..ops.len()).map(|i| is_arithmetic(kind(i))).collect();
    let passes_on: Vec<bool> = (0..ops.len()).map(|i| passes_on(kind(i))).collect();
    let is_product: Vec<bool> = (0..ops.len()).map(|i| is_product(kind(i))).collect();
    pieces::add(&after, &Kinds { is_arithmetic, passes_on, is_product }, &mut starts);
    out.started = ops.iter().zip(&starts).filter(|(_, starts)| **starts).map(|(&op, _)| op).collect();
    out
}

/// For each operation those of a range that a path leads to from it through one that leads a group, as bits.
struct Behind {
    from: usize,
    /// Words for each operation.
    words: usize,
    bits: Vec<u64>,
}

impl Behind {
    /// Looks at the operations of `range` only: what is read by operations behind it leads to none of it. So memory grows with the
    /// number of operations, not with its square.
    fn leaders(readers: &[Vec<usize>], leads: &[bool], range: Range<usize>) -> Behind {
        let (from, until, words) = (range.start, range.end, range.len().div_ceil(64));
        // All that a path leads to, and of these what one leads to through an operation that leads.
        let (mut after, mut behind) = (vec![0u64; until * words], vec![0u64; until * words]);
        for i in (0..until).rev() {
            let at = i * words;
            for &r in readers[i].iter().filter(|&&r| r < until) {
                let other = r * words;
                for w in 0..words {
                    let reached = after[other + w];
                    after[at + w] |= reached;
                    behind[at + w] |= if leads[r] { reached } else { behind[other + w] };
                }
                if r >= from {
                    after[at + (r - from) / 64] |= 1 << ((r - from) % 64);
                }
            }
            if leads[i] {
                behind[at..at + words].copy_from_slice(&after[at..at + words]);
            }
        }
        Behind { from, words, bits: behind }
    }

    /// Whether `to`, which is in the range, is behind `op`.
    fn has(&self, op: usize, to: usize) -> bool {
        let bit = to - self.from;
        self.bits[op * self.words + bit / 64] >> (bit % 64) & 1 == 1
    }
}

/// Bytes of an array.
fn bytes(module: &Module, v: ValueId) -> Option<f64> {
    let ty = module.ty(v).as_tensor()?;
    Some(ty.num_elements()? as f64 * ty.elem.storage_bytes() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Norms and products in turn, each of which reads what was before.
    #[test]
    fn operations_are_looked_at_a_few_at_a_time() {
        let (x, row) = ("tensor<32x32xf32>", "tensor<32xf32>");
        let mut body = String::from("%zero = stablehlo.constant dense<0.0> : tensor<f32>\n");
        let mut last = "%a".to_string();
        for i in 0..30 {
            body += &format!(
                "%s{i} = stablehlo.reduce({last} init: %zero) applies stablehlo.add across dimensions = [1] : ({x}, tensor<f32>) -> {row}
                 %b{i} = stablehlo.broadcast_in_dim %s{i}, dims = [0] : ({row}) -> {x}
                 %d{i} = stablehlo.divide {last}, %b{i} : {x}
                 %p{i} = stablehlo.dot_general %d{i}, %a, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
                 %r{i} = stablehlo.add %p{i}, {last} : {x}\n"
            );
            last = format!("%r{i}");
        }
        let text = format!("func.func @main(%a: {x}) -> {x} {{\n{body}return {last} : {x}\n}}");
        let module = meshwork_ir::text::parse(&text).unwrap_or_else(|d| panic!("{}", d.render("test", &text)));
        let body = module.entry().and_then(|func| module.body_of(func, 0)).expect("a body");
        let all = least(&module, body);
        assert!(all.started.len() >= 60 && all.bytes > 100.0 * 4096.0, "{all:?}");
        for together in [1, 7, 64, 100] {
            assert_eq!(least_by(&module, body, together), all, "{together} together");
        }
    }
}

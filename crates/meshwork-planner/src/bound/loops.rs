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

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BodyOp, ContractOp};
use meshwork_ir::{BlockId, Module, OpId, OpKind, ValueId};

/// Programs with more operations are not looked into: what follows from what takes memory in proportion to the square.
const MOST_OPS: usize = 1 << 15;

/// What the loops of all devices do at least, together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Loops {
    /// Bytes that they read and write.
    pub bytes: f64,
    /// How many start on each device.
    pub started: f64,
}

/// A set of numbers of operations.
#[derive(Clone)]
struct Set(Vec<u64>);

impl Set {
    fn add(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    fn has(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    fn join(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
    }
}

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

/// What the loops in `body` do at least.
pub(super) fn least(module: &Module, body: BlockId) -> Loops {
    let ops = module.op_list(body);
    if ops.len() > MOST_OPS {
        return Loops::default();
    }
    let number: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
    let behind = behind_leaders(module, &ops, &number);
    let kind = |i: usize| module.op(ops[i]).kind();
    let mut out = Loops::default();
    let mut count = |v: ValueId| {
        let Some(bytes) = bytes(module, v) else { return };
        let uses = module.value(v).uses();
        let readers = || uses.iter().filter_map(|u| number.get(&u.op).copied());
        let mut loops: Vec<usize> =
            readers().filter(|&i| is_arithmetic(kind(i)) || kind(i) == BodyOp::Reduce).collect();
        loops.sort_unstable();
        // Each of these is in another group than those before it.
        let (mut apart, mut last) = (0, None);
        for i in loops {
            if last.is_none_or(|last: usize| behind[last].has(i)) {
                (apart, last) = (apart + 1, Some(i));
            }
        }
        let maker = module.def_op(v).map(|op| module.op(op).kind());
        let is_asked_for = readers().any(|i| is_product(kind(i)) || kind(i).is_terminator());
        match maker {
            // What is computed on the way stays in a loop unless others ask for it.
            Some(kind) if is_arithmetic(kind) && (is_asked_for || apart > 1) => {
                out.bytes += bytes * (1 + apart) as f64;
                out.started += 1.0;
            }
            Some(kind) if is_product(kind) => out.bytes += bytes * apart as f64,
            Some(kind) if kind == BodyOp::Reduce => {
                out.bytes += bytes;
                out.started += 1.0;
            }
            None => out.bytes += bytes * apart as f64,
            Some(_) => {}
        }
    };
    module.block(body).args().iter().for_each(|&v| count(v));
    ops.iter().flat_map(|&op| module.op(op).results()).for_each(|&v| count(v));
    out
}

/// For each operation those that a path leads to from it through one that leads a group.
fn behind_leaders(module: &Module, ops: &[OpId], number: &HashMap<OpId, usize>) -> Vec<Set> {
    let none = Set(vec![0; ops.len().div_ceil(64)]);
    let (mut after, mut behind) = (vec![none.clone(); ops.len()], vec![none; ops.len()]);
    for i in (0..ops.len()).rev() {
        let mut readers: Vec<usize> = vec![];
        for &v in module.op(ops[i]).results() {
            readers.extend(module.value(v).uses().iter().filter_map(|u| number.get(&u.op).copied()));
        }
        readers.sort_unstable();
        readers.dedup();
        let (mut all, mut far) = (after[i].clone(), behind[i].clone());
        for r in readers.into_iter().filter(|&r| r > i) {
            all.add(r);
            all.join(&after[r]);
            far.join(if leads(module.op(ops[r]).kind()) { &after[r] } else { &behind[r] });
        }
        if leads(module.op(ops[i]).kind()) {
            far = all.clone();
        }
        (after[i], behind[i]) = (all, far);
    }
    behind
}

/// Bytes of an array.
fn bytes(module: &Module, v: ValueId) -> Option<f64> {
    let ty = module.ty(v).as_tensor()?;
    Some(ty.num_elements()? as f64 * ty.elem.storage_bytes() as f64)
}

//! Rows of the state are written as soon as nothing reads them any more, not at the end of a turn: a matrix that every turn changes has
//! more rows than there are registers, and what waits to be written would be put aside and fetched again.
//!
//! ```text
//! load r0; a = …; load r1; b = …; …; store r0 a; store r1 b     before
//! load r0; a = …; store r0 a; load r1; b = …; store r1 b; …     after
//! ```
//!
//! Whatever is written may have changed what was loaded before. So what a later operation wants of an array is loaded again there, and so
//! is what was written some time ago.

use crate::kernel::ir::{Op, Val};

/// Rows that are written from which on it is worth it.
const FEWEST: usize = 16;

/// Operations after which a value is no longer in a register.
const FAR: usize = 24;

/// Operations that are looked at: what is loaded again counts against the length of a body.
const MOST: usize = 16_000;

/// Where vectors are read and written as they are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Memory {
    /// A row of the state.
    Row(usize),
    /// Another array.
    Other,
}

/// `ops`, which run on lanes, and `stores` of their values at their places among them, or at the end. `memory` says what an argument is
/// of which vectors are read and written as they are.
pub(super) fn placed(ops: Vec<Op>, stores: Vec<Op>, memory: impl Fn(u16) -> Option<Memory>) -> Vec<Op> {
    let row = |arg: u16| match memory(arg) {
        Some(Memory::Row(row)) => Some(row),
        _ => None,
    };
    let moved = |op: &Op| match *op {
        Op::Store(arg, v) => row(arg).map(|row| (row, arg, v)),
        _ => None,
    };
    // What is stored as it was loaded stays what it was: rows that change places are all read before one of them is written.
    let moves = |op: &Op| matches!(*op, Op::Store(_, v) if matches!(ops[usize::from(v)], Op::Load(_)));
    if ops.len() > MOST || stores.iter().any(moves) || stores.iter().filter_map(moved).count() < FEWEST {
        return [ops, stores].concat();
    }
    // Where the loads of each row are last used.
    let mut read: Vec<usize> = vec![];
    let mut note = |v: Val, at: usize| {
        let Op::Load(arg) = ops[usize::from(v)] else { return };
        let Some(row) = row(arg) else { return };
        read.resize(read.len().max(row + 1), 0);
        read[row] = read[row].max(at);
    };
    for (at, op) in ops.iter().enumerate() {
        op.operands().for_each(|v| note(v, at));
    }
    let mut early: Vec<Vec<(u16, Val)>> = vec![vec![]; ops.len()];
    let mut late: Vec<Op> = vec![];
    for op in stores {
        match moved(&op) {
            Some((row, arg, v)) => early[read.get(row).copied().unwrap_or(0).max(v.into())].push((arg, v)),
            None => late.push(op),
        }
    }
    let mut list = List { out: Vec::with_capacity(2 * ops.len()), made: vec![], stores: 0, memory: &memory };
    for (at, (op, stores)) in ops.into_iter().zip(early).enumerate() {
        list.push(op);
        debug_assert_eq!(list.made.len(), at + 1, "every operation on lanes makes a value");
        stores.into_iter().for_each(|(arg, v)| list.push(Op::Store(arg, v)));
    }
    late.into_iter().for_each(|op| list.push(op));
    list.out
}

/// The operations in their new order.
struct List<M> {
    out: Vec<Op>,
    made: Vec<Made>,
    /// How many of them write.
    stores: usize,
    memory: M,
}

/// A value that was made.
struct Made {
    /// Its number now.
    number: Val,
    /// Where it was last used.
    used: usize,
    /// How many stores there were before it was made.
    stores: usize,
    /// The argument that it was loaded from as it is, or the row that it has been written to.
    loaded: Option<u16>,
    written: Option<u16>,
}

impl<M: Fn(u16) -> Option<Memory>> List<M> {
    fn push(&mut self, op: Op) {
        for v in op.operands() {
            let (at, made) = (self.out.len(), &mut self.made[usize::from(v)]);
            // A load must not be older than a store, and what was stored is in memory.
            let again = match made.loaded {
                Some(arg) => (made.stores != self.stores).then_some(arg),
                None => made.written.filter(|_| at - made.used > FAR),
            };
            if let Some(arg) = again {
                self.out.push(Op::Load(arg));
                (made.number, made.stores) = (at as Val, self.stores);
            }
            made.used = self.out.len();
        }
        let number = self.out.len() as Val;
        let loaded = match op {
            Op::Load(arg) => Some(arg).filter(|&arg| (self.memory)(arg).is_some()),
            _ => None,
        };
        self.out.push(op.map(|v| self.made[usize::from(v)].number));
        if let Op::Store(arg, v) = op {
            self.stores += 1;
            if matches!((self.memory)(arg), Some(Memory::Row(_))) {
                self.made[usize::from(v)].written = Some(arg);
            }
        } else {
            self.made.push(Made { number, used: self.out.len(), stores: self.stores, loaded, written: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ir::BinaryOp;

    /// Twenty computed carries beside others that change places in every turn.
    #[test]
    fn carries_that_change_places_beside_computed_ones() {
        use crate::compile::testing::check;
        use crate::turns::tests::looped;
        for lanes in [40, 100] {
            let ty = format!("tensor<{lanes}xf32>");
            for order in [
                vec!["%s2", "%s0", "%s1"],
                vec!["%s1", "%s0"],
                vec!["%s1", "%s2", "%s3", "%s0"],
                vec!["%n0", "%s0", "%s1"],
            ] {
                let name = |i: usize| if i < 20 { format!("c{i}") } else { format!("s{}", i - 20) };
                let names: Vec<(String, String)> = (0..20 + order.len()).map(|i| (name(i), format!("%a{i}"))).collect();
                let carries: Vec<(&str, &str, &str)> = names.iter().map(|(n, a)| (&n[..], &a[..], &ty[..])).collect();
                let args: Vec<String> = names.iter().map(|(_, a)| format!("{a}: {ty}")).collect();
                let last = order.len() - 1;
                let body: String = (0..20)
                    .map(|i| {
                        format!(
                            "%h{i} = stablehlo.multiply %c{i}, %half : {ty}
                             %n{i} = stablehlo.add %h{i}, %s{last} : {ty}\n"
                        )
                    })
                    .collect();
                let computed: Vec<String> = (0..20).map(|i| format!("%n{i}")).collect();
                let next: Vec<&str> = computed.iter().map(|n| &n[..]).chain(order).collect();
                let body = format!("%half = stablehlo.constant dense<0.5> : {ty}\n{body}");
                for turns in [1, 11] {
                    check(&looped(&args.join(", "), &carries, turns, &body, &next), 1e-5);
                }
            }
        }
    }

    #[test]
    fn rows_are_written_when_nothing_reads_them_any_more() {
        // Twenty rows grow by an input; the last operation wants the first row as it was, and as it is.
        let rows = 20u16;
        let mut ops = vec![Op::Load(2 * rows)];
        for row in 0..rows {
            ops.push(Op::Load(row));
            ops.push(Op::Binary(BinaryOp::Add, 2 * row + 1, 0));
        }
        ops.push(Op::Binary(BinaryOp::Add, 1, 2));
        let sum = ops.len() as Val - 1;
        let mut stores: Vec<Op> = (0..rows).map(|row| Op::Store(rows + row, 2 * row + 2)).collect();
        stores.push(Op::Store(2 * rows + 1, sum));
        let memory = |arg: u16| Some(if arg < 2 * rows { Memory::Row(usize::from(arg % rows)) } else { Memory::Other });
        let out = placed(ops.clone(), stores.clone(), memory);
        let at = |op: Op| out.iter().position(|&other| other == op).unwrap();
        // The second row is written before the third is read.
        let written = out.iter().position(|op| matches!(op, Op::Store(arg, _) if *arg == rows + 1)).unwrap();
        assert!(written < at(Op::Load(2)), "{out:?}");
        let first = out.iter().position(|op| matches!(op, Op::Store(arg, _) if *arg == rows)).unwrap();
        let last_read = out.iter().rposition(|op| *op == Op::Load(0)).unwrap();
        assert!(first > last_read, "{out:?}");
        assert_eq!(out.iter().filter(|op| matches!(op, Op::Store(..))).count(), stores.len());
        // A few rows stay as they are, and so do rows that only change places.
        let few = stores[..4].to_vec();
        assert_eq!(placed(ops.clone(), few.clone(), memory), [&ops[..], &few].concat());
        let moved = [&stores[..], &[Op::Store(rows, 3), Op::Store(rows + 1, 1)]].concat();
        assert_eq!(placed(ops.clone(), moved.clone(), memory), [ops, moved].concat());
    }
}

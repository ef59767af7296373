//! Numbers that one row leaves to the next, in kernels whose rows are turns of a loop: they stay in registers, so that a turn does
//! not wait for memory to give back what the last one wrote there.

use super::alloc::pressure;
use super::code::Unit;
use super::inst::{Form, Inst, NONE, V, Vex, op};
use crate::kernel::ir::{Access, Body};

/// Most numbers in registers.
const MOST: usize = 8;

/// Loads for before the first row, and the code of a row without them, whose last instructions move the next values into the
/// registers. Memory is written as before.
pub struct Carried {
    /// What is loaded once.
    pub loads: Vec<Inst>,
    /// The code of each row.
    pub row: Vec<Inst>,
    /// Values that have registers of their own.
    pub pinned: Vec<V>,
}

/// Finds such numbers in `insts`, the only phase of `body`, and gives them registers.
pub fn carry(body: &Body, insts: Vec<Inst>, unit: &mut Unit) -> Carried {
    let touches = |inst: &Inst, arg: u16| match *inst {
        Inst::Spread { arg: a, .. } | Inst::SpreadMask { arg: a, .. } | Inst::StoreOne { arg: a, .. } => a == arg,
        _ => false,
    };
    // Per number: where it is loaded, and what is stored.
    let mut found: Vec<(usize, V, V)> = vec![];
    for (i, inst) in insts.iter().enumerate() {
        let Inst::Spread { dst, arg, scale: 2.., shl: 0, place: NONE, disp: 0 } = *inst else { continue };
        let users: Vec<&Inst> = insts.iter().filter(|other| touches(other, arg)).collect();
        let stays = body.args[usize::from(arg)].access == Access::Fixed;
        if let (true, &[_, &Inst::StoreOne { src, place: NONE, disp: 0, .. }]) = (stays, &users[..]) {
            found.push((i, dst, src));
        }
    }
    // What moves on from another such number comes from memory, where the order of moves does not matter.
    let all: Vec<V> = found.iter().map(|f| f.1).collect();
    found.retain(|(_, _, src)| !all.contains(src));
    let room = 15usize.saturating_sub(pressure(&insts, &unit.values)).min(MOST);
    found.truncate(room);
    let loads: Vec<Inst> = found.iter().map(|&(i, ..)| insts[i]).collect();
    let is_load = |i: usize| found.iter().any(|f| f.0 == i);
    let mut row: Vec<Inst> = insts.iter().enumerate().filter(|(i, _)| !is_load(*i)).map(|(_, inst)| *inst).collect();
    for (r, &(_, dst, src)) in (0..16u8).rev().zip(&found) {
        unit.values[dst as usize].pin = Some(r);
        let (enc, form) = (op::MOVAPS, Form::Rm);
        row.push(Inst::Vex(Vex { enc, wide: true, form, dst, a: NONE, b: src, c: NONE, imm: None, read: 32 }));
    }
    Carried { loads, row, pinned: found.iter().map(|f| f.1).collect() }
}

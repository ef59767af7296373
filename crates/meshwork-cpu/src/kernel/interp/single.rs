//! Kernels on one element: a list of calls without tiles, rows or masks, for loops over a few numbers.

use super::loops::MapFn;
use super::{far, far_apart, table};
use crate::kernel::ir::{Body, Op, Ty, Val};
use crate::step::Scratch;

/// Longer code is better off on the lanes of a vector.
const LONGEST: usize = 40;
/// Arrays of a kernel that runs this way.
const MOST_ARGS: usize = 12;

/// The location of an operand: an offset in bytes from one of the base addresses, which are the registers, the constants and
/// the arguments in order.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Slot {
    base: u32,
    byte: u32,
}

const REGISTERS: u32 = 0;
const CONSTANTS: u32 = 1;
const ARGUMENTS: u32 = 2;

#[derive(Clone, Copy)]
struct Instr {
    f: MapFn,
    dst: Slot,
    src: [Slot; 3],
}

/// A kernel as a list of calls.
pub struct Single {
    code: Vec<Instr>,
    constants: Vec<u64>,
    /// Bytes of the registers.
    bytes: usize,
}

/// `body` for one element; `None` if it is long, has reductions, or reads after it writes.
pub fn build(body: &Body, types: &[Vec<Option<Ty>>]) -> Option<Single> {
    let count: usize = body.phases.iter().map(|p| p.ops.len()).sum();
    if count > LONGEST || body.args.len() > MOST_ARGS || !body.temps.is_empty() {
        return None;
    }
    let mut single = Single { code: vec![], constants: vec![], bytes: 0 };
    let mut scalars: Vec<Option<Slot>> = vec![None; usize::from(body.scalars)];
    let mut first_store: Option<usize> = None;
    for (phase, types) in body.phases.iter().zip(types) {
        let mut slots: Vec<Slot> = vec![];
        for (at, &op) in phase.ops.iter().enumerate() {
            let ty = |v: Val| types[usize::from(v)];
            let slot = |v: Val| slots[usize::from(v)];
            let nowhere = Slot { base: REGISTERS, byte: 0 };
            if first_store.is_some() && !matches!(op, Op::Store(..) | Op::Const(..) | Op::Scalar(..)) {
                return None;
            }
            let found = match op {
                Op::Const(_, bits) => {
                    single.constants.push(bits);
                    slots.push(Slot { base: CONSTANTS, byte: 8 * (single.constants.len() as u32 - 1) });
                    continue;
                }
                Op::Scalar(scalar, _) => {
                    slots.push(scalars[usize::from(scalar)]?);
                    continue;
                }
                Op::SetScalar(scalar, v) => {
                    scalars[usize::from(scalar)] = Some(slot(v));
                    slots.push(nowhere);
                    continue;
                }
                Op::Bitcast(_, v) => {
                    slots.push(slot(v));
                    continue;
                }
                Op::Store(arg, v) => {
                    let elem = body.args[usize::from(arg)].elem;
                    let f = table::store(elem).map_or_else(|| copy(elem.storage_bytes()), |f| Some(f.best()))?;
                    let dst = Slot { base: ARGUMENTS + u32::from(arg), byte: 0 };
                    let mut src = slot(v);
                    if src.base >= ARGUMENTS {
                        // It may be where something else is stored.
                        let before = *first_store.get_or_insert(single.code.len());
                        src = single.insert(before, copy(ty(v)?.size())?, [src; 3]);
                        first_store = Some(before + 1);
                    }
                    first_store.get_or_insert(single.code.len());
                    single.code.push(Instr { f, dst, src: [src; 3] });
                    slots.push(nowhere);
                    continue;
                }
                Op::Load(arg) => {
                    let src = Slot { base: ARGUMENTS + u32::from(arg), byte: 0 };
                    slots.push(match table::load(body.args[usize::from(arg)].elem) {
                        Some(f) => single.insert(single.code.len(), f.best(), [src; 3]),
                        None => src,
                    });
                    continue;
                }
                Op::LoadAt(..)
                | Op::StoreAt(..)
                | Op::LoadTemp(..)
                | Op::StoreTemp(..)
                | Op::Index(..)
                | Op::Reduce(..) => return None,
                Op::Unary(f, a) => table::unary(f, ty(a)?),
                Op::Binary(f, a, _) => table::binary(f, ty(a)?),
                Op::Compare(f, a, _) => Some(table::compare(f, ty(a)?)),
                Op::Select(_, a, _) => Some(table::select(ty(a)?.size())),
                Op::MulAdd(a, _, _) => table::mul_add(ty(a)?),
                Op::FarApart(f, a, ..) => far_apart(f, ty(a)?),
                Op::Far(f, a, _) => far(f, ty(a)?),
                Op::Convert(to, a) => Some(table::convert(ty(a)?, to)),
                Op::Round(elem, _) => table::round(elem),
            };
            debug_assert!(types[at].is_some());
            let mut src = [nowhere; 3];
            src.iter_mut().zip(op.operands()).for_each(|(s, v)| *s = slot(v));
            slots.push(single.insert(single.code.len(), found?.best(), src));
        }
    }
    Some(single)
}

impl Single {
    /// How many calls it is.
    pub fn calls(&self) -> usize {
        self.code.len()
    }

    /// A new register with what `f` gives, as instruction `at`.
    fn insert(&mut self, at: usize, f: MapFn, src: [Slot; 3]) -> Slot {
        let dst = Slot { base: REGISTERS, byte: self.bytes as u32 };
        self.bytes += 8;
        self.code.insert(at, Instr { f, dst, src });
        dst
    }

    /// Runs the kernel on its one element.
    ///
    /// # Safety
    /// As for [`Kernel::run`](crate::kernel::Kernel::run), with one row of one element; these are its arguments.
    #[inline]
    pub unsafe fn run(&self, ptrs: impl Iterator<Item = *mut u8>, scratch: &mut Scratch) {
        let mut bases = [scratch.get(self.bytes); ARGUMENTS as usize + MOST_ARGS];
        bases[CONSTANTS as usize] = self.constants.as_ptr().cast_mut().cast();
        bases[ARGUMENTS as usize..].iter_mut().zip(ptrs).for_each(|(b, p)| *b = p);
        // SAFETY: slots are inside the registers, the constants or the arguments' first elements; constants are no
        // targets.
        unsafe {
            let at = |s: Slot| bases[s.base as usize].add(s.byte as usize);
            for i in &self.code {
                (i.f)(at(i.dst), [at(i.src[0]), at(i.src[1]), at(i.src[2])], 1);
            }
        }
    }
}

/// Copies an element of `size` bytes.
fn copy(size: usize) -> Option<MapFn> {
    /// # Safety
    /// There is an element of type `T` at both addresses.
    unsafe fn one<T: Copy>(to: *mut u8, from: [*const u8; 3], _: usize) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<T>().write(from[0].cast::<T>().read()) }
    }
    Some(match size {
        1 => one::<u8>,
        2 => one::<u16>,
        4 => one::<u32>,
        8 => one::<u64>,
        _ => return None,
    })
}

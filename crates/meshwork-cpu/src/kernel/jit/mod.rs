//! The just-in-time compiler: kernels as x86-64 machine code with AVX2, FMA and F16C.
//!
//! `lower` turns operations into vector instructions on values without registers (`inst`, `code`, `arith`,
//! `convert`); `alloc` gives them registers and writes bytes through `asm`; `emit` builds the loops around them;
//! `memory` makes the bytes executable. What has no instructions here is left to the interpreter.

mod access;
mod alloc;
mod arith;
mod asm;
mod calls;
mod carried;
mod code;
mod convert;
mod emit;
mod fma;
mod inst;
mod lower;
pub(crate) mod memory;
mod moves;
mod routine;
mod sign;
mod ternary;
mod triple;
mod twice;

use super::Stores;
use super::interp::loops;
use super::ir::{Access, Body, Call, Flow, Ty};
use crate::step::Scratch;
use memory::MachineCode;

/// A compiled kernel.
#[derive(Debug)]
pub struct Compiled {
    code: MachineCode,
    function: emit::Function,
    /// Sizes of elements of the temporaries.
    temps: Vec<usize>,
    /// Stride along the row of each argument, where its access says it.
    strides: Vec<Option<isize>>,
}

/// Bytes of a vector.
const VECTOR: usize = 32;

/// What the frame of a call holds when the code starts, but for the pointers of arguments.
#[derive(Debug, Default)]
pub struct Prepared {
    /// Its first words, with zeros for pointers.
    words: Box<[i64]>,
    /// Bytes from its start to each temporary.
    temps: Box<[usize]>,
    /// Vectors of steps of an index, and their slots.
    lanes: Box<[(usize, [u8; VECTOR])]>,
    /// Its size with the temporaries.
    bytes: usize,
}

/// Lane `i` holds `i` steps of the index dimension of `step`, in elements of `1 << scale` bytes.
fn lanes(&(dim, scale, _): &(u8, u8, i32), call: &Call<'_>) -> [u8; VECTOR] {
    let by = call.index[usize::from(dim)][2];
    let mut bytes = [0; VECTOR];
    for (lane, room) in bytes.chunks_exact_mut(1 << scale).enumerate() {
        room.copy_from_slice(&by.wrapping_mul(lane as i64).to_le_bytes()[..1 << scale]);
    }
    bytes
}

/// Whether kernels are compiled: the processor can, and `MESHWORK_JIT` is not `0`.
pub fn available() -> bool {
    static ON: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| loops::wide() && std::env::var_os("MESHWORK_JIT").is_none_or(|v| v != "0"));
    *ON
}

/// Compiles `body`; `None` if something in it has no instructions, or there is no executable memory.
pub fn compile(body: &Body, types: &[Vec<Option<Ty>>], stores: Stores) -> Option<Compiled> {
    let function = emit::compile(body, types, stores)?;
    let code = memory::publish(&function.bytes)?;
    let strides = body.args.iter().map(|a| match a.access {
        Access::Unit | Access::Listed => Some(a.elem.storage_bytes() as isize),
        Access::Zero | Access::Fixed => Some(0),
        Access::Pair => Some(2 * a.elem.storage_bytes() as isize),
        Access::Triple => Some(3 * a.elem.storage_bytes() as isize),
        Access::Strided => None,
    });
    let temps = body.temps.iter().map(|ty| ty.size()).collect();
    Some(Compiled { code, strides: strides.collect(), temps, function })
}

/// Compiles `body`, whose phases run once, as `flow` says; `None` as for [`compile`].
pub fn compile_routine(body: &Body, types: &[Vec<Option<Ty>>], flow: &[Flow]) -> Option<Compiled> {
    let function = routine::compile(body, types, flow)?;
    let code = memory::publish(&function.bytes)?;
    Some(Compiled { code, strides: vec![], temps: vec![], function })
}

impl Compiled {
    /// Vectors in flight, per phase.
    pub fn interleave(&self) -> &[usize] {
        &self.function.interleave
    }

    /// Whether the numbers of this call are within what the code can do: indices that become floats pass through 32
    /// bits.
    pub fn can_run(&self, call: &Call<'_>) -> bool {
        let reach = |[start, per_row, per_element]: &[i64; 3]| {
            let far = |step: i64, n: usize| step.unsigned_abs().checked_mul(n as u64);
            let sum = far(*per_row, call.rows)?.checked_add(far(*per_element, call.n)?)?;
            sum.checked_add(start.unsigned_abs())
        };
        !self.function.float_index || call.index.iter().all(|d| reach(d).is_some_and(|far| far < 1 << 31))
    }

    /// What the frame of `call` holds when the code starts, but for the pointers of arguments; `None` if the code cannot do it.
    pub fn prepared(&self, call: &Call<'_>) -> Option<Prepared> {
        if !self.can_run(call) {
            return None;
        }
        let mut words = vec![call.rows as i64, call.n as i64];
        words.resize(2 + self.strides.len() + self.temps.len(), 0);
        words.extend(call.row_strides.iter().map(|&s| s as i64));
        words.extend(self.strides.iter().zip(call.strides).map(|(known, &given)| known.unwrap_or(given) as i64));
        words.extend(call.index.iter().take(self.function.dims).flatten());
        let mut bytes = self.function.frame;
        let mut temps = vec![];
        for size in &self.temps {
            temps.push(bytes);
            bytes += (size * call.n).next_multiple_of(64) + 64;
        }
        let lanes = self.function.steps.iter().map(|step| (step.2 as usize, lanes(step, call))).collect();
        Some(Prepared { words: words.into(), temps: temps.into(), lanes, bytes })
    }

    /// Runs the kernel on the call that `prepared` was made for, with these pointers.
    ///
    /// # Safety
    /// As for [`Kernel::run`](crate::kernel::Kernel::run).
    #[inline]
    pub unsafe fn run_prepared(&self, prepared: &Prepared, ptrs: impl Iterator<Item = *mut u8>, scratch: &mut Scratch) {
        let Prepared { words, temps, lanes, bytes } = prepared;
        let base = scratch.get(*bytes);
        // SAFETY: as for `run`: the same frame.
        unsafe {
            let frame = base.cast::<i64>();
            std::ptr::copy_nonoverlapping(words.as_ptr(), frame, words.len());
            for (i, p) in ptrs.enumerate() {
                frame.add(2 + i).write(p.expose_provenance() as i64);
            }
            for (i, &temp) in temps.iter().enumerate() {
                frame.add(2 + self.strides.len() + i).write(base.add(temp).addr() as i64);
            }
            for (slot, lanes) in lanes {
                base.add(*slot).cast::<[u8; VECTOR]>().write(*lanes);
            }
            base.expose_provenance();
            let run: extern "sysv64" fn(*mut u8) = std::mem::transmute(self.code.start());
            run(base);
        }
    }

    /// Runs the kernel.
    ///
    /// # Safety
    /// As for [`Kernel::run`](crate::kernel::Kernel::run), and [`can_run`](Compiled::can_run) holds.
    pub unsafe fn run(&self, call: &Call<'_>, scratch: &mut Scratch) {
        let temp_bytes: usize = self.temps.iter().map(|size| (size * call.n).next_multiple_of(64) + 64).sum();
        let base = scratch.get(self.function.frame + temp_bytes);
        // SAFETY: the frame is at the start of the scratch with the layout that the code was compiled for, the
        // temporaries behind it; the code stays inside them and inside the arguments by the caller's promise.
        unsafe {
            let words = base.cast::<i64>();
            words.write(call.rows as i64);
            words.add(1).write(call.n as i64);
            let mut word = 2;
            let mut put = |value: i64| {
                words.add(word).write(value);
                word += 1;
            };
            call.ptrs.iter().for_each(|p| put(p.addr() as i64));
            let mut at = base.add(self.function.frame);
            for size in &self.temps {
                put(at.addr() as i64);
                at = at.add((size * call.n).next_multiple_of(64) + 64);
            }
            call.row_strides.iter().for_each(|&s| put(s as i64));
            for (known, &given) in self.strides.iter().zip(call.strides) {
                put(known.unwrap_or(given) as i64);
            }
            call.index.iter().take(self.function.dims).flatten().for_each(|&v| put(v));
            for step in &self.function.steps {
                base.add(step.2 as usize).cast::<[u8; VECTOR]>().write(lanes(step, call));
            }
            // Pointers were exposed as numbers; the code reads and writes through them.
            call.ptrs.iter().for_each(|p| {
                p.expose_provenance();
            });
            base.expose_provenance();
            let run: extern "sysv64" fn(*mut u8) = std::mem::transmute(self.code.start());
            run(base);
        }
    }
}

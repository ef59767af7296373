//! The tile interpreter: each instruction runs over a tile of elements before the next one does.
//!
//! Runs everywhere and has every operation on every type. Values live in tiles in scratch memory, or stay where they
//! are in an argument when nothing can overwrite them before their last use. Values that are the same all along the
//! row are computed once per row (constants once per call) and spread over a tile.

mod build;
mod circle;
mod far;
pub(crate) mod loops;
mod reduce;
pub(crate) mod scalar;
pub mod single;
pub(super) mod table;

use crate::kernel::ir::{Call, Extent, Ty};
use crate::kernel::lanes::BLOCK;
use crate::step::Scratch;
use loops::MapFn;
use table::copy;

pub use far::{far, far_apart};

/// The number with these bits of type `from`, as the bits of a number of type `to`.
pub fn converted(from: Ty, to: Ty, bits: u64) -> u64 {
    let mut out = 0u64;
    let src = std::ptr::from_ref(&bits).cast();
    // SAFETY: one element at each pointer, of up to eight bytes, the low ones of a number.
    unsafe { (table::convert(from, to).plain)(std::ptr::from_mut(&mut out).cast(), [src; 3], 1) };
    out
}

/// Elements of a tile.
pub const TILE: usize = 1024;

/// The location of an operand.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In scratch, at this byte.
    Tile(usize),
    /// In an argument.
    Arg(u16),
    /// In a temporary, with this size of elements.
    Temp(u16, usize),
}

/// One instruction; sizes are those of an element.
#[derive(Clone, Copy)]
enum Instr {
    Const { dst: usize, bits: u64, size: usize },
    Scalar { dst: usize, scalar: u16, size: usize },
    Map { f: MapFn, dst: usize, src: [Place; 3] },
    Gather { arg: u16, size: usize, dst: usize },
    LoadAt { arg: u16, size: usize, at: Place, dst: usize },
    StoreAt { arg: u16, size: usize, at: Place, src: Place },
    Copy { dst: usize, src: Place, size: usize },
    Fill { dst: usize, size: usize },
    Index { dim: u8, ty: Ty, dst: usize },
    Store { arg: u16, f: Option<MapFn>, src: Place, tmp: usize, size: usize, unit: bool },
    StoreTemp { temp: u16, src: Place, size: usize },
    SetScalar { scalar: u16, src: Place, size: usize },
    Accumulate { reduction: usize, src: Place },
}

/// One reduction of a phase.
#[derive(Clone, Copy)]
struct Reduction {
    accumulate: MapFn,
    fold: MapFn,
    /// Bytes in scratch: accumulators, and those of the second level.
    acc: usize,
    second: usize,
    identity: u64,
    size: usize,
    /// Elements of a vector and of a group of vectors.
    lanes: usize,
    group: usize,
    blocks: bool,
    scalar: u16,
}

struct Code {
    extent: Extent,
    /// Once per row.
    uniform: Vec<Instr>,
    /// Per tile.
    tile: Vec<Instr>,
    reductions: Vec<Reduction>,
}

/// A kernel made ready for the interpreter.
pub struct Program {
    /// Once per call.
    constants: Vec<Instr>,
    phases: Vec<Code>,
    /// Sizes of elements of the temporaries.
    temps: Vec<usize>,
    /// Byte in scratch of the scalars, 8 bytes each.
    scalars: usize,
    /// The arguments whose rows are listed.
    listed: Box<[bool]>,
    /// Bytes of scratch without temporaries.
    bytes: usize,
}

pub use build::build;

/// What instructions need to know of the call and where it stands.
struct State<'a> {
    call: &'a Call<'a>,
    base: *mut u8,
    scalars: usize,
    /// The arguments whose rows are listed.
    listed: &'a [bool],
    /// Bytes in scratch of the temporaries.
    temps: &'a [usize],
    row: isize,
    /// First element of the tile.
    at: usize,
}

impl Program {
    /// Runs the kernel.
    ///
    /// # Safety
    /// As for [`Kernel::run`](crate::kernel::Kernel::run).
    pub unsafe fn run(&self, call: &Call<'_>, scratch: &mut Scratch) {
        let mut bytes = self.bytes;
        let mut temps = [0; 64];
        let mut spill = vec![];
        let temps = if self.temps.len() <= temps.len() {
            &mut temps[..self.temps.len()]
        } else {
            spill.resize(self.temps.len(), 0);
            &mut spill[..]
        };
        for (offset, size) in temps.iter_mut().zip(&self.temps) {
            *offset = bytes;
            bytes += (size * call.n).next_multiple_of(64);
        }
        let base = scratch.get(bytes);
        let mut state = State { call, base, scalars: self.scalars, listed: &self.listed, temps, row: 0, at: 0 };
        // SAFETY: instructions stay inside the scratch they were laid out for, and inside the arguments by the
        // caller's promise.
        unsafe {
            let longest = call.n.clamp(1, TILE);
            self.constants.iter().for_each(|&i| state.step(i, longest));
            for row in 0..call.rows {
                state.row = row as isize;
                for code in &self.phases {
                    state.phase(code);
                }
            }
        }
    }
}

impl State<'_> {
    /// Runs a phase on the present row.
    unsafe fn phase(&mut self, code: &Code) {
        // SAFETY: as for `Program::run`.
        unsafe {
            self.at = 0;
            let n = self.call.n;
            if code.extent == Extent::Once {
                code.uniform.iter().for_each(|&i| self.step(i, 1));
                return;
            }
            code.uniform.iter().for_each(|&i| self.step(i, n.clamp(1, TILE)));
            for r in &code.reductions {
                self.reset(r, r.acc);
                self.reset(r, r.second);
            }
            while self.at < n {
                let m = (n - self.at).min(TILE);
                for &instr in &code.tile {
                    match instr {
                        Instr::Accumulate { reduction, src } => {
                            let r = &code.reductions[reduction];
                            let shape = [r.lanes, r.group].map(std::ptr::without_provenance);
                            (r.accumulate)(self.base.add(r.acc), [self.place(src), shape[0], shape[1]], m);
                        }
                        other => self.step(other, m),
                    }
                }
                self.at += m;
                if self.at.is_multiple_of(BLOCK) {
                    for r in code.reductions.iter().filter(|r| r.blocks) {
                        self.fold(r, r.second, r.acc, r.group);
                        self.reset(r, r.acc);
                    }
                }
            }
            for r in &code.reductions {
                if r.blocks {
                    self.fold(r, r.acc, r.second, r.group);
                }
                let mut group = r.group;
                while group > 1 {
                    group /= 2;
                    self.fold(r, r.acc, r.acc + group * r.size, group);
                }
                std::ptr::copy(self.base.add(r.acc), self.scalar(r.scalar), r.size);
            }
        }
    }

    unsafe fn reset(&self, r: &Reduction, at: usize) {
        // SAFETY: the accumulators are inside scratch.
        unsafe {
            let acc = self.base.add(at);
            std::ptr::copy(r.identity.to_le_bytes().as_ptr(), acc, r.size);
            copy::fill(acc, r.size, r.group);
        }
    }

    unsafe fn fold(&self, r: &Reduction, into: usize, from: usize, n: usize) {
        // SAFETY: both are `n` accumulators inside scratch that do not overlap.
        unsafe {
            let from = self.base.add(from).cast_const();
            (r.fold)(self.base.add(into), [from, from, from], n);
        }
    }

    unsafe fn scalar(&self, scalar: u16) -> *mut u8 {
        // SAFETY: the scalars are inside scratch.
        unsafe { self.base.add(self.scalars + 8 * usize::from(scalar)) }
    }

    /// Where argument `arg` has the first element of the tile.
    unsafe fn arg(&self, arg: u16) -> *mut u8 {
        let k = usize::from(arg);
        let (step, along) = (self.call.row_strides[k], self.call.strides[k] * self.at as isize);
        // SAFETY: inside the argument, or the list of its rows, by the caller's promise.
        unsafe {
            if self.listed[k] && self.row > 0 {
                let list = std::ptr::with_exposed_provenance::<*mut u8>(step as usize);
                return list.offset(self.row - 1).read().offset(along);
            }
            let row = if self.listed[k] { 0 } else { step * self.row };
            self.call.ptrs[k].offset(row + along)
        }
    }

    unsafe fn temp(&self, temp: u16, size: usize) -> *mut u8 {
        // SAFETY: the temporaries hold `n` elements each.
        unsafe { self.base.add(self.temps[usize::from(temp)] + self.at * size) }
    }

    unsafe fn place(&self, place: Place) -> *const u8 {
        // SAFETY: as for the three kinds of memory.
        unsafe {
            match place {
                Place::Tile(at) => self.base.add(at),
                Place::Arg(arg) => self.arg(arg),
                Place::Temp(temp, size) => self.temp(temp, size),
            }
        }
    }

    /// Runs one instruction on `n` elements.
    unsafe fn step(&self, instr: Instr, n: usize) {
        // SAFETY: the places hold `n` elements of the sizes that the instruction was made for.
        unsafe {
            match instr {
                Instr::Const { dst, bits, size } => {
                    let dst = self.base.add(dst);
                    std::ptr::copy(bits.to_le_bytes().as_ptr(), dst, size);
                    copy::fill(dst, size, n);
                }
                Instr::Scalar { dst, scalar, size } => {
                    std::ptr::copy(self.scalar(scalar), self.base.add(dst), size);
                }
                Instr::Map { f, dst, src } => f(self.base.add(dst), src.map(|p| self.place(p)), n),
                Instr::Gather { arg, size, dst } => {
                    let stride = self.call.strides[usize::from(arg)];
                    copy::gather(self.base.add(dst), self.arg(arg), stride, size, n);
                }
                Instr::LoadAt { arg, size, at, dst } => {
                    let (places, from) = (self.place(at).cast::<i32>(), self.arg(arg));
                    for i in 0..n {
                        let byte = places.add(i).read_unaligned() as usize;
                        std::ptr::copy(from.add(byte), self.base.add(dst + i * size), size);
                    }
                }
                Instr::StoreAt { arg, size, at, src } => {
                    let byte = self.place(at).cast::<i32>().read_unaligned() as usize;
                    std::ptr::copy(self.place(src), self.arg(arg).add(byte), size);
                }
                Instr::Copy { dst, src, size } => std::ptr::copy(self.place(src), self.base.add(dst), n * size),
                Instr::Fill { dst, size } => copy::fill(self.base.add(dst), size, n),
                Instr::Index { dim, ty, dst } => {
                    let [start, per_row, per_element] = self.call.index[usize::from(dim)];
                    let first = start
                        .wrapping_add(per_row.wrapping_mul(self.row as i64))
                        .wrapping_add(per_element.wrapping_mul(self.at as i64));
                    index(self.base.add(dst), ty, first, per_element, n);
                }
                Instr::Store { arg, f, src, tmp, size, unit } => {
                    let (to, from) = (self.arg(arg), self.place(src));
                    match (f, unit) {
                        (None, true) => std::ptr::copy(from, to, n * size),
                        (Some(f), true) => f(to, [from; 3], n),
                        (None, false) => copy::scatter(to, from, self.call.strides[usize::from(arg)], size, n),
                        (Some(f), false) => {
                            let tmp = self.base.add(tmp);
                            f(tmp, [from; 3], n);
                            copy::scatter(to, tmp, self.call.strides[usize::from(arg)], size, n);
                        }
                    }
                }
                Instr::StoreTemp { temp, src, size } => {
                    std::ptr::copy(self.place(src), self.temp(temp, size), n * size);
                }
                Instr::SetScalar { scalar, src, size } => {
                    std::ptr::copy(self.place(src), self.scalar(scalar), size);
                }
                // Only in the tiles of a phase over the row, which handles it.
                Instr::Accumulate { .. } => {}
            }
        }
    }
}

/// `first + i * step` for `n` elements, as numbers of type `ty`.
unsafe fn index(dst: *mut u8, ty: Ty, first: i64, step: i64, n: usize) {
    macro_rules! numbers {
        ($t:ty) => {{
            // SAFETY: a tile has room for `n` elements.
            let dst = unsafe { std::slice::from_raw_parts_mut(dst.cast::<$t>(), n) };
            let mut at = first;
            for d in dst {
                *d = at as $t;
                at = at.wrapping_add(step);
            }
        }};
    }
    match ty {
        Ty::Pred | Ty::U8 => numbers!(u8),
        Ty::I8 => numbers!(i8),
        Ty::I16 => numbers!(i16),
        Ty::U16 => numbers!(u16),
        Ty::I32 => numbers!(i32),
        Ty::U32 => numbers!(u32),
        Ty::I64 => numbers!(i64),
        Ty::U64 => numbers!(u64),
        Ty::F32 => numbers!(f32),
        Ty::F64 => numbers!(f64),
    }
}

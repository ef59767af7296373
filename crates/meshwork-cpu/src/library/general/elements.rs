//! Elementwise operations on types that fused loops do not have, and `map` with any body: element after element.

use std::sync::Arc;

use meshwork_eval::scalar::{ScalarOp, apply};
use meshwork_ir::op::MixedOp;
use meshwork_ir::{ElementType, OpId, OpKind, Scalar};

use super::element::{load, of_bits, store};
use super::machine::Machine;
use super::{SCALAR_BODY, complex};
use crate::compile::lower::Lower;
use crate::library::copy::{spread, view_of};
use crate::library::nest::{Nest, parts_of, piece, walk};
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// How one row of elements is computed: `n` elements of the result, of which `at` has the first byte and `step` the bytes
/// between two, and the same for each operand.
pub(super) enum Row {
    /// A loop for these types.
    Loop(complex::Loop),
    /// Bytes of the result for each byte of the operand.
    Table(Vec<u8>),
    /// Elements moved as they are stored, by a predicate.
    Select,
    Apply(ScalarOp),
    Body(Machine),
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Row::Loop(_) => "Loop",
            Row::Table(_) => "Table",
            Row::Select => "Select",
            Row::Apply(_) => "Apply",
            Row::Body(_) => "Body",
        })
    }
}

/// At most this many operands have places of their own in the nest, after the result.
const OPERANDS: usize = 7;

#[derive(Debug)]
struct Elements {
    row: Row,
    bufs: Vec<Buf>,
    elems: Vec<ElementType>,
    starts: [isize; OPERANDS + 1],
    nest: Nest<{ OPERANDS + 1 }>,
    parts: usize,
}

impl Work for Elements {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let each = match &self.row {
            Row::Loop(_) | Row::Table(_) => 1,
            Row::Select => 2,
            Row::Apply(_) => 15,
            Row::Body(machine) => 15 * machine.len() as u64,
        };
        self.nest.len() as u64 * each
    }

    fn slowness(&self) -> Option<&'static str> {
        match &self.row {
            Row::Loop(_) | Row::Table(_) | Row::Select => None,
            Row::Apply(_) => Some("computes one element at a time"),
            Row::Body(_) => Some(SCALAR_BODY),
        }
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mut dims = self.nest.dims.clone();
        let mut at = self.starts;
        // Parts divide the longest dimension.
        if let Some(d) = (0..dims.len()).max_by_key(|&d| dims[d]) {
            let range = piece(dims[d], self.parts, part, 1);
            for (at, step) in at.iter_mut().zip(self.nest.strides[d]) {
                *at += range.start as isize * step;
            }
            dims[d] = range.len();
        }
        if dims.contains(&0) {
            return Ok(());
        }
        let (n, outer) = dims.split_last().map_or((1, &[][..]), |(&n, outer)| (n, outer));
        let steps = self.nest.strides.last().copied().unwrap_or_default();
        let size = self.elems[0].storage_bytes();
        let mut registers = match &self.row {
            // SAFETY: the step names what the body reads.
            Row::Body(machine) => unsafe { machine.start(frame) },
            _ => vec![],
        };
        let mut bases = [std::ptr::null_mut::<u8>(); OPERANDS + 1];
        bases.iter_mut().zip(&self.bufs).for_each(|(base, &buf)| *base = frame.ptr(buf));
        walk(outer, &self.nest.strides[..outer.len()], at, &mut |at| {
            // SAFETY: in the whole closure: the nest names elements of the buffers only.
            unsafe {
                let place = |k: usize, i: usize| bases[k].offset(at[k] + i as isize * steps[k]);
                let read = |k: usize, i: usize| load(place(k, i), self.elems[k]);
                match &self.row {
                    Row::Loop(f) => f(place(0, 0), steps[0], [place(1, 0), place(2, 0)], [steps[1], steps[2]], n),
                    Row::Table(table) => {
                        for i in 0..n {
                            let from = table.as_ptr().add(usize::from(place(1, i).read()) * size);
                            match size {
                                1 => place(0, i).write(from.read()),
                                2 => place(0, i).cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
                                4 => place(0, i).cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
                                _ => std::ptr::copy_nonoverlapping(from, place(0, i), size),
                            }
                        }
                    }
                    Row::Select => {
                        let (from, by) = ([1, 2, 3].map(|k| place(k, 0).cast_const()), [steps[1], steps[2], steps[3]]);
                        match size {
                            8 => choose::<u64>(place(0, 0), steps[0], from, by, n),
                            16 => choose::<u128>(place(0, 0), steps[0], from, by, n),
                            _ => {
                                for i in 0..n {
                                    let from = if place(1, i).read() != 0 { place(2, i) } else { place(3, i) };
                                    std::ptr::copy_nonoverlapping(from, place(0, i), size);
                                }
                            }
                        }
                    }
                    Row::Apply(op) => {
                        let mut given = [Scalar::Bool(false); 3];
                        for i in 0..n {
                            for k in 1..self.bufs.len() {
                                given[k - 1] = read(k, i);
                            }
                            store(place(0, i), self.elems[0], apply(op, &given));
                        }
                    }
                    Row::Body(machine) => {
                        for i in 0..n {
                            for k in 1..self.bufs.len() {
                                registers[k - 1] = read(k, i);
                            }
                            machine.call(&mut registers);
                            store(place(0, i), self.elems[0], machine.result(0, &registers));
                        }
                    }
                }
            }
        });
        Ok(())
    }
}

/// Of `n` pairs of elements, the first where the predicate, which is the first of `from`, holds.
///
/// # Safety
/// All elements named are valid.
unsafe fn choose<T: Copy>(to: *mut u8, step: isize, from: [*const u8; 3], by: [isize; 3], n: usize) {
    let size = size_of::<T>() as isize;
    let one = |i: isize, step: isize, by: [isize; 3]| {
        // SAFETY: the caller's.
        unsafe {
            let [p, x, y] = [0, 1, 2].map(|k| from[k].offset(i * by[k]));
            let (x, y) = (x.cast::<T>().read_unaligned(), y.cast::<T>().read_unaligned());
            to.offset(i * step).cast::<T>().write_unaligned(if p.read() != 0 { x } else { y });
        }
    };
    // With distances that are known when this is compiled, it becomes a loop over vectors.
    if step == size && by == [1, size, size] {
        (0..n as isize).for_each(|i| one(i, size, [1, size, size]));
    } else {
        (0..n as isize).for_each(|i| one(i, step, by));
    }
}

/// The bytes of the result of `op` for each byte of its operand.
fn table(op: &ScalarOp) -> Vec<u8> {
    let size = op.result().storage_bytes();
    let mut out = vec![0; 256 * size];
    for byte in 0..256 {
        let value = apply(op, &[of_bits(byte as u64, op.arg())]);
        // SAFETY: there are `size` bytes for each value of a byte.
        unsafe { store(out.as_mut_ptr().add(byte * size), op.result(), value) };
    }
    out
}

/// Adds the step for an elementwise operation.
pub(in crate::library) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let Ok(decoded) = ScalarOp::decode(cx.module, op) else { return Ok(false) };
    let row = if data.kind() == OpKind::Mixed(MixedOp::Select) {
        Row::Select
    } else if let Some(f) = complex::loop_of(data.kind(), data.enum_value("comparison_direction"), &decoded) {
        Row::Loop(f)
    } else if decoded.arity() == 1 && decoded.arg().storage_bytes() == 1 {
        Row::Table(table(&decoded))
    } else {
        Row::Apply(decoded)
    };
    add(cx, op, row)
}

/// `stablehlo.map`.
pub(in crate::library) fn map(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let Some(block) = cx.module.body_of(op, 0) else { return Ok(false) };
    match Machine::new(cx.module, block, &|v| cx.view(v).cloned()) {
        Some(machine) if data.operands().len() <= OPERANDS => add(cx, op, Row::Body(machine)),
        _ => Ok(false),
    }
}

fn add(cx: &mut Lower<'_>, op: OpId, row: Row) -> Result<bool, String> {
    let data = cx.module.op(op);
    let result = data.results()[0];
    let (elem, dims) = cx.shape(result);
    let to = View::dense(cx.result(result), elem, &dims);
    let mut views = vec![to.clone()];
    for &operand in data.operands() {
        let view = view_of(cx, operand)?;
        // Bounds and predicates may be scalars.
        let spread = view.dims.is_empty() && !dims.is_empty();
        views.push(if spread { self::spread(view.buf, view.offset, view.elem, &dims) } else { view });
    }
    let still = vec![0; dims.len()];
    let strides: [&[i64]; OPERANDS + 1] = std::array::from_fn(|k| views.get(k).map_or(&still[..], |v| &v.strides[..]));
    let nest = Nest::new(&dims, strides);
    let longest = nest.dims.iter().copied().max().unwrap_or(1).max(1);
    let cheap =
        matches!(row, Row::Loop(_) | Row::Table(_)) || (matches!(row, Row::Select) && elem.storage_bytes() >= 8);
    let parts = parts_of(nest.len(), if cheap { 1 << 15 } else { 1 << 11 }, longest);
    let mut reads: Vec<Buf> = views[1..].iter().map(|v| v.buf).collect();
    if let Row::Body(machine) = &row {
        reads.extend(machine.reads());
    }
    let how = if cheap { "" } else { "scalar " };
    let name = format!("{how}{} {elem} {dims:?}", data.kind().name().trim_start_matches("stablehlo."));
    let work = Elements {
        row,
        bufs: views.iter().map(|v| v.buf).collect(),
        elems: views.iter().map(|v| v.elem).collect(),
        starts: std::array::from_fn(|k| views.get(k).map_or(0, |v| v.offset as isize)),
        nest,
        parts,
    };
    cx.step(op, name, Arc::new(work), reads, vec![to.buf]);
    Ok(true)
}

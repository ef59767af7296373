//! The largest or smallest element and its position, as `argmax` and `argmin` ask for them.

use std::sync::Arc;

use meshwork_ir::op::{BinaryOp, MixedOp};
use meshwork_ir::{Attr, BlockId, ElementClass, ElementType, Module, OpId, OpKind, ValueId};

use super::copy::view_of;
use super::nest::{MOST_PARTS, Nest, parts_of, piece, walk};
use super::num::{Bf16, Element, F16};
use super::transpose::{Planes, transpose};
use crate::compile::lower::Lower;
#[cfg(target_arch = "x86_64")]
use crate::kernel::interp::loops::wide;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// Which element wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Largest,
    Smallest,
}

/// Keeps the winner `(value, position)` of pairs: a NaN wins, of equal values the lower position does.
struct Extreme {
    values: (Buf, isize),
    places: (Buf, isize),
    inits: [(Buf, isize); 2],
    out: [Buf; 2],
    value_size: usize,
    place_size: usize,
    loops: Loops,
    which: Which,
    flip: u64,
    /// Operands: result number, values, positions.
    kept: Nest<3>,
    reduced: Nest<2>,
    parts: usize,
}

impl std::fmt::Debug for Extreme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {:?} over {:?}", self.which, self.kept.dims, self.reduced.dims)
    }
}

impl Work for Extreme {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.kept.len() * (self.reduced.len() + 5)) as u64 / 2
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mut dims = self.kept.dims.clone();
        let mut at = [0, self.values.1, self.places.1];
        if let Some(d) = (0..dims.len()).max_by_key(|&d| dims[d]) {
            let has_neighbors = d + 1 == dims.len() && self.kept.strides[d][1] == self.value_size as isize;
            let range = piece(dims[d], self.parts, part, if has_neighbors { COLUMNS } else { 1 });
            for i in 0..3 {
                at[i] += range.start as isize * self.kept.strides[d][i];
            }
            dims[d] = range.len();
        }
        if dims.contains(&0) {
            return Ok(());
        }
        // Neighbors in the result are done together.
        let (n, outer) = dims.split_last().map_or((1, &[][..]), |(&n, outer)| (n, outer));
        let [_, by, by_place] = self.kept.strides.last().copied().unwrap_or_default();
        // SAFETY: in the whole function: the nests name elements of the buffers only.
        unsafe {
            let (values, places) = (frame.ptr(self.values.0).cast_const(), frame.ptr(self.places.0).cast_const());
            let init = self.inits.map(|(buf, at)| frame.ptr(buf).offset(at).cast_const());
            walk(outer, &self.kept.strides[..outer.len()], at, &mut |[o, v, p]| {
                for first in (0..n).step_by(COLUMNS) {
                    let count = COLUMNS.min(n - first);
                    let skipped = first as isize;
                    let to = [0, 1].map(|i| {
                        let size = if i == 0 { self.value_size } else { self.place_size };
                        frame.ptr(self.out[i]).add((o as usize + first) * size)
                    });
                    let columns = Columns {
                        values: (values.offset(v + skipped * by), by),
                        places: (places.offset(p + skipped * by_place), by_place),
                        init,
                        to,
                        count,
                    };
                    (self.loops)(&columns, &self.reduced, self.flip);
                }
            });
        }
        Ok(())
    }
}

/// Results that are computed together.
const COLUMNS: usize = 128;

/// The winners of `count` columns of pairs.
struct Columns {
    /// The first element, and the bytes from one column to the next.
    values: (*const u8, isize),
    places: (*const u8, isize),
    init: [*const u8; 2],
    to: [*mut u8; 2],
    count: usize,
}

/// Finds the winners of columns along a nest, of values whose bits are flipped by this.
///
/// # Safety
/// All elements named are valid.
type Loops = unsafe fn(&Columns, &Nest<2>, u64);

/// How values are compared. All of them are read as bits, some of which are flipped so that the largest wins: a sign bit makes
/// signed numbers of unsigned ones and the largest float of the smallest, all bits do so for integers. Eight ways of
/// comparing then serve twelve types and both extremes.
trait Order {
    type Bits: Copy + std::ops::BitXor<Output = Self::Bits>;
    /// They are compared as this.
    type Number: Copy + PartialOrd;
    fn number(bits: Self::Bits) -> Self::Number;
    /// The low bits.
    fn bits(flip: u64) -> Self::Bits;
}

macro_rules! orders {
    ($($name:ident $bits:ty => $number:ty, |$x:ident| $compared:expr;)*) => {$(
        struct $name;

        impl Order for $name {
            type Bits = $bits;
            type Number = $number;
            #[inline(always)]
            fn number($x: $bits) -> $number {
                $compared
            }
            fn bits(flip: u64) -> $bits {
                flip as $bits
            }
        }
    )*};
}
orders! {
    Bytes u8 => i8, |x| x.cast_signed();
    Shorts u16 => i16, |x| x.cast_signed();
    Words u32 => i32, |x| x.cast_signed();
    Longs u64 => i64, |x| x.cast_signed();
    Bfloats u16 => f32, |x| Element::<f32>::load(Bf16, x);
    Halves u16 => f32, |x| Element::<f32>::load(F16, x);
    Singles u32 => f32, |x| f32::from_bits(x);
    Doubles u64 => f64, |x| f64::from_bits(x);
}

/// The bits to flip, so that the largest number wins.
fn flipped(elem: ElementType, which: Which) -> u64 {
    let sign = 1 << (8 * elem.storage_bytes() - 1);
    let (signed, reversed) = match elem.class() {
        ElementClass::Float => (0, sign),
        ElementClass::Signed => (0, !0),
        _ => (sign, !0),
    };
    match which {
        Which::Largest => signed,
        Which::Smallest => signed ^ reversed,
    }
}

/// # Safety
/// As [`Loops`].
#[inline(always)]
unsafe fn winners<V: Order, P: Copy + PartialOrd>(c: &Columns, reduced: &Nest<2>, flip: u64) {
    let flip = V::bits(flip);
    let unit = size_of::<V::Bits>() as isize;
    // SAFETY: in the whole function: the caller's.
    unsafe {
        let init = (c.init[0].cast::<V::Bits>().read_unaligned() ^ flip, c.init[1].cast::<P>().read_unaligned());
        let one_line = reduced.dims.len() == 1 && reduced.strides[0][0] == unit;
        if c.values.1 == unit
            && (4..=FEW_COLUMNS).contains(&c.count)
            && [0, size_of::<P>() as isize].contains(&c.places.1)
        {
            // The best so far stay in registers.
            match c.count {
                ..8 => few_columns::<V, P, 4>(c, reduced, init, flip),
                _ => few_columns::<V, P, 8>(c, reduced, init, flip),
            }
            return;
        }
        if c.values.1 == unit && !(one_line && c.count == 1) {
            // Columns are neighbors: each row of the nest is compared with the best so far. The better ones are stored elsewhere:
            // in place they would be masked stores, which take some processors tens of cycles.
            let mut pairs = [([init.0; COLUMNS], [init.1; COLUMNS]); 2];
            let [best, better] = &mut pairs;
            let (mut best, mut better) = (best, better);
            let mut rows = Rows::new(reduced);
            while let Some(([v, p], step, count)) = rows.next() {
                for k in 0..count as isize {
                    let x = c.values.0.offset(v + k * step[0]).cast::<V::Bits>();
                    let i = (c.places.0.offset(p + k * step[1]), c.places.1);
                    let (values, places) = (&mut better.0[..c.count], &mut better.1[..c.count]);
                    compare_row::<V, P>(&best.0[..c.count], &best.1[..c.count], (x, flip), i, values, places);
                    std::mem::swap(&mut best, &mut better);
                }
            }
            for j in 0..c.count {
                c.to[0].cast::<V::Bits>().add(j).write_unaligned(best.0[j] ^ flip);
                c.to[1].cast::<P>().add(j).write_unaligned(best.1[j]);
            }
            return;
        }
        if one_line && c.count >= LEAST_TURNED && (2..=MOST_TURNED).contains(&reduced.dims[0]) {
            return turned::<V, P>(c, reduced.dims[0], reduced.strides[0][1], (init, flip));
        }
        for j in 0..c.count {
            let (x, i) = (c.values.0.offset(j as isize * c.values.1), c.places.0.offset(j as isize * c.places.1));
            let fast = if one_line {
                let (x, places) = (x.cast(), (i, reduced.strides[0][1]));
                match reduced.dims[0] {
                    n @ ..64 => line::<V, P, 8>((x, flip), places, n, init),
                    n => line::<V, P, 32>((x, flip), places, n, init),
                }
            } else {
                None
            };
            let best = fast.unwrap_or_else(|| {
                let mut best = init;
                walk(&reduced.dims, &reduced.strides, [0, 0], &mut |[v, p]| {
                    let pair = (
                        x.offset(v).cast::<V::Bits>().read_unaligned() ^ flip,
                        i.offset(p).cast::<P>().read_unaligned(),
                    );
                    best = winner::<V, P>(best, pair);
                });
                best
            });
            c.to[0].cast::<V::Bits>().add(j).write_unaligned(best.0 ^ flip);
            c.to[1].cast::<P>().add(j).write_unaligned(best.1);
        }
    }
}

/// Columns that are done a few at a time, each few for all rows.
const FEW_COLUMNS: usize = 32;

/// The winners of at least `LANES` columns, neighbors that are done `LANES` at a time. The last of them may overlap the ones before.
///
/// # Safety
/// As [`Loops`]; positions of a row are one or neighbors.
#[inline(always)]
unsafe fn few_columns<V: Order, P: Copy + PartialOrd, const LANES: usize>(
    c: &Columns,
    reduced: &Nest<2>,
    init: (V::Bits, P),
    flip: V::Bits,
) {
    let mut first = 0;
    // SAFETY: in the whole function: the caller's.
    unsafe {
        loop {
            let (x, i) = (c.values.0.cast::<V::Bits>().add(first), c.places.0.offset(first as isize * c.places.1));
            let (mut best, mut places) = ([init.0; LANES], [init.1; LANES]);
            let mut rows = Rows::new(reduced);
            while let Some(([v, p], step, count)) = rows.next() {
                for k in 0..count as isize {
                    let x = x.byte_offset(v + k * step[0]);
                    let i = i.offset(p + k * step[1]).cast::<P>();
                    let row: [V::Bits; LANES] = x.cast::<[V::Bits; LANES]>().read_unaligned();
                    let at: [P; LANES] = if c.places.1 == 0 {
                        [i.read_unaligned(); LANES]
                    } else {
                        i.cast::<[P; LANES]>().read_unaligned()
                    };
                    for (((best, place), &x), &at) in best.iter_mut().zip(&mut places).zip(&row).zip(&at) {
                        (*best, *place) = winner::<V, P>((*best, *place), (x ^ flip, at));
                    }
                }
            }
            c.to[0].cast::<V::Bits>().add(first).cast::<[V::Bits; LANES]>().write_unaligned(best.map(|b| b ^ flip));
            c.to[1].cast::<P>().add(first).cast::<[P; LANES]>().write_unaligned(places);
            if first + LANES == c.count {
                return;
            }
            first = (first + LANES).min(c.count - LANES);
        }
    }
}

/// Lines of up to so many elements are compared side by side, if there are that many.
const MOST_TURNED: usize = 16;
const LEAST_TURNED: usize = 16;

/// The winners of short lines of `n` elements: these become columns first.
///
/// # Safety
/// As [`Loops`].
#[inline(always)]
unsafe fn turned<V: Order, P: Copy + PartialOrd>(
    c: &Columns,
    n: usize,
    place_step: isize,
    (init, flip): ((V::Bits, P), V::Bits),
) {
    let size = size_of::<V::Bits>();
    let mut lines = [[init.0; COLUMNS]; MOST_TURNED];
    let planes = Planes {
        from: c.values.0,
        from_stride: c.values.1,
        to: lines.as_mut_ptr().cast(),
        to_stride: (COLUMNS * size) as isize,
    };
    // SAFETY: in the whole function: the caller's; the lines have room for `COLUMNS` elements.
    unsafe {
        transpose(planes, n, c.count, size);
        let mut pairs = [([init.0; COLUMNS], [init.1; COLUMNS]); 2];
        let [best, better] = &mut pairs;
        let (mut best, mut better) = (best, better);
        for (k, line) in lines.iter().enumerate().take(n) {
            let row = (line.as_ptr(), flip);
            let places = (c.places.0.offset(k as isize * place_step), c.places.1);
            let to = (&mut better.0[..c.count], &mut better.1[..c.count]);
            compare_row::<V, P>(&best.0[..c.count], &best.1[..c.count], row, places, to.0, to.1);
            std::mem::swap(&mut best, &mut better);
        }
        for j in 0..c.count {
            c.to[0].cast::<V::Bits>().add(j).write_unaligned(best.0[j] ^ flip);
            c.to[1].cast::<P>().add(j).write_unaligned(best.1[j]);
        }
    }
}

/// The rows of a nest, in runs along its last dimension. A walk with a closure would not be compiled for long vectors.
struct Rows<'a> {
    nest: &'a Nest<2>,
    /// Where each dimension but the last is.
    index: Vec<usize>,
    at: Option<[isize; 2]>,
}

impl Rows<'_> {
    fn new(nest: &Nest<2>) -> Rows<'_> {
        let index = vec![0; nest.dims.len().saturating_sub(1)];
        Rows { nest, index, at: (!nest.dims.contains(&0)).then_some([0, 0]) }
    }

    /// Where a run starts, the step from row to row, and how many rows it has.
    #[inline(always)]
    fn next(&mut self) -> Option<([isize; 2], [isize; 2], usize)> {
        let start = self.at.take()?;
        let (count, step) = match (self.nest.dims.last(), self.nest.strides.last()) {
            (Some(&n), Some(&step)) => (n, step),
            _ => (1, [0, 0]),
        };
        let mut at = start;
        for d in (0..self.index.len()).rev() {
            let (n, by) = (self.nest.dims[d], self.nest.strides[d]);
            self.index[d] += 1;
            at = [at[0] + by[0], at[1] + by[1]];
            if self.index[d] < n {
                self.at = Some(at);
                break;
            }
            self.index[d] = 0;
            at = [at[0] - n as isize * by[0], at[1] - n as isize * by[1]];
        }
        Some((start, step, count))
    }
}

/// Compares a row of values, whose bits are flipped, and their positions, which start there and are so many bytes apart, with
/// the best so far: the winners are `values` and `places`.
///
/// # Safety
/// As [`Loops`], for as many columns as there are bests.
#[inline(always)]
unsafe fn compare_row<V: Order, P: Copy + PartialOrd>(
    best: &[V::Bits],
    best_places: &[P],
    (row, flip): (*const V::Bits, V::Bits),
    (row_places, step): (*const u8, isize),
    values: &mut [V::Bits],
    places: &mut [P],
) {
    let columns = best.iter().zip(best_places).zip(values.iter_mut().zip(places)).enumerate();
    // SAFETY: in the whole function: the caller's.
    unsafe {
        if step == 0 {
            let place = row_places.cast::<P>().read_unaligned();
            for (j, ((&a, &at), (value, to))) in columns {
                (*value, *to) = winner::<V, P>((a, at), (row.add(j).read_unaligned() ^ flip, place));
            }
        } else if step == size_of::<P>() as isize {
            for (j, ((&a, &at), (value, to))) in columns {
                let pair = (row.add(j).read_unaligned() ^ flip, row_places.cast::<P>().add(j).read_unaligned());
                (*value, *to) = winner::<V, P>((a, at), pair);
            }
        } else {
            for (j, ((&a, &at), (value, to))) in columns {
                let place = row_places.offset(j as isize * step).cast::<P>().read_unaligned();
                (*value, *to) = winner::<V, P>((a, at), (row.add(j).read_unaligned() ^ flip, place));
            }
        }
    }
}

/// Which of two pairs is kept; `a` comes first.
#[inline(always)]
fn winner<V: Order, P: Copy + PartialOrd>(a: (V::Bits, P), b: (V::Bits, P)) -> (V::Bits, P) {
    let (x, y) = (V::number(a.0), V::number(b.0));
    #[allow(clippy::eq_op)]
    let wins = (x > y) | (x != x);
    // Without branches, so that it is done in vectors.
    let earlier = wins | ((x == y) & (a.1 < b.1));
    (if wins { a.0 } else { b.0 }, if earlier { a.1 } else { b.1 })
}

/// The winner of a contiguous line: first the extreme value in several lanes, then the lowest position that has it. Of zeros the value
/// is the last one, whose sign may differ. `None` if there is a NaN.
///
/// # Safety
/// As [`Loops`].
#[inline(always)]
unsafe fn line<V: Order, P: Copy + PartialOrd, const LANES: usize>(
    (x, flip): (*const V::Bits, V::Bits),
    (places, step): (*const u8, isize),
    n: usize,
    init: (V::Bits, P),
) -> Option<(V::Bits, P)> {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        let read = |i: usize| x.add(i).read_unaligned() ^ flip;
        let first = V::number(init.0);
        let mut lanes = [first; LANES];
        let mut nan = [false; LANES];
        let full = n / LANES * LANES;
        for i in (0..full).step_by(LANES) {
            for l in 0..LANES {
                let y = V::number(read(i + l));
                lanes[l] = if y > lanes[l] { y } else { lanes[l] };
                #[allow(clippy::eq_op)]
                {
                    nan[l] |= y != y;
                }
            }
        }
        let rest = (full..n).map(|i| V::number(read(i)));
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            for l in 0..width {
                lanes[l] = if lanes[l + width] > lanes[l] { lanes[l + width] } else { lanes[l] };
            }
        }
        let best = rest.clone().fold(lanes[0], |a, b| if b > a { b } else { a });
        #[allow(clippy::eq_op)]
        let strange = nan.contains(&true) || rest.into_iter().any(|y| y != y) || first != first;
        if strange {
            return None;
        }
        let place = |i: usize| places.offset(i as isize * step).cast::<P>().read_unaligned();
        let is_best = |i: usize| V::number(read(i)) == best;
        // Most stretches have none, or all of them do.
        let has_best = |stretch: std::ops::Range<usize>| stretch.fold(false, |any, i| any | is_best(i));
        let stretches = (0..n.div_ceil(LANES)).map(|i| i * LANES..n.min((i + 1) * LANES));
        let stretch = stretches.rev().find(|stretch| has_best(stretch.clone()));
        let Some(last) = stretch.and_then(|mut stretch| stretch.rfind(|&i| is_best(i))) else { return Some(init) };
        let mut lowest = if first == best && init.1 < place(last) { init.1 } else { place(last) };
        for start in (0..last).step_by(LANES) {
            let end = last.min(start + LANES);
            if !has_best(start..end) {
                continue;
            }
            // Without branches, so that it is done in vectors.
            if step == size_of::<P>() as isize {
                for i in start..end {
                    let p = places.cast::<P>().add(i).read_unaligned();
                    lowest = if is_best(i) & (p < lowest) { p } else { lowest };
                }
            } else {
                for i in start..end {
                    lowest = if is_best(i) & (place(i) < lowest) { place(i) } else { lowest };
                }
            }
        }
        Some((read(last), lowest))
    }
}

/// The loops for these types, if there are such.
fn loops_of(elem: ElementType, place: ElementType) -> Option<Loops> {
    macro_rules! of {
        ($v:ty, $p:ty) => {{
            /// In the processor's longer vectors.
            ///
            /// # Safety
            /// As [`Loops`]; AVX2 is there.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            unsafe fn in_long_vectors(columns: &Columns, reduced: &Nest<2>, flip: u64) {
                // SAFETY: the caller's.
                unsafe { winners::<$v, $p>(columns, reduced, flip) }
            }
            #[cfg(target_arch = "x86_64")]
            if wide() {
                return Some(in_long_vectors);
            }
            Some(winners::<$v, $p>)
        }};
    }
    macro_rules! with_place {
        ($v:ty) => {
            match place {
                ElementType::I32 => of!($v, i32),
                ElementType::I64 => of!($v, i64),
                _ => None,
            }
        };
    }
    match elem {
        ElementType::F32 => with_place!(Singles),
        ElementType::F64 => with_place!(Doubles),
        ElementType::BF16 => with_place!(Bfloats),
        ElementType::F16 => with_place!(Halves),
        ElementType::I8 | ElementType::UI8 | ElementType::I1 => with_place!(Bytes),
        ElementType::I16 | ElementType::UI16 => with_place!(Shorts),
        ElementType::I32 | ElementType::UI32 => with_place!(Words),
        ElementType::I64 | ElementType::UI64 => with_place!(Longs),
        _ => None,
    }
}

/// What JAX's `argmax` or `argmin` reduces with, from `(value, position, value, position)`.
fn recognise_extreme(module: &Module, block: BlockId) -> Option<Which> {
    let (&[a, ai, b, bi], &[value, place]) = (module.block(block).args(), module.returned(block)) else { return None };
    let def = |v: ValueId, kind: OpKind| {
        let op = module.op(module.def_op(v)?);
        (op.kind() == kind && op.parent() == Some(block)).then_some(op)
    };
    let compares = |v: ValueId, direction: &str, x: ValueId, y: ValueId| {
        def(v, OpKind::Mixed(MixedOp::Compare)).is_some_and(|op| {
            let natural = !matches!(op.enum_value("compare_type"), Some("TOTALORDER"));
            natural && op.operands() == [x, y] && op.enum_value("comparison_direction") == Some(direction)
        })
    };
    let select = def(value, OpKind::Mixed(MixedOp::Select))?;
    let &[wins, x, y] = select.operands() else { return None };
    if (x, y) != (a, b) {
        return None;
    }
    // `a > b`, or with floats `a > b | a != a`.
    let order = |v: ValueId| {
        let directions = [("GT", Which::Largest), ("LT", Which::Smallest)];
        directions.into_iter().find(|(d, _)| compares(v, d, a, b)).map(|(_, w)| w)
    };
    let float = module.ty(a).elem()?.is_float();
    let which = match (def(wins, OpKind::Binary(BinaryOp::Or)), float) {
        (Some(or), true) if compares(or.operands()[1], "NE", a, a) => order(or.operands()[0])?,
        // No integer differs from itself.
        (Some(or), false) if compares(or.operands()[1], "NE", a, a) || is_false(module, or.operands()[1]) => {
            order(or.operands()[0])?
        }
        (None, false) => order(wins)?,
        _ => return None,
    };
    let select = def(place, OpKind::Mixed(MixedOp::Select))?;
    let &[earlier, x, y] = select.operands() else { return None };
    let or = def(earlier, OpKind::Binary(BinaryOp::Or))?;
    let &[first, tie] = or.operands() else { return None };
    let and = def(tie, OpKind::Binary(BinaryOp::And))?;
    let &[equal, lower] = and.operands() else { return None };
    let fits = (x, y) == (ai, bi) && first == wins && compares(equal, "EQ", a, b) && compares(lower, "LT", ai, bi);
    fits.then_some(which)
}

/// Whether `block` is such a body that the largest wins with, or the smallest.
pub(crate) fn takes_largest(module: &Module, block: BlockId) -> Option<bool> {
    recognise_extreme(module, block).map(|which| which == Which::Largest)
}

/// Whether `block` is such a body.
pub(super) fn is_known(module: &Module, block: BlockId) -> bool {
    recognise_extreme(module, block).is_some()
}

fn is_false(module: &Module, value: ValueId) -> bool {
    let attr = module.def_op(value).and_then(|op| module.op(op).attr("value"));
    matches!(attr, Some(Attr::Dense(d)) if d.to_literal().is_some_and(|l| l.len() == 1 && l.get_i64(0) == 0))
}

/// A reduction of values and their positions with JAX's body.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId, dimensions: &[i64], block: BlockId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let &[values, places, init, init_place] = data.operands() else { return Ok(false) };
    let Some(which) = recognise_extreme(cx.module, block) else { return Ok(false) };
    let (v, p) = (view_of(cx, values)?, view_of(cx, places)?);
    let inits = [view_of(cx, init)?, view_of(cx, init_place)?];
    let Some(loops) = loops_of(v.elem, p.elem) else { return Ok(false) };
    let mut reduced: Vec<usize> = dimensions.iter().map(|&d| d as usize).collect();
    reduced.sort_unstable();
    let pairs = Pairs { values: v, places: p, reduced };
    let out = [cx.result(data.results()[0]), cx.result(data.results()[1])];
    let Some(pieces) = pairs.in_pieces() else {
        add(cx, op, &pairs, &inits, out, (which, loops));
        return Ok(true);
    };
    let dims = pieces.kept(&pieces.values.dims);
    let some = [pieces.values.elem, pieces.places.elem].map(|elem| View::dense(cx.buffer(elem, &dims), elem, &dims));
    add(cx, op, &pieces, &inits, [some[0].buf, some[1].buf], (which, loops));
    let [values, places] = some;
    let winners = Pairs { values, places, reduced: vec![dims.len() - 1] };
    add(cx, op, &winners, &inits, out, (which, loops));
    Ok(true)
}

/// Values and their positions, and the dimensions along which winners are found, in ascending order.
struct Pairs {
    values: View,
    places: View,
    reduced: Vec<usize>,
}

/// Fewer results of one line each are computed in pieces of the lines, of about so many elements.
const FEW: i64 = 64;
const PIECE: usize = 1 << 14;

impl Pairs {
    /// What `list` says of the dimensions that stay.
    fn kept(&self, list: &[i64]) -> Vec<i64> {
        (0..list.len()).filter(|d| !self.reduced.contains(d)).map(|d| list[d]).collect()
    }

    /// Few long lines as pieces of them, along a dimension of their own. All pieces have the same length: neighbors
    /// have a few elements in common, and a pair may win twice.
    fn in_pieces(&self) -> Option<Pairs> {
        let &[d] = &self.reduced[..] else { return None };
        let (lines, n) = (self.kept(&self.values.dims).iter().product::<i64>(), self.values.dims[d]);
        let pieces = parts_of(n as usize, PIECE, MOST_PARTS / lines.max(1) as usize) as i64;
        let is_contiguous = self.values.strides[d] == self.values.elem.storage_bytes() as i64;
        if lines >= FEW || pieces < 2 || !is_contiguous {
            return None;
        }
        let apart = n / pieces;
        let cut = |view: &View| {
            let mut view = view.clone();
            view.dims[d] = n - (pieces - 1) * apart;
            let stride = view.strides[d] * apart;
            // Behind all that stay, where it is the last one of the winners.
            view.dims.push(pieces);
            view.strides.push(stride);
            view
        };
        Some(Pairs { values: cut(&self.values), places: cut(&self.places), reduced: vec![d] })
    }
}

/// Adds the step that writes the winners of `pairs` to `out`.
fn add(cx: &mut Lower<'_>, op: OpId, pairs: &Pairs, inits: &[View; 2], out: [Buf; 2], (which, loops): (Which, Loops)) {
    let (v, p) = (&pairs.values, &pairs.places);
    let dims = pairs.kept(&v.dims);
    let numbers = View::dense(Buf(0), ElementType::UI8, &dims).strides;
    let kept = Nest::new(&dims, [&numbers, &pairs.kept(&v.strides), &pairs.kept(&p.strides)]);
    // Row-major order decides which of equal pairs comes first.
    let reduced = Nest {
        dims: pairs.reduced.iter().map(|&d| v.dims[d] as usize).collect(),
        strides: pairs.reduced.iter().map(|&d| [v.strides[d] as isize, p.strides[d] as isize]).collect(),
    };
    let longest = kept.dims.iter().copied().max().unwrap_or(1).max(1);
    let parts = parts_of(kept.len() * reduced.len().max(1), 1 << 13, longest);
    let reads = vec![v.buf, p.buf, inits[0].buf, inits[1].buf];
    let work = Extreme {
        values: (v.buf, v.offset as isize),
        places: (p.buf, p.offset as isize),
        inits: [0, 1].map(|i| (inits[i].buf, inits[i].offset as isize)),
        out,
        value_size: v.elem.storage_bytes(),
        place_size: p.elem.storage_bytes(),
        loops,
        which,
        flip: flipped(v.elem, which),
        kept,
        reduced,
        parts,
    };
    let name = format!("arg{} {} {:?}", if which == Which::Largest { "max" } else { "min" }, v.elem, v.dims);
    cx.step(op, name, Arc::new(work), reads, out.to_vec());
}

#[cfg(test)]
mod tests {
    use crate::library::testing::{check, check_on, noise};
    use meshwork_ir::{ElementType, Literal};

    fn source(elem: &str, direction: &str, dims: &str, out: &str, over: i64) -> String {
        let nan = if elem.contains('f') {
            format!(
                "%n = stablehlo.compare NE, %x, %x : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>\n%w = stablehlo.or %g, %n : tensor<i1>"
            )
        } else {
            "%w = stablehlo.or %g, %g : tensor<i1>".into()
        };
        let w = if elem.contains('f') { "%w" } else { "%g" };
        format!(
            "func.func @main(%a: tensor<{dims}x{elem}>, %i: tensor<{dims}xi32>, %v: tensor<{elem}>) -> (tensor<{out}{elem}>, tensor<{out}i32>) {{
            %c = stablehlo.constant dense<0> : tensor<i32>
            %r:2 = stablehlo.reduce(%a init: %v), (%i init: %c) across dimensions = [{over}]
                : (tensor<{dims}x{elem}>, tensor<{dims}xi32>, tensor<{elem}>, tensor<i32>) -> (tensor<{out}{elem}>, tensor<{out}i32>)
            reducer(%x: tensor<{elem}>, %y: tensor<{elem}>) (%xi: tensor<i32>, %yi: tensor<i32>) {{
                %g = stablehlo.compare {direction}, %x, %y : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                {nan}
                %e = stablehlo.compare EQ, %x, %y : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                %l = stablehlo.compare LT, %xi, %yi : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %t = stablehlo.and %e, %l : tensor<i1>
                %s = stablehlo.or {w}, %t : tensor<i1>
                %p = stablehlo.select {w}, %x, %y : tensor<i1>, tensor<{elem}>
                %q = stablehlo.select %s, %xi, %yi : tensor<i1>, tensor<i32>
                stablehlo.return %p, %q : tensor<{elem}>, tensor<i32>
            }}
            return %r#0, %r#1 : tensor<{out}{elem}>, tensor<{out}i32> }}"
        )
    }

    #[test]
    fn largest_and_smallest_of_all_types() {
        for elem in ["f32", "f64", "bf16", "f16", "i1", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"] {
            for direction in ["GT", "LT"] {
                for (dims, out, over) in [
                    ("5x7", "5x", 1),
                    ("5x7", "7x", 0),
                    ("1", "", 0),
                    ("3x0", "3x", 1),
                    ("6x16", "6x", 1),
                    ("3x33", "3x", 1),
                    ("3x700", "3x", 1),
                    ("300x10", "300x", 1),
                    ("37x2", "37x", 1),
                    ("9x600", "600x", 0),
                    ("100003", "", 0),
                    ("2x50001", "2x", 1),
                    ("6x4", "4x", 0),
                    ("12x13", "13x", 0),
                    ("3x32", "32x", 0),
                    ("3x33", "33x", 0),
                ] {
                    let steps = check(&source(elem, direction, dims, out, over), 0.0);
                    assert!(steps.iter().any(|s| s.starts_with("arg")), "{steps:?}");
                }
            }
        }
    }

    /// Of equal values the lowest position wins, wherever it is, and the last value, whose sign may differ.
    #[test]
    fn equal_values() {
        for n in [5usize, 40, 300, 40_007] {
            let falling: Vec<i64> = (0..n as i64).rev().collect();
            let mixed: Vec<i64> = (0..n as i64).map(|i| i * 7 % n as i64).collect();
            for places in [falling, mixed] {
                let i = Literal::from_i64s([n as i64], ElementType::I32, &places).unwrap();
                let x: Vec<f64> = (0..n).map(|i| [0.0, -1.0, -0.0, -2.5][i * i % 4]).collect();
                let x = Literal::from_f64s([n as i64], ElementType::F32, &x).unwrap();
                let v = Literal::from_f64s([], ElementType::F32, &[f64::NEG_INFINITY]).unwrap();
                check_on(&source("f32", "GT", &n.to_string(), "", 0), &[x, i.clone(), v], 0.0);
                let x = Literal::zeros([n as i64], ElementType::I1);
                let v = Literal::zeros([], ElementType::I1);
                check_on(&source("i1", "GT", &n.to_string(), "", 0), &[x, i, v], 0.0);
            }
        }
    }

    #[test]
    fn a_nan_wins() {
        let x = Literal::from_f64s([4], ElementType::F32, &[1.0, f64::NAN, 7.0, f64::NAN]).unwrap();
        let i = Literal::from_i64s([4], ElementType::I32, &[0, 1, 2, 3]).unwrap();
        let v = Literal::from_f64s([], ElementType::F32, &[f64::NEG_INFINITY]).unwrap();
        check_on(&source("f32", "GT", "4", "", 0), &[x, i, v], 0.0);
        let args =
            [noise(&[1, 4], ElementType::F32, 1), noise(&[1, 4], ElementType::I32, 2), noise(&[], ElementType::F32, 3)];
        check_on(&source("f32", "GT", "1x4", "1x", 1), &args, 0.0);
    }
}

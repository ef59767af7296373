//! The winners among pairs, in vectors: of columns side by side, of few columns, and along rows.

use meshwork_ir::{ElementClass, ElementType};

use super::Which;
#[cfg(target_arch = "x86_64")]
use crate::kernel::interp::loops::wide;
use crate::library::nest::{Nest, walk};
use crate::library::num::{Bf16, Element, F16};
use crate::library::transpose::{Planes, transpose};

/// Results that are computed together.
pub(super) const COLUMNS: usize = 128;

/// The winners of `count` columns of pairs.
pub(super) struct Columns {
    /// The first element, and the bytes from one column to the next.
    pub values: (*const u8, isize),
    pub places: (*const u8, isize),
    pub init: [*const u8; 2],
    pub to: [*mut u8; 2],
    pub count: usize,
}

/// Finds the winners of columns along a nest, of values whose bits are flipped by this.
///
/// # Safety
/// All elements named are valid.
pub(super) type Loops = unsafe fn(&Columns, &Nest<2>, u64);

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
pub(super) fn flipped(elem: ElementType, which: Which) -> u64 {
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
            let best = fast.unwrap_or_else(|| column::<V, P>((x, i), reduced, (init, flip)));
            c.to[0].cast::<V::Bits>().add(j).write_unaligned(best.0 ^ flip);
            c.to[1].cast::<P>().add(j).write_unaligned(best.1);
        }
    }
}

/// The winner of one column, pair after pair.
///
/// # Safety
/// As [`Loops`].
#[inline(never)]
unsafe fn column<V: Order, P: Copy + PartialOrd>(
    (values, places): (*const u8, *const u8),
    reduced: &Nest<2>,
    (init, flip): ((V::Bits, P), V::Bits),
) -> (V::Bits, P) {
    let mut best = init;
    walk(&reduced.dims, &reduced.strides, [0, 0], &mut |[v, p]| {
        // SAFETY: the caller's.
        let pair = unsafe {
            (values.offset(v).cast::<V::Bits>().read_unaligned() ^ flip, places.offset(p).cast::<P>().read_unaligned())
        };
        best = winner::<V, P>(best, pair);
    });
    best
}

/// [`winners`] for processors without longer vectors: one column after the other. The loops for those are a twentieth of the
/// engine's code, which every build would compile once more.
///
/// # Safety
/// As [`Loops`].
#[cfg(target_arch = "x86_64")]
unsafe fn one_by_one<V: Order, P: Copy + PartialOrd>(c: &Columns, reduced: &Nest<2>, flip: u64) {
    let flip = V::bits(flip);
    // SAFETY: in the whole function: the caller's.
    unsafe {
        let init = (c.init[0].cast::<V::Bits>().read_unaligned() ^ flip, c.init[1].cast::<P>().read_unaligned());
        for j in 0..c.count {
            let at = (c.values.0.offset(j as isize * c.values.1), c.places.0.offset(j as isize * c.places.1));
            let best = column::<V, P>(at, reduced, (init, flip));
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
pub(super) fn loops_of(elem: ElementType, place: ElementType) -> Option<Loops> {
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
            let loops: Loops = if wide() { in_long_vectors } else { one_by_one::<$v, $p> };
            #[cfg(not(target_arch = "x86_64"))]
            let loops: Loops = winners::<$v, $p>;
            Some(loops)
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

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn processors_without_long_vectors_find_the_same() {
        let values: Vec<f32> = (0..9 * 40).map(|i| [0.5, -1.0, 7.25, 7.25, f32::NAN][i * i % 11 % 5]).collect();
        let places: Vec<i32> = (0..9).collect();
        let init = (f32::NEG_INFINITY, 9);
        let reduced = Nest { dims: vec![9], strides: vec![[160, 4]] };
        let of = |loops: Loops| {
            let (mut best, mut at) = ([0f32; 40], [0i32; 40]);
            let columns = Columns {
                values: (values.as_ptr().cast(), 4),
                places: (places.as_ptr().cast(), 0),
                init: [(&raw const init.0).cast(), (&raw const init.1).cast()],
                to: [best.as_mut_ptr().cast(), at.as_mut_ptr().cast()],
                count: 40,
            };
            // SAFETY: nine rows of 40 values, a place each, and 40 results.
            unsafe { loops(&columns, &reduced, 0) };
            (best.map(f32::to_bits), at)
        };
        assert_eq!(of(winners::<Singles, i32>), of(one_by_one::<Singles, i32>));
    }
}

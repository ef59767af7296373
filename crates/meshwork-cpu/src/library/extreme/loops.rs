//! Loops that find the largest of numbers and its position.
//!
//! Elements of all types are compared as one of four: `f32`, `f64`, `i32`, `i64`. Of those, the largest wins: where the smallest
//! is asked for, or elements have no sign, bits are turned as they are read.

use meshwork_ir::ElementType;

use super::Which;
#[cfg(target_arch = "x86_64")]
use crate::kernel::interp::loops::wide;
use crate::library::nest::Nest;
use crate::library::num::{Bf16, Element, F16};

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

/// How values are stored, and the sign or the bits that are turned so that the largest number wins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    form: Form,
    flip: u64,
    pub place_size: usize,
}

/// How elements in memory are read as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// They are such numbers, but for the bits that are turned.
    Same,
    Byte,
    Short,
    Bf16,
    F16,
}

/// What values are compared as.
trait Number: Copy + PartialOrd + Default {
    type Bits: Copy;
    const IS_FLOAT: bool;

    /// From bits of which some are turned.
    fn of(bits: Self::Bits, flip: u64) -> Self;

    /// Reads elements that are `step` bytes apart.
    ///
    /// # Safety
    /// There are as many as `to` has room for.
    unsafe fn spread(e: Elements, from: *const u8, step: isize, to: &mut [Self]);

    /// Writes an element.
    ///
    /// # Safety
    /// There is room for it.
    unsafe fn write(self, e: Elements, to: *mut u8);
}

macro_rules! numbers {
    ($($t:ty, $bits:ty, $float:literal, $spread:ident, $written:ident, $of:expr, $to:expr;)*) => {$(
        impl Number for $t {
            type Bits = $bits;
            const IS_FLOAT: bool = $float;
            #[inline(always)]
            fn of(bits: $bits, flip: u64) -> $t {
                $of(bits ^ flip as $bits)
            }
            #[inline(always)]
            unsafe fn spread(e: Elements, from: *const u8, step: isize, to: &mut [$t]) {
                // SAFETY: the caller's; a number has as many bits.
                unsafe { $spread(e, from, step, std::slice::from_raw_parts_mut(to.as_mut_ptr().cast(), to.len())) }
            }
            #[inline(always)]
            unsafe fn write(self, e: Elements, to: *mut u8) {
                // SAFETY: the caller's.
                unsafe { $written(e, $to(self), to) }
            }
        }
    )*};
}
numbers! {
    f32, u32, true, spread_32, write_32, f32::from_bits, f32::to_bits;
    f64, u64, true, spread_64, write_64, f64::from_bits, f64::to_bits;
    i32, u32, false, spread_32, write_32, u32::cast_signed, i32::cast_unsigned;
    i64, u64, false, spread_64, write_64, u64::cast_signed, i64::cast_unsigned;
}

/// # Safety
/// As [`Number::spread`].
unsafe fn spread_32(e: Elements, from: *const u8, step: isize, to: &mut [u32]) {
    macro_rules! of {
        ($raw:ty, |$x:ident| $value:expr) => {
            for (i, to) in to.iter_mut().enumerate() {
                // SAFETY: the caller's.
                let $x = unsafe { from.offset(i as isize * step).cast::<$raw>().read_unaligned() } ^ e.flip as $raw;
                *to = $value;
            }
        };
    }
    match e.form {
        Form::Same => of!(u32, |x| x),
        Form::Byte => of!(u8, |x| i32::from(x as i8) as u32),
        Form::Short => of!(u16, |x| i32::from(x as i16) as u32),
        Form::Bf16 => of!(u16, |x| Bf16.load(x).to_bits()),
        Form::F16 => of!(u16, |x| F16.load(x).to_bits()),
    }
}

/// # Safety
/// As [`Number::spread`].
unsafe fn spread_64(e: Elements, from: *const u8, step: isize, to: &mut [u64]) {
    for (i, to) in to.iter_mut().enumerate() {
        // SAFETY: the caller's.
        *to = unsafe { from.offset(i as isize * step).cast::<u64>().read_unaligned() } ^ e.flip;
    }
}

/// # Safety
/// As [`Number::write`].
unsafe fn write_32(e: Elements, bits: u32, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe {
        match e.form {
            Form::Same => to.cast::<u32>().write_unaligned(bits ^ e.flip as u32),
            Form::Byte => to.write(bits as u8 ^ e.flip as u8),
            Form::Short => to.cast::<u16>().write_unaligned(bits as u16 ^ e.flip as u16),
            Form::Bf16 => to.cast::<u16>().write_unaligned(Bf16.store(f32::from_bits(bits)) ^ e.flip as u16),
            Form::F16 => to.cast::<u16>().write_unaligned(F16.store(f32::from_bits(bits)) ^ e.flip as u16),
        }
    }
}

/// # Safety
/// As [`Number::write`].
unsafe fn write_64(e: Elements, bits: u64, to: *mut u8) {
    // SAFETY: the caller's.
    unsafe { to.cast::<u64>().write_unaligned(bits ^ e.flip) }
}

impl Elements {
    /// Bytes of a value.
    fn size(self, number: usize) -> isize {
        match self.form {
            Form::Same => number as isize,
            Form::Byte => 1,
            Form::Short | Form::Bf16 | Form::F16 => 2,
        }
    }

    /// # Safety
    /// A value is there.
    unsafe fn number<N: Number>(self, at: *const u8) -> N {
        let mut one = [N::default()];
        // SAFETY: the caller's.
        unsafe { N::spread(self, at, 0, &mut one) };
        one[0]
    }

    /// # Safety
    /// A position is there.
    #[inline(always)]
    unsafe fn place(self, at: *const u8) -> i64 {
        // SAFETY: the caller's.
        unsafe {
            if self.place_size == 4 {
                at.cast::<i32>().read_unaligned().into()
            } else {
                at.cast::<i64>().read_unaligned()
            }
        }
    }

    /// # Safety
    /// There is room for a position.
    unsafe fn put_place(self, place: i64, to: *mut u8) {
        // SAFETY: the caller's.
        unsafe {
            if self.place_size == 4 {
                to.cast::<i32>().write_unaligned(place as i32);
            } else {
                to.cast::<i64>().write_unaligned(place);
            }
        }
    }

    /// Neighbors from `x` on as bits of numbers: where they are if they are numbers, else `room`. Gives how many of `n`, and the
    /// bits to be turned.
    ///
    /// # Safety
    /// There are `n` values.
    #[inline(always)]
    unsafe fn some<N: Number>(self, x: *const u8, n: usize, room: &mut [N; COLUMNS]) -> (*const N::Bits, usize, u64) {
        if self.form == Form::Same {
            return (x.cast(), n, self.flip);
        }
        let n = n.min(COLUMNS);
        // SAFETY: the caller's.
        unsafe { N::spread(self, x, self.size(0), &mut room[..n]) };
        (room.as_ptr().cast(), n, 0)
    }
}

/// Finds the winners of columns that are neighbors, or of one line, along a nest.
///
/// # Safety
/// All elements named are valid.
type Loop = unsafe fn(&Columns, &Nest<2>, Elements);

/// The loops for a type of numbers.
#[derive(Clone, Copy)]
pub(super) struct Loops {
    size: usize,
    columns: Loop,
    one: Loop,
}

/// # Safety
/// As [`Loop`].
pub(super) unsafe fn winners(c: &Columns, reduced: &Nest<2>, e: Elements, value_size: usize, loops: Loops) {
    let unit = e.size(loops.size);
    let is_line = reduced.dims.len() == 1 && reduced.strides[0][0] == unit;
    // SAFETY: in the whole function: the caller's.
    unsafe {
        if c.values.1 == unit && !(is_line && c.count == 1) {
            return (loops.columns)(c, reduced, e);
        }
        for j in 0..c.count {
            let one = Columns {
                values: (c.values.0.offset(j as isize * c.values.1), 0),
                places: (c.places.0.offset(j as isize * c.places.1), 0),
                to: [c.to[0].add(j * value_size), c.to[1].add(j * e.place_size)],
                count: 1,
                ..*c
            };
            (loops.one)(&one, reduced, e);
        }
    }
}

/// Each row of the nest is compared with the best so far. The better ones are stored elsewhere: in place they would be masked
/// stores, which take some processors tens of cycles.
///
/// # Safety
/// As [`Loop`].
#[inline(always)]
unsafe fn columns<N: Number, P: Copy + PartialOrd + Default>(c: &Columns, reduced: &Nest<2>, e: Elements) {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        let init = (e.number::<N>(c.init[0]), c.init[1].cast::<P>().read_unaligned());
        let mut pairs = [([init.0; COLUMNS], [init.1; COLUMNS]); 2];
        let [best, better] = &mut pairs;
        let (mut best, mut better) = (best, better);
        let (mut room, mut row_places) = ([N::default(); COLUMNS], [P::default(); COLUMNS]);
        let mut rows = Rows::new(reduced);
        while let Some(([v, p], step, count)) = rows.next() {
            for k in 0..count as isize {
                let (x, _, flip) = e.some::<N>(c.values.0.offset(v + k * step[0]), c.count, &mut room);
                let at = c.places.0.offset(p + k * step[1]);
                if c.places.1 == 0 {
                    row_places[..c.count].fill(at.cast::<P>().read_unaligned());
                } else {
                    for (j, to) in row_places[..c.count].iter_mut().enumerate() {
                        *to = at.offset(j as isize * c.places.1).cast::<P>().read_unaligned();
                    }
                }
                for j in 0..c.count {
                    let pair = (N::of(x.add(j).read_unaligned(), flip), row_places[j]);
                    (better.0[j], better.1[j]) = winner((best.0[j], best.1[j]), pair);
                }
                std::mem::swap(&mut best, &mut better);
            }
        }
        for j in 0..c.count {
            best.0[j].write(e, c.to[0].offset(j as isize * c.values.1));
            c.to[1].cast::<P>().add(j).write_unaligned(best.1[j]);
        }
    }
}

/// One column, which may be a contiguous line.
///
/// # Safety
/// As [`Loop`].
#[inline(always)]
unsafe fn one<N: Number>(c: &Columns, reduced: &Nest<2>, e: Elements) {
    let unit = e.size(size_of::<N>());
    // SAFETY: in the whole function: the caller's.
    unsafe {
        let init = (e.number::<N>(c.init[0]), e.place(c.init[1]));
        let fast = match (&reduced.dims[..], &reduced.strides[..]) {
            (&[n], &[[step, places]]) if step == unit => line(e, c.values.0, (c.places.0, places), n, init),
            _ => None,
        };
        let best = fast.unwrap_or_else(|| one_by_one(c, reduced, e, init));
        best.0.write(e, c.to[0]);
        e.put_place(best.1, c.to[1]);
    }
}

/// # Safety
/// As [`Loop`].
#[inline(never)]
unsafe fn one_by_one<N: Number>(c: &Columns, reduced: &Nest<2>, e: Elements, init: (N, i64)) -> (N, i64) {
    let mut best = init;
    let mut rows = Rows::new(reduced);
    while let Some(([v, p], step, count)) = rows.next() {
        for k in 0..count as isize {
            // SAFETY: the caller's.
            let pair = unsafe {
                let x = e.number::<N>(c.values.0.offset(v + k * step[0]));
                (x, e.place(c.places.0.offset(p + k * step[1])))
            };
            best = winner(best, pair);
        }
    }
    best
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

/// Which of two pairs is kept; `a` comes first.
#[inline(always)]
#[allow(clippy::eq_op)]
fn winner<N: PartialOrd + Copy, P: Copy + PartialOrd>(a: (N, P), b: (N, P)) -> (N, P) {
    let wins = (a.0 > b.0) | (a.0 != a.0);
    // Without branches, so that it is done in vectors.
    let earlier = wins | ((a.0 == b.0) & (a.1 < b.1));
    (if wins { a.0 } else { b.0 }, if earlier { a.1 } else { b.1 })
}

/// Numbers of a line that are compared side by side.
const LANES: usize = 32;

/// The winner of a contiguous line: first the largest number in several lanes, then the lowest position that has it. `None` if
/// there is a NaN, or if it is a zero with a sign, which is that of the last one.
///
/// # Safety
/// As [`Loop`].
#[inline(always)]
#[allow(clippy::eq_op)]
unsafe fn line<N: Number>(
    e: Elements,
    x: *const u8,
    (places, step): (*const u8, isize),
    n: usize,
    init: (N, i64),
) -> Option<(N, i64)> {
    let mut room = [N::default(); COLUMNS];
    let unit = e.size(size_of::<N>());
    // SAFETY: in the whole function: the caller's.
    unsafe {
        let mut lanes = [init.0; LANES];
        let mut nan = [init.0 != init.0; LANES];
        let mut done = 0;
        while done < n {
            let (x, count, flip) = e.some(x.offset(done as isize * unit), n - done, &mut room);
            let full = count / LANES * LANES;
            for i in (0..full).step_by(LANES) {
                for l in 0..LANES {
                    let y = N::of(x.add(i + l).read_unaligned(), flip);
                    lanes[l] = if y > lanes[l] { y } else { lanes[l] };
                    nan[l] |= y != y;
                }
            }
            for l in 0..count - full {
                let y = N::of(x.add(full + l).read_unaligned(), flip);
                lanes[l] = if y > lanes[l] { y } else { lanes[l] };
                nan[l] |= y != y;
            }
            done += count;
        }
        let mut width = if n < LANES { n.next_power_of_two() } else { LANES };
        while width > 1 {
            width /= 2;
            for l in 0..width {
                lanes[l] = if lanes[l + width] > lanes[l] { lanes[l + width] } else { lanes[l] };
            }
        }
        let best = lanes[0];
        if N::IS_FLOAT && (nan.contains(&true) || best == N::default()) {
            return None;
        }
        let mut found = if init.0 == best { init.1 } else { i64::MAX };
        let mut done = 0;
        while done < n {
            let (x, count, flip) = e.some(x.offset(done as isize * unit), n - done, &mut room);
            for start in (0..count).step_by(LANES) {
                let end = count.min(start + LANES);
                let is_best = |i: usize| N::of(x.add(i).read_unaligned(), flip) == best;
                // Most stretches have none.
                let mut any = false;
                for i in start..end {
                    any |= is_best(i);
                }
                if any {
                    let at = |i: usize| e.place(places.offset((done + i) as isize * step));
                    found = (start..end).filter(|&i| is_best(i)).fold(found, |least, i| least.min(at(i)));
                }
            }
            done += count;
        }
        Some((best, found))
    }
}

/// The loops of numbers with positions of this type, in the processor's longer vectors if it has them.
fn loops_of<N: Number>(place: ElementType) -> Loops {
    /// # Safety
    /// As [`Loop`]; AVX2 is there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn wide_columns<N: Number, P: Copy + PartialOrd + Default>(c: &Columns, reduced: &Nest<2>, e: Elements) {
        // SAFETY: the caller's.
        unsafe { columns::<N, P>(c, reduced, e) }
    }
    /// # Safety
    /// As [`Loop`]; AVX2 is there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn wide_one<N: Number>(c: &Columns, reduced: &Nest<2>, e: Elements) {
        // SAFETY: the caller's.
        unsafe { one::<N>(c, reduced, e) }
    }
    let (size, is_short) = (size_of::<N>(), place == ElementType::I32);
    #[cfg(target_arch = "x86_64")]
    if wide() {
        let columns = if is_short { wide_columns::<N, i32> } else { wide_columns::<N, i64> };
        return Loops { size, columns, one: wide_one::<N> };
    }
    Loops { size, columns: if is_short { columns::<N, i32> } else { columns::<N, i64> }, one: one::<N> }
}

/// The loops for these types, and how values are read, if there are such.
pub(super) fn reading(elem: ElementType, place: ElementType, which: Which) -> Option<(Loops, Elements)> {
    if !matches!(place, ElementType::I32 | ElementType::I64) {
        return None;
    }
    use ElementType as E;
    let (loops, form) = match elem {
        E::F32 => (loops_of::<f32>(place), Form::Same),
        E::F64 => (loops_of::<f64>(place), Form::Same),
        E::BF16 => (loops_of::<f32>(place), Form::Bf16),
        E::F16 => (loops_of::<f32>(place), Form::F16),
        E::I1 | E::I8 | E::UI8 => (loops_of::<i32>(place), Form::Byte),
        E::I16 | E::UI16 => (loops_of::<i32>(place), Form::Short),
        E::I32 | E::UI32 => (loops_of::<i32>(place), Form::Same),
        E::I64 | E::UI64 => (loops_of::<i64>(place), Form::Same),
        _ => return None,
    };
    // Numbers without a sign are compared as those half of their range lower; the smallest is the largest turned around: by the
    // sign of a float, by all bits of an integer.
    let top = 1 << (elem.bits() - 1);
    let unsigned = if matches!(elem, E::UI8 | E::UI16 | E::UI32 | E::UI64) { top } else { 0 };
    let turned = match which {
        Which::Largest => 0,
        Which::Smallest if elem.is_float() => top,
        Which::Smallest => !0,
    };
    Some((loops, Elements { form, flip: unsigned ^ turned, place_size: place.storage_bytes() }))
}

//! Reductions over sliding windows: pooling and running sums.

use std::sync::Arc;

use meshwork_ir::{Literal, Op, OpId};

use super::attrs;
use super::combine::{Body, Fold, Running, fold_of, recognise, running_of};
use super::copy::view_of;
use super::nest::{parts_of, piece, walk};
use crate::compile::lower::Lower;
use crate::kernel::ir::Combine;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// The windows of one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dim {
    /// Extents of the input and of the result, and byte strides there.
    pub n: i64,
    pub out: i64,
    pub x: isize,
    pub to: isize,
    pub size: i64,
    pub stride: i64,
    pub base: i64,
    pub dilation: i64,
    pub low: i64,
}

impl Dim {
    /// The input position of element `w` of window `at`, if it is inside.
    pub fn tap(&self, at: i64, w: i64) -> Option<i64> {
        let dilated = at * self.stride + w * self.dilation - self.low;
        (dilated >= 0 && dilated % self.base == 0 && dilated / self.base < self.n).then(|| dilated / self.base)
    }

    /// The windows whose element `w` is inside the input, where that is not dilated.
    pub fn inside(&self, w: i64) -> (i64, i64) {
        let shift = self.low - w * self.dilation;
        let first = if shift > 0 { (shift + self.stride - 1) / self.stride } else { 0 };
        let last = (self.n - 1 + shift).div_euclid(self.stride) + 1;
        (first.min(self.out), last.clamp(0, self.out))
    }

    pub fn is_plain(&self) -> bool {
        self.size == 1 && self.stride == 1 && self.base == 1 && self.low == 0 && self.n == self.out
    }
}

/// The windows of `op` over `x`, with the windows' positions in a dense tensor `to`.
pub(super) fn windows(op: &Op, x: &View, to: &View) -> Result<Vec<Dim>, String> {
    let rank = x.dims.len();
    let list = |name: &str| attrs::ints_or(op, name, rank, 1);
    let (size, strides) = (list("window_dimensions")?, list("window_strides")?);
    let (base, dilations) = (list("base_dilations")?, list("window_dilations")?);
    let padding = attrs::ints_or(op, "padding", 2 * rank, 0)?;
    let dim = |d: usize| Dim {
        n: x.dims[d],
        out: to.dims[d],
        x: x.strides[d] as isize,
        to: to.strides[d] as isize,
        size: size[d],
        stride: strides[d],
        base: base[d],
        dilation: dilations[d],
        low: padding[2 * d],
    };
    Ok((0..rank).map(dim).collect())
}

/// Folds windows, a row of results at a time.
struct Pool {
    x: (Buf, isize),
    init: (Buf, isize),
    out: Buf,
    size: usize,
    /// All but the last are gone through one by one.
    dims: Vec<Dim>,
    fold: Fold,
    parts: usize,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool {:?}", self.dims)
    }
}

impl Work for Pool {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        self.dims.iter().map(|d| (d.out * d.size) as u64).product()
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let Some((last, outer)) = self.dims.split_last() else { return Ok(()) };
        let rows: usize = outer.iter().map(|d| d.out as usize).product();
        let n = last.out as usize;
        let mut at = vec![0i64; outer.len()];
        let unit = self.size as isize;
        // SAFETY: in the whole function: taps inside the input, rows of the result.
        unsafe {
            let x = frame.ptr(self.x.0).offset(self.x.1).cast_const();
            let init = frame.ptr(self.init.0).offset(self.init.1).cast_const();
            for row in piece(rows, self.parts, part, 1) {
                let mut rest = row;
                for (a, d) in at.iter_mut().zip(outer).rev() {
                    *a = (rest % d.out as usize) as i64;
                    rest /= d.out as usize;
                }
                let acc = frame.ptr(self.out).add(row * n * self.size);
                for i in 0..n {
                    std::ptr::copy_nonoverlapping(init, acc.add(i * self.size), self.size);
                }
                self.taps(outer, &at, x, &mut |x: *const u8| {
                    for w in 0..last.size {
                        if last.base == 1 {
                            let (first, end) = last.inside(w);
                            if first < end {
                                let from = first * last.stride + w * last.dilation - last.low;
                                let x = x.offset(from as isize * last.x);
                                let step = last.x * last.stride as isize;
                                (self.fold)(acc.offset(first as isize * unit), unit, x, step, (end - first) as usize);
                            }
                        } else {
                            for i in 0..last.out {
                                if let Some(p) = last.tap(i, w) {
                                    let x = x.offset(p as isize * last.x);
                                    (self.fold)(acc.offset(i as isize * unit), unit, x, 0, 1);
                                }
                            }
                        }
                    }
                });
            }
        }
        Ok(())
    }
}

impl Pool {
    /// Calls `visit` for each element of the window at `at` that is inside, in row-major order.
    ///
    /// # Safety
    /// `x` is the start of the input.
    unsafe fn taps(&self, dims: &[Dim], at: &[i64], x: *const u8, visit: &mut dyn FnMut(*const u8)) {
        let (Some(d), Some(&a)) = (dims.first(), at.first()) else { return visit(x) };
        for w in 0..d.size {
            if let Some(p) = d.tap(a, w) {
                // SAFETY: the caller's, and the tap is inside.
                unsafe { self.taps(&dims[1..], &at[1..], x.offset(p as isize * d.x), visit) };
            }
        }
    }
}

/// Running folds along one dimension.
struct Scan {
    x: (Buf, isize),
    init: (Buf, isize),
    out: Buf,
    size: usize,
    /// The dimensions but the one that is scanned.
    dims: Vec<Dim>,
    along: Dim,
    /// From the last element on.
    reverse: bool,
    running: Running,
    parts: usize,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scan {:?}", self.along)
    }
}

impl Work for Scan {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        self.along.n as u64 * self.dims.iter().map(|d| d.n as u64).product::<u64>()
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mut dims: Vec<usize> = self.dims.iter().map(|d| d.n as usize).collect();
        let mut at = [0, self.x.1];
        if let Some(d) = (0..dims.len()).max_by_key(|&d| dims[d]) {
            let range = piece(dims[d], self.parts, part, 1);
            at[0] += range.start as isize * self.dims[d].to;
            at[1] += range.start as isize * self.dims[d].x;
            dims[d] = range.len();
        }
        if dims.contains(&0) || self.along.n == 0 {
            return Ok(());
        }
        let strides: Vec<[isize; 2]> = self.dims.iter().map(|d| [d.to, d.x]).collect();
        // Lines that are neighbors in the result are done together, else those of the innermost dimension.
        let unit = strides.iter().position(|s| s[0] == self.size as isize);
        let beside = unit.or(dims.len().checked_sub(1));
        let (lines, [to_line, x_line]) = beside.map_or((1, [0, 0]), |d| (dims[d], strides[d]));
        let keep = |i: &usize| Some(*i) != beside;
        let outer: Vec<usize> = (0..dims.len()).filter(keep).map(|i| dims[i]).collect();
        let outer_strides: Vec<[isize; 2]> = (0..dims.len()).filter(keep).map(|i| strides[i]).collect();
        let Dim { to, x, n, .. } = self.along;
        let (first, sign) = if self.reverse { (n as isize - 1, -1) } else { (0, 1) };
        // SAFETY: in the whole function: elements of both tensors.
        unsafe {
            let input = frame.ptr(self.x.0).offset(first * x).cast_const();
            let out = frame.ptr(self.out).offset(first * to);
            let init = frame.ptr(self.init.0).offset(self.init.1).cast_const();
            walk(&outer, &outer_strides, at, &mut |[o, i]| {
                let (to, x) = ((out.offset(o), sign * to, to_line), (input.offset(i), sign * x, x_line));
                (self.running)(to, x, init, n as usize, lines);
            });
        }
        Ok(())
    }
}

/// Whether `value` changes nothing when it is combined.
pub(crate) fn is_identity(value: &Literal, combine: Combine) -> bool {
    use meshwork_ir::Scalar;
    let elem = value.elem();
    let bits = elem.bits() as u32;
    match (combine, value.get(0)) {
        (Combine::Add, Scalar::Complex(re, im)) => re == 0.0 && im == 0.0,
        (Combine::Mul, Scalar::Complex(re, im)) => re == 1.0 && im == 0.0,
        (Combine::Add | Combine::Or | Combine::Xor, v) => v.as_f64() == 0.0 && !v.is_nan(),
        (Combine::Mul, v) => v.as_f64() == 1.0,
        (Combine::And, Scalar::Bool(b)) => b,
        (Combine::And, v) => value.get_i64(0) == -1 || v.as_i64() as u64 == u64::MAX >> (64 - bits),
        (Combine::Max, Scalar::Float(v)) => v == f64::NEG_INFINITY,
        (Combine::Min, Scalar::Float(v)) => v == f64::INFINITY,
        (Combine::Max, Scalar::Bool(b)) => !b,
        (Combine::Min, Scalar::Bool(b)) => b,
        (Combine::Max, Scalar::Int(v)) => v == i64::MIN >> (64 - bits),
        (Combine::Min, Scalar::Int(v)) => v == i64::MAX >> (64 - bits),
        (Combine::Max, Scalar::UInt(v)) => v == 0,
        (Combine::Min, Scalar::UInt(v)) => v == u64::MAX >> (64 - bits),
        (Combine::Max | Combine::Min, Scalar::Complex(..)) => false,
    }
}

/// The constant that `view` shows everywhere, if it is one element of a constant buffer.
pub(super) fn constant(cx: &Lower<'_>, view: &View) -> Option<Literal> {
    let literal = cx.bufs.get(view.buf.0 as usize)?.constant.as_ref()?;
    let size = view.elem.storage_bytes();
    let at = usize::try_from(view.offset).ok()?;
    Literal::from_bytes([], view.elem, literal.bytes().get(at..at + size)?.to_vec())
}

/// `stablehlo.reduce_window` of one operand with a simple body and its identity.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let &[operand, init] = data.operands() else { return Ok(false) };
    let Some(Body::Fold(combine)) = cx.module.body_of(op, 0).and_then(|b| recognise(cx.module, b)) else {
        return Ok(false);
    };
    let (x, init) = (view_of(cx, operand)?, view_of(cx, init)?);
    let (elem, shape) = cx.shape(data.results()[0]);
    let identity = constant(cx, &init).is_some_and(|c| is_identity(&c, combine));
    let Some(fold) = fold_of(x.elem, combine).filter(|_| identity && elem == x.elem && !shape.is_empty()) else {
        return Ok(false);
    };
    let mut dims = windows(data, &x, &View::dense(Buf(0), elem, &shape))?;
    let buf = cx.result(data.results()[0]);
    let (x_at, init_at) = ((x.buf, x.offset as isize), (init.buf, init.offset as isize));
    let (size, reads) = (elem.storage_bytes(), vec![x.buf, init.buf]);
    let scanned: Vec<usize> = (0..dims.len()).filter(|&d| !dims[d].is_plain()).collect();
    if let &[d] = &scanned[..] {
        let w = dims[d];
        let whole = w.size == w.n && w.out == w.n && w.stride == 1 && w.base == 1 && w.dilation == 1;
        if let (true, Some(running)) = (whole && (w.low == w.n - 1 || w.low == 0), running_of(elem, combine)) {
            dims.remove(d);
            let longest = dims.iter().map(|d| d.n as usize).max().unwrap_or(1);
            let parts = parts_of(x.len(), 1 << 14, longest.max(1));
            let name = format!("running {combine:?} {elem} {shape:?}");
            let reverse = w.low == 0;
            let work = Scan { x: x_at, init: init_at, out: buf, size, dims, along: w, reverse, running, parts };
            cx.step(op, name, Arc::new(work), reads, vec![buf]);
            return Ok(true);
        }
    }
    let rows: i64 = shape[..shape.len() - 1].iter().product();
    let taps: i64 = dims.iter().map(|d| d.out * d.size).product();
    let parts = parts_of(taps as usize, 1 << 15, rows.max(1) as usize);
    let work = Pool { x: x_at, init: init_at, out: buf, size, dims, fold, parts };
    cx.step(op, format!("windows {combine:?} {elem} {shape:?}"), Arc::new(work), reads, vec![buf]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    /// Windows over the last two of three dimensions.
    fn source(elem: &str, op: &str, init: &str, x: &str, out: &str, window: &str) -> String {
        format!(
            "func.func @main(%a: tensor<{x}x{elem}>) -> tensor<{out}x{elem}> {{
            %i = stablehlo.constant dense<{init}> : tensor<{elem}>
            %r = \"stablehlo.reduce_window\"(%a, %i) <{{{window}}}> ({{
            ^bb0(%x: tensor<{elem}>, %y: tensor<{elem}>):
                %s = stablehlo.{op} %x, %y : tensor<{elem}>
                stablehlo.return %s : tensor<{elem}>
            }}) : (tensor<{x}x{elem}>, tensor<{elem}>) -> tensor<{out}x{elem}>
            return %r : tensor<{out}x{elem}> }}"
        )
    }

    #[test]
    fn pools_with_padding_strides_and_dilations() {
        for (x, out, window) in [
            ("2x7x9", "2x3x4", "window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 2, 2>"),
            (
                "2x7x9",
                "2x7x9",
                "window_dimensions = array<i64: 1, 3, 3>, padding = dense<[[0, 0], [1, 1], [1, 1]]> : tensor<3x2xi64>",
            ),
            (
                "2x7x9",
                "1x5x3",
                "window_dimensions = array<i64: 2, 2, 3>, window_strides = array<i64: 1, 1, 2>, window_dilations = array<i64: 1, 2, 2>",
            ),
            (
                "2x3x4",
                "2x6x8",
                "window_dimensions = array<i64: 1, 2, 2>, base_dilations = array<i64: 1, 2, 2>, padding = dense<[[0, 0], [1, 1], [1, 1]]> : tensor<3x2xi64>",
            ),
            ("2x3x0", "2x3x0", "window_dimensions = array<i64: 1, 1, 1>"),
            (
                "2x5x6",
                "2x3x5",
                "window_dimensions = array<i64: 1, 2, 2>, padding = dense<[[0, 0], [-1, 0], [0, 0]]> : tensor<3x2xi64>",
            ),
        ] {
            for (elem, op, init) in [
                ("f32", "add", "0.0"),
                ("f32", "maximum", "0xFF800000"),
                ("f64", "minimum", "0x7FF0000000000000"),
                ("bf16", "maximum", "0xFF80"),
                ("i32", "add", "0"),
                ("i8", "maximum", "-128"),
                ("f32", "multiply", "1.0"),
            ] {
                check(&source(elem, op, init, x, out, window), 1e-6);
            }
        }
    }

    #[test]
    fn running_folds_in_both_directions() {
        for (x, window) in [
            ("40", "window_dimensions = array<i64: 40>, padding = dense<[[39, 0]]> : tensor<1x2xi64>"),
            ("5x7", "window_dimensions = array<i64: 5, 1>, padding = dense<[[4, 0], [0, 0]]> : tensor<2x2xi64>"),
            ("5x7", "window_dimensions = array<i64: 1, 7>, padding = dense<[[0, 0], [0, 6]]> : tensor<2x2xi64>"),
            (
                "3x5x7",
                "window_dimensions = array<i64: 1, 5, 1>, padding = dense<[[0, 0], [4, 0], [0, 0]]> : tensor<3x2xi64>",
            ),
        ] {
            for (elem, op, init) in [
                ("f32", "add", "0.0"),
                ("f32", "maximum", "0xFF800000"),
                ("i32", "add", "0"),
                ("f64", "multiply", "1.0"),
            ] {
                let steps = check(&source(elem, op, init, x, x, window), 1e-6);
                assert!(steps.iter().any(|s| s.starts_with("running")), "{steps:?}");
            }
        }
    }

    #[test]
    fn what_is_no_identity_counts_in_the_padding_too() {
        let window = "window_dimensions = array<i64: 2>, padding = dense<[[1, 1]]> : tensor<1x2xi64>";
        check(&source("f32", "add", "1.0", "4", "5", window), 1e-6);
        check(&source("f32", "subtract", "0.0", "4", "5", window), 1e-6);
        check(&source("f8E5M2", "add", "0.0", "4", "5", window), 1e-6);
    }
}

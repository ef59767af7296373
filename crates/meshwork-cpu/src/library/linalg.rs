//! Factorization and solution on stacks of matrices: `cholesky` and `triangular_solve`, real, in the elements'
//! precision or, for `f32`, in `f64`.

use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};

use super::copy::dense;
use super::nest::{parts_of, piece};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// Reads and writes one matrix as `f64`.
#[derive(Clone, Copy, Debug)]
enum Float {
    Single,
    Double,
}

impl Float {
    fn of(elem: ElementType) -> Option<Float> {
        match elem {
            ElementType::F32 => Some(Float::Single),
            ElementType::F64 => Some(Float::Double),
            _ => None,
        }
    }

    fn size(self) -> usize {
        match self {
            Float::Single => 4,
            Float::Double => 8,
        }
    }

    /// # Safety
    /// `at` is valid for element `i`.
    unsafe fn get(self, at: *const u8, i: usize) -> f64 {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Float::Single => f64::from(at.cast::<f32>().add(i).read_unaligned()),
                Float::Double => at.cast::<f64>().add(i).read_unaligned(),
            }
        }
    }

    /// # Safety
    /// `at` is valid for element `i`.
    unsafe fn set(self, at: *mut u8, i: usize, v: f64) {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Float::Single => at.cast::<f32>().add(i).write_unaligned(v as f32),
                Float::Double => at.cast::<f64>().add(i).write_unaligned(v),
            }
        }
    }
}

/// `Σ a[k] b[k]` in a few lanes.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a8.remainder().iter().zip(b8.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a8.zip(b8) {
        for l in 0..8 {
            lanes[l] += x[l] * y[l];
        }
    }
    rest + lanes.iter().sum::<f64>()
}

/// `L` with `A = L Lᵀ`, or its transpose.
#[derive(Debug)]
struct Cholesky {
    a: Buf,
    out: Buf,
    n: usize,
    count: usize,
    lower: bool,
    float: Float,
    parts: usize,
}

impl Work for Cholesky {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.count * self.n * self.n * (self.n + 10) / 10) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let n = self.n;
        let bytes = n * n * self.float.size();
        for i in piece(self.count, self.parts, part, 1) {
            // SAFETY: matrix `i` of both stacks; scratch for one matrix, which is written before it is read.
            unsafe {
                let (a, out) = (frame.ptr(self.a).add(i * bytes), frame.ptr(self.out).add(i * bytes));
                let l = scratch.get(n * n * 8).cast::<f64>();
                std::ptr::write_bytes(l, 0, n * n);
                let l = std::slice::from_raw_parts_mut(l, n * n);
                let at = |i: usize, j: usize| if self.lower { i * n + j } else { j * n + i };
                let mut positive = true;
                'rows: for r in 0..n {
                    for c in 0..=r {
                        let (above, row) = l.split_at_mut(r * n);
                        let known = if c < r { &above[c * n..c * n + c] } else { &[] };
                        let x = self.float.get(a, at(r, c));
                        if c < r {
                            row[c] = (x - dot(&row[..c], known)) / above[c * n + c];
                        } else {
                            let square = x - dot(&row[..r], &row[..r]);
                            if square.is_nan() || square <= 0.0 {
                                positive = false;
                                break 'rows;
                            }
                            row[r] = square.sqrt();
                        }
                    }
                }
                for r in 0..n {
                    for c in 0..n {
                        let v = if positive { l[r * n + c] } else { f64::NAN };
                        self.float.set(out, at(r, c), v);
                    }
                }
            }
        }
        Ok(())
    }
}

/// `stablehlo.cholesky` of real matrices.
pub(super) fn cholesky(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let (elem, dims) = cx.shape(data.operands()[0]);
    let (Some(float), &[.., _, n]) = (Float::of(elem), &dims[..]) else { return Ok(false) };
    let a = dense(cx, op, data.operands()[0])?;
    let out = cx.result(data.results()[0]);
    let count = dims[..dims.len() - 2].iter().product::<i64>() as usize;
    let n = n as usize;
    let lower = data.flag("lower");
    let parts = parts_of(count * n * n * (n + 8), 1 << 17, count.max(1));
    let work = Cholesky { a, out, n, count, lower, float, parts };
    cx.step(op, format!("cholesky {elem} {dims:?}"), Arc::new(work), vec![a], vec![out]);
    Ok(true)
}

/// `op(A) X = B` or `X op(A) = B`.
#[derive(Debug)]
struct Solve {
    a: Buf,
    b: Buf,
    out: Buf,
    /// Order of `A`; rows and columns of `B`.
    n: usize,
    rows: usize,
    columns: usize,
    count: usize,
    left: bool,
    lower: bool,
    unit: bool,
    transpose: bool,
    float: Float,
    parts: usize,
}

impl Work for Solve {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.count * self.rows * self.columns * (self.n + 10) / 10) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let (n, size) = (self.n, self.float.size());
        let other = if self.left { self.columns } else { self.rows };
        // As T X = B with T = op(A) on the left; on the right Tᵀ Xᵀ = Bᵀ.
        let flip = self.transpose == self.left;
        let lower = self.lower != flip;
        for i in piece(self.count, self.parts, part, 1) {
            // SAFETY: matrices `i` of the stacks; scratch for both, which is written before it is read.
            unsafe {
                let a = frame.ptr(self.a).add(i * n * n * size);
                let b = frame.ptr(self.b).add(i * self.rows * self.columns * size);
                let out = frame.ptr(self.out).add(i * self.rows * self.columns * size);
                let memory = scratch.get((n * n + n * other) * 8).cast::<f64>();
                std::ptr::write_bytes(memory, 0, n * n + n * other);
                let t = std::slice::from_raw_parts_mut(memory, n * n);
                // Each right-hand side in one line.
                let x = std::slice::from_raw_parts_mut(memory.add(n * n), n * other);
                for r in 0..n {
                    for c in 0..n {
                        let wanted = if lower { c <= r } else { c >= r };
                        if wanted {
                            t[r * n + c] = self.float.get(a, if flip { c * n + r } else { r * n + c });
                        }
                    }
                }
                let at = |k: usize, s: usize| if self.left { k * self.columns + s } else { s * self.columns + k };
                for s in 0..other {
                    for k in 0..n {
                        x[s * n + k] = self.float.get(b, at(k, s));
                    }
                    let x = &mut x[s * n..(s + 1) * n];
                    for step in 0..n {
                        let r = if lower { step } else { n - 1 - step };
                        let known = if lower { 0..r } else { r + 1..n };
                        let sum = x[r] - dot(&t[r * n + known.start..r * n + known.end], &x[known.clone()]);
                        x[r] = if self.unit { sum } else { sum / t[r * n + r] };
                    }
                    for k in 0..n {
                        self.float.set(out, at(k, s), x[k]);
                    }
                }
            }
        }
        Ok(())
    }
}

/// `stablehlo.triangular_solve` of real matrices.
pub(super) fn triangular_solve(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let (elem, dims) = cx.shape(data.operands()[1]);
    let (Some(float), &[.., rows, columns]) = (Float::of(elem), &dims[..]) else { return Ok(false) };
    let (a, b) = (dense(cx, op, data.operands()[0])?, dense(cx, op, data.operands()[1])?);
    let out = cx.result(data.results()[0]);
    let left = data.flag("left_side");
    let (rows, columns) = (rows as usize, columns as usize);
    let n = if left { rows } else { columns };
    let count = dims[..dims.len() - 2].iter().product::<i64>() as usize;
    let work = Solve {
        a,
        b,
        out,
        n,
        rows,
        columns,
        count,
        left,
        lower: data.flag("lower"),
        unit: data.flag("unit_diagonal"),
        transpose: matches!(data.enum_value("transpose_a"), Some("TRANSPOSE" | "ADJOINT")),
        float,
        parts: parts_of(count * rows * columns * (n + 8), 1 << 17, count.max(1)),
    };
    cx.step(op, format!("triangular_solve {elem} {dims:?}"), Arc::new(work), vec![a, b], vec![out]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::library::testing::{check, check_on, noise};
    use meshwork_ir::{ElementType, Literal};

    /// Positive definite matrices: noise times its transpose plus a multiple of the identity.
    fn definite(count: i64, n: i64, elem: ElementType) -> Literal {
        let x = noise(&[count, n, n], elem, 7).to_f64s();
        let n = n as usize;
        let mut out = vec![];
        for m in x.chunks(n * n) {
            for i in 0..n {
                for j in 0..n {
                    let dot: f64 = (0..n).map(|k| m[i * n + k] * m[j * n + k]).sum();
                    out.push(dot + if i == j { 5.0 } else { 0.0 });
                }
            }
        }
        Literal::from_f64s([count, n as i64, n as i64], elem, &out).unwrap()
    }

    #[test]
    fn factors_of_stacks() {
        for (elem, tolerance) in [("f32", 1e-5), ("f64", 1e-12)] {
            let e = ElementType::from_text(elem).unwrap();
            for (count, n) in [(2, 5), (1, 1), (3, 0), (1, 37)] {
                for lower in [true, false] {
                    let source = format!(
                        "func.func @main(%a: tensor<{count}x{n}x{n}x{elem}>) -> tensor<{count}x{n}x{n}x{elem}> {{
                        %r = stablehlo.cholesky %a, lower = {lower} : tensor<{count}x{n}x{n}x{elem}>
                        return %r : tensor<{count}x{n}x{n}x{elem}> }}"
                    );
                    let x = if n == 0 { noise(&[count, 0, 0], e, 1) } else { definite(count, n, e) };
                    check_on(&source, &[x], tolerance);
                }
            }
        }
        check(
            "func.func @main(%a: tensor<2x3x3xf32>) -> tensor<2x3x3xf32> {
            %n = stablehlo.cholesky %a, lower = true : tensor<2x3x3xf32>
            return %n : tensor<2x3x3xf32> }",
            1e-5,
        );
    }

    #[test]
    fn solves_all_kinds() {
        for (elem, tolerance) in [("f32", 1e-4), ("f64", 1e-10)] {
            let e = ElementType::from_text(elem).unwrap();
            for (left, rows, columns) in [("true", 5, 3), ("false", 3, 5), ("true", 1, 1), ("false", 4, 4)] {
                let n = if left == "true" { rows } else { columns };
                for lower in ["true", "false"] {
                    for unit in ["true", "false"] {
                        for transpose in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"] {
                            let (a, b) =
                                (format!("tensor<2x{n}x{n}x{elem}>"), format!("tensor<2x{rows}x{columns}x{elem}>"));
                            let source = format!(
                                "func.func @main(%a: {a}, %b: {b}) -> {b} {{
                                %r = \"stablehlo.triangular_solve\"(%a, %b) <{{left_side = {left}, lower = {lower}, transpose_a = #stablehlo<transpose {transpose}>, unit_diagonal = {unit}}}> : ({a}, {b}) -> {b}
                                return %r : {b} }}"
                            );
                            check_on(&source, &[definite(2, n, e), noise(&[2, rows, columns], e, 3)], tolerance);
                        }
                    }
                }
            }
        }
    }
}

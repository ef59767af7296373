//! Reductions over whole dimensions that the fusion does not take, and the position of the largest or smallest
//! element.

use std::sync::Arc;

use meshwork_ir::OpId;

use super::attrs;
use super::combine::{Body, Fold, Line, fold_of, line_of, recognise};
use super::copy::view_of;
use super::nest::{Nest, parts_of, piece, walk};
use super::window::{constant, is_identity};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// `out[k] = init ∘ x[k, r] ∘ ...` over all `r`.
struct Reduce {
    x: Buf,
    init: (Buf, isize),
    out: Buf,
    size: usize,
    /// What is kept, outermost first: operand 0 is the result (its last dimension contiguous), operand 1 the input.
    kept: Nest<2>,
    /// What is reduced.
    reduced: Nest<1>,
    offset: isize,
    out_offset: isize,
    how: How,
    parts: usize,
}

#[derive(Clone, Copy)]
enum How {
    /// The innermost reduced dimension is the fastest: each element of the result is one fold along lines.
    Lines(Line),
    /// The innermost kept dimension is the fastest: rows are folded into rows.
    Rows(Fold),
}

impl std::fmt::Debug for Reduce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reduce {:?} over {:?}", self.kept.dims, self.reduced.dims)
    }
}

/// Rows that are folded before they are folded into the result, which keeps long sums exact.
const GROUP: usize = 128;

impl Work for Reduce {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let n = (self.kept.len() * self.reduced.len()) as u64;
        match self.how {
            How::Lines(_) => n / 4 + 10 * self.kept.len() as u64,
            How::Rows(_) => n / 8 + 10 * self.reduced.len() as u64,
        }
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mut dims = self.kept.dims.clone();
        let mut at = [self.out_offset, self.offset];
        // Parts divide the longest kept dimension.
        if let Some(d) = (0..dims.len()).max_by_key(|&d| dims[d]) {
            let range = piece(dims[d], self.parts, part, 1);
            for i in 0..2 {
                at[i] += range.start as isize * self.kept.strides[d][i];
            }
            dims[d] = range.len();
        } else if part > 0 {
            return Ok(());
        }
        if dims.contains(&0) {
            return Ok(());
        }
        // SAFETY: in the whole function: the nests name elements of the buffers only.
        unsafe {
            let (x, out) = (frame.ptr(self.x).cast_const(), frame.ptr(self.out));
            let init = frame.ptr(self.init.0).offset(self.init.1).cast_const();
            match self.how {
                How::Lines(line) => {
                    let (outer, n, step) = match (self.reduced.dims.split_last(), self.reduced.strides.last()) {
                        (Some((&n, outer)), Some(&[step])) => (outer, n, step),
                        _ => (&[][..], 1, 0),
                    };
                    walk(&dims, &self.kept.strides, at, &mut |[o, i]| {
                        let acc = out.offset(o);
                        std::ptr::copy_nonoverlapping(init, acc, self.size);
                        walk(outer, &self.reduced.strides[..outer.len()], [i], &mut |[i]| {
                            line.run(acc, x.offset(i), step, n);
                        });
                    });
                }
                How::Rows(fold) => {
                    let (n, outer) = dims.split_last().map_or((1, &[][..]), |(&n, outer)| (n, outer));
                    let [ts, xs] = self.kept.strides.last().copied().unwrap_or([self.size as isize; 2]);
                    let row = scratch.get(n * self.size);
                    let unit = self.size as isize;
                    walk(outer, &self.kept.strides[..outer.len()], at, &mut |[o, i]| {
                        let acc = out.offset(o);
                        for j in 0..n as isize {
                            std::ptr::copy_nonoverlapping(init, acc.offset(j * ts), self.size);
                        }
                        let mut count = 0;
                        walk(&self.reduced.dims, &self.reduced.strides, [i], &mut |[i]| {
                            if count == 0 {
                                for j in 0..n as isize {
                                    let from = x.offset(i + j * xs);
                                    std::ptr::copy_nonoverlapping(from, row.offset(j * unit), self.size);
                                }
                            } else {
                                fold(row, unit, x.offset(i), xs, n);
                            }
                            count += 1;
                            if count == GROUP {
                                fold(acc, ts, row, unit, n);
                                count = 0;
                            }
                        });
                        if count > 0 {
                            fold(acc, ts, row, unit, n);
                        }
                    });
                }
            }
        }
        Ok(())
    }
}

/// `stablehlo.reduce` of one operand with a simple body, or of values and positions.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let dimensions = attrs::ints(data, "dimensions")?;
    let Some(block) = cx.module.body_of(op, 0) else { return Ok(false) };
    if data.operands().len() != 2 {
        return super::extreme::lower(cx, op, &dimensions, block);
    }
    let Some(Body::Fold(combine)) = recognise(cx.module, block) else { return Ok(false) };
    let (x, init) = (view_of(cx, data.operands()[0])?, view_of(cx, data.operands()[1])?);
    let (Some(fold), Some(line)) = (fold_of(x.elem, combine), line_of(x.elem, combine)) else { return Ok(false) };
    let result = data.results()[0];
    if cx.shape(result).0 != x.elem {
        return Ok(false);
    }
    let buf = cx.result(result);
    let place = (init.buf, init.offset as isize);
    let name = format!("reduce {} {:?} over {dimensions:?}", x.elem, x.dims);
    // Few results of many elements: first chunks of the longest reduced dimension by themselves.
    let kept: Vec<usize> = (0..x.dims.len()).filter(|d| !dimensions.contains(&(*d as i64))).collect();
    let results: i64 = kept.iter().map(|&d| x.dims[d]).product();
    let longest = dimensions.iter().map(|&d| d as usize).max_by_key(|&d| x.dims[d]);
    // Each chunk starts from the initial value, which must not count then.
    let identity = constant(cx, &init).is_some_and(|c| is_identity(&c, combine));
    let chunks = match longest {
        Some(d) if results < 64 && identity => parts_of(x.len(), 1 << 15, 64).min(x.dims[d] as usize / 2),
        _ => 1,
    };
    let how = [How::Rows(fold), How::Lines(line)];
    match longest {
        Some(d) if chunks > 1 => {
            // As a further kept dimension of `chunks` equal chunks, and what is left over as one more.
            let each = x.dims[d] / chunks as i64;
            let rest = x.dims[d] - each * chunks as i64;
            let mut split = x.clone();
            split.dims[d] = each;
            split.dims.insert(0, chunks as i64);
            split.strides.insert(0, each * x.strides[d]);
            let mut dims: Vec<i64> = kept.iter().map(|&d| x.dims[d]).collect();
            dims.insert(0, chunks as i64 + i64::from(rest > 0));
            let partial = cx.buffer(x.elem, &dims);
            let shifted: Vec<i64> = dimensions.iter().map(|&d| d + 1).collect();
            let work = reduce(&split, place, partial, 0, &shifted, how);
            let mut works = vec![work];
            if rest > 0 {
                let mut tail = x.clone();
                tail.dims[d] = rest;
                tail.offset += each * chunks as i64 * x.strides[d];
                let at = chunks as isize * results as isize * x.elem.storage_bytes() as isize;
                works.push(reduce(&tail, place, partial, at, &dimensions, how));
            }
            let reads = vec![x.buf, init.buf];
            cx.step(op, format!("chunks of {name}"), Arc::new(Both(works)), reads, vec![partial]);
            let view = View::dense(partial, x.elem, &dims);
            let work = reduce(&view, place, buf, 0, &[0], how);
            cx.step(op, name, Arc::new(work), vec![partial, init.buf], vec![buf]);
        }
        _ => {
            let work = reduce(&x, place, buf, 0, &dimensions, how);
            cx.step(op, name, Arc::new(work), vec![x.buf, init.buf], vec![buf]);
        }
    }
    Ok(true)
}

/// Several reductions into disjoint places.
#[derive(Debug)]
struct Both(Vec<Reduce>);

impl Work for Both {
    fn parts(&self) -> usize {
        self.0.iter().map(Reduce::parts).sum()
    }

    fn cost(&self) -> u64 {
        self.0.iter().map(Reduce::cost).sum()
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mut part = part;
        for work in &self.0 {
            if part < work.parts() {
                // SAFETY: the trait's contract.
                return unsafe { work.run(frame, scratch, part) };
            }
            part -= work.parts();
        }
        Ok(())
    }
}

/// The reduction of `x` over `dimensions` into `out` from byte `at` on.
fn reduce(x: &View, init: (Buf, isize), out: Buf, at: isize, dimensions: &[i64], [rows, lines]: [How; 2]) -> Reduce {
    let is_reduced = |d: usize| dimensions.contains(&(d as i64));
    let pick = |list: &[i64], reduced: bool| -> Vec<i64> {
        (0..x.dims.len()).filter(|&d| is_reduced(d) == reduced).map(|d| list[d]).collect()
    };
    let dims = pick(&x.dims, false);
    let strides = View::dense(out, x.elem, &dims).strides;
    let kept = Nest::new(&dims, [&strides, &pick(&x.strides, false)]);
    let reduced = Nest::new(&pick(&x.dims, true), [&pick(&x.strides, true)]);
    let fastest = |s: Option<isize>| s.map_or(isize::MAX, |s| s.abs().max(1));
    let (k, r) = (fastest(kept.strides.last().map(|s| s[1])), fastest(reduced.strides.last().map(|s| s[0])));
    let size = x.elem.storage_bytes();
    let how = if k < r && kept.dims.last().is_some_and(|&n| n >= 4) { rows } else { lines };
    let longest = kept.dims.iter().copied().max().unwrap_or(1).max(1);
    let parts = parts_of(kept.len() * reduced.len().max(1), 1 << 15, longest);
    let (offset, out_offset) = (x.offset as isize, at);
    Reduce { x: x.buf, init, out, size, kept, reduced, offset, out_offset, how, parts }
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    fn source(elem: &str, op: &str, dims: &[i64], over: &[i64]) -> String {
        let join = |list: &[i64]| list.iter().map(|d| format!("{d}x")).collect::<String>();
        let kept: Vec<i64> = (0..dims.len()).filter(|d| !over.contains(&(*d as i64))).map(|d| dims[d]).collect();
        let (x, r) = (format!("{}{elem}", join(dims)), format!("{}{elem}", join(&kept)));
        format!(
            "func.func @main(%a: tensor<{x}>, %i: tensor<{elem}>) -> tensor<{r}> {{
            %r = stablehlo.reduce(%a init: %i) applies stablehlo.{op} across dimensions = {over:?}
                : (tensor<{x}>, tensor<{elem}>) -> tensor<{r}>
            return %r : tensor<{r}> }}"
        )
    }

    #[test]
    fn all_bodies_types_and_dimensions() {
        for (elem, tolerance) in [
            ("f32", 1e-5),
            ("f64", 1e-12),
            ("bf16", 0.1),
            ("f16", 0.02),
            ("i8", 0.0),
            ("ui16", 0.0),
            ("i32", 0.0),
            ("i64", 0.0),
            ("i1", 0.0),
            ("complex<f32>", 1e-5),
        ] {
            for op in ["add", "multiply", "maximum", "minimum", "and", "or", "xor"] {
                let bits = matches!(op, "and" | "or" | "xor");
                // Products of noise do not fit in f16.
                if (elem == "f16" && op == "multiply")
                    || (bits && (elem.contains('f')))
                    || (elem.starts_with('c') && op.ends_with("mum"))
                {
                    continue;
                }
                for over in [&[0][..], &[1], &[2], &[0, 2], &[0, 1, 2], &[]] {
                    check(&source(elem, op, &[3, 5, 7], over), tolerance);
                }
            }
        }
        for (dims, over) in [
            (&[0i64, 3][..], &[0i64][..]),
            (&[3, 0], &[0]),
            (&[1, 1], &[0, 1]),
            (&[40000], &[0]),
            (&[7, 9001], &[1]),
            (&[9001, 7], &[0]),
            (&[300, 200], &[0]),
            (&[3, 200, 17, 11], &[1, 3]),
        ] {
            check(&source("f32", "add", dims, over), 1e-4);
        }
    }

    #[test]
    fn few_results_of_many_elements_in_chunks() {
        for (dims, over) in [("70001", "[0]"), ("3x40000", "[1]"), ("40000x3", "[0]"), ("100x3x700", "[0, 2]")] {
            let (out, elem) = (if over == "[0]" && !dims.contains('x') { "" } else { "3x" }, "f32");
            for (op, init) in [("add", "0.0"), ("maximum", "0xFF800000")] {
                let steps = check(
                    &format!(
                        "func.func @main(%a: tensor<{dims}x{elem}>) -> tensor<{out}{elem}> {{
                        %i = stablehlo.constant dense<{init}> : tensor<{elem}>
                        %r = stablehlo.reduce(%a init: %i) applies stablehlo.{op} across dimensions = {over}
                            : (tensor<{dims}x{elem}>, tensor<{elem}>) -> tensor<{out}{elem}>
                        return %r : tensor<{out}{elem}> }}"
                    ),
                    1e-4,
                );
                assert_eq!(steps.len(), 2, "{steps:?}");
            }
        }
    }

    /// A sum, a product and a count at once, of rows and of columns.
    #[test]
    fn other_bodies() {
        for (over, out) in [("[1]", "5x"), ("[0]", "7x"), ("[0, 1]", "")] {
            let steps = check(
                &format!(
                    "func.func @main(%a: tensor<5x7xf32>, %b: tensor<5x7xf8E4M3FN>) -> (tensor<{out}f32>, tensor<{out}f8E4M3FN>) {{
                    %z = stablehlo.constant dense<0.0> : tensor<f32>
                    %i = stablehlo.constant dense<0.5> : tensor<f8E4M3FN>
                    %r:2 = stablehlo.reduce(%a init: %z), (%b init: %i) across dimensions = {over}
                        : (tensor<5x7xf32>, tensor<5x7xf8E4M3FN>, tensor<f32>, tensor<f8E4M3FN>) -> (tensor<{out}f32>, tensor<{out}f8E4M3FN>)
                    reducer(%x: tensor<f32>, %y: tensor<f32>) (%p: tensor<f8E4M3FN>, %q: tensor<f8E4M3FN>) {{
                        %s = stablehlo.add %x, %y : tensor<f32>
                        %m = stablehlo.maximum %p, %q : tensor<f8E4M3FN>
                        stablehlo.return %s, %m : tensor<f32>, tensor<f8E4M3FN>
                    }}
                    return %r#0, %r#1 : tensor<{out}f32>, tensor<{out}f8E4M3FN> }}"
                ),
                1e-5,
            );
            assert!(steps.iter().any(|s| s.starts_with("scalar reduce")), "{steps:?}");
        }
        check(&source("complex<f32>", "maximum", &[3, 4], &[0]), 1e-6);
    }
}

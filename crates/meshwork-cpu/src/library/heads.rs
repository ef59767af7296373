//! Convolutions to a few output features whose input features are neighbors, such as the last of many networks: each element is the
//! sum of the dot products of some runs of neighbors. As products of matrices they would leave most of a tile empty.

use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};
use meshwork_mesh::sort_by_key;

use super::conv::Conv;
use super::copy::copy;
use super::dot::micro::Tile;
use super::nest::{parts_of, piece, walk};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// More features fill enough of a tile.
const FEW: i64 = 3;
/// Elements of a run that is worth it.
const LEAST_RUN: i64 = 16;

/// `out[p, f] = Σ x[p + run, i] w[f, run, i]` along lines of positions `p`.
#[derive(Debug)]
struct Heads<T> {
    x: Buf,
    /// By feature and run, without gaps.
    w: Buf,
    out: Buf,
    /// Byte offsets of each line: input, result.
    lines: Vec<[isize; 2]>,
    /// Positions of a line, and bytes from one to the next: input, result.
    n: usize,
    steps: [isize; 2],
    /// Byte offsets of the runs, and their elements.
    runs: Vec<isize>,
    run: usize,
    features: usize,
    /// Bytes from one feature of the result to the next.
    feature: isize,
    parts: usize,
    number: std::marker::PhantomData<T>,
}

/// Adds the steps of `conv`, whose operands are floats and whose input is padded already, if it is one of these.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId, conv: &Conv) -> bool {
    let (d, lhs, rhs) = (&conv.dims, &conv.lhs, &conv.rhs);
    let (elem, shape) = cx.shape(cx.module.op(op).results()[0]);
    let one_type = lhs.elem == elem && rhs.elem == elem && matches!(elem, ElementType::F32 | ElementType::F64);
    let grouped = conv.batch_groups != 1 || conv.feature_groups != 1;
    let (features, size) = (shape[d.output_feature as usize], elem.storage_bytes() as i64);
    let at = |x: &View, d: i64| x.strides[d as usize];
    let channels = rhs.dims[d.kernel_input_feature as usize];
    if !one_type
        || grouped
        || features > FEW
        || shape.contains(&0)
        || rhs.is_empty()
        || at(lhs, d.input_feature) != size
    {
        return false;
    }
    // Taps: how many, and bytes from one to the next in the input and the kernel, in the order of the input.
    let mut offset = rhs.offset;
    let mut taps: Vec<[i64; 3]> = vec![];
    for (s, (&i, &k)) in d.input_spatial.iter().zip(&d.kernel_spatial).enumerate() {
        let (n, mut step) = (rhs.dims[k as usize], at(rhs, k));
        if conv.reversal[s] {
            offset += (n - 1) * step;
            step = -step;
        }
        taps.push([n, at(lhs, i) * conv.rhs_dilation[s], step]);
    }
    taps.retain(|t| t[0] != 1);
    sort_by_key(&mut taps, |t| std::cmp::Reverse(t[1]));
    let all: Vec<[i64; 3]> = [[features, 0, at(rhs, d.kernel_output_feature)]]
        .into_iter()
        .chain(taps.iter().copied())
        .chain([[channels, size, at(rhs, d.kernel_input_feature)]])
        .collect();
    // What follows a run makes it longer.
    let mut run = channels;
    while let Some(&[n, ..]) = taps.last().filter(|t| t[1] == run * size) {
        run *= n;
        taps.pop();
    }
    if run < LEAST_RUN {
        return false;
    }
    let dims: Vec<i64> = all.iter().map(|l| l[0]).collect();
    let from = View { dims: dims.clone(), offset, strides: all.iter().map(|l| l[2]).collect(), ..rhs.clone() };
    let w = cx.buffer(elem, &dims);
    copy(cx, op, &from, &View::dense(w, elem, &dims));

    let out = View::dense(cx.result(cx.module.op(op).results()[0]), elem, &shape);
    let mut positions = vec![(shape[d.output_batch as usize], [at(lhs, d.input_batch), at(&out, d.output_batch)])];
    for (s, (&i, &o)) in d.input_spatial.iter().zip(&d.output_spatial).enumerate() {
        positions.push((shape[o as usize], [at(lhs, i) * conv.strides[s], at(&out, o)]));
    }
    positions.retain(|p| p.0 != 1);
    sort_by_key(&mut positions, |p| std::cmp::Reverse(p.1[1]));
    let (n, steps) = positions.pop().unwrap_or((1, [0, 0]));
    let (outer, strides): (Vec<usize>, Vec<[isize; 2]>) =
        positions.iter().map(|p| (p.0 as usize, p.1.map(|s| s as isize))).unzip();
    let mut lines = vec![];
    walk(&outer, &strides, [lhs.offset as isize, 0], &mut |line| lines.push(line));
    let (outer, strides): (Vec<usize>, Vec<[isize; 1]>) = taps.iter().map(|t| (t[0] as usize, [t[1] as isize])).unzip();
    let mut runs = vec![];
    walk(&outer, &strides, [0], &mut |[at]| runs.push(at));
    let sums = lines.len() * n as usize * runs.len() * run as usize * features as usize;
    let heads = Heads::<f32> {
        x: lhs.buf,
        w,
        out: out.buf,
        parts: parts_of(sums, 1 << 18, lines.len()),
        lines,
        n: n as usize,
        steps: steps.map(|s| s as isize),
        runs,
        run: run as usize,
        features: features as usize,
        feature: at(&out, d.output_feature) as isize,
        number: std::marker::PhantomData,
    };
    let (name, reads) = (format!("convolution to few features {elem} {shape:?}"), vec![heads.x, w]);
    let work: Arc<dyn Work> = match elem {
        ElementType::F64 => Arc::new(heads.of::<f64>()),
        _ => Arc::new(heads),
    };
    cx.step(op, name, work, reads, vec![out.buf]);
    true
}

impl<T> Heads<T> {
    /// The same of other numbers.
    fn of<U>(self) -> Heads<U> {
        let Heads { x, w, out, lines, n, steps, runs, run, features, feature, parts, .. } = self;
        Heads { x, w, out, lines, n, steps, runs, run, features, feature, parts, number: std::marker::PhantomData }
    }
}

impl<T: Tile> Heads<T> {
    /// One feature along a line.
    ///
    /// # Safety
    /// As [`Work::run`]; all start at the line.
    unsafe fn line(&self, x: *const u8, w: *const T, out: *mut u8) {
        let [step, to] = self.steps;
        let row = step / size_of::<T>() as isize;
        // SAFETY: in the whole function: elements of the operands that runs and positions name.
        unsafe {
            let runs = |i: usize| {
                let x = x.offset(i as isize * step);
                let places = self.runs.iter().enumerate();
                places.map(move |(r, &run)| (x.offset(run).cast::<T>(), w.add(r * self.run)))
            };
            let fours = self.n / 4 * 4;
            for i in (0..fours).step_by(4) {
                let mut sums = [T::default(); 4];
                for (x, w) in runs(i) {
                    let more = T::dots(x, row, w, self.run);
                    sums = std::array::from_fn(|p| sums[p].plus(more[p]));
                }
                for (p, sum) in sums.into_iter().enumerate() {
                    out.offset((i + p) as isize * to).cast::<T>().write(sum);
                }
            }
            for i in fours..self.n {
                let sum = runs(i).fold(T::default(), |sum, (x, w)| sum.plus(T::dot(x, w, self.run)));
                out.offset(i as isize * to).cast::<T>().write(sum);
            }
        }
    }
}

impl<T: Tile> Work for Heads<T> {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.lines.len() * self.n * self.features * self.runs.len() * (4 + self.run / 16)) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        for &[x, out] in &self.lines[piece(self.lines.len(), self.parts, part, 1)] {
            for f in 0..self.features {
                // SAFETY: the trait's contract; parts are disjoint lines of the result.
                unsafe {
                    let w = frame.ptr(self.w).cast::<T>().add(f * self.runs.len() * self.run);
                    let out = frame.ptr(self.out).offset(out + f as isize * self.feature);
                    self.line(frame.ptr(self.x).offset(x), w, out);
                }
            }
        }
        Ok(())
    }
}

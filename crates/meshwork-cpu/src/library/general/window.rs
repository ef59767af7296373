//! Sliding windows with any body: `reduce_window` of one array or several, and `select_and_scatter`.

use std::sync::Arc;

use meshwork_ir::{OpId, Scalar};

use super::machine::Machine;
use super::{Array, SCALAR_BODY, body, fold, offset_of};
use crate::compile::lower::Lower;
use crate::library::copy::view_of;
use crate::library::nest::{parts_of, piece};
use crate::library::window::{Dim, windows};
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// Calls `visit` with each element of the window at `at`, in row-major order: its index if it is inside the input.
fn taps(dims: &[Dim], at: &[i64], visit: &mut impl FnMut(Option<&[i64]>)) {
    let mut within = vec![0i64; dims.len()];
    let mut index = vec![0i64; dims.len()];
    if dims.iter().any(|d| d.size == 0) {
        return;
    }
    loop {
        let mut inside = true;
        for d in 0..dims.len() {
            match dims[d].tap(at[d], within[d]) {
                Some(i) => index[d] = i,
                None => inside = false,
            }
        }
        visit(inside.then_some(&index[..]));
        let Some(d) = (0..dims.len()).rev().find(|&d| within[d] + 1 < dims[d].size) else { return };
        within[d] += 1;
        within[d + 1..].fill(0);
    }
}

fn at_of(mut i: usize, dims: &[i64], out: &mut [i64]) {
    for (at, &n) in out.iter_mut().zip(dims).rev() {
        *at = (i % n as usize) as i64;
        i /= n as usize;
    }
}

fn offset(index: &[i64], strides: &[i64]) -> isize {
    index.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>() as isize
}

#[derive(Debug)]
struct Pool {
    machine: Machine,
    dims: Vec<Dim>,
    shape: Vec<i64>,
    inputs: Vec<(Array, Vec<i64>)>,
    inits: Vec<Array>,
    outs: Vec<Array>,
    parts: usize,
}

impl Work for Pool {
    fn parts(&self) -> usize {
        self.parts
    }

    fn slowness(&self) -> Option<&'static str> {
        Some(SCALAR_BODY)
    }

    fn cost(&self) -> u64 {
        self.dims.iter().map(|d| (d.out * d.size) as u64).product::<u64>() * 20 * self.machine.len() as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let total = self.shape.iter().product::<i64>() as usize;
        let mut at = vec![0; self.shape.len()];
        // SAFETY: in the whole function: elements of the arrays.
        unsafe {
            let mut registers = self.machine.start(frame);
            let first: Vec<Scalar> = self.inits.iter().map(|x| x.get(frame, 0)).collect();
            for i in piece(total, self.parts, part, 1) {
                at_of(i, &self.shape, &mut at);
                let mut acc = first.clone();
                taps(&self.dims, &at, &mut |index| match index {
                    Some(index) => {
                        let x = self.inputs.iter().map(|(x, strides)| x.get(frame, offset(index, strides)));
                        fold(&self.machine, &mut registers, &mut acc, x);
                    }
                    // What is outside counts as the initial value.
                    None => fold(&self.machine, &mut registers, &mut acc, first.iter().copied()),
                });
                for (out, value) in self.outs.iter().zip(acc) {
                    out.set(frame, (i * out.elem.storage_bytes()) as isize, value);
                }
            }
        }
        Ok(())
    }
}

/// `stablehlo.reduce_window` with any body.
pub(in crate::library) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let Some(machine) = body(cx, op, 0) else { return Ok(false) };
    let views = data.operands().iter().map(|&v| view_of(cx, v)).collect::<Result<Vec<_>, _>>()?;
    let (inputs, inits) = views.split_at(views.len() / 2);
    let shape = cx.shape(data.results()[0]).1;
    let dims = windows(data, &inputs[0], &View::dense(Buf(0), inputs[0].elem, &shape))?;
    let mut outs = vec![];
    for &result in data.results() {
        let (elem, dims) = cx.shape(result);
        outs.push(Array::new(&View::dense(cx.result(result), elem, &dims)));
    }
    let taps: i64 = dims.iter().map(|d| d.out * d.size).product();
    let parts = parts_of(taps as usize, 1 << 11, (shape.iter().product::<i64>() as usize).max(1));
    let name = format!("scalar windows {} {shape:?}", inputs[0].elem);
    let reads = views.iter().map(|v| v.buf).chain(machine.reads()).collect();
    let writes = outs.iter().map(|o| o.buf).collect();
    let inputs = inputs.iter().map(|v| (Array::new(v), v.strides.clone())).collect();
    let inits = inits.iter().map(Array::new).collect();
    cx.step(op, name, Arc::new(Pool { machine, dims, shape, inputs, inits, outs, parts }), reads, writes);
    Ok(true)
}

#[derive(Debug)]
struct Select {
    select: Machine,
    scatter: Machine,
    dims: Vec<Dim>,
    x: (Array, Vec<i64>),
    source: (Array, Vec<i64>, Vec<i64>),
    init: Array,
    out: (Array, Vec<i64>),
    elements: usize,
}

impl Work for Select {
    fn parts(&self) -> usize {
        1
    }

    fn slowness(&self) -> Option<&'static str> {
        Some(SCALAR_BODY)
    }

    fn cost(&self) -> u64 {
        self.dims.iter().map(|d| (d.out * d.size) as u64).product::<u64>() * 20 * self.select.len() as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, _: usize) -> Result<(), Fault> {
        let (source, shape, source_strides) = &self.source;
        let total = shape.iter().product::<i64>() as usize;
        let mut at = vec![0; shape.len()];
        // SAFETY: in the whole function: elements of the arrays.
        unsafe {
            let (mut select, mut scatter) = (self.select.start(frame), self.scatter.start(frame));
            let first = self.init.get(frame, 0);
            let size = self.out.0.elem.storage_bytes();
            for i in 0..self.elements {
                self.out.0.set(frame, (i * size) as isize, first);
            }
            for i in 0..total {
                at_of(i, shape, &mut at);
                let mut best: Option<(Scalar, isize)> = None;
                taps(&self.dims, &at, &mut |index| {
                    let Some(index) = index else { return };
                    let value = self.x.0.get(frame, offset(index, &self.x.1));
                    if let Some((kept, _)) = best {
                        select[0] = kept;
                        select[1] = value;
                        self.select.call(&mut select);
                        if self.select.result(0, &select).as_bool() {
                            return;
                        }
                    }
                    best = Some((value, offset(index, &self.out.1)));
                });
                if let Some((_, place)) = best {
                    let mut acc = [self.out.0.get(frame, place)];
                    let from = source.get(frame, offset_of(i, shape, source_strides));
                    fold(&self.scatter, &mut scatter, &mut acc, [from].into_iter());
                    self.out.0.set(frame, place, acc[0]);
                }
            }
        }
        Ok(())
    }
}

/// `stablehlo.select_and_scatter` with any bodies.
pub(in crate::library) fn select_and_scatter(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let &[operand, source, init] = data.operands() else { return Ok(false) };
    let (Some(select), Some(scatter)) = (body(cx, op, 0), body(cx, op, 1)) else { return Ok(false) };
    let (x, source, init) = (view_of(cx, operand)?, view_of(cx, source)?, view_of(cx, init)?);
    let dims = windows(data, &x, &View::dense(Buf(0), x.elem, &source.dims))?;
    let (elem, shape) = cx.shape(data.results()[0]);
    let out = View::dense(cx.result(data.results()[0]), elem, &shape);
    let reads = [x.buf, source.buf, init.buf].into_iter().chain(select.reads()).chain(scatter.reads()).collect();
    let work = Select {
        select,
        scatter,
        dims,
        x: (Array::new(&x), x.strides.clone()),
        source: (Array::new(&source), source.dims.clone(), source.strides.clone()),
        init: Array::new(&init),
        out: (Array::new(&out), out.strides.clone()),
        elements: out.len(),
    };
    let name = format!("scalar select and scatter {} {:?}", x.elem, x.dims);
    cx.step(op, name, Arc::new(work), reads, vec![out.buf]);
    Ok(true)
}

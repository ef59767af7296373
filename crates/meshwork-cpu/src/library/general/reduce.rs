//! Reductions over whole dimensions by any body, of one array or several.

use std::sync::Arc;

use meshwork_ir::{OpId, Scalar};

use super::machine::Machine;
use super::{Array, SCALAR_BODY, body, fold, offset_of};
use crate::compile::lower::Lower;
use crate::library::attrs;
use crate::library::copy::view_of;
use crate::library::nest::{parts_of, piece};
use crate::step::{Fault, Frame, Scratch, View, Work};

#[derive(Debug)]
struct Reduce {
    machine: Machine,
    inputs: Vec<Array>,
    inits: Vec<Array>,
    outs: Vec<Array>,
    /// Extents that are kept, and byte strides of each input there.
    kept: (Vec<i64>, Vec<Vec<i64>>),
    /// The same of what is reduced.
    reduced: (Vec<i64>, Vec<Vec<i64>>),
    parts: usize,
}

impl Reduce {
    fn count(dims: &[i64]) -> usize {
        dims.iter().product::<i64>() as usize
    }
}

impl Work for Reduce {
    fn parts(&self) -> usize {
        self.parts
    }

    fn slowness(&self) -> Option<&'static str> {
        Some(SCALAR_BODY)
    }

    fn cost(&self) -> u64 {
        (Reduce::count(&self.kept.0) * Reduce::count(&self.reduced.0) * 15 * self.machine.len()) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let n = Reduce::count(&self.reduced.0);
        // SAFETY: in the whole function: elements of the arrays.
        unsafe {
            let mut registers = self.machine.start(frame);
            let first: Vec<Scalar> = self.inits.iter().map(|x| x.get(frame, 0)).collect();
            let mut bases = vec![0; self.inputs.len()];
            let mut index = vec![0i64; self.reduced.0.len()];
            for k in piece(Reduce::count(&self.kept.0), self.parts, part, 1) {
                for (base, strides) in bases.iter_mut().zip(&self.kept.1) {
                    *base = offset_of(k, &self.kept.0, strides);
                }
                let mut acc = first.clone();
                index.fill(0);
                for _ in 0..n {
                    let x = self.inputs.iter().zip(&bases).map(|(x, &at)| x.get(frame, at));
                    fold(&self.machine, &mut registers, &mut acc, x);
                    for d in (0..index.len()).rev() {
                        index[d] += 1;
                        bases.iter_mut().zip(&self.reduced.1).for_each(|(at, s)| *at += s[d] as isize);
                        if index[d] < self.reduced.0[d] {
                            break;
                        }
                        let back = index[d];
                        bases.iter_mut().zip(&self.reduced.1).for_each(|(at, s)| *at -= (s[d] * back) as isize);
                        index[d] = 0;
                    }
                }
                for (out, value) in self.outs.iter().zip(acc) {
                    out.set(frame, (k * out.elem.storage_bytes()) as isize, value);
                }
            }
        }
        Ok(())
    }
}

/// `stablehlo.reduce` with any body.
pub(in crate::library) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let dimensions = attrs::ints(data, "dimensions")?;
    let Some(machine) = body(cx, op, 0) else { return Ok(false) };
    let views = data.operands().iter().map(|&v| view_of(cx, v)).collect::<Result<Vec<_>, _>>()?;
    let (inputs, inits) = views.split_at(views.len() / 2);
    let select = |reduced: bool| {
        let dims: Vec<usize> =
            (0..inputs[0].dims.len()).filter(|&d| dimensions.contains(&(d as i64)) == reduced).collect();
        let pick = |list: &[i64]| -> Vec<i64> { dims.iter().map(|&d| list[d]).collect() };
        (pick(&inputs[0].dims), inputs.iter().map(|x| pick(&x.strides)).collect::<Vec<_>>())
    };
    let (kept, reduced) = (select(false), select(true));
    let mut outs = vec![];
    for &result in data.results() {
        let (elem, dims) = cx.shape(result);
        outs.push(Array::new(&View::dense(cx.result(result), elem, &dims)));
    }
    let parts = parts_of(inputs[0].len(), 1 << 11, Reduce::count(&kept.0).max(1));
    let name = format!("scalar reduce {} {:?} over {dimensions:?}", inputs[0].elem, inputs[0].dims);
    let reads = views.iter().map(|v| v.buf).chain(machine.reads()).collect();
    let writes = outs.iter().map(|o| o.buf).collect();
    let [inputs, inits] = [inputs, inits].map(|list| list.iter().map(Array::new).collect());
    let work = Reduce { machine, inputs, inits, outs, kept, reduced, parts };
    cx.step(op, name, Arc::new(work), reads, writes);
    Ok(true)
}

//! Combining the elements of several arrays, as reductions between devices need it.

use std::sync::Arc;

use meshwork_eval::scalar::{ScalarOp, apply};
use meshwork_ir::{ElementType, Literal, Module, OpId};

use crate::kernel::ir::{Access, Arg, BinaryOp, Body, Call, Combine, Extent, Op, Phase, Ty};
use crate::kernel::{Kernel, Stores};
use crate::library::general::machine::Machine;
use crate::program::Reducer;
use crate::step::{Fault, Scratch};

/// How many arrays a kernel combines at most: each is a stream that the processor fetches ahead.
const WIDEST: usize = 8;

/// `to[i] = from[0][i] ∘ from[1][i] ∘ …`, from left to right, for arrays of one element type.
#[derive(Debug)]
pub(crate) enum Combiner {
    /// Kernels by the number of arrays they combine, how many of their elements make one of the arrays', and the kernel
    /// of all arrays that writes past the caches.
    Fast(Vec<Option<Arc<Kernel>>>, usize, Option<Arc<Kernel>>),
    /// The evaluator's arithmetic.
    Scalar(ScalarOp, ElementType),
    /// The body of an operation.
    Body(Box<Machine>, ElementType),
}

impl Combiner {
    /// What `reducer` does on elements of type `elem` of `members` arrays.
    pub(crate) fn new(
        reducer: &Reducer,
        elem: ElementType,
        members: usize,
        module: &Module,
    ) -> Result<Combiner, String> {
        let combine = match reducer {
            Reducer::Combine(combine) => *combine,
            Reducer::Body(op) => return body(module, *op, elem),
        };
        if let Some(fast) = fast(combine, elem, members) {
            return Ok(fast);
        }
        let scalar = ScalarOp::new(combine.op(), elem, elem).ok_or_else(|| format!("no {combine:?} of {elem}"))?;
        Ok(Combiner::Scalar(scalar, elem))
    }

    /// Makes [`stream`](Combiner::stream) work for `members` arrays, if they are not too many for one kernel.
    pub(crate) fn prepare_stream(&mut self, members: usize) {
        if let Combiner::Fast(kernels, _, past) = self
            && let Some(Some(kernel)) = kernels.get(members)
        {
            *past = Kernel::cached(kernel.body().clone(), Stores::PastCaches).ok();
        }
    }

    /// [`run`](Combiner::run) past the caches; false, and nothing is done, if it cannot.
    ///
    /// # Safety
    /// As for `run`; `to` overlaps none of the arrays.
    pub(crate) unsafe fn stream(
        &self,
        to: *mut u8,
        from: &[*mut u8],
        at: usize,
        n: usize,
        scratch: &mut Scratch,
    ) -> bool {
        let Combiner::Fast(_, per, Some(kernel)) = self else { return false };
        if kernel.body().args.len() != from.len() + 1 || !to.addr().is_multiple_of(32) {
            return false;
        }
        let mut ptrs = [to; WIDEST + 1];
        for (ptr, source) in ptrs.iter_mut().zip(from) {
            // SAFETY: the offset is inside the array.
            *ptr = unsafe { source.add(at) };
        }
        // SAFETY: the caller's.
        unsafe { call(kernel, &ptrs[..=from.len()], n * per, scratch) };
        true
    }

    /// Combines the `n` elements of each of `from` that start at byte `at`.
    ///
    /// # Safety
    /// The arrays have that many elements, aligned to their size; `to` is the first of them at the same byte or
    /// overlaps none.
    pub(crate) unsafe fn run(
        &self,
        to: *mut u8,
        from: &[*mut u8],
        at: usize,
        n: usize,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let (elem, (&first, rest)) = match (self, from.split_first()) {
            (_, None) => return Ok(()),
            (Combiner::Fast(kernels, per, _), Some(_)) => {
                // SAFETY: the contract is the same.
                unsafe { kernel(kernels, to, from, at, n * per, scratch) };
                return Ok(());
            }
            (Combiner::Scalar(_, elem) | Combiner::Body(_, elem), Some(split)) => (*elem, split),
        };
        let literal = |p: *mut u8| {
            // SAFETY: the array has `n` elements there.
            let bytes = unsafe { std::slice::from_raw_parts(p.add(at), n * elem.storage_bytes()) };
            let wrong = || Fault(format!("{n} elements of {elem} are no array"));
            Literal::from_bytes([n as i64], elem, bytes.to_vec()).ok_or_else(wrong)
        };
        let mut x = literal(first)?;
        for &p in rest {
            let y = literal(p)?;
            self.slowly(&mut x, &y);
        }
        // SAFETY: the target has `n` elements.
        unsafe { std::ptr::copy_nonoverlapping(x.bytes().as_ptr(), to, x.bytes().len()) };
        Ok(())
    }

    /// `x = x ∘ y`, one element after the other.
    fn slowly(&self, x: &mut Literal, y: &Literal) {
        let mut registers = match self {
            Combiner::Body(machine, _) => machine.fresh(),
            _ => vec![],
        };
        for i in 0..x.len() {
            match self {
                Combiner::Fast(..) => {}
                Combiner::Scalar(op, _) => x.set(i, apply(op, &[x.get(i), y.get(i)])),
                Combiner::Body(machine, _) => {
                    registers[0] = x.get(i);
                    registers[1] = y.get(i);
                    machine.call(&mut registers);
                    x.set(i, machine.result(0, &registers));
                }
            }
        }
    }
}

/// As many arrays at once as there is a kernel for; what they give is the first of the next ones.
///
/// # Safety
/// As for [`Combiner::run`].
unsafe fn kernel(
    kernels: &[Option<Arc<Kernel>>],
    to: *mut u8,
    from: &[*mut u8],
    at: usize,
    n: usize,
    scratch: &mut Scratch,
) {
    let mut ptrs = [to; WIDEST + 1];
    let mut begun = 0;
    for batch in batches(from.len()) {
        let fresh = &from[batch];
        for (ptr, source) in ptrs[begun..].iter_mut().zip(fresh) {
            // SAFETY: the offset is inside the array.
            *ptr = unsafe { source.add(at) };
        }
        let count = begun + fresh.len();
        ptrs[count] = to;
        if let Some(kernel) = &kernels[count] {
            // SAFETY: all arrays have `n` elements; the target is one of them element by element, or none.
            unsafe { call(kernel, &ptrs[..=count], n, scratch) };
        }
        ptrs[0] = to;
        begun = 1;
    }
}

/// Runs `kernel` on rows of `n` elements, the last of which it writes.
///
/// # Safety
/// They have that many elements, and are as the kernel expects them.
unsafe fn call(kernel: &Kernel, ptrs: &[*mut u8], n: usize, scratch: &mut Scratch) {
    let steps = &[0; WIDEST + 1][..ptrs.len()];
    let call = Call { ptrs, row_strides: steps, strides: steps, rows: 1, n, index: &[] };
    // SAFETY: the caller's.
    unsafe { kernel.run(&call, scratch) };
}

/// Which of `members` arrays are combined at once: the first ones, then others with what these gave.
fn batches(members: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        at = members.min(start + WIDEST - usize::from(start > 0));
        (start < at).then_some(start..at)
    })
}

fn body(module: &Module, op: OpId, elem: ElementType) -> Result<Combiner, String> {
    let machine = module.body_of(op, 0).and_then(|block| Machine::new(module, block, &|_| None));
    let machine = machine.filter(|m| m.is_closed());
    let no = || format!("{}: its body is more than arithmetic on scalars of its own", module.describe(op));
    Ok(Combiner::Body(Box::new(machine.ok_or_else(no)?), elem))
}

/// Kernels for `members` arrays, if there are such for the type.
fn fast(combine: Combine, elem: ElementType, members: usize) -> Option<Combiner> {
    // A sum of complex numbers is one of their parts.
    let (elem, per) = match (elem, combine) {
        (ElementType::C64, Combine::Add) => (ElementType::F32, 2),
        (ElementType::C128, Combine::Add) => (ElementType::F64, 2),
        _ => (elem, 1),
    };
    let ty = Ty::of(elem)?;
    let binary = match (combine, ty) {
        (Combine::Add | Combine::Max, Ty::Pred) => BinaryOp::Or,
        (Combine::Mul | Combine::Min, Ty::Pred) => BinaryOp::And,
        _ => combine.into(),
    };
    let mut kernels: Vec<Option<Arc<Kernel>>> = vec![None; WIDEST + 1];
    for batch in batches(members) {
        let count = batch.len() + usize::from(batch.start > 0);
        if kernels[count].is_none() {
            kernels[count] = Some(Kernel::cached(chain(binary, elem, ty, count as u16), Stores::Cached).ok()?);
        }
    }
    Some(Combiner::Fast(kernels, per, None))
}

/// The kernel that combines `count` arrays into one more.
fn chain(binary: BinaryOp, elem: ElementType, ty: Ty, count: u16) -> Body {
    let arg = |output: bool| Arg { elem, access: Access::Unit, output };
    let mut args: Vec<Arg> = (0..count).map(|_| arg(false)).collect();
    args.push(arg(true));
    let mut ops = vec![Op::Load(0)];
    for i in 1..count {
        let so_far = ops.len() as u16 - 1;
        ops.extend([Op::Load(i), Op::Binary(binary, so_far, so_far + 1)]);
        if elem != ty.elem() {
            ops.push(Op::Round(elem, so_far + 2));
        }
    }
    ops.push(Op::Store(count, ops.len() as u16 - 1));
    Body { args, temps: vec![], scalars: 0, phases: vec![Phase { extent: Extent::Row, ops }] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_ir::Scalar;

    /// Every type and combination of any number of arrays equals the evaluator's scalar arithmetic, special values
    /// included.
    #[test]
    fn kernels_agree_with_scalar_arithmetic() {
        let all = [Combine::Add, Combine::Mul, Combine::Max, Combine::Min, Combine::And, Combine::Or, Combine::Xor];
        let numbers =
            [0.0, -0.0, 1.0, -1.0, 3.7, 1e30, -2.5e-3, 127.0, 255.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let mut scratch = Scratch::default();
        for &elem in ElementType::ALL {
            for combine in all {
                let Some(slow) = ScalarOp::new(combine.op(), elem, elem) else { continue };
                for members in [1, 2, 3, 8, 9, 17] {
                    let Some(mut run) = fast(combine, elem, members) else { continue };
                    run.prepare_stream(members);
                    let n = numbers.len() * numbers.len();
                    let mut arrays: Vec<Literal> = (0..members).map(|_| Literal::zeros([n as i64], elem)).collect();
                    for (m, array) in arrays.iter_mut().enumerate() {
                        for i in 0..n {
                            let number = numbers[(i / numbers.len() + i * m) % numbers.len()];
                            array.set(i, Scalar::from_f64(elem, number));
                        }
                    }
                    let want = |i: usize| {
                        let first = arrays[0].get(i);
                        arrays[1..].iter().fold(first, |sum, a| apply(&slow, &[sum, a.get(i)]))
                    };
                    let want: Vec<Scalar> = (0..n).map(want).collect();
                    let from: Vec<*mut u8> = arrays.iter_mut().map(|a| a.bytes_mut().as_mut_ptr()).collect();
                    // On lines, as buffers are.
                    let mut streamed = vec![0u128; n * elem.storage_bytes() / 16 + 5];
                    let start = streamed.as_mut_ptr().cast::<u8>();
                    // SAFETY: all have `n` elements, and the target is one more array.
                    let past = unsafe {
                        let start = start.add(start.align_offset(64));
                        let done = run.stream(start, &from, 0, n, &mut scratch);
                        done.then(|| std::slice::from_raw_parts(start, n * elem.storage_bytes()).to_vec())
                    };
                    assert_eq!(past.is_some(), members <= WIDEST, "{combine:?} of {members} arrays of {elem}");
                    // SAFETY: all have `n` elements, and the target is the first.
                    unsafe { run.run(from[0], &from, 0, n, &mut scratch).unwrap() };
                    assert!(past.is_none_or(|past| past == arrays[0].bytes()), "{combine:?} of {members} of {elem}");
                    for (i, want) in want.into_iter().enumerate() {
                        let got = arrays[0].get(i);
                        let same = got == want || (got.is_nan() && want.is_nan());
                        assert!(same, "{combine:?} of {members} arrays of {elem}, element {i}: {got}, not {want}");
                    }
                }
            }
        }
    }
}

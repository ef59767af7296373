//! What has no loop of its own: operations with bodies of any kind, and arithmetic on any element type, element after
//! element on a machine of scalars. Tens of nanoseconds an element, in as many parts as anything else.

pub(super) mod bits;
mod complex;
pub(crate) mod element;
pub(super) mod elements;
pub(crate) mod machine;
pub(super) mod reduce;
pub(super) mod scatter;
pub(super) mod sort;
pub(super) mod window;

use meshwork_ir::{ElementType, OpId, Scalar};

use crate::compile::lower::Lower;
use crate::step::{Buf, Frame, View};
use element::{load, store};
use machine::Machine;

/// What [`slowness`](crate::step::Work::slowness) says of steps with a body.
const SCALAR_BODY: &str = "runs its body once for each element";

/// The code of region `region` of `op`.
fn body(cx: &Lower<'_>, op: OpId, region: usize) -> Option<Machine> {
    Machine::new(cx.module, cx.module.body_of(op, region)?, &|v| cx.view(v).cloned())
}

/// Elements of several arrays at one position each.
#[derive(Clone, Copy, Debug)]
struct Array {
    buf: Buf,
    elem: ElementType,
    /// Byte of element zero.
    start: isize,
}

impl Array {
    fn new(view: &View) -> Array {
        Array { buf: view.buf, elem: view.elem, start: view.offset as isize }
    }

    /// The element `at` bytes after the first.
    ///
    /// # Safety
    /// There is one.
    #[inline]
    unsafe fn get(&self, frame: &Frame<'_>, at: isize) -> Scalar {
        // SAFETY: the caller's.
        unsafe { load(frame.ptr(self.buf).offset(self.start + at), self.elem) }
    }

    /// Writes there.
    ///
    /// # Safety
    /// There is room for one.
    #[inline]
    unsafe fn set(&self, frame: &Frame<'_>, at: isize, value: Scalar) {
        // SAFETY: the caller's.
        unsafe { store(frame.ptr(self.buf).offset(self.start + at), self.elem, value.cast_to(self.elem)) }
    }
}

/// `acc = body(acc, x)` on values of several arrays; `acc` and `x` are of one length.
#[inline]
fn fold(machine: &Machine, registers: &mut [Scalar], acc: &mut [Scalar], x: impl Iterator<Item = Scalar>) {
    let n = acc.len();
    registers[..n].copy_from_slice(acc);
    registers[n..2 * n].iter_mut().zip(x).for_each(|(r, x)| *r = x);
    machine.call(registers);
    for (i, acc) in acc.iter_mut().enumerate() {
        *acc = machine.result(i, registers);
    }
}

/// The byte offset of index `i` (counted row-major below `dims`) by each list of strides.
fn offset_of(mut i: usize, dims: &[i64], strides: &[i64]) -> isize {
    let mut at = 0;
    for (&n, &s) in dims.iter().zip(strides).rev() {
        let n = n as usize;
        at += (i % n) as i64 * s;
        i /= n;
    }
    at as isize
}

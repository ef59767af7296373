//! Routines: straight-line code on single numbers, in loops and choices that data decides, as machine code.

use super::ir::{Body, Call, Flow};
use super::{check, jit_is_available, prepare};
use crate::step::Scratch;

/// A routine that can run.
#[derive(Debug)]
pub struct Routine {
    #[cfg(target_arch = "x86_64")]
    compiled: super::jit::Compiled,
    #[cfg(target_arch = "x86_64")]
    call: super::jit::Prepared,
}

impl Routine {
    /// The phases of `body`, which all run once, in the order that `flow` says; `None` if there are no instructions for it here.
    pub fn new(body: &Body, flow: &[Flow]) -> Option<Routine> {
        if !jit_is_available() {
            return None;
        }
        check::check(body).ok()?;
        let ready = prepare::prepare(body).ok()?;
        let types = check::check(&ready).ok()?;
        #[cfg(target_arch = "x86_64")]
        {
            let compiled = super::jit::compile_routine(&ready, &types, flow)?;
            // One row of one element.
            let row = Call { ptrs: &[], row_strides: &[], strides: &[], rows: 1, n: 1, index: &[] };
            let call = compiled.prepared(&row)?;
            Some(Routine { compiled, call })
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (types, flow);
            None
        }
    }

    /// Runs it on arguments that start at `ptrs`.
    ///
    /// # Safety
    /// There is one pointer for each argument; all elements that the routine reads or writes are inside memory that may be read or
    /// written, and nothing else writes it meanwhile.
    pub unsafe fn run(&self, ptrs: impl Iterator<Item = *mut u8>, scratch: &mut Scratch) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise.
        unsafe {
            self.compiled.run_prepared(&self.call, ptrs, scratch);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (ptrs, scratch);
    }
}

//! Kernels: straight-line code over rows, interpreted in tiles or compiled to machine code.

pub(crate) mod build;
pub mod check;
mod decided;
mod error;
pub(crate) mod interp;
pub mod ir;
#[cfg(target_arch = "x86_64")]
mod jit;
pub mod lanes;
mod math;
mod narrow;
mod prepare;
mod print;
pub(crate) mod routine;
mod ty;
mod uses;

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

pub use error::KernelError;
use ir::{Body, Call};
pub(crate) use ty::is_byte_float;

use meshwork_ir::hash::HashMap;

use crate::step::Scratch;

/// Which backend runs a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// The tile interpreter.
    Interpreter,
    /// Machine code made on the spot.
    Compiled,
}

/// Where a kernel's stores go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stores {
    /// To the caches, as usual.
    Cached,
    /// To accumulators that stay in the caches, which all rows are added to: the next row is fetched meanwhile.
    Accumulated,
    /// Past them: for more than they hold, lines that are fetched only to be overwritten are a third of the traffic. The
    /// rows of all outputs must then be aligned to 32 bytes.
    PastCaches,
}

/// Bytes of the pages that hold the machine code of kernels.
pub fn code_bytes() -> usize {
    #[cfg(target_arch = "x86_64")]
    return jit::memory::in_use();
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// A call of a kernel, all but its pointers.
#[derive(Debug)]
pub(crate) struct Prepared {
    #[cfg(target_arch = "x86_64")]
    call: jit::Prepared,
}

/// A kernel that can run.
pub struct Kernel {
    body: Body,
    program: interp::Program,
    single: Option<interp::single::Single>,
    #[cfg(target_arch = "x86_64")]
    compiled: Option<jit::Compiled>,
}

impl Kernel {
    /// Checks `body` and makes it ready to run.
    pub fn new(body: Body) -> Result<Kernel, KernelError> {
        Kernel::with(body, true, Stores::Cached)
    }

    /// As [`new`](Kernel::new), for the interpreter only.
    pub fn interpreted(body: Body) -> Result<Kernel, KernelError> {
        Kernel::with(body, false, Stores::Cached)
    }

    fn with(body: Body, fast: bool, stores: Stores) -> Result<Kernel, KernelError> {
        check::check(&body)?;
        let ready = prepare::prepare(&body)?;
        let types = check::check(&ready)?;
        let program = interp::build(&ready, &types)?;
        #[cfg(target_arch = "x86_64")]
        let compiled = if fast && jit_is_available() { jit::compile(&ready, &types, stores) } else { None };
        let single = if fast { interp::single::build(&ready, &types) } else { None };
        Ok(Kernel {
            body,
            program,
            single,
            #[cfg(target_arch = "x86_64")]
            compiled,
        })
    }

    /// The kernel for `body` whose stores go there: the same for all programs that have it at a time.
    pub fn cached(body: Body, stores: Stores) -> Result<Arc<Kernel>, KernelError> {
        type Made = HashMap<(Body, Stores), Weak<Kernel>>;
        static CACHE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (body, stores);
        if let Some(kernel) = cache.get(&key).and_then(Weak::upgrade) {
            return Ok(kernel);
        }
        let kernel = Arc::new(Kernel::with(key.0.clone(), true, stores)?);
        if cache.len() == cache.capacity() {
            // Before it grows: at least half of what is kept is in use.
            cache.retain(|_, kernel| kernel.strong_count() > 0);
            let in_use = cache.len();
            cache.shrink_to(2 * in_use);
        }
        cache.insert(key, Arc::downgrade(&kernel));
        Ok(kernel)
    }

    /// Its code as it was given.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// What runs it.
    pub fn backend(&self) -> Backend {
        #[cfg(target_arch = "x86_64")]
        if self.compiled.is_some() {
            return Backend::Compiled;
        }
        Backend::Interpreter
    }

    /// Vectors in flight in each phase of the machine code.
    pub fn interleave(&self) -> Option<&[usize]> {
        #[cfg(target_arch = "x86_64")]
        if let Some(compiled) = &self.compiled {
            return Some(compiled.interleave());
        }
        None
    }

    /// The kernel for one row of one element, if it has a way of its own for that.
    pub(crate) fn single(&self) -> Option<&interp::single::Single> {
        self.single.as_ref()
    }

    /// What is the same in all calls like `call`, whatever its pointers are, if there is a short way to run these.
    pub(crate) fn prepared(&self, call: &Call<'_>) -> Option<Prepared> {
        #[cfg(target_arch = "x86_64")]
        return Some(Prepared { call: self.compiled.as_ref()?.prepared(call)? });
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = call;
            None
        }
    }

    /// Runs the kernel on the call that `prepared` was made for, with these pointers.
    ///
    /// # Safety
    /// As for [`run`](Kernel::run).
    #[inline]
    pub(crate) unsafe fn run_prepared(
        &self,
        prepared: &Prepared,
        ptrs: impl Iterator<Item = *mut u8>,
        scratch: &mut Scratch,
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Some(compiled) = &self.compiled {
            // SAFETY: the caller's promise.
            unsafe { compiled.run_prepared(&prepared.call, ptrs, scratch) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (prepared, ptrs, scratch);
    }

    /// Runs the kernel on the rows that `call` describes.
    ///
    /// # Safety
    /// - `ptrs`, `row_strides` and `strides` have one entry per argument, `index` one per index dimension that the
    ///   body names;
    /// - every element that these reach is inside memory that may be read (and written, for outputs) for as long as
    ///   the call runs, and aligned to its size; nothing else writes it meanwhile;
    /// - an argument that is the same all along the row has its element even if the row has none;
    /// - an output overlaps another argument only if both have the same element type and each element of the output
    ///   is at the address of the same element of the same row of the other argument, or of an element that no
    ///   later row reads, or if the other argument is the same all along the row, and each phase that reads it is the one that
    ///   writes the output or comes before.
    pub unsafe fn run(&self, call: &Call<'_>, scratch: &mut Scratch) {
        debug_assert_eq!(call.ptrs.len(), self.body.args.len());
        if let (1, 1, Some(single)) = (call.rows, call.n, &self.single) {
            // SAFETY: the caller's promise.
            return unsafe { single.run(call.ptrs.iter().copied(), scratch) };
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(compiled) = self.compiled.as_ref().filter(|c| c.can_run(call)) {
            // SAFETY: the caller's promise, and the check before.
            return unsafe { compiled.run(call, scratch) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.program.run(call, scratch) }
    }
}

/// Bytes of the widest number that phases of `body` compute with.
pub(crate) fn widest(body: &Body) -> Option<usize> {
    let types = check::check(&prepare::prepare(body).ok()?).ok()?;
    types.iter().map(|types| lanes::VECTOR / lanes::lanes(types)).max()
}

/// Whether kernels are compiled here.
pub fn jit_is_available() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        jit::available()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}\n{}", self.backend(), self.body)
    }
}

//! What a compiled program consists of: steps that read and write buffers.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};

/// Names a buffer of a program: each device has one under that name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Buf(pub u32);

/// The layout of a value in a buffer: element `i` is at byte `offset + Σ i[d] * strides[d]`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct View {
    /// The buffer.
    pub buf: Buf,
    /// Element type.
    pub elem: ElementType,
    /// Extents.
    pub dims: Vec<i64>,
    /// Byte of element zero.
    pub offset: i64,
    /// Bytes from one element to the next along each dimension: 0 for a broadcast, negative when reversed.
    pub strides: Vec<i64>,
}

impl View {
    /// The whole of `buf`, row-major.
    pub fn dense(buf: Buf, elem: ElementType, dims: &[i64]) -> View {
        let mut strides = vec![0; dims.len()];
        let mut step = elem.storage_bytes() as i64;
        for d in (0..dims.len()).rev() {
            strides[d] = step;
            step *= dims[d].max(1);
        }
        View { buf, elem, dims: dims.to_vec(), offset: 0, strides }
    }

    /// Whether it is row-major without gaps from the start of the buffer.
    pub fn is_dense(&self) -> bool {
        let dense = View::dense(self.buf, self.elem, &self.dims);
        let same = |d: usize| self.dims[d] <= 1 || self.strides[d] == dense.strides[d];
        self.offset == 0 && (self.dims.contains(&0) || (0..self.dims.len()).all(same))
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.dims.iter().product::<i64>() as usize
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One device's memory while a step runs on it.
pub struct Frame<'a> {
    /// Start of each buffer, by number.
    pub ptrs: &'a [*mut u8],
    /// Device number: replica × partitions + partition.
    pub device: usize,
    /// Partition number.
    pub partition: u32,
    /// Replica number.
    pub replica: u32,
}

impl Frame<'_> {
    /// Start of `buf`.
    pub fn ptr(&self, buf: Buf) -> *mut u8 {
        self.ptrs[buf.0 as usize]
    }
}

/// Scratch memory of one thread, 64-byte aligned; grows on demand and keeps its size.
#[derive(Default)]
pub struct Scratch {
    bytes: Vec<Line>,
    panels: Vec<Line>,
    strips: Vec<Line>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Scratch {
    /// At least `bytes` bytes with unspecified contents.
    pub fn get(&mut self, bytes: usize) -> *mut u8 {
        grown(&mut self.bytes, bytes)
    }

    /// The same in another place, for what a kernel reads while it works in the first.
    pub fn panels(&mut self, bytes: usize) -> *mut u8 {
        grown(&mut self.panels, bytes)
    }

    /// The same in a third place, for steps inside a step, which use the other two.
    pub fn strips(&mut self, bytes: usize) -> *mut u8 {
        grown(&mut self.strips, bytes)
    }
}

fn grown(memory: &mut Vec<Line>, bytes: usize) -> *mut u8 {
    let lines = bytes.div_ceil(64);
    if memory.len() < lines {
        memory.resize(lines, Line([0; 64]));
    }
    memory.as_mut_ptr().cast()
}

/// What went wrong while a step ran; the executor adds the op and where it stands.
#[derive(Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

meshwork_mesh::debug_as_display!(Fault);

/// Something that can be done on a device's buffers, in parts.
///
/// # Contract
/// The executor guarantees that every buffer the step names is valid for its planned size, 64-byte aligned, that no
/// two overlap unless the step allows it, and that all steps it depends on have finished. The work guarantees that
/// it stays inside those buffers, and that different parts write disjoint bytes (or only their own scratch), so that
/// parts may run in any order and at the same time. What the parts are must not depend on the number of threads.
pub trait Work: Send + Sync + fmt::Debug {
    /// How many independent parts there are; at least 1, at most a few hundred.
    fn parts(&self) -> usize;

    /// Rough cost of all parts in nanoseconds on one core: decides whether it is worth waking other threads.
    fn cost(&self) -> u64;

    /// Why it takes much longer for each element than most steps do, if it does, as part of a sentence.
    fn slowness(&self) -> Option<&'static str> {
        None
    }

    /// Whether there is nothing to do where the step's in-place pairs are each one piece of memory; the plan then
    /// leaves the step out.
    fn nothing_in_place(&self) -> bool {
        false
    }

    /// Whether it does the same on every device that reads the same.
    fn is_uniform(&self) -> bool {
        true
    }

    /// The same for devices of one partition, cut along memory into parts that write about `bytes` bytes each; `None` if
    /// it cannot be divided.
    fn bands(&self, _partition: usize, _bytes: usize) -> Option<Bands> {
        None
    }

    /// What of it reads none of the buffers that `late` names, and the rest; `None` if it cannot be divided so. Both write what it
    /// writes, at different places.
    fn apart(&self, _late: &dyn Fn(Buf) -> bool) -> Option<Apart> {
        None
    }

    /// Its loops, if it is a fused step that is the same on all devices.
    fn fused(&self) -> Option<&crate::fuse::Fused> {
        None
    }

    /// Does part `part` (below [`parts`](Work::parts)) on one device.
    ///
    /// # Safety
    /// The contract of the trait holds for `frame`.
    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault>;
}

/// Work cut by what it reads.
pub struct Apart {
    /// What does not read what comes late.
    pub early: Arc<dyn Work>,
    /// The buffers that it reads.
    pub early_reads: Vec<Buf>,
    /// What does.
    pub late: Arc<dyn Work>,
    /// The buffers that it reads.
    pub late_reads: Vec<Buf>,
}

/// Work cut along memory.
pub struct Bands {
    /// The work.
    pub work: Arc<dyn Work>,
    /// What each of its parts touches, in order of what they write.
    pub touches: Vec<Vec<Touch>>,
}

/// Bytes of a buffer that are read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The buffer.
    pub buf: Buf,
    /// Which bytes of it.
    pub bytes: Range<i64>,
    /// Whether they are written.
    pub written: bool,
}

/// One step of a block.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is done.
    pub work: Arc<dyn Work>,
    /// Buffers it reads.
    pub reads: Vec<Buf>,
    /// Buffers it writes, wholly unless they are also in `reads`.
    pub writes: Vec<Buf>,
    /// Pairs `(read, written)` that may be one piece of memory: each element of `written` is written after the
    /// last read of the same byte of `read`, within one part.
    pub in_place: Vec<(Buf, Buf)>,
    /// The operation it stands for (the last one of a fused group).
    pub op: OpId,
    /// What profiles and plans call it, e.g. `fused add·multiply·tanh` or `dot 512×1024×784`.
    pub name: String,
}

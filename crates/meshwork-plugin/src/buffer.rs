//! Buffers: a shard of an array on one device, pending, ready, failed, or deleted.

use std::ffi::c_int;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use meshwork_ir::ElementType;
use meshwork_pjrt_abi as abi;
use meshwork_runtime::memory::Buffer;

use crate::border::{Handle, borrow, destroy};
use crate::client::{MemoryHandle, default_memory};
use crate::copy::{minor_to_major, strides};
use crate::event::Signal;
use crate::failure::{Failure, Outcome};

/// The elements of a buffer, which a run or a transfer may still have to write.
pub(crate) struct Contents {
    /// Done when the memory is there.
    pub signal: Arc<Signal>,
    memory: OnceLock<Arc<Buffer>>,
}

impl Contents {
    /// To be filled before `signal` is done.
    pub fn pending(signal: Arc<Signal>) -> Arc<Contents> {
        Arc::new(Contents { signal, memory: OnceLock::new() })
    }

    pub fn ready(memory: Arc<Buffer>) -> Arc<Contents> {
        Arc::new(Contents { signal: Signal::done(), memory: OnceLock::from(memory) })
    }

    pub fn fill(&self, memory: Arc<Buffer>) {
        // Whoever fills it is the only one.
        let _ = self.memory.set(memory);
    }

    /// Waits for the memory.
    pub fn wait(&self) -> Outcome<&Arc<Buffer>> {
        if self.memory.get().is_none() {
            self.signal.wait()?;
        }
        self.memory.get().ok_or_else(|| Failure::internal("a buffer is ready without memory"))
    }

    /// The memory, taken out if nobody else has the contents.
    pub fn into_memory(self: Arc<Self>) -> Outcome<Arc<Buffer>> {
        self.wait()?;
        match Arc::try_unwrap(self) {
            Ok(contents) => contents.memory.into_inner(),
            Err(shared) => shared.memory.get().cloned(),
        }
        .ok_or_else(|| Failure::internal("a buffer is ready without memory"))
    }
}

/// What a buffer is: its element type and extents, or a token.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Shape {
    /// `None` for a token, which has no elements.
    pub elem: Option<ElementType>,
    pub dims: Vec<i64>,
    /// Dimensions from minor to major in memory; elements are dense.
    pub order: Vec<i64>,
}

impl Shape {
    /// Row-major.
    pub fn new(elem: ElementType, dims: Vec<i64>) -> Shape {
        Shape { elem: Some(elem), order: minor_to_major(dims.len()), dims }
    }

    pub fn token() -> Shape {
        Shape { elem: None, dims: vec![], order: vec![] }
    }

    /// With the dimensions in this order in memory.
    pub fn ordered(self, order: Vec<i64>) -> Outcome<Shape> {
        let is_order = order.len() == self.dims.len() && (0..order.len() as i64).all(|d| order.contains(&d));
        match is_order {
            true => Ok(Shape { order, ..self }),
            false => Err(Failure::invalid(format!("{order:?} is no order of {} dimensions", self.dims.len()))),
        }
    }

    /// Bytes from one index of each dimension to the next.
    pub fn strides(&self) -> Vec<i64> {
        strides(&self.dims, &self.order, self.element_bytes())
    }

    pub fn is_row_major(&self) -> bool {
        self.order.iter().rev().copied().eq(0..self.order.len() as i64)
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> usize {
        self.elem.map_or(0, ElementType::storage_bytes)
    }

    pub fn bytes(&self) -> usize {
        self.dims.iter().product::<i64>() as usize * self.element_bytes()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.elem {
            Some(elem) if self.is_row_major() => write!(f, "{elem}{:?}", self.dims),
            Some(elem) => write!(f, "{elem}{:?} with dimensions in the order {:?}", self.dims, self.order),
            None => f.write_str("a token"),
        }
    }
}

/// A buffer as callers have it.
pub(crate) struct BufferHandle {
    pub shape: Arc<Shape>,
    pub memory: *mut abi::Memory,
    contents: Mutex<Option<Arc<Contents>>>,
    /// References of those who read the memory behind our back.
    external: Mutex<Vec<Arc<Buffer>>>,
}

// SAFETY: memories are never freed.
unsafe impl Send for BufferHandle {}
// SAFETY: as above.
unsafe impl Sync for BufferHandle {}

impl Handle for BufferHandle {
    type C = abi::Buffer;
}

impl BufferHandle {
    pub fn new(shape: Arc<Shape>, memory: *mut abi::Memory, contents: Arc<Contents>) -> BufferHandle {
        let (contents, external) = (Mutex::new(Some(contents)), Mutex::default());
        BufferHandle { shape, memory, contents, external }
    }

    /// The elements; an error if the buffer is deleted.
    pub fn contents(&self) -> Outcome<Arc<Contents>> {
        self.lock().clone().ok_or_else(deleted)
    }

    /// The elements, which the buffer gives up.
    pub fn take(&self) -> Outcome<Arc<Contents>> {
        self.lock().take().ok_or_else(deleted)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Contents>>> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn externals(&self) -> MutexGuard<'_, Vec<Arc<Buffer>>> {
        self.external.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn deleted() -> Failure {
    Failure::invalid("the buffer has been deleted or donated")
}

pub(crate) fn buffer_destroy(args: &mut abi::BufferDestroy) -> Outcome {
    destroy::<BufferHandle>(args.buffer);
    Ok(())
}

/// The number of an element type in the C API, or of tokens.
pub(crate) fn number_of(elem: Option<ElementType>) -> Outcome<c_int> {
    let Some(elem) = elem else { return Ok(abi::element::TOKEN) };
    abi::element::to_number(elem).ok_or_else(|| Failure::unimplemented(format!("buffers of {elem}")))
}

/// The element type with this number in the C API.
pub(crate) fn elem_of(number: c_int) -> Outcome<ElementType> {
    let unknown = || Failure::unimplemented(format!("buffers of PJRT_Buffer_Type {number}"));
    abi::element::from_number(number).ok_or_else(unknown)
}

pub(crate) fn buffer_element_type(args: &mut abi::BufferElementType) -> Outcome {
    args.element_type = number_of(borrow::<BufferHandle>(args.buffer)?.shape.elem)?;
    Ok(())
}

pub(crate) fn buffer_dimensions(args: &mut abi::BufferDimensions) -> Outcome {
    let dims = &borrow::<BufferHandle>(args.buffer)?.shape.dims;
    (args.dims, args.num_dims) = (dims.as_ptr(), dims.len());
    Ok(())
}

pub(crate) fn buffer_unpadded_dimensions(args: &mut abi::BufferUnpaddedDimensions) -> Outcome {
    let dims = &borrow::<BufferHandle>(args.buffer)?.shape.dims;
    (args.unpadded_dims, args.num_dims) = (dims.as_ptr(), dims.len());
    Ok(())
}

pub(crate) fn buffer_dynamic_dimension_indices(args: &mut abi::BufferDynamicDimensionIndices) -> Outcome {
    (args.dynamic_dim_indices, args.num_dynamic_dims) = (std::ptr::NonNull::dangling().as_ptr(), 0);
    Ok(())
}

pub(crate) fn buffer_get_memory_layout(args: &mut abi::BufferGetMemoryLayout) -> Outcome {
    let order = &borrow::<BufferHandle>(args.buffer)?.shape.order;
    let tiled = abi::MemoryLayoutTiled {
        struct_size: size_of::<abi::MemoryLayoutTiled>(),
        extension_start: std::ptr::null_mut(),
        minor_to_major: order.as_ptr(),
        minor_to_major_size: order.len(),
        tile_dims: std::ptr::null(),
        tile_dim_sizes: std::ptr::null(),
        num_tiles: 0,
    };
    args.layout.kind = abi::LAYOUT_TILED;
    args.layout.layout.tiled = tiled;
    Ok(())
}

pub(crate) fn buffer_on_device_size_in_bytes(args: &mut abi::BufferOnDeviceSizeInBytes) -> Outcome {
    args.on_device_size_in_bytes = borrow::<BufferHandle>(args.buffer)?.shape.bytes();
    Ok(())
}

pub(crate) fn buffer_device(args: &mut abi::BufferDevice) -> Outcome {
    args.device = borrow::<MemoryHandle>(borrow::<BufferHandle>(args.buffer)?.memory)?.device();
    Ok(())
}

pub(crate) fn buffer_memory(args: &mut abi::BufferMemory) -> Outcome {
    args.memory = borrow::<BufferHandle>(args.buffer)?.memory;
    Ok(())
}

pub(crate) fn buffer_delete(args: &mut abi::BufferDelete) -> Outcome {
    borrow::<BufferHandle>(args.buffer)?.lock().take();
    Ok(())
}

pub(crate) fn buffer_is_deleted(args: &mut abi::BufferIsDeleted) -> Outcome {
    args.is_deleted = borrow::<BufferHandle>(args.buffer)?.lock().is_none().into();
    Ok(())
}

/// All memory is the host's, so readers may look at it directly.
pub(crate) fn buffer_is_on_cpu(args: &mut abi::BufferIsOnCpu) -> Outcome {
    args.is_on_cpu = 1;
    Ok(())
}

pub(crate) fn buffer_ready_event(args: &mut abi::BufferReadyEvent) -> Outcome {
    let signal = match borrow::<BufferHandle>(args.buffer)?.contents() {
        Ok(contents) => contents.signal.clone(),
        Err(failure) => Signal::with(Err(failure)),
    };
    args.event = signal.give();
    Ok(())
}

pub(crate) fn buffer_unsafe_pointer(args: &mut abi::BufferUnsafePointer) -> Outcome {
    args.buffer_pointer = borrow::<BufferHandle>(args.buffer)?.contents()?.wait()?.as_ptr() as usize;
    Ok(())
}

pub(crate) fn buffer_opaque_device_memory_data_pointer(args: &mut abi::BufferOpaqueDeviceMemoryDataPointer) -> Outcome {
    args.device_memory_ptr = borrow::<BufferHandle>(args.buffer)?.contents()?.wait()?.as_ptr().cast();
    Ok(())
}

/// Whoever reads the memory directly keeps it, also after the buffer is deleted or donated.
pub(crate) fn buffer_increase_external_reference_count(
    args: &mut abi::BufferIncreaseExternalReferenceCount,
) -> Outcome {
    let buffer = borrow::<BufferHandle>(args.buffer)?;
    let memory = buffer.contents()?.wait()?.clone();
    buffer.externals().push(memory);
    Ok(())
}

pub(crate) fn buffer_decrease_external_reference_count(
    args: &mut abi::BufferDecreaseExternalReferenceCount,
) -> Outcome {
    let last = borrow::<BufferHandle>(args.buffer)?.externals().pop();
    last.map(drop).ok_or_else(|| Failure::invalid("the buffer has no external references"))
}

pub(crate) fn buffer_copy_to_device(args: &mut abi::BufferCopyToDevice) -> Outcome {
    args.dst_buffer = share(args.buffer, default_memory(args.dst_device)?)?;
    Ok(())
}

pub(crate) fn buffer_copy_to_memory(args: &mut abi::BufferCopyToMemory) -> Outcome {
    args.dst_buffer = share(args.buffer, args.dst_memory)?;
    Ok(())
}

/// The same elements as a buffer in another memory. Nobody writes to elements that are shared, so nothing is copied.
fn share(buffer: *mut abi::Buffer, memory: *mut abi::Memory) -> Outcome<*mut abi::Buffer> {
    borrow::<MemoryHandle>(memory)?;
    let buffer = borrow::<BufferHandle>(buffer)?;
    Ok(BufferHandle::new(buffer.shape.clone(), memory, buffer.contents()?).give())
}

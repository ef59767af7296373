//! Transfers between the host and buffers.

use std::sync::Arc;

use meshwork_pjrt_abi as abi;
use meshwork_runtime::memory::Buffer;

use crate::border::{Handle, borrow, known, slice};
use crate::buffer::{BufferHandle, Contents, Shape, elem_of};
use crate::client::{MemoryHandle, default_memory};
use crate::copy::{copy_strided, is_same_order, minor_to_major, strides};
use crate::event::Signal;
use crate::failure::{Failure, Outcome};

/// From this size on a host array is shared instead of copied.
const WORTH_SHARING: usize = 1 << 16;
/// What elements of any type need. The engine aligns its own arrays better, but reads lent ones as they are.
const ALIGNMENT: usize = 16;

pub(crate) fn client_buffer_from_host_buffer(args: &mut abi::ClientBufferFromHostBuffer) -> Outcome {
    let memory = if args.memory.is_null() { default_memory(args.device)? } else { args.memory };
    borrow::<MemoryHandle>(memory)?;
    let dims = slice(args.dims, args.num_dims).to_vec();
    let mut shape = Shape::new(elem_of(args.element_type)?, dims);
    if let Some(order) = asked_order(args.device_layout)? {
        shape = shape.ordered(order)?;
    }
    let (size, bytes) = (shape.element_bytes(), shape.bytes());
    let given = match args.num_byte_strides {
        0 => strides(&shape.dims, &minor_to_major(shape.dims.len()), size),
        n => slice(args.byte_strides, n).to_vec(),
    };
    if given.len() != shape.dims.len() {
        return Err(Failure::invalid(format!("{} strides for {} dimensions", given.len(), shape.dims.len())));
    }
    if args.data.is_null() && bytes > 0 {
        return Err(Failure::invalid(format!("no data for a buffer of {bytes} bytes")));
    }
    let dense = shape.strides();
    let is_dense = is_same_order(&shape.dims, &given, &dense);
    let is_lasting =
        matches!(args.host_buffer_semantics, abi::semantics::ZERO_COPY | abi::semantics::MUTABLE_ZERO_COPY);
    let is_aligned = (args.data as usize).is_multiple_of(ALIGNMENT);
    let (buffer, done) = if is_dense && is_lasting && is_aligned && bytes >= WORTH_SHARING {
        let done = Arc::new(Signal::default());
        let freed = done.clone();
        // SAFETY: the caller keeps the memory as it is until the event, which is done when the buffer is dropped.
        let shared = unsafe { Buffer::lent(args.data.cast_mut().cast(), bytes, Box::new(move || freed.set(Ok(())))) };
        (shared.ok_or_else(|| Failure::invalid("no data for a buffer"))?, done)
    } else {
        let buffer = Buffer::new(bytes)?;
        let (from, to) = (args.data.cast::<u8>(), buffer.as_ptr());
        // SAFETY: the caller's array has these extents and strides, and the buffer is as large.
        unsafe {
            match is_dense {
                true => std::ptr::copy_nonoverlapping(from, to, bytes),
                false => copy_strided(&shape.dims, (from, &given), (to, &dense), size),
            }
        }
        (buffer, Signal::done())
    };
    args.done_with_host_buffer = done.give();
    args.buffer = BufferHandle::new(Arc::new(shape), memory, Contents::ready(Arc::new(buffer))).give();
    Ok(())
}

/// Memory of the caller that a buffer is copied to.
#[derive(Clone, Copy)]
struct Destination(*mut u8);

// SAFETY: the caller leaves it to us until the event.
unsafe impl Send for Destination {}

impl Destination {
    fn ptr(self) -> *mut u8 {
        self.0
    }
}

pub(crate) fn buffer_to_host_buffer(args: &mut abi::BufferToHostBuffer) -> Outcome {
    let buffer = borrow::<BufferHandle>(args.src)?;
    let bytes = buffer.shape.bytes();
    if args.dst.is_null() {
        args.dst_size = bytes;
        return Ok(());
    }
    if args.dst_size < bytes {
        return Err(Failure::invalid(format!("{} bytes given for a buffer of {bytes}", args.dst_size)));
    }
    let (shape, to) = (buffer.shape.clone(), Destination(args.dst.cast()));
    let (dims, size) = (&shape.dims, shape.element_bytes());
    let rows = || strides(dims, &minor_to_major(dims.len()), size);
    let wanted = host_strides(args.host_layout, &shape)?.unwrap_or_else(rows);
    let wanted = Some(wanted).filter(|wanted| !is_same_order(dims, wanted, &shape.strides()));
    args.event = when_ready(buffer.contents()?, move |memory| {
        // SAFETY: the caller's memory has room for all elements; the buffer's is as large as they are.
        unsafe {
            match &wanted {
                None => std::ptr::copy_nonoverlapping(memory.as_ptr(), to.ptr(), shape.bytes()),
                Some(wanted) => {
                    let (from, size) = (shape.strides(), shape.element_bytes());
                    copy_strided(&shape.dims, (memory.as_ptr(), &from), (to.ptr(), wanted), size);
                }
            }
        }
        Ok(())
    })
    .give();
    Ok(())
}

pub(crate) fn buffer_copy_raw_to_host(args: &mut abi::BufferCopyRawToHost) -> Outcome {
    let buffer = borrow::<BufferHandle>(args.buffer)?;
    let (offset, count, to) = (args.offset as usize, args.transfer_size as usize, Destination(args.dst.cast()));
    args.event = when_ready(buffer.contents()?, move |memory| {
        let range = offset.checked_add(count).and_then(|end| memory.as_slice().get(offset..end));
        let from = range.ok_or_else(|| Failure::invalid(format!("the buffer has {} bytes", memory.len())))?;
        // SAFETY: the caller's memory has room for them.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.ptr(), count) };
        Ok(())
    })
    .give();
    Ok(())
}

/// Does `copy` when the contents are there, and ends the event that is returned.
fn when_ready(contents: Arc<Contents>, copy: impl FnOnce(&Buffer) -> Outcome + Send + 'static) -> Arc<Signal> {
    let (done, signal) = (Arc::new(Signal::default()), contents.signal.clone());
    let copied = done.clone();
    signal.then(move |_| copied.set(contents.wait().and_then(|memory| copy(memory))));
    done
}

/// The strides that a layout of the host asks for.
fn host_strides(layout: *mut abi::BufferMemoryLayout, shape: &Shape) -> Outcome<Option<Vec<i64>>> {
    let Some(given) = known(layout) else { return Ok(None) };
    if given.kind == abi::LAYOUT_STRIDES {
        // SAFETY: the kind says which layout it is.
        let given = unsafe { given.layout.strides };
        return Ok(Some(slice(given.byte_strides, given.num_byte_strides).to_vec()));
    }
    let order = asked_order(layout)?;
    order.map(|order| shape.clone().ordered(order).map(|shape| shape.strides())).transpose()
}

/// The order of dimensions that a layout asks for, from minor to major; `None` if it leaves it to us.
fn asked_order(layout: *mut abi::BufferMemoryLayout) -> Outcome<Option<Vec<i64>>> {
    let Some(layout) = known(layout).filter(|layout| layout.kind == abi::LAYOUT_TILED) else { return Ok(None) };
    // SAFETY: the kind says which layout it is.
    let tiled = unsafe { layout.layout.tiled };
    if tiled.num_tiles > 0 {
        return Err(Failure::unimplemented("layouts with tiles"));
    }
    let order = slice(tiled.minor_to_major, tiled.minor_to_major_size);
    Ok((!order.is_empty()).then(|| order.to_vec()))
}

/// Memory with unspecified contents.
pub(crate) fn client_create_uninitialized_buffer(args: &mut abi::ClientCreateUninitializedBuffer) -> Outcome {
    let memory = if args.memory.is_null() { default_memory(args.device)? } else { args.memory };
    let dims = slice(args.shape_dims, args.shape_num_dims).to_vec();
    let shape = Shape::new(elem_of(args.shape_element_type)?, dims);
    let buffer = Buffer::new(shape.bytes())?;
    args.buffer = BufferHandle::new(Arc::new(shape), memory, Contents::ready(Arc::new(buffer))).give();
    Ok(())
}

/// A buffer that has failed.
pub(crate) fn client_create_error_buffer(args: &mut abi::ClientCreateErrorBuffer) -> Outcome {
    let dims = slice(args.shape_dims, args.shape_num_dims).to_vec();
    let shape = Shape::new(elem_of(args.shape_element_type)?, dims);
    let message = crate::border::text(args.error_message, args.error_message_size).into_owned();
    let failure = Failure::new(abi::Code::from_number(args.error_code), message);
    let contents = Contents::pending(Signal::with(Err(failure)));
    args.buffer = BufferHandle::new(Arc::new(shape), args.memory, contents).give();
    Ok(())
}

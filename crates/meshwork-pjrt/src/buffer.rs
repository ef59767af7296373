//! Memory of a PJRT device.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use meshwork_ir::ElementType;
use meshwork_pjrt_abi::{self as abi, BufferMemoryLayout, LAYOUT_TILED, MemoryLayoutData, MemoryLayoutTiled};
use meshwork_runtime::{ArrayError, Buffer, DeviceBuffer};

use crate::client::Client;
use crate::event::Event;
use crate::plugin::{PjrtError, blank, call};
use crate::staging;

/// A shard in the memory of a device. It may not be written yet: reading it waits, and tells what went wrong.
pub(crate) struct PjrtBuffer {
    pub client: Arc<Client>,
    pub buffer: *mut abi::Buffer,
    dims: Vec<i64>,
    elem: ElementType,
    bytes: usize,
}

// SAFETY: buffers can be used from any thread.
unsafe impl Send for PjrtBuffer {}
// SAFETY: as above.
unsafe impl Sync for PjrtBuffer {}

impl PjrtBuffer {
    /// Takes over a buffer of `client`.
    pub fn new(client: &Arc<Client>, buffer: *mut abi::Buffer, dims: &[i64], elem: ElementType) -> PjrtBuffer {
        let bytes = dims.iter().product::<i64>() as usize * elem.storage_bytes();
        PjrtBuffer { client: client.clone(), buffer, dims: dims.to_vec(), elem, bytes }
    }

    /// Stands for a shard that another process has.
    pub fn elsewhere(client: &Arc<Client>, elem: ElementType) -> PjrtBuffer {
        PjrtBuffer { client: client.clone(), buffer: std::ptr::null_mut(), dims: vec![], elem, bytes: 0 }
    }

    /// Sends a shard to a device of `client`. The plugin may read it until the buffer is gone.
    pub fn upload(
        client: &Arc<Client>,
        device: usize,
        shard: Arc<Buffer>,
        dims: &[i64],
        elem: ElementType,
    ) -> Result<PjrtBuffer, PjrtError> {
        if shard.len() >= staging::LEAST_BYTES
            && let Some(staging) = client.staging()
        {
            let buffer = staging.send(client, device, shard.as_slice(), dims, elem)?;
            return Ok(PjrtBuffer::new(client, buffer, dims, elem));
        }
        let unknown = || PjrtError::Spec(format!("PJRT has no arrays of {elem}"));
        let args = abi::ClientBufferFromHostBuffer {
            client: client.client,
            data: shard.as_ptr().cast(),
            element_type: abi::element::to_number(elem).ok_or_else(unknown)?,
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            host_buffer_semantics: abi::semantics::ZERO_COPY,
            device: client.devices()[device].device,
            ..blank()
        };
        let made = call!(client.plugin, client_buffer_from_host_buffer, args)?;
        if let Some(event) = Event::new(&client.plugin, made.done_with_host_buffer) {
            event.keep(shard);
        }
        Ok(PjrtBuffer::new(client, made.buffer, dims, elem))
    }

    /// Reads it in row-major order.
    fn read(&self, into: &mut [u8]) -> Result<(), PjrtError> {
        if self.buffer.is_null() {
            return Err(PjrtError::Processes("the shard is in the memory of another process".into()));
        }
        if into.len() >= staging::LEAST_BYTES
            && let Some(staging) = self.client.staging()
            && let Some(done) = staging.receive(&self.client, self.buffer, into)
        {
            return done;
        }
        let order: Vec<i64> = (0..self.dims.len() as i64).rev().collect();
        let tiled = MemoryLayoutTiled { minor_to_major: order.as_ptr(), minor_to_major_size: order.len(), ..sized() };
        let mut layout = BufferMemoryLayout { layout: MemoryLayoutData { tiled }, kind: LAYOUT_TILED, ..sized() };
        let args = abi::BufferToHostBuffer {
            src: self.buffer,
            host_layout: &mut layout,
            dst: into.as_mut_ptr().cast(),
            dst_size: into.len(),
            ..blank()
        };
        let done = call!(self.client.plugin, buffer_to_host_buffer, args)?;
        Event::new(&self.client.plugin, done.event).map_or(Ok(()), |event| event.wait())?;
        // Integers of a few bits take a byte each; plugins leave the other bits as they happen to be.
        let spare = match self.elem {
            ElementType::I4 | ElementType::UI4 => 4,
            ElementType::I2 | ElementType::UI2 => 6,
            _ => return Ok(()),
        };
        let is_signed = matches!(self.elem, ElementType::I4 | ElementType::I2);
        for byte in into {
            let high = *byte << spare;
            *byte = if is_signed { (high as i8 >> spare) as u8 } else { high >> spare };
        }
        Ok(())
    }
}

/// A struct inside another, all zeros but its size.
pub(crate) fn sized<A: abi::Args>() -> A {
    let mut args = blank::<A>();
    // SAFETY: every struct of arguments starts with its size.
    unsafe { (&raw mut args).cast::<usize>().write(size_of::<A>()) };
    args
}

impl DeviceBuffer for PjrtBuffer {
    fn size(&self) -> usize {
        self.bytes
    }

    fn to_bytes(&self) -> Result<Cow<'_, [u8]>, ArrayError> {
        let mut bytes = vec![0; self.bytes];
        self.read(&mut bytes).map_err(|e| ArrayError::Device(e.to_string()))?;
        Ok(Cow::Owned(bytes))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn into_host(self: Arc<Self>) -> Result<Arc<Buffer>, ArrayError> {
        let mut host = Buffer::new(self.bytes)?;
        self.read(host.as_mut_slice()).map_err(|e| ArrayError::Device(e.to_string()))?;
        Ok(Arc::new(host))
    }
}

impl Drop for PjrtBuffer {
    fn drop(&mut self) {
        if self.buffer.is_null() {
            return;
        }
        let _ = call!(self.client.plugin, buffer_destroy, abi::BufferDestroy { buffer: self.buffer, ..blank() });
    }
}

impl fmt::Debug for PjrtBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PjrtBuffer({:?}, {} bytes)", self.client, self.bytes)
    }
}

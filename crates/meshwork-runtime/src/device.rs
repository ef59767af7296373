//! Memory of devices. Host memory is one kind of it.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::error::ArrayError;
use crate::memory::Buffer;

/// A piece of memory on a device, as large as one shard of an array. Engines keep their arrays in buffers of their own
/// kind, and find them again with [`into_any`](DeviceBuffer::into_any); what is on another kind of device they read
/// through the host.
pub trait DeviceBuffer: fmt::Debug + Send + Sync {
    /// Size in bytes; 0 for a shard that another process has.
    fn size(&self) -> usize;

    /// The contents; borrowed if they are in host memory, else copied from the device.
    fn to_bytes(&self) -> Result<Cow<'_, [u8]>, ArrayError>;

    /// The buffer as what it is.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// The buffer in host memory: a copy, unless it is there.
    fn into_host(self: Arc<Self>) -> Result<Arc<Buffer>, ArrayError> {
        Ok(Arc::new(Buffer::from_bytes(&self.to_bytes()?)?))
    }
}

impl DeviceBuffer for Buffer {
    fn size(&self) -> usize {
        self.len()
    }

    fn to_bytes(&self) -> Result<Cow<'_, [u8]>, ArrayError> {
        Ok(Cow::Borrowed(self.as_slice()))
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn into_host(self: Arc<Self>) -> Result<Arc<Buffer>, ArrayError> {
        Ok(self)
    }
}

//! Transfers through pinned memory: the device reads and writes it by itself, while the next piece is copied.
//!
//! Pieces that are mapped once go round, so that copies and transfers overlap: for plugins that are given ordinary memory and
//! do not do the same by themselves, as CUDA's does since API 0.115. A plugin that cannot map memory has none of this, and
//! transfers are made the ordinary way.

use std::sync::{Mutex, PoisonError};

use meshwork_ir::ElementType;
use meshwork_pjrt_abi::{self as abi, LAYOUT_TILED};
use meshwork_runtime::memory::Buffer;

use crate::buffer::sized;
use crate::client::Client;
use crate::event::Event;
use crate::plugin::{PjrtError, blank, call, slice};

/// Smaller arrays are not worth it.
pub(crate) const LEAST_BYTES: usize = 4 << 20;
const PIECE: usize = 8 << 20;
const PIECES: usize = 4;

/// Pinned memory of a client.
pub(crate) struct Staging {
    /// Used by one transfer at a time.
    pieces: Mutex<Vec<Buffer>>,
}

impl Staging {
    /// Maps pieces for `client`; `None` if its plugin cannot.
    pub fn new(client: &Client) -> Option<Staging> {
        let has_calls = client.plugin.api.client_create_buffers_for_async_host_to_device.is_some()
            && client.plugin.api.buffer_copy_raw_to_host.is_some();
        let mut staging = Staging { pieces: Mutex::default() };
        for _ in 0..if has_calls { PIECES } else { 0 } {
            let piece = Buffer::new(PIECE).ok()?;
            let args = abi::ClientDmaMap { client: client.client, data: piece.as_ptr().cast(), size: PIECE, ..blank() };
            if call!(client.plugin, client_dma_map, args).is_err() {
                staging.unmap(client);
                return None;
            }
            staging.pieces.get_mut().unwrap_or_else(PoisonError::into_inner).push(piece);
        }
        has_calls.then_some(staging)
    }

    /// Gives the memory back, before the client goes.
    pub fn unmap(&mut self, client: &Client) {
        for piece in self.pieces.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let args = abi::ClientDmaUnmap { client: client.client, data: piece.as_ptr().cast(), ..blank() };
            let _ = call!(client.plugin, client_dma_unmap, args);
        }
    }

    /// Sends `bytes` to a device; the buffer of this type there.
    pub fn send(
        &self,
        client: &Client,
        device: usize,
        bytes: &[u8],
        dims: &[i64],
        elem: ElementType,
    ) -> Result<*mut abi::Buffer, PjrtError> {
        let plugin = &client.plugin;
        let memory = abi::DeviceDefaultMemory { device: client.devices()[device].device, ..blank() };
        let memory = call!(plugin, device_default_memory, memory)?.memory;
        let unknown = || PjrtError::Spec(format!("PJRT has no arrays of {elem}"));
        let mut spec = abi::ShapeSpec {
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            element_type: abi::element::to_number(elem).ok_or_else(unknown)?,
            ..sized()
        };
        let args = abi::ClientCreateBuffersForAsyncHostToDevice {
            client: client.client,
            shape_specs: &mut spec,
            num_shape_specs: 1,
            memory,
            ..blank()
        };
        let manager = call!(plugin, client_create_buffers_for_async_host_to_device, args)?.transfer_manager;
        let sent = self.send_pieces(client, manager, bytes);
        let retrieved = sent.and_then(|()| {
            let args = abi::TransferManagerRetrieveBuffer { transfer_manager: manager, buffer_index: 0, ..blank() };
            Ok(call!(plugin, transfer_manager_retrieve_buffer, args)?.buffer_out)
        });
        let destroy = abi::TransferManagerDestroy { transfer_manager: manager, ..blank() };
        let _ = call!(plugin, transfer_manager_destroy, destroy);
        retrieved
    }

    fn send_pieces(&self, client: &Client, manager: *mut abi::TransferManager, bytes: &[u8]) -> Result<(), PjrtError> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut busy: Vec<Option<Event>> = pieces.iter().map(|_| None).collect();
        let count = bytes.len().div_ceil(PIECE);
        let mut result = Ok(());
        for (i, part) in bytes.chunks(PIECE).enumerate() {
            let at = i % busy.len();
            result = busy[at].take().map_or(Ok(()), |event| event.wait());
            if result.is_err() {
                break;
            }
            pieces[at].as_mut_slice()[..part.len()].copy_from_slice(part);
            let args = abi::TransferManagerTransferData {
                transfer_manager: manager,
                buffer_index: 0,
                data: pieces[at].as_ptr().cast(),
                offset: (i * PIECE) as i64,
                transfer_size: part.len() as i64,
                is_last_transfer: u8::from(i + 1 == count),
                ..blank()
            };
            match call!(client.plugin, transfer_manager_transfer_data, args) {
                Ok(done) => busy[at] = Event::new(&client.plugin, done.done_with_h2d_transfer),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // The pieces are free when the next transfer takes them.
        for event in busy.into_iter().flatten() {
            let ended = event.wait();
            result = result.and(ended);
        }
        result
    }

    /// Reads a buffer whose elements lie in row-major order on the device. `None` if they do not.
    pub fn receive(&self, client: &Client, buffer: *mut abi::Buffer, into: &mut [u8]) -> Option<Result<(), PjrtError>> {
        is_row_major(client, buffer, into.len()).then(|| self.receive_pieces(client, buffer, into))
    }

    fn receive_pieces(&self, client: &Client, buffer: *mut abi::Buffer, into: &mut [u8]) -> Result<(), PjrtError> {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut busy: Vec<Option<Event>> = pieces.iter().map(|_| None).collect();
        let (total, count) = (into.len(), into.len().div_ceil(PIECE));
        let ask = |i: usize| {
            let at = i % pieces.len();
            let size = PIECE.min(total - i * PIECE);
            let args = abi::BufferCopyRawToHost {
                buffer,
                dst: pieces[at].as_ptr().cast(),
                offset: (i * PIECE) as i64,
                transfer_size: size as i64,
                ..blank()
            };
            Ok::<_, PjrtError>(Event::new(&client.plugin, call!(client.plugin, buffer_copy_raw_to_host, args)?.event))
        };
        let mut result = Ok(());
        let mut asked = 0;
        for i in 0..count {
            while asked < count && asked < i + pieces.len() && result.is_ok() {
                match ask(asked) {
                    Ok(event) => busy[asked % pieces.len()] = event,
                    Err(error) => result = Err(error),
                }
                asked += 1;
            }
            let at = i % pieces.len();
            if let Some(event) = busy[at].take() {
                let ended = event.wait();
                result = result.and(ended);
            }
            if result.is_err() {
                break;
            }
            let part = &mut into[i * PIECE..];
            let size = part.len().min(PIECE);
            part[..size].copy_from_slice(&pieces[at].as_slice()[..size]);
        }
        for event in busy.into_iter().flatten() {
            let _ = event.wait();
        }
        result
    }
}

fn is_row_major(client: &Client, buffer: *mut abi::Buffer, bytes: usize) -> bool {
    let size = abi::BufferOnDeviceSizeInBytes { buffer, ..blank() };
    let layout = abi::BufferGetMemoryLayout { buffer, ..blank() };
    let (Ok(size), Ok(found)) = (
        call!(client.plugin, buffer_on_device_size_in_bytes, size),
        call!(client.plugin, buffer_get_memory_layout, layout),
    ) else {
        return false;
    };
    if found.layout.kind != LAYOUT_TILED || size.on_device_size_in_bytes != bytes {
        return false;
    }
    // SAFETY: the kind says that it is this one.
    let tiled = unsafe { found.layout.layout.tiled };
    let order = slice(tiled.minor_to_major, tiled.minor_to_major_size);
    tiled.num_tiles == 0 && order.iter().rev().enumerate().all(|(i, &dim)| dim == i as i64)
}

//! Buffers, and transfers between them and the host.

use crate::types::*;
use std::ffi::{c_char, c_int, c_void};

args! {
    TransferManagerDestroy {
        transfer_manager: *mut TransferManager,
    }
    TransferManagerTransferData {
        transfer_manager: *mut TransferManager,
        buffer_index: c_int,
        data: *const c_void,
        offset: i64,
        transfer_size: i64,
        is_last_transfer: u8,
        done_with_h2d_transfer: *mut Event,
    }
    TransferManagerRetrieveBuffer {
        transfer_manager: *mut TransferManager,
        buffer_index: c_int,
        buffer_out: *mut Buffer,
    }
    TransferManagerDevice {
        transfer_manager: *mut TransferManager,
        device_out: *mut Device,
    }
    TransferManagerBufferCount {
        transfer_manager: *mut TransferManager,
        buffer_count: usize,
    }
    TransferManagerBufferSize {
        transfer_manager: *mut TransferManager,
        buffer_index: c_int,
        buffer_size: usize,
    }
    TransferManagerSetBufferError {
        transfer_manager: *mut TransferManager,
        buffer_index: c_int,
        error_code: c_int,
        error_message: *const c_char,
        error_message_size: usize,
    }
    TransferManagerAddMetadata {
        transfer_manager: *mut TransferManager,
        transfer_metadata: *const NamedValue,
        num_metadata: usize,
    }
    TransferManagerTransferLiteral {
        transfer_manager: *mut TransferManager,
        buffer_index: c_int,
        data: *const c_void,
        shape_dims: *const i64,
        shape_num_dims: usize,
        shape_element_type: c_int,
        shape_layout: *mut BufferMemoryLayout,
        done_with_h2d_transfer: *mut Event,
    }
    BufferDestroy {
        buffer: *mut Buffer,
    }
    BufferElementType {
        buffer: *mut Buffer,
        element_type: c_int,
    }
    BufferDimensions {
        buffer: *mut Buffer,
        dims: *const i64,
        num_dims: usize,
    }
    BufferUnpaddedDimensions {
        buffer: *mut Buffer,
        unpadded_dims: *const i64,
        num_dims: usize,
    }
    BufferDynamicDimensionIndices {
        buffer: *mut Buffer,
        dynamic_dim_indices: *const usize,
        num_dynamic_dims: usize,
    }
    BufferGetMemoryLayout {
        buffer: *mut Buffer,
        layout: BufferMemoryLayout,
    }
    BufferToHostBuffer {
        src: *mut Buffer,
        host_layout: *mut BufferMemoryLayout,
        dst: *mut c_void,
        dst_size: usize,
        event: *mut Event,
    }
    BufferOnDeviceSizeInBytes {
        buffer: *mut Buffer,
        on_device_size_in_bytes: usize,
    }
    BufferDelete {
        buffer: *mut Buffer,
    }
    BufferIsDeleted {
        buffer: *mut Buffer,
        is_deleted: u8,
    }
    BufferCopyRawToHost {
        buffer: *mut Buffer,
        dst: *mut c_void,
        offset: i64,
        transfer_size: i64,
        event: *mut Event,
    }
    BufferCopyRawToHostFutureCallback {
        callback_data: *mut c_void,
        error_code: c_int,
        error_message: *const c_char,
        error_message_size: usize,
        dst: *mut c_void,
    }
    BufferCopyRawToHostFuture {
        buffer: *mut Buffer,
        offset: i64,
        transfer_size: i64,
        event: *mut Event,
        callback_data: *mut c_void,
        future_ready_callback: Option<unsafe extern "C" fn(*mut BufferCopyRawToHostFutureCallback)>,
    }
    BufferCopyToDevice {
        buffer: *mut Buffer,
        dst_device: *mut Device,
        dst_buffer: *mut Buffer,
    }
    BufferCopyToMemory {
        buffer: *mut Buffer,
        dst_memory: *mut Memory,
        dst_buffer: *mut Buffer,
    }
    BufferBitcast {
        buffer: *mut Buffer,
        element_type: c_int,
        dims: *const i64,
        num_dims: usize,
        device_layout: *mut BufferMemoryLayout,
        out_buffer: *mut Buffer,
    }
    BufferIsOnCpu {
        buffer: *mut Buffer,
        is_on_cpu: u8,
    }
    BufferDevice {
        buffer: *mut Buffer,
        device: *mut Device,
    }
    BufferMemory {
        buffer: *mut Buffer,
        memory: *mut Memory,
    }
    BufferReadyEvent {
        buffer: *mut Buffer,
        event: *mut Event,
    }
    BufferUnsafePointer {
        buffer: *mut Buffer,
        buffer_pointer: usize,
    }
    BufferIncreaseExternalReferenceCount {
        buffer: *mut Buffer,
    }
    BufferDecreaseExternalReferenceCount {
        buffer: *mut Buffer,
    }
    BufferOpaqueDeviceMemoryDataPointer {
        buffer: *mut Buffer,
        device_memory_ptr: *mut c_void,
    }
    BufferDonateWithControlDependencyCallback {
        callback_data: *mut c_void,
        error_code: c_int,
        error_message: *const c_char,
        error_message_size: usize,
    }
    BufferDonateWithControlDependency {
        buffer: *mut Buffer,
        callback_data: *mut c_void,
        dependency_ready_callback: Option<unsafe extern "C" fn(*mut BufferDonateWithControlDependencyCallback)>,
        out_buffer: *mut Buffer,
    }
    CopyToDeviceStreamDestroy {
        stream: *mut CopyToDeviceStream,
    }
    CopyToDeviceStreamAddChunk {
        stream: *mut CopyToDeviceStream,
        chunk: *mut c_void,
        transfer_complete: *mut Event,
    }
    CopyToDeviceStreamTotalBytes {
        stream: *mut CopyToDeviceStream,
        total_bytes: i64,
    }
    CopyToDeviceStreamGranuleSize {
        stream: *mut CopyToDeviceStream,
        granule_size_in_bytes: i64,
    }
    CopyToDeviceStreamCurrentBytes {
        stream: *mut CopyToDeviceStream,
        current_bytes: i64,
    }
}

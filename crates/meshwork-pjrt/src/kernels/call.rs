//! The call of a kernel from a program of XLA: a handler of its typed FFI.
//!
//! The program holds the text of the kernel and how often it is to run, so that a program from the cache on disk runs in a
//! process that has not compiled it. Each run of the handler starts the passes one after the other on XLA's stream and
//! returns; nothing waits.

use std::ffi::{CString, c_int, c_void};

use meshwork_pjrt_abi::ffi::{
    ApiVersion, Array, Attrs, Buffer, Buffers, ByteSpan, CallFrame, EXECUTE, Error, ErrorCreate, Head, METADATA,
    MetadataExtension, StreamGet, Table, attr,
};
use meshwork_pjrt_abi::{self as abi, FfiExtension, RegisterHandler};

use super::driver::Driver;
use crate::plugin::Plugin;

/// The name by which programs call kernels.
pub(crate) const TARGET: &str = "meshwork_stencil";

/// How often which function of a kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Numbers {
    /// Carried arrays.
    pub arrays: i64,
    /// Turns of a pass.
    pub steps: i64,
    /// Passes of so many turns.
    pub passes: i64,
    pub blocks: i64,
    /// Blocks of the pass that does what is left; 0 if nothing is.
    pub rest_blocks: i64,
    /// The counter of the loop.
    pub start: i64,
    pub step: i64,
    /// Stands for the text.
    pub key: i64,
}

impl Numbers {
    pub fn to_list(self) -> [i64; 8] {
        [self.arrays, self.steps, self.passes, self.blocks, self.rest_blocks, self.start, self.step, self.key]
    }

    pub fn from_list(list: &[i64]) -> Option<Numbers> {
        let &[arrays, steps, passes, blocks, rest_blocks, start, step, key] = list else { return None };
        Some(Numbers { arrays, steps, passes, blocks, rest_blocks, start, step, key })
    }

    /// Passes of both kinds.
    pub fn total(self) -> i64 {
        self.passes + i64::from(self.rest_blocks > 0)
    }
}

/// One start of a function of a kernel.
pub(super) struct Launch<'a> {
    pub ptx: &'a str,
    pub key: i64,
    /// 0 for the full passes, 1 for the rest.
    pub function: usize,
    pub blocks: i64,
    /// In the order of the function's parameters.
    pub params: Vec<u64>,
}

/// Tells the plugin of kernels; an error says why it cannot have them.
pub(crate) fn register(plugin: &Plugin) -> Result<(), String> {
    Driver::get()?;
    register_as(plugin, "CUDA", run_on_gpu)
}

/// Registers a handler for a platform of the plugin, once in a process.
pub(super) fn register_as(
    plugin: &Plugin,
    platform: &str,
    handler: unsafe extern "C" fn(*mut CallFrame) -> *mut Error,
) -> Result<(), String> {
    let mut next = plugin.api.extension_start;
    while !next.is_null() {
        // SAFETY: extensions are a list of structs that start like this, and live as long as the plugin.
        let base = unsafe { *next };
        if base.kind == abi::FFI && base.struct_size >= size_of::<FfiExtension>() {
            // SAFETY: it is of this kind and size.
            let extension = unsafe { *next.cast::<FfiExtension>() };
            let mut args = RegisterHandler {
                struct_size: size_of::<RegisterHandler>(),
                target_name: TARGET.as_ptr().cast(),
                target_name_size: TARGET.len(),
                handler: handler as *mut c_void,
                platform_name: platform.as_ptr().cast(),
                platform_name_size: platform.len(),
                traits: 0,
                unused: [0; 4],
            };
            let register = extension.register_handler.ok_or("it registers no handlers")?;
            // SAFETY: the names are copied, and the handler is a function of this process.
            let error = unsafe { register(&raw mut args) };
            return if error.is_null() {
                Ok(())
            } else {
                Err(plugin.take_error("register_handler", error).to_string())
            };
        }
        next = base.next;
    }
    Err("the plugin has no extension for foreign functions".into())
}

unsafe extern "C" fn run_on_gpu(frame: *mut CallFrame) -> *mut Error {
    // SAFETY: XLA gives a frame that lives through the call.
    unsafe {
        handle(frame, |frame, launches| {
            let driver = Driver::get()?;
            driver.on_stream(stream(frame)?, |loaded| launches.iter().try_for_each(|launch| loaded.start(launch)))
        })
    }
}

/// Answers a call: says which version it speaks, or has `run` do the passes.
///
/// # Safety
///
/// `frame` is a call frame of XLA's FFI.
pub(super) unsafe fn handle(
    frame: *mut CallFrame,
    run: impl FnOnce(&CallFrame, &[Launch<'_>]) -> Result<(), String>,
) -> *mut Error {
    // SAFETY: the caller's; frames end with their attributes, and nothing behind those is read.
    let frame = unsafe { &*frame };
    // SAFETY: extensions are a list of structs that start like this.
    if let Some(extension) = unsafe { frame.head.extension_start.cast::<MetadataExtension>().as_mut() }
        && extension.kind == METADATA
    {
        // SAFETY: the handler is asked what it is, and has this place for the answer.
        unsafe { describe(extension, frame.api) };
        return std::ptr::null_mut();
    }
    if frame.stage != EXECUTE {
        return std::ptr::null_mut();
    }
    // SAFETY: the frame's parts live as long as it.
    let done = unsafe { launches(frame) }.and_then(|launches| run(frame, &launches));
    match done {
        Ok(()) => std::ptr::null_mut(),
        // SAFETY: the table is the frame's.
        Err(message) => unsafe { error(frame.api, &message) },
    }
}

/// Says that the handler speaks the version that it is called with: it uses nothing that differs between them.
unsafe fn describe(extension: &mut MetadataExtension, table: *const Table) {
    // SAFETY: the caller's.
    unsafe {
        let theirs = table.as_ref().map_or((0, 1), |table| (table.version.major, table.version.minor));
        let metadata = &mut *extension.metadata;
        metadata.version = ApiVersion { head: Head::of::<ApiVersion>(), major: theirs.0, minor: theirs.1 };
        metadata.traits = 0;
    }
}

unsafe fn error(table: *const Table, message: &str) -> *mut Error {
    const INTERNAL: c_int = 13;
    let message = CString::new(format!("{TARGET}: {message}").replace('\0', " ")).unwrap_or_default();
    let mut args = ErrorCreate { head: Head::of::<ErrorCreate>(), message: message.as_ptr(), code: INTERNAL };
    // SAFETY: the caller's; the message is copied.
    unsafe { ((*table).error_create)(&raw mut args) }
}

/// The CUDA stream of a call.
unsafe fn stream(frame: &CallFrame) -> Result<*mut c_void, String> {
    let mut args = StreamGet { head: Head::of::<StreamGet>(), context: frame.context, stream: std::ptr::null_mut() };
    // SAFETY: the table and the context are the frame's.
    let failed = unsafe { ((*frame.api).stream_get)(&raw mut args) };
    if failed.is_null() { Ok(args.stream) } else { Err("the call has no stream".into()) }
}

unsafe fn buffers<'a>(buffers: &Buffers) -> Vec<&'a Buffer> {
    // SAFETY: a list of as many buffers as it says, which live as long as the frame.
    unsafe { (0..buffers.size as usize).map(|k| &**buffers.all.add(k)).collect() }
}

/// The passes of a call.
unsafe fn launches(frame: &CallFrame) -> Result<Vec<Launch<'_>>, String> {
    // SAFETY: the caller's.
    let (args, rets) = unsafe { (buffers(&frame.args), buffers(&frame.rets)) };
    // SAFETY: the caller's.
    let (numbers, ptx) = unsafe { (integers(&frame.attrs, "numbers"), string(&frame.attrs, "ptx")) };
    let numbers = numbers.and_then(Numbers::from_list).ok_or("its numbers are missing")?;
    let ptx = ptx.ok_or("its text is missing")?;
    let pointers = |of: &[&Buffer]| of.iter().map(|b| b.data as u64).collect::<Vec<u64>>();
    passes(numbers, ptx, &pointers(&args), &pointers(&rets))
}

/// The passes that read `args`, the carried arrays first, and write `rets`, the results first.
pub(super) fn passes<'a>(
    numbers: Numbers,
    ptx: &'a str,
    args: &[u64],
    rets: &[u64],
) -> Result<Vec<Launch<'a>>, String> {
    let (arrays, total) = (numbers.arrays as usize, numbers.total());
    if args.len() < arrays || rets.len() != if total > 1 { 2 * arrays } else { arrays } {
        return Err(format!("{} operands and {} results for {arrays} arrays", args.len(), rets.len()));
    }
    let (mut from, inputs) = args.split_at(arrays);
    let mut launches = vec![];
    for pass in 0..total {
        // The last pass writes the results.
        let to = if (total - 1 - pass) % 2 == 0 { &rets[..arrays] } else { &rets[arrays..] };
        let function = usize::from(pass >= numbers.passes);
        let turn = numbers.start + numbers.step * numbers.steps * pass;
        let params = [from, to, inputs, &[turn as u64]].concat();
        let blocks = if function == 0 { numbers.blocks } else { numbers.rest_blocks };
        launches.push(Launch { ptx, key: numbers.key, function, blocks, params });
        from = to;
    }
    Ok(launches)
}

/// An attribute of this kind and name.
unsafe fn find(attrs: &Attrs, name: &str, kind: c_int) -> Option<*const c_void> {
    // SAFETY: lists of as many attributes as it says.
    unsafe {
        (0..attrs.size as usize).find_map(|k| {
            let is_it = bytes(&**attrs.names.add(k)) == name.as_bytes() && *attrs.types.add(k) == kind;
            is_it.then(|| *attrs.attrs.add(k))
        })
    }
}

unsafe fn bytes(span: &ByteSpan) -> &[u8] {
    if span.size == 0 {
        return &[];
    }
    // SAFETY: a span is as long as it says.
    unsafe { std::slice::from_raw_parts(span.start.cast(), span.size) }
}

unsafe fn integers<'a>(attrs: &'a Attrs, name: &str) -> Option<&'a [i64]> {
    const I64: c_int = 5;
    // SAFETY: an attribute of this kind is an array of elements of the type that it says.
    unsafe {
        let array = &*find(attrs, name, attr::ARRAY)?.cast::<Array>();
        (array.dtype == I64).then(|| std::slice::from_raw_parts(array.data.cast(), array.size))
    }
}

unsafe fn string<'a>(attrs: &'a Attrs, name: &str) -> Option<&'a str> {
    // SAFETY: an attribute of this kind is a span of bytes.
    unsafe { std::str::from_utf8(bytes(&*find(attrs, name, attr::STRING)?.cast::<ByteSpan>())).ok() }
}

//! A plugin: a shared library with the table of PJRT's calls.
//!
//! Plugins of other versions than ours know fewer or more fields and calls. Structs that we hand over are followed by
//! zeros that count as part of them, so a newer plugin reads defaults where we know no field, and an older one ignores
//! what it does not know. Calls that the plugin's own table does not reach are missing.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use libloading::Library;
use meshwork_pjrt_abi::{self as abi, Api, Args, Code, ErrorDestroy, ErrorGetCode, ErrorMessage, Slot};
use thiserror::Error;

#[cfg(unix)]
use crate::abort;

/// Why a plugin could not be used, or what it refused.
#[derive(Clone, PartialEq, Error)]
pub enum PjrtError {
    /// There is no such file, or it is not a library.
    #[error("cannot load the PJRT plugin {path}: {message}")]
    Load {
        /// The file.
        path: String,
        /// What the system says.
        message: String,
    },
    /// No plugin of this name is installed.
    #[error(
        "no PJRT plugin {name:?} is installed: looked for {looked_for}; install it with pip, or give the path of its library"
    )]
    NotFound {
        /// The name.
        name: String,
        /// What was looked for.
        looked_for: String,
    },
    /// It is of a version that this engine does not speak.
    #[error("the PJRT plugin {path} has API version {major}.{minor}; version 0.{oldest} or later is needed")]
    Version {
        /// The file.
        path: String,
        /// Its major version.
        major: i32,
        /// Its minor version.
        minor: i32,
        /// The oldest minor version that does.
        oldest: i32,
    },
    /// A description of a plugin that cannot be read.
    #[error("{0}")]
    Spec(String),
    /// The processes of a job could not be brought together.
    #[error("{0}")]
    Processes(String),
    /// The plugin has no such call.
    #[error("the PJRT plugin does not have the call {0}")]
    Missing(&'static str),
    /// A call failed.
    #[error("{call}: {message} ({code:?})")]
    Failed {
        /// Which.
        call: &'static str,
        /// The kind of error.
        code: Code,
        /// What the plugin says.
        message: String,
    },
}

meshwork_mesh::debug_as_display!(PjrtError);

/// The oldest version that has every call used here.
const OLDEST: i32 = 54;

/// An open plugin. It is never closed: its threads may outlive everything.
pub struct Plugin {
    path: PathBuf,
    /// Our copy of the calls that it has.
    pub(crate) api: Api,
}

// SAFETY: the table is read only, and PJRT's calls can be made from any thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// Makes the call `$slot` of a plugin with `$args`, and returns them with its answers.
macro_rules! call {
    ($plugin:expr, $slot:ident, $args:expr) => {
        $plugin.call($plugin.api.$slot, stringify!($slot), $args)
    };
}
pub(crate) use call;

/// Arguments with all fields zero.
pub(crate) fn blank<A: Args>() -> A {
    // SAFETY: any bits are a valid value of these structs.
    unsafe { std::mem::zeroed() }
}

/// A struct of arguments and what a newer plugin may expect behind it.
#[repr(C)]
struct Padded<A> {
    args: A,
    rest: [u64; 16],
}

impl Plugin {
    /// Opens the library at `path`, once in a process.
    pub fn open(path: &Path) -> Result<Arc<Plugin>, PjrtError> {
        static OPEN: OnceLock<Mutex<Vec<Arc<Plugin>>>> = OnceLock::new();
        let failed = |message: String| PjrtError::Load { path: path.display().to_string(), message };
        let path = path.canonicalize().map_err(|e| failed(e.to_string()))?;
        let mut open = OPEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = open.iter().find(|plugin| plugin.path == path) {
            return Ok(plugin.clone());
        }
        // SAFETY: loading runs the library's initializers; that it is a plugin is up to whoever names it.
        let library = unsafe { Library::new(&path) }.map_err(|e| failed(e.to_string()))?;
        // SAFETY: every plugin has this function, of this type.
        let get = unsafe { library.get::<unsafe extern "C" fn() -> *const Api>(b"GetPjrtApi\0") };
        let get = get.map_err(|e| failed(format!("it is not a PJRT plugin: {e}")))?;
        // SAFETY: it takes nothing, and returns a table that lives as long as the library.
        let table = unsafe { get() };
        if table.is_null() {
            return Err(failed("it has no table of calls".into()));
        }
        let mut api = MaybeUninit::<Api>::zeroed();
        // SAFETY: the table starts with its size, up to which it can be read; missing calls stay null, which is `None`.
        let api = unsafe {
            let size = table.cast::<usize>().read().min(size_of::<Api>());
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), api.as_mut_ptr().cast::<u8>(), size);
            api.assume_init()
        };
        std::mem::forget(library);
        let (major, minor) = (api.version.major, api.version.minor);
        if major != abi::MAJOR || minor < OLDEST {
            let path = path.display().to_string();
            return Err(PjrtError::Version { path, major, minor, oldest: OLDEST });
        }
        #[cfg(unix)]
        abort::explain();
        let plugin = Arc::new(Plugin { path, api });
        call!(plugin, plugin_initialize, blank())?;
        open.push(plugin.clone());
        Ok(plugin)
    }

    /// The file of the library.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of the API that it has.
    pub fn version(&self) -> (i32, i32) {
        (self.api.version.major, self.api.version.minor)
    }

    pub(crate) fn call<A: Args>(&self, slot: Slot<A>, name: &'static str, args: A) -> Result<A, PjrtError> {
        let slot = slot.ok_or(PjrtError::Missing(name))?;
        #[cfg(unix)]
        abort::entering(name);
        let mut padded = Padded { args, rest: [0; 16] };
        let start = &raw mut padded;
        // SAFETY: every struct of arguments starts with its size, and is as long as it says; callers of this function
        // fill in handles of this plugin and arrays of the stated lengths.
        let error = unsafe {
            start.cast::<usize>().write(size_of::<Padded<A>>());
            slot(start.cast::<A>())
        };
        if error.is_null() { Ok(padded.args) } else { Err(self.take_error(name, error)) }
    }

    /// What an error says; it is freed.
    pub(crate) fn take_error(&self, call: &'static str, error: *mut abi::Error) -> PjrtError {
        let mut message = ErrorMessage { error, ..blank() };
        let mut code = ErrorGetCode { error, ..blank() };
        let mut destroy = ErrorDestroy { error, ..blank() };
        message.struct_size = size_of::<ErrorMessage>();
        code.struct_size = size_of::<ErrorGetCode>();
        destroy.struct_size = size_of::<ErrorDestroy>();
        // SAFETY: the error is the plugin's, and not used after it is destroyed. These three calls do not fail.
        unsafe {
            if let Some(slot) = self.api.error_message {
                slot(&mut message);
            }
            if let Some(slot) = self.api.error_get_code {
                slot(&mut code);
            }
            let message = text(message.message, message.message_size);
            if let Some(slot) = self.api.error_destroy {
                slot(&mut destroy);
            }
            PjrtError::Failed { call, code: Code::from_number(code.code), message }
        }
    }
}

/// The text of `size` bytes that the plugin gave.
pub(crate) fn text(start: *const c_char, size: usize) -> String {
    String::from_utf8_lossy(slice(start.cast::<u8>(), size)).into_owned()
}

/// `count` elements that the plugin gave; none if the address is null.
pub(crate) fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: plugins give arrays as long as the count beside them, which live as long as what they belong to; callers
    // copy from them at once.
    unsafe { std::slice::from_raw_parts(start, count) }
}

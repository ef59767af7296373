//! CUDA's driver, as far as kernels need it: modules from PTX, and launches on a stream.
//!
//! The library is the one that XLA's plugin has loaded; nothing is linked. A module belongs to a context, which the stream of
//! a call names; it is loaded by the first call there and stays.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::Library;

use super::FUNCTIONS;
use super::call::Launch;
use super::plan::THREADS;

type Status = c_int;

/// The calls of the driver.
pub(super) struct Driver {
    stream_context: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> Status,
    push: unsafe extern "C" fn(*mut c_void) -> Status,
    pop: unsafe extern "C" fn(*mut *mut c_void) -> Status,
    load: unsafe extern "C" fn(*mut *mut c_void, *const c_char, c_uint, *mut c_int, *mut *mut c_void) -> Status,
    function: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> Status,
    #[allow(clippy::type_complexity)]
    launch: unsafe extern "C" fn(
        *mut c_void,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        c_uint,
        *mut c_void,
        *mut *mut c_void,
        *mut *mut c_void,
    ) -> Status,
    name: unsafe extern "C" fn(Status, *mut *const c_char) -> Status,
    /// The functions of modules, by context and key of the text; null where a module has no such function.
    modules: Mutex<HashMap<(usize, i64), [usize; 2]>>,
}

impl Driver {
    /// The driver of this machine; an error says why there is none.
    pub fn get() -> Result<&'static Driver, String> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        DRIVER.get_or_init(Driver::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Driver, String> {
        let failed = |e: libloading::Error| format!("CUDA's driver: {e}");
        // SAFETY: the driver's initializers may run in any process.
        let library = unsafe { Library::new("libcuda.so.1") }.map_err(failed)?;
        macro_rules! get {
            ($name:literal) => {
                // SAFETY: the driver has this function with the type of the field.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(failed)?
            };
        }
        let driver = Driver {
            stream_context: get!("cuStreamGetCtx"),
            push: get!("cuCtxPushCurrent_v2"),
            pop: get!("cuCtxPopCurrent_v2"),
            load: get!("cuModuleLoadDataEx"),
            function: get!("cuModuleGetFunction"),
            launch: get!("cuLaunchKernel"),
            name: get!("cuGetErrorName"),
            modules: Mutex::default(),
        };
        std::mem::forget(library);
        Ok(driver)
    }

    fn check(&self, what: &str, status: Status) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: it writes the address of a text that stays, or leaves null.
        unsafe { (self.name)(status, &raw mut name) };
        let name = if name.is_null() {
            String::new()
        } else {
            // SAFETY: as above.
            unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned()
        };
        Err(format!("{what} gives {status} {name}"))
    }

    /// Does `work` in the context of `stream`.
    pub fn on_stream(
        &self,
        stream: *mut c_void,
        work: impl FnOnce(&OnStream<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut context = null_mut();
        // SAFETY: XLA gave the stream; contexts that are pushed are popped.
        unsafe {
            self.check("cuStreamGetCtx", (self.stream_context)(stream, &raw mut context))?;
            self.check("cuCtxPushCurrent", (self.push)(context))?;
            let done = work(&OnStream { driver: self, context: context as usize, stream });
            self.check("cuCtxPopCurrent", (self.pop)(&raw mut context))?;
            done
        }
    }
}

/// A stream, in its context.
pub(super) struct OnStream<'a> {
    driver: &'a Driver,
    context: usize,
    stream: *mut c_void,
}

impl OnStream<'_> {
    /// Starts a function of a kernel.
    pub fn start(&self, launch: &Launch<'_>) -> Result<(), String> {
        let function = self.function(launch)?;
        let mut params = launch.params.clone();
        let mut addresses: Vec<*mut c_void> = params.iter_mut().map(|p| (&raw mut *p).cast()).collect();
        let blocks = c_uint::try_from(launch.blocks).map_err(|_| format!("{} blocks", launch.blocks))?;
        // SAFETY: the function has as many parameters of this size, and reads and writes the buffers that they point to.
        let status = unsafe {
            (self.driver.launch)(
                function,
                blocks,
                1,
                1,
                THREADS as c_uint,
                1,
                1,
                0,
                self.stream,
                addresses.as_mut_ptr(),
                null_mut(),
            )
        };
        self.driver.check("cuLaunchKernel", status)
    }

    fn function(&self, launch: &Launch<'_>) -> Result<*mut c_void, String> {
        let driver = self.driver;
        let mut modules = driver.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (self.context, launch.key);
        let functions = match modules.get(&key) {
            Some(functions) => *functions,
            None => *modules.entry(key).or_insert(self.load(launch.ptx)?),
        };
        let found = functions[launch.function] as *mut c_void;
        if found.is_null() {
            Err(format!("the kernel has no function {}", FUNCTIONS[launch.function]))
        } else {
            Ok(found)
        }
    }

    fn load(&self, ptx: &str) -> Result<[usize; 2], String> {
        let driver = self.driver;
        let text = CString::new(ptx).map_err(|e| e.to_string())?;
        let mut module = null_mut();
        // SAFETY: the text ends with a zero, and there are no options.
        let status = unsafe { (driver.load)(&raw mut module, text.as_ptr(), 0, null_mut(), null_mut()) };
        driver.check("cuModuleLoadDataEx", status)?;
        let mut functions = [0; 2];
        for (found, name) in functions.iter_mut().zip(FUNCTIONS) {
            let name = CString::new(name).map_err(|e| e.to_string())?;
            let mut function = null_mut();
            // SAFETY: the module is loaded; a function that it does not have leaves null.
            if unsafe { (driver.function)(&raw mut function, module, name.as_ptr()) } == 0 {
                *found = function as usize;
            }
        }
        Ok(functions)
    }
}

//! Python functions that programs call: the package hands over one pointer, and is called with the function's number.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, RwLock};

use meshwork_eval::{CALLBACK_TARGET, set_callback};
use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, Literal, Module, OpId, Walk};

use crate::queue::inside;

/// An array of a call: an operand to read, or a result to write.
#[repr(C)]
pub struct CallbackValue {
    /// Its elements in row-major order.
    pub data: *mut c_void,
    /// Its extents.
    pub dims: *const i64,
    /// How many.
    pub rank: usize,
    /// Its element type in MLIR's spelling, with a final zero.
    pub element: *const c_char,
}

/// Calls function `number`. Not 0 if it failed; then the message has been written, with a final zero.
pub type PythonCallback = unsafe extern "C" fn(
    number: i64,
    operands: *const CallbackValue,
    operand_count: usize,
    results: *const CallbackValue,
    result_count: usize,
    message: *mut c_char,
    message_size: usize,
) -> i32;

static PYTHON: RwLock<Option<PythonCallback>> = RwLock::new(None);

/// Room for the message of a failed call: a traceback.
const MESSAGE_BYTES: usize = 1 << 14;

/// Says who calls Python's functions.
#[unsafe(no_mangle)]
pub extern "C" fn meshwork_set_callback(callback: PythonCallback) {
    *PYTHON.write().unwrap_or_else(|e| e.into_inner()) = Some(callback);
    set_callback(call);
}

/// How many programs that are not yet dropped call each function.
static USERS: Mutex<BTreeMap<i64, usize>> = Mutex::new(BTreeMap::new());

/// How many programs may still call function `number`. A run keeps its program.
#[unsafe(no_mangle)]
pub extern "C" fn meshwork_callback_users(number: i64) -> usize {
    USERS.lock().unwrap_or_else(|e| e.into_inner()).get(&number).copied().unwrap_or(0)
}

/// The functions that a program calls, counted among their users while it lives.
#[derive(Default)]
pub(crate) struct Functions(Vec<i64>);

impl Functions {
    pub fn of(module: &Module) -> Functions {
        let number = |op: OpId| {
            let op = module.op(op);
            let text = |name| op.attr(name).and_then(Attr::as_str);
            let is_callback = op.kind() == ControlOp::CustomCall && text("call_target_name") == Some(CALLBACK_TARGET);
            let config = is_callback.then(|| text("backend_config")).flatten()?;
            config.split(',').next()?.parse().ok()
        };
        let numbers: Vec<i64> = module.all_ops(Walk::PreOrder).into_iter().filter_map(number).collect();
        let mut users = USERS.lock().unwrap_or_else(|e| e.into_inner());
        numbers.iter().for_each(|&n| *users.entry(n).or_default() += 1);
        Functions(numbers)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        let mut users = USERS.lock().unwrap_or_else(|e| e.into_inner());
        for number in &self.0 {
            if let Some(count) = users.get_mut(number) {
                *count -= 1;
                if *count == 0 {
                    users.remove(number);
                }
            }
        }
    }
}

fn call(number: i64, operands: &[&Literal], results: &mut [Literal]) -> Result<(), String> {
    let python = *PYTHON.read().unwrap_or_else(|e| e.into_inner());
    let python = python.ok_or("nobody calls Python's functions")?;
    let name = |x: &Literal| CString::new(x.elem().text()).unwrap_or_default();
    let names: Vec<CString> = operands.iter().map(|x| name(x)).chain(results.iter().map(name)).collect();
    let dims: Vec<Vec<i64>> =
        operands.iter().map(|x| x.dims().to_vec()).chain(results.iter().map(|x| x.dims().to_vec())).collect();
    let starts = operands.iter().map(|x| x.bytes().as_ptr().cast_mut().cast());
    let starts: Vec<*mut c_void> =
        starts.chain(results.iter_mut().map(|x| x.bytes_mut().as_mut_ptr().cast())).collect();
    let value = |i: usize| CallbackValue {
        data: starts[i],
        dims: dims[i].as_ptr(),
        rank: dims[i].len(),
        element: names[i].as_ptr(),
    };
    let values: Vec<CallbackValue> = (0..starts.len()).map(value).collect();
    let (given, made) = values.split_at(operands.len());
    let mut message = vec![0u8; MESSAGE_BYTES];
    // What the function asks of JAX runs on this thread: the queue waits for it.
    // SAFETY: the package vouches for its function, which keeps to the sizes it is given.
    let status = inside(|| unsafe {
        let (text, size) = (message.as_mut_ptr().cast(), message.len());
        python(number, given.as_ptr(), given.len(), made.as_ptr(), made.len(), text, size)
    });
    if status == 0 {
        return Ok(());
    }
    let end = message.iter().position(|&b| b == 0).unwrap_or(message.len());
    Err(String::from_utf8_lossy(&message[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_counted_while_a_program_lives() {
        let text = "func.func @main(%a: tensor<f32>) -> tensor<f32> {
          %0 = stablehlo.custom_call @meshwork_python_callback(%a) {backend_config = \"-41,8\"} : (tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }";
        let module = meshwork_ir::text::parse(text).unwrap();
        let (one, two) = (Functions::of(&module), Functions::of(&module));
        assert_eq!(meshwork_callback_users(-41), 2);
        drop(one);
        assert_eq!((meshwork_callback_users(-41), two.is_empty()), (1, false));
        drop(two);
        assert_eq!(meshwork_callback_users(-41), 0);
    }
}

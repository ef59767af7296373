//! Custom calls that the surrounding process answers: Python functions that a JAX program calls.
//!
//! `custom_call @meshwork_python_callback` has as its `backend_config` the number of a function, and after a comma the
//! number of devices if the devices are to call it only once together: one does, and all get its results.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use meshwork_ir::{Attr, Literal, Op, OpId, Type};

use super::attrs;
use super::fault::Fault;
use super::machine::Machine;
use super::value::Val;

/// The target that [`set_callback`] answers.
pub const CALLBACK_TARGET: &str = "meshwork_python_callback";

/// Calls the function with this number on operands, and writes its results, which are zeros of the right shape.
pub type Callback = fn(number: i64, operands: &[&Literal], results: &mut [Literal]) -> Result<(), String>;

static CALLBACK: RwLock<Option<Callback>> = RwLock::new(None);

/// Says who answers callbacks in this process.
pub fn set_callback(callback: Callback) {
    *CALLBACK.write().unwrap_or_else(PoisonError::into_inner) = Some(callback);
}

/// Forgets calls that not all devices have made: after a run that failed.
pub fn forget_calls() {
    lock().clear();
}

type Outcome = Result<Vec<Literal>, String>;

/// Calls of one function that devices make together.
#[derive(Default)]
struct Calls {
    /// How many calls each device has made.
    made: HashMap<usize, usize>,
    /// The calls that not all devices have made, oldest first, and how many were dropped before them.
    open: VecDeque<Call>,
    dropped: usize,
}

struct Call {
    outcome: Arc<Mutex<Option<Outcome>>>,
    missing: usize,
}

static TOGETHER: Mutex<Option<HashMap<i64, Calls>>> = Mutex::new(None);
static ANSWERED: Condvar = Condvar::new();

struct Together(MutexGuard<'static, Option<HashMap<i64, Calls>>>);

impl Together {
    fn clear(&mut self) {
        *self.0 = None;
    }

    fn calls(&mut self, number: i64) -> &mut Calls {
        self.0.get_or_insert_with(HashMap::new).entry(number).or_default()
    }
}

fn lock() -> Together {
    Together(TOGETHER.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn is_callback(op: &Op) -> bool {
    op.attr("call_target_name").and_then(Attr::as_str) == Some(CALLBACK_TARGET)
}

/// Runs the callback `id`.
pub(crate) fn execute(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let op = m.module.op(id);
    let config = op.attr("backend_config").and_then(Attr::as_str).unwrap_or_default();
    let (number, devices) = config.split_once(',').unwrap_or((config, "1"));
    let (Ok(number), Ok(devices)) = (number.parse::<i64>(), devices.parse::<usize>()) else {
        return Err(attrs::missing("backend_config", "the number of a function"));
    };
    let types: Vec<Type> = op.results().iter().map(|&v| m.module.ty(v).clone()).collect();
    let operands: Vec<&Literal> = args.iter().filter_map(|a| a.tensor().ok()).collect();
    let tensors = types.iter().filter_map(Type::as_tensor);
    let zeros = || tensors.clone().map(|t| Literal::zeros(t.dims.iter().copied(), t.elem)).collect::<Vec<_>>();
    let call = || -> Outcome {
        let callback = *CALLBACK.read().unwrap_or_else(PoisonError::into_inner);
        let callback = callback.ok_or_else(|| format!("nobody answers @{CALLBACK_TARGET} in this process"))?;
        let mut results = zeros();
        callback(number, &operands, &mut results)?;
        Ok(results)
    };
    let outcome = if devices > 1 { together(number, devices, m.site.device, call) } else { call() };
    let mut results = outcome.map_err(Fault::invalid)?.into_iter();
    let value = |ty: &Type| match ty.as_tensor() {
        Some(_) => results.next().map_or(Val::Token, |x| m.hold(x)),
        None => Val::Token,
    };
    Ok(types.iter().map(value).collect())
}

/// The outcome of the next call of `device`, made by the first of `devices` that comes to it.
fn together(number: i64, devices: usize, device: usize, call: impl FnOnce() -> Outcome) -> Outcome {
    let mut all = lock();
    let calls = all.calls(number);
    let turn = calls.made.entry(device).or_default();
    let at = turn.saturating_sub(calls.dropped);
    *turn += 1;
    let is_first = at >= calls.open.len();
    if is_first {
        calls.open.push_back(Call { outcome: Arc::default(), missing: devices });
    }
    let slot = calls.open[at].outcome.clone();
    calls.open[at].missing -= 1;
    while calls.open.front().is_some_and(|call| call.missing == 0) {
        calls.open.pop_front();
        calls.dropped += 1;
    }
    let filled = || slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if is_first {
        drop(all);
        let outcome = call();
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome.clone());
        // Those who wait look under the lock.
        drop(lock());
        ANSWERED.notify_all();
        return outcome;
    }
    loop {
        if let Some(outcome) = filled() {
            return outcome;
        }
        all.0 = ANSWERED.wait(all.0).unwrap_or_else(PoisonError::into_inner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn devices_call_once_together_and_in_order() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let call = || {
            Ok(vec![
                Literal::from_f64s([1], meshwork_ir::ElementType::F64, &[MADE.fetch_add(1, Ordering::Relaxed) as f64])
                    .unwrap(),
            ])
        };
        let answer = |device| together(-7, 3, device, call).unwrap()[0].to_f64s()[0];
        // Device 0 is ahead by one call.
        assert_eq!([answer(0), answer(0), answer(1), answer(2), answer(2), answer(1)], [0.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(MADE.load(Ordering::Relaxed), 2);
        assert!(lock().calls(-7).open.is_empty());
    }
}

//! Events: something that will be done, or has failed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use meshwork_pjrt_abi::{
    Code, Event, EventAwait, EventCreate, EventDestroy, EventError, EventIsReady, EventOnReady, EventSet,
};

use crate::border::{Handle, borrow, destroy, text};
use crate::failure::{Failure, Outcome, error_handle};

/// Done once, with success or failure; others wait for it or leave a callback.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    callbacks: Vec<Callback>,
}

type Callback = Box<dyn FnOnce(&Outcome) + Send>;

impl Signal {
    /// One that is done already.
    pub fn done() -> Arc<Signal> {
        static DONE: OnceLock<Arc<Signal>> = OnceLock::new();
        DONE.get_or_init(|| Signal::with(Ok(()))).clone()
    }

    /// One that is over with this outcome.
    pub fn with(outcome: Outcome) -> Arc<Signal> {
        let state = State { outcome: Some(outcome), callbacks: vec![] };
        Arc::new(Signal { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Ends it; a second end counts for nothing.
    pub fn set(&self, outcome: Outcome) {
        self.set_with(|| outcome);
    }

    /// Ends it with what `outcome` gives, if it is not over.
    pub fn set_with(&self, outcome: impl FnOnce() -> Outcome) {
        let mut state = self.lock();
        if state.outcome.is_some() {
            return;
        }
        let outcome = outcome();
        state.outcome = Some(outcome.clone());
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.changed.notify_all();
        callbacks.into_iter().for_each(|callback| callback(&outcome));
    }

    /// The outcome, if it is over.
    pub fn outcome(&self) -> Option<Outcome> {
        self.lock().outcome.clone()
    }

    /// Waits until it is over.
    pub fn wait(&self) -> Outcome {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Calls `callback` when it is over: now, if it is.
    pub fn then(&self, callback: impl FnOnce(&Outcome) + Send + 'static) {
        let mut state = self.lock();
        match state.outcome.clone() {
            None => state.callbacks.push(Box::new(callback)),
            Some(outcome) => {
                drop(state);
                callback(&outcome);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle for Arc<Signal> {
    type C = Event;
}

pub(crate) fn event_create(args: &mut EventCreate) -> Outcome {
    args.event = Arc::new(Signal::default()).give();
    Ok(())
}

pub(crate) fn event_set(args: &mut EventSet) -> Outcome {
    let event = borrow::<Arc<Signal>>(args.event)?;
    let message = || text(args.error_message, args.error_message_size).into_owned();
    event.set(match args.error_code {
        0 => Ok(()),
        code => Err(Failure::new(Code::from_number(code), message())),
    });
    Ok(())
}

pub(crate) fn event_destroy(args: &mut EventDestroy) -> Outcome {
    destroy::<Arc<Signal>>(args.event);
    Ok(())
}

pub(crate) fn event_is_ready(args: &mut EventIsReady) -> Outcome {
    args.is_ready = borrow::<Arc<Signal>>(args.event)?.outcome().is_some().into();
    Ok(())
}

pub(crate) fn event_error(args: &mut EventError) -> Outcome {
    borrow::<Arc<Signal>>(args.event)?.outcome().unwrap_or(Ok(()))
}

pub(crate) fn event_await(args: &mut EventAwait) -> Outcome {
    borrow::<Arc<Signal>>(args.event)?.wait()
}

pub(crate) fn event_on_ready(args: &mut EventOnReady) -> Outcome {
    let Some(callback) = args.callback else { return Err(Failure::invalid("an event's callback is null")) };
    let user = args.user_arg as usize;
    // SAFETY: the caller gave both for this purpose, and the error is a new handle.
    borrow::<Arc<Signal>>(args.event)?
        .then(move |outcome| unsafe { callback(error_handle(outcome.clone()), user as *mut std::ffi::c_void) });
    Ok(())
}

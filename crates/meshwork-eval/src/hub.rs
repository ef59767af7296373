//! Where devices meet. Every device runs on its own thread; a collective is a meeting of its group.
//!
//! Invariants:
//! - a device is running, waiting (in [`Hub::meet`] or [`Hub::receive`]) or finished;
//! - the last device to arrive at a meeting computes the results of all, the others pick theirs up;
//! - when no device is running and some wait, none can ever go on: all waiting ones get an error that says where
//!   each stands. A device that fails counts as finished, so the others fail too instead of hanging.
//!
//! Results do not depend on the order of arrival: contributions are handed over in group order.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::error::EvalError;
use super::fault::Fault;
use super::value::Val;
use meshwork_ir::{Literal, OpKind};

/// Which meeting: collectives of one kind, channel and group take place one after the other.
pub(crate) type MeetingKey = (OpKind, i64, Vec<usize>);

/// Which queue of messages: kind, channel, sender and receiver (`None` is the host).
pub(crate) type QueueKey = (OpKind, i64, Option<usize>, Option<usize>);

/// The devices of a run.
pub(crate) struct Hub {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    meetings: HashMap<MeetingKey, Meeting>,
    queues: HashMap<QueueKey, VecDeque<Vec<Literal>>>,
    running: usize,
    /// What each waiting device waits for.
    waiting: BTreeMap<usize, Wait>,
    /// Set when no device can go on.
    stuck: Option<String>,
}

struct Wait {
    what: String,
    on: Awaited,
}

#[derive(Clone, PartialEq)]
enum Awaited {
    Meeting(MeetingKey),
    Message(QueueKey),
}

#[derive(Default)]
struct Meeting {
    arrived: BTreeMap<usize, Vec<Val>>,
    /// Results by device, once all have arrived; devices of the next round wait until these are picked up.
    results: HashMap<usize, Result<Vec<Literal>, EvalError>>,
}

/// How the message of a deadlock begins.
pub(crate) const STUCK: &str = "no device can go on";

impl Hub {
    /// A hub for `devices` running devices.
    pub(crate) fn new(devices: usize) -> Hub {
        let state = State {
            meetings: HashMap::new(),
            queues: HashMap::new(),
            running: devices,
            waiting: BTreeMap::new(),
            stuck: None,
        };
        Hub { state: Mutex::new(state), changed: Condvar::new() }
    }

    // The state is consistent between statements, so a panic of another thread leaves it usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Device `me` brings `mine` to the meeting `key` of the devices `key.2`, and gets its results. The last to
    /// arrive computes them from all contributions in group order. `what` describes the operation.
    pub(crate) fn meet(
        &self,
        key: MeetingKey,
        me: usize,
        mine: Vec<Val>,
        what: &str,
        compute: impl FnOnce(Vec<Vec<Val>>) -> Result<Vec<Vec<Literal>>, EvalError>,
    ) -> Result<Vec<Literal>, Fault> {
        let group = key.2.clone();
        let mut state = self.lock();
        let meeting = state.meetings.entry(key.clone()).or_default();
        meeting.arrived.insert(me, mine);
        if meeting.arrived.len() == group.len() {
            let mut arrived = std::mem::take(&mut meeting.arrived);
            drop(state);
            let contributions = group.iter().map(|d| arrived.remove(d).unwrap_or_default()).collect();
            let results = compute(contributions);
            state = self.lock();
            let meeting = state.meetings.entry(key.clone()).or_default();
            match results {
                Ok(all) => meeting.results.extend(group.iter().copied().zip(all.into_iter().map(Ok))),
                Err(error) => meeting.results.extend(group.iter().map(|&d| (d, Err(error.clone())))),
            }
            let mine = meeting.results.remove(&me);
            // They count as running from now on, so that this moment is not taken for a deadlock.
            let on = Awaited::Meeting(key);
            state.wake(|wait| wait.on == on);
            self.changed.notify_all();
            return Ok(mine.unwrap_or_else(|| Ok(vec![]))?);
        }
        let results = self.wait(state, me, what, Awaited::Meeting(key.clone()), |state| {
            state.meetings.get_mut(&key)?.results.remove(&me)
        })?;
        Ok(results?)
    }

    /// Puts a message in the queue `key`.
    pub(crate) fn send(&self, key: QueueKey, message: Vec<Literal>) {
        let mut state = self.lock();
        state.queues.entry(key).or_default().push_back(message);
        let on = Awaited::Message(key);
        state.wake(|wait| wait.on == on);
        self.changed.notify_all();
    }

    /// Takes the oldest message of the queue `key`, waiting for one.
    pub(crate) fn receive(&self, key: QueueKey, me: usize, what: &str) -> Result<Vec<Literal>, Fault> {
        let mut state = self.lock();
        let take = |state: &mut State| state.queues.get_mut(&key)?.pop_front();
        if let Some(message) = take(&mut state) {
            return Ok(message);
        }
        self.wait(state, me, what, Awaited::Message(key), take)
    }

    /// Device `me` has ended, well or badly.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.running -= 1;
        state.find_deadlock();
        self.changed.notify_all();
    }

    fn wait<T>(
        &self,
        mut state: MutexGuard<'_, State>,
        me: usize,
        what: &str,
        on: Awaited,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Fault> {
        state.block(me, what, &on);
        loop {
            if let Some(value) = ready(&mut state) {
                return Ok(value);
            }
            if let Some(why) = state.stuck.clone() {
                state.waiting.remove(&me);
                state.running += 1;
                self.changed.notify_all();
                return Err(Fault::Invalid(why));
            }
            // Woken for a message that another receiver took: wait again.
            if !state.waiting.contains_key(&me) {
                state.block(me, what, &on);
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// Device `me` stops running until `on` is there.
    fn block(&mut self, me: usize, what: &str, on: &Awaited) {
        self.waiting.insert(me, Wait { what: what.to_string(), on: on.clone() });
        self.running -= 1;
        self.find_deadlock();
    }

    /// Marks the waiting devices for which `which` holds as running again.
    fn wake(&mut self, which: impl Fn(&Wait) -> bool) {
        let before = self.waiting.len();
        self.waiting.retain(|_, wait| !which(wait));
        self.running += before - self.waiting.len();
    }

    fn find_deadlock(&mut self) {
        if self.running > 0 || self.waiting.is_empty() || self.stuck.is_some() {
            return;
        }
        let places: Vec<String> = self
            .waiting
            .iter()
            .map(|(device, wait)| {
                let missing = match &wait.on {
                    Awaited::Meeting(key) => {
                        let arrived = self.meetings.get(key).map(|m| &m.arrived);
                        let absent = key.2.iter().filter(|d| arrived.is_none_or(|a| !a.contains_key(d)));
                        let absent: Vec<String> = absent.map(usize::to_string).collect();
                        format!("devices {}", absent.join(", "))
                    }
                    Awaited::Message((_, channel, Some(from), _)) => {
                        format!("a message of device {from} on channel {channel}")
                    }
                    Awaited::Message((_, channel, None, _)) => format!("a message on channel {channel}"),
                };
                format!("device {device} waits in {} for {missing}", wait.what)
            })
            .collect();
        self.stuck = Some(format!("{STUCK}: {}", places.join("; ")));
    }
}

//! Where devices meet. Every device runs on its own thread; a collective is a meeting of its group.
//!
//! The last device to arrive at a meeting computes the results of all, from the contributions in group order; so results
//! do not depend on the order of arrival. When every device that has not finished waits for something that is not
//! there, none can ever continue: all of them get an error that says where each one is. A device that fails counts as
//! finished, so the others fail too instead of hanging.

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
    /// Devices that have not finished.
    unfinished: usize,
    /// What each waiting device waits for: the operation in words, and what it needs.
    waiting: BTreeMap<usize, (String, Awaited)>,
    /// Set when no device can continue.
    stuck: Option<String>,
}

#[derive(Clone)]
enum Awaited {
    Meeting(MeetingKey),
    Message(QueueKey),
}

#[derive(Default)]
struct Meeting {
    arrived: BTreeMap<usize, Vec<Val>>,
    /// Results by device, until they are picked up.
    results: HashMap<usize, Result<Vec<Literal>, EvalError>>,
}

/// How the message of a deadlock begins.
pub(crate) const STUCK: &str = "no device can continue";

impl Hub {
    /// A hub for `devices` devices.
    pub(crate) fn new(devices: usize) -> Hub {
        let state = State {
            meetings: HashMap::new(),
            queues: HashMap::new(),
            unfinished: devices,
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
            let results = compute(group.iter().map(|d| arrived.remove(d).unwrap_or_default()).collect());
            state = self.lock();
            let meeting = state.meetings.entry(key.clone()).or_default();
            match results {
                Ok(all) => meeting.results.extend(group.iter().copied().zip(all.into_iter().map(Ok))),
                Err(error) => meeting.results.extend(group.iter().map(|&d| (d, Err(error.clone())))),
            }
            self.changed.notify_all();
        }
        let pick_up = |state: &mut State| state.meetings.get_mut(&key)?.results.remove(&me);
        Ok(self.wait(state, me, what, Awaited::Meeting(key.clone()), pick_up)??)
    }

    /// Puts a message in the queue `key`.
    pub(crate) fn send(&self, key: QueueKey, message: Vec<Literal>) {
        self.lock().queues.entry(key).or_default().push_back(message);
        self.changed.notify_all();
    }

    /// Takes the oldest message of the queue `key`, waiting for one.
    pub(crate) fn receive(&self, key: QueueKey, me: usize, what: &str) -> Result<Vec<Literal>, Fault> {
        let take = |state: &mut State| state.queues.get_mut(&key)?.pop_front();
        self.wait(self.lock(), me, what, Awaited::Message(key), take)
    }

    /// A device has ended, with results or an error.
    pub(crate) fn finish(&self) {
        self.lock().unfinished -= 1;
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
        state.waiting.insert(me, (what.to_string(), on));
        let outcome = loop {
            if let Some(value) = ready(&mut state) {
                break Ok(value);
            }
            if state.stuck.is_none() && state.is_stuck() {
                state.stuck = Some(state.report());
                self.changed.notify_all();
            }
            if let Some(why) = &state.stuck {
                break Err(Fault::Invalid(why.clone()));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.waiting.remove(&me);
        outcome
    }
}

impl State {
    /// Whether every unfinished device waits for something that is not there.
    fn is_stuck(&self) -> bool {
        let there = |(device, (_, on)): (&usize, &(String, Awaited))| match on {
            Awaited::Meeting(key) => self.meetings.get(key).is_some_and(|m| m.results.contains_key(device)),
            Awaited::Message(key) => self.queues.get(key).is_some_and(|q| !q.is_empty()),
        };
        self.waiting.len() == self.unfinished && !self.waiting.iter().any(there)
    }

    fn report(&self) -> String {
        let mut places = vec![];
        for (device, (what, on)) in &self.waiting {
            let missing = match on {
                Awaited::Meeting(key) => {
                    let arrived = self.meetings.get(key).map(|m| &m.arrived);
                    let absent = key.2.iter().filter(|d| arrived.is_none_or(|a| !a.contains_key(d)));
                    format!("devices {}", absent.map(usize::to_string).collect::<Vec<_>>().join(", "))
                }
                Awaited::Message((_, channel, Some(from), _)) => {
                    format!("a message of device {from} on channel {channel}")
                }
                Awaited::Message((_, channel, None, _)) => format!("a message on channel {channel}"),
            };
            places.push(format!("device {device} waits in {what} for {missing}"));
        }
        format!("{STUCK}: {}", places.join("; "))
    }
}

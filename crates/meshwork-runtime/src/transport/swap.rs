//! One exchange of messages: what this process sends to others and expects from them, all in flight at once.
//!
//! Each peer gets a *cover*, which carries the header and all short pieces, then each long piece as a separate message,
//! without a copy. Both sides post them in the same order.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use super::calls::is_one_run;
use super::control::ControlMessage;
use super::exit;
use super::link::{Address, Completed, Flight, Lane};
use super::stamp::{STAMP, Stamp};
use super::world::{Inner, ProcessError, World};

/// Pieces up to this many bytes are sent in the cover.
pub const INLINE: usize = 8 << 10;
/// Longest single message.
const CHUNK: usize = 1 << 30;
/// Covers up to this many bytes can be received even if they are unexpected, so that the error can name them.
const ROOM: usize = STAMP + INLINE;
/// How often a process with its own core polls before it yields: some milliseconds.
const SPINS: u32 = 20_000;
/// How often it then yields, which costs little if others want to work, before it sleeps: milliseconds too.
const YIELDS: u32 = 5_000;
/// How often it then sleeps for a very short time, before it sleeps longer.
const NAPS: u32 = 10_000;
/// How long an asked process may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// How often the processes it waits for are checked.
const ROUND: Duration = Duration::from_millis(200);
/// How long messages sent before the end of a program may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Messages of one operation, and the right to move them.
pub struct Swap<'w> {
    world: &'w World,
    inner: MutexGuard<'w, Inner>,
    mail: Mail,
}

/// Messages of one operation. Only a [`Swap`] advances or cancels those in flight: see [`Swap::resume`].
pub struct Mail {
    stamp: Stamp,
    lane: Lane,
    flight: Flight,
    covers: Vec<Cover>,
    completed: Vec<Completed>,
    /// In the record.
    number: u64,
    /// The number of polls since a message last completed.
    quiet: u32,
    watch: Option<Watch>,
}

impl Mail {
    fn new(stamp: Stamp, lane: Lane, number: u64) -> Mail {
        let flight = Flight::default();
        Mail { stamp, lane, flight, covers: vec![], completed: vec![], number, quiet: 0, watch: None }
    }
}

struct Cover {
    peer: usize,
    bytes: Vec<u8>,
    /// Bytes that must be announced; `None` if only the sender knows.
    total: Option<u64>,
    incoming: bool,
}

/// Identifies long messages in flight; covers have their index.
const LONG: u32 = u32::MAX;

impl<'w> Swap<'w> {
    /// Begins an operation.
    pub fn begin(world: &'w World, stamp: Stamp, lane: Lane) -> Result<Swap<'w>, ProcessError> {
        let mut inner = world.lock();
        if let Some(text) = &inner.news.broken {
            return Err(ProcessError::Broken(text.clone()));
        }
        let number = inner.record.begin(stamp);
        Ok(Swap { world, inner, mail: Mail::new(stamp, lane, number) })
    }

    /// Resumes an operation that was [left](Swap::leave).
    pub fn resume(world: &'w World, mail: Mail) -> Swap<'w> {
        Swap { world, inner: world.lock(), mail }
    }

    /// As [`resume`](Swap::resume) with what is in `mail`, unless something else moves messages now.
    pub fn try_resume(world: &'w World, mail: &mut Option<Mail>) -> Option<Swap<'w>> {
        let inner = world.inner.try_lock().ok()?;
        Some(Swap { world, inner, mail: mail.take()? })
    }

    /// Leaves the messages in flight, and lets others start operations.
    pub fn leave(mut self) -> Mail {
        let Mail { stamp, lane, number, .. } = self.mail;
        std::mem::replace(&mut self.mail, Mail::new(stamp, lane, number))
    }

    fn address(&self, peer: usize) -> Address {
        Address { peer, lane: self.mail.lane }
    }

    /// Expects the cover of `peer` with `inline` bytes of short pieces; `total` is what it must announce.
    pub fn expect(&mut self, peer: usize, inline: usize, total: Option<u64>) -> Result<(), ProcessError> {
        let mut bytes = self.inner.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(ROOM.max(STAMP + inline), 0);
        let (id, to) = (self.mail.covers.len() as u32, self.address(peer));
        // SAFETY: the cover is kept until it has completed.
        let posted = unsafe { self.world.link.receive(&mut self.mail.flight, id, to, bytes.as_mut_ptr(), bytes.len()) };
        self.mail.covers.push(Cover { peer, bytes, total, incoming: true });
        self.posted(posted)
    }

    /// Sends a cover with `inline` bytes that `fill` writes; `total` bytes belong to it.
    pub fn cover(
        &mut self,
        peer: usize,
        inline: usize,
        total: u64,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), ProcessError> {
        let mut bytes = self.inner.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(STAMP + inline, 0);
        Stamp { bytes: total, ..self.mail.stamp }.write(&mut bytes);
        fill(&mut bytes[STAMP..]);
        let (id, to) = (self.mail.covers.len() as u32, self.address(peer));
        // SAFETY: the cover is kept, unchanged, until it has completed.
        let posted = unsafe { self.world.link.send(&mut self.mail.flight, id, to, bytes.as_ptr(), bytes.len()) };
        self.mail.covers.push(Cover { peer, bytes, total: None, incoming: false });
        self.posted(posted)
    }

    /// Whether the covers from now on carry an error in place of data.
    pub fn refuse(&mut self, refusal: bool) {
        self.mail.stamp.refusal = refusal;
    }

    /// Sends a long piece.
    ///
    /// # Safety
    /// The bytes are valid and not written until [`wait`](Swap::wait) has returned.
    pub unsafe fn send(&mut self, peer: usize, from: *const u8, bytes: usize) -> Result<(), ProcessError> {
        let to = self.address(peer);
        for at in (0..bytes).step_by(CHUNK) {
            let length = CHUNK.min(bytes - at);
            // SAFETY: the caller's promise.
            let posted = unsafe { self.world.link.send(&mut self.mail.flight, LONG, to, from.add(at), length) };
            self.posted(posted)?;
        }
        Ok(())
    }

    /// Receives a long piece.
    ///
    /// # Safety
    /// The bytes are valid for writing and nothing else uses them until [`wait`](Swap::wait) has returned.
    pub unsafe fn receive(&mut self, peer: usize, to: *mut u8, bytes: usize) -> Result<(), ProcessError> {
        let from = self.address(peer);
        for at in (0..bytes).step_by(CHUNK) {
            let length = CHUNK.min(bytes - at);
            // SAFETY: the caller's promise.
            let posted = unsafe { self.world.link.receive(&mut self.mail.flight, LONG, from, to.add(at), length) };
            self.posted(posted)?;
        }
        Ok(())
    }

    fn posted(&mut self, posted: Result<(), String>) -> Result<(), ProcessError> {
        posted
            .map_err(|e| self.broke(format!("MPI on rank {}: {e}, in {}", self.world.rank, self.mail.stamp.describe())))
    }

    /// Makes progress; returns whether messages are still in flight.
    pub fn is_open(&mut self) -> Result<bool, ProcessError> {
        while self.mail.flight.is_open() && self.advance()? {}
        Ok(self.mail.flight.is_open())
    }

    /// Waits until all messages have completed.
    pub fn wait(&mut self) -> Result<(), ProcessError> {
        self.wait_while(Flight::is_open, u32::MAX).map(drop)
    }

    /// Waits until all messages have completed, or for `looks` polls without progress; returns whether they have.
    pub fn wait_a_little(&mut self, looks: u32) -> Result<bool, ProcessError> {
        self.wait_while(Flight::is_open, looks)
    }

    /// Waits until everything expected has arrived.
    pub fn wait_incoming(&mut self) -> Result<(), ProcessError> {
        self.wait_while(Flight::has_incoming, u32::MAX).map(drop)
    }

    fn wait_while(&mut self, goes_on: fn(&Flight) -> bool, mut looks: u32) -> Result<bool, ProcessError> {
        let spins = if self.world.is_crowded() { 0 } else { SPINS };
        while goes_on(&self.mail.flight) {
            if self.advance()? {
                (self.mail.quiet, self.mail.watch) = (0, None);
                continue;
            }
            if looks == 0 {
                return Ok(false);
            }
            looks -= 1;
            self.mail.quiet = self.mail.quiet.saturating_add(1);
            let quiet = self.mail.quiet;
            let awake = spins + YIELDS;
            match quiet {
                q if q <= spins => std::hint::spin_loop(),
                // Yielding twice per poll takes twice as long.
                q if q <= awake && self.world.link.yields() => {}
                q if q <= awake => std::thread::yield_now(),
                q if q <= awake + NAPS => std::thread::sleep(Duration::from_micros(20)),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
            if quiet.is_multiple_of(64) || quiet > awake {
                let now = Instant::now();
                let mut watch = *self.mail.watch.get_or_insert(Watch { began: now, looked: now });
                self.look_around(&mut watch, now)?;
                self.mail.watch = Some(watch);
            }
        }
        (self.mail.quiet, self.mail.watch) = (0, None);
        Ok(true)
    }

    /// All has completed; another round of messages of the same operation follows.
    pub fn next(&mut self) {
        let covers = std::mem::take(&mut self.mail.covers);
        self.inner.spare.extend(covers.into_iter().map(|c| c.bytes));
    }

    /// What came inline from `peer`.
    pub fn inline(&self, peer: usize) -> &[u8] {
        let cover = self.mail.covers.iter().find(|c| c.incoming && c.peer == peer);
        cover.map_or(&[], |c| &c.bytes[STAMP..])
    }

    /// The stamp of the cover of `peer`.
    pub fn stamp_of(&self, peer: usize) -> Option<Stamp> {
        Stamp::read(&self.mail.covers.iter().find(|c| c.incoming && c.peer == peer)?.bytes)
    }

    /// Whether something has completed.
    fn advance(&mut self) -> Result<bool, ProcessError> {
        let mut completed = std::mem::take(&mut self.mail.completed);
        let tested = self.world.link.test(&mut self.mail.flight, &mut completed);
        self.posted(tested)?;
        let any = !completed.is_empty();
        let mut wrong = None;
        for Completed { about, error } in completed.drain(..) {
            let problem = match self.mail.covers.get(about.id as usize) {
                Some(cover) if cover.incoming => self.misfit(cover).or(error.map(|e| (e, false))),
                _ => error.map(|e| (e, false)),
            };
            // What a cover says explains what happened to the messages after it.
            if let Some(problem) = problem
                && (wrong.is_none() || about.id != LONG)
            {
                wrong = Some((about.peer, problem));
            }
        }
        self.mail.completed = completed;
        match wrong {
            Some((_, (problem, true))) => Err(ProcessError::Failed(format!(
                "a group of devices is torn apart: rank {} is at {}, {problem}",
                self.world.rank,
                self.mail.stamp.describe()
            ))),
            Some((peer, (problem, false))) => {
                let text = format!(
                    "rank {} and rank {peer} do different things: rank {} is at {}, {problem}",
                    self.world.rank,
                    self.world.rank,
                    self.mail.stamp.describe()
                );
                Err(self.broke(text))
            }
            None => Ok(any),
        }
    }

    /// How a cover differs from the expected one, and whether it is from the same run of the same program: then devices
    /// have diverged.
    fn misfit(&self, cover: &Cover) -> Option<(String, bool)> {
        let Some(stamp) = Stamp::read(&cover.bytes) else {
            return Some((format!("rank {} sent something else", cover.peer), false));
        };
        let bytes = cover.total.filter(|_| !stamp.refusal).unwrap_or(stamp.bytes);
        let expected = Stamp { bytes, refusal: stamp.refusal, ..self.mail.stamp };
        let words = || format!("rank {} at {}", cover.peer, stamp.describe());
        (stamp != expected).then(|| (words(), is_one_run(&stamp, &self.mail.stamp)))
    }

    /// The process that this one waits for.
    fn awaited(&self) -> Option<usize> {
        let first = self.mail.flight.about.iter().filter(|a| a.incoming).map(|a| a.peer).min();
        first.or_else(|| self.mail.flight.about.iter().map(|a| a.peer).min())
    }

    /// Checks the other processes: control messages, their end, the deadline.
    fn look_around(&mut self, watch: &mut Watch, now: Instant) -> Result<(), ProcessError> {
        self.world.read_notes(&mut self.inner);
        self.answer();
        if let Some(text) = &self.inner.news.broken {
            return Err(ProcessError::Broken(text.clone()));
        }
        // A process that is ahead may have failed in a run that has not started here.
        if self.mail.lane != Lane::PointToPoint
            && let Some((run, rank, text)) = &self.inner.news.failed
            && *run == self.mail.stamp.run
        {
            return Err(ProcessError::Failed(format!("rank {rank}: {text}")));
        }
        let Some(awaited) = self.awaited() else { return Ok(()) };
        if exit::terminated() {
            let dead = self.world.others().find(|&r| self.world.is_dead(r));
            let text = match dead {
                Some(dead) => self.death_of(dead),
                None => format!(
                    "rank {} was asked to end while it waited for rank {awaited} in {}",
                    self.world.rank,
                    self.mail.stamp.describe()
                ),
            };
            return Err(self.broke(text));
        }
        if now - watch.looked > ROUND {
            watch.looked = now;
            if let Some(dead) = self.world.others().find(|&r| !self.inner.news.left[r] && self.world.is_dead(r)) {
                let text = self.death_of(dead);
                return Err(self.broke(text));
            }
            if self.inner.news.left[awaited] && now - watch.began > LAST_WORDS {
                let (rank, at) = (self.world.rank, self.mail.stamp.describe());
                let text = format!("rank {awaited} has ended its program; rank {rank} waits for it in {at}");
                return Err(self.broke(text));
            }
        }
        if now - watch.began > self.world.deadline() {
            return Err(self.overdue(awaited, now - watch.began));
        }
        Ok(())
    }

    fn death_of(&self, dead: usize) -> String {
        format!("rank {dead} has died; rank {} was in {}", self.world.rank, self.mail.stamp.describe())
    }

    /// Answers processes that asked what this one waits for.
    fn answer(&mut self) {
        let Some(for_rank) = self.awaited() else { return };
        let text = self.mail.stamp.describe();
        for asker in 0..self.world.size {
            if std::mem::take(&mut self.inner.news.asked[asker]) {
                self.world.link.note(asker, ControlMessage::Waits { for_rank, text: text.clone() }.write());
            }
        }
    }

    /// The deadline has passed: asks along the chain of waiting processes which one blocks the others.
    fn overdue(&mut self, awaited: usize, waited: Duration) -> ProcessError {
        let rank = self.world.rank;
        let mut story = format!("rank {rank} waits for rank {awaited} in {}", self.mail.stamp.describe());
        let (mut seen, mut at) = (vec![rank], awaited);
        let culprit = loop {
            if seen.contains(&at) {
                break format!(
                    "ranks {} wait for each other",
                    list(&seen[seen.iter().position(|&r| r == at).unwrap_or(0)..])
                );
            }
            seen.push(at);
            self.inner.news.waits[at] = None;
            self.world.link.note(at, ControlMessage::Ask.write());
            let asked = Instant::now();
            while self.inner.news.waits[at].is_none() && asked.elapsed() < ANSWER && self.inner.news.broken.is_none() {
                self.world.read_notes(&mut self.inner);
                self.answer();
                std::thread::sleep(Duration::from_millis(1));
            }
            if let Some(text) = &self.inner.news.broken {
                return ProcessError::Broken(text.clone());
            }
            let Some((next, text)) = self.inner.news.waits[at].take() else {
                break if self.world.is_dead(at) {
                    format!("rank {at} has died")
                } else {
                    format!("rank {at} does not answer: it stands still, or computes")
                };
            };
            story.push_str(&format!("; rank {at} waits for rank {next} in {text}"));
            at = next;
        };
        let deadline = self.world.deadline().as_secs_f64();
        let text = format!("{culprit} ({:.1} s, the deadline is {deadline} s): {story}", waited.as_secs_f64());
        self.broke(text)
    }

    fn broke(&mut self, text: String) -> ProcessError {
        self.world.broke(&mut self.inner, text)
    }

    /// The end of an operation that went well.
    pub fn done(mut self) {
        self.inner.record.end(self.mail.number);
    }
}

impl Drop for Swap<'_> {
    fn drop(&mut self) {
        if self.mail.flight.is_open() {
            // Messages may still be written to memory that is not owned here.
            self.world.link.cancel(&mut self.mail.flight);
            let start = Instant::now();
            let mut completed = vec![];
            while self.mail.flight.is_open() && self.world.link.test(&mut self.mail.flight, &mut completed).is_ok() {
                if start.elapsed() > ANSWER {
                    let text = format!("rank {}: a message cannot be cancelled", self.world.rank);
                    exit::end(self.world, &self.world.broke(&mut self.inner, text).to_string());
                }
            }
            // Sends in flight are read until they have arrived.
            self.mail.covers.drain(..).for_each(|cover| std::mem::forget(cover.bytes));
        }
        let covers = std::mem::take(&mut self.mail.covers);
        self.inner.spare.extend(covers.into_iter().map(|c| c.bytes));
    }
}

/// When a process started to wait, and when it last checked the others.
#[derive(Clone, Copy)]
struct Watch {
    began: Instant,
    looked: Instant,
}

fn list(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

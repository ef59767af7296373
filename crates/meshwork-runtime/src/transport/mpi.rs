//! The link over MPI.
//!
//! All calls are made under the lock of [`World`](super::world::World), so that `MPI_THREAD_SERIALIZED` is enough.
//! Data and notes have a communicator each. The tag of data is the epoch: messages of a failed run that are still
//! in flight match no receive. Messages from one process to another are of no run and have a tag of their own.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};

use mpi::Threading;
use mpi::ffi::{self, MPI_Comm, MPI_Request, MPI_Status};

use super::link::{About, Address, CHANNELS, Completed, Flight, Lane};

/// Communicators of all processes.
pub(crate) struct Link {
    data: MPI_Comm,
    notes: MPI_Comm,
    rank: usize,
    size: usize,
    epoch: AtomicI32,
    yields: bool,
}

// SAFETY: handles are plain values to MPI; calls are serialized by the world's lock.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

/// Requests, and buffers for their statuses.
#[derive(Default)]
pub(crate) struct Requests {
    open: Vec<MPI_Request>,
    done: Vec<c_int>,
    statuses: Vec<MaybeUninit<MPI_Status>>,
}

// SAFETY: as for the link.
unsafe impl Send for Requests {}

const SUCCESS: c_int = ffi::MPI_SUCCESS as c_int;
/// Tags of an epoch.
const LANES: c_int = 1 + CHANNELS as c_int;
/// The number of epochs that have tags of their own.
const EPOCHS: c_int = 2_000;

impl Link {
    /// Joins the processes that were started together.
    pub(crate) fn open() -> Result<Link, String> {
        if mpi::is_initialized() {
            return Err("MPI was initialised by somebody else before Runtime::init()".into());
        }
        let Some((universe, threading)) = mpi::initialize_with_threading(Threading::Serialized) else {
            return Err("cannot initialize MPI".into());
        };
        // It is finished by the exit hook, after the last message.
        std::mem::forget(universe);
        if threading < Threading::Serialized {
            return Err(format!("MPI offers threading {threading:?}; Serialized is needed"));
        }
        let (mut data, mut notes) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI is initialized, and the out parameters are valid.
        unsafe {
            check(ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, data.as_mut_ptr()))?;
            check(ffi::MPI_Comm_dup(ffi::RSMPI_COMM_WORLD, notes.as_mut_ptr()))?;
            let (data, notes) = (data.assume_init(), notes.assume_init());
            check(ffi::MPI_Comm_set_errhandler(data, ffi::RSMPI_ERRORS_RETURN))?;
            check(ffi::MPI_Comm_set_errhandler(notes, ffi::RSMPI_ERRORS_RETURN))?;
            check(ffi::MPI_Comm_rank(data, &mut rank))?;
            check(ffi::MPI_Comm_size(data, &mut size))?;
            Ok(Link {
                data,
                notes,
                rank: rank as usize,
                size: size as usize,
                epoch: AtomicI32::new(0),
                yields: yields(),
            })
        }
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether each poll yields if there are no messages.
    pub(crate) fn yields(&self) -> bool {
        self.yields
    }

    fn tag(&self, lane: Lane) -> c_int {
        let lane = match lane {
            Lane::Common => 0,
            // These are of no run, and outlive the failure of one.
            Lane::PointToPoint => return LANES * EPOCHS,
            Lane::Channel(channel) => 1 + c_int::from(channel),
        };
        LANES * self.epoch.load(Ordering::Relaxed) + lane
    }

    /// Begins to send.
    ///
    /// # Safety
    /// The bytes are valid and not written until the message has completed.
    pub(crate) unsafe fn send(
        &self,
        flight: &mut Flight,
        id: u32,
        to: Address,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), String> {
        let (peer, tag, mut request) = (to.peer, self.tag(to.lane), MaybeUninit::uninit());
        // SAFETY: the caller vouches for the bytes; at most 2^30 are sent at once.
        unsafe {
            let (ty, bytes) = (ffi::RSMPI_UINT8_T, bytes as c_int);
            check(ffi::MPI_Isend(from.cast(), bytes, ty, peer as c_int, tag, self.data, request.as_mut_ptr()))?;
            flight.requests.open.push(request.assume_init());
        }
        flight.about.push(About { id, peer, incoming: false });
        Ok(())
    }

    /// Begins to receive.
    ///
    /// # Safety
    /// The bytes are valid for writing, and nothing else uses them until the message has completed.
    pub(crate) unsafe fn receive(
        &self,
        flight: &mut Flight,
        id: u32,
        from: Address,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), String> {
        let (peer, tag, mut request) = (from.peer, self.tag(from.lane), MaybeUninit::uninit());
        // SAFETY: the caller vouches for the bytes; at most 2^30 are received at once.
        unsafe {
            let (ty, bytes) = (ffi::RSMPI_UINT8_T, bytes as c_int);
            check(ffi::MPI_Irecv(to.cast(), bytes, ty, peer as c_int, tag, self.data, request.as_mut_ptr()))?;
            flight.requests.open.push(request.assume_init());
        }
        flight.about.push(About { id, peer, incoming: true });
        Ok(())
    }

    /// Makes progress, and collects the messages that have completed.
    pub(crate) fn test(&self, flight: &mut Flight, completed: &mut Vec<Completed>) -> Result<(), String> {
        let Requests { open, done, statuses } = &mut flight.requests;
        let (count, mut ended) = (open.len(), 0);
        done.resize(count, 0);
        statuses.resize_with(count, MaybeUninit::zeroed);
        // SAFETY: all lists have `count` entries, and the requests are ours.
        let code = unsafe {
            ffi::MPI_Testsome(
                count as c_int,
                open.as_mut_ptr(),
                &mut ended,
                done.as_mut_ptr(),
                statuses.as_mut_ptr().cast(),
            )
        };
        let in_status = code == ffi::MPI_ERR_IN_STATUS as c_int;
        if !in_status {
            check(code)?;
        }
        if ended <= 0 {
            return Ok(());
        }
        for i in 0..ended as usize {
            // SAFETY: MPI has filled in the statuses of what has ended.
            let error = unsafe { statuses[i].assume_init_ref() }.MPI_ERROR;
            let error = (in_status && error != SUCCESS).then(|| text(error));
            completed.push(Completed { about: flight.about[done[i] as usize], error });
        }
        let indices = &mut done[..ended as usize];
        indices.sort_unstable_by(|a, b| b.cmp(a));
        for &i in indices.iter() {
            open.swap_remove(i as usize);
            flight.about.swap_remove(i as usize);
        }
        Ok(())
    }

    /// Cancels all receives in flight; sends are left to complete.
    pub(crate) fn cancel(&self, flight: &mut Flight) {
        let mut kept = Flight::default();
        let requests = std::mem::take(&mut flight.requests.open);
        for (mut request, about) in requests.into_iter().zip(std::mem::take(&mut flight.about)) {
            if about.incoming {
                // SAFETY: the request is ours and has not ended.
                unsafe { ffi::MPI_Cancel(&mut request) };
                kept.requests.open.push(request);
                kept.about.push(about);
            }
            // An unmatched send cannot be cancelled; its bytes are not read again, because its epoch is over.
        }
        *flight = kept;
    }

    /// Whether a message has arrived.
    pub(crate) fn probe(&self, from: Address) -> Result<bool, String> {
        let (mut flag, tag) = (0, self.tag(from.lane));
        // SAFETY: the out parameter is valid, and the status is not wanted.
        check(unsafe { ffi::MPI_Iprobe(from.peer as c_int, tag, self.data, &mut flag, ffi::RSMPI_STATUS_IGNORE) })?;
        Ok(flag != 0)
    }

    /// Sends a short control message without waiting.
    pub(crate) fn note(&self, peer: usize, note: Vec<u8>) {
        let note = Vec::leak(note);
        let mut request = MaybeUninit::uninit();
        // SAFETY: the note lives forever.
        unsafe {
            let (ty, bytes) = (ffi::RSMPI_UINT8_T, note.len() as c_int);
            let sent =
                ffi::MPI_Isend(note.as_ptr().cast(), bytes, ty, peer as c_int, 0, self.notes, request.as_mut_ptr());
            if sent == SUCCESS {
                let mut request = request.assume_init();
                ffi::MPI_Request_free(&mut request);
            }
        }
    }

    /// A control message that has arrived, and its sender.
    pub(crate) fn read_note(&self) -> Option<(usize, Vec<u8>)> {
        let (mut flag, mut count, mut status) = (0, 0, MaybeUninit::zeroed());
        // SAFETY: the out parameters are valid; what is received is as long as the probe says.
        unsafe {
            let (any, ty) = (ffi::RSMPI_ANY_SOURCE, ffi::RSMPI_UINT8_T);
            let code = ffi::MPI_Iprobe(any, 0, self.notes, &mut flag, status.as_mut_ptr());
            if code != SUCCESS || flag == 0 {
                return None;
            }
            let status: MPI_Status = status.assume_init();
            ffi::MPI_Get_count(&status, ty, &mut count);
            let mut note = vec![0u8; count.max(0) as usize];
            let (from, ignore) = (status.MPI_SOURCE, ffi::RSMPI_STATUS_IGNORE);
            let code = ffi::MPI_Recv(note.as_mut_ptr().cast::<c_void>(), count, ty, from, 0, self.notes, ignore);
            (code == SUCCESS).then_some((from as usize, note))
        }
    }

    /// Starts a new epoch: messages of earlier ones no longer match.
    pub(crate) fn set_epoch(&self, epoch: u32) {
        // The largest tag that every MPI has is 32,767.
        self.epoch.store((epoch % EPOCHS as u32) as i32, Ordering::Relaxed);
    }

    /// Ends all processes.
    pub(crate) fn abort(&self, status: i32) -> ! {
        // SAFETY: MPI is initialized.
        unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, status) };
        std::process::abort()
    }

    /// Leaves; nothing may call the link afterwards.
    pub(crate) fn finish(&self) {
        // SAFETY: all messages have completed.
        unsafe { ffi::MPI_Finalize() };
    }
}

/// Whether Open MPI yields when idle: by configuration, or because it found more processes than slots.
fn yields() -> bool {
    let is_set = |name: &str| std::env::var(name).ok().map(|v| matches!(v.trim(), "1" | "true" | "yes"));
    is_set("OMPI_MCA_mpi_yield_when_idle").or(is_set("OMPI_MCA_mpi_oversubscribe")).unwrap_or(false)
}

fn check(code: c_int) -> Result<(), String> {
    if code == SUCCESS { Ok(()) } else { Err(text(code)) }
}

/// MPI's text for an error.
fn text(code: c_int) -> String {
    let mut buffer = [0 as c_char; ffi::MPI_MAX_ERROR_STRING as usize + 1];
    let mut length = 0;
    // SAFETY: the buffer is as long as MPI wants it, and one more.
    unsafe {
        ffi::MPI_Error_string(code, buffer.as_mut_ptr(), &mut length);
        CStr::from_ptr(buffer.as_ptr()).to_string_lossy().into_owned()
    }
}

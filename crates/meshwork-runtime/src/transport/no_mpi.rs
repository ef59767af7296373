//! The link of a build without MPI: opening it is an error.

use super::link::{Address, Completed, Flight};

/// No link; it has no values.
pub(crate) enum Link {}

/// No requests.
#[derive(Default)]
pub(crate) struct Requests;

impl Link {
    pub(crate) fn open() -> Result<Link, String> {
        Err("this program was built without MPI: build it with the cargo feature `mpi` (--features mpi)".into())
    }

    pub(crate) fn rank(&self) -> usize {
        match *self {}
    }

    pub(crate) fn size(&self) -> usize {
        match *self {}
    }

    pub(crate) fn yields(&self) -> bool {
        match *self {}
    }

    /// # Safety
    /// None needed: it is never called.
    pub(crate) unsafe fn send(&self, _: &mut Flight, _: u32, _: Address, _: *const u8, _: usize) -> Result<(), String> {
        match *self {}
    }

    /// # Safety
    /// None needed: it is never called.
    pub(crate) unsafe fn receive(
        &self,
        _: &mut Flight,
        _: u32,
        _: Address,
        _: *mut u8,
        _: usize,
    ) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn test(&self, _: &mut Flight, _: &mut Vec<Completed>) -> Result<(), String> {
        match *self {}
    }

    pub(crate) fn probe(&self, _: Address) -> Result<bool, String> {
        match *self {}
    }

    pub(crate) fn cancel(&self, _: &mut Flight) {
        match *self {}
    }

    pub(crate) fn note(&self, _: usize, _: Vec<u8>) {
        match *self {}
    }

    pub(crate) fn read_note(&self) -> Option<(usize, Vec<u8>)> {
        match *self {}
    }

    pub(crate) fn set_epoch(&self, _: u32) {
        match *self {}
    }

    pub(crate) fn abort(&self, _: i32) -> ! {
        match *self {}
    }

    pub(crate) fn finish(&self) {
        match *self {}
    }
}

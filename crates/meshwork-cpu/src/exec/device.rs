//! A device: where its buffers are, and which device it is.

use std::cell::{Cell, UnsafeCell};

use super::tape::Borrow;
use crate::step::{Buf, Frame};

/// The pointers of one device while a program runs.
///
/// At any time either one thread runs the device, and may change its pointers; or several run parts of one step and
/// only read them. The coordinator keeps to that.
pub(crate) struct Device {
    ptrs: UnsafeCell<Vec<*mut u8>>,
    saved: UnsafeCell<Vec<*mut u8>>,
    /// The step that a thread which runs the device alone is at.
    at: Cell<u32>,
    pub number: usize,
    pub partition: u32,
    pub replica: u32,
}

// SAFETY: see the type: whoever changes something has the device alone, and hands it on through the pool's gate.
unsafe impl Sync for Device {}
// SAFETY: as above.
unsafe impl Send for Device {}

/// The memory of carries that have borrowed that of their first values; none after the first turn.
#[derive(Default)]
pub(crate) struct Loans {
    own: Vec<*mut u8>,
}

/// Where buffers without bytes and without use are: an aligned address that nothing reads or writes.
pub(crate) const NOWHERE: *mut u8 = std::ptr::without_provenance_mut(64);

impl Device {
    pub(crate) fn new(buffers: usize, number: usize, replica: u32, partition: u32) -> Device {
        Device {
            ptrs: UnsafeCell::new(vec![NOWHERE; buffers]),
            saved: UnsafeCell::new(vec![]),
            at: Cell::new(0),
            number,
            partition,
            replica,
        }
    }

    /// What a step sees.
    ///
    /// # Safety
    /// Nothing changes the pointers while the frame is in use.
    #[inline]
    pub(crate) unsafe fn frame(&self) -> Frame<'_> {
        // SAFETY: the caller vouches for it.
        let ptrs = unsafe { &*self.ptrs.get() };
        Frame { ptrs, device: self.number, partition: self.partition, replica: self.replica }
    }

    /// Where `buf` is.
    ///
    /// # Safety
    /// Nothing changes the pointers meanwhile.
    #[inline]
    pub(crate) unsafe fn ptr(&self, buf: Buf) -> *mut u8 {
        // SAFETY: the caller vouches for it.
        unsafe { (&*self.ptrs.get())[buf.0 as usize] }
    }

    /// Says where `buf` is.
    ///
    /// # Safety
    /// The caller has the device alone.
    pub(crate) unsafe fn set_ptr(&self, buf: Buf, ptr: *mut u8) {
        // SAFETY: the caller vouches for it.
        unsafe { (&mut *self.ptrs.get())[buf.0 as usize] = ptr }
    }

    /// Gives buffers the pointers of others, all at once.
    ///
    /// # Safety
    /// The caller has the device alone.
    pub(crate) unsafe fn trade(&self, trades: &[super::tape::Trade]) {
        if trades.is_empty() {
            return;
        }
        // SAFETY: the caller has the device alone.
        let (ptrs, saved) = unsafe { (&mut *self.ptrs.get(), &mut *self.saved.get()) };
        saved.clear();
        saved.extend(trades.iter().map(|t| ptrs[t.from.0 as usize]));
        for (trade, &ptr) in trades.iter().zip(saved.iter()) {
            for to in &trade.to {
                ptrs[to.0 as usize] = ptr;
            }
        }
    }

    /// Lets carries be where their first values are, for one turn.
    ///
    /// # Safety
    /// The caller has the device alone.
    pub(crate) unsafe fn borrow(&self, borrows: &[Borrow]) -> Loans {
        // SAFETY: the caller has the device alone.
        let ptrs = unsafe { &mut *self.ptrs.get() };
        let one = |b: &Borrow| {
            let (own, init) = (ptrs[b.carry[0].0 as usize], ptrs[b.init.0 as usize]);
            b.carry.iter().for_each(|c| ptrs[c.0 as usize] = init);
            own
        };
        Loans { own: borrows.iter().map(one).collect() }
    }

    /// After the first turn, and its trades: puts the memory of the carries where that of their first values went.
    ///
    /// # Safety
    /// The caller has the device alone.
    #[inline]
    pub(crate) unsafe fn settle(&self, borrows: &[Borrow], loans: &mut Loans) {
        for (b, own) in borrows.iter().zip(loans.own.drain(..)) {
            // SAFETY: the caller has the device alone.
            let ptrs = unsafe { &mut *self.ptrs.get() };
            b.next.iter().for_each(|n| ptrs[n.0 as usize] = own);
        }
    }

    /// At the end of a loop: puts carries that are still where their first values are back into memory of their own, which
    /// then lacks the values. Whether there are any.
    ///
    /// # Safety
    /// The caller has the device alone.
    pub(crate) unsafe fn give_back(&self, borrows: &[Borrow], loans: &mut Loans) -> bool {
        let any = !loans.own.is_empty();
        for (b, own) in borrows.iter().zip(loans.own.drain(..)) {
            // SAFETY: the caller has the device alone.
            let ptrs = unsafe { &mut *self.ptrs.get() };
            b.carry.iter().for_each(|c| ptrs[c.0 as usize] = own);
        }
        any
    }

    /// Notes that step `number` begins; only for a thread that has the device alone.
    #[inline]
    pub(crate) fn begin(&self, number: u32) {
        self.at.set(number);
    }

    /// The step that began last.
    pub(crate) fn at(&self) -> u32 {
        self.at.get()
    }
}

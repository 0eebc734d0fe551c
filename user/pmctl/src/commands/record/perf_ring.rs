// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event of perf and the ring that the kernel writes its records to: `perf_event_open(2)`, `mmap(2)`.

use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::clock::Scale;
use crate::events::perf_event;
use crate::recording::perfdata::{Attr, Body, Parts, Record, decode};

/// `struct perf_event_mmap_page`, as far as it is used.
#[repr(C)]
struct Control {
    versions: [u32; 2],
    /// Odd while the kernel changes what follows.
    lock: AtomicU32,
    index: u32,
    offset: i64,
    times: [u64; 2],
    capabilities: AtomicU64,
    pmc_width: u16,
    time_shift: AtomicU16,
    time_mult: AtomicU32,
    time_offset: u64,
    time_zero: AtomicU64,
    reserved: [u64; 119],
    data_head: AtomicU64,
    data_tail: AtomicU64,
}

const _: () = {
    assert!(offset_of!(Control, capabilities) == 40);
    assert!(offset_of!(Control, time_zero) == 64);
    assert!(offset_of!(Control, data_head) == 1024);
};

/// `cap_user_time_zero`: the time-stamp counter can be converted to the event's clock.
const TIME_ZERO: u64 = 1 << 4;

const PAGE_SIZE: usize = 4096;

/// The most pages of a ring: as many as a process may lock per CPU without a privilege (`kernel.perf_event_mlock_kb`).
pub(super) const MAX_PAGES: usize = 128;

/// The tasks of [`PerfRing::open`].
pub(super) const ALL_TASKS: i32 = -1;

/// Events on one CPU, and their ring.
///
/// # Invariants
/// `start` is a mapping of `1 + pages` pages that only the drop unmaps: the control page, then the ring.
#[derive(Debug)]
pub(super) struct PerfRing {
    start: NonNull<Control>,
    pages: usize,
    /// Closing them would end the events. The first has the ring.
    events: Vec<OwnedFd>,
}

/// Returns the bytes of a mapping with so many pages of records.
const fn length(pages: usize) -> NonZeroUsize {
    match NonZeroUsize::new((1 + pages) * PAGE_SIZE) {
        Some(length) => length,
        None => panic!("it is no zero"),
    }
}

impl PerfRing {
    /// Opens an event of a task, or of [`ALL_TASKS`], on a CPU, with `pages` pages for records.
    ///
    /// # Errors
    /// Those of `perf_event_open(2)` and `mmap(2)`.
    pub(super) fn open(attr: &Attr, task: i32, cpu: u32, pages: usize) -> Result<Self, Errno> {
        let event = open(attr, task, cpu)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: The kernel chooses an address where nothing is, so that no memory of Rust's changes.
        let start = unsafe {
            mmap(
                None,
                length(pages),
                protection,
                MapFlags::MAP_SHARED,
                event.as_fd(),
                0,
            )
        }?;
        // INVARIANT: Just mapped.
        Ok(Self {
            start: start.cast(),
            pages,
            events: vec![event],
        })
    }

    /// Lets an event of another task on the same CPU write here, too.
    ///
    /// # Errors
    /// Those of `perf_event_open(2)` and of `PERF_EVENT_IOC_SET_OUTPUT`.
    pub(super) fn add(&mut self, attr: &Attr, task: i32, cpu: u32) -> Result<(), Errno> {
        let event = open(attr, task, cpu)?;
        // SAFETY: It takes two descriptors, which are open, and no memory.
        unsafe { ioctl::set_output(event.as_raw_fd(), self.events[0].as_raw_fd()) }?;
        self.events.push(event);
        Ok(())
    }

    fn control(&self) -> &Control {
        // SAFETY: By the invariant the page is there as long as `self`, and aligned as a page is. What the
        // kernel writes are the atomics among the members; the others are not read.
        unsafe { self.start.as_ref() }
    }

    /// The ring, in words of 8 bytes: all records are multiples of that.
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: By the invariant `pages` pages follow the control page. The kernel writes to them, and to
        // us they are atomics.
        unsafe {
            let first = self.start.byte_add(PAGE_SIZE).cast::<AtomicU64>();
            std::slice::from_raw_parts(
                first.as_ptr(),
                self.pages * PAGE_SIZE / size_of::<AtomicU64>(),
            )
        }
    }

    /// Calls `each` for the records since the last call. Returns how many more the kernel has dropped because the ring was
    /// full.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Record)) -> u64 {
        let bytes = self.take();
        let mut rest = &bytes[..];
        let mut lost = 0;
        // The kernel writes whole records.
        while let Some((record, size)) = decode(rest, Parts::default()) {
            rest = &rest[size..];
            match record {
                Some(Record {
                    body: Body::Lost(number),
                    ..
                }) => lost += number,
                Some(record) => each(record),
                None => {}
            }
        }
        lost
    }

    fn take(&mut self) -> Vec<u8> {
        let control = self.control();
        let words = self.words();
        // With what the kernel wrote before it set this.
        let head = control.data_head.load(Ordering::Acquire);
        let tail = control.data_tail.load(Ordering::Relaxed);
        let mut bytes = Vec::new();
        for place in tail / 8..head / 8 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the ring is far smaller than the address space"
            )]
            let word = &words[place as usize % words.len()];
            bytes.extend(word.load(Ordering::Relaxed).to_le_bytes());
        }
        // Only then may the kernel write there again.
        control.data_tail.store(head, Ordering::Release);
        bytes
    }

    /// Returns the conversion from the time-stamp counter to the event's clock; `None` if there is none.
    pub(super) fn scale(&self) -> Option<Scale> {
        let control = self.control();
        loop {
            let before = control.lock.load(Ordering::Acquire);
            let known = control.capabilities.load(Ordering::Relaxed) & TIME_ZERO != 0;
            let scale = Scale {
                shift: control.time_shift.load(Ordering::Relaxed),
                mult: control.time_mult.load(Ordering::Relaxed),
                zero: control.time_zero.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            if before & 1 == 0 && control.lock.load(Ordering::Relaxed) == before {
                return known.then_some(scale);
            }
        }
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: By the invariant it is a mapping of this length, and no reference to it is left: `self` is borrowed for as long as each lives.
        let result = unsafe { munmap(self.start.cast(), length(self.pages).get()) };
        debug_assert!(result.is_ok(), "munmap of what mmap gave");
    }
}

/// Opens an event of a task, or of [`ALL_TASKS`], on a CPU.
fn open(attr: &Attr, task: i32, cpu: u32) -> Result<OwnedFd, Errno> {
    let cpu = libc::c_int::try_from(cpu).map_err(|_| Errno::EINVAL)?;
    perf_event::open(&attr.encode(), task, cpu)
}

/// The ioctl of perf, with its letter and number in `<linux/perf_event.h>`.
mod ioctl {
    use nix::{ioctl_write_int_bad, request_code_none};

    ioctl_write_int_bad!(set_output, request_code_none!(b'$', 5));
}

/// Returns why Linux refuses a ring of perf's.
pub(super) fn refusal_reason(errno: Errno) -> &'static str {
    match errno {
        Errno::EACCES => "the kernel's policy forbids it (kernel.perf_event_paranoid)",
        // What mmap(2) says of a ring.
        Errno::EPERM => {
            "this user may not lock that much memory (ulimit -l, kernel.perf_event_mlock_kb)"
        }
        other => other.desc(),
    }
}

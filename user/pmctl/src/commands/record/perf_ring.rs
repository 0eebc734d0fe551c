// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event of perf and the ring that the kernel writes its records to: `perf_event_open(2)`, `mmap(2)`.

use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::clock::Scale;
use crate::events::perf_event;
use crate::recording::perfdata::{Body, Record, SampleParts, decode_record, record_size};

/// `struct perf_event_mmap_page`, as far as it is used. The kernel writes to it at any time. Members that are not read here
/// are in an [`UnsafeCell`].
#[repr(C)]
struct Control {
    versions: [u32; 2],
    /// A sequence number, which is odd while the kernel changes the next members.
    lock: AtomicU32,
    index: UnsafeCell<u32>,
    offset: UnsafeCell<i64>,
    times: UnsafeCell<[u64; 2]>,
    capabilities: AtomicU64,
    pmc_width: UnsafeCell<u16>,
    time_shift: AtomicU16,
    time_mult: AtomicU32,
    time_offset: UnsafeCell<u64>,
    time_zero: AtomicU64,
    reserved: UnsafeCell<[u64; 119]>,
    data_head: AtomicU64,
    data_tail: AtomicU64,
}

const _: () = {
    assert!(offset_of!(Control, capabilities) == 40);
    assert!(offset_of!(Control, time_zero) == 64);
    assert!(offset_of!(Control, data_head) == 1024);
};

/// `cap_user_time_zero`: the time-stamp counter can be converted to the event's clock.
const CAP_USER_TIME_ZERO: u64 = 1 << 4;

const PAGE_SIZE: usize = 4096;

/// The largest number of pages of a ring: as many as a process may lock per CPU without a privilege (`kernel.perf_event_mlock_kb`).
pub(super) const MAX_PAGES: usize = 128;

/// The `task` of [`PerfRing::open`] for all tasks of a CPU.
pub(super) const ALL_TASKS: i32 = -1;

/// Events on one CPU, and their ring.
///
/// # Invariants
/// `start` is a mapping of `1 + pages` pages, the control page and then the ring, which only `drop` unmaps.
#[derive(Debug)]
pub(super) struct PerfRing {
    start: NonNull<Control>,
    pages: usize,
    /// The open events. The first one owns the ring.
    events: Vec<OwnedFd>,
}

/// The reason why an event has no ring. EPERM has two meanings: the event is forbidden, or the ring is larger than the
/// user may have.
#[derive(Clone, Copy, Debug)]
pub(super) enum RingError {
    /// The event could not be opened, or its records could not be directed to the ring.
    Event(Errno),
    /// The ring could not be mapped.
    Mapping(Errno),
}

impl From<RingError> for Errno {
    fn from(error: RingError) -> Self {
        match error {
            RingError::Event(errno) | RingError::Mapping(errno) => errno,
        }
    }
}

/// Returns the size in bytes of a mapping with `pages` pages of records.
const fn mapping_size(pages: usize) -> NonZeroUsize {
    match NonZeroUsize::new((1 + pages) * PAGE_SIZE) {
        Some(length) => length,
        None => panic!("it is no zero"),
    }
}

impl PerfRing {
    /// Opens an event of a task, or of [`ALL_TASKS`], on a CPU, with `pages` pages for records. `attr` is a
    /// `struct perf_event_attr`.
    ///
    /// # Errors
    /// The error of `perf_event_open(2)` or `mmap(2)`.
    pub(super) fn open(attr: &[u8], task: i32, cpu: u32, pages: usize) -> Result<Self, RingError> {
        let event = open_event(attr, task, cpu).map_err(RingError::Event)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: `mmap` requires that no memory in use is replaced: without an address and MAP_FIXED the kernel
        // chooses a free range.
        let start = unsafe {
            mmap(
                None,
                mapping_size(pages),
                protection,
                MapFlags::MAP_SHARED,
                event.as_fd(),
                0,
            )
        }
        .map_err(RingError::Mapping)?;
        // INVARIANT: `mmap` has just mapped `1 + pages` pages at `start`, and nothing but `drop` unmaps them.
        Ok(Self {
            start: start.cast(),
            pages,
            events: vec![event],
        })
    }

    /// Opens an event of another task on the same CPU. The event writes to this ring, too.
    ///
    /// # Errors
    /// The error of `perf_event_open(2)` or of `PERF_EVENT_IOC_SET_OUTPUT`.
    pub(super) fn add(&mut self, attr: &[u8], task: i32, cpu: u32) -> Result<(), RingError> {
        let event = open_event(attr, task, cpu).map_err(RingError::Event)?;
        // SAFETY: PERF_EVENT_IOC_SET_OUTPUT accesses no memory of the caller, and both descriptors are open.
        unsafe { ioctl::set_output(event.as_raw_fd(), self.events[0].as_raw_fd()) }
            .map_err(RingError::Event)?;
        self.events.push(event);
        Ok(())
    }

    /// Opens an event that writes to `ring`. If there is a ring already, adds the event to it by [`Self::add`];
    /// otherwise makes the ring by [`Self::open`].
    ///
    /// # Errors
    /// The errors of [`Self::open`] and [`Self::add`].
    pub(super) fn open_or_add(
        ring: &mut Option<Self>,
        attr: &[u8],
        (task, cpu): (i32, u32),
        pages: usize,
    ) -> Result<(), RingError> {
        match ring {
            None => *ring = Some(Self::open(attr, task, cpu, pages)?),
            Some(ring) => ring.add(attr, task, cpu)?,
        }
        Ok(())
    }

    fn control(&self) -> &Control {
        // SAFETY: `as_ref` requires a pointer to an aligned and valid `Control`. By the type invariant `start` is the
        // beginning of a mapping that lives as long as `self`, and a mapping is aligned to pages. `Control` consists of
        // integers, for which every bit pattern is valid; those that the kernel writes are atomics or in an `UnsafeCell`.
        unsafe { self.start.as_ref() }
    }

    /// Returns the ring in words of 8 bytes: the size of each record is a multiple of 8.
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `byte_add` requires an offset within the mapping, and `from_raw_parts` requires
        // aligned and valid words that live as long as the result. By the type invariant `pages`
        // mapped pages follow the control page for as long as `self` lives, and the result borrows
        // `self`. The words are atomics, since the kernel writes to them meanwhile.
        unsafe {
            let first = self.start.byte_add(PAGE_SIZE).cast::<AtomicU64>();
            std::slice::from_raw_parts(
                first.as_ptr(),
                self.pages * PAGE_SIZE / size_of::<AtomicU64>(),
            )
        }
    }

    /// Returns the open events. The first one owns the ring.
    pub(super) fn events(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(AsFd::as_fd)
    }

    /// Calls `handle` for the records since the last call. Returns the number of records that the kernel has dropped
    /// because the ring was full.
    pub(super) fn drain(&mut self, mut handle: impl FnMut(Record)) -> u64 {
        let mut lost = 0;
        self.drain_raw(|bytes| match decode_record(bytes, SampleParts::default()) {
            Some((
                Some(Record {
                    body: Body::Lost(number),
                    ..
                }),
                _,
            )) => lost += number,
            Some((Some(record), _)) => handle(record),
            Some((None, _)) | None => {}
        });
        lost
    }

    /// Calls `handle` with the bytes of each record since the last call.
    pub(super) fn drain_raw(&mut self, mut handle: impl FnMut(&[u8])) {
        let bytes = self.take_bytes();
        let mut rest = &bytes[..];
        // The kernel writes whole records, so no part of a record remains.
        while let Some((record, next)) =
            record_size(rest).and_then(|size| rest.split_at_checked(size))
        {
            handle(record);
            rest = next;
        }
    }

    /// Copies the records since the last call, and tells the kernel that their space is free.
    fn take_bytes(&mut self) -> Vec<u8> {
        let control = self.control();
        let words = self.words();
        // Acquire: the kernel has written the records before it set `data_head`.
        let head = control.data_head.load(Ordering::Acquire);
        let tail = control.data_tail.load(Ordering::Relaxed);
        let mut bytes = Vec::new();
        for index in tail / 8..head / 8 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the ring is far smaller than the address space"
            )]
            let word = &words[index as usize % words.len()];
            bytes.extend(word.load(Ordering::Relaxed).to_le_bytes());
        }
        // Release: the kernel overwrites the records only after they have been read.
        control.data_tail.store(head, Ordering::Release);
        bytes
    }

    /// Returns the conversion from the time-stamp counter to the event's clock; `None` if there is none.
    pub(super) fn scale(&self) -> Option<Scale> {
        let control = self.control();
        loop {
            let before = control.lock.load(Ordering::Acquire);
            let has_scale = control.capabilities.load(Ordering::Relaxed) & CAP_USER_TIME_ZERO != 0;
            let scale = Scale {
                shift: control.time_shift.load(Ordering::Relaxed),
                mult: control.time_mult.load(Ordering::Relaxed),
                zero: control.time_zero.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            if before & 1 == 0 && control.lock.load(Ordering::Relaxed) == before {
                return has_scale.then_some(scale);
            }
        }
    }
}

impl Drop for PerfRing {
    fn drop(&mut self) {
        // SAFETY: `munmap` requires that nothing uses the memory afterwards. By the type invariant `start` is a mapping of
        // this size that nothing else unmaps, and all references into it borrow `self`, so none is left.
        let result = unsafe { munmap(self.start.cast(), mapping_size(self.pages).get()) };
        debug_assert!(result.is_ok(), "munmap of what mmap gave");
    }
}

/// Opens an event of a task, or of [`ALL_TASKS`], on a CPU.
fn open_event(attr: &[u8], task: i32, cpu: u32) -> Result<OwnedFd, Errno> {
    let cpu = libc::c_int::try_from(cpu).map_err(|_| Errno::EINVAL)?;
    perf_event::open(&mut attr.to_vec(), task, cpu)
}

/// The ioctl of perf, with its letter and number in `<linux/perf_event.h>`.
mod ioctl {
    use nix::{ioctl_write_int_bad, request_code_none};

    ioctl_write_int_bad!(set_output, request_code_none!(b'$', 5));
}

/// Returns the reason why Linux refuses a ring of perf.
pub(super) fn refusal_reason(errno: Errno) -> &'static str {
    match errno {
        Errno::EACCES => "the kernel's policy forbids it (kernel.perf_event_paranoid)",
        // mmap(2) of the ring returns this.
        Errno::EPERM => {
            "this user may not lock that much memory (ulimit -l, kernel.perf_event_mlock_kb)"
        }
        other => other.desc(),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading an event without a system call.

use std::arch::asm;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::time::Duration;

use nix::sys::mman::ProtFlags;
use nix::unistd::gettid;

use super::{Event, Group, Reading};
use crate::sys::Area;
use crate::{Attempt, Cause, Error};

/// The members of `struct perf_event_mmap_page` that a reader needs. The kernel writes the page.
#[repr(C)]
#[derive(Debug)]
struct Page {
    version: AtomicU32,
    compat_version: AtomicU32,
    lock: AtomicU32,
    index: AtomicU32,
    offset: AtomicI64,
    time_enabled: AtomicU64,
    time_running: AtomicU64,
    capabilities: AtomicU64,
    pmc_width: AtomicU16,
}

const _: () = {
    // <linux/perf_event.h>.
    assert!(offset_of!(Page, lock) == 8);
    assert!(offset_of!(Page, index) == 12);
    assert!(offset_of!(Page, offset) == 16);
    assert!(offset_of!(Page, time_enabled) == 24);
    assert!(offset_of!(Page, time_running) == 32);
    assert!(offset_of!(Page, capabilities) == 40);
    assert!(offset_of!(Page, pmc_width) == 48);
};

/// The bit `cap_user_rdpmc` of `capabilities`: the thread may read the counter with RDPMC.
const CAP_USER_RDPMC: u64 = 1 << 2;

/// Size of the page in bytes.
const SIZE: NonZeroUsize = NonZeroUsize::new(4096).expect("a page has bytes");

/// The page of an event of the calling thread, which lets the thread read the count in about 21 instructions.
///
/// ```no_run
/// use perfmon::Event;
///
/// let event = Event::instructions().user().open()?;
/// let page = event.user_page()?;
/// let before = page.read()?;
/// let sum: u64 = (0..1000).map(std::hint::black_box).sum();
/// println!("{} instructions for {sum}", page.read()? - before);
/// # Ok::<(), perfmon::Error>(())
/// ```
///
/// In a child of fork(2) the page has no counter, and `read` returns the count of the parent's thread by a system call.
///
/// The page can't be sent to another thread: its content is valid only on the CPU where the counted thread runs.
///
/// ```compile_fail
/// # fn f(event: &perfmon::Event) -> Result<(), perfmon::Error> {
/// let page = event.user_page()?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| page.read());
/// });
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct UserPage<'a> {
    event: &'a Event,
    page: PageMapping,
}

/// The pages of a group of events of the calling thread: see [`UserPage`].
///
/// ```no_run
/// use perfmon::{Event, Group};
///
/// let group = Group::of(Event::instructions().user())
///     .and(Event::branches().user())
///     .open()?;
/// let pages = group.user_pages()?;
/// let (mut before, mut after) = ([0; 2], [0; 2]);
/// pages.read(&mut before)?;
/// let sum: u64 = (0..1000).map(std::hint::black_box).sum();
/// pages.read(&mut after)?;
/// println!("{} instructions, {} branches for {sum}", after[0] - before[0], after[1] - before[1]);
/// # Ok::<(), perfmon::Error>(())
/// ```
#[derive(Debug)]
pub struct GroupPages<'a> {
    group: &'a Group,
    pages: Vec<PageMapping>,
}

/// The mapping of the page.
///
/// # Invariants
/// The area has `SIZE` bytes.
#[derive(Debug)]
pub(super) struct PageMapping {
    area: Area,
    /// Makes the type neither `Send` nor `Sync`.
    thread: PhantomData<*const ()>,
}

impl Event {
    /// Maps the page that lets the calling thread read the count without a system call.
    ///
    /// # Errors
    /// [`Cause::OtherThread`] unless the event counts the calling thread on all CPUs, and the errors of mmap(2).
    pub fn user_page(&self) -> Result<UserPage<'_>, Error> {
        PageMapping::new(self).map(|page| UserPage { event: self, page })
    }
}

impl UserPage<'_> {
    /// Returns the count, by RDPMC if the event has a counter now, else by read(2).
    ///
    /// # Errors
    /// As [`Event::read`].
    #[inline]
    pub fn read(&self) -> Result<u64, Error> {
        self.page.read(self.event)
    }

    /// Returns the count like [`read`](Self::read), and its times, which tell whether the count is
    /// complete: between two readings [`uncounted`](Reading::uncounted) grows if the thread ran
    /// while the event had no counter, as on a core of a hybrid processor that lacks the event. If
    /// the count is read by RDPMC, the times are as of the moment when the event got its counter.
    ///
    /// # Errors
    /// As [`Event::read`].
    #[inline]
    pub fn read_with_times(&self) -> Result<Reading, Error> {
        match self.page.read_counter_with_times() {
            Some(reading) => Ok(reading),
            None => self.event.read_with_times(),
        }
    }

    /// Returns the count without a system call; `None` if the event has no counter now, or programs may not use RDPMC.
    #[inline]
    #[must_use]
    pub fn read_counter(&self) -> Option<u64> {
        self.page.read_counter()
    }

    /// Returns the count between two [readings](Self::read_with_times) of this page.
    ///
    /// # Errors
    /// [`Cause::OtherCore`] if the event had no counter for a part of the time, so that the count would be too low.
    pub fn count_between(&self, before: &Reading, after: &Reading) -> Result<u64, Error> {
        self.event.count_between(before, after)
    }
}

impl Group {
    /// Maps the pages that let the calling thread read all counts without a system call.
    ///
    /// # Errors
    /// As [`Event::user_page`].
    pub fn user_pages(&self) -> Result<GroupPages<'_>, Error> {
        let pages = map_pages(self)?;
        Ok(GroupPages { group: self, pages })
    }
}

impl GroupPages<'_> {
    /// Writes the counts in the order of the group: by RDPMC if all events have counters now, else by read(2).
    ///
    /// With RDPMC, the events are read one after the other, the last one first; each takes some 25 instructions. The
    /// difference between two calls includes the same number of the calls' own instructions for every event.
    ///
    /// # Errors
    /// As [`Group::read`].
    ///
    /// # Panics
    /// Panics if the length of `counts` is not the number of events in the group.
    #[inline]
    pub fn read(&self, counts: &mut [u64]) -> Result<(), Error> {
        read_pages(&self.pages, self.group, counts)
    }

    /// Writes the counts without a system call. Returns `false` if an event has no counter now, or programs may not use
    /// RDPMC; some of `counts` are then not written.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[inline]
    #[must_use]
    pub fn read_counters(&self, counts: &mut [u64]) -> bool {
        read_counters(&self.pages, counts)
    }
}

/// Maps the pages of all events of a group.
pub(super) fn map_pages(group: &Group) -> Result<Vec<PageMapping>, Error> {
    group.events().iter().map(PageMapping::new).collect()
}

/// Writes the counts of a group with these pages, by RDPMC or by read(2).
#[inline]
fn read_pages(pages: &[PageMapping], group: &Group, counts: &mut [u64]) -> Result<(), Error> {
    if read_counters(pages, counts) {
        return Ok(());
    }
    group.read_into(counts).map(drop)
}

/// Writes the counts like [`read_pages`], and returns how long the group was enabled and not counted, in nanoseconds.
#[inline]
pub(super) fn read_pages_and_uncounted(
    pages: &[PageMapping],
    group: &Group,
    counts: &mut [u64],
) -> Result<u64, Error> {
    if let ([leader, members @ ..], [leader_count, member_counts @ ..]) = (pages, &mut *counts) {
        if read_counters(members, member_counts) {
            if let Some((count, uncounted)) = leader.read_counter_and(Page::uncounted) {
                *leader_count = count;
                return Ok(uncounted);
            }
        }
    }
    group.read_into(counts)
}

/// Writes the counts of events with these pages by RDPMC, the last one first.
#[inline]
fn read_counters(pages: &[PageMapping], counts: &mut [u64]) -> bool {
    assert_eq!(pages.len(), counts.len(), "a count for each event");
    for (page, count) in pages.iter().zip(counts).rev() {
        match page.read_counter() {
            Some(value) => *count = value,
            None => return false,
        }
    }
    true
}

impl Page {
    /// Returns the times enabled and running, in nanoseconds.
    #[inline]
    fn times(&self) -> (u64, u64) {
        let [enabled, running] = [&self.time_enabled, &self.time_running];
        (
            enabled.load(Ordering::Relaxed),
            running.load(Ordering::Relaxed),
        )
    }

    /// Returns how long the event was enabled and not counted, in nanoseconds. The result stays the
    /// same while the event has a counter.
    #[inline]
    fn uncounted(&self) -> u64 {
        let (enabled, running) = self.times();
        enabled.wrapping_sub(running)
    }
}

impl PageMapping {
    pub(super) fn new(event: &Event) -> Result<Self, Error> {
        let attempt = || Attempt::MapEvent(event.label().clone());
        if event.thread != Some(gettid()) {
            return Err(Error {
                attempt: attempt(),
                cause: Cause::OtherThread,
            });
        }
        let area = Area::new(event.as_fd(), SIZE, ProtFlags::PROT_READ);
        // INVARIANT: The area was mapped with this size.
        Ok(Self {
            area: area.map_err(|errno| Error::new(attempt(), errno))?,
            thread: PhantomData,
        })
    }

    #[inline]
    pub(super) fn read(&self, event: &Event) -> Result<u64, Error> {
        match self.read_counter() {
            Some(count) => Ok(count),
            None => event.read(),
        }
    }

    #[inline]
    pub(super) fn read_counter(&self) -> Option<u64> {
        let (count, ()) = self.read_counter_and(|_| ())?;
        Some(count)
    }

    #[inline]
    fn read_counter_with_times(&self) -> Option<Reading> {
        let (value, (enabled, running)) = self.read_counter_and(Page::times)?;
        Some(Reading {
            value,
            enabled: Duration::from_nanos(enabled),
            running: Duration::from_nanos(running),
        })
    }

    /// Reads the count by RDPMC, and calls `read_more` on the page; both results are of the same moment. Returns `None` if
    /// the event has no counter now, or if programs may not use RDPMC.
    #[inline]
    #[expect(
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        reason = "the counter is sign-extended, and the sum is the count"
    )]
    fn read_counter_and<T>(&self, read_more: impl Fn(&Page) -> T) -> Option<(u64, T)> {
        let page = self.page();
        loop {
            let sequence = page.lock.load(Ordering::Relaxed);
            // The kernel writes the page only on the CPU where this thread runs, like an interrupt
            // handler. So a fence for the compiler keeps the order of the loads; the CPU needs
            // none.
            compiler_fence(Ordering::SeqCst);
            let index = page.index.load(Ordering::Relaxed);
            let offset = page.offset.load(Ordering::Relaxed);
            if index == 0 || page.capabilities.load(Ordering::Relaxed) & CAP_USER_RDPMC == 0 {
                return None;
            }
            let more = read_more(page);
            let width = u32::from(page.pmc_width.load(Ordering::Relaxed));
            let unused_bits = u64::BITS.saturating_sub(width);
            // SAFETY: `rdpmc` requires that this thread may execute RDPMC, and that the CPU has the counter. The page just had
            // `cap_user_rdpmc`, so by the requirement of `Driver` it is the page of an event of the kernel. The kernel sets the
            // bit if it has enabled RDPMC for threads that map the page, as this thread does with `self`, which is not `Send`.
            // An index other than 0 is the kernel's number of a counter of the CPU, plus one.
            let counter = unsafe { rdpmc(index - 1) } as i64;
            compiler_fence(Ordering::SeqCst);
            if page.lock.load(Ordering::Relaxed) == sequence {
                // Sign-extends the counter to 64 bits.
                let counter = counter.wrapping_shl(unused_bits).wrapping_shr(unused_bits);
                return Some((offset.wrapping_add(counter) as u64, more));
            }
        }
    }

    #[inline]
    fn page(&self) -> &Page {
        // SAFETY: `as_ref` requires a pointer to an aligned and valid `Page`. By the type invariant the area has
        // room for it as long as `self` lives, and an area is aligned to pages. `Page` consists of atomic integers, for
        // which every bit pattern that the kernel writes meanwhile is a valid value.
        unsafe { self.area.start().cast().as_ref() }
    }
}

/// Reads the counter with this number of RDPMC.
///
/// # Safety
/// The caller must ensure that RDPMC is enabled for the calling thread, and that the CPU has the counter: otherwise the
/// instruction faults.
#[inline]
unsafe fn rdpmc(index: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: RDPMC needs a counter that the CPU has and the permission to execute it, which the caller promises. It
    // writes only the two registers that are declared as outputs. `nomem` is absent, so that the compiler does not move
    // the loads before and after across the instruction.
    unsafe {
        asm!("rdpmc", in("ecx") index, out("eax") low, out("edx") high, options(nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions: counts between two points of a program, summed up over all passes.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Index;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nix::errno::Errno;

use super::group::find_label;
use super::user_page::{PageMapping, map_pages, read_pages_and_uncounted};
use super::{Event, EventLabel, Group, GroupBuilder};
use crate::sys::fork::{self, ForkMutex, HeldLock};
use crate::{Attempt, Cause, Error};

/// Counts the instructions of the calling thread in user mode until the returned value is dropped, under a name.
///
/// [`set_events`](crate::event::region::set_events) chooses other events. A thread opens the events
/// at its first region. The counts are read without a system call where possible, and the overhead
/// of reading is subtracted. [`totals`](crate::event::region::totals) returns the sums. In a child
/// of fork(2) all sums begin at 0, and a pass that began before the fork does not count there.
///
/// ```no_run
/// fn parse(text: &str) -> usize {
///     let _region = perfmon::region!("parse");
///     text.split(' ').count()
/// }
/// parse("some words");
/// for total in perfmon::event::region::totals() {
///     println!("{}: {} instructions in {} passes", total.name, total[0], total.passes);
/// }
/// ```
#[macro_export]
macro_rules! region {
    ($name:expr) => {{
        static SITE: $crate::event::region::RegionSite =
            $crate::event::region::RegionSite::new($name);
        SITE.enter()
    }};
}

/// The largest number of events that regions count.
pub const MAX_EVENTS: usize = 4;

/// A count for each event of regions, in the order of the events; 0 beyond the last event.
type Values = [u64; MAX_EVENTS];

/// A place in the source where [`region!`](crate::region!) stands.
#[derive(Debug)]
pub struct RegionSite {
    name: &'static str,
    /// The generation of the process to which the sums belong, plus 1; 0 before the first pass.
    registered_in: AtomicU64,
    passes: AtomicU64,
    /// The sum of each event.
    sums: [AtomicU64; MAX_EVENTS],
    /// Number of passes that could not be counted.
    failed: AtomicU64,
}

/// The sums of a region, by index of the event or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Total {
    /// The name.
    pub name: &'static str,
    /// Number of times that the region was passed and counted.
    pub passes: u64,
    /// Passes that could not be counted; [`error`] says why.
    pub failed: u64,
    labels: Arc<[EventLabel]>,
    sums: Values,
}

impl Total {
    /// Returns the events, and their counts in the passes that were counted.
    pub fn iter(&self) -> impl Iterator<Item = (&EventLabel, u64)> + '_ {
        self.labels.iter().zip(self.sums)
    }

    /// Returns the count of the event with this name, as [`Counts::get`](super::Counts::get) does.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        find_label(&self.labels, name).map(|index| self.sums[index])
    }
}

impl Index<usize> for Total {
    type Output = u64;

    fn index(&self, index: usize) -> &u64 {
        &self.sums[..self.labels.len()][index]
    }
}

/// The events of regions, as chosen by [`set_events`]; by default instructions in user mode.
static EVENTS: OnceLock<GroupBuilder> = OnceLock::new();

fn events() -> &'static GroupBuilder {
    EVENTS.get_or_init(|| Group::of(Event::instructions().user()))
}

/// Chooses the events that regions count, at most [`MAX_EVENTS`], for all threads. Each region counts the thread that
/// enters it.
///
/// ```no_run
/// use perfmon::{Event, Group};
/// use perfmon::event::region;
///
/// region::set_events(Group::of(Event::instructions().user()).and(Event::branch_misses().user()))?;
/// # Ok::<(), region::CannotSetEvents>(())
/// ```
///
/// # Errors
/// The events are too many, or the program has chosen events before, or has already passed a region.
pub fn set_events(events: GroupBuilder) -> Result<(), CannotSetEvents> {
    if events.len() > MAX_EVENTS {
        return Err(CannotSetEvents::TooMany(events.len()));
    }
    EVENTS.set(events).map_err(|_| CannotSetEvents::TooLate)
}

/// The reason why regions can't count the events of [`set_events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotSetEvents {
    /// The group has this number of events, which is more than [`MAX_EVENTS`].
    TooMany(usize),
    /// The events were chosen before, by [`set_events`] or by the first region.
    TooLate,
}

impl fmt::Display for CannotSetEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany(number) => write!(
                f,
                "regions count at most {MAX_EVENTS} events, and {number} were given: give fewer"
            ),
            Self::TooLate => f.write_str(
                "the events of regions can't change any more: call set_events() once, before the first region",
            ),
        }
    }
}

impl std::error::Error for CannotSetEvents {}

/// The state of the regions that all threads of a process share.
struct Regions {
    /// The sites that were entered at least once, in this process or before it was forked.
    sites: Vec<&'static RegionSite>,
    /// The error of the first thread that could not count, and the generation of its process.
    error: Option<(u64, Error)>,
}

/// The regions. The mutex is locked while the process forks.
static REGIONS: ForkMutex<Regions> = ForkMutex::new(
    Regions {
        sites: Vec::new(),
        error: None,
    },
    &HELD_LOCK,
);

thread_local! {
    /// The lock of `REGIONS` while this thread forks.
    static HELD_LOCK: HeldLock<Regions> = const { Cell::new(None) };
}

/// Makes fork(2) lock `REGIONS`, and [`fork::generation`] change in children.
///
/// # Errors
/// ENOMEM.
fn watch_forks() -> Result<(), Errno> {
    extern "C" fn hold_regions() {
        REGIONS.hold();
    }
    extern "C" fn release_regions() {
        drop(REGIONS.take_held());
    }
    static RESULT: OnceLock<Result<(), Errno>> = OnceLock::new();
    *RESULT.get_or_init(|| {
        fork::watch()?;
        fork::register(Some(hold_regions), Some(release_regions), release_regions)
    })
}

/// Returns the sums of all regions that this process has passed, in the order of their first pass.
#[must_use]
pub fn totals() -> Vec<Total> {
    let regions = REGIONS.lock();
    let sites = regions.sites.iter().filter(|site| site.is_registered());
    let mut sites = sites.peekable();
    if sites.peek().is_none() {
        // The program may still choose the events.
        return Vec::new();
    }
    let labels: Arc<[EventLabel]> = events().labels().collect();
    let total = |site: &&RegionSite| Total {
        name: site.name,
        passes: site.passes.load(Ordering::Relaxed),
        failed: site.failed.load(Ordering::Relaxed),
        labels: Arc::clone(&labels),
        sums: site.sums.each_ref().map(|sum| sum.load(Ordering::Relaxed)),
    };
    sites.map(total).collect()
}

/// Returns the first error that kept regions from being counted; `None` if all were counted.
#[must_use]
pub fn error() -> Option<Error> {
    let regions = REGIONS.lock();
    let own_error = regions
        .error
        .as_ref()
        .filter(|(generation, _)| *generation == fork::generation());
    own_error.map(|(_, error)| error.clone())
}

/// The events of a thread, which are read at the beginning and at the end of each pass.
struct Meter {
    group: Group,
    pages: Vec<PageMapping>,
    /// Count of each event in an empty region.
    overhead: Values,
}

/// The meter of a thread, in the process that opened it.
struct ThreadMeter {
    generation: u64,
    /// `None` if the thread can't count.
    meter: Option<Meter>,
}

/// The counts of a meter at a moment, and the meter's overhead.
struct Reading {
    moment: Moment,
    overhead: Values,
}

/// The counts of a group at a moment.
#[derive(Clone, Copy, Debug)]
struct Moment {
    counts: Values,
    /// Time that the group was enabled and not counted, in nanoseconds.
    uncounted: u64,
}

thread_local! {
    static METER: RefCell<Option<ThreadMeter>> = const { RefCell::new(None) };
}

impl Meter {
    fn new() -> Result<Self, Error> {
        let group = events().open()?;
        let pages = map_pages(&group)?;
        let mut meter = Self {
            group,
            pages,
            overhead: Values::default(),
        };
        // The overhead is the smallest of eight differences: a reading that falls back to read(2)
        // or is repeated counts more.
        let mut overhead = [u64::MAX; MAX_EVENTS];
        for _ in 0..8 {
            let before = meter.read()?.counts;
            let after = meter.read()?.counts;
            for (smallest, (before, after)) in
                overhead.iter_mut().zip(before.into_iter().zip(after))
            {
                *smallest = (*smallest).min(after - before);
            }
        }
        meter.overhead = overhead;
        Ok(meter)
    }

    #[inline]
    fn read(&self) -> Result<Moment, Error> {
        let mut counts = Values::default();
        let used = &mut counts[..self.pages.len()];
        let uncounted = read_pages_and_uncounted(&self.pages, &self.group, used)?;
        Ok(Moment { counts, uncounted })
    }
}

/// Stores the first error of this process; ignores later errors.
#[cold]
fn note_error(error: Error) {
    let generation = fork::generation();
    let first_error = &mut REGIONS.lock().error;
    first_error.take_if(|(error_generation, _)| *error_generation != generation);
    first_error.get_or_insert((generation, error));
}

/// Stores the error of a pass during which the thread ran on a core that lacks an event.
#[cold]
fn note_other_core() {
    let label = events().labels().next();
    if let Some(label) = label {
        note_error(Error {
            attempt: Attempt::ReadEvent(label),
            cause: Cause::OtherCore,
        });
    }
}

impl ThreadMeter {
    /// Opens the events of a thread, or notes the error.
    #[cold]
    fn open() -> Self {
        let meter = Meter::new();
        let generation = fork::generation();
        let meter = meter.map_err(note_error);
        Self {
            generation,
            meter: meter.ok(),
        }
    }

    #[inline]
    fn read(&self) -> Option<Reading> {
        let meter = self.meter.as_ref()?;
        Some(Reading {
            moment: meter.read().ok()?,
            overhead: meter.overhead,
        })
    }
}

/// Reads the thread's events. Returns `None` if the thread can't count, or if the thread is ending and has closed its
/// events.
#[inline]
fn read() -> Option<Reading> {
    let read = |meter: &RefCell<Option<ThreadMeter>>| {
        // The borrow fails in a signal handler that has interrupted this thread while it opened the events.
        let thread_meter = meter.try_borrow().ok()?;
        match &*thread_meter {
            Some(open_meter) if open_meter.generation == fork::generation() => open_meter.read(),
            _ => {
                drop(thread_meter);
                reopen_and_read(meter)
            }
        }
    };
    METER.try_with(read).ok()?
}

/// Opens the events of a thread at its first pass. A child of fork(2) opens events of its own,
/// since the events of the parent count a thread of the parent.
#[cold]
fn reopen_and_read(meter: &RefCell<Option<ThreadMeter>>) -> Option<Reading> {
    let mut thread_meter = meter.try_borrow_mut().ok()?;
    thread_meter.insert(ThreadMeter::open()).read()
}

impl RegionSite {
    /// Creates the static of a [`region!`](crate::region!).
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            registered_in: AtomicU64::new(0),
            passes: AtomicU64::new(0),
            sums: [const { AtomicU64::new(0) }; MAX_EVENTS],
            failed: AtomicU64::new(0),
        }
    }

    /// Begins a pass.
    #[inline]
    #[must_use = "the region ends where the value is dropped"]
    pub fn enter(&'static self) -> Pass {
        if !self.is_registered() {
            self.register();
        }
        Pass {
            site: self,
            generation: fork::generation(),
            // The counts are read last, so that the rest of this function is not counted.
            begin: read().map(|reading| reading.moment),
            thread: PhantomData,
        }
    }

    /// Returns whether the sums belong to this process, and not to a process that has forked it.
    #[inline]
    fn is_registered(&self) -> bool {
        self.registered_in.load(Ordering::Relaxed) == fork::generation() + 1
    }

    /// Sets the sums to 0, and adds the site to the list unless the list has it, as in a child of
    /// fork(2).
    #[cold]
    fn register(&'static self) {
        // The error is ignored: without memory to register the handlers of fork(2), opening the
        // events fails as well, and that error is stored.
        let _ = watch_forks();
        let mut regions = REGIONS.lock();
        if self.is_registered() {
            return;
        }
        for sum in self.sums.iter().chain([&self.passes, &self.failed]) {
            sum.store(0, Ordering::Relaxed);
        }
        let before = self
            .registered_in
            .swap(fork::generation() + 1, Ordering::Relaxed);
        if before == 0 {
            regions.sites.push(self);
        }
    }
}

/// A pass through a region, which ends when the value is dropped.
///
/// The pass must end in the thread where it began, whose events it counts. So it can't be sent to another thread, nor
/// be kept across an `.await` of a task that may change threads:
///
/// ```compile_fail
/// let pass = perfmon::region!("parse");
/// std::thread::spawn(move || drop(pass));
/// ```
#[derive(Debug)]
pub struct Pass {
    site: &'static RegionSite,
    /// The generation of the process in which the pass began.
    generation: u64,
    /// The counts of the thread's events; `None` if they could not be read.
    begin: Option<Moment>,
    /// Makes the type neither `Send` nor `Sync`.
    thread: PhantomData<*const ()>,
}

impl Pass {
    /// Returns the counts of the pass; `None` if it could not be counted.
    #[inline]
    fn counts(&self) -> Option<Values> {
        let begin = self.begin?;
        let Reading {
            moment: end,
            overhead,
        } = read()?;
        if end.uncounted != begin.uncounted {
            note_other_core();
            return None;
        }
        let mut counts = end.counts;
        let subtracted = begin.counts.into_iter().zip(overhead);
        for (count, (begin, overhead)) in counts.iter_mut().zip(subtracted) {
            *count = count.checked_sub(begin)?.saturating_sub(overhead);
        }
        Some(counts)
    }
}

impl Drop for Pass {
    #[inline]
    fn drop(&mut self) {
        // The pass began before a fork, so it counts in the parent only.
        if self.generation != fork::generation() {
            return;
        }
        match self.counts() {
            Some(counts) => {
                self.site.passes.fetch_add(1, Ordering::Relaxed);
                for (sum, count) in self.site.sums.iter().zip(counts) {
                    sum.fetch_add(count, Ordering::Relaxed);
                }
            }
            None => {
                self.site.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use nix::libc;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, alarm, fork};

    use super::*;

    static OUTER: RegionSite = RegionSite::new("outer");

    /// Returns how many passes of `OUTER` were counted and how many failed. Without the device each pass fails.
    fn sums() -> Option<(u64, u64)> {
        let totals = totals();
        let total = totals.iter().find(|total| total.name == "outer")?;
        Some((total.passes, total.failed))
    }

    #[test]
    fn a_child_has_own_sums_whatever_the_other_threads_do() {
        let pass = OUTER.enter();
        let (sender, receiver) = mpsc::channel();
        let other = thread::spawn(move || {
            let regions = REGIONS.lock();
            sender.send(()).expect("the test waits");
            thread::sleep(Duration::from_millis(100));
            drop(regions);
        });
        receiver.recv().expect("the thread sends");
        // SAFETY: `fork` requires that the child takes no lock that another thread may hold, since the child lacks the
        // thread: it makes system calls, and takes only the lock of the regions, which is held over the fork.
        match unsafe { fork() }.expect("a child") {
            ForkResult::Parent { child } => {
                let end = waitpid(child, None).expect("the child's end");
                assert_eq!(end, WaitStatus::Exited(child, 0));
            }
            ForkResult::Child => {
                alarm::set(100);
                drop(OUTER.enter());
                drop(pass);
                let code = i32::from(sums().is_none_or(|(passes, failed)| passes + failed != 1));
                // SAFETY: _exit(2) takes an integer, accesses no memory and does not return.
                unsafe { libc::_exit(code) }
            }
        }
        other.join().expect("the thread ends");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions: counts between two points of a program, summed up over all passes.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;

use super::Event;
use super::user_page::PageMapping;
use crate::Error;
use crate::sys::fork::{self, ForkMutex, Held};

/// Counts the instructions of the calling thread in user mode until the returned value is dropped, under a name.
///
/// A thread opens the event at its first region. The event is read without a system call where possible, and the
/// instructions of the readings are subtracted. [`totals`](crate::event::region::totals) returns the sums. A child of
/// fork(2) begins with sums of 0; a pass that has begun before the fork does not count there.
///
/// ```no_run
/// fn parse(text: &str) -> usize {
///     let _region = perfmon::region!("parse");
///     text.split(' ').count()
/// }
/// parse("some words");
/// for total in perfmon::event::region::totals() {
///     println!("{}: {} instructions in {} passes", total.name, total.instructions, total.passes);
/// }
/// ```
#[macro_export]
macro_rules! region {
    ($name:expr) => {{
        static SITE: $crate::event::region::Site = $crate::event::region::Site::new($name);
        SITE.enter()
    }};
}

/// A place in the source where [`region!`](crate::region!) stands.
#[derive(Debug)]
pub struct Site {
    name: &'static str,
    /// The generation of the process to which the sums belong, plus 1; 0 before the first pass.
    registered_in: AtomicU64,
    passes: AtomicU64,
    instructions: AtomicU64,
    /// Passes without a count.
    failed: AtomicU64,
}

/// The sums of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Total {
    /// The name.
    pub name: &'static str,
    /// Number of times that the region was passed and counted.
    pub passes: u64,
    /// The instructions counted in these passes.
    pub instructions: u64,
    /// Passes that could not be counted; [`error`] says why.
    pub failed: u64,
}

/// The state of the regions that all threads of a process share.
struct Regions {
    /// The sites that were entered at least once, in this process or before it was forked.
    sites: Vec<&'static Site>,
    /// The error of the first thread that could not count, and the generation of its process.
    error: Option<(u64, Error)>,
}

/// The regions. The mutex is locked while the process forks.
static REGIONS: ForkMutex<Regions> = ForkMutex::new(
    Regions {
        sites: Vec::new(),
        error: None,
    },
    &HELD,
);

thread_local! {
    /// The lock of `REGIONS` while this thread forks.
    static HELD: Held<Regions> = const { Cell::new(None) };
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
    let total = |site: &&Site| Total {
        name: site.name,
        passes: site.passes.load(Ordering::Relaxed),
        instructions: site.instructions.load(Ordering::Relaxed),
        failed: site.failed.load(Ordering::Relaxed),
    };
    let sites = regions.sites.iter().filter(|site| site.is_registered());
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

/// The event of a thread, which is read at the ends of regions.
struct Meter {
    event: Event,
    page: PageMapping,
    /// Instructions that an empty region counts.
    overhead: u64,
}

/// The meter of a thread, in the process that opened it.
struct ThreadMeter {
    generation: u64,
    /// `None` if the thread can't count.
    meter: Option<Meter>,
}

/// The count of a meter at a moment.
struct Reading {
    count: u64,
    overhead: u64,
}

thread_local! {
    static METER: RefCell<Option<ThreadMeter>> = const { RefCell::new(None) };
}

impl Meter {
    fn new() -> Result<Self, Error> {
        let event = Event::instructions().user().open()?;
        let page = PageMapping::new(&event)?;
        let mut meter = Self {
            event,
            page,
            overhead: 0,
        };
        // The smallest of eight differences: a reading may fall back to read(2), or be repeated.
        let mut overhead = u64::MAX;
        for _ in 0..8 {
            let count_before = meter.read()?;
            overhead = overhead.min(meter.read()? - count_before);
        }
        meter.overhead = overhead;
        Ok(meter)
    }

    #[inline]
    fn read(&self) -> Result<u64, Error> {
        self.page.read(&self.event)
    }
}

impl ThreadMeter {
    /// Opens the event of a thread, or notes the error.
    #[cold]
    fn open() -> Self {
        let meter = Meter::new();
        let generation = fork::generation();
        let meter = meter.map_err(|error| {
            let first_error = &mut REGIONS.lock().error;
            first_error.take_if(|(of, _)| *of != generation);
            first_error.get_or_insert((generation, error));
        });
        Self {
            generation,
            meter: meter.ok(),
        }
    }

    #[inline]
    fn read(&self) -> Option<Reading> {
        let meter = self.meter.as_ref()?;
        Some(Reading {
            count: meter.read().ok()?,
            overhead: meter.overhead,
        })
    }
}

/// Reads the thread's event. Returns `None` if the thread can't count, or ends and has closed its event.
#[inline]
fn read() -> Option<Reading> {
    let read = |meter: &RefCell<Option<ThreadMeter>>| {
        // It is borrowed if this is a signal handler, and the interrupted code opens the event.
        let opened = meter.try_borrow().ok()?;
        match &*opened {
            Some(opened) if opened.generation == fork::generation() => opened.read(),
            _ => {
                drop(opened);
                reopen_and_read(meter)
            }
        }
    };
    METER.try_with(read).ok()?
}

/// Opens the event of a thread at its first pass. A child of fork(2) opens one of its own, since the parent's counts the
/// thread of the parent.
#[cold]
fn reopen_and_read(meter: &RefCell<Option<ThreadMeter>>) -> Option<Reading> {
    let mut opened = meter.try_borrow_mut().ok()?;
    opened.insert(ThreadMeter::open()).read()
}

impl Site {
    /// Creates the static of a [`region!`](crate::region!).
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            registered_in: AtomicU64::new(0),
            passes: AtomicU64::new(0),
            instructions: AtomicU64::new(0),
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
            // Read last, so that the rest of this function is not counted.
            begin: read().map(|reading| reading.count),
            thread: PhantomData,
        }
    }

    /// Returns whether the sums are those of this process.
    #[inline]
    fn is_registered(&self) -> bool {
        self.registered_in.load(Ordering::Relaxed) == fork::generation() + 1
    }

    /// Adds the site to the list, or begins its sums again in a child of fork(2).
    #[cold]
    fn register(&'static self) {
        // Without memory for this, opening the event fails as well, and its error is noted.
        let _ = watch_forks();
        let mut regions = REGIONS.lock();
        if self.is_registered() {
            return;
        }
        for sum in [&self.passes, &self.instructions, &self.failed] {
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
/// It ends in the thread where it began, whose instructions it counts. It can't be sent to another one, nor be kept across
/// an `.await` of a task that may change threads:
///
/// ```compile_fail
/// let pass = perfmon::region!("parse");
/// std::thread::spawn(move || drop(pass));
/// ```
#[derive(Debug)]
pub struct Pass {
    site: &'static Site,
    /// The generation of the process in which the pass began.
    generation: u64,
    /// The count of the thread's event; `None` if it could not be read.
    begin: Option<u64>,
    /// Makes the type neither `Send` nor `Sync`.
    thread: PhantomData<*const ()>,
}

impl Pass {
    /// Returns the instructions of the pass; `None` if it could not be counted.
    #[inline]
    fn count(&self) -> Option<u64> {
        let begin = self.begin?;
        let end = read()?;
        let count = end.count.checked_sub(begin)?;
        Some(count.saturating_sub(end.overhead))
    }
}

impl Drop for Pass {
    #[inline]
    fn drop(&mut self) {
        // The pass began before a fork, and counts in the parent only.
        if self.generation != fork::generation() {
            return;
        }
        match self.count() {
            Some(count) => {
                self.site.passes.fetch_add(1, Ordering::Relaxed);
                self.site.instructions.fetch_add(count, Ordering::Relaxed);
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

    static OUTER: Site = Site::new("outer");

    /// Without the device each pass fails.
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
        // SAFETY: The child makes system calls, and takes locks that fork(2) has released.
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

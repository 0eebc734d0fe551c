// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regions: counts between two points of a program, summed up over all passes.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Event;
use super::user_page::PageMapping;
use crate::Error;

/// Counts the instructions of the calling thread in user mode until the returned value is dropped, under a name.
///
/// A thread opens the event at its first region. The event is read without a system call where possible, and the
/// instructions of the readings are subtracted. [`totals`](crate::event::region::totals) returns the sums.
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
    is_registered: AtomicBool,
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

/// The sites that were entered at least once.
static SITES: Mutex<Vec<&'static Site>> = Mutex::new(Vec::new());

/// The error of the first thread that could not count.
static ERROR: Mutex<Option<Error>> = Mutex::new(None);

/// Returns the sums of all regions that were passed, in the order of their first pass.
#[must_use]
pub fn totals() -> Vec<Total> {
    let sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    let total = |site: &&Site| Total {
        name: site.name,
        passes: site.passes.load(Ordering::Relaxed),
        instructions: site.instructions.load(Ordering::Relaxed),
        failed: site.failed.load(Ordering::Relaxed),
    };
    sites.iter().map(total).collect()
}

/// Returns the first error that kept regions from being counted; `None` if all were counted.
#[must_use]
pub fn error() -> Option<Error> {
    ERROR.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The event of a thread, which is read at the ends of regions.
struct Meter {
    event: Event,
    page: PageMapping,
    /// Instructions that an empty region counts.
    overhead: u64,
}

thread_local! {
    static METER: OnceCell<Option<Meter>> = const { OnceCell::new() };
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

/// Returns the count of the thread's event, and the overhead of an empty region.
#[inline]
fn read() -> Option<(u64, u64)> {
    METER.with(|meter| {
        let meter = meter.get_or_init(open_meter).as_ref()?;
        Some((meter.read().ok()?, meter.overhead))
    })
}

/// Opens the event of a thread, or notes the error.
#[cold]
fn open_meter() -> Option<Meter> {
    match Meter::new() {
        Ok(meter) => Some(meter),
        Err(error) => {
            let mut first_error = ERROR.lock().unwrap_or_else(PoisonError::into_inner);
            first_error.get_or_insert(error);
            None
        }
    }
}

impl Site {
    /// Creates the static of a [`region!`](crate::region!).
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            is_registered: AtomicBool::new(false),
            passes: AtomicU64::new(0),
            instructions: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Begins a pass.
    #[inline]
    #[must_use = "the region ends where the value is dropped"]
    pub fn enter(&'static self) -> Pass {
        if !self.is_registered.load(Ordering::Relaxed) {
            self.register();
        }
        Pass {
            site: self,
            // Read last, so that the rest of this function is not counted.
            begin: read().map(|(count, _)| count),
        }
    }

    #[cold]
    fn register(&'static self) {
        let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_registered.swap(true, Ordering::Relaxed) {
            sites.push(self);
        }
    }
}

/// A pass through a region, which ends when the value is dropped.
#[derive(Debug)]
pub struct Pass {
    site: &'static Site,
    begin: Option<u64>,
}

impl Drop for Pass {
    #[inline]
    fn drop(&mut self) {
        let (Some(begin), Some((end, overhead))) = (self.begin, read()) else {
            self.site.failed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let count = (end - begin).saturating_sub(overhead);
        self.site.passes.fetch_add(1, Ordering::Relaxed);
        self.site.instructions.fetch_add(count, Ordering::Relaxed);
    }
}

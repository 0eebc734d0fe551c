// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tries each interface of the driver for a moment, with this user's rights.

use std::hint::black_box;
use std::num::NonZeroUsize;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use perfmon::event::Owners;
use perfmon::sampler::Record;
use perfmon::trace::Alloc;
use perfmon::{CounterId, Device, Error, Event, EventSelect, Modes, Session};

use crate::system::precise::{self, PreciseSamples};

/// Number of rounds of the counted loop. A round takes at least one instruction.
pub(super) const LOOP_ROUNDS: u64 = 100_000;
/// Length in bytes of the mapping that [`record_mappings`] makes. The kernel rounds it up to a
/// page.
const MAPPED_BYTES: NonZeroUsize = NonZeroUsize::MIN;
/// Period of the samples in instructions.
const SAMPLE_PERIOD: u64 = 10_007;

/// The text of a check whose interface was not tried: [`Trial::NotTried`].
pub(super) const NOT_TRIED: &str = "not tried: these are the files of another machine";

/// The outcome of trying an interface.
#[derive(Debug)]
pub(super) enum Trial {
    /// The interface was not tried, since the facts are of another machine.
    NotTried,
    /// The interface was used, and gave this number of instructions, samples, mappings or buffers.
    Succeeded(u64),
    Failed(Error),
}

impl From<Result<u64, Error>> for Trial {
    fn from(result: Result<u64, Error>) -> Self {
        match result {
            Ok(number) => Self::Succeeded(number),
            Err(error) => Self::Failed(error),
        }
    }
}

impl Trial {
    /// Returns whether all instructions of the loop were counted.
    pub(super) fn has_counted(&self) -> bool {
        matches!(self, Self::Succeeded(instructions) if *instructions >= LOOP_ROUNDS)
    }

    pub(super) fn error(&self) -> Option<&Error> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

/// The outcomes for each interface.
#[derive(Debug)]
pub(super) struct Trials {
    /// An event of this thread, which `pmctl stat -- COMMAND` uses.
    pub(super) event: Trial,
    /// A counter of all CPUs, which `pmctl stat -a` uses.
    pub(super) counter: Trial,
    /// Samples of this thread, which `pmctl record -- COMMAND` uses.
    pub(super) sampling: Trial,
    /// Records of this thread's mappings. Samples need such records to get names.
    pub(super) mappings: Trial,
    /// The kernel has the kprobes that records of mappings need.
    pub(super) has_probes: bool,
    /// The precise samples that the driver supports; `None` if the device can't be opened.
    pub(super) precise_support: Option<Result<Option<PreciseSamples>, Error>>,
    /// Precise samples of this thread, if they are supported.
    pub(super) precise: Trial,
    /// Buffers of a trace, which `pmctl record --timebase` uses.
    pub(super) trace: Trial,
    /// The driver keeps perf off the counters by place-holders: perf events that displace perf's other events.
    pub(super) has_place_holder: bool,
    /// The programs that had counters before the trials; `None` if the device can't be opened.
    pub(super) owners: Option<Owners>,
}

impl Trials {
    /// Returns the trials of a machine on which nothing is tried.
    pub(super) fn none() -> Self {
        Self {
            event: Trial::NotTried,
            counter: Trial::NotTried,
            sampling: Trial::NotTried,
            mappings: Trial::NotTried,
            has_probes: false,
            precise_support: None,
            precise: Trial::NotTried,
            trace: Trial::NotTried,
            has_place_holder: false,
            owners: None,
        }
    }

    /// Tries each interface: counts a loop by an event and by a counter, samples it with and without precision, maps a page,
    /// and allocates the buffers of a trace.
    pub(super) fn run() -> Self {
        let device = Device::open();
        let owners = device.as_ref().ok().map(Device::owners);
        let info = device.as_ref().map(Device::info);
        let has_probes = matches!(&info, Ok(Ok(info)) if info.has_mappings);
        let has_place_holder = matches!(&info, Ok(Ok(info)) if info.has_place_holders);
        let event = count_by_event().into();
        let sampling = take_samples(0).into();
        let precise_support = device.as_ref().ok().map(precise::supported_by);
        let precise = match precise_support {
            Some(Ok(Some(_))) => take_samples(precise::ANY_FORMAT_PRECISION).into(),
            _ => Trial::NotTried,
        };
        let mappings = record_mappings().into();
        let (counter, trace) = match Session::open() {
            Ok(session) => (
                count_by_session(&session).into(),
                allocate_buffers(&session).into(),
            ),
            Err(error) => (Trial::Failed(error.clone()), Trial::Failed(error)),
        };
        Self {
            event,
            counter,
            sampling,
            mappings,
            has_probes,
            precise_support,
            precise,
            trace,
            has_place_holder,
            owners,
        }
    }
}

/// Runs the loop that is counted.
fn run_loop() {
    for round in 0..LOOP_ROUNDS {
        black_box(round);
    }
}

/// Counts the instructions of the loop by an event of this thread.
fn count_by_event() -> Result<u64, Error> {
    let event = Event::instructions().user().this_thread().open()?;
    run_loop();
    event.disable()?;
    event.read()
}

/// Returns the number of samples of the loop, with this level of precision.
fn take_samples(precision: u8) -> Result<u64, Error> {
    let event = Event::instructions().user().this_thread();
    let event = event.precise(precision);
    let mut sampler = event.period(SAMPLE_PERIOD).pages(1).sample()?;
    run_loop();
    sampler.disable()?;
    let mut samples = 0;
    for record in &sampler.records() {
        samples += u64::from(matches!(record?, Record::Sample(_)));
    }
    Ok(samples)
}

/// Maps a page, and returns the number of records of mappings.
fn record_mappings() -> Result<u64, Error> {
    let event = Event::dummy().user().this_thread();
    let mut sampler = event.mappings().pages(1).sample()?;
    // SAFETY: `mmap_anonymous` requires that it replaces no mapping in use. Without an address and MAP_FIXED, the
    // kernel chooses an unused range. The memory is not accessed.
    let mapped = unsafe {
        mmap_anonymous(
            None,
            MAPPED_BYTES,
            ProtFlags::PROT_READ | ProtFlags::PROT_EXEC,
            MapFlags::MAP_PRIVATE,
        )
    };
    if let Ok(start) = mapped {
        // SAFETY: `munmap` requires that nothing uses the memory afterwards. `start` is from the mmap above with this
        // length, and no reference to the memory exists.
        let result = unsafe { munmap(start, MAPPED_BYTES.get()) };
        debug_assert!(result.is_ok(), "munmap of a mapping fails");
    }
    let mut mappings = 0;
    for record in &sampler.records() {
        mappings += u64::from(matches!(record?, Record::Map(_)));
    }
    Ok(mappings)
}

/// Counts the instructions of the loop by a counter of all CPUs.
fn count_by_session(session: &Session) -> Result<u64, Error> {
    let instructions = EventSelect::new(0xc0, 0x00).modes(Modes::User);
    let counter = session.counter(CounterId::General(0), instructions)?;
    counter.start()?;
    run_loop();
    counter.stop()?;
    counter.read()
}

/// Allocates the buffers of a trace, and returns their number.
fn allocate_buffers(session: &Session) -> Result<u64, Error> {
    let info = session.device().info()?;
    let allocation = Alloc::new(&info, 1);
    drop(session.allocate(allocation)?);
    Ok(allocation.buffers.into())
}

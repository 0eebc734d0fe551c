// SPDX-License-Identifier: MIT OR Apache-2.0
//! The proof: each interface of the driver is used for a moment, by this user.

use std::hint::black_box;
use std::num::NonZeroUsize;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use perfmon::event::Owners;
use perfmon::sampler::Record;
use perfmon::trace::Alloc;
use perfmon::{CounterId, Device, Error, Event, EventSelect, Modes, Session};

/// Instructions that are counted at least: a loop of so many rounds.
pub(super) const LOOP_ROUNDS: u64 = 100_000;
/// The bytes that are mapped: a page has them.
const MAPPED_BYTES: NonZeroUsize = NonZeroUsize::MIN;
/// The instructions from a sample to the next.
const SAMPLE_PERIOD: u64 = 10_007;

/// Outcome of an attempt.
#[derive(Debug)]
pub(super) enum Trial {
    /// A recording can't count.
    NotTried,
    /// Success: the number of instructions, of samples, or of buffers.
    Did(u64),
    Failed(Error),
}

impl From<Result<u64, Error>> for Trial {
    fn from(result: Result<u64, Error>) -> Self {
        match result {
            Ok(number) => Self::Did(number),
            Err(error) => Self::Failed(error),
        }
    }
}

impl Trial {
    pub(super) fn is_counted(&self) -> bool {
        matches!(self, Self::Did(instructions) if *instructions >= LOOP_ROUNDS)
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
    /// An event of this thread, as of `pmctl stat -- COMMAND`.
    pub(super) event: Trial,
    /// A counter of all CPUs, as of `pmctl stat -a`.
    pub(super) counter: Trial,
    /// Samples of this thread, as of `pmctl record -- COMMAND`.
    pub(super) sampled: Trial,
    /// The records of what this thread maps, as samples need for their names.
    pub(super) mappings: Trial,
    /// The kernel has the probes that such records need.
    pub(super) has_probes: bool,
    /// The buffers of a trace, as of `pmctl record --timebase`.
    pub(super) trace: Trial,
    /// The driver keeps perf off the counters by events of perf's own, which displace others.
    pub(super) has_place_holder: bool,
    /// The programs that had counters meanwhile.
    pub(super) owners: Owners,
}

impl Trials {
    pub(super) fn none() -> Self {
        Self {
            event: Trial::NotTried,
            counter: Trial::NotTried,
            sampled: Trial::NotTried,
            mappings: Trial::NotTried,
            has_probes: false,
            trace: Trial::NotTried,
            has_place_holder: false,
            owners: Owners::default(),
        }
    }

    /// Counts the instructions of a loop, twice, samples it, maps something, and allocates buffers.
    pub(super) fn run() -> Self {
        let device = Device::open();
        let owners = device.as_ref().map(Device::owners);
        let info = device.as_ref().map(Device::info);
        let has_probes = matches!(&info, Ok(Ok(info)) if info.mappings);
        let has_place_holder = matches!(&info, Ok(Ok(info)) if info.place_holder);
        let event = event().into();
        let sampled = samples().into();
        let mappings = mappings().into();
        let (counter, trace) = match Session::open() {
            Ok(session) => (counter(&session).into(), buffers(&session).into()),
            Err(error) => (Trial::Failed(error.clone()), Trial::Failed(error)),
        };
        Self {
            event,
            counter,
            sampled,
            mappings,
            has_probes,
            trace,
            has_place_holder,
            owners: owners.unwrap_or_default(),
        }
    }
}

fn work() {
    for round in 0..LOOP_ROUNDS {
        black_box(round);
    }
}

fn event() -> Result<u64, Error> {
    let event = Event::instructions().user().this_thread().open()?;
    work();
    event.disable()?;
    event.read()
}

fn samples() -> Result<u64, Error> {
    let event = Event::instructions().user().this_thread();
    let mut sampler = event.period(SAMPLE_PERIOD).pages(1).sample()?;
    work();
    sampler.disable()?;
    let mut samples = 0;
    for record in &sampler.records() {
        samples += u64::from(matches!(record?, Record::Sample(_)));
    }
    Ok(samples)
}

fn mappings() -> Result<u64, Error> {
    let event = Event::dummy().user().this_thread();
    let mut sampler = event.mappings().pages(1).sample()?;
    // SAFETY: The kernel chooses an address where nothing is, and nothing is read or written there.
    let mapped = unsafe {
        mmap_anonymous(
            None,
            MAPPED_BYTES,
            ProtFlags::PROT_READ | ProtFlags::PROT_EXEC,
            MapFlags::MAP_PRIVATE,
        )
    };
    if let Ok(start) = mapped {
        // SAFETY: It was just mapped with this length, and there is no reference to it.
        let result = unsafe { munmap(start, MAPPED_BYTES.get()) };
        debug_assert!(result.is_ok(), "munmap of what mmap gave");
    }
    let mut mappings = 0;
    for record in &sampler.records() {
        mappings += u64::from(matches!(record?, Record::Map(_)));
    }
    Ok(mappings)
}

fn counter(session: &Session) -> Result<u64, Error> {
    let instructions = EventSelect::new(0xc0, 0x00).modes(Modes::User);
    let counter = session.counter(CounterId::General(0), instructions)?;
    counter.start()?;
    work();
    counter.stop()?;
    counter.read()
}

fn buffers(session: &Session) -> Result<u64, Error> {
    let info = session.device().info()?;
    let alloc = Alloc::new(&info, 1);
    drop(session.allocate(alloc)?);
    Ok(alloc.buffers.into())
}

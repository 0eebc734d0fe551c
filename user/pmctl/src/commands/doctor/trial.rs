// SPDX-License-Identifier: MIT OR Apache-2.0
//! The proof: each interface of the driver is used for a moment, by this user.

use std::hint::black_box;

use perfmon::event::Owners;
use perfmon::sampler::Record;
use perfmon::trace::Alloc;
use perfmon::{CounterId, Device, Error, Event, EventSelect, Modes, Session};

/// Instructions that are counted at least: a loop of so many rounds.
pub(super) const ROUNDS: u64 = 100_000;
/// The instructions from a sample to the next.
const PERIOD: u64 = 10_007;

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
        matches!(self, Self::Did(instructions) if *instructions >= ROUNDS)
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
            trace: Trial::NotTried,
            has_place_holder: false,
            owners: Owners::default(),
        }
    }

    /// Counts the instructions of a loop, twice, samples it, and allocates buffers.
    pub(super) fn run() -> Self {
        let device = Device::open();
        let has_place_holder = device
            .as_ref()
            .is_ok_and(|device| device.info().is_ok_and(|info| info.place_holder));
        let owners = device.map(|device| device.owners());
        let event = event().into();
        let sampled = samples().into();
        let (counter, trace) = match Session::open() {
            Ok(session) => (counter(&session).into(), buffers(&session).into()),
            Err(error) => (Trial::Failed(error.clone()), Trial::Failed(error)),
        };
        Self {
            event,
            counter,
            sampled,
            trace,
            has_place_holder,
            owners: owners.unwrap_or_default(),
        }
    }
}

fn work() {
    for round in 0..ROUNDS {
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
    let mut sampler = event.period(PERIOD).pages(1).sample()?;
    work();
    sampler.disable()?;
    let mut samples = 0;
    for record in &sampler.records() {
        samples += u64::from(matches!(record?, Record::Sample(_)));
    }
    Ok(samples)
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

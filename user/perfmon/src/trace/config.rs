// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace records.

use perfmon_core::abi;
use perfmon_core::logic::config::{self, Refused};
use perfmon_core::logic::cpuid::Capabilities;
use perfmon_core::logic::evtsel;

use super::EventId;
use crate::Modes;

/// An event of a trace, and what is recorded of it.
///
/// ```
/// use perfmon::Modes;
/// use perfmon::trace::{ArchEvent, Event};
///
/// // Where programs are, every million instructions.
/// let event = Event::sampling(ArchEvent::Instructions, 1_000_000).modes(Modes::User).pc();
/// assert_eq!(event.rate, 1_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which event.
    pub id: EventId,
    /// A record is made each time that it has been counted so often; 0: only at the end of the trace.
    pub rate: u32,
    /// In which modes of the CPU it is counted.
    pub modes: Modes,
    /// Whether its ticks say where the CPU is: [`Record::Pc`](super::Record::Pc) instead of `Tick`.
    pub pc: bool,
    /// Whether it is counted whenever the first event ticks, and has no ticks of its own.
    pub timebase0: bool,
    /// Whether its ticks come with the last branches.
    pub last_branch: bool,
}

impl Event {
    /// Counts it: one record at the end.
    #[must_use]
    pub fn counting(id: impl Into<EventId>) -> Self {
        Self {
            id: id.into(),
            rate: 0,
            modes: Modes::Both,
            pc: false,
            timebase0: false,
            last_branch: false,
        }
    }

    /// Makes a record of it each time that it has happened `rate` times: 1 to 2^32 - 1, and at most 2^31 if
    /// the CPUs have no [full-width writes](crate::Info::full_width_writes).
    #[must_use]
    pub fn sampling(id: impl Into<EventId>, rate: u32) -> Self {
        Self {
            rate,
            ..Self::counting(id)
        }
    }

    /// Counts it between the ticks of the config's first event: a record with each of those.
    #[must_use]
    pub fn with_timebase(id: impl Into<EventId>) -> Self {
        Self {
            timebase0: true,
            ..Self::counting(id)
        }
    }

    /// Counts it only in these modes of the CPU.
    #[must_use]
    pub const fn modes(self, modes: Modes) -> Self {
        Self { modes, ..self }
    }

    /// Records where the CPU is at each tick.
    #[must_use]
    pub const fn pc(self) -> Self {
        Self { pc: true, ..self }
    }

    /// Records the last branches at each tick.
    #[must_use]
    pub const fn last_branch(self) -> Self {
        Self {
            last_branch: true,
            ..self
        }
    }
}

/// What a trace records: up to 32 events, and what of each.
///
/// ```
/// use perfmon::trace::{ArchEvent, Config, Event, FixedEvent};
///
/// // Every 100000 instructions, where the CPU is, and how many cache misses there were.
/// let config = Config::builder()
///     .event(Event::sampling(FixedEvent::Instructions, 100_000).pc())
///     .event(Event::with_timebase(ArchEvent::LlcMisses))
///     .build()?;
/// assert_eq!(config.events().len(), 2);
/// # Ok::<(), perfmon::trace::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config(Vec<Event>);

/// The CPU that can do everything: what is refused for it is refused for all.
const ANY_CPU: Capabilities = Capabilities {
    general: 32,
    general_width: 64,
    fixed: u16::MAX,
    fixed_width: 64,
    full_width_writes: true,
    arch_events: u32::MAX,
    last_branch: true,
    ..Capabilities::NOTHING
};

impl Config {
    /// A config without events, to add some.
    pub const fn builder() -> ConfigBuilder {
        ConfigBuilder(Vec::new())
    }

    /// The events, the timebase first.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.0
    }

    /// What one tick stands for, for each event; `None` for those that have none.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (EventId, Option<u32>)> {
        self.0.iter().enumerate().map(|(n, event)| {
            let depends = event.timebase0 && n != 0;
            let rate = (event.rate != 0 && !depends).then_some(event.rate);
            (event.id, rate)
        })
    }

    /// The structure of the ABI.
    #[must_use]
    pub fn to_abi(&self) -> abi::perfmon_config {
        to_abi(&self.0)
    }

    /// The same from the structure of the ABI, as the driver or a recording has it.
    ///
    /// ```
    /// use perfmon::trace::{ArchEvent, Config, Event};
    ///
    /// let config = Config::builder().event(Event::counting(ArchEvent::Branches)).build()?;
    /// assert_eq!(Config::from_abi(&config.to_abi()), Ok(config));
    /// # Ok::<(), perfmon::trace::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`], as for [`ConfigBuilder::build`].
    pub fn from_abi(raw: &abi::perfmon_config) -> Result<Self, ConfigError> {
        check(raw).map_err(|refused| ConfigError {
            event: None,
            problem: refused.into(),
        })?;
        let rows = raw.events.iter().zip(&raw.rate).zip(&raw.flags);
        let events = rows
            .map(|((&id, &rate), &flags)| (EventId::from_bits(id), rate, flags))
            .take_while(|&(id, ..)| id != EventId::NONE)
            .map(|(id, rate, flags)| Event::from_abi(id, rate, flags));
        events.collect::<Result<_, _>>().map(Self)
    }
}

/// A [`Config`] in the making.
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `build` makes a `Config`"]
pub struct ConfigBuilder(Vec<Event>);

impl ConfigBuilder {
    /// Adds an event. The first one is the timebase, if there is one.
    pub fn event(mut self, event: Event) -> Self {
        self.0.push(event);
        self
    }

    /// Checks all that can be checked without knowing the CPUs, by the driver's own rules.
    ///
    /// ```
    /// use perfmon::trace::{ArchEvent, Config, ConfigProblem, Event};
    ///
    /// let counting = Event::counting(ArchEvent::Branches);
    /// let error = Config::builder().event(counting).event(counting).build().unwrap_err();
    /// assert_eq!(error.problem, ConfigProblem::Twice);
    /// assert_eq!(error.to_string(), "architectural event 5: is there already; an event has one place");
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`], about the first event that does not go with those before it.
    pub fn build(self) -> Result<Config, ConfigError> {
        let events = self.0;
        let error = |event: Option<&Event>, problem| ConfigError {
            event: event.map(|event| event.id),
            problem,
        };
        if let Some(event) = events.get(config::MAX_EVENTS) {
            return Err(error(Some(event), ConfigProblem::TooMany));
        }
        if events.is_empty() {
            return Err(error(None, ConfigProblem::NoEvent));
        }
        // The ABI takes this one for the end of the config.
        if let Some(none) = events.iter().find(|event| event.id == EventId::NONE) {
            return Err(error(Some(none), ConfigProblem::Event));
        }
        for end in 1..=events.len() {
            check(&to_abi(&events[..end]))
                .map_err(|refused| error(events.get(end - 1), refused.into()))?;
        }
        Ok(Config(events))
    }
}

/// The driver's rules, on the CPU that can do everything.
fn check(raw: &abi::perfmon_config) -> Result<(), Refused> {
    // Which ids the program has defined is the driver's business.
    let defined = |_| Some(evtsel::EventSelect::new(0, 0));
    config::Config::new(raw, &ANY_CPU, defined).map(drop)
}

/// The structure for at most [`config::MAX_EVENTS`] events.
fn to_abi(events: &[Event]) -> abi::perfmon_config {
    let mut raw = abi::perfmon_config {
        events: [EventId::NONE.bits(); config::MAX_EVENTS],
        rate: [0; config::MAX_EVENTS],
        flags: [0; config::MAX_EVENTS],
    };
    for (n, event) in events.iter().enumerate() {
        raw.events[n] = event.id.bits();
        raw.rate[n] = event.rate;
        raw.flags[n] = event.flags();
    }
    raw
}

/// The flags of each of the modes.
const MODES: [(Modes, u32); 3] = [
    (Modes::User, abi::PERFMON_CONFIG_FLAG_USER),
    (Modes::Kernel, abi::PERFMON_CONFIG_FLAG_OS),
    (Modes::Both, BOTH),
];
const BOTH: u32 = abi::PERFMON_CONFIG_FLAG_USER | abi::PERFMON_CONFIG_FLAG_OS;

impl Event {
    /// `PERFMON_CONFIG_FLAG_*`
    fn flags(&self) -> u32 {
        let switches = [
            (self.pc, abi::PERFMON_CONFIG_FLAG_PC),
            (self.timebase0, abi::PERFMON_CONFIG_FLAG_TIMEBASE0),
            (self.last_branch, abi::PERFMON_CONFIG_FLAG_LAST_BRANCH),
        ];
        let modes = MODES.iter().filter(|row| row.0 == self.modes);
        let set = switches.iter().filter(|row| row.0);
        modes.map(|row| row.1).chain(set.map(|row| row.1)).sum()
    }

    fn from_abi(id: EventId, rate: u32, flags: u32) -> Result<Self, ConfigError> {
        let modes = MODES.iter().find(|row| row.1 == flags & BOTH);
        let &(modes, _) = modes.ok_or(ConfigError {
            event: Some(id),
            problem: ConfigProblem::NoModes,
        })?;
        Ok(Self {
            id,
            rate,
            modes,
            pc: flags & abi::PERFMON_CONFIG_FLAG_PC != 0,
            timebase0: flags & abi::PERFMON_CONFIG_FLAG_TIMEBASE0 != 0,
            last_branch: flags & abi::PERFMON_CONFIG_FLAG_LAST_BRANCH != 0,
        })
    }
}

/// Why no CPU can record this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .event.map(|event| format!("{event}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// The event that does not go with those before it, if it is known.
    pub event: Option<EventId>,
    /// What is wrong.
    pub problem: ConfigProblem,
}

/// What is wrong with a config, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// There is no event.
    #[error("there is no event; add one")]
    NoEvent,
    /// There is something behind the last event.
    #[error("there is something behind the last event; events come without holes, the rest is 0")]
    AfterTheEnd,
    /// There is no such flag.
    #[error("has a flag that does not exist")]
    Flag,
    /// There is no such event.
    #[error("no CPU has it")]
    Event,
    /// The event is there already.
    #[error("is there already; an event has one place")]
    Twice,
    /// There are more events than a CPU can have counters.
    #[error("no CPU has a counter left for it; record it in another trace")]
    TooMany,
    /// The rate is larger than the counter.
    #[error("its rate is larger than its counter; take a lower one")]
    Rate,
    /// It is to have branch records, and does not tick.
    #[error("branches are recorded at its own ticks only; give it a rate, and no timebase")]
    LastBranch,
    /// Others have branch records, too, in other modes.
    #[error("branches are recorded in the same modes for all events; give them the same")]
    LastBranchModes,
    /// The timebase does not tick.
    #[error("the first event is its timebase, and has no rate; give it one")]
    Timebase,
    /// It is counted in no mode.
    #[error("is counted neither in programs nor in the kernel; choose a mode")]
    NoModes,
}

impl From<Refused> for ConfigProblem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoEvent => Self::NoEvent,
            Refused::AfterTheEnd => Self::AfterTheEnd,
            Refused::Flag => Self::Flag,
            Refused::Event => Self::Event,
            Refused::Twice => Self::Twice,
            Refused::TooMany => Self::TooMany,
            Refused::Rate => Self::Rate,
            Refused::LastBranch => Self::LastBranch,
            Refused::LastBranchModes => Self::LastBranchModes,
            Refused::Timebase => Self::Timebase,
        }
    }
}

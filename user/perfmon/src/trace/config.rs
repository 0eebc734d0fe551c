// SPDX-License-Identifier: MIT OR Apache-2.0
//! Config of a trace.

use perfmon_core::abi;
use perfmon_core::logic::branch_records::BranchRecords;
use perfmon_core::logic::cpuid::Capabilities;
use perfmon_core::logic::evtsel;
use perfmon_core::logic::trace_config::{self, InvalidConfig};

use super::{Event, EventId};

/// Config of a trace: up to 32 events, and what is recorded of each.
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

/// The capabilities of a CPU that supports everything: every CPU refuses what this one refuses.
const ALL_CAPABILITIES: Capabilities = Capabilities {
    general: 32,
    general_width: 64,
    fixed: u16::MAX,
    fixed_width: 64,
    full_width_writes: true,
    arch_events: u32::MAX,
    last_branch: Some(BranchRecords::Stack),
    values: u16::MAX,
    ..Capabilities::NONE
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

    /// Events per tick for each event; `None` for those without ticks.
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

    /// Converts the ABI's structure, as the driver or a recording has it.
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
            .map(|(id, rate, flags)| {
                Event::from_abi(id, rate, flags).ok_or(ConfigError {
                    event: Some(id),
                    problem: ConfigProblem::NoModes,
                })
            });
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
    /// assert_eq!(error.to_string(), "architectural event 5: the event is there already; it has one place");
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
        if let Some(event) = events.get(trace_config::MAX_EVENTS) {
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
fn check(raw: &abi::perfmon_config) -> Result<(), InvalidConfig> {
    // Which ids the program has defined is the driver's business.
    let defined = |_| Some(evtsel::EventSelect::new(0, 0));
    trace_config::Config::new(raw, &ALL_CAPABILITIES, defined).map(drop)
}

/// The structure for at most [`trace_config::MAX_EVENTS`] events.
fn to_abi(events: &[Event]) -> abi::perfmon_config {
    let mut raw = abi::perfmon_config {
        events: [EventId::NONE.bits(); trace_config::MAX_EVENTS],
        rate: [0; trace_config::MAX_EVENTS],
        flags: [0; trace_config::MAX_EVENTS],
    };
    for (n, event) in events.iter().enumerate() {
        raw.events[n] = event.id.bits();
        raw.rate[n] = event.rate;
        raw.flags[n] = event.flags();
    }
    raw
}

/// A config that no CPU can record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .event.map(|event| format!("{event}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// The event that does not go with those before it, if it is known.
    pub event: Option<EventId>,
    /// The mistake.
    pub problem: ConfigProblem,
}

/// Mistake in a config, with advice.
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
    #[error("there is no such flag")]
    Flag,
    /// There is no such event.
    #[error("no CPU has such an event")]
    Event,
    /// The event is there already.
    #[error("the event is there already; it has one place")]
    Twice,
    /// There are more events than a CPU can have counters.
    #[error("no CPU has so many counters; record it in another trace")]
    TooMany,
    /// The rate is larger than the counter.
    #[error("the rate is larger than the counter; take a lower one")]
    Rate,
    /// The event asks for branches, and does not tick.
    #[error("branches are recorded at an event's own ticks; give it a rate, and no timebase")]
    LastBranch,
    /// Others have branch records, too, in other modes.
    #[error("the events with branches have different modes; give them the same")]
    LastBranchModes,
    /// The timebase does not tick.
    #[error("the first event is the timebase and has no rate; give it one")]
    Timebase,
    /// The event is counted in no mode.
    #[error("it is counted neither in programs nor in the kernel; choose a mode")]
    NoModes,
}

impl From<InvalidConfig> for ConfigProblem {
    fn from(refused: InvalidConfig) -> Self {
        match refused {
            InvalidConfig::NoEvent => Self::NoEvent,
            InvalidConfig::AfterTheEnd => Self::AfterTheEnd,
            InvalidConfig::Flag => Self::Flag,
            InvalidConfig::Event => Self::Event,
            InvalidConfig::Twice => Self::Twice,
            InvalidConfig::TooMany => Self::TooMany,
            InvalidConfig::Rate => Self::Rate,
            InvalidConfig::LastBranch => Self::LastBranch,
            InvalidConfig::LastBranchModes => Self::LastBranchModes,
            InvalidConfig::Timebase => Self::Timebase,
        }
    }
}

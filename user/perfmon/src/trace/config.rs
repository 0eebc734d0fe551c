// SPDX-License-Identifier: MIT OR Apache-2.0
//! The configuration of a trace.

use perfmon_core::abi;
use perfmon_core::logic::branch_records::BranchRecords;
use perfmon_core::logic::core_kinds::CoreKinds;
use perfmon_core::logic::cpuid::Capabilities;
use perfmon_core::logic::evtsel;
use perfmon_core::logic::trace_config::{self, InvalidConfig};
use perfmon_core::logic::trace_events::Definition;

use super::{Event, EventId};

/// The configuration of a trace: up to 32 events, each with its rate, its modes and its records.
///
/// ```
/// use perfmon::trace::{ArchEvent, Config, Event, FixedEvent};
///
/// // Every 100000 instructions, the address that the CPU executes, and the number of cache misses.
/// let config = Config::builder()
///     .event(Event::sampling(FixedEvent::Instructions, 100_000).pc())
///     .event(Event::with_timebase(ArchEvent::LlcMisses))
///     .build()?;
/// assert_eq!(config.events().len(), 2);
/// # Ok::<(), perfmon::trace::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config(Vec<Event>);

/// The capabilities of a CPU that supports everything. A configuration that this CPU refuses is refused by every CPU.
const ALL_CAPABILITIES: Capabilities = Capabilities {
    general_count: 32,
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
    /// Creates a builder without events.
    pub const fn builder() -> ConfigBuilder {
        ConfigBuilder(Vec::new())
    }

    /// Returns the events, the timebase first.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.0
    }

    /// Returns for each event the number of events per tick; `None` for an event without ticks of its own.
    pub(super) fn events_per_tick(&self) -> impl Iterator<Item = (EventId, Option<u32>)> {
        self.0.iter().enumerate().map(|(n, event)| {
            let follows_timebase = event.timebase0 && n != 0;
            let rate = (event.rate != 0 && !follows_timebase).then_some(event.rate);
            (event.id, rate)
        })
    }

    /// Returns the structure of the ABI.
    #[must_use]
    pub fn to_abi(&self) -> abi::perfmon_config {
        to_abi(&self.0)
    }

    /// Converts the structure of the ABI, which comes from the driver or a recording.
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
        check(raw).map_err(|invalid| ConfigError {
            event: None,
            problem: invalid.into(),
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

/// Builder of a [`Config`].
#[derive(Clone, Debug)]
#[must_use = "it does nothing until `build` makes a `Config`"]
pub struct ConfigBuilder(Vec<Event>);

impl ConfigBuilder {
    /// Adds an event. The first event is the timebase of the events that are
    /// [`with_timebase`](Event::with_timebase).
    pub fn event(mut self, event: Event) -> Self {
        self.0.push(event);
        self
    }

    /// Checks the configuration by the rules of the driver that do not depend on the CPUs.
    ///
    /// ```
    /// use perfmon::trace::{ArchEvent, Config, ConfigProblem, Event};
    ///
    /// let counting = Event::counting(ArchEvent::Branches);
    /// let error = Config::builder().event(counting).event(counting).build().unwrap_err();
    /// assert_eq!(error.problem, ConfigProblem::Twice);
    /// assert_eq!(error.to_string(), "architectural event 5: the configuration has the event twice; remove one of them");
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`], with the first event that is invalid or conflicts with an earlier event.
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
        // The ABI uses this ID to mark the end of the events.
        if let Some(none) = events.iter().find(|event| event.id == EventId::NONE) {
            return Err(error(Some(none), ConfigProblem::Event));
        }
        for end in 1..=events.len() {
            check(&to_abi(&events[..end]))
                .map_err(|invalid| error(events.get(end - 1), invalid.into()))?;
        }
        Ok(Config(events))
    }
}

/// Checks a configuration by the driver's rules, for a CPU that supports everything.
fn check(raw: &abi::perfmon_config) -> Result<(), InvalidConfig> {
    // Treats every model-specific ID as defined, because only the driver knows the definitions.
    let definition = |_| Some(Definition::on_all(evtsel::EventSelect::new(0, 0)));
    let kinds = CoreKinds::one(&ALL_CAPABILITIES);
    trace_config::Config::new(raw, &ALL_CAPABILITIES, &kinds, definition).map(drop)
}

/// Converts at most [`trace_config::MAX_EVENTS`] events to the structure of the ABI.
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

/// The reason why no CPU can record a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .event.map(|event| format!("{event}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// The event that is invalid or conflicts with an earlier event; `None` if it is unknown, or if
    /// no single event is wrong.
    pub event: Option<EventId>,
    /// The mistake.
    pub problem: ConfigProblem,
}

/// Mistake in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The configuration has no event.
    #[error("there is no event; add one")]
    NoEvent,
    /// The entries after the last event are not all 0.
    #[error("an entry after the last event is not 0; put all events first, and set the rest to 0")]
    AfterTheEnd,
    /// A flag is unknown.
    #[error("there is no such flag")]
    Flag,
    /// No CPU has the event.
    #[error("no CPU has such an event")]
    Event,
    /// The event occurs twice.
    #[error("the configuration has the event twice; remove one of them")]
    Twice,
    /// The configuration has more events than any CPU has counters.
    #[error("no CPU has enough counters; record the event in another trace")]
    TooMany,
    /// The rate does not fit into the counter.
    #[error("the rate exceeds the counter's range; choose a lower one")]
    Rate,
    /// The event asks for branches, but has no ticks of its own.
    #[error(
        "branches are recorded only at the event's own ticks; give the event a rate and no timebase"
    )]
    LastBranch,
    /// Two events ask for branches in different modes.
    #[error("the events with branches have different modes; give them the same modes")]
    LastBranchModes,
    /// The timebase has no rate, so it does not tick.
    #[error("the first event is the timebase, but has no rate; give it one")]
    Timebase,
    /// The event is counted in no mode.
    #[error("the event is counted neither in user mode nor in the kernel; choose a mode")]
    NoModes,
}

impl From<InvalidConfig> for ConfigProblem {
    fn from(invalid: InvalidConfig) -> Self {
        match invalid {
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

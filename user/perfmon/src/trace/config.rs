// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace records.

use perfmon_core::abi;

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

impl Config {
    /// A config without events, to add some.
    #[must_use]
    pub const fn builder() -> ConfigBuilder {
        ConfigBuilder(Vec::new())
    }

    /// The events, the timebase first.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.0
    }

    /// The structure of the ABI.
    #[must_use]
    pub fn to_abi(&self) -> abi::perfmon_config {
        todo!()
    }

    /// The same from the structure of the ABI, as a recording may hold it.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn from_abi(config: &abi::perfmon_config) -> Result<Self, ConfigError> {
        let _ = config;
        todo!()
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

    /// Checks all that can be checked without knowing the CPUs.
    ///
    /// # Errors
    /// [`ConfigError`], the first that is found.
    pub fn build(self) -> Result<Config, ConfigError> {
        Ok(Config(self.0))
    }
}

/// Why no CPU can record this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no event.
    #[error("there is no event: add one")]
    Empty,
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event of a trace, with its rate, its modes and its records.

use perfmon_core::abi;

use super::{EventId, MiscEvent};
use crate::Modes;

/// An event of a trace, with its rate, its modes and its records.
///
/// ```
/// use perfmon::Modes;
/// use perfmon::trace::{ArchEvent, Event};
///
/// // The address in programs, every million instructions.
/// let event = Event::sampling(ArchEvent::Instructions, 1_000_000).modes(Modes::User).pc();
/// assert_eq!(event.rate, 1_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event's ID.
    pub id: EventId,
    /// Number of events from one tick to the next; 0 records only the count at the end of the trace.
    pub rate: u32,
    /// The CPU modes in which the event is counted.
    pub modes: Modes,
    /// Each tick records the program counter: [`Record::Pc`](super::Record::Pc) instead of `Tick`.
    pub pc: bool,
    /// The event's count is recorded at each tick of the first event, and the event has no ticks of its own.
    pub timebase0: bool,
    /// Each tick records the last branches.
    pub last_branch: bool,
}

/// The modes with their flags.
const MODES: [(Modes, u32); 3] = [
    (Modes::User, abi::PERFMON_CONFIG_FLAG_USER),
    (Modes::Kernel, abi::PERFMON_CONFIG_FLAG_OS),
    (Modes::Both, BOTH_MODES),
];
const BOTH_MODES: u32 = abi::PERFMON_CONFIG_FLAG_USER | abi::PERFMON_CONFIG_FLAG_OS;

impl Event {
    /// Counts the event. The count is recorded once, at the end of the trace.
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

    /// Samples the event: it ticks each time that it has happened `rate` times. The rate is from 1 to 2^32 - 1, and at
    /// most 2^31 if the CPUs have no [full-width writes](crate::Info::has_full_width_writes).
    #[must_use]
    pub fn sampling(id: impl Into<EventId>, rate: u32) -> Self {
        Self {
            rate,
            ..Self::counting(id)
        }
    }

    /// Counts the event between the ticks of the configuration's first event, and records the count at each tick.
    #[must_use]
    pub fn with_timebase(id: impl Into<EventId>) -> Self {
        Self {
            timebase0: true,
            ..Self::counting(id)
        }
    }

    /// Reads a value that no counter counts. The value is recorded once, at the end of the trace. It has no modes.
    ///
    /// ```
    /// use perfmon::trace::{Config, Event, MiscEvent};
    ///
    /// let energy = Event::value(MiscEvent::EnergyPackage);
    /// assert!(Config::builder().event(energy).build().is_ok());
    /// ```
    #[must_use]
    pub fn value(event: MiscEvent) -> Self {
        // The ABI requires a mode of every event, although a mode has no effect on a value. User
        // mode is chosen, because kernel mode would need more rights.
        Self::counting(event).modes(Modes::User)
    }

    /// Counts the event only in these CPU modes.
    #[must_use]
    pub const fn modes(self, modes: Modes) -> Self {
        Self { modes, ..self }
    }

    /// Records the program counter at each tick.
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

    /// Returns the flags of the ABI, `PERFMON_CONFIG_FLAG_*`.
    pub(super) fn flags(&self) -> u32 {
        let options = [
            (self.pc, abi::PERFMON_CONFIG_FLAG_PC),
            (self.timebase0, abi::PERFMON_CONFIG_FLAG_TIMEBASE0),
            (self.last_branch, abi::PERFMON_CONFIG_FLAG_LAST_BRANCH),
        ];
        let modes = MODES.iter().filter(|row| row.0 == self.modes);
        let enabled_options = options.iter().filter(|row| row.0);
        modes
            .map(|row| row.1)
            .chain(enabled_options.map(|row| row.1))
            .sum()
    }

    /// Converts an event of the ABI; returns `None` if it has no mode.
    pub(super) fn from_abi(id: EventId, rate: u32, flags: u32) -> Option<Self> {
        let &(modes, _) = MODES.iter().find(|row| row.1 == flags & BOTH_MODES)?;
        Some(Self {
            id,
            rate,
            modes,
            pc: flags & abi::PERFMON_CONFIG_FLAG_PC != 0,
            timebase0: flags & abi::PERFMON_CONFIG_FLAG_TIMEBASE0 != 0,
            last_branch: flags & abi::PERFMON_CONFIG_FLAG_LAST_BRANCH != 0,
        })
    }
}

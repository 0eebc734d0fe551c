// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event, and what is recorded of it.

use perfmon_core::abi;

use super::{EventId, MiscEvent};
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
    /// The event.
    pub id: EventId,
    /// A record is made each time that it has been counted so often; 0: only at the end of the trace.
    pub rate: u32,
    /// In which modes of the CPU it is counted.
    pub modes: Modes,
    /// Ticks have the CPU's address: [`Record::Pc`](super::Record::Pc) instead of `Tick`.
    pub pc: bool,
    /// The event is counted whenever the first event ticks, and has no ticks of its own.
    pub timebase0: bool,
    /// Ticks come with the last branches.
    pub last_branch: bool,
}

/// The flags of each of the modes.
const MODES: [(Modes, u32); 3] = [
    (Modes::User, abi::PERFMON_CONFIG_FLAG_USER),
    (Modes::Kernel, abi::PERFMON_CONFIG_FLAG_OS),
    (Modes::Both, BOTH_MODES),
];
const BOTH_MODES: u32 = abi::PERFMON_CONFIG_FLAG_USER | abi::PERFMON_CONFIG_FLAG_OS;

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

    /// Reads a value: one record at the end. It has no modes.
    ///
    /// ```
    /// use perfmon::trace::{Config, Event, MiscEvent};
    ///
    /// let energy = Event::value(MiscEvent::EnergyPackage);
    /// assert!(Config::builder().event(energy).build().is_ok());
    /// ```
    #[must_use]
    pub fn value(event: MiscEvent) -> Self {
        // Without a mode there is no event, and one with the kernel's asks for a permission.
        Self::counting(event).modes(Modes::User)
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

    /// `PERFMON_CONFIG_FLAG_*`
    pub(super) fn flags(&self) -> u32 {
        let switches = [
            (self.pc, abi::PERFMON_CONFIG_FLAG_PC),
            (self.timebase0, abi::PERFMON_CONFIG_FLAG_TIMEBASE0),
            (self.last_branch, abi::PERFMON_CONFIG_FLAG_LAST_BRANCH),
        ];
        let modes = MODES.iter().filter(|row| row.0 == self.modes);
        let set = switches.iter().filter(|row| row.0);
        modes.map(|row| row.1).chain(set.map(|row| row.1)).sum()
    }

    /// Converts an event of the ABI; `None` if it has no mode.
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

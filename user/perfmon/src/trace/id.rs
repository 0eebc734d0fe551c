// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event IDs.

use std::fmt;

use perfmon_core::abi;

/// The ID of an event of a trace: a group of 6 bits, and a number of 10 bits within the group.
///
/// ```
/// use perfmon::trace::{ArchEvent, EventId, FixedEvent, Group};
///
/// let instructions = EventId::fixed(FixedEvent::Instructions);
/// assert_eq!((instructions.group(), instructions.event()), (Some(Group::Fixed), 1));
/// assert_eq!(EventId::arch(ArchEvent::LlcMisses).bits(), 0x404);
/// assert_eq!(EventId::arch(ArchEvent::LlcMisses).to_string(), "architectural event 4");
/// assert_eq!(EventId::model(7), EventId::from_bits(0xc07));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(u16);

/// Group of an event ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The architectural events, in general counters: [`ArchEvent`].
    Arch,
    /// Events of the fixed-function counters: [`FixedEvent`].
    Fixed,
    /// Events that the program defines: [`Session::define_event`](crate::Session::define_event).
    Model,
    /// Values of registers that are not counters: [`MiscEvent`].
    Misc,
}

/// The architectural events (Intel SDM, volume 3B, section 21.2.1.2). On AMD, an ID means the AMD
/// event with the same meaning. Staging a configuration fails if the CPUs lack an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the manual's")]
#[repr(u32)]
pub enum ArchEvent {
    CoreCycles = abi::PERFMON_ARCH_EVENT_UNHALTED_CORE_CYCLES,
    Instructions = abi::PERFMON_ARCH_EVENT_INSTRUCTIONS_RETIRED,
    ReferenceCycles = abi::PERFMON_ARCH_EVENT_UNHALTED_REFERENCE_CYCLES,
    LlcReferences = abi::PERFMON_ARCH_EVENT_LLC_REFERENCES,
    LlcMisses = abi::PERFMON_ARCH_EVENT_LLC_MISSES,
    Branches = abi::PERFMON_ARCH_EVENT_BRANCHES_RETIRED,
    BranchMisses = abi::PERFMON_ARCH_EVENT_BRANCH_MISSES_RETIRED,
    TopdownSlots = abi::PERFMON_ARCH_EVENT_TOPDOWN_SLOTS,
}

/// Events of the fixed-function counters (Intel SDM, volume 3B, table 21-2): event n is counter n - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are the manual's")]
#[repr(u32)]
pub enum FixedEvent {
    Instructions = abi::PERFMON_FIXED_EVENT_INSTRUCTIONS_RETIRED,
    CoreCycles = abi::PERFMON_FIXED_EVENT_UNHALTED_CORE_CYCLES,
    ReferenceCycles = abi::PERFMON_FIXED_EVENT_UNHALTED_REFERENCE_CYCLES,
    TopdownSlots = abi::PERFMON_FIXED_EVENT_TOPDOWN_SLOTS,
    TopdownBadSpeculation = abi::PERFMON_FIXED_EVENT_TOPDOWN_BAD_SPECULATION,
    TopdownFeBound = abi::PERFMON_FIXED_EVENT_TOPDOWN_FE_BOUND,
    TopdownRetiring = abi::PERFMON_FIXED_EVENT_TOPDOWN_RETIRING,
}

/// Values that no counter counts: energy, temperatures, clocks. Each is recorded on the first CPU of its scope, a
/// package, a core or a CPU. [`Info::misc_events`](crate::Info::misc_events) has a bit for each value that the CPUs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum MiscEvent {
    /// The energy of a package since the trace started, in 2^-32 Joules.
    EnergyPackage = abi::PERFMON_MISC_EVENT_ENERGY_PACKAGE,
    /// The energy of all cores of a package since the trace started, in 2^-32 Joules (Intel).
    EnergyCores = abi::PERFMON_MISC_EVENT_ENERGY_CORES,
    /// The energy of a core since the trace started, in 2^-32 Joules (AMD).
    EnergyCore = abi::PERFMON_MISC_EVENT_ENERGY_CORE,
    /// The energy of a package's memory since the trace started, in 2^-32 Joules (Intel).
    EnergyMemory = abi::PERFMON_MISC_EVENT_ENERGY_MEMORY,
    /// The temperature of a package in degrees Celsius (Intel).
    TemperaturePackage = abi::PERFMON_MISC_EVENT_TEMPERATURE_PACKAGE,
    /// The temperature of a core in degrees Celsius (Intel).
    TemperatureCore = abi::PERFMON_MISC_EVENT_TEMPERATURE_CORE,
    /// The degrees Celsius between the temperature of a package and the temperature that throttles it (Intel).
    MarginPackage = abi::PERFMON_MISC_EVENT_MARGIN_PACKAGE,
    /// The degrees Celsius between the temperature of a core and the temperature that throttles it (Intel).
    MarginCore = abi::PERFMON_MISC_EVENT_MARGIN_CORE,
    /// Unhalted core cycles of a CPU since the trace started (APERF).
    Aperf = abi::PERFMON_MISC_EVENT_APERF,
    /// Unhalted cycles of a CPU since the trace started, at the rate of the time-stamp counter (MPERF).
    Mperf = abi::PERFMON_MISC_EVENT_MPERF,
}

/// Number of the lower bits of an ID, which hold the number within the group.
const EVENT_BITS: u32 = 10;

/// All groups, with their number and their name.
const GROUPS: [(Group, u32, &str); 4] = [
    (Group::Arch, abi::PERFMON_GROUP_ARCH, "architectural"),
    (Group::Fixed, abi::PERFMON_GROUP_FIXED, "fixed"),
    (Group::Model, abi::PERFMON_GROUP_MODEL, "model-specific"),
    (Group::Misc, abi::PERFMON_GROUP_MISC, "miscellaneous"),
];

impl EventId {
    /// The ID that means no event.
    pub const NONE: Self = Self(0);

    /// Returns the ID of an architectural event, in a general counter.
    #[must_use]
    pub const fn arch(event: ArchEvent) -> Self {
        Self::from_parts(abi::PERFMON_GROUP_ARCH, event as u32)
    }

    /// Returns the ID of a fixed-function counter's event.
    #[must_use]
    pub const fn fixed(event: FixedEvent) -> Self {
        Self::from_parts(abi::PERFMON_GROUP_FIXED, event as u32)
    }

    /// Returns the ID of an event that the program defines, in a general counter. Bits 15:10 of `event` are dropped.
    #[must_use]
    pub const fn model(event: u16) -> Self {
        Self::from_parts(abi::PERFMON_GROUP_MODEL, event as u32)
    }

    /// Returns the ID of a value that no counter counts. Bits 15:10 of `event` are dropped.
    #[must_use]
    pub const fn misc(event: u16) -> Self {
        Self::from_parts(abi::PERFMON_GROUP_MISC, event as u32)
    }

    #[expect(clippy::cast_possible_truncation, reason = "groups have 6 bits")]
    const fn from_parts(group: u32, event: u32) -> Self {
        Self((group << EVENT_BITS | event & abi::PERFMON_MAX_EVENT) as u16)
    }

    /// Converts an ID of the ABI, without checking that the event exists.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Returns the ID of the ABI.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the group; `None` if its number is unknown.
    #[must_use]
    pub fn group(self) -> Option<Group> {
        self.group_and_name().map(|(group, _)| group)
    }

    /// Returns the number within the group.
    #[must_use]
    pub const fn event(self) -> u16 {
        self.0 & ((1 << EVENT_BITS) - 1)
    }

    fn group_and_name(self) -> Option<(Group, &'static str)> {
        let number = u32::from(self.0 >> EVENT_BITS);
        let row = GROUPS.iter().find(|row| row.1 == number);
        row.map(|&(group, _, name)| (group, name))
    }
}

impl From<ArchEvent> for EventId {
    fn from(event: ArchEvent) -> Self {
        Self::arch(event)
    }
}

impl From<FixedEvent> for EventId {
    fn from(event: FixedEvent) -> Self {
        Self::fixed(event)
    }
}

impl From<MiscEvent> for EventId {
    fn from(event: MiscEvent) -> Self {
        Self::from_parts(abi::PERFMON_GROUP_MISC, event as u32)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group_and_name() {
            Some((_, name)) => write!(f, "{name} event {}", self.event()),
            None if *self == Self::NONE => f.write_str("no event"),
            None => write!(f, "unknown event {:#06x}", self.0),
        }
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({:#06x}: {self})", self.0)
    }
}

const _: () = {
    assert!(abi::PERFMON_EVENT_ID_NONE == 0);
    assert!(abi::PERFMON_MAX_EVENT == (1 << EVENT_BITS) - 1);
    assert!(abi::PERFMON_MAX_GROUP == u16::MAX as u32 >> EVENT_BITS);
};

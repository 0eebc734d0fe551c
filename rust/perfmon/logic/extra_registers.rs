// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Extra registers. Some of Intel's events need a register besides the event select; its value,
//! `config1` of the attribute, selects the events that are counted. All counters of a CPU use the
//! same extra registers, so events that need different values of a register can't count at the same
//! time on the same CPU.
//!
//! Events share a register by the rules by which events with different event selects [share a counter](super::sharing).
//! The register gets the value of an event when a window of the event is opened.

use super::core_kinds::CoreKind;
use super::msr::Msr;
use super::sharing::{TargetKind, ValueCounts};

/// An extra register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraRegister {
    /// `MSR_OFFCORE_RSP_0`: requests to the memory outside of the core, and the responses to these
    /// requests.
    OffcoreResponse0,
    /// `MSR_OFFCORE_RSP_1`
    OffcoreResponse1,
    /// `MSR_PEBS_LD_LAT_THRESHOLD`: the smallest latency of loads that are sampled precisely.
    LoadLatency,
    /// `MSR_PEBS_FRONTEND`: an event of the front end.
    Frontend,
    /// `MSR_SNOOP_RSP_0`: responses to snoops.
    SnoopResponse0,
    /// `MSR_SNOOP_RSP_1`
    SnoopResponse1,
}

impl ExtraRegister {
    /// The number of registers.
    pub const COUNT: usize = 6;

    /// All registers, by [`Self::index`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::OffcoreResponse0,
        Self::OffcoreResponse1,
        Self::LoadLatency,
        Self::Frontend,
        Self::SnoopResponse0,
        Self::SnoopResponse1,
    ];

    /// Returns the register's index, which is less than [`Self::COUNT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the register's bit in masks of registers.
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self.index()
    }

    /// Returns the model-specific register.
    #[must_use]
    pub const fn msr(self) -> Msr {
        match self {
            Self::OffcoreResponse0 => Msr::OFFCORE_RSP_0,
            Self::OffcoreResponse1 => Msr::OFFCORE_RSP_1,
            Self::LoadLatency => Msr::PEBS_LD_LAT,
            Self::Frontend => Msr::PEBS_FRONTEND,
            Self::SnoopResponse0 => Msr::SNOOP_RSP_0,
            Self::SnoopResponse1 => Msr::SNOOP_RSP_1,
        }
    }

    /// Returns the register that can replace this register, together with another event select for
    /// the event; `None` if no register can.
    #[must_use]
    pub const fn interchangeable_register(self) -> Option<Self> {
        match self {
            Self::OffcoreResponse0 => Some(Self::OffcoreResponse1),
            Self::OffcoreResponse1 => Some(Self::OffcoreResponse0),
            Self::LoadLatency | Self::Frontend | Self::SnoopResponse0 | Self::SnoopResponse1 => {
                None
            }
        }
    }
}

/// The extra register of an event, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraValue {
    /// The kind of core that counts the event. Each kind has its own registers.
    pub kind: CoreKind,
    /// The register.
    pub register: ExtraRegister,
    /// The value that the register needs while the event counts.
    pub value: u64,
}

impl ExtraValue {
    /// Returns whether two events with these values can't count at the same time on the same CPU.
    #[must_use]
    pub fn conflicts_with(self, other: Self) -> bool {
        self.kind == other.kind && self.register == other.register && self.value != other.value
    }
}

/// The values of the extra registers in a row of events that [take turns](super::turns).
#[derive(Clone, Copy, Debug)]
pub struct RegisterValues {
    /// The registers that have a value, as a mask.
    used: u64,
    /// The values, by [`ExtraRegister::index`].
    values: [u64; ExtraRegister::COUNT],
}

impl RegisterValues {
    /// No register has a value.
    pub const NONE: Self = Self {
        used: 0,
        values: [0; ExtraRegister::COUNT],
    };

    /// Returns the registers that have a value, as a mask for [`Self::keep_only`].
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Removes the values of all registers that are not in the mask `registers`.
    pub const fn keep_only(&mut self, registers: u64) {
        self.used &= registers;
    }

    /// Gives a register its value, unless it has one already. Returns false if it has another value.
    pub fn set(&mut self, extra: ExtraValue) -> bool {
        let value = &mut self.values[extra.register.index()];
        if self.used & extra.register.bit() == 0 {
            self.used |= extra.register.bit();
            *value = extra.value;
        }
        *value == extra.value
    }
}

/// The events that use an extra register: at least one event.
#[derive(Clone, Copy, Debug)]
pub struct RegisterUsers {
    /// The numbers of events, by [`TargetKind`].
    kinds: [u32; 3],
    values: ValueCounts<u64>,
}

impl RegisterUsers {
    /// Returns the users of a register that one event uses.
    #[must_use]
    pub const fn new(kind: TargetKind, value: u64) -> Self {
        let mut kinds = [0; 3];
        kinds[kind as usize] = 1;
        Self {
            kinds,
            values: ValueCounts::new(value),
        }
    }

    /// Adds an event. [`Self::can_admit`] must have returned true for the event.
    pub fn add(&mut self, kind: TargetKind, value: u64) {
        self.kinds[kind as usize] += 1;
        self.values.add(value);
    }

    /// Removes an event. Returns whether other events use the register.
    pub fn remove(&mut self, kind: TargetKind, value: u64) -> bool {
        self.kinds[kind as usize] -= 1;
        self.values.remove(value);
        self.kinds != [0; 3]
    }

    /// Returns whether all events have this value.
    #[must_use]
    pub fn all_have(&self, value: u64) -> bool {
        self.values.are_all_equal(value)
    }

    /// Returns whether one more event may use the register together with the events of other tasks
    /// and CPUs. The caller checks that the event does not [conflict](ExtraValue::conflicts_with)
    /// with the events of its own task or CPU.
    #[must_use]
    pub fn can_admit(&self, kind: TargetKind, value: u64) -> bool {
        let overlaps = TargetKind::ALL
            .into_iter()
            .any(|other| kind.overlaps(other) && self.kinds[other as usize] != 0);
        !overlaps || self.all_have(value)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_extra_registers)
)]
mod tests {
    use super::*;
    use TargetKind::{Cgroup, Cpu, Task};

    const A: u64 = 0x1_0001;
    const B: u64 = 0x8000;

    const fn extra(register: ExtraRegister, value: u64) -> ExtraValue {
        ExtraValue {
            kind: CoreKind::FIRST,
            register,
            value,
        }
    }

    #[test]
    fn registers_have_their_numbers() {
        let numbers = ExtraRegister::ALL.map(|register| register.msr().number());
        assert_eq!(numbers, [0x1a6, 0x1a7, 0x3f6, 0x3f7, 0x1328, 0x1329]);
        for (index, register) in ExtraRegister::ALL.into_iter().enumerate() {
            assert_eq!(register.index(), index);
        }
    }

    #[test]
    fn values_conflict_in_one_register_of_one_kind() {
        let first = extra(ExtraRegister::Frontend, A);
        assert!(!first.conflicts_with(first));
        assert!(first.conflicts_with(extra(ExtraRegister::Frontend, B)));
        assert!(!first.conflicts_with(extra(ExtraRegister::OffcoreResponse0, B)));
        if let Some(kind) = CoreKind::new(1) {
            let elsewhere = ExtraValue {
                kind,
                ..extra(ExtraRegister::Frontend, B)
            };
            assert!(!first.conflicts_with(elsewhere));
        }
    }

    #[test]
    fn events_of_other_tasks_may_have_other_values() {
        let mut users = RegisterUsers::new(Task, A);
        assert!(users.can_admit(Task, B));
        assert!(!users.can_admit(Cpu, B) && users.can_admit(Cpu, A));
        assert!(!users.can_admit(Cgroup, B) && users.can_admit(Cgroup, A));
        users.add(Task, B);
        assert!(!users.can_admit(Cpu, A) && !users.can_admit(Cpu, B));
        assert!(users.can_admit(Task, A));
        assert!(users.remove(Task, A));
        assert!(users.can_admit(Cpu, B) && !users.can_admit(Cpu, A));
        assert!(!users.remove(Task, B));
    }

    #[test]
    fn events_of_cgroups_have_the_same_value() {
        let users = RegisterUsers::new(Cgroup, A);
        for kind in [Task, Cpu, Cgroup] {
            assert!(users.can_admit(kind, A) && !users.can_admit(kind, B));
        }
    }

    #[test]
    fn many_values_are_counted() {
        let mut users = RegisterUsers::new(Task, 0);
        for value in 1..10 {
            users.add(Task, value);
        }
        for value in 0..9 {
            assert!(users.remove(Task, value) && !users.can_admit(Cpu, value));
        }
        assert!(users.can_admit(Task, A) && !users.remove(Task, 9));
    }

    #[test]
    fn a_register_has_one_value_in_a_row() {
        let mut values = RegisterValues::NONE;
        assert!(values.set(extra(ExtraRegister::Frontend, A)));
        let used = values.used();
        assert!(values.set(extra(ExtraRegister::Frontend, A)));
        assert!(!values.set(extra(ExtraRegister::Frontend, B)));
        assert!(values.set(extra(ExtraRegister::OffcoreResponse1, B)));
        values.keep_only(used);
        assert!(values.set(extra(ExtraRegister::OffcoreResponse1, A)));
        assert!(!values.set(extra(ExtraRegister::Frontend, B)));
    }
}

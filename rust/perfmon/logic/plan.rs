// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The register sequences that the manuals prescribe, as data.
//!
//! A [`Plan`] is a short list of register changes, in order. The module executes it without further decisions, so the
//! sequences can be tested without hardware.

use super::counter::{CounterId, CounterKind};
use super::evtsel::EventSelect;
use super::lbr::{DEBUGCTL_FREEZE, DEBUGCTL_LBR};
use super::msr::Msr;
use super::regs::Registers;

/// A change of one register: the bits that are not in `keep_mask` get their values from `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The register.
    pub msr: Msr,
    /// The mask of the bits that don't change. If the mask is 0, the register need not be read.
    pub keep_mask: u64,
    /// The values of the bits that are not in `keep_mask`. The bits of `keep_mask` are 0.
    pub value: u64,
}

impl Step {
    /// Returns the step that writes the whole register.
    #[must_use]
    pub const fn write(msr: Msr, value: u64) -> Self {
        let keep_mask = 0;
        Self {
            msr,
            keep_mask,
            value,
        }
    }

    /// Returns the step that sets the bits of `mask` to their values in `value`.
    #[must_use]
    pub const fn set_bits(msr: Msr, mask: u64, value: u64) -> Self {
        Self {
            msr,
            keep_mask: !mask,
            value: value & mask,
        }
    }

    /// Returns the new value of a register that holds `old`.
    #[inline]
    #[must_use]
    pub const fn apply(&self, old: u64) -> u64 {
        old & self.keep_mask | self.value
    }

    /// Returns whether a register that holds `now` still has the bits that the step wrote.
    #[inline]
    #[must_use]
    pub const fn matches(&self, now: u64) -> bool {
        self.apply(now) == now
    }
}

/// The number of steps in the longest sequence.
const MAX_STEPS: usize = 4;

/// Register changes, in the order in which the module makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    steps: [Option<Step>; MAX_STEPS],
}

impl Plan {
    const fn new(steps: [Option<Step>; MAX_STEPS]) -> Self {
        Self { steps }
    }

    /// Returns the steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().flatten()
    }
}

/// The values that the registers held before the driver wrote them.
pub trait RestoreValues {
    /// Returns the event select of general counter `n`.
    fn select(&self, n: u8) -> u64;
    /// Returns `IA32_FIXED_CTR_CTRL`.
    fn fixed_control(&self) -> u64;
    /// Returns `IA32_PERF_GLOBAL_CTRL`.
    fn global_control(&self) -> u64;
}

/// The field of fixed-function counter 0 in `IA32_FIXED_CTR_CTRL` (Intel SDM, volume 3B, section
/// 21.2.2): bit 0 kernel, bit 1 user, bit 2 AnyThread, bit 3 interrupt.
const FIXED_FIELD: u64 = 0xf;

/// The bit of [`FIXED_FIELD`] that enables the overflow interrupt.
const FIXED_INTERRUPT: u64 = 1 << 3;

/// The bit of an event select that makes the records of precise samples adaptive (Intel SDM, volume 3B, section
/// 21.9.2.3).
const ADAPTIVE_RECORDS: u64 = 1 << 34;
/// The bit of `IA32_FIXED_CTR_CTRL` that makes the records of fixed-function counter 0 adaptive.
const FIXED_ADAPTIVE_RECORDS: u64 = 1 << 32;

/// Returns the field of a running fixed-function counter in `IA32_FIXED_CTR_CTRL`; 0 if `select` has no mode.
const fn fixed_field(select: EventSelect) -> u64 {
    let modes = select.is_kernel() as u64 | (select.is_user() as u64) << 1;
    if modes == 0 {
        0
    } else {
        modes | FIXED_INTERRUPT
    }
}

/// Returns whether a fixed-function counter counts in any mode, by the value of `IA32_FIXED_CTR_CTRL`.
#[must_use]
pub const fn has_running_fixed(control: u64) -> bool {
    /// The modes of all fixed-function counters.
    const MODES: u64 = 0x3333_3333_3333_3333;
    control & MODES != 0
}

impl Registers {
    /// Returns the step that starts or stops a counter by its own enable bits. Only the counter's owner writes
    /// these bits, whereas the global control register is shared with Linux perf.
    #[must_use]
    pub const fn control(&self, counter: CounterId, select: EventSelect, run: bool) -> Step {
        match counter.kind() {
            CounterKind::General(n) => {
                let value = if run {
                    select.running()
                } else {
                    select.stopped()
                };
                Step::write(self.select_msr(n), value)
            }
            CounterKind::Fixed(n) => {
                let shift = 4 * n as u32;
                let field = if run { fixed_field(select) } else { 0 };
                Step::set_bits(self.fixed_control, FIXED_FIELD << shift, field << shift)
            }
        }
    }

    /// Returns the step that starts or stops a counter of precise samples. Its overflows raise no interrupt, because the
    /// processor writes records of them. `is_adaptive` tells whether `MSR_PEBS_DATA_CFG` selects the groups of the
    /// records.
    #[must_use]
    pub const fn control_precise(
        &self,
        counter: CounterId,
        select: EventSelect,
        run: bool,
        is_adaptive: bool,
    ) -> Step {
        let step = self.control(counter, select, run);
        let (interrupt_bit, adaptive_bit) = match counter.kind() {
            CounterKind::General(_) => (EventSelect::INTERRUPT, ADAPTIVE_RECORDS),
            // Only the fixed-function counters 0 to 3 can have precise samples.
            CounterKind::Fixed(n) => {
                let shift = 4 * (n as u32 & 3);
                (FIXED_INTERRUPT << shift, FIXED_ADAPTIVE_RECORDS << shift)
            }
        };
        let value = step.value & !interrupt_bit;
        if is_adaptive {
            Step {
                value: if run { value | adaptive_bit } else { value },
                keep_mask: step.keep_mask & !adaptive_bit,
                ..step
            }
        } else {
            Step { value, ..step }
        }
    }

    /// Returns the steps that stop a counter, load it with `start`, and clear its overflow.
    #[must_use]
    pub fn program(&self, counter: CounterId, select: EventSelect, start: u64) -> Plan {
        Plan::new([
            Some(self.control(counter, select, false)),
            Some(Step::write(self.write_msr(counter), start)),
            self.clear_overflow(counter),
            None,
        ])
    }

    /// Returns the step that enables a counter in the global control register, if there is one. The counter counts
    /// once its own enable bits are set as well ([`Self::control`]).
    #[must_use]
    pub fn enable_global(&self, counter: CounterId) -> Option<Step> {
        let bit = counter.bit();
        self.global
            .map(|global| Step::set_bits(global.control, bit, bit))
    }

    /// Returns the step that gives the enable bit of top-down metrics the value that it has in `global_control`, a value of
    /// the global control register; `None` on AMD and before version 2. On PMUs without metrics the bit is clear in
    /// `global_control`, and the step keeps it clear.
    #[must_use]
    pub fn control_metrics(&self, global_control: u64) -> Option<Step> {
        let global = self.global.filter(|global| global.metrics_enable != 0)?;
        Some(Step::set_bits(
            global.control,
            global.metrics_enable,
            global_control,
        ))
    }

    /// Returns the steps that restore the registers of a counter, and change no bits of other counters. The counter is
    /// then stopped and 0, even if it was running before the driver wrote it.
    #[must_use]
    pub fn restore(&self, counter: CounterId, saved: &impl RestoreValues) -> Plan {
        let own_step = match counter.kind() {
            CounterKind::General(n) => {
                let select = saved.select(n);
                let is_enabled = select & EventSelect::ENABLE != 0;
                Step::write(self.select_msr(n), if is_enabled { 0 } else { select })
            }
            CounterKind::Fixed(n) => {
                let field = FIXED_FIELD << (4 * u32::from(n));
                Step::set_bits(self.fixed_control, field, saved.fixed_control())
            }
        };
        let enable = self
            .global
            .map(|global| Step::set_bits(global.control, counter.bit(), saved.global_control()));
        Plan::new([
            Some(own_step),
            Some(Step::write(self.write_msr(counter), 0)),
            self.clear_overflow(counter),
            enable,
        ])
    }

    /// Returns the step that unfreezes the branch records after an overflow interrupt has frozen them (Intel SDM,
    /// volume 3B, section 18.4.7); `None` if the records can't be frozen. From version 4 on, a status bit freezes them
    /// and has to be cleared. Before version 4, the interrupt clears the enable bit, which has to be set.
    #[must_use]
    pub fn unfreeze_branches(&self) -> Option<Step> {
        /// `LBR_FRZ` of Intel's and of AMD's status register.
        const FROZEN: u64 = 1 << 58;

        if self.branches.debugctl & DEBUGCTL_FREEZE == 0 {
            return None;
        }
        Some(match self.global {
            Some(global) if self.has_freeze_status => Step::write(global.clear, FROZEN),
            _ => Step::set_bits(Msr::DEBUGCTL, DEBUGCTL_LBR, DEBUGCTL_LBR),
        })
    }

    /// Returns the step that clears a counter's overflow, if there is a status register.
    #[must_use]
    pub fn clear_overflow(&self, counter: CounterId) -> Option<Step> {
        self.global
            .map(|global| Step::write(global.clear, counter.bit()))
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_plan))]
mod tests {
    use super::super::branch_records::BranchRecords;
    use super::super::cpuid::{Architecture, Capabilities, Microarchitecture};
    use super::*;

    const V4: Capabilities = Capabilities {
        architecture: Architecture::Intel,
        microarchitecture: Microarchitecture::Skylake,
        version: 4,
        general_count: 4,
        all_general_count: 4,
        general_width: 48,
        fixed: 0b111,
        fixed_width: 48,
        full_width_writes: true,
        arch_events: 0x7f,
        select_bits: EventSelect::COMMON_BITS,
        last_branch: Some(BranchRecords::Stack),
        intel_pt_excludes_branches: false,
        pebs: None,
        has_retire_latency: false,
        values: 0,
        server_memory_unit: false,
    };
    const V1: Capabilities = Capabilities {
        version: 1,
        fixed: 0,
        full_width_writes: false,
        ..V4
    };

    struct SavedValues;

    impl RestoreValues for SavedValues {
        fn select(&self, n: u8) -> u64 {
            // Counter 1 was enabled.
            [0x5300c0, 0x4300c0, 0x1300c0][usize::from(n)]
        }
        fn fixed_control(&self) -> u64 {
            0xb0
        }
        fn global_control(&self) -> u64 {
            0b010
        }
    }

    /// Returns whether the plan has exactly these steps: (register, kept bits, value).
    fn has_steps(plan: Plan, expected: &[(u32, u64, u64)]) -> bool {
        plan.steps()
            .map(|s| (s.msr.number(), s.keep_mask, s.value))
            .eq(expected.iter().copied())
    }

    fn general_counter(n: u8) -> CounterId {
        CounterId::general(n).unwrap_or(UNUSED_COUNTER)
    }

    fn fixed_counter(n: u8) -> CounterId {
        CounterId::fixed(n).unwrap_or(UNUSED_COUNTER)
    }

    /// Returns the steps that start a counter.
    fn start_plan(r: &Registers, counter: CounterId, select: EventSelect) -> Plan {
        let own_step = r.control(counter, select, true);
        Plan::new([r.enable_global(counter), Some(own_step), None, None])
    }

    /// A counter that no test uses.
    const UNUSED_COUNTER: CounterId = match CounterId::general(31) {
        Some(id) => id,
        None => unreachable!(),
    };

    #[test]
    fn steps_of_a_general_counter() {
        let r = Registers::new(&V4);
        let select = EventSelect::new(0xc0, 0).with_modes(true, false);
        assert!(has_steps(
            r.program(general_counter(2), select, 0x8000_0000_0000),
            &[
                (0x188, 0, 0x0100c0),
                (0x4c3, 0, 0x8000_0000_0000),
                (0x390, 0, 1 << 2)
            ]
        ));
        assert!(has_steps(
            start_plan(&r, general_counter(2), select),
            &[(0x38f, !(1 << 2), 1 << 2), (0x188, 0, 0x5100c0)]
        ));
        let stop = r.control(general_counter(2), select, false);
        assert_eq!(
            (stop.msr.number(), stop.keep_mask, stop.value),
            (0x188, 0, 0x0100c0)
        );
    }

    #[test]
    fn metrics_are_controlled_alone_and_on_intel_only() {
        let fields = |step: Option<Step>| step.map(|s| (s.msr.number(), s.keep_mask, s.value));
        let intel = Registers::new(&V4);
        let kept = !(1 << 48);
        assert_eq!(
            fields(intel.control_metrics(u64::MAX)),
            Some((0x38f, kept, 1 << 48))
        );
        assert_eq!(
            fields(intel.control_metrics(0x7_0000_00ff)),
            Some((0x38f, kept, 0))
        );
        assert_eq!(Registers::new(&V1).control_metrics(0), None);
        let amd = Capabilities {
            architecture: Architecture::AmdV2,
            ..V4
        };
        assert_eq!(Registers::new(&amd).control_metrics(u64::MAX), None);
    }

    #[test]
    fn steps_of_a_general_counter_of_version_1() {
        let r = Registers::new(&V1);
        let select = EventSelect::new(0x3c, 0).with_modes(true, true);
        assert!(has_steps(
            r.program(general_counter(0), select, 0xff_8000_0000),
            &[(0x186, 0, 0x03003c), (0xc1, 0, 0xff_8000_0000)]
        ));
        assert!(has_steps(
            start_plan(&r, general_counter(0), select),
            &[(0x186, 0, 0x53003c)]
        ));
    }

    #[test]
    fn steps_of_a_fixed_counter() {
        let r = Registers::new(&V4);
        let select = EventSelect::new(0, 0).with_modes(true, true);
        let keep_mask = !0xf00;
        assert!(has_steps(
            r.program(fixed_counter(2), select, 5),
            &[(0x38d, keep_mask, 0), (0x30b, 0, 5), (0x390, 0, 1 << 34)]
        ));
        assert!(has_steps(
            start_plan(&r, fixed_counter(2), select),
            &[(0x38f, !(1 << 34), 1 << 34), (0x38d, keep_mask, 0xb00)]
        ));
        let user_step = r.control(fixed_counter(0), select.with_modes(true, false), true);
        assert_eq!((user_step.keep_mask, user_step.value), (!0xf, 0xa));
    }

    #[test]
    fn steps_of_amd_counters() {
        let amd_cpu = Capabilities {
            architecture: Architecture::AmdCore,
            ..V1
        };
        let select = EventSelect::new(0x1c7, 2).with_modes(true, false);
        let r = Registers::new(&amd_cpu);
        assert!(has_steps(
            r.program(general_counter(1), select, 0x8000_0000_0000),
            &[
                (0xc001_0202, 0, 0x1_0001_02c7),
                (0xc001_0203, 0, 0x8000_0000_0000)
            ]
        ));
        assert!(has_steps(
            start_plan(&r, general_counter(1), select),
            &[(0xc001_0202, 0, 0x1_0051_02c7)]
        ));
        let r = Registers::new(&Capabilities {
            architecture: Architecture::AmdV2,
            ..amd_cpu
        });
        assert!(has_steps(
            start_plan(&r, general_counter(1), select),
            &[(0xc000_0301, !2, 2), (0xc001_0202, 0, 0x1_0051_02c7)]
        ));
    }

    #[test]
    fn precise_counters_raise_no_interrupt() {
        let r = Registers::new(&V4);
        let select = EventSelect::new(0xc0, 0).with_modes(true, false);
        let control = |counter, run, is_adaptive| {
            let step = r.control_precise(counter, select, run, is_adaptive);
            (step.keep_mask, step.value)
        };
        let general = general_counter(2);
        assert_eq!(control(general, true, false), (0, 0x41_00c0));
        assert_eq!(control(general, true, true), (0, 0x4_0041_00c0));
        assert_eq!(control(general, false, true), (0, 0x01_00c0));
        let fixed = fixed_counter(1);
        assert_eq!(control(fixed, true, false), (!0xf0, 0x20));
        assert_eq!(
            control(fixed, true, true),
            (!(1 << 36 | 0xf0), 1 << 36 | 0x20)
        );
        assert_eq!(control(fixed, false, true), (!(1 << 36 | 0xf0), 0));
    }

    #[test]
    fn fixed_counter_without_modes_is_not_enabled() {
        let r = Registers::new(&V4);
        let step = r.control(fixed_counter(1), EventSelect::new(0, 0), true);
        assert_eq!((step.keep_mask, step.value), (!0xf0, 0));
    }

    #[test]
    fn restore_writes_the_saved_values() {
        let r = Registers::new(&V4);
        assert!(has_steps(
            r.restore(general_counter(2), &SavedValues),
            &[
                (0x188, 0, 0x1300c0),
                (0x4c3, 0, 0),
                (0x390, 0, 1 << 2),
                (0x38f, !(1 << 2), 0)
            ]
        ));
        // An event select that was enabled is restored as 0.
        assert!(has_steps(
            r.restore(general_counter(1), &SavedValues),
            &[
                (0x187, 0, 0),
                (0x4c2, 0, 0),
                (0x390, 0, 1 << 1),
                (0x38f, !(1 << 1), 1 << 1)
            ]
        ));
        assert!(has_steps(
            r.restore(fixed_counter(1), &SavedValues),
            &[
                (0x38d, !0xf0, 0xb0),
                (0x30a, 0, 0),
                (0x390, 0, 1 << 33),
                (0x38f, !(1 << 33), 0)
            ]
        ));
    }

    #[test]
    fn unfreeze_step_follows_the_version() {
        let unfreeze_step = |capabilities| {
            let step = Registers::new(&capabilities).unfreeze_branches();
            step.map(|s| (s.msr.number(), s.keep_mask, s.value))
        };
        assert_eq!(unfreeze_step(V4), Some((0x390, 0, 1 << 58)));
        let v3 = Capabilities { version: 3, ..V4 };
        assert_eq!(unfreeze_step(v3), Some((0x1d9, !1, 1)));
        let amd_cpu = |freezes| Capabilities {
            architecture: Architecture::AmdV2,
            version: 2,
            last_branch: Some(BranchRecords::Amd {
                depth: 16,
                address_bits: 48,
                freezes,
            }),
            ..V4
        };
        assert_eq!(
            unfreeze_step(amd_cpu(true)),
            Some((0xc000_0302, 0, 1 << 58))
        );
        assert_eq!(unfreeze_step(amd_cpu(false)), None);
    }

    #[test]
    fn steps_change_their_own_bits_only() {
        let step = Step::set_bits(Msr::PERF_CAPABILITIES, 0xf0, 0xfff);
        assert_eq!(step.apply(0x1234), 0x12f4);
        assert_eq!(Step::write(Msr::PERF_CAPABILITIES, 7).apply(u64::MAX), 7);
        // The kept bits may have any value.
        assert!(step.matches(0x12ff));
        assert!(!step.matches(0x127f));
    }
}

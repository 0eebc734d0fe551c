// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The kinds of branch records. They differ in the number of branches, in the branches that can be recorded, and in the
//! registers that start and stop the recording.
//!
//! [`super::lbr`] has the form of each record, [`super::branches`] the filter, and [`super::recorded_branches`] the
//! branches in the processor's records of precise samples.

use super::branches::{is_call_stack, BranchStack, Branches};
use super::event_attr::InvalidAttr;
use super::lbr::{DEBUGCTL_FREEZE, DEBUGCTL_LBR};
use super::msr::Msr;

/// The branch records of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchRecords {
    /// Intel's stack from Nehalem to Broadwell: a ring of 16 branches. The upper bits of the address of a branch are its
    /// flags.
    OldStack(OldStack),
    /// Intel's stack from Skylake to Rocket Lake (Intel SDM, volume 3B, chapter 18): a ring of 32 branches, and a register
    /// with the number of the newest branch.
    Stack,
    /// Intel's architectural records, from Alder Lake and Sapphire Rapids on (Intel SDM, volume 3B, "Last Branch
    /// Records"): the newest record has the number 0.
    Architectural {
        /// The number of branches that are recorded.
        depth: u8,
    },
    /// AMD's records, from Zen 4 on (`LbrExtV2`; AMD APM, volume 2, "Last Branch Stack Registers"): the newest record
    /// has the number 0.
    Amd {
        /// The number of branches that are recorded.
        depth: u8,
        /// The number of bits of an address. Addresses in the registers have to be sign-extended from the highest of
        /// these bits.
        address_bits: u8,
        /// An overflow interrupt can freeze the records.
        freezes: bool,
    },
}

/// A version of Intel's stack before Skylake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OldStack {
    /// Nehalem and Westmere: calls and returns can be recorded only together with jumps (an erratum, as in Linux).
    Nehalem,
    /// Sandy Bridge and Ivy Bridge.
    SandyBridge,
    /// Haswell and Broadwell: with call stacks, and with flags of transactions.
    Haswell,
}

impl OldStack {
    /// The number of branches that are recorded.
    pub const DEPTH: u32 = 16;

    /// Returns the number of flag bits above the address of a branch.
    #[must_use]
    pub const fn flag_count(self) -> u32 {
        match self {
            Self::Nehalem | Self::SandyBridge => 1,
            Self::Haswell => 3,
        }
    }

    /// Returns whether the stack can record `branches`.
    const fn can_record(self, branches: Branches) -> bool {
        match self {
            Self::Nehalem => !branches.are_calls() && !branches.has_calls_without_jumps(),
            Self::SandyBridge => !branches.are_calls(),
            Self::Haswell => true,
        }
    }
}

impl BranchRecords {
    /// The number of branches in the stack from Skylake on.
    pub const STACK_DEPTH: u32 = 32;

    /// Returns the number of branches that are recorded.
    #[must_use]
    pub const fn depth(self) -> u32 {
        match self {
            Self::OldStack(_) => OldStack::DEPTH,
            Self::Stack => Self::STACK_DEPTH,
            Self::Architectural { depth } | Self::Amd { depth, .. } => depth as u32,
        }
    }

    /// Returns whether branches of the kernel can be recorded: without freezing, the overflow handler's own branches
    /// would replace the records before they are read.
    #[must_use]
    pub const fn has_kernel(self) -> bool {
        !matches!(self, Self::Amd { freezes: false, .. })
    }

    /// Checks that these records can give samples the branches of `stack`.
    ///
    /// # Errors
    ///
    /// [`InvalidAttr::Unsupported`] for call stacks, types of branches and branches of the kernel that these records
    /// can't have.
    pub const fn check(self, stack: &BranchStack) -> Result<(), InvalidAttr> {
        let branches = stack.branches;
        let has_all_kinds = match self {
            Self::OldStack(old) => !stack.has_types() && old.can_record(branches),
            Self::Stack => !stack.has_types(),
            Self::Architectural { .. } => true,
            Self::Amd { .. } => !stack.has_types() && !branches.are_calls(),
        };
        if has_all_kinds && (self.has_kernel() || !branches.has_kernel()) {
            Ok(())
        } else {
            Err(InvalidAttr::Unsupported)
        }
    }
}

/// The bit of a register that enables branch records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnableBit {
    /// The register.
    pub msr: Msr,
    /// The bit, as a mask.
    pub bit: u64,
}

/// The registers that start and stop branch records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchMsrs {
    /// The register that selects the branches to record.
    pub select: Msr,
    /// The enable bit in [`Self::select`]; 0 if it is in another register.
    pub select_enable: u64,
    /// The bits of `IA32_DEBUGCTL` that are used: the bit that enables the records, if this
    /// register has it, and the bit that makes an overflow interrupt freeze the records, if the
    /// processor can freeze records.
    pub debugctl: u64,
    /// The enable bit, if it is in a register of its own.
    pub enable_bit: Option<EnableBit>,
    /// The register with the number of branches, if the processor has it: writing it empties the records.
    pub depth: Option<Msr>,
}

/// The bit of `DBG_EXTN_CFG` that enables AMD's records (`LBRV2EN`).
pub const AMD_ENABLE: u64 = 1 << 6;
/// The bit of `IA32_LBR_CTL` that enables Intel's architectural records (`LBREn`).
const LBR_CTL_ENABLE: u64 = 1 << 0;

impl BranchMsrs {
    /// Returns the registers of `records`.
    #[must_use]
    pub const fn new(records: BranchRecords) -> Self {
        match records {
            BranchRecords::OldStack(_) | BranchRecords::Stack => Self {
                select: Msr::LBR_SELECT,
                select_enable: 0,
                debugctl: DEBUGCTL_LBR | DEBUGCTL_FREEZE,
                enable_bit: None,
                depth: None,
            },
            BranchRecords::Architectural { .. } => Self {
                select: Msr::LBR_CTL,
                select_enable: LBR_CTL_ENABLE,
                debugctl: DEBUGCTL_FREEZE,
                enable_bit: None,
                depth: Some(Msr::LBR_DEPTH),
            },
            BranchRecords::Amd { freezes, .. } => Self {
                select: Msr::AMD_LBR_SELECT,
                select_enable: 0,
                debugctl: if freezes { DEBUGCTL_FREEZE } else { 0 },
                enable_bit: Some(EnableBit {
                    msr: Msr::AMD_DBG_EXTN_CFG,
                    bit: AMD_ENABLE,
                }),
                depth: None,
            },
        }
    }

    /// Returns the value of [`Self::select`] while branches are recorded.
    #[must_use]
    pub const fn selection(&self, branches: Branches) -> u64 {
        if self.depth.is_some() {
            architectural_filter(branches.filter) | self.select_enable
        } else {
            branches.filter
        }
    }

    /// Returns the bits of [`Self::debugctl`] that are set while branches are recorded. A call stack is never frozen,
    /// because it would miss returns. It need not be frozen: a call stack of user mode does not change in the overflow
    /// handler.
    #[must_use]
    pub const fn debugctl_bits(&self, branches: Branches) -> u64 {
        if is_call_stack(branches.filter) {
            self.debugctl & !DEBUGCTL_FREEZE
        } else {
            self.debugctl
        }
    }
}

/// Pairs of bit numbers: a bit of `MSR_LBR_SELECT` that excludes branches, and the bit of `IA32_LBR_CTL` that includes the
/// same branches.
const FILTER_BITS: [(u32, u32); 9] = [
    // Ring 0, other rings.
    (0, 1),
    (1, 2),
    // Conditional branches, calls, returns, jumps, and far branches.
    (2, 16),
    (3, 19),
    (4, 20),
    (5, 21),
    (6, 18),
    (7, 17),
    (8, 22),
];

/// Returns the bits of `IA32_LBR_CTL` for a value of `MSR_LBR_SELECT`.
const fn architectural_filter(filter: u64) -> u64 {
    const CALL_STACK: u64 = 1 << 3;

    let mut value = if is_call_stack(filter) { CALL_STACK } else { 0 };
    let mut n = 0;
    while n < FILTER_BITS.len() {
        let (excluding_bit, including_bit) = FILTER_BITS[n];
        value |= (!filter >> excluding_bit & 1) << including_bit;
        n += 1;
    }
    value
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_branch_records)
)]
mod tests {
    use super::super::event_attr::{
        PerfEventAttr, PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_BRANCH_ANY_CALL,
        PERF_SAMPLE_BRANCH_ANY_RETURN, PERF_SAMPLE_BRANCH_CALL_STACK, PERF_SAMPLE_BRANCH_IND_JUMP,
        PERF_SAMPLE_BRANCH_KERNEL, PERF_SAMPLE_BRANCH_TYPE_SAVE, PERF_SAMPLE_BRANCH_USER,
    };
    use super::*;

    const ARCHITECTURAL: BranchRecords = BranchRecords::Architectural { depth: 32 };

    const fn amd(freezes: bool) -> BranchRecords {
        BranchRecords::Amd {
            depth: 16,
            address_bits: 48,
            freezes,
        }
    }

    fn stack_for(branch_sample_type: u64) -> Result<BranchStack, InvalidAttr> {
        BranchStack::new(&PerfEventAttr {
            branch_sample_type,
            ..PerfEventAttr::ZERO
        })
    }

    /// Returns whether samples can have branches of this kind: first of the program alone, then of the program and the
    /// kernel.
    fn can_have(records: BranchRecords, kind: u64) -> (bool, bool) {
        let check_mode = |mode| stack_for(kind | mode).and_then(|stack| records.check(&stack));
        let both_modes = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL;
        (
            check_mode(PERF_SAMPLE_BRANCH_USER).is_ok(),
            check_mode(both_modes).is_ok(),
        )
    }

    #[test]
    fn kinds_of_records_support_their_branches() {
        const ANY_WITH_TYPES: u64 = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_TYPE_SAVE;
        const CALL_STACK_KIND: u64 = PERF_SAMPLE_BRANCH_CALL_STACK;
        let any_branch = |records| can_have(records, PERF_SAMPLE_BRANCH_ANY);
        assert_eq!(any_branch(BranchRecords::Stack), (true, true));
        assert_eq!(any_branch(ARCHITECTURAL), (true, true));
        assert_eq!(any_branch(amd(true)), (true, true));
        assert_eq!(any_branch(amd(false)), (true, false));
        let branch_types = |records| can_have(records, ANY_WITH_TYPES);
        assert_eq!(branch_types(BranchRecords::Stack), (false, false));
        assert_eq!(branch_types(ARCHITECTURAL), (true, true));
        assert_eq!(branch_types(amd(true)), (false, false));
        let call_stacks = |records| can_have(records, CALL_STACK_KIND);
        assert_eq!(call_stacks(BranchRecords::Stack), (true, false));
        assert_eq!(call_stacks(ARCHITECTURAL), (true, false));
        assert_eq!(call_stacks(amd(true)), (false, false));
    }

    #[test]
    fn old_stacks_support_fewer_kinds() {
        let old_stacks_have = |kind| {
            [OldStack::Nehalem, OldStack::SandyBridge, OldStack::Haswell]
                .map(|stack| can_have(BranchRecords::OldStack(stack), kind).0)
        };
        assert_eq!(old_stacks_have(PERF_SAMPLE_BRANCH_ANY), [true; 3]);
        assert_eq!(old_stacks_have(PERF_SAMPLE_BRANCH_IND_JUMP), [true; 3]);
        assert_eq!(
            old_stacks_have(PERF_SAMPLE_BRANCH_ANY_RETURN),
            [false, true, true]
        );
        assert_eq!(
            old_stacks_have(PERF_SAMPLE_BRANCH_ANY_CALL),
            [false, true, true]
        );
        assert_eq!(
            old_stacks_have(PERF_SAMPLE_BRANCH_CALL_STACK),
            [false, false, true]
        );
        let any_with_types = PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_TYPE_SAVE;
        assert_eq!(old_stacks_have(any_with_types), [false; 3]);
    }

    /// Returns the value of the register that selects branches, and the bits of `IA32_DEBUGCTL`.
    fn register_values(records: BranchRecords, kind: u64) -> Option<(u64, u64)> {
        let branches = stack_for(kind | PERF_SAMPLE_BRANCH_USER).ok()?.branches;
        let msrs = BranchMsrs::new(records);
        Some((msrs.selection(branches), msrs.debugctl_bits(branches)))
    }

    #[test]
    fn register_values_follow_the_branches() {
        let stack_values = |kind| register_values(BranchRecords::Stack, kind);
        let arch_values = |kind| register_values(ARCHITECTURAL, kind);
        let call_stack_kind = PERF_SAMPLE_BRANCH_CALL_STACK;
        assert_eq!(stack_values(PERF_SAMPLE_BRANCH_ANY), Some((0b01, 0x801)));
        assert_eq!(stack_values(call_stack_kind), Some((0b11_1100_0101, 0x001)));
        assert_eq!(
            arch_values(PERF_SAMPLE_BRANCH_ANY),
            Some((0x7f_0005, 0x800))
        );
        assert_eq!(
            arch_values(PERF_SAMPLE_BRANCH_ANY_CALL),
            Some((0x18_0005, 0x800))
        );
        assert_eq!(
            arch_values(PERF_SAMPLE_BRANCH_IND_JUMP),
            Some((0x04_0005, 0x800))
        );
        assert_eq!(arch_values(call_stack_kind), Some((0x38_000d, 0)));
        let amd_values = |freezes| register_values(amd(freezes), PERF_SAMPLE_BRANCH_ANY);
        assert_eq!(amd_values(true), Some((0b01, 0x800)));
        assert_eq!(amd_values(false), Some((0b01, 0)));
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A branch record: the bits of its registers, and their form in traces and samples (Intel SDM, volume 3B,
//! chapter 18 and "Last Branch Records"; AMD APM, volume 2, "Last Branch Stack Registers").
//!
//! [`super::branch_records`] has the kinds of branch records and their control registers, [`super::branches`] the
//! filter, and [`super::recorded_branches`] the branches in the processor's records of precise samples.

use crate::abi;
use core::mem::offset_of;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes};

/// The largest number of branches in a sample or record.
pub const MAX_DEPTH: u32 = abi::PERFMON_MAX_NUM_LAST_BRANCH;

/// The bit of `IA32_DEBUGCTL` that enables Intel's stack of branch records.
pub const DEBUGCTL_LBR: u64 = 1 << 0;
/// The bit of `IA32_DEBUGCTL` that makes an overflow interrupt freeze the branch records.
pub const DEBUGCTL_FREEZE: u64 = 1 << 11;

/// The format of [`BranchRecords::Stack`](super::branch_records::BranchRecords::Stack), as in bits 5:0 of
/// `IA32_PERF_CAPABILITIES`: addresses have no flags above them, and cycles and mispredictions are in `MSR_LBR_INFO_x`.
pub const FORMAT_INFO: u64 = 5;
/// [`FORMAT_INFO`] of cores without transactions: Goldmont Plus and Tremont.
pub const FORMAT_INFO_2: u64 = 7;

/// The bit that is set in all addresses of the kernel, which are in the upper half.
const KERNEL_BIT: u64 = 1 << 63;

/// Returns whether an address is in the upper half, where the kernel is.
#[must_use]
#[inline]
pub const fn is_kernel_address(address: u64) -> bool {
    address & KERNEL_BIT != 0
}

/// Returns the `info` of a branch in a record, from the two halves of its `MSR_LBR_INFO_x`: bits 15:0 are the
/// cycles, bit 63 is set if the branch was mispredicted.
#[must_use]
#[inline]
pub const fn info(low: u64, high: u64) -> u64 {
    let mispredicted = high >> 31 << abi::PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT;
    low & abi::PERFMON_LAST_BRANCH_INFO_CYCLES_MASK as u64 | mispredicted
}

/// The format of [`BranchRecords::OldStack`](super::branch_records::BranchRecords::OldStack) before Haswell: one flag
/// above the address of a branch.
pub const FORMAT_FLAGS: u64 = 3;
/// The format of `BranchRecords::OldStack` from Haswell on: three flags above the address.
pub const FORMAT_FLAGS_2: u64 = 4;

/// Returns the flags above the address of a branch, in the form of `MSR_LBR_INFO_x`.
#[must_use]
#[inline]
pub const fn flags_of_address(from: u64, flag_count: u32) -> u64 {
    from & !(u64::MAX >> flag_count)
}

/// Returns the address of a branch without the flags above it.
#[must_use]
#[inline]
pub const fn without_flags(from: u64, flag_count: u32) -> u64 {
    sign_extend(from, u64::BITS.saturating_sub(flag_count))
}

/// Returns `IA32_LBR_x_INFO` with the cycles in the form of `MSR_LBR_INFO_x`: 0 if the cycles are not known.
#[must_use]
#[inline]
pub const fn with_known_cycles(info: u64) -> u64 {
    /// `CYC_CNT_VALID`
    const CYCLES_VALID: u64 = 1 << 60;
    const CYCLES: u64 = 0xffff;

    if info & CYCLES_VALID == 0 {
        info & !CYCLES
    } else {
        info
    }
}

/// The bits of `struct perf_branch_entry` for misprediction, transactions, cycles and speculation.
pub const FLAGS: u64 = 0xf_ffff | SPECULATION;
/// The bits of `struct perf_branch_entry` for the branch type (`type`).
pub const TYPE: u64 = 0xf << TYPE_SHIFT;
/// The bits of `struct perf_branch_entry` for speculation (`spec`).
const SPECULATION: u64 = 0b11 << SPECULATION_SHIFT;
const TYPE_SHIFT: u32 = 20;
const SPECULATION_SHIFT: u32 = 24;

/// The bit `mispred` of `struct perf_branch_entry`.
const MISPREDICTED: u64 = 1 << 0;
/// The bit `predicted` of `struct perf_branch_entry`.
const PREDICTED: u64 = 1 << 1;

/// Returns the type of a branch in a sample, from its `IA32_LBR_x_INFO`. Far branches have type 0: the processor does
/// not distinguish system calls, interrupts, and the returns from both.
#[must_use]
#[inline]
pub const fn branch_type(info: u64) -> u64 {
    /// `PERF_BR_*` by the processor's number of the type: conditional, indirect jump, direct jump, indirect call,
    /// direct call, return.
    const TYPES: [u64; 6] = [1, 3, 2, 5, 4, 6];

    let number = (info >> 56 & 0xf) as usize;
    if number < TYPES.len() {
        TYPES[number] << TYPE_SHIFT
    } else {
        0
    }
}

/// A branch in AMD's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmdBranch {
    /// The address of the branch, or of the previous instruction if the two were fused.
    pub from: u64,
    /// The address of the branch's target.
    pub to: u64,
    is_mispredicted: bool,
    /// `PERF_BR_SPEC_*`
    speculation: u8,
}

impl AmdBranch {
    /// Returns the branch in these registers, with addresses of `bits` bits. `None` if the registers hold no branch, or
    /// a record that is wrong (erratum 1452).
    #[must_use]
    #[inline]
    pub const fn decode(from: u64, to: u64, bits: u32) -> Option<Self> {
        const WRONG_RECORD: u64 = 1 << 61;

        // The bits `valid` (2) and `spec` (1) have the same values in Linux's `PERF_BR_SPEC_*`.
        let speculation = (to >> 62) as u8;
        if speculation == 0 || to & WRONG_RECORD != 0 {
            return None;
        }
        Some(Self {
            from: sign_extend(from, bits),
            to: sign_extend(to, bits),
            is_mispredicted: from >> 63 != 0,
            speculation,
        })
    }

    /// Returns whether the branch was executed: false on a path that turned out to be mispredicted.
    #[must_use]
    #[inline]
    pub const fn is_executed(&self) -> bool {
        self.speculation & 0b10 != 0
    }

    /// Returns the `info` of the branch in a record.
    #[must_use]
    #[inline]
    pub const fn info(&self) -> u64 {
        (self.is_mispredicted as u64) << abi::PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT
    }

    /// Returns the flags of the branch in a sample.
    #[must_use]
    #[inline]
    pub const fn flags(&self) -> u64 {
        let prediction = if self.is_mispredicted {
            MISPREDICTED
        } else {
            PREDICTED
        };
        prediction | (self.speculation as u64) << SPECULATION_SHIFT
    }
}

/// Returns an address of `bits` bits, sign-extended to 64.
#[inline]
const fn sign_extend(address: u64, bits: u32) -> u64 {
    let shift = u64::BITS.saturating_sub(bits);
    ((address << shift) as i64 >> shift) as u64
}

/// Returns the flags of a branch in a sample, from its `MSR_LBR_INFO_x`.
#[must_use]
#[inline]
pub const fn flags(info: u64) -> u64 {
    /// `cycles`
    const CYCLES_SHIFT: u32 = 4;
    /// `in_tx`
    const IN_TRANSACTION: u64 = 1 << 2;
    /// `abort`
    const ABORT: u64 = 1 << 3;
    /// The flags by bits 63:61 of `MSR_LBR_INFO_x`: bit 63 is set if the branch was mispredicted, bit 62 in a transaction, and
    /// bit 61 if the branch was the abort of a transaction.
    const FLAGS_BY_BITS: [u64; 8] = [
        PREDICTED,
        PREDICTED | ABORT,
        PREDICTED | IN_TRANSACTION,
        PREDICTED | IN_TRANSACTION | ABORT,
        MISPREDICTED,
        MISPREDICTED | ABORT,
        MISPREDICTED | IN_TRANSACTION,
        MISPREDICTED | IN_TRANSACTION | ABORT,
    ];

    FLAGS_BY_BITS[(info >> 61) as usize] | (info & 0xffff) << CYCLES_SHIFT
}

/// The part of a LAST_BRANCH record before the branches.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct LastBranchHead {
    /// The type of the record, and the event.
    pub header: abi::perfmon_record_header,
    /// The number of branches that follow.
    pub num_branches: u32,
    /// The address space.
    pub aspace: u64,
}

const _: () = {
    use abi::perfmon_last_branch_record as Record;
    assert!(offset_of!(LastBranchHead, num_branches) == offset_of!(Record, num_branches));
    assert!(offset_of!(LastBranchHead, aspace) == offset_of!(Record, aspace));
    assert!(size_of::<LastBranchHead>() == offset_of!(Record, branches));
};

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_lbr))]
mod tests {
    use super::*;

    #[test]
    fn info_has_cycles_and_misprediction() {
        assert_eq!(info(0xffff_ffff, 0xffff_ffff), 0x1_ffff);
        assert_eq!(info(0xffff_1234, 0x6fff_ffff), 0x1234);
        assert_eq!(info(0, 1 << 31), 0x1_0000);
    }

    #[test]
    fn flags_match_perf_branch_entry() {
        assert_eq!(flags(0), 0b10);
        assert_eq!(flags(1 << 63 | 0x12), 0x121);
        assert_eq!(flags(1 << 62), 0b110);
        assert_eq!(flags(1 << 61), 0b1010);
    }

    #[test]
    fn flags_above_an_address_are_separated() {
        let user = 0x7fff_ffff_f000;
        let kernel = 0xffff_ffff_8100_0000;
        for (flags, masked) in [(1, u64::MAX >> 1), (3, u64::MAX >> 3)] {
            for address in [user, kernel] {
                assert_eq!(without_flags(address & masked, flags), address);
                assert_eq!(without_flags(address & masked | 1 << 63, flags), address);
                assert_eq!(flags_of_address(address & masked | 1 << 63, flags), 1 << 63);
            }
        }
        assert_eq!(flags_of_address(0b011 << 61 | user, 3), 0b011 << 61);
    }

    #[test]
    fn unknown_cycles_are_0() {
        assert_eq!(with_known_cycles(1 << 63 | 0x1234), 1 << 63);
        assert_eq!(with_known_cycles(1 << 60 | 0x1234), 1 << 60 | 0x1234);
    }

    #[test]
    fn types_match_perf_br() {
        // PERF_BR_COND, IND, UNCOND, IND_CALL, CALL and RET; the other numbers are PERF_BR_UNKNOWN.
        for (number, expected) in [1, 3, 2, 5, 4, 6, 0, 0, 0].into_iter().enumerate() {
            let info = 1 << 63 | (number as u64) << 56;
            assert_eq!(branch_type(info), expected << 20);
        }
        assert_eq!(branch_type(0xf << 56), 0);
    }

    fn decode_amd(from: u64, to: u64) -> Option<(u64, u64, u64, u64)> {
        let branch = AmdBranch::decode(from, to, 48)?;
        let info_if_executed = if branch.is_executed() {
            branch.info()
        } else {
            7
        };
        Some((branch.from, branch.to, branch.flags(), info_if_executed))
    }

    #[test]
    fn amd_branches_are_decoded() {
        const VALID: u64 = 1 << 63;
        const SPECULATIVE: u64 = 1 << 62;
        assert_eq!(decode_amd(0, 0), None);
        assert_eq!(decode_amd(0x1000, 0x2000), None);
        assert_eq!(decode_amd(0x1000, VALID | 1 << 61 | 0x2000), None);
        // The speculation of these branches is PERF_BR_NON_SPEC_CORRECT_PATH, SPEC_CORRECT_PATH and SPEC_WRONG_PATH.
        let predicted = Some((0x1000, 0x2000, 2 << 24 | 0b10, 0));
        assert_eq!(decode_amd(0x1000, VALID | 0x2000), predicted);
        let mispredicted = Some((0x1000, 0x2000, 3 << 24 | 0b01, 0x1_0000));
        assert_eq!(
            decode_amd(1 << 63 | 0x1000, VALID | SPECULATIVE | 0x2000),
            mispredicted
        );
        let wrong_path = Some((0x1000, 0x2000, 1 << 24 | 0b10, 7));
        assert_eq!(decode_amd(0x1000, SPECULATIVE | 0x2000), wrong_path);
        // A branch of the kernel: the registers have 58 bits of its addresses.
        let kernel = AmdBranch::decode(0x03ff_ffff_8100_0000, VALID | 0xffff_8000_0000, 48);
        let addresses = kernel.map(|branch| (branch.from, branch.to));
        assert_eq!(
            addresses,
            Some((0xffff_ffff_8100_0000, 0xffff_ffff_8000_0000))
        );
        // With five levels of page tables, this address is the program's.
        let user_address_of_57_bits = AmdBranch::decode(0xffff_8000_0000, VALID, 57);
        assert_eq!(
            user_address_of_57_bits.map(|branch| branch.from),
            Some(0xffff_8000_0000)
        );
    }

    #[test]
    fn kernel_addresses_are_in_the_upper_half() {
        assert!(is_kernel_address(0xffff_ffff_8100_0000));
        assert!(!is_kernel_address(0x7fff_ffff_f000));
    }

    #[test]
    fn head_ends_where_the_branches_begin() {
        use core::mem::{offset_of, size_of};
        let branches = offset_of!(abi::perfmon_last_branch_record, branches);
        assert_eq!(size_of::<LastBranchHead>(), branches);
    }
}

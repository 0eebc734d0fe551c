// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Last branch records: the bits of their registers (Intel SDM, volume 3B, chapter 18).

use crate::abi;
use core::mem::offset_of;
use zerocopy_derive::{FromBytes, Immutable, IntoBytes};

/// The number of branches that the stack holds.
pub const DEPTH: u32 = abi::PERFMON_MAX_NUM_LAST_BRANCH;

/// `IA32_DEBUGCTL`: record branches.
pub const DEBUGCTL_LBR: u64 = 1 << 0;
/// `IA32_DEBUGCTL`: freeze the stack when an overflow interrupt is raised.
pub const DEBUGCTL_FREEZE: u64 = 1 << 11;

/// The supported stack format, as in `IA32_PERF_CAPABILITIES`, bits 5:0: addresses are whole, and cycles and
/// mispredictions are in `MSR_LBR_INFO_x`.
pub const FORMAT_INFO: u64 = 5;

/// The bit that is set in all addresses of the upper half, where the kernel is.
const KERNEL: u64 = 1 << 63;

/// Returns whether an address is in the upper half, where the kernel is.
#[must_use]
#[inline]
pub const fn is_kernel_address(address: u64) -> bool {
    address & KERNEL != 0
}

/// Returns the `info` of a branch in a record, from the two halves of its `MSR_LBR_INFO_x`: bits 15:0 are the
/// cycles, bit 63 is set if the branch was mispredicted.
#[must_use]
#[inline]
pub const fn info(low: u64, high: u64) -> u64 {
    let mispredicted = high >> 31 << abi::PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT;
    low & abi::PERFMON_LAST_BRANCH_INFO_CYCLES_MASK as u64 | mispredicted
}

/// Returns the flags of a branch in a sample (`struct perf_branch_entry`), from its `MSR_LBR_INFO_x`.
#[must_use]
#[inline]
pub const fn flags(info: u64) -> u64 {
    /// `mispred`
    const MISPREDICTED: u64 = 1 << 0;
    /// `predicted`
    const PREDICTED: u64 = 1 << 1;
    /// `cycles`
    const CYCLES_SHIFT: u32 = 4;

    let prediction = if info >> 63 != 0 {
        MISPREDICTED
    } else {
        PREDICTED
    };
    // Bit 62, in a transaction, and bit 61, an abort, follow.
    let transaction = (info >> 62 & 1) << 2 | (info >> 61 & 1) << 3;
    prediction | transaction | (info & 0xffff) << CYCLES_SHIFT
}

/// The part of a LAST_BRANCH record before the branches.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Head {
    /// The type of the record, and the event.
    pub header: abi::perfmon_record_header,
    /// The number of branches that follow.
    pub num_branches: u32,
    /// The address space.
    pub aspace: u64,
}

const _: () = {
    use abi::perfmon_last_branch_record as Record;
    assert!(offset_of!(Head, num_branches) == offset_of!(Record, num_branches));
    assert!(offset_of!(Head, aspace) == offset_of!(Record, aspace));
    assert!(size_of::<Head>() == offset_of!(Record, branches));
};

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_lbr))]
mod tests {
    use super::*;

    #[test]
    fn info_is_cycles_and_misprediction() {
        assert_eq!(info(0xffff_ffff, 0xffff_ffff), 0x1_ffff);
        assert_eq!(info(0xffff_1234, 0x6fff_ffff), 0x1234);
        assert_eq!(info(0, 1 << 31), 0x1_0000);
    }

    #[test]
    fn flags_are_those_of_linux() {
        assert_eq!(flags(0), 0b10);
        assert_eq!(flags(1 << 63 | 0x12), 0x121);
        assert_eq!(flags(1 << 62), 0b110);
        assert_eq!(flags(1 << 61), 0b1010);
    }

    #[test]
    fn halves_of_the_address_space() {
        assert!(is_kernel_address(0xffff_ffff_8100_0000));
        assert!(!is_kernel_address(0x7fff_ffff_f000));
    }

    #[test]
    fn the_head_is_what_precedes_the_branches() {
        use core::mem::{offset_of, size_of};
        let branches = offset_of!(abi::perfmon_last_branch_record, branches);
        assert_eq!(size_of::<Head>(), branches);
    }
}

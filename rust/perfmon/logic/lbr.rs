// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Last branch records: the bits of their registers (Intel SDM, volume 3B, chapter 18).

use super::evtsel::EventSelect;
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

/// `MSR_LBR_SELECT`: leave out branches that end in ring 0.
const NO_KERNEL: u64 = 1 << 0;
/// `MSR_LBR_SELECT`: leave out branches that end in other rings.
const NO_USER: u64 = 1 << 1;

/// Returns the value of `MSR_LBR_SELECT` for branches in the modes of `select`.
#[must_use]
pub const fn filter(select: EventSelect) -> u64 {
    let kernel = if select.is_kernel() { 0 } else { NO_KERNEL };
    let user = if select.is_user() { 0 } else { NO_USER };
    kernel | user
}

/// The bit that is set in all addresses of the upper half, where the kernel is.
const KERNEL: u64 = 1 << 63;

/// Returns whether an address is in the upper half, where the kernel is.
#[must_use]
#[inline]
pub const fn is_kernel_address(address: u64) -> bool {
    address & KERNEL != 0
}

/// Returns a mask that tells which addresses to leave out when branches are recorded in the modes of `select`:
/// the bit that all kernel addresses have, or 0 if the kernel is recorded.
#[must_use]
pub const fn kernel_bit_mask(select: EventSelect) -> u64 {
    if select.is_kernel() {
        0
    } else {
        KERNEL
    }
}

/// Returns the `info` of a branch in a record, from the two halves of its `MSR_LBR_INFO_x`: bits 15:0 are the
/// cycles, bit 63 is set if the branch was mispredicted.
#[must_use]
#[inline]
pub const fn info(low: u64, high: u64) -> u64 {
    let mispredicted = high >> 31 << abi::PERFMON_LAST_BRANCH_INFO_MISPRED_SHIFT;
    low & abi::PERFMON_LAST_BRANCH_INFO_CYCLES_MASK as u64 | mispredicted
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
    fn filter_follows_the_modes() {
        let filter = |user, kernel| filter(EventSelect::new(0, 0).with_modes(user, kernel));
        assert_eq!(filter(true, true), 0);
        assert_eq!(filter(true, false), 0b01);
        assert_eq!(filter(false, true), 0b10);
        assert_eq!(filter(false, false), 0b11);
    }

    #[test]
    fn info_is_cycles_and_misprediction() {
        assert_eq!(info(0xffff_ffff, 0xffff_ffff), 0x1_ffff);
        assert_eq!(info(0xffff_1234, 0x6fff_ffff), 0x1234);
        assert_eq!(info(0, 1 << 31), 0x1_0000);
    }

    #[test]
    fn halves_of_the_address_space() {
        assert!(is_kernel_address(0xffff_ffff_8100_0000));
        assert!(!is_kernel_address(0x7fff_ffff_f000));
        let mask = |kernel| kernel_bit_mask(EventSelect::new(0, 0).with_modes(true, kernel));
        assert_eq!(mask(true), 0);
        assert!(is_kernel_address(mask(false)));
    }

    #[test]
    fn the_head_is_what_precedes_the_branches() {
        use core::mem::{offset_of, size_of};
        let branches = offset_of!(abi::perfmon_last_branch_record, branches);
        assert_eq!(size_of::<Head>(), branches);
    }
}

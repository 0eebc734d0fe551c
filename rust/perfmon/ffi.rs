// SPDX-License-Identifier: GPL-2.0-only
//! The functions of perfmon_shim.h, in its order. Their meaning is told in perfmon_shim.c.

use kernel::ffi::{c_int, c_uint, c_void};

extern "C" {
    pub(crate) fn perfmon_slots_alloc(size: usize, align: usize) -> c_int;
    pub(crate) fn perfmon_slots_free();
    pub(crate) fn perfmon_slot(cpu: c_uint) -> *mut c_void;
    pub(crate) fn perfmon_pin() -> *mut c_void;
    pub(crate) fn perfmon_unpin();
    pub(crate) fn perfmon_this_slot() -> *mut c_void;

    pub(crate) fn perfmon_rdmsr_safe(msr: u32, value: *mut u64) -> c_int;

    pub(crate) fn perfmon_reserve_counter(msr: u32) -> bool;
    pub(crate) fn perfmon_reserve_select(msr: u32) -> bool;
    pub(crate) fn perfmon_release_counter(msr: u32);
    pub(crate) fn perfmon_release_select(msr: u32);

    pub(crate) fn perfmon_allow_cpu() -> c_int;
    pub(crate) fn perfmon_allow_kernel() -> c_int;
}

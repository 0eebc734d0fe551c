// SPDX-License-Identifier: GPL-2.0-only
//! The functions of perfmon_shim.h, in its order.

use kernel::{
    bindings,
    ffi::{c_int, c_uint, c_ulong, c_void},
};

/// `struct perfmon_charge`
#[repr(C)]
pub(crate) struct Charge {
    pub(crate) user: *mut c_void,
    pub(crate) mm: *mut c_void,
    pub(crate) user_pages: c_ulong,
    pub(crate) mm_pages: c_ulong,
}

extern "C" {
    pub(crate) fn perfmon_percpu_alloc(size: usize, align: usize) -> c_int;
    pub(crate) fn perfmon_percpu_free();
    pub(crate) fn perfmon_percpu_of(cpu: c_uint) -> *mut c_void;
    pub(crate) fn perfmon_percpu_here() -> *mut c_void;
    pub(crate) fn perfmon_pin() -> *mut c_void;
    pub(crate) fn perfmon_unpin();
    pub(crate) fn perfmon_irqs_off() -> *mut c_void;
    pub(crate) fn perfmon_irqs_on();

    pub(crate) fn perfmon_rdmsr_safe(msr: u32, value: *mut u64) -> c_int;

    pub(crate) fn perfmon_reserve_counter(msr: u32) -> bool;
    pub(crate) fn perfmon_reserve_select(msr: u32) -> bool;
    pub(crate) fn perfmon_release_counter(msr: u32);
    pub(crate) fn perfmon_release_select(msr: u32);

    pub(crate) fn perfmon_allow_kernel() -> c_int;
    pub(crate) fn perfmon_current_cred() -> *const c_void;
    pub(crate) fn perfmon_is_capable(cred: *const c_void) -> bool;

    pub(crate) fn perfmon_get_16(to: *mut c_void, from: usize) -> c_int;
    pub(crate) fn perfmon_put_16(to: usize, from: *const c_void) -> c_int;

    pub(crate) fn perfmon_buffer_alloc(size: usize) -> *mut c_void;
    pub(crate) fn perfmon_buffer_free(start: *mut c_void);
    pub(crate) fn perfmon_open_anonymous(operations: *const c_void, data: *mut c_void) -> c_int;

    pub(crate) fn perfmon_nmi_register(
        handler: unsafe extern "C" fn(*mut c_void, *mut bindings::pt_regs) -> c_int,
    ) -> c_int;
    pub(crate) fn perfmon_nmi_unregister();
    pub(crate) fn perfmon_lvtpc_read() -> u32;
    pub(crate) fn perfmon_lvtpc_write(value: u32);

    pub(crate) fn perfmon_timers_init(tick: unsafe extern "C" fn() -> bool);
    pub(crate) fn perfmon_tick_ns() -> u64;
    pub(crate) fn perfmon_timer_start();
    pub(crate) fn perfmon_timer_stop();

    pub(crate) fn perfmon_power_register(
        down: unsafe extern "C" fn(),
        up: unsafe extern "C" fn(),
    ) -> c_int;
    pub(crate) fn perfmon_power_unregister();

    pub(crate) fn perfmon_dirty_init();
    pub(crate) fn perfmon_dirty_exit();
    pub(crate) fn perfmon_dirty_clean(cpus: *const bindings::cpumask);
    pub(crate) fn perfmon_dirty_clean_here();

    pub(crate) fn perfmon_charge(charge: *mut Charge, pages: u32, user_kb: u32) -> c_int;
    pub(crate) fn perfmon_uncharge(charge: *const Charge);
}

// SPDX-License-Identifier: GPL-2.0-only
// Made from rust/perfmon/sys/perfmon_shim.h by `cargo xtask bindings`: not to be edited.
//! The functions of perfmon_shim.h.
#![allow(improper_ctypes, non_camel_case_types, unreachable_pub, clippy::all)]
use kernel::bindings::{cpumask, cred, mm_struct, pt_regs, user_struct};

#[doc = " The accounts that memory is charged to, and the pages of each."]
#[repr(C)]
pub struct perfmon_charge {
    pub user: *mut user_struct,
    pub mm: *mut mm_struct,
    pub user_pages: ::kernel::ffi::c_ulong,
    pub mm_pages: ::kernel::ffi::c_ulong,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_charge"][::core::mem::size_of::<perfmon_charge>() - 32usize];
    ["Alignment of perfmon_charge"][::core::mem::align_of::<perfmon_charge>() - 8usize];
    ["Offset of field: perfmon_charge::user"]
        [::core::mem::offset_of!(perfmon_charge, user) - 0usize];
    ["Offset of field: perfmon_charge::mm"][::core::mem::offset_of!(perfmon_charge, mm) - 8usize];
    ["Offset of field: perfmon_charge::user_pages"]
        [::core::mem::offset_of!(perfmon_charge, user_pages) - 16usize];
    ["Offset of field: perfmon_charge::mm_pages"]
        [::core::mem::offset_of!(perfmon_charge, mm_pages) - 24usize];
};
unsafe extern "C" {
    #[doc = " Allocates an area of per-CPU memory for each possible CPU, all bytes zero.\n -ENOMEM if there is no memory. Its type is struct PerCpu in percpu/mod.rs."]
    pub fn perfmon_percpu_alloc(size: usize, align: usize) -> ::kernel::ffi::c_int;
    #[doc = " Frees the areas."]
    pub fn perfmon_percpu_free();
    #[doc = " Returns the area of a possible CPU."]
    pub fn perfmon_percpu_of(cpu: ::kernel::ffi::c_uint) -> *mut ::kernel::ffi::c_void;
    #[doc = " Returns the area of this CPU, which the caller can't leave."]
    pub fn perfmon_percpu_here() -> *mut ::kernel::ffi::c_void;
    #[doc = " Keeps the task on its CPU until perfmon_unpin(), and returns the CPU's area."]
    pub fn perfmon_pin() -> *mut ::kernel::ffi::c_void;
    #[doc = " Ends perfmon_pin()."]
    pub fn perfmon_unpin();
    #[doc = " Keeps the task on its CPU and interrupts off until perfmon_irqs_on(), and\n returns the CPU's area. Only NMIs come between."]
    pub fn perfmon_irqs_off() -> *mut ::kernel::ffi::c_void;
    #[doc = " Ends perfmon_irqs_off()."]
    pub fn perfmon_irqs_on();
    #[doc = " Reads an MSR that may be missing: -EIO then."]
    pub fn perfmon_rdmsr_safe(msr: u32, value: *mut u64) -> ::kernel::ffi::c_int;
    #[doc = " Reserves a counter against Linux perf: true if it was free."]
    pub fn perfmon_reserve_counter(msr: u32) -> bool;
    #[doc = " Reserves an event select against Linux perf: true if it was free."]
    pub fn perfmon_reserve_select(msr: u32) -> bool;
    #[doc = " Ends the reservation of a counter."]
    pub fn perfmon_release_counter(msr: u32);
    #[doc = " Ends the reservation of an event select."]
    pub fn perfmon_release_select(msr: u32);
    #[doc = " Returns 0 if Linux's policy lets the caller count in kernel mode."]
    pub fn perfmon_allow_kernel() -> ::kernel::ffi::c_int;
    #[doc = " Returns the credentials of the current task, without a reference."]
    pub fn perfmon_current_cred() -> *const cred;
    #[doc = " Returns whether the credentials have CAP_PERFMON or CAP_SYS_ADMIN in the\n initial user namespace. Security modules are not asked."]
    pub fn perfmon_is_capable(cred: *const cred) -> bool;
    #[doc = " Copies a structure of two words from a program, in a third of the instructions\n of copy_from_user(). -EFAULT if the address is bad."]
    pub fn perfmon_get_16(
        to: *mut ::kernel::ffi::c_void,
        from: ::kernel::ffi::c_ulong,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Copies a structure of two words to a program. -EFAULT if the address is bad."]
    pub fn perfmon_put_16(
        to: ::kernel::ffi::c_ulong,
        from: *const ::kernel::ffi::c_void,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Allocates zeroed memory for a trace buffer. NULL if there is none."]
    pub fn perfmon_buffer_alloc(size: usize) -> *mut ::kernel::ffi::c_void;
    #[doc = " Frees the memory of a trace buffer."]
    pub fn perfmon_buffer_free(start: *mut ::kernel::ffi::c_void);
    #[doc = " Opens a read-only file of these struct file_operations, and returns a\n descriptor that is closed on exec, or an error."]
    pub fn perfmon_open_anonymous(
        operations: *const ::kernel::ffi::c_void,
        data: *mut ::kernel::ffi::c_void,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Calls handler() at each NMI, with the area of its CPU."]
    pub fn perfmon_nmi_register(
        handler: ::core::option::Option<
            unsafe extern "C" fn(
                area: *mut ::kernel::ffi::c_void,
                regs: *mut pt_regs,
            ) -> ::kernel::ffi::c_int,
        >,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends the calls. No CPU is in the handler when this returns."]
    pub fn perfmon_nmi_unregister();
    #[doc = " Reads the local APIC's entry for performance-monitoring interrupts, on this\n CPU."]
    pub fn perfmon_lvtpc_read() -> u32;
    #[doc = " Writes the local APIC's entry for performance-monitoring interrupts, on this\n CPU."]
    pub fn perfmon_lvtpc_write(value: u32);
    #[doc = " Sets up a timer for each CPU, which calls tick() there once in\n perfmon_tick_ns(), with interrupts off, until it returns false."]
    pub fn perfmon_timers_init(tick: ::core::option::Option<unsafe extern "C" fn() -> bool>);
    #[doc = " Returns the period of the timers, the kernel's own tick."]
    pub fn perfmon_tick_ns() -> u64;
    #[doc = " Starts the timer of this CPU."]
    pub fn perfmon_timer_start();
    #[doc = " Stops the timer of this CPU. It does not tick any more when this returns."]
    pub fn perfmon_timer_stop();
    #[doc = " Calls down() before the system sleeps or reboots, up() after a sleep."]
    pub fn perfmon_power_register(
        down: ::core::option::Option<unsafe extern "C" fn()>,
        up: ::core::option::Option<unsafe extern "C" fn()>,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends the calls."]
    pub fn perfmon_power_unregister();
    #[doc = " Takes the address space that perfmon_dirty_clean() uses: that of the program\n that loads the module, which has to be the caller."]
    pub fn perfmon_dirty_init();
    #[doc = " Gives the address space back."]
    pub fn perfmon_dirty_exit();
    #[doc = " Makes perf zero its dirty counters on these CPUs, which stay online. One caller\n at a time; it sleeps."]
    pub fn perfmon_dirty_clean(cpus: *const cpumask);
    #[doc = " Makes perf zero its dirty counters on this CPU. The caller is a kernel thread\n that is bound to it."]
    pub fn perfmon_dirty_clean_here();
    #[doc = " Charges pages to the caller, as perf does for its buffers: first to the user,\n who has user_kb for each online CPU, then to the address space, which has\n RLIMIT_MEMLOCK unless the caller has CAP_IPC_LOCK. -EPERM if that does not\n suffice, as from perf."]
    pub fn perfmon_charge(
        charge: *mut perfmon_charge,
        pages: u32,
        user_kb: u32,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends a charge, in any task, also if the one that was charged is gone."]
    pub fn perfmon_uncharge(charge: *const perfmon_charge);
}

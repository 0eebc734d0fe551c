// SPDX-License-Identifier: GPL-2.0-only
// Made from rust/perfmon/sys/perfmon_shim.h by `cargo xtask bindings`: not to be edited.
//! The functions of perfmon_shim.h.
#![allow(improper_ctypes, non_camel_case_types, unreachable_pub, clippy::all)]
use kernel::bindings::{
    cred, file, linux_binprm, mm_struct, poll_table_struct, pt_regs, task_struct, user_struct,
    vm_area_struct,
};

#[repr(C)]
pub struct cgroup {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct perfmon_wait {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct perfmon_waker {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct pid {
    _unused: [u8; 0],
}
#[repr(C)]
pub struct pid_namespace {
    _unused: [u8; 0],
}
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
#[doc = " What a program has mapped, as perf's records describe it, without its name."]
#[repr(C)]
pub struct perfmon_mapping {
    pub start: u64,
    pub size: u64,
    pub offset: u64,
    pub major: u32,
    pub minor: u32,
    pub inode: u64,
    pub generation: u64,
    pub protection: u32,
    pub flags: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_mapping"][::core::mem::size_of::<perfmon_mapping>() - 56usize];
    ["Alignment of perfmon_mapping"][::core::mem::align_of::<perfmon_mapping>() - 8usize];
    ["Offset of field: perfmon_mapping::start"]
        [::core::mem::offset_of!(perfmon_mapping, start) - 0usize];
    ["Offset of field: perfmon_mapping::size"]
        [::core::mem::offset_of!(perfmon_mapping, size) - 8usize];
    ["Offset of field: perfmon_mapping::offset"]
        [::core::mem::offset_of!(perfmon_mapping, offset) - 16usize];
    ["Offset of field: perfmon_mapping::major"]
        [::core::mem::offset_of!(perfmon_mapping, major) - 24usize];
    ["Offset of field: perfmon_mapping::minor"]
        [::core::mem::offset_of!(perfmon_mapping, minor) - 28usize];
    ["Offset of field: perfmon_mapping::inode"]
        [::core::mem::offset_of!(perfmon_mapping, inode) - 32usize];
    ["Offset of field: perfmon_mapping::generation"]
        [::core::mem::offset_of!(perfmon_mapping, generation) - 40usize];
    ["Offset of field: perfmon_mapping::protection"]
        [::core::mem::offset_of!(perfmon_mapping, protection) - 48usize];
    ["Offset of field: perfmon_mapping::flags"]
        [::core::mem::offset_of!(perfmon_mapping, flags) - 52usize];
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
    #[doc = " Returns whether CPUs have a DS area that is mapped whatever runs."]
    pub fn perfmon_pebs_has_area() -> bool;
    #[doc = " Returns whether this CPU may run guests of KVM."]
    pub fn perfmon_vmx_is_on() -> bool;
    #[doc = " Allocates the buffers of all CPUs, unless they are there. -ENOMEM."]
    pub fn perfmon_pebs_alloc() -> ::kernel::ffi::c_int;
    #[doc = " Returns this CPU's DS area, and from where to where its buffer is."]
    pub fn perfmon_pebs_begin(start: *mut u64, end: *mut u64) -> u64;
    #[doc = " Clears what the processor has written for programs to see."]
    pub fn perfmon_pebs_end();
    #[doc = " Clears the records of a program that leaves this CPU, if they are in the page that\n the next one has in its page tables."]
    pub fn perfmon_pebs_hide();
    #[doc = " Reads an MSR that may be missing: -EIO then."]
    pub fn perfmon_rdmsr_safe(msr: u32, value: *mut u64) -> ::kernel::ffi::c_int;
    #[doc = " Returns whether two online CPUs are of the same core."]
    pub fn perfmon_same_core(a: ::kernel::ffi::c_uint, b: ::kernel::ffi::c_uint) -> bool;
    #[doc = " Returns whether another online CPU is of the same core as this one, which is online."]
    pub fn perfmon_has_sibling(cpu: ::kernel::ffi::c_uint) -> bool;
    #[doc = " Returns whether two online CPUs share the registers of a package: on Intel those\n of a die."]
    pub fn perfmon_same_package(a: ::kernel::ffi::c_uint, b: ::kernel::ffi::c_uint) -> bool;
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
    pub fn perfmon_copy_from_user_16(
        to: *mut ::kernel::ffi::c_void,
        from: ::kernel::ffi::c_ulong,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Copies a structure of two words to a program. -EFAULT if the address is bad."]
    pub fn perfmon_copy_to_user_16(
        to: ::kernel::ffi::c_ulong,
        from: *const ::kernel::ffi::c_void,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Copies a structure of from_size bytes from a program to one of size bytes. The\n rest of the longer one is or becomes 0: else -E2BIG. -EFAULT if the address is\n bad."]
    pub fn perfmon_copy_struct(
        to: *mut ::kernel::ffi::c_void,
        size: usize,
        from: ::kernel::ffi::c_ulong,
        from_size: usize,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Copies a word from a program. -EFAULT if the address is bad."]
    pub fn perfmon_get_u32(to: *mut u32, from: ::kernel::ffi::c_ulong) -> ::kernel::ffi::c_int;
    #[doc = " Copies a word to a program. -EFAULT if the address is bad."]
    pub fn perfmon_put_u32(to: ::kernel::ffi::c_ulong, value: u32) -> ::kernel::ffi::c_int;
    #[doc = " Copies words to a program, in a third of the instructions of copy_to_user().\n -EFAULT if the address is bad."]
    pub fn perfmon_put_words(
        to: ::kernel::ffi::c_ulong,
        words: *const u64,
        count: usize,
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
    #[doc = " Makes a file for reading and writing of these struct file_operations. An error\n pointer if there can't be another one."]
    pub fn perfmon_anonymous_file(
        operations: *const ::kernel::ffi::c_void,
        data: *mut ::kernel::ffi::c_void,
    ) -> *mut file;
    #[doc = " Returns whether the file has these struct file_operations."]
    pub fn perfmon_is_file_of(file: *mut file, operations: *const ::kernel::ffi::c_void) -> bool;
    #[doc = " Keeps a mapping that is being set up from children, from growing, and from core\n dumps."]
    pub fn perfmon_area_keep(area: *mut vm_area_struct);
    #[doc = " Makes a place where programs wait. After an overflow that was the last one, ended()\n is called in an interrupt; if ended is NULL, there are no overflows. NULL if there is\n no memory."]
    pub fn perfmon_wait_new(
        ended: ::core::option::Option<unsafe extern "C" fn()>,
    ) -> *mut perfmon_wait;
    #[doc = " Waits for the interrupts of the last perfmon_wait_overflow() on each CPU."]
    pub fn perfmon_wait_sync(wait: *mut perfmon_wait);
    #[doc = " Frees it; no program waits there, and there is no such interrupt."]
    pub fn perfmon_wait_free(wait: *mut perfmon_wait);
    #[doc = " Adds a poll(2) of the file to the pollers, and returns."]
    pub fn perfmon_wait_poll(
        wait: *mut perfmon_wait,
        file: *mut file,
        table: *mut poll_table_struct,
    );
    #[doc = " Adds the file to those whose owners get SIGIO, or takes it away (O_ASYNC)."]
    pub fn perfmon_wait_signal(
        wait: *mut perfmon_wait,
        fd: ::kernel::ffi::c_int,
        file: *mut file,
        on: ::kernel::ffi::c_int,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Wakes the pollers with @events, and sends SIGIO with POLL_IN or POLL_HUP, if not 0."]
    pub fn perfmon_wait_wake(wait: *mut perfmon_wait, events: u32, band: ::kernel::ffi::c_int);
    #[doc = " Sends SIGIO soon, from any context: with POLL_IN, or with POLL_HUP after the last\n overflow."]
    pub fn perfmon_wait_overflow(wait: *mut perfmon_wait, band: ::kernel::ffi::c_int);
    #[doc = " Makes a waker: from any context it wakes pollers, with EPOLLIN. NULL if\n there is no memory."]
    pub fn perfmon_waker_new() -> *mut perfmon_waker;
    #[doc = " Frees a waker that is not used any more. It sleeps."]
    pub fn perfmon_waker_free(waker: *mut perfmon_waker);
    #[doc = " Makes the waker wake the pollers here, too. A place has one waker at a time."]
    pub fn perfmon_waker_add(waker: *mut perfmon_waker, wait: *mut perfmon_wait);
    #[doc = " Ends perfmon_waker_add()."]
    pub fn perfmon_waker_remove(waker: *mut perfmon_waker, wait: *mut perfmon_wait);
    #[doc = " Wakes them soon."]
    pub fn perfmon_waker_wake(waker: *mut perfmon_waker);
    #[doc = " Returns the cycles of the time-stamp counter that waking and signalling took on this\n CPU, in interrupts, since the last call. Without preemption."]
    pub fn perfmon_wake_cycles() -> u64;
    #[doc = " Returns whether they were woken since the last call."]
    pub fn perfmon_waker_take(waker: *mut perfmon_waker) -> bool;
    #[doc = " Returns the time in nanoseconds, also in an NMI: of CLOCK_MONOTONIC,\n CLOCK_MONOTONIC_RAW, or with -1 of the clock that perf and the scheduler have."]
    pub fn perfmon_clock(clock: ::kernel::ffi::c_int) -> u64;
    #[doc = " Returns a reference to the caller's PID namespace; NULL for the first one."]
    pub fn perfmon_pid_namespace_get() -> *mut pid_namespace;
    #[doc = " Ends it."]
    pub fn perfmon_pid_namespace_put(ns: *mut pid_namespace);
    #[doc = " Returns the numbers of a task, NULL for the current one, in the namespace, NULL for\n the first one: the process, and above it the thread. 0 if it has none there."]
    pub fn perfmon_task_ids(task: *mut task_struct, ns: *mut pid_namespace) -> u64;
    #[doc = " Returns perfmon_task_ids() of the parent of a task, which is the caller."]
    pub fn perfmon_parent_ids(task: *mut task_struct, ns: *mut pid_namespace) -> u64;
    #[doc = " Copies the name of a task, up to 15 bytes and zeros."]
    pub fn perfmon_copy_name(name: *const ::kernel::ffi::c_char, to: *mut ::kernel::ffi::c_char);
    #[doc = " Returns whether the task, which is the caller, is executing another program."]
    pub fn perfmon_task_executes(task: *const task_struct) -> bool;
    #[doc = " Returns whether the stack that the kernel is on is that of @task: in the context\n switch it may be another's. Any will do if @task is NULL."]
    pub fn perfmon_on_stack_of(task: *const task_struct) -> bool;
    #[doc = " Returns whether these registers, of a sample of @task, tell nothing of others: nor\n what the kernel knows of a program that begins, before it is known which users may know it."]
    pub fn perfmon_may_show_regs(regs: *mut pt_regs, task: *const task_struct) -> bool;
    #[doc = " Returns the registers of the program that is interrupted, or that has called the\n kernel. NULL in a thread of the kernel's, while a program begins, while they are being\n saved, and if another task than @task is the current one; any will do if that is NULL."]
    pub fn perfmon_user_regs(regs: *mut pt_regs, task: *const task_struct) -> *mut pt_regs;
    #[doc = " Returns where the program goes on that has just called the kernel, or was just\n interrupted: its registers are not saved yet. 0 elsewhere."]
    pub fn perfmon_program_address(regs: *const pt_regs) -> u64;
    #[doc = " Returns whether they are registers of 64 bits."]
    pub fn perfmon_regs_are_64(regs: *mut pt_regs) -> bool;
    #[doc = " Writes up to room addresses of a call chain in the kernel, the innermost first,\n and returns how many. For an NMI that came at regs."]
    pub fn perfmon_kernel_chain(regs: *mut pt_regs, chain: *mut u64, room: u32) -> u32;
    #[doc = " The same in the program, by frame pointers; only what is in memory is read."]
    pub fn perfmon_user_chain(regs: *mut pt_regs, chain: *mut u64, room: u32) -> u32;
    #[doc = " Returns the bytes from the program's stack pointer to the end of its addresses."]
    pub fn perfmon_user_stack(regs: *mut pt_regs) -> u64;
    #[doc = " Copies from the program's stack, in an NMI. Returns the bytes that were copied."]
    pub fn perfmon_copy_stack(to: *mut u64, from: u64, size: u32) -> u32;
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
    #[doc = " Sets up a timer for each CPU, which calls tick() there, with interrupts off, and\n again after as many nanoseconds as that returns; no more if it returns 0."]
    pub fn perfmon_timers_init(tick: ::core::option::Option<unsafe extern "C" fn() -> u64>);
    #[doc = " Returns the period of the kernel's own tick."]
    pub fn perfmon_tick_ns() -> u64;
    #[doc = " Starts the timer of this CPU: it ticks after so many nanoseconds, also if it was\n to tick at another time."]
    pub fn perfmon_timer_start(ns: u64);
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
    #[doc = " Makes perf zero its dirty counters on the CPUs that are online; it sleeps. -EBUSY\n if a real-time program keeps a CPU, which is in *busy; -ENOMEM."]
    pub fn perfmon_dirty_clean(busy: *mut ::kernel::ffi::c_uint) -> ::kernel::ffi::c_int;
    #[doc = " Makes perf zero its dirty counters on this CPU. The caller is a kernel thread\n that is bound to it."]
    pub fn perfmon_dirty_clean_here();
    #[doc = " Makes the place-holder of a CPU that is online, with this general counter, unless it\n has one. @constrain: perf may give it no other counter; only for perf's version 6 of\n Intel's PMU, since before perf has no memory for such constraints. It sleeps. -EBUSY\n if another pinned event has the CPU; -ENXIO if perf gives it another counter;\n -EOPNOTSUPP if virtual machines have the counters; -ENOMEM. One caller at a time."]
    pub fn perfmon_hold(
        cpu: ::kernel::ffi::c_uint,
        counter: ::kernel::ffi::c_uint,
        constrain: bool,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends the place-holder of a CPU, if it has one. It sleeps. One caller at a time."]
    pub fn perfmon_unhold(cpu: ::kernel::ffi::c_uint);
    #[doc = " Returns whether the place-holder of this CPU has had the CPU all the time. For a\n caller with interrupts off."]
    pub fn perfmon_holds_here(counter: ::kernel::ffi::c_uint) -> bool;
    #[doc = " Has a kernel thread call f() soon. It does not sleep."]
    pub fn perfmon_unhold_soon(f: ::core::option::Option<unsafe extern "C" fn()>);
    #[doc = " Waits for the f() of the last perfmon_unhold_soon()."]
    pub fn perfmon_unhold_wait();
    #[doc = " Prepares for perfmon_rdpmc_begin()."]
    pub fn perfmon_rdpmc_init();
    #[doc = " Ends perfmon_rdpmc_init()."]
    pub fn perfmon_rdpmc_exit();
    #[doc = " Lets the caller's program use RDPMC, once more. Returns false if it can't. mm is\n the caller's, and locked for writing; it sleeps."]
    pub fn perfmon_rdpmc_begin(mm: *mut mm_struct) -> bool;
    #[doc = " Lets a program that may use RDPMC do so once more."]
    pub fn perfmon_rdpmc_again(mm: *mut mm_struct);
    #[doc = " Ends one perfmon_rdpmc_begin() or perfmon_rdpmc_again(); it sleeps."]
    pub fn perfmon_rdpmc_end(mm: *mut mm_struct);
    #[doc = " Keeps RDPMC from a new task that has an mm of its own: it has no mapping, but the\n kernel copies the number of mappings."]
    pub fn perfmon_rdpmc_forget(child: *mut task_struct);
    #[doc = " Returns whether the task may use RDPMC, in any context."]
    pub fn perfmon_rdpmc_has(task: *const task_struct) -> bool;
    #[doc = " Returns whether any program may use RDPMC: perf leaves that to the children of\n those that had a page mapped. It looks at all tasks."]
    pub fn perfmon_rdpmc_left_by_perf() -> bool;
    #[doc = " Returns whether a child may be in the making that has a copy of a program's right,\n although that has ended since. It looks at all tasks."]
    pub fn perfmon_rdpmc_may_be_copied() -> bool;
    #[doc = " Charges pages to the caller, as perf does for its buffers: first to the user,\n who has user_kb for each online CPU, then to the address space, which has\n RLIMIT_MEMLOCK unless the caller has CAP_IPC_LOCK. -EPERM if that does not\n suffice, as from perf."]
    pub fn perfmon_charge(
        charge: *mut perfmon_charge,
        pages: u32,
        user_kb: u32,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends a charge, in any task, also if the one that was charged is gone."]
    pub fn perfmon_uncharge(charge: *const perfmon_charge);
    #[doc = " Takes the lock of the table of tasks, with interrupts off, and returns what\n perfmon_tasks_unlock() needs."]
    pub fn perfmon_tasks_lock() -> ::kernel::ffi::c_ulong;
    #[doc = " Ends perfmon_tasks_lock()."]
    pub fn perfmon_tasks_unlock(flags: ::kernel::ffi::c_ulong);
    #[doc = " Returns a reference to the thread with this number in the caller's PID\n namespace; 0 is the caller. NULL if there is none."]
    pub fn perfmon_task_get(pid: ::kernel::ffi::c_int) -> *mut task_struct;
    #[doc = " Returns the CPU that a task runs on, or ran on last."]
    pub fn perfmon_task_cpu(task: *mut task_struct) -> ::kernel::ffi::c_uint;
    #[doc = " Returns whether the task exits."]
    pub fn perfmon_task_is_exiting(task: *mut task_struct) -> bool;
    #[doc = " Returns whether the task is a thread of the kernel's own."]
    pub fn perfmon_task_is_kernel(task: *mut task_struct) -> bool;
    #[doc = " Returns whether both tasks are threads of one process."]
    pub fn perfmon_task_is_mine(task: *mut task_struct) -> bool;
    #[doc = " Returns whether the task has this address space, in any context."]
    pub fn perfmon_task_is_in(task: *const task_struct, mm: *const mm_struct) -> bool;
    #[doc = " Returns whether the caller, which executes a program by bprm, has become one\n that others of its user may not look at any more: by a setuid program, by\n capabilities, or by a program that it can't read."]
    pub fn perfmon_exec_is_private(bprm: *const linux_binprm) -> bool;
    #[doc = " Returns a reference to the caller's process."]
    pub fn perfmon_own_process() -> *mut pid;
    #[doc = " Gives the reference back."]
    pub fn perfmon_process_put(process: *mut pid);
    #[doc = " Returns the number of a process in the caller's PID namespace; 0 if it has none\n there, or has exited."]
    pub fn perfmon_process_number(process: *mut pid) -> ::kernel::ffi::c_int;
    #[doc = " Copies the caller's name, up to 15 bytes and a 0."]
    pub fn perfmon_own_name(name: *mut ::kernel::ffi::c_char);
    #[doc = " Has a kernel thread call f(), and waits for it; it sleeps. For what other tasks\n wait for: they would wait until the caller gets to run."]
    pub fn perfmon_call(
        f: ::core::option::Option<unsafe extern "C" fn(data: *mut ::kernel::ffi::c_void)>,
        data: *mut ::kernel::ffi::c_void,
    );
    #[doc = " Calls f() in a second, in a task of the kernel's. If that was asked for before,\n the second begins anew."]
    pub fn perfmon_call_later(f: ::core::option::Option<unsafe extern "C" fn()>);
    #[doc = " Calls f() no more; it has returned when this does."]
    pub fn perfmon_call_later_cancel();
    #[doc = " Calls f() as soon as a task of the kernel's can. It does not sleep."]
    pub fn perfmon_call_soon(f: ::core::option::Option<unsafe extern "C" fn()>);
    #[doc = " Calls f() no more; it has returned when this does."]
    pub fn perfmon_call_soon_cancel();
    #[doc = " Waits for functions that tracepoints may still be calling, and for those that\n call_rcu() has been given."]
    pub fn perfmon_tracepoints_sync();
    #[doc = " Returns a reference to the cgroup of version 2 whose directory is open as fd, or a\n negative errno as a pointer: EBADF, ENOENT; EOPNOTSUPP if the kernel has no cgroups."]
    pub fn perfmon_cgroup_get(fd: ::kernel::ffi::c_int) -> *mut cgroup;
    #[doc = " Gives a reference back. Does not sleep."]
    pub fn perfmon_cgroup_put(cgroup: *mut cgroup);
    #[doc = " Returns the number that the kernel gives it, which the directory has as its inode."]
    pub fn perfmon_cgroup_id(cgroup: *const cgroup) -> u64;
    #[doc = " Returns the number of cgroups that it is in."]
    pub fn perfmon_cgroup_level(cgroup: *const cgroup) -> ::kernel::ffi::c_int;
    #[doc = " Returns the cgroup of version 2 that the task is in, or the one at the level that\n this is in if its own is deeper, as long as the caller has preemption off. NULL if\n the kernel has no cgroups."]
    pub fn perfmon_cgroup_of(task: *mut task_struct, level: ::kernel::ffi::c_int) -> *mut cgroup;
    #[doc = " Returns the cgroup that it is in; NULL for the root."]
    pub fn perfmon_cgroup_parent(cgroup: *mut cgroup) -> *mut cgroup;
    #[doc = " Returns whether it is in the other one, at any depth, or is that."]
    pub fn perfmon_cgroup_is_within(cgroup: *mut cgroup, ancestor: *mut cgroup) -> bool;
    #[doc = " Calls f() soon on the CPU that the task is on, or on those of all threads of its\n process, with interrupts off. For callers with interrupts off."]
    pub fn perfmon_cgroup_moved(
        task: *mut task_struct,
        all_threads: bool,
        f: ::core::option::Option<unsafe extern "C" fn()>,
    );
    #[doc = " Returns 0 if this kernel can tell a module what programs map, as far as that is known\n before it is asked to."]
    pub fn perfmon_mappings_check() -> ::kernel::ffi::c_int;
    #[doc = " Calls mapped() after each mapping or change of one, by the task that makes it, and\n begins() when the rights to look at a program are known that the task begins to execute,\n before anything of that is mapped: both with interrupts off. It sleeps. -EOPNOTSUPP,\n -ENOENT or -EINVAL if this kernel has no kprobes for that, -ENOMEM."]
    pub fn perfmon_mappings_begin(
        mapped: ::core::option::Option<unsafe extern "C" fn(area: *mut vm_area_struct)>,
        begins: ::core::option::Option<unsafe extern "C" fn(program: *mut linux_binprm)>,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends the calls: none is under way when this returns. It sleeps."]
    pub fn perfmon_mappings_end();
    #[doc = " Returns whether the program may execute what is mapped there."]
    pub fn perfmon_mapping_is_executable(area: *const vm_area_struct) -> bool;
    #[doc = " Describes what the caller has just mapped. Writes its name, with zeros up to a multiple\n of 8 bytes, and returns how many these are."]
    pub fn perfmon_mapping_describe(
        area: *mut vm_area_struct,
        to: *mut perfmon_mapping,
        name: *mut ::kernel::ffi::c_char,
    ) -> usize;
    #[doc = " Waits until all code has left that runs with interrupts off now. It sleeps."]
    pub fn perfmon_rcu_wait();
    #[doc = " Mounts a proc for perfmon_may_attach()."]
    pub fn perfmon_proc_mount() -> ::kernel::ffi::c_int;
    #[doc = " Unmounts it."]
    pub fn perfmon_proc_unmount();
    #[doc = " Returns 0 if the caller may look at a task, as ptrace_may_access() and the security\n modules answer; it sleeps."]
    pub fn perfmon_may_attach(task: *mut task_struct) -> ::kernel::ffi::c_int;
}

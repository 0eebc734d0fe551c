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
#[doc = " A mapping of a program, as perf's records describe it, without the name."]
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
#[doc = " The cgroups of a task in one hierarchy: by_level[0] is the root, by_level[level] is\n the cgroup that the task is in, and the cgroups between are its ancestors."]
#[repr(C)]
pub struct perfmon_task_cgroups {
    pub level: u64,
    pub by_level: *const *mut cgroup,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of perfmon_task_cgroups"][::core::mem::size_of::<perfmon_task_cgroups>() - 16usize];
    ["Alignment of perfmon_task_cgroups"][::core::mem::align_of::<perfmon_task_cgroups>() - 8usize];
    ["Offset of field: perfmon_task_cgroups::level"]
        [::core::mem::offset_of!(perfmon_task_cgroups, level) - 0usize];
    ["Offset of field: perfmon_task_cgroups::by_level"]
        [::core::mem::offset_of!(perfmon_task_cgroups, by_level) - 8usize];
};
unsafe extern "C" {
    #[doc = " Allocates an area of per-CPU memory for each possible CPU, all bytes zero.\n Rust code uses an area as the struct PerCpu of percpu/percpu.rs. Returns -ENOMEM\n if there is no memory."]
    pub fn perfmon_percpu_alloc(size: usize, align: usize) -> ::kernel::ffi::c_int;
    #[doc = " Frees the areas."]
    pub fn perfmon_percpu_free();
    #[doc = " Returns the area of a possible CPU."]
    pub fn perfmon_percpu_of(cpu: ::kernel::ffi::c_uint) -> *mut ::kernel::ffi::c_void;
    #[doc = " Returns the area of this CPU, for a caller that can't leave the CPU."]
    pub fn perfmon_percpu_here() -> *mut ::kernel::ffi::c_void;
    #[doc = " Keeps the task on its CPU until perfmon_unpin(), and returns the CPU's area."]
    pub fn perfmon_pin() -> *mut ::kernel::ffi::c_void;
    #[doc = " Lets the task leave its CPU again, after perfmon_pin()."]
    pub fn perfmon_unpin();
    #[doc = " Keeps the task on its CPU and interrupts off until perfmon_irqs_on(), and\n returns the CPU's area. Only NMIs can interrupt it."]
    pub fn perfmon_irqs_off() -> *mut ::kernel::ffi::c_void;
    #[doc = " Turns interrupts on again, after perfmon_irqs_off()."]
    pub fn perfmon_irqs_on();
    #[doc = " Returns whether each CPU has a DS area that is mapped in all page tables."]
    pub fn perfmon_pebs_has_area() -> bool;
    #[doc = " Returns whether this CPU may run guests of KVM."]
    pub fn perfmon_vmx_is_on() -> bool;
    #[doc = " Allocates a PEBS buffer for each CPU that has none. Returns 0 or -ENOMEM."]
    pub fn perfmon_pebs_alloc() -> ::kernel::ffi::c_int;
    #[doc = " Returns the address of this CPU's DS area, and in *start and *end the range\n of its buffer. For a caller that can't leave the CPU."]
    pub fn perfmon_pebs_begin(start: *mut u64, end: *mut u64) -> u64;
    #[doc = " Restores this CPU's DS area as perfmon_pebs_begin() has found it, and clears the\n records in the page, which programs might be able to read. The caller must stay on\n the CPU, and the processor must write no records."]
    pub fn perfmon_pebs_end();
    #[doc = " Clears the records of a program that leaves this CPU, if they are in the page that\n the page tables of the next program map, too. The caller must stay on the CPU, and\n the processor must write no records."]
    pub fn perfmon_pebs_hide();
    #[doc = " Reads an MSR. Returns -EIO if this CPU does not have it."]
    pub fn perfmon_rdmsr_safe(msr: u32, value: *mut u64) -> ::kernel::ffi::c_int;
    #[doc = " Writes an MSR. Returns -EIO if this CPU does not have it, or it can't hold the value."]
    pub fn perfmon_wrmsr_safe(msr: u32, value: u64) -> ::kernel::ffi::c_int;
    #[doc = " Returns whether two online CPUs are threads of the same core."]
    pub fn perfmon_same_core(a: ::kernel::ffi::c_uint, b: ::kernel::ffi::c_uint) -> bool;
    #[doc = " Returns whether the core of an online CPU has another thread that is online, or may have one later."]
    pub fn perfmon_may_have_sibling(cpu: ::kernel::ffi::c_uint) -> bool;
    #[doc = " Returns whether two online CPUs share the registers of a package. On Intel, each\n die of a package has its own."]
    pub fn perfmon_same_package(a: ::kernel::ffi::c_uint, b: ::kernel::ffi::c_uint) -> bool;
    #[doc = " Reserves a counter against Linux perf. Returns whether it was free."]
    pub fn perfmon_reserve_counter(msr: u32) -> bool;
    #[doc = " Reserves an event select against Linux perf. Returns whether it was free."]
    pub fn perfmon_reserve_select(msr: u32) -> bool;
    #[doc = " Ends the reservation of a counter."]
    pub fn perfmon_release_counter(msr: u32);
    #[doc = " Ends the reservation of an event select."]
    pub fn perfmon_release_select(msr: u32);
    #[doc = " Returns 0 if Linux's policy lets the caller count in kernel mode, else a\n negative errno."]
    pub fn perfmon_allow_kernel() -> ::kernel::ffi::c_int;
    #[doc = " Returns the credentials of the current task, without a reference."]
    pub fn perfmon_current_cred() -> *const cred;
    #[doc = " Returns whether the credentials have CAP_PERFMON or CAP_SYS_ADMIN in the\n initial user namespace. Security modules are not asked."]
    pub fn perfmon_is_capable(cred: *const cred) -> bool;
    #[doc = " Copies a structure of two words from a program, in a third of the instructions\n of copy_from_user(). Returns -EFAULT if the address is bad."]
    pub fn perfmon_copy_from_user_16(
        to: *mut ::kernel::ffi::c_void,
        from: ::kernel::ffi::c_ulong,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Copies a structure of two words to a program. Returns -EFAULT if the address is bad."]
    pub fn perfmon_copy_to_user_16(
        to: ::kernel::ffi::c_ulong,
        from: *const ::kernel::ffi::c_void,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Copies a structure of from_size bytes from a program to a structure of size bytes.\n If the program's structure is shorter, the rest of the copy becomes 0. If the\n program's structure is longer, and its rest is not 0, returns -E2BIG. Returns\n -EFAULT if the address is bad."]
    pub fn perfmon_copy_struct(
        to: *mut ::kernel::ffi::c_void,
        size: usize,
        from: ::kernel::ffi::c_ulong,
        from_size: usize,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Copies a word of 32 bits from a program. Returns -EFAULT if the address is bad."]
    pub fn perfmon_get_u32(to: *mut u32, from: ::kernel::ffi::c_ulong) -> ::kernel::ffi::c_int;
    #[doc = " Copies a word of 32 bits to a program. Returns -EFAULT if the address is bad."]
    pub fn perfmon_put_u32(to: ::kernel::ffi::c_ulong, value: u32) -> ::kernel::ffi::c_int;
    #[doc = " Copies words to a program, in a third of the instructions of copy_to_user().\n Returns -EFAULT if the address is bad."]
    pub fn perfmon_put_words(
        to: ::kernel::ffi::c_ulong,
        words: *const u64,
        count: usize,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Allocates @size bytes of zeroed memory by __vmalloc(), in whole pages, which programs\n may map. Returns NULL if there is no memory."]
    pub fn perfmon_buffer_alloc(size: usize) -> *mut ::kernel::ffi::c_void;
    #[doc = " Frees memory of perfmon_buffer_alloc()."]
    pub fn perfmon_buffer_free(start: *mut ::kernel::ffi::c_void);
    #[doc = " Opens a read-only file with these struct file_operations, and returns a\n descriptor that is closed on exec, or a negative errno. The operations have to\n exist as long as the file, and expect @data as its private data."]
    pub fn perfmon_open_anonymous(
        operations: *const ::kernel::ffi::c_void,
        data: *mut ::kernel::ffi::c_void,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Makes a file for reading and writing with these struct file_operations, and\n returns a reference to it; an error pointer if there are too many files, or no\n memory. The operations have to exist as long as the file, and expect @data as\n its private data."]
    pub fn perfmon_anonymous_file(
        operations: *const ::kernel::ffi::c_void,
        data: *mut ::kernel::ffi::c_void,
    ) -> *mut file;
    #[doc = " Returns whether the file has these struct file_operations."]
    pub fn perfmon_is_file_of(file: *mut file, operations: *const ::kernel::ffi::c_void) -> bool;
    #[doc = " Marks a mapping that is being set up, and so locked for writing: children\n don't inherit it, it can't grow, and core dumps leave it out."]
    pub fn perfmon_area_keep_to_program(area: *mut vm_area_struct);
    #[doc = " Makes a wait, at which programs wait for a descriptor. An interrupt calls\n on_last_overflow() after the last overflow. The function is NULL for a descriptor\n without overflows. Returns NULL if there is no memory."]
    pub fn perfmon_wait_new(
        on_last_overflow: ::core::option::Option<unsafe extern "C" fn()>,
    ) -> *mut perfmon_wait;
    #[doc = " Waits for the interrupts of the last perfmon_wait_overflow() on each CPU."]
    pub fn perfmon_wait_sync(wait: *mut perfmon_wait);
    #[doc = " Frees a wait that has no pollers and no waker, after perfmon_wait_sync()."]
    pub fn perfmon_wait_free(wait: *mut perfmon_wait);
    #[doc = " Adds a poll(2) of the file to the pollers of the wait, which has to exist until\n the file is closed. Does not sleep."]
    pub fn perfmon_wait_poll(
        wait: *mut perfmon_wait,
        file: *mut file,
        table: *mut poll_table_struct,
    );
    #[doc = " Adds the file to the files whose owners get SIGIO (O_ASYNC), or removes the file\n from them if @on is 0."]
    pub fn perfmon_wait_signal(
        wait: *mut perfmon_wait,
        fd: ::kernel::ffi::c_int,
        file: *mut file,
        on: ::kernel::ffi::c_int,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Wakes the pollers with @events unless these are 0, and sends SIGIO with @band,\n POLL_IN or POLL_HUP, unless it is 0."]
    pub fn perfmon_wait_wake(wait: *mut perfmon_wait, events: u32, band: ::kernel::ffi::c_int);
    #[doc = " Queues an interrupt on this CPU that sends SIGIO with @band: POLL_IN, or POLL_HUP\n after the last overflow. May be called in any context."]
    pub fn perfmon_wait_overflow(wait: *mut perfmon_wait, band: ::kernel::ffi::c_int);
    #[doc = " Makes a waker, which wakes the pollers of its waits with EPOLLIN. Returns NULL\n if there is no memory."]
    pub fn perfmon_waker_new() -> *mut perfmon_waker;
    #[doc = " Frees a waker without waits, which no other call uses. May sleep."]
    pub fn perfmon_waker_free(waker: *mut perfmon_waker);
    #[doc = " Adds a wait to the waits of the waker. The wait must have no other waker, and must\n be removed before the wait or the waker is freed."]
    pub fn perfmon_waker_add(waker: *mut perfmon_waker, wait: *mut perfmon_wait);
    #[doc = " Removes a wait that perfmon_waker_add() has added."]
    pub fn perfmon_waker_remove(waker: *mut perfmon_waker, wait: *mut perfmon_wait);
    #[doc = " Queues an interrupt that wakes the pollers of all waits of the waker. May be\n called in any context."]
    pub fn perfmon_waker_wake(waker: *mut perfmon_waker);
    #[doc = " Returns the cycles of the time-stamp counter that waking and signalling took on\n this CPU, in interrupts, since the last call. To be called with preemption off."]
    pub fn perfmon_wake_cycles() -> u64;
    #[doc = " Returns whether the waker has woken its pollers since the last call."]
    pub fn perfmon_waker_consume_wakeup(waker: *mut perfmon_waker) -> bool;
    #[doc = " Returns the time of a clock in nanoseconds: CLOCK_MONOTONIC,\n CLOCK_MONOTONIC_RAW, or -1 for the clock that perf and the scheduler use. May\n be called in NMI handlers."]
    pub fn perfmon_clock(clock: ::kernel::ffi::c_int) -> u64;
    #[doc = " Returns a reference to the caller's PID namespace; NULL for the initial one."]
    pub fn perfmon_pid_namespace_get() -> *mut pid_namespace;
    #[doc = " Drops a reference that perfmon_pid_namespace_get() has returned."]
    pub fn perfmon_pid_namespace_put(ns: *mut pid_namespace);
    #[doc = " Returns the IDs of a task in a PID namespace: the process ID in bits 31:0, the\n thread ID in bits 63:32. Both are 0 if the task has no IDs in the namespace, and -1\n if it has given up its IDs at its exit. @task may be NULL for the current task, and\n @ns NULL for the initial namespace."]
    pub fn perfmon_task_ids(task: *mut task_struct, ns: *mut pid_namespace) -> u64;
    #[doc = " Returns the process ID of the parent of @task, in both halves of the result, as\n perfmon_task_ids() would. @task must be the caller."]
    pub fn perfmon_parent_ids(task: *mut task_struct, ns: *mut pid_namespace) -> u64;
    #[doc = " Copies the name of a task: up to 15 bytes, padded with zeros."]
    pub fn perfmon_copy_name(name: *const ::kernel::ffi::c_char, to: *mut ::kernel::ffi::c_char);
    #[doc = " Returns whether the task, which is the caller, is in execve(2)."]
    pub fn perfmon_task_executes(task: *const task_struct) -> bool;
    #[doc = " Returns whether the kernel runs on the stack of @task; true if @task is NULL.\n In the context switch, the stack may be another task's."]
    pub fn perfmon_on_stack_of(task: *const task_struct) -> bool;
    #[doc = " Returns whether a sample of @task may show these registers. Registers of the kernel\n may not be shown during a context switch, when they may be another task's, nor in\n execve(2), which has yet to find out which users may look at the new program."]
    pub fn perfmon_may_show_regs(regs: *mut pt_regs, task: *const task_struct) -> bool;
    #[doc = " Hides the program that the current task has begun to execute from samples on this\n CPU, or shows it again. For callers with interrupts off."]
    pub fn perfmon_hide_program(hide: bool);
    #[doc = " Returns whether samples of the current task must show nothing of its program: the\n task is in execve(2), or perfmon_hide_program() has hidden the program on this CPU.\n For callers that can't leave the CPU."]
    pub fn perfmon_program_is_hidden() -> bool;
    #[doc = " Returns the registers of the program that was interrupted, or that has called\n the kernel. NULL in a kernel thread, in execve(2), while the registers are\n being saved, and if @task is neither NULL nor the current task."]
    pub fn perfmon_user_regs(regs: *mut pt_regs, task: *const task_struct) -> *mut pt_regs;
    #[doc = " Returns the registers of the program that has called the kernel, or that an\n interrupt has interrupted. For callers outside of NMIs. NULL in a kernel thread,\n in execve(2), and if @task is neither NULL nor the current task."]
    pub fn perfmon_saved_user_regs(task: *const task_struct) -> *mut pt_regs;
    #[doc = " Returns the address at which the program continues after the system call or\n interrupt that has just begun, whose handler has not saved its registers yet;\n else 0."]
    pub fn perfmon_unsaved_user_ip(regs: *const pt_regs) -> u64;
    #[doc = " Returns whether these registers are of 64-bit code, in a program or the\n kernel."]
    pub fn perfmon_regs_are_64(regs: *mut pt_regs) -> bool;
    #[doc = " Writes up to @room addresses of a call chain in the kernel, the innermost first,\n and returns the number of addresses. To be called by the NMI that has interrupted\n the kernel at @regs."]
    pub fn perfmon_kernel_chain(regs: *mut pt_regs, chain: *mut u64, room: u32) -> u32;
    #[doc = " Writes up to @room addresses of a call chain in the program, the innermost first,\n and returns the number of addresses. Follows frame pointers, to the first page\n that is not in memory."]
    pub fn perfmon_user_chain(regs: *mut pt_regs, chain: *mut u64, room: u32) -> u32;
    #[doc = " Returns the number of bytes from the program's stack pointer to the end of the\n address space; 0 in a kernel thread."]
    pub fn perfmon_user_stack(regs: *mut pt_regs) -> u64;
    #[doc = " Copies @size bytes of the program's stack from address @from on. Returns the\n number of bytes that were copied: fewer if a page is not in memory. May be called\n in NMI handlers."]
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
    #[doc = " Ends the calls of handler(). No CPU is in it when this returns."]
    pub fn perfmon_nmi_unregister();
    #[doc = " Reads the local APIC's entry for performance-monitoring interrupts, on this\n CPU."]
    pub fn perfmon_lvtpc_read() -> u32;
    #[doc = " Writes the local APIC's entry for performance-monitoring interrupts, on this\n CPU."]
    pub fn perfmon_lvtpc_write(value: u32);
    #[doc = " Sets up a timer for each CPU. It calls tick() on its CPU, with interrupts off.\n tick() returns the nanoseconds until the next call, or 0 to stop the timer."]
    pub fn perfmon_timers_init(tick: ::core::option::Option<unsafe extern "C" fn() -> u64>);
    #[doc = " Returns the period of the kernel's own tick in nanoseconds."]
    pub fn perfmon_tick_ns() -> u64;
    #[doc = " Starts or restarts the timer of this CPU: it ticks after @ns nanoseconds."]
    pub fn perfmon_timer_start(ns: u64);
    #[doc = " Stops the timer of this CPU, whose tick() is not under way when this returns."]
    pub fn perfmon_timer_stop();
    #[doc = " Calls down() before the system sleeps or reboots, up() after a sleep."]
    pub fn perfmon_power_register(
        down: ::core::option::Option<unsafe extern "C" fn()>,
        up: ::core::option::Option<unsafe extern "C" fn()>,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends the calls of down() and up()."]
    pub fn perfmon_power_unregister();
    #[doc = " Takes a reference to the caller's address space, which\n perfmon_clean_dirty_counters() uses. To be called by the program that loads the\n module."]
    pub fn perfmon_dirty_init();
    #[doc = " Drops the reference that perfmon_dirty_init() has taken."]
    pub fn perfmon_dirty_exit();
    #[doc = " Makes perf zero its dirty counters on the CPUs that are online. May sleep.\n Returns -EBUSY if a real-time program keeps a CPU busy, and the number of that\n CPU in *busy; -ENOMEM if there is no memory."]
    pub fn perfmon_clean_dirty_counters(busy: *mut ::kernel::ffi::c_uint) -> ::kernel::ffi::c_int;
    #[doc = " Makes perf zero its dirty counters on this CPU. To be called by a kernel thread\n that is bound to this CPU."]
    pub fn perfmon_clean_dirty_counters_here();
    #[doc = " Makes the place-holder of a CPU that is online, with this general counter,\n unless the CPU already has a place-holder. @constrain keeps perf from moving the\n place-holder to another counter. Set it only for version 6 of Intel's PMU: for\n earlier versions perf has no memory for such constraints. May sleep. Returns\n -EBUSY if another pinned event has the CPU; -ENXIO if perf gives the place-holder\n another counter; -EOPNOTSUPP if virtual machines have the counters; -ENOMEM if\n there is no memory. One caller at a time."]
    pub fn perfmon_place_holder_make(
        cpu: ::kernel::ffi::c_uint,
        counter: ::kernel::ffi::c_uint,
        constrain: bool,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends the place-holder of a CPU, if it has one. May sleep. One caller at a\n time."]
    pub fn perfmon_place_holder_end(cpu: ::kernel::ffi::c_uint);
    #[doc = " Returns whether this CPU has a place-holder that is active, with this counter. If\n so, the place-holder has been active since it was made, because perf never\n activates a displaced place-holder again. For a caller with interrupts off."]
    pub fn perfmon_place_holder_is_active(counter: ::kernel::ffi::c_uint) -> bool;
    #[doc = " Makes a kernel thread call f(), and does not wait for it. Does not sleep."]
    pub fn perfmon_place_holder_end_soon(f: ::core::option::Option<unsafe extern "C" fn()>);
    #[doc = " Waits for the f() of the last perfmon_place_holder_end_soon()."]
    pub fn perfmon_place_holder_end_wait();
    #[doc = " Returns the type of the PMU that Linux's perf has for a CPU, which must be online;\n or a negative errno. May sleep."]
    pub fn perfmon_perf_type(cpu: ::kernel::ffi::c_uint) -> ::kernel::ffi::c_int;
    #[doc = " Sets up the work on CPUs that perfmon_rdpmc_begin() does."]
    pub fn perfmon_rdpmc_init();
    #[doc = " Undoes perfmon_rdpmc_init()."]
    pub fn perfmon_rdpmc_exit();
    #[doc = " Lets the caller's program use RDPMC, for one more mapping. Returns false if the\n program can't use it. @mm must be the caller's, locked for writing. May sleep."]
    pub fn perfmon_rdpmc_begin(mm: *mut mm_struct) -> bool;
    #[doc = " Counts one more mapping of a program that may use RDPMC already."]
    pub fn perfmon_rdpmc_begin_again(mm: *mut mm_struct);
    #[doc = " Undoes one perfmon_rdpmc_begin() or perfmon_rdpmc_begin_again(). May sleep."]
    pub fn perfmon_rdpmc_end(mm: *mut mm_struct);
    #[doc = " Takes the right to use RDPMC from a new task that has an mm of its own: the\n kernel has copied the number of mappings to that mm, but not the mappings."]
    pub fn perfmon_rdpmc_clear(child: *mut task_struct);
    #[doc = " Returns whether the task may use RDPMC, or may get the right at this moment. In any\n context."]
    pub fn perfmon_rdpmc_may_have(task: *const task_struct) -> bool;
    #[doc = " Returns whether any program may use RDPMC. To be called while the module has no\n mappings: then perf has left the right to children of programs that had mapped\n the page of an event. Looks at all tasks."]
    pub fn perfmon_rdpmc_left_by_perf() -> bool;
    #[doc = " Returns whether a fork may be under way that has copied the right to use RDPMC\n from a program that has lost it since. Looks at all tasks."]
    pub fn perfmon_rdpmc_may_be_copied() -> bool;
    #[doc = " Charges pages to the caller, as perf does for its buffers: first to the user,\n whose limit is user_kb for each online CPU, then to the address space, whose limit\n is RLIMIT_MEMLOCK unless the caller has CAP_IPC_LOCK. Returns -EPERM if both\n limits together are too low, as from perf."]
    pub fn perfmon_charge(
        charge: *mut perfmon_charge,
        pages: u32,
        user_kb: u32,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Ends a charge. May be called by any task, also after the charged task's exit."]
    pub fn perfmon_uncharge(charge: *const perfmon_charge);
    #[doc = " Turns interrupts off, takes the lock of the table of tasks, and returns the\n flags for perfmon_tasks_unlock()."]
    pub fn perfmon_tasks_lock() -> ::kernel::ffi::c_ulong;
    #[doc = " Releases the lock, and restores interrupts from what perfmon_tasks_lock() returned."]
    pub fn perfmon_tasks_unlock(flags: ::kernel::ffi::c_ulong);
    #[doc = " Returns a reference to the thread with this ID in the caller's PID namespace; 0\n is the caller. Returns NULL if there is no such thread."]
    pub fn perfmon_task_get(pid: ::kernel::ffi::c_int) -> *mut task_struct;
    #[doc = " Returns the CPU that a task runs on, or ran on last."]
    pub fn perfmon_task_cpu(task: *mut task_struct) -> ::kernel::ffi::c_uint;
    #[doc = " Returns whether the task exits."]
    pub fn perfmon_task_is_exiting(task: *mut task_struct) -> bool;
    #[doc = " Returns whether the task is a thread of the kernel's own."]
    pub fn perfmon_task_is_kernel(task: *mut task_struct) -> bool;
    #[doc = " Returns whether the task and the caller are threads of one process."]
    pub fn perfmon_task_is_in_own_process(task: *mut task_struct) -> bool;
    #[doc = " Returns whether the task has this address space, in any context."]
    pub fn perfmon_task_has_mm(task: *const task_struct, mm: *const mm_struct) -> bool;
    #[doc = " Returns whether the program that the caller executes (@bprm) is one that other\n programs of the same user may not look at: it is setuid, has capabilities, or is\n not readable by the user."]
    pub fn perfmon_must_not_count_exec(bprm: *const linux_binprm) -> bool;
    #[doc = " Returns a reference to the caller's process."]
    pub fn perfmon_own_process() -> *mut pid;
    #[doc = " Returns another reference to @process."]
    pub fn perfmon_process_get(process: *mut pid) -> *mut pid;
    #[doc = " Releases the reference to @process."]
    pub fn perfmon_process_put(process: *mut pid);
    #[doc = " Returns the ID of a process in the caller's PID namespace; 0 if the process has no\n ID there, or has exited."]
    pub fn perfmon_process_number(process: *mut pid) -> ::kernel::ffi::c_int;
    #[doc = " Copies the caller's name, up to 15 bytes and a 0."]
    pub fn perfmon_own_name(name: *mut ::kernel::ffi::c_char);
    #[doc = " Makes a kernel thread call f(), and waits for its return. May sleep. For work that\n other tasks wait for: a kernel thread gets to run even where other programs of\n the CPU keep the caller from running."]
    pub fn perfmon_call(
        f: ::core::option::Option<unsafe extern "C" fn(data: *mut ::kernel::ffi::c_void)>,
        data: *mut ::kernel::ffi::c_void,
    );
    #[doc = " Makes a kernel thread call f() in one second. Another call of this within that\n second has no effect, so f() is not put off for ever."]
    pub fn perfmon_call_later(f: ::core::option::Option<unsafe extern "C" fn()>);
    #[doc = " Cancels perfmon_call_later(). f() is not under way when this returns."]
    pub fn perfmon_call_later_cancel();
    #[doc = " Makes a kernel thread call f(), and does not wait for it. Does not sleep."]
    pub fn perfmon_call_soon(f: ::core::option::Option<unsafe extern "C" fn()>);
    #[doc = " Cancels perfmon_call_soon(). f() is not under way when this returns."]
    pub fn perfmon_call_soon_cancel();
    #[doc = " Waits until unregistered probes of tracepoints have returned, and until the\n functions that were given to call_rcu() have been called."]
    pub fn perfmon_tracepoints_sync();
    #[doc = " Returns a reference to the cgroup whose directory is open as fd, of version 2 or of\n perf's hierarchy of version 1, or a negative errno as a pointer: EBADF, ENOENT;\n EOPNOTSUPP if the kernel has no cgroups."]
    pub fn perfmon_cgroup_get(fd: ::kernel::ffi::c_int) -> *mut cgroup;
    #[doc = " Returns whether a cgroup is in a hierarchy of version 1."]
    pub fn perfmon_cgroup_is_of_version_1(cgroup: *const cgroup) -> bool;
    #[doc = " Drops a reference to a cgroup. Does not sleep."]
    pub fn perfmon_cgroup_put(cgroup: *mut cgroup);
    #[doc = " Returns the number of a cgroup, which is the inode number of its directory."]
    pub fn perfmon_cgroup_id(cgroup: *const cgroup) -> u64;
    #[doc = " Returns the cgroup ID that perf would record for a task: the ID of its closest cgroup\n with the perf_event controller, or of its cgroup of version 2 if the kernel has no such\n controller; 0 if the kernel has no cgroups. NULL is the current task. May be called in\n NMI handlers."]
    pub fn perfmon_cgroup_id_of(task: *mut task_struct) -> u64;
    #[doc = " Returns whether a cgroup is in the hierarchy of perf's controller."]
    pub fn perfmon_cgroup_is_of_perf(cgroup: *const cgroup) -> bool;
    #[doc = " Writes the path of a cgroup from the root of its hierarchy, padded with zeros to a\n multiple of 8 bytes, and returns the number of bytes. A longer path is truncated, as\n by perf."]
    pub fn perfmon_cgroup_path(cgroup: *mut cgroup, path: *mut ::kernel::ffi::c_char) -> usize;
    #[doc = " Returns the number of cgroups that a cgroup is in; 0 for the root."]
    pub fn perfmon_cgroup_level(cgroup: *const cgroup) -> ::kernel::ffi::c_int;
    #[doc = " Returns the cgroups of version 2 of a task. Their array is NULL if the kernel has no\n cgroups. For callers with interrupts off; valid as long as they are off."]
    pub fn perfmon_cgroups_of(task: *mut task_struct) -> perfmon_task_cgroups;
    #[doc = " Returns the cgroups of a task in perf's hierarchy of version 1. Their array is NULL if the\n kernel has no such hierarchy. For callers with interrupts off; valid as long as they are off."]
    pub fn perfmon_cgroups_of_version_1(task: *mut task_struct) -> perfmon_task_cgroups;
    #[doc = " Calls f() on the CPU that the task is on, or on the CPUs of all threads of its\n process, with interrupts off. Does not wait for the calls. For callers with\n interrupts off."]
    pub fn perfmon_cgroup_call_cpus(
        task: *mut task_struct,
        all_threads: bool,
        f: ::core::option::Option<unsafe extern "C" fn()>,
    );
    #[doc = " Returns 0 if this kernel has the functions that perfmon_mappings_begin() probes,\n else a negative errno."]
    pub fn perfmon_mappings_check() -> ::kernel::ffi::c_int;
    #[doc = " Makes the kernel call on_map() after each mapping or change of a mapping, in the\n task that makes it, and on_exec() in a task that executes a program, when its new\n credentials are known and nothing of the program is mapped yet. Both are called\n with interrupts off. May sleep. Returns -EOPNOTSUPP, -ENOENT or -EINVAL if this\n kernel has no kprobes, or can't probe the functions; -ENOMEM if there is no\n memory."]
    pub fn perfmon_mappings_begin(
        on_map: ::core::option::Option<unsafe extern "C" fn(area: *mut vm_area_struct)>,
        on_exec: ::core::option::Option<unsafe extern "C" fn(program: *mut linux_binprm)>,
    ) -> ::kernel::ffi::c_int;
    #[doc = " Undoes perfmon_mappings_begin(). Neither of its functions is under way when this\n returns. May sleep."]
    pub fn perfmon_mappings_end();
    #[doc = " Returns whether the program may execute what is mapped in the area."]
    pub fn perfmon_mapping_is_executable(area: *const vm_area_struct) -> bool;
    #[doc = " Describes the area that the caller has just mapped. Writes its name, padded with\n zeros to a multiple of 8 bytes, and returns the number of bytes."]
    pub fn perfmon_mapping_describe(
        area: *mut vm_area_struct,
        to: *mut perfmon_mapping,
        name: *mut ::kernel::ffi::c_char,
    ) -> usize;
    #[doc = " Waits until all code that runs with interrupts off now has turned them on.\n May sleep."]
    pub fn perfmon_rcu_wait();
    #[doc = " Mounts a proc filesystem for perfmon_may_attach(). Returns 0 or a negative\n errno."]
    pub fn perfmon_proc_mount() -> ::kernel::ffi::c_int;
    #[doc = " Unmounts the proc filesystem."]
    pub fn perfmon_proc_unmount();
    #[doc = " Returns 0 if the caller may look at a task, as ptrace_may_access() and the\n security modules decide, else a negative errno. May sleep."]
    pub fn perfmon_may_attach(task: *mut task_struct) -> ::kernel::ffi::c_int;
}

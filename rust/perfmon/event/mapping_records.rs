// SPDX-License-Identifier: GPL-2.0-only
//! The records of programs' mappings. The handlers of kprobes write them. The probes are registered only while an event
//! wants such records.
//!
//! Kernel threads register and unregister the probes, as they do with tracepoints ([`super::hooks`]). On a kernel
//! without the probed functions opening an event succeeds: then there are no such records, and the event's fdinfo says
//! so (`mmap: 0`).

use super::{
    event::Event,
    record,
    slot::{ExecStage, Slots},
    task_lifecycle::must_not_count_exec,
};
use crate::{
    cpu::ThisCpu,
    ring::TaskChange,
    sys::{ffi, kernel_thread, mappings},
};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use kernel::{bindings, prelude::*, sync::global_lock, task::Task};

/// The number of events that want records of mappings.
///
/// ATOMICS: sequentially consistent, with [`REGISTERED`]: either [`unregister_if_unused`] sees the new event of
/// [`add_user`], or [`add_user`] sees that the probes are not registered.
static USERS: AtomicU32 = AtomicU32::new(0);

/// 1 while the probes are registered, otherwise 0. Changed under [`PROBES`].
///
/// ATOMICS: sequentially consistent, with [`USERS`].
static REGISTERED: AtomicU32 = AtomicU32::new(0);

global_lock! {
    /// The lock under which the probes are registered and unregistered, by kernel threads and at the module's exit.
    // SAFETY: The lock must be initialized before its first use: `init` does so, before there can be events, and only
    // events and the module's exit lock it.
    unsafe(uninit) static PROBES: Mutex<()> = ();
}

/// Initializes the lock, and checks whether the kernel has the functions that are probed.
///
/// # Safety
///
/// To be called once in the module's life, before there can be events.
pub(super) unsafe fn init() {
    // SAFETY: A lock must be initialized once, before its first use: the caller calls this once, before there can be
    // events, and only events and the module's exit lock `PROBES`.
    unsafe { PROBES.init() };
    mappings::check();
}

/// Returns whether the event wants records of mappings.
fn wants_mapping_records(event: &Event) -> bool {
    event.sampler.sampling.mappings.are_wanted()
}

/// Returns whether the event gets records of mappings: it wants them, and the probes are registered.
pub(super) fn are_recorded(event: &Event) -> bool {
    wants_mapping_records(event) && REGISTERED.load(SeqCst) != 0
}

/// Registers the probes for one more event, until [`remove_user`], which has to be called even after an error. Does
/// nothing unless `wants_mappings`. Sleeps.
///
/// # Errors
///
/// ENOMEM if there is no memory.
pub(super) fn add_user(wants_mappings: bool) -> Result {
    if !wants_mappings {
        return Ok(());
    }
    USERS.fetch_add(1, SeqCst);
    if REGISTERED.load(SeqCst) != 0 {
        return Ok(());
    }
    let mut result = Ok(());
    kernel_thread::call(|| result = register());
    match result {
        Err(error) if error == ENOMEM => Err(error),
        // A kernel without the probed functions gives no records, which is not an error.
        _ => Ok(()),
    }
}

/// Undoes [`add_user`]. Returns true after the last event: the caller then schedules a call of
/// [`unregister_if_unused`].
#[must_use]
pub(super) fn remove_user(wants_mappings: bool) -> bool {
    wants_mappings && USERS.fetch_sub(1, SeqCst) == 1
}

/// Registers the probes, unless they are registered. Sleeps.
///
/// # Errors
///
/// The errors of [`mappings::begin`].
fn register() -> Result {
    let _probes = PROBES.lock();
    if REGISTERED.load(SeqCst) == 0 {
        // SAFETY: `mappings::begin` sleeps, and requires probes that are not registered: this task
        // may sleep, since it locks a mutex, and `REGISTERED`, read under that lock, is 0, so the
        // probes are not registered.
        unsafe { mappings::begin(on_map, on_new_program) }?;
        REGISTERED.store(1, SeqCst);
    }
    Ok(())
}

/// Unregisters the probes, unless an event wants them. To be called by a task that may sleep.
pub(super) fn unregister_if_unused() {
    let _probes = PROBES.lock();
    if REGISTERED.load(SeqCst) == 0 {
        return;
    }
    REGISTERED.store(0, SeqCst);
    if USERS.load(SeqCst) != 0 {
        REGISTERED.store(1, SeqCst);
        return;
    }
    // SAFETY: `mappings::end` sleeps, and requires probes that are registered: this task may sleep,
    // and `REGISTERED` was 1, read under the lock, so the probes are registered. `REGISTERED` is 0
    // now, so they are unregistered once.
    unsafe { mappings::end() };
}

/// Handles the probe of `perf_event_mmap()`: the current task has mapped `area`, or changed its protection.
///
/// # Safety
///
/// To be called by the probe, with interrupts off.
unsafe extern "C" fn on_map(area: *mut bindings::vm_area_struct) {
    // SAFETY: `assume` requires that the caller can't leave the CPU: the probe calls this function with interrupts off,
    // as `# Safety` demands, until it has returned.
    let here = unsafe { ThisCpu::assume() };
    // SAFETY: The function requires an area of the current task that stays mapped during the call: the probed
    // function has it as its argument, under the lock of the mm.
    let is_executable = unsafe { ffi::perfmon_mapping_is_executable(area) };
    let want_mapping = |slots: &Slots| {
        slots.iter().any(|slot| {
            let sampling = &slot.event().sampler.sampling;
            sampling.mappings.include(is_executable) && slots.is_enabled_here(here, slot)
        })
    };
    let mut is_wanted = false;
    record::with_slots_of_task(here, |slots| {
        is_wanted = may_record_mapping(slots) && want_mapping(slots);
    });
    if !is_wanted {
        record::with_slots_of_cpu_and_cgroups(here, |slots| is_wanted |= want_mapping(slots));
    }
    if !is_wanted {
        return;
    }
    // SAFETY: `words` requires that the words have one user at a time: only this handler and the
    // handler of new cgroups use the words of this CPU, interrupts are off, and neither handler
    // causes the other.
    let name = unsafe { here.percpu().path.words() };
    // SAFETY: The function requires an area of the current task that stays mapped during the call: the probed
    // function has it as its argument, under the lock of the mm.
    let (mapping, name) = unsafe { mappings::describe(area, name) };
    // The samples that were taken before the mapping are written before its record.
    here.pmu().convert_records_so_far(here);
    let change = TaskChange::Map(&mapping, name);
    let task = Task::current_raw();
    record::with_slots_of_task(here, |slots| {
        if may_record_mapping(slots) {
            record::write_to_slots(here, slots, &change, task, None);
        }
    });
    record::with_slots_of_cpu_and_cgroups(here, |slots| {
        record::write_to_slots(here, slots, &change, task, None);
    });
}

/// Returns whether events of the current task may record its mappings. During an exec, returns false until it is known
/// that the events may count the new program: they may not count a setuid program, for example.
fn may_record_mapping(slots: &Slots) -> bool {
    // SAFETY: The function requires a task that is alive, which the current task is.
    let is_in_exec = unsafe { ffi::perfmon_task_executes(Task::current_raw()) };
    !is_in_exec || slots.exec == ExecStage::MayRecordMappings
}

/// Handles the probe of `setup_new_exec()`: the current task begins to execute a program. The
/// program's credentials are known, and nothing of the program is mapped yet.
///
/// # Safety
///
/// To be called by the probe, with interrupts off.
unsafe extern "C" fn on_new_program(program: *mut bindings::linux_binprm) {
    // SAFETY: `assume` requires that the caller can't leave the CPU: the probe calls this function with interrupts off,
    // as `# Safety` demands, until it has returned.
    let here = unsafe { ThisCpu::assume() };
    record::with_slots_of_task(here, |slots| {
        // SAFETY: The function requires the program that the current task executes, with its credentials: the probed
        // function, `setup_new_exec()`, has it as its argument.
        if !unsafe { must_not_count_exec(program) } {
            slots.exec = ExecStage::MayRecordMappings;
        }
    });
}

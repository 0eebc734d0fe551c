// SPDX-License-Identifier: GPL-2.0-only
//! The records of what programs map, made by kprobes. The probes exist only while an event wants such records.
//!
//! The probes are registered and unregistered by kernel threads, as the tracepoints are ([`super::hooks`]). A kernel that
//! has none of them is no error: the events have no such records then, and say so.

use super::{context::Held, event::Event, life::exec_is_private, record, slot::Slots};
use crate::{
    cpu::ThisCpu,
    ring::TaskChange,
    sys::{ffi, kernel_thread, mappings},
};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use kernel::{bindings, prelude::*, sync::global_lock, task::Task};

/// The events that want to know what programs map.
///
/// ATOMICS: sequentially consistent, with [`REGISTERED`]: either the last event's end finds a new one, or that one finds
/// the probes gone.
static USERS: AtomicU32 = AtomicU32::new(0);

/// Not 0 while the probes are registered. It is changed under [`PROBES`].
///
/// ATOMICS: as [`USERS`].
static REGISTERED: AtomicU32 = AtomicU32::new(0);

global_lock! {
    /// Held to register and unregister the probes, by kernel threads and at the module's end.
    // SAFETY: `init` initializes it, before there can be events.
    unsafe(uninit) static PROBES: Mutex<()> = ();
}

/// Prepares for events.
///
/// # Safety
///
/// To be called once in the module's life, before there can be events.
pub(super) unsafe fn init() {
    // SAFETY: The caller calls this once, before there can be events.
    unsafe { PROBES.init() };
    mappings::check();
}

/// Returns whether the event wants to know what programs map.
fn wants_mappings(event: &Event) -> bool {
    event.sampler.sampling.mappings.are_wanted()
}

/// Returns whether the event has records of mappings: it wants them, and the kernel tells.
pub(super) fn are_recorded(event: &Event) -> bool {
    wants_mappings(event) && REGISTERED.load(SeqCst) != 0
}

/// Begins to learn what programs map, if an event with this configuration wants that, until [`end`], which follows an error,
/// too. Sleeps.
///
/// # Errors
///
/// ENOMEM.
pub(super) fn begin(wanted: bool) -> Result {
    if !wanted {
        return Ok(());
    }
    USERS.fetch_add(1, SeqCst);
    if REGISTERED.load(SeqCst) != 0 {
        return Ok(());
    }
    let mut registered = Ok(());
    kernel_thread::call(|| registered = register());
    match registered {
        Err(error) if error == ENOMEM => Err(error),
        // Without probes there are no records, which is no error.
        _ => Ok(()),
    }
}

/// Ends [`begin`]. Returns whether this was the last event: then [`unregister_if_unused`] is to be called later.
#[must_use]
pub(super) fn end(wanted: bool) -> bool {
    wanted && USERS.fetch_sub(1, SeqCst) == 1
}

/// Registers the probes, unless that has been done. Sleeps.
///
/// # Errors
///
/// As [`mappings::begin`].
fn register() -> Result {
    let _probes = PROBES.lock();
    if REGISTERED.load(SeqCst) == 0 {
        // SAFETY: The task has just slept for the lock. Under that, `REGISTERED` says that they are not registered.
        unsafe { mappings::begin(on_map, on_new_program) }?;
        REGISTERED.store(1, SeqCst);
    }
    Ok(())
}

/// Unregisters the probes, unless there is an event that wants them. For a task that may sleep.
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
    // SAFETY: The task may sleep. Under the lock, they were registered and are so no more.
    unsafe { mappings::end() };
}

/// The current task has mapped `area`, or changed how it is mapped.
///
/// # Safety
///
/// To be called by the probe, with interrupts off.
unsafe extern "C" fn on_map(area: *mut bindings::vm_area_struct) {
    // SAFETY: Interrupts are off, so the caller stays on the CPU until this function returns.
    let here = unsafe { ThisCpu::assume() };
    // SAFETY: The probe gives the area that has been mapped.
    let executable = unsafe { ffi::perfmon_mapping_is_executable(area) };
    let of_task = Held::of_task(here).filter(|slots| may_record_mapping(slots));
    let of_cpu = Held::of_cpu(here);
    let wants = |slots: &Option<Held<'_>>| {
        let mut slots = slots.iter().flat_map(|slots| slots.iter());
        slots.any(|slot| slot.is_open() && slot.event().sampler.sampling.mappings.have(executable))
    };
    if !wants(&of_task) && !wants(&of_cpu) {
        return;
    }
    // SAFETY: This is the handler that the words are for: a probe does not interrupt itself, and interrupts are off.
    let name = unsafe { here.percpu().mapping_name.words() };
    // SAFETY: The probe gives the area that has been mapped.
    let (mapping, name) = unsafe { mappings::describe(area, name) };
    let change = TaskChange::Map(&mapping, name);
    let task = Task::current_raw();
    for slots in [of_task, of_cpu].into_iter().flatten() {
        record::write_to(here, &slots, &change, task, None);
    }
}

/// Returns whether events of the current task may record its mappings: not while it begins to execute a program that
/// may remove them, as a setuid program does.
fn may_record_mapping(slots: &Slots) -> bool {
    // SAFETY: The current task is alive.
    let executes = unsafe { ffi::perfmon_task_executes(Task::current_raw()) };
    !executes || slots.may_record_new_program
}

/// The current task begins to execute a program: its credentials are known, and nothing of it is mapped.
///
/// # Safety
///
/// To be called by the probe, with interrupts off.
unsafe extern "C" fn on_new_program(program: *mut bindings::linux_binprm) {
    // SAFETY: Interrupts are off, so the caller stays on the CPU until this function returns.
    let here = unsafe { ThisCpu::assume() };
    if let Some(mut slots) = Held::of_task(here) {
        // SAFETY: The probe gives the program that is executed.
        slots.may_record_new_program = !unsafe { exec_is_private(program) };
    }
}

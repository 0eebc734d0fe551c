// SPDX-License-Identifier: GPL-2.0-only
//! The performance-monitoring interrupt: an NMI, at any time, on any CPU.
//!
//! The handler takes no lock, allocates nothing, prints nothing. It touches only its own CPU's
//! registers and slot, and there only what belongs to counters whose bit in
//! [`Slot::active`](crate::cpu::Slot::active) is set.

use crate::{
    cpu::{Regs, ThisCpu},
    ffi,
    pmu::{self, Lvtpc},
    recorder,
};
use core::ptr;
use kernel::{
    bindings,
    error::to_result,
    ffi::{c_int, c_uint},
    prelude::*,
};

/// The registration of the handler.
///
/// # Invariants
///
/// While a value of this type exists, the kernel calls [`handle`] at every NMI of a CPU.
pub(crate) struct Handler(());

impl Handler {
    /// Registers the handler.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, after the slots have been allocated; they outlive the
    /// result.
    pub(crate) unsafe fn register() -> Result<Self> {
        // SAFETY: The function is there until `drop`, and with it what it uses, by the requirement.
        to_result(unsafe { ffi::perfmon_nmi_register(handle) })?;
        // INVARIANT: Just registered.
        Ok(Self(()))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: By the type invariant it is registered.
        unsafe { ffi::perfmon_nmi_unregister() };
    }
}

/// Whether the kernel is about to die: then nobody should be in its way.
#[inline(always)]
fn is_oops_in_progress() -> bool {
    // SAFETY: A word that the kernel writes and everybody may read.
    unsafe { ptr::read_volatile(&raw const bindings::oops_in_progress) != 0 }
}

/// Makes the timers that watch how often CPUs are interrupted; none runs.
///
/// # Safety
///
/// To be called once in the module's life, after the slots have been allocated. Whoever starts a timer stops
/// it before they are freed.
pub(crate) unsafe fn make_timers() {
    // SAFETY: No timer runs.
    unsafe { ffi::perfmon_timers_init(tick) };
}

/// # Safety
///
/// To be called with interrupts off.
unsafe extern "C" fn tick() {
    // SAFETY: Whoever can't be interrupted stays on the CPU.
    recorder::watch(unsafe { ThisCpu::assume() }, pmu::model());
}

/// Tells for how many interrupts of ours this NMI stands: 0 (`NMI_DONE`) if it is none. The kernel
/// takes 2 and more for a sign that the next NMI may find nothing left to do.
///
/// # Safety
///
/// To be called in an NMI, with its registers.
unsafe extern "C" fn handle(_type: c_uint, regs: *mut bindings::pt_regs) -> c_int {
    // SAFETY: An NMI stays on its CPU.
    let here = unsafe { ThisCpu::assume() };
    let slot = here.slot();
    let taken = slot.taken.get() != 0;
    if !taken && !slot.expects_late() {
        return 0;
    }
    if is_oops_in_progress() {
        return 0;
    }
    // In another mode the interrupts are KVM's, and with them the counters.
    if !Lvtpc::read(here).is_nmi() {
        return 0;
    }
    let Some(model) = pmu::settled() else {
        return 0;
    };
    let served = if taken {
        // SAFETY: By the requirement.
        model.serve(here, unsafe { Regs::new(regs) })
    } else {
        // It has come so late that the registers have been given back; delivering it has changed the
        // local APIC's entry.
        model.leave(here);
        0
    };
    model.maker.answer(here, served) as c_int
}

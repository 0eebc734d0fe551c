// SPDX-License-Identifier: GPL-2.0-only
//! The performance-monitoring interrupt: an NMI, at any time, on any CPU.
//!
//! The handler takes no lock, allocates nothing, prints nothing. It touches only its own CPU's
//! registers and slot, and there only what belongs to counters whose bit in
//! [`Slot::active`](crate::cpu::Slot::active) is set.

use crate::{
    cpu::{jiffies, Regs, ThisCpu},
    ffi,
    overflow::watch,
    pmu::{self, Lvtpc},
};
use kernel::{
    bindings,
    error::to_result,
    ffi::{c_int, c_void},
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

/// Makes the timers that watch CPUs ([`watch`]); none runs.
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
unsafe extern "C" fn tick() -> bool {
    // SAFETY: Interrupts are off, so that the caller stays on the CPU.
    watch::tick(unsafe { ThisCpu::assume() }, pmu::model())
}

/// Tells for how many interrupts of ours this NMI stands: 0 (`NMI_DONE`) if it is none. The kernel
/// takes 2 and more for a sign that the next NMI may find nothing left to do.
///
/// # Safety
///
/// To be called in an NMI, with the slot of its CPU and its registers.
unsafe extern "C" fn handle(slot: *mut c_void, regs: *mut bindings::pt_regs) -> c_int {
    // SAFETY: By the requirement; an NMI stays on its CPU.
    let here = unsafe { ThisCpu::from_slot(slot) };
    let Some(model) = here.slot().model.get() else {
        return late(here);
    };
    // Where PMIs are directed elsewhere they are KVM's, and with them the counters. Nothing else keeps the
    // handler from its work: an overflow that is not acknowledged would be the last one.
    if !Lvtpc::read(here).is_nmi() {
        return 0;
    }
    // SAFETY: By the requirement.
    model.serve(here, unsafe { Regs::new(regs) }) as c_int
}

/// As [`handle`], where the registers have been given back: no register is touched, for they may be Linux
/// perf's by now.
#[cold]
fn late(here: &ThisCpu) -> c_int {
    here.slot().pending.consume(jiffies()).into()
}

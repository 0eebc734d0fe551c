// SPDX-License-Identifier: GPL-2.0-only
//! The entry of the performance-monitoring interrupt (PMI): an NMI, at any time, on any CPU.
//!
//! The handler takes no lock, allocates nothing and prints nothing. It touches only its own CPU's registers and
//! data, and of these only what belongs to active counters.

use super::serve::handle_pmi;
use crate::{
    cpu::{Regs, ThisCpu},
    pmu::Lvtpc,
    sys::{ffi, time::jiffies},
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
    /// To be called once in the module's life, after [`crate::percpu::Memory::new`]. The memory outlives the
    /// result.
    pub(crate) unsafe fn register() -> Result<Self> {
        // SAFETY: `drop` unregisters `handle`, and the caller keeps the memory of the CPUs for longer than the result.
        to_result(unsafe { ffi::perfmon_nmi_register(Some(handle)) })?;
        // INVARIANT: Just registered.
        Ok(Self(()))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the handler is registered.
        unsafe { ffi::perfmon_nmi_unregister() };
    }
}

/// Returns how many interrupts of ours this NMI stands for: 0 (`NMI_DONE`) if it is not ours. The kernel takes 2 and
/// more as a hint that the next NMI may find nothing left to do.
///
/// # Safety
///
/// To be called in an NMI, with the area of its CPU and the interrupted registers.
unsafe extern "C" fn handle(area: *mut c_void, regs: *mut bindings::pt_regs) -> c_int {
    // SAFETY: The C side passes the area of the CPU that the NMI came to, and an NMI stays on its CPU.
    let here = unsafe { ThisCpu::from_area(area) };
    let Some(pmu) = here.percpu().pmu.get() else {
        return handle_after_release(here);
    };
    // PMIs that are not NMIs are KVM's, and with them the counters. No other condition may keep the handler from
    // its work: an overflow that is not acknowledged would be the last one.
    if !Lvtpc::read(here).is_nmi() {
        return 0;
    }
    // SAFETY: The C side passes the registers that this NMI interrupted.
    handle_pmi(here, pmu, unsafe { Regs::new(regs) }) as c_int
}

/// As [`handle`], after the registers have been restored. Touches no register, since they may be Linux perf's by
/// now.
#[cold]
fn handle_after_release(here: ThisCpu<'_>) -> c_int {
    here.percpu().pending.consume(jiffies()).into()
}

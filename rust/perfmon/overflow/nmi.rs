// SPDX-License-Identifier: GPL-2.0-only
//! The entry of the performance-monitoring interrupt (PMI), which is an NMI: it may come at any time, on any CPU.
//!
//! The handler takes no lock, allocates nothing and prints nothing. It accesses registers and data of its own CPU only,
//! and of active counters only.

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

/// The registration of the NMI handler, as long as the value exists.
///
/// # Invariants
///
/// While a value of this type exists, the kernel calls [`handle`] at every NMI on any CPU.
pub(crate) struct Handler(());

impl Handler {
    /// Registers the handler.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, after [`crate::percpu::Memory::new`], whose result
    /// must outlive the result of this function.
    pub(crate) unsafe fn register() -> Result<Self> {
        // SAFETY: perfmon_nmi_register() requires a handler that may be called until perfmon_nmi_unregister(), which
        // `drop` calls. The caller promises that the per-CPU memory, which `handle` uses, outlives the result.
        to_result(unsafe { ffi::perfmon_nmi_register(Some(handle)) })?;
        // INVARIANT: The handler has just been registered.
        Ok(Self(()))
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        // SAFETY: perfmon_nmi_unregister() requires a registered handler, which the type invariant gives.
        unsafe { ffi::perfmon_nmi_unregister() };
    }
}

/// Handles an NMI. Returns the number of PMIs that the NMI stands for; 0 (`NMI_DONE`) if the NMI
/// comes from another source. The kernel takes 2 and more as a hint that the next NMI may find
/// nothing left to do.
///
/// # Safety
///
/// To be called in an NMI, with the per-CPU area of its CPU and the interrupted registers.
unsafe extern "C" fn handle(area: *mut c_void, regs: *mut bindings::pt_regs) -> c_int {
    // SAFETY: `from_area` requires the area of the current CPU, which the caller passes, and a caller that can't
    // leave the CPU, as an NMI can't.
    let here = unsafe { ThisCpu::from_area(area) };
    let Some(pmu) = here.percpu().pmu.get() else {
        return handle_after_release(here);
    };
    // If PMIs are not NMIs, KVM has the counters. In all other cases overflows are served: an overflow that is not
    // acknowledged would be the last overflow.
    if !Lvtpc::read(here).is_nmi() {
        return 0;
    }
    // SAFETY: `Regs::new` requires registers that stay valid during the NMI: the caller passes the
    // registers that the NMI has interrupted.
    handle_pmi(here, pmu, unsafe { Regs::new(regs) }) as c_int
}

/// Handles an NMI after the registers have been restored: returns 1 for a late PMI, otherwise 0. Accesses no
/// register of the PMU, since Linux perf may use the registers again.
#[cold]
fn handle_after_release(here: ThisCpu<'_>) -> c_int {
    here.percpu().pending_pmi.consume(jiffies()).into()
}

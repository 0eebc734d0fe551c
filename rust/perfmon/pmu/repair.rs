// SPDX-License-Identifier: GPL-2.0-only
//! Repairs registers that other software changes while counters are active: Linux perf in its own handler and for BPF
//! programs, KVM, and writers of /dev/cpu/N/msr. Events that were not counted are reported: by LOST in
//! the trace's buffer, or by EIO for counters that programs read.

use super::{extra, lbr, Lvtpc};
use crate::{
    cpu::{msr, Regs, ThisCpu},
    logic::pmu::Pmu,
    percpu::{SLOW_BRANCHES, SLOW_KERNEL},
    sys::ffi,
};
use kernel::pr_warn_once;

impl Pmu {
    /// Checks and repairs the registers that active counters of this CPU share with other software. Not for the
    /// overflow handler, since a PMI masks LVTPC until the handler has served it.
    pub(crate) fn repair(&self, here: ThisCpu<'_>) {
        let percpu = here.percpu();
        let active_counters = percpu.running_counters();
        if active_counters == 0 {
            return;
        }
        // LVTPC is read twice: a PMI may have masked it at the first read. The NMI of this PMI has been served, and
        // LVTPC unmasked, before the second read.
        let is_changed = || !Lvtpc::read(here).is_unmasked_nmi();
        if is_changed() && is_changed() {
            Lvtpc::NMI.write(here);
            // Without PMIs samples are missing, but the values of counters are right.
            percpu.mark_lost(active_counters & percpu.trace.counters.get());
        }
        self.repair_global(here, active_counters);
        // Linux perf enables the metrics whenever it enables all counters, as at the end of its handler.
        self.disable_metrics(here);
        extra::repair(here, active_counters);
        self.check_place_holder(here, active_counters);
        if percpu.slow_path.get() & SLOW_BRANCHES != 0 {
            lbr::log_exclusion(here);
            lbr::repair(here, self);
        }
        log_found_disabled(here);
    }

    /// Enables active counters that were disabled in the global control register. Linux perf's handler clears that
    /// register when perf samples by Intel PT or for BPF.
    #[inline(always)]
    pub(crate) fn repair_global(&self, here: ThisCpu<'_>, counters: u64) {
        if let Some((control, disabled_counters)) = self.find_disabled(here, counters) {
            self.enable_again(here, control, disabled_counters);
        }
    }

    /// Enables active counters as [`Self::repair_global`] does, in the overflow handler, whose NMI interrupted code at
    /// `regs`.
    #[inline(always)]
    pub(crate) fn repair_in_nmi(&self, here: ThisCpu<'_>, counters: u64, regs: Regs<'_>) {
        if let Some((control, disabled_counters)) = self.find_disabled(here, counters) {
            self.enable_again_in_nmi(here, control, disabled_counters, regs);
        }
    }

    /// Returns the value of the global control register, and the mask of `counters` that are disabled in it; `None` if
    /// no counter is disabled.
    #[inline(always)]
    fn find_disabled(&self, here: ThisCpu<'_>, counters: u64) -> Option<(u64, u64)> {
        let global = self.registers.global.as_ref()?;
        let control = msr::read(here, global.control);
        let disabled_counters = counters & !control;
        (disabled_counters != 0).then_some((control, disabled_counters))
    }

    /// Enables counters again, unless there is a place-holder and Linux perf has disabled all
    /// counters. Perf does so for moments, in the kernel with interrupts off, and then enables them
    /// again itself. Only counters that count in kernel mode miss events in that time.
    #[cold]
    fn enable_again_in_nmi(
        &self,
        here: ThisCpu<'_>,
        control: u64,
        disabled_counters: u64,
        regs: Regs<'_>,
    ) {
        if self.place_holder.is_some() && control == 0 && !regs.is_user() {
            let percpu = here.percpu();
            percpu.mark_lost(disabled_counters & percpu.slow_path.get() & SLOW_KERNEL);
        } else {
            self.enable_again(here, control, disabled_counters);
        }
    }

    /// Marks that counters may have missed events, if an event that was pinned to this CPU earlier
    /// has displaced the place-holder. Not for the overflow handler, which may interrupt perf while
    /// perf moves events.
    #[inline(always)]
    pub(super) fn check_place_holder(&self, here: ThisCpu<'_>, counters: u64) {
        if !self.has_kept_perf_off(here) {
            mark_displaced(here, counters);
        }
    }

    /// Returns whether Linux perf has been kept off this CPU since the module reserved the counters.
    #[inline(always)]
    pub(crate) fn has_kept_perf_off(&self, here: ThisCpu<'_>) -> bool {
        match self.place_holder {
            Some(counter) => is_place_holder_in_place(here, counter),
            None => true,
        }
    }

    /// Enables the counters of the mask `disabled_counters` again, and marks that they may have
    /// missed events. `control` is the value of the global control register in which these counters
    /// are disabled.
    #[cold]
    fn enable_again(&self, here: ThisCpu<'_>, control: u64, disabled_counters: u64) {
        if let Some(global) = &self.registers.global {
            msr::write(here, global.control, control | disabled_counters);
        }
        let percpu = here.percpu();
        percpu.must_log_disabled.set(1);
        percpu.mark_lost(disabled_counters);
    }
}

/// Returns whether the place-holder with this counter has been active on this CPU since it was made.
fn is_place_holder_in_place(_here: ThisCpu<'_>, counter: u8) -> bool {
    // SAFETY: perfmon_place_holder_is_active() requires a caller with interrupts off: `_here` keeps the caller on this
    // CPU, and all callers (stopping counters, the context switch, the timer) run with interrupts off.
    unsafe { ffi::perfmon_place_holder_is_active(counter.into()) }
}

/// Returns whether this CPU may have [`tampered_counters`]: a quick test, which may return true although there are
/// none.
#[inline(always)]
pub(crate) fn may_be_tampered(here: ThisCpu<'_>) -> bool {
    let percpu = here.percpu();
    percpu.tampered.get() | percpu.has_place_holder.get() != 0
}

/// Returns the tampered counters of this CPU, as a mask: their registers held other values than the module had written.
/// If Linux perf has taken the counters, returns all running counters, too. Prints nothing, since the context switch
/// calls this, too.
#[cold]
#[inline(never)]
pub(crate) fn tampered_counters(here: ThisCpu<'_>) -> u64 {
    let percpu = here.percpu();
    if !here.pmu().has_kept_perf_off(here) {
        percpu.mark_lost(percpu.running_counters());
    }
    percpu.tampered.get()
}

/// Marks that counters may have missed events, because another event has displaced the
/// place-holder. Logs this once.
#[cold]
fn mark_displaced(here: ThisCpu<'_>, counters: u64) {
    here.percpu().mark_lost(counters);
    pr_warn_once!(
        "a pinned event of Linux perf has taken the counters of CPU {}: values from there can't be trusted. \
         Close that event, and open the counters again\n",
        here.id().as_u32()
    );
}

/// Logs once that active counters were disabled, if [`Pmu::repair_global`] has found this. Not for the overflow
/// handler.
#[inline(always)]
pub(super) fn log_found_disabled(here: ThisCpu<'_>) {
    if here.percpu().must_log_disabled.get() != 0 {
        report_found_disabled(here);
    }
}

/// Logs once that active counters were disabled.
#[cold]
#[inline(never)]
fn report_found_disabled(here: ThisCpu<'_>) {
    here.percpu().must_log_disabled.set(0);
    pr_warn_once!(
        "something else (KVM, or Linux perf for Intel PT or for a BPF program that takes branch \
         records) disabled all counters of CPU {} for a short time, so events are missing. Stop it, and count again\n",
        here.id().as_u32()
    );
}

// SPDX-License-Identifier: GPL-2.0-only
//! What others may change while the counters are ours: Linux perf in its own handler and for BPF programs, KVM,
//! whoever writes registers through /dev/cpu/N/msr. It is put right, and told: in the buffer of the trace, by
//! EIO for counters that programs read.

use super::{lbr, Lvtpc, Model};
use crate::{
    cpu::{Slot, ThisCpu, HEED_BRANCHES},
    msr,
};
use kernel::pr_warn_once;

impl Model {
    /// Looks at the registers that active counters of this CPU share with others. Not for the overflow
    /// handler: what it finds in LVTPC is masked by the PMI.
    pub(crate) fn look(&self, here: &ThisCpu) {
        let slot = here.slot();
        let active = slot.active.get();
        if active == 0 {
            return;
        }
        if !Lvtpc::read(here).is_open() {
            Lvtpc::NMI.write(here);
            // Nothing was counted wrong, but samples are missing.
            slot.lose(active & slot.recorder.counters.get());
        }
        self.look_at_global(here, active);
        if slot.heed.get() & HEED_BRANCHES != 0 {
            lbr::look(here, self);
        }
        report(here);
    }

    /// Enables active counters again that are not enabled in the register which they share with Linux perf.
    /// Its handler clears that in passing when perf samples by Intel PT or for BPF.
    #[inline(always)]
    pub(super) fn look_at_global(&self, here: &ThisCpu, counters: u64) {
        if let Some(global) = &self.registers.global {
            let control = msr::read(here, global.control);
            let missing = counters & !control;
            if missing != 0 {
                self.enable_again(here, control, missing);
            }
        }
    }

    #[cold]
    fn enable_again(&self, here: &ThisCpu, control: u64, missing: u64) {
        if let Some(global) = &self.registers.global {
            msr::write(here, global.control, control | missing);
        }
        let slot = here.slot();
        slot.interrupted.set(1);
        slot.lose(missing);
    }
}

impl Slot {
    /// Takes note that events of these active counters may be missing.
    pub(crate) fn lose(&self, counters: u64) {
        let traced = counters & self.recorder.counters.get();
        if traced != 0 {
            self.recorder.lose();
        }
        self.spoil(counters & !traced);
    }
}

/// Tells in the log, once, that counting was interrupted, if it was. Not for the overflow handler.
pub(super) fn report(here: &ThisCpu) {
    let slot = here.slot();
    if slot.interrupted.get() != 0 {
        slot.interrupted.set(0);
        pr_warn_once!(
            "somebody else (Linux perf for Intel PT or for a BPF program that takes branch records) \
             switches all counters off for moments: some events on CPU {} are missing\n",
            here.number()
        );
    }
}

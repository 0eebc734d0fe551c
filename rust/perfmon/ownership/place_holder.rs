// SPDX-License-Identifier: GPL-2.0-only
//! The place-holders, which keep Linux perf off counters that can't be reserved. `sys/hold.c` explains them.
//!
//! A CPU that is counted on has one while the counters are [reserved](super::Ownership::is_reserved), and for a moment
//! longer. perf makes and ends its events under mutexes of its own, so that is done by kernel threads and by those of
//! the CPUs' hotplug: a program would do it at its own priority, and keep all others from their counters that long. They
//! take the lock of this file, and under it [`OWNERSHIP`].

use super::{Refusal, OWNERSHIP};
use crate::{
    cpu, pmu,
    sys::{error::to_result, ffi, kernel_thread},
};
use kernel::{bindings, cpu::CpuId, prelude::*, sync::global_lock};

global_lock! {
    // SAFETY: `PlaceHolders::new` initializes it, before there are CPUs that are counted on.
    pub(crate) unsafe(uninit) static PLACE_HOLDERS: Mutex<PlaceHolderState> = PlaceHolderState(false);
}

/// The state of all place-holders: `true` if each CPU that is counted on has its own.
pub(crate) struct PlaceHolderState(bool);

/// The place-holders in the module's life.
///
/// # Invariants
///
/// [`PLACE_HOLDERS`] is initialized.
pub(crate) struct PlaceHolders(());

impl PlaceHolders {
    /// Prepares for place-holders.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, before CPUs are counted on. The result is dropped after the last owner
    /// of a counter has gone.
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: The caller calls this once, before there are CPUs that are counted on.
        unsafe { PLACE_HOLDERS.init() };
        // INVARIANT: Just initialized.
        Self(())
    }
}

impl Drop for PlaceHolders {
    fn drop(&mut self) {
        wait_for_release();
    }
}

/// A value of this type exists while the counters are reserved by place-holders.
pub(super) struct PlaceHolderHold(());

impl Drop for PlaceHolderHold {
    fn drop(&mut self) {
        // SAFETY: `PlaceHolders::drop` waits for the function before the module goes.
        unsafe { ffi::perfmon_unhold_soon(Some(end_if_unused)) };
    }
}

/// Waits until the place-holders have gone whose counters have just been released, so that perf has them when a
/// program's call returns. Sleeps.
pub(crate) fn wait_for_release() {
    // SAFETY: The function has no preconditions but a caller that may sleep.
    unsafe { ffi::perfmon_unhold_wait() };
}

/// Reserves the counters with place-holders, with this general counter, for a caller that cleans the CPUs then.
///
/// # Errors
///
/// The user that has the counters.
pub(super) fn begin_cleaning(counter: u8) -> Result<(), Refusal> {
    loop {
        // perf would lose its counters, and its users would only see counts that stop. Checked in the caller's task,
        // since the caller's own events are loaded while it runs.
        let (is_reserved, counting) = {
            let ownership = OWNERSHIP.lock();
            (ownership.is_reserved(), ownership.counting_msr())
        };
        if let Some(msr) = counting {
            return Err(Refusal::Counting(msr));
        }
        let mut begun = None;
        kernel_thread::call(|| begun = begin_cleaning_in_thread(counter, is_reserved));
        if let Some(result) = begun {
            return result;
        }
    }
}

/// Does the same as [`begin_cleaning`], after the check for counters that perf counts with. `None` if the counters
/// were reserved at that check, which then proves nothing, and are not reserved any more.
fn begin_cleaning_in_thread(counter: u8, was_reserved: bool) -> Option<Result<(), Refusal>> {
    let mut all_held = PLACE_HOLDERS.lock();
    // Another caller may have reserved the counters by now. One of its place-holders that has been displaced has to
    // stay, to tell that.
    let is_reserved = OWNERSHIP.lock().is_reserved();
    if was_reserved && !is_reserved {
        return None;
    }
    if !is_reserved {
        if let Err(refusal) = all_held.hold(counter) {
            return Some(Err(refusal));
        }
    }
    // Before the lock is released: until then, none of them ends.
    OWNERSHIP
        .lock()
        .begin_cleaning_with_place_holders(PlaceHolderHold(()));
    Some(Ok(()))
}

/// Ends the place-holders, unless the counters are reserved again.
///
/// # Safety
///
/// To be called by a task that may sleep.
unsafe extern "C" fn end_if_unused() {
    let mut all_held = PLACE_HOLDERS.lock();
    if !OWNERSHIP.lock().is_reserved() {
        all_held.end();
    }
}

impl PlaceHolderState {
    /// Makes the place-holders that are missing.
    ///
    /// # Errors
    ///
    /// The user that has the counters: then there are no place-holders.
    fn hold(&mut self, counter: u8) -> Result<(), Refusal> {
        self.0 = true;
        for cpu in cpu::ids() {
            // CPUs come and go under the lock of this file.
            let is_counted = OWNERSHIP.lock().cpus().is_counted(cpu);
            if is_counted {
                if let Err(refusal) = hold_cpu(cpu, counter) {
                    self.end();
                    return Err(refusal);
                }
            }
        }
        Ok(())
    }

    /// Ends all place-holders.
    fn end(&mut self) {
        self.0 = false;
        cpu::ids().for_each(|cpu| self.remove(cpu));
    }

    /// Makes the place-holder of a CPU that has come online, if the others have theirs.
    ///
    /// # Errors
    ///
    /// The user that has the counters.
    pub(crate) fn add(&mut self, cpu: CpuId) -> Result<(), Refusal> {
        match pmu::common().place_holder {
            // Those that end soon are of no use.
            Some(counter) if self.0 && OWNERSHIP.lock().is_reserved() => hold_cpu(cpu, counter),
            _ => Ok(()),
        }
    }

    /// Ends the place-holder of a CPU, if it has one.
    pub(crate) fn remove(&mut self, cpu: CpuId) {
        // SAFETY: The number is that of a CPU, the caller may sleep, and the lock makes it the only one.
        unsafe { ffi::perfmon_unhold(cpu.as_u32()) };
    }
}

/// Makes the place-holder of a CPU that is counted on, for the holder of the lock.
///
/// # Errors
///
/// The user that has the counters.
fn hold_cpu(cpu: CpuId, counter: u8) -> Result<(), Refusal> {
    // perf can keep an event to one counter from the version on in which it has the aliases.
    let constrain = pmu::common().capabilities.has_aliases();
    // SAFETY: The CPU is online: the lock keeps it from going offline. The caller may sleep and is the only one.
    let held = unsafe { ffi::perfmon_hold(cpu.as_u32(), counter.into(), constrain) };
    to_result(held).map_err(|error| match -error.to_errno() as u32 {
        bindings::EBUSY => Refusal::Pinned(cpu),
        bindings::ENXIO => Refusal::Misplaced(cpu),
        bindings::EOPNOTSUPP => Refusal::VirtualMachine,
        _ => Refusal::Other(error),
    })
}

// SPDX-License-Identifier: GPL-2.0-only
//! The place-holders: events of Linux perf that keep perf off counters that can't be reserved. `sys/place_holder.c`
//! explains them.
//!
//! A CPU that is used for counting has a place-holder while the counters are
//! [reserved](super::Ownership::is_reserved), and for a moment longer. perf creates and ends its events under mutexes
//! of its own. So kernel threads and hotplug threads make and end place-holders: a program of low priority would delay
//! all others that wait for a mutex. The threads take the lock of this file, and under it [`OWNERSHIP`].

use super::{ownership::OWNERSHIP, perf_exclusion::PlaceHolderHold, refusal::Refusal};
use crate::{
    cpu, pmu,
    sys::{error::to_result, ffi, kernel_thread},
};
use kernel::{bindings, cpu::CpuId, prelude::*, sync::global_lock};

global_lock! {
    // SAFETY: The lock must be initialized before its first use: `PlaceHolders::new` initializes it before CPUs are
    // used for counting, and only code that uses CPUs for counting locks it.
    pub(crate) unsafe(uninit) static PLACE_HOLDERS: Mutex<PlaceHolderState> = PlaceHolderState(false);
}

/// The state of all place-holders: `true` if each CPU that is used for counting has one.
pub(crate) struct PlaceHolderState(bool);

/// The initialization of the place-holders, as long as the module is loaded.
///
/// # Invariants
///
/// [`PLACE_HOLDERS`] is initialized.
pub(crate) struct PlaceHolders(());

impl PlaceHolders {
    /// Initializes the lock of the place-holders.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life, before CPUs are used for counting. The result must be dropped when no
    /// counter has an owner any more.
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: A lock must be initialized once, before its first use: the caller calls this once, before CPUs are
        // used for counting, and only code that uses CPUs for counting locks `PLACE_HOLDERS`.
        unsafe { PLACE_HOLDERS.init() };
        // INVARIANT: `PLACE_HOLDERS` has just been initialized.
        Self(())
    }
}

impl Drop for PlaceHolders {
    fn drop(&mut self) {
        wait_for_place_holder_end();
    }
}

/// Waits until the place-holders of counters that have just been released are gone, so that perf can use the counters
/// when a program's system call returns. Sleeps.
pub(crate) fn wait_for_place_holder_end() {
    // SAFETY: `perfmon_place_holder_end_wait()` requires a caller that may sleep: all callers are tasks without
    // spinlocks.
    unsafe { ffi::perfmon_place_holder_end_wait() };
}

/// Reserves the counters with place-holders, which get the general counter `counter`, for a caller that then cleans
/// the CPUs.
///
/// # Errors
///
/// The user of the counters, or another reason why place-holders can't be made.
pub(super) fn begin_cleaning(counter: u8) -> Result<(), Refusal> {
    loop {
        // Place-holders are refused if perf is counting: they would take its counters, and its
        // users would only see counts that stop. Whether perf is counting is checked in the
        // caller's task, since perf counts the caller's own events only while the caller runs.
        let (is_reserved, msr_in_use) = {
            let ownership = OWNERSHIP.lock();
            (
                ownership.is_reserved(),
                ownership.control_msr_in_use_by_perf(),
            )
        };
        if let Some(msr) = msr_in_use {
            return Err(Refusal::Counting(msr));
        }
        let mut thread_result = None;
        kernel_thread::call(|| thread_result = begin_cleaning_in_thread(counter, is_reserved));
        if let Some(result) = thread_result {
            return result;
        }
    }
}

/// Does the part of [`begin_cleaning`] that a kernel thread has to do. `was_reserved` says that the counters were
/// reserved when the caller checked whether perf is counting, so that the check could not find anything. If they are
/// not reserved any more, returns `None`: the caller then checks again.
fn begin_cleaning_in_thread(counter: u8, was_reserved: bool) -> Option<Result<(), Refusal>> {
    let mut place_holders = PLACE_HOLDERS.lock();
    // Another caller may have reserved the counters by now. Then the place-holders are not made again: if perf has
    // displaced one, it must stay inactive, which shows that counts may be missing.
    let is_reserved = OWNERSHIP.lock().is_reserved();
    if was_reserved && !is_reserved {
        return None;
    }
    if !is_reserved {
        if let Err(refusal) = place_holders.make_all(counter) {
            return Some(Err(refusal));
        }
    }
    // SAFETY: `new` requires a function that a kernel thread may call until `PlaceHolders` is dropped: `end_if_unused`
    // requires a task that may sleep, as a kernel thread may, and the module is unloaded after `PlaceHolders::drop` has
    // waited for the call.
    let hold = unsafe { PlaceHolderHold::new(end_if_unused) };
    // The counters are reserved before `PLACE_HOLDERS` is released, so that `end_if_unused` does not end the
    // place-holders in between.
    OWNERSHIP.lock().begin_cleaning_with_place_holders(hold);
    Some(Ok(()))
}

/// Ends all place-holders, unless the counters are reserved again.
///
/// # Safety
///
/// To be called by a task that may sleep.
unsafe extern "C" fn end_if_unused() {
    let mut place_holders = PLACE_HOLDERS.lock();
    if !OWNERSHIP.lock().is_reserved() {
        place_holders.end_all();
    }
}

impl PlaceHolderState {
    /// Makes a place-holder on each CPU that is used for counting and has none.
    ///
    /// # Errors
    ///
    /// The user of the counters. After an error there are no place-holders.
    fn make_all(&mut self, counter: u8) -> Result<(), Refusal> {
        self.0 = true;
        for cpu in cpu::possible_cpus() {
            // CPUs go online and offline under the lock of this file, so `is_counted` does not change meanwhile.
            let is_counted = OWNERSHIP.lock().cpus().is_counted(cpu);
            if is_counted {
                if let Err(refusal) = self.make_place_holder(cpu, counter) {
                    self.end_all();
                    return Err(refusal);
                }
            }
        }
        Ok(())
    }

    /// Ends all place-holders.
    fn end_all(&mut self) {
        self.0 = false;
        cpu::possible_cpus().for_each(|cpu| self.remove(cpu));
    }

    /// Makes the place-holder of a CPU that has come online, if the other CPUs have theirs.
    ///
    /// # Errors
    ///
    /// The user of the counters, or another reason why place-holders can't be made.
    pub(crate) fn add(&mut self, cpu: CpuId) -> Result<(), Refusal> {
        match pmu::common().place_holder {
            // If the counters are not reserved any more, the other place-holders end soon.
            Some(counter) if self.0 && OWNERSHIP.lock().is_reserved() => {
                self.make_place_holder(cpu, counter)
            }
            _ => Ok(()),
        }
    }

    /// Ends the place-holder of a CPU, if it has one.
    pub(crate) fn remove(&mut self, cpu: CpuId) {
        // SAFETY: The function requires the number of a possible CPU, which a `CpuId` is; a caller that may sleep, as
        // the holder of a mutex may; and one caller at a time: the mutex, which `self` is behind, is held.
        unsafe { ffi::perfmon_place_holder_end(cpu.as_u32()) };
    }

    /// Makes the place-holder of a CPU that is used for counting, unless it has one.
    ///
    /// # Errors
    ///
    /// The user of the counters, or another reason why place-holders can't be made.
    fn make_place_holder(&mut self, cpu: CpuId, counter: u8) -> Result<(), Refusal> {
        // perf can restrict an event to one counter on PMUs whose registers have aliases: PMUs of
        // version 6 and later.
        let constrain = pmu::common().capabilities.has_aliases();
        // SAFETY: The function requires a CPU that is online; a caller that may sleep, as the holder of a mutex may;
        // and one caller at a time: the mutex, which `self` is behind, is held, and also keeps the CPU from going
        // offline.
        let result =
            unsafe { ffi::perfmon_place_holder_make(cpu.as_u32(), counter.into(), constrain) };
        to_result(result).map_err(|error| match -error.to_errno() as u32 {
            bindings::EBUSY => Refusal::Pinned(cpu),
            bindings::ENXIO => Refusal::Misplaced(cpu),
            bindings::EOPNOTSUPP => Refusal::VirtualMachine,
            _ => Refusal::Other(error),
        })
    }
}

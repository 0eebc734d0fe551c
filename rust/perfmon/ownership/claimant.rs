// SPDX-License-Identifier: GPL-2.0-only
//! The programs that asked for the counters in use, reported to a program that was refused one: `PERFMON_GET_OWNER`.

use super::{policy::allow_counting, Client, Owner, Ownership, Reservation, OWNERSHIP};
use crate::{abi, logic::counter::CounterId, pmu, sys::ffi};
use core::ffi::c_char;
use kernel::prelude::*;

/// A program that has asked for a counter.
///
/// # Invariants
///
/// `process` is a reference.
pub(crate) struct Claimant {
    /// The process of the program. Not its number, which another process may get.
    process: *mut ffi::pid,
    /// The name of the thread that asked.
    name: [u8; 16],
}

// SAFETY: A reference to a process may be used and given back by any task.
unsafe impl Send for Claimant {}
// SAFETY: Several tasks may ask for the number at once.
unsafe impl Sync for Claimant {}

impl Claimant {
    /// Returns the current task's process.
    pub(super) fn current() -> Self {
        let mut name = [0; 16];
        // SAFETY: The function writes 16 bytes.
        unsafe { ffi::perfmon_own_name(name.as_mut_ptr().cast()) };
        // INVARIANT: The function returns a reference.
        // SAFETY: The function has no preconditions.
        let process = unsafe { ffi::perfmon_own_process() };
        Self { process, name }
    }

    /// Returns the number of the process for the caller; 0 if it has none there, or has exited.
    fn process_number(&self) -> i32 {
        // SAFETY: `process` is a reference.
        unsafe { ffi::perfmon_process_number(self.process) }
    }
}

impl Drop for Claimant {
    fn drop(&mut self) {
        // SAFETY: `process` is a reference, and given back once.
        unsafe { ffi::perfmon_process_put(self.process) };
    }
}

/// Returns whether Linux perf has the counters, which are not reserved.
///
/// There are two ways to find out: to reserve the counters for a moment, in which perf is refused, or to look at the
/// registers of all CPUs. So only a caller that may count CPUs has perf's use checked. Other callers get the result
/// of the last attempt to reserve counters.
fn perf_has_counters(ownership: &Ownership, may_ask: bool) -> bool {
    if !may_ask {
        ownership.was_refused()
    } else if pmu::common().place_holder.is_some() {
        ownership.counting_msr().is_some()
    } else {
        Reservation::new(&pmu::common().capabilities).is_err()
    }
}

/// `PERFMON_GET_OWNER`
pub(crate) fn get_owner(_client: &Client, request: &mut abi::perfmon_counter_owner) -> Result {
    if request.reserved.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    let capabilities = &pmu::common().capabilities;
    let id = CounterId::from_number(request.num, capabilities)?;
    // Security modules are asked without the lock.
    let is_reserved = OWNERSHIP.lock().is_reserved();
    let may_ask = !is_reserved && allow_counting().is_ok();
    let (kind, users, claimant) = {
        let ownership = OWNERSHIP.lock();
        let (kind, users) = match &ownership.owners[id.index()] {
            Some(Owner::Session(_)) => (abi::PERFMON_OWNER_SESSION, 1),
            Some(Owner::Trace) => (abi::PERFMON_OWNER_TRACE, 1),
            Some(Owner::Events(users)) => {
                let kind = match users.kinds() {
                    [true, false, false] => abi::PERFMON_OWNER_TASKS,
                    [false, true, false] => abi::PERFMON_OWNER_CPUS,
                    _ => abi::PERFMON_OWNER_EVENTS,
                };
                (kind, users.count())
            }
            None if ownership.is_reserved() || !perf_has_counters(&ownership, may_ask) => {
                (abi::PERFMON_OWNER_NONE, 0)
            }
            None => (abi::PERFMON_OWNER_PERF, 1),
        };
        let claimant = ownership.claimants[id.index()].as_ref();
        let claimant = claimant.map(|claimant| (claimant.process_number(), claimant.name));
        (kind, users, claimant)
    };
    let (pid, name) = claimant.unwrap_or_default();
    request.kind = kind;
    request.users = users;
    request.pid = pid;
    request.comm = name.map(|byte| byte as c_char);
    Ok(())
}

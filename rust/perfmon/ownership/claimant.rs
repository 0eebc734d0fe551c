// SPDX-License-Identifier: GPL-2.0-only
//! The programs that asked for the counters in use. `PERFMON_GET_OWNER` reports them to a program whose counter was
//! refused.

use super::{policy::check_may_count_cpu, Client, Owner, Ownership, Reservation, OWNERSHIP};
use crate::{abi, logic::counter::CounterId, pmu, sys::ffi};
use core::ffi::c_char;
use kernel::prelude::*;

/// A program that has asked for a counter.
///
/// # Invariants
///
/// `process` is a counted reference.
pub(crate) struct Claimant {
    /// The process of the program. It is not stored as a PID, which the kernel may give to another process.
    process: *mut ffi::pid,
    /// The name of the thread that asked (comm).
    name: [u8; 16],
}

// SAFETY: `Send` requires that any task may use and drop the value: `process` is a reference that belongs to no
// task, and the kernel counts references atomically.
unsafe impl Send for Claimant {}
// SAFETY: `Sync` requires that several tasks may use the value at once: a shared reference only allows reading the name
// and looking up the PID, which changes nothing.
unsafe impl Sync for Claimant {}

impl Claimant {
    /// Returns the current task's process and name.
    pub(super) fn current() -> Self {
        let mut name = [0; 16];
        // SAFETY: The function requires room for the 16 bytes that it writes: `name` has them.
        unsafe { ffi::perfmon_own_name(name.as_mut_ptr().cast()) };
        // INVARIANT: The function returns a counted reference.
        // SAFETY: `perfmon_own_process()` looks at the current task only: it has no preconditions.
        let process = unsafe { ffi::perfmon_own_process() };
        Self { process, name }
    }

    /// Returns the PID of the process in the caller's PID namespace; 0 if it has no PID there, or has exited.
    fn process_number(&self) -> i32 {
        // SAFETY: The function requires a process that is not freed: `process` is a counted reference.
        unsafe { ffi::perfmon_process_number(self.process) }
    }
}

impl Drop for Claimant {
    fn drop(&mut self) {
        // SAFETY: The function requires a counted reference, which it takes over: by the type invariant `process` is
        // one, and only `drop` puts it.
        unsafe { ffi::perfmon_process_put(self.process) };
    }
}

/// Returns whether Linux perf uses the counters, which the module has not reserved.
///
/// The check disturbs others: it reserves the counters for a moment, in which perf is refused, or calls all CPUs to
/// read their registers. So it is made only for a caller that may count CPUs (`may_check`). Other callers get the
/// result of the last attempt to reserve the counters.
fn perf_has_counters(ownership: &Ownership, may_check: bool) -> bool {
    if !may_check {
        ownership.was_refused()
    } else if pmu::common().place_holder.is_some() {
        ownership.counting_msr().is_some()
    } else {
        Reservation::of(pmu::common()).is_err()
    }
}

/// Serves `PERFMON_GET_OWNER`: returns the owner of a counter, and the program that asked for it.
pub(crate) fn get_owner(_client: &Client, request: &mut abi::perfmon_counter_owner) -> Result {
    if request.reserved.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    let id = CounterId::from_number_in(request.num, pmu::common().all_counters())?;
    // Permission is checked without the lock, since security modules are called.
    let is_reserved = OWNERSHIP.lock().is_reserved();
    let may_check = !is_reserved && check_may_count_cpu().is_ok();
    let (kind, user_count, claimant) = {
        let ownership = OWNERSHIP.lock();
        let (kind, user_count) = match &ownership.owners[id.index()] {
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
            None if ownership.is_reserved() || !perf_has_counters(&ownership, may_check) => {
                (abi::PERFMON_OWNER_NONE, 0)
            }
            None => (abi::PERFMON_OWNER_PERF, 1),
        };
        let claimant = ownership.claimants[id.index()].as_ref();
        let claimant = claimant.map(|claimant| (claimant.process_number(), claimant.name));
        (kind, user_count, claimant)
    };
    let (pid, name) = claimant.unwrap_or_default();
    request.kind = kind;
    request.users = user_count;
    request.pid = pid;
    request.comm = name.map(|byte| byte as c_char);
    Ok(())
}

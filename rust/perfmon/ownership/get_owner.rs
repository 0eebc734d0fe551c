// SPDX-License-Identifier: GPL-2.0-only
//! `PERFMON_GET_OWNER`: the owner of a counter, and the program that asked for the counter.

use super::{
    client::Client,
    owner::Owner,
    ownership::{Ownership, OWNERSHIP},
    policy::check_may_count_cpu,
    reservation::Reservation,
};
use crate::{abi, logic::counter::CounterId, pmu};
use core::ffi::c_char;
use kernel::prelude::*;

/// Returns whether Linux perf uses the counters. To be called while the module has not reserved the
/// counters.
///
/// The check disturbs other programs: it reserves the counters for a moment, in which perf can't
/// get them, or interrupts all CPUs to read their registers. So the check is made only for a caller
/// that may count CPUs (`may_check`). Other callers get the result of the last attempt to reserve
/// the counters, which may be the trial at load.
fn perf_has_counters(ownership: &Ownership, may_check: bool) -> bool {
    if !may_check {
        ownership.was_refused
    } else if pmu::common().place_holder.is_some() {
        ownership.control_msr_in_use_by_perf().is_some()
    } else {
        Reservation::of(pmu::common()).is_err()
    }
}

/// Serves `PERFMON_GET_OWNER`: returns the owner of a counter, and the program that asked for the
/// counter.
pub(crate) fn get_owner(_client: &Client, request: &mut abi::perfmon_counter_owner) -> Result {
    if request.reserved.iter().any(|&word| word != 0) {
        return Err(EINVAL);
    }
    let id = CounterId::from_number(request.num, pmu::common().all_counters())?;
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

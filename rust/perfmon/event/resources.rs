// SPDX-License-Identifier: GPL-2.0-only
//! Resources of an event: its counter, branch records, and samples in a second.

use super::{attach::own_counters, target::Target};
use crate::{
    logic::{
        admission::choose, counter::CounterId, event_config::EventConfig, sharing::TargetKind,
    },
    module_parameters,
    ownership::{with_reserved, Ownership, OWNERSHIP},
    sys::compat::parameter,
};
use kernel::prelude::*;

/// Returns the most samples in a second that an event may ask for; 0 for no limit.
pub(super) fn max_sample_rate() -> u32 {
    parameter(&module_parameters::perf_event_max_sample_rate)
}

/// Gives an event a counter that can count it, beside the events that its target has now; [`CounterId::NONE`] if it counts
/// nothing.
///
/// # Errors
///
/// EBUSY if no counter is left that can count it. EIO if the counter does not hold what is written. ENOMEM.
pub(super) fn own_counter(config: &EventConfig, target: &Target) -> Result<CounterId> {
    let check_cpu = |ownership: &Ownership| match target {
        Target::Cpu(cpu) | Target::Cgroup(_, Some(cpu)) => ownership.check_cpu(*cpu),
        Target::Task(..) | Target::Cgroup(_, None) => Ok(()),
    };
    if !config.takes_counter() {
        check_cpu(&OWNERSHIP.lock())?;
        return Ok(CounterId::NONE);
    }
    let kind = target.kind();
    let own = own_counters(target, config);
    let check = |ownership: &Ownership| {
        check_cpu(ownership)?;
        ownership.check_exclusive(Some(kind))
    };
    with_reserved(check, |ownership| {
        if config.exclusive {
            ownership.begin_exclusive(kind)?;
        }
        let chosen = choose(config, &ownership.offers(kind, config, own));
        let joined = chosen.ok_or(EBUSY).and_then(|counter| {
            let branches = config.sampling.branches.map(|stack| stack.branches);
            if let Some(branches) = branches {
                ownership.begin_branches(branches)?;
            }
            let joined = ownership.share(kind, counter, config.demand_on(counter));
            if joined.is_err() && branches.is_some() {
                ownership.end_branches();
            }
            joined.map(|()| counter)
        });
        if joined.is_err() && config.exclusive {
            ownership.end_exclusive(kind);
        }
        joined
    })
}

/// Releases the counter of an event, its branch records and its exclusive use.
pub(super) fn release(counter: CounterId, config: &EventConfig, kind: TargetKind) {
    if counter.is_none() {
        return;
    }
    let mut ownership = OWNERSHIP.lock();
    ownership.unshare(kind, counter, config.demand_on(counter));
    if config.sampling.branches.is_some() {
        ownership.end_branches();
    }
    if config.exclusive {
        ownership.end_exclusive(kind);
    }
}

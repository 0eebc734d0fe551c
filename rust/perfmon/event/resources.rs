// SPDX-License-Identifier: GPL-2.0-only
//! The resources of an event: its counters, branch records, and sample rate.

use super::{attach::own_counters, event::ChosenCounters, reassign, target::Target};
use crate::{
    logic::{
        admission::{choose_counter, turn_counters, Offers},
        counter::{highest, CounterId},
        event_config::EventConfig,
    },
    module_parameters,
    ownership::{with_reserved, EventPlace, Ownership, OWNERSHIP},
    percpu,
    sys::compat::parameter,
};
use kernel::{cpu::CpuId, prelude::*};

/// Returns the highest frequency, in samples per second, that an event may ask for; 0 for no limit.
pub(super) fn max_sample_rate() -> u32 {
    parameter(&module_parameters::perf_event_max_sample_rate)
}

/// Takes a counter that can count an event together with the events that its target has now; [`CounterId::NONE`] for
/// an event that counts nothing. For an event that takes turns, also takes the counters on which other events of the
/// target take turns: these suffice if no counter is free.
///
/// # Errors
///
/// ENOENT if the event's CPU is of a kind that does not count the event. EBUSY if no counter is left that can count the
/// event. EIO if the counter does not hold what is written to it. ENOMEM if there is no memory.
// Not inlined, so that its frame, which has the users of a counter, is not on the stack of what is called afterwards.
#[inline(never)]
pub(super) fn take_counters(config: &EventConfig, target: &Target) -> Result<ChosenCounters> {
    let check_cpu = |ownership: &Ownership| match target {
        Target::Cpu(cpu) | Target::Cgroup(_, Some(cpu)) => {
            ownership.check_cpu(*cpu)?;
            check_kind(config, *cpu)
        }
        // The CPU of a task's event may be offline. Its kind is not known before it was online once.
        Target::Task(_, Some(cpu)) if ownership.cpus().ever_used().contains(*cpu) => {
            check_kind(config, *cpu)
        }
        Target::Task(..) | Target::Cgroup(_, None) => Ok(()),
    };
    if !config.takes_counter() {
        check_cpu(&OWNERSHIP.lock())?;
        return Ok(ChosenCounters::only(CounterId::NONE));
    }
    let place = target.place();
    let own_counters = own_counters(target, config);
    let check = |ownership: &Ownership| {
        check_cpu(ownership)?;
        ownership.check_exclusive(Some(place.kind))
    };
    with_reserved(check, |ownership| {
        if config.exclusive {
            ownership.begin_exclusive(place.kind)?;
        }
        let chosen_counters =
            choose_counters(config, &ownership.offers(place, config, own_counters))
                .or_else(|| reassign::free_counter(ownership, config).map(ChosenCounters::only));
        let result = chosen_counters.ok_or(EBUSY).and_then(|counters| {
            let branches = config.sampling.branches.map(|stack| stack.branches);
            if let Some(branches) = branches {
                ownership.begin_branches(branches)?;
            }
            let share_result = ownership.share_counters(place, counters.all, config);
            if share_result.is_err() && branches.is_some() {
                ownership.end_branches();
            }
            share_result.map(|()| counters)
        });
        if result.is_err() && config.exclusive {
            ownership.end_exclusive(place.kind);
        }
        result
    })
}

/// Checks that CPUs of the kind of `cpu` count the event.
///
/// # Errors
///
/// ENOENT if they don't.
fn check_kind(config: &EventConfig, cpu: CpuId) -> Result {
    if config.counts_on(percpu::of_cpu(cpu).core_kind()) {
        Ok(())
    } else {
        Err(ENOENT)
    }
}

/// Chooses the counters for an event from `offers`. Returns `None` if no counter can count the event.
fn choose_counters(config: &EventConfig, offers: &Offers) -> Option<ChosenCounters> {
    let chosen_counter = choose_counter(config, offers);
    if !config.takes_turns {
        return chosen_counter.map(ChosenCounters::only);
    }
    let counters_for_turns = turn_counters(config, offers);
    let first = chosen_counter.or_else(|| highest(counters_for_turns))?;
    Some(ChosenCounters {
        first,
        all: first.bit() | counters_for_turns,
    })
}

/// Releases what [`take_counters`] took: the counters, as the mask `counters`, the branch records, and the exclusive
/// use.
pub(super) fn release_resources(counters: u64, config: &EventConfig, place: EventPlace) {
    if !config.takes_counter() {
        return;
    }
    let mut ownership = OWNERSHIP.lock();
    ownership.unshare_counters(place, counters, config);
    if config.sampling.branches.is_some() {
        ownership.end_branches();
    }
    if config.exclusive {
        ownership.end_exclusive(place.kind);
    }
}

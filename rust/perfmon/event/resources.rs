// SPDX-License-Identifier: GPL-2.0-only
//! The resources of an event: its counters, extra register, branch records, and sample rate.

use super::{
    attach::{self, own_counters, register_conflicts, with_each_context},
    event::{ChosenCounters, Event},
    reassign::{self, Room},
    target::Target,
};
use crate::{
    logic::{
        admission::{choose_counter, turn_counters, OwnCounters},
        counter::{highest, CounterId},
        event_config::EventConfig,
    },
    module_parameters,
    ownership::{with_reserved, EventPlace, Ownership, OWNERSHIP},
    percpu,
    sys::compat::parameter,
};
use core::ptr::NonNull;
use kernel::{cpu::CpuId, prelude::*};

/// Returns the highest frequency, in samples per second, that an event may ask for; 0 for no limit.
pub(super) fn max_sample_rate() -> u32 {
    parameter(&module_parameters::perf_event_max_sample_rate)
}

/// Takes a counter that can count an event together with the events that its target has now;
/// [`CounterId::NONE`] for an event that counts nothing. For an event that takes turns, also takes
/// the counters on which other events of the target take turns: the event can use these counters if
/// no counter is free. Also takes the extra register that the event needs, and [changes to the
/// other register](EventConfig::swap_extra_register) that can hold the value if the first one is in
/// use with another value.
///
/// # Errors
///
/// ENOENT if the event's CPU is of a kind that does not count the event. EBUSY if all counters or
/// extra registers that can count the event are in use. EOPNOTSUPP if the CPUs lack the extra
/// register, EINVAL if it refuses the value. EIO if the counter does not hold the value that is
/// written to it. ENOMEM if there is no memory.
pub(super) fn take_counters(config: &mut EventConfig, target: &Target) -> Result<ChosenCounters> {
    if config.extra.is_some() {
        take_with_register(config, target)
    } else {
        take_counters_only(config, target)
    }
}

/// Does what [`take_counters`] does, for an event that needs an extra register.
#[cold]
#[inline(never)]
fn take_with_register(config: &mut EventConfig, target: &Target) -> Result<ChosenCounters> {
    let is_in_use = |config: &EventConfig| {
        let ownership = OWNERSHIP.lock();
        config
            .extra
            .is_some_and(|extra| ownership.has_register_value(extra))
    };
    // Prefers a register that has the value already, so that the other register remains for other
    // values.
    if !is_in_use(config) && config.swap_extra_register() && !is_in_use(config) {
        config.swap_extra_register();
    }
    // An event that takes turns shares a register with other values only if there is no other way.
    for shares_in_turns in [false, true] {
        if shares_in_turns && !config.takes_turns {
            break;
        }
        // Tries both registers. After two swaps, `config` has the first one again.
        for _ in 0..2 {
            let conflicts = config.extra.map(|extra| register_conflicts(target, extra));
            if conflicts.is_some_and(|conflicts| !conflicts.exclude(shares_in_turns)) {
                match take_counters_only(config, target) {
                    Err(error) if error == EBUSY => {}
                    result => return result,
                }
            }
            if !config.swap_extra_register() {
                break;
            }
        }
    }
    Err(EBUSY)
}

/// Does what [`take_counters`] does, with the extra register that `config` has, if any.
// Not inlined: the stack frame of this function is large, since it contains the users of a counter,
// and must not be on the stack of later calls.
#[inline(never)]
fn take_counters_only(config: &EventConfig, target: &Target) -> Result<ChosenCounters> {
    let check_cpu = |ownership: &Ownership| match target {
        Target::Cpu(cpu) | Target::Cgroup(_, Some(cpu)) => {
            ownership.check_cpu(*cpu)?;
            check_kind(config, *cpu)
        }
        // The CPU of a task's event may be offline. Its kind is known only after it was online once.
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
    // An event that does not take turns is checked once more when it is attached. An event that
    // takes turns may share counters with events that are opened meanwhile, so the counters of
    // these events are read under the lock.
    let counters_before = (!config.takes_turns).then(|| own_counters(target, config));
    let check = |ownership: &Ownership| {
        check_cpu(ownership)?;
        ownership.check_exclusive(Some(place.kind))
    };
    with_reserved(check, |ownership| {
        if config.exclusive {
            ownership.begin_exclusive(place.kind)?;
        }
        let register_result = match config.extra {
            Some(extra) => ownership.check_register(place, extra),
            None => Ok(()),
        };
        let chosen_counters = register_result.and_then(|()| {
            let own_counters = counters_before.unwrap_or_else(|| own_counters(target, config));
            choose_counters(ownership, config, target, own_counters).ok_or(EBUSY)
        });
        let result = chosen_counters.and_then(|counters| {
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
        if let (Ok(_), Some(extra)) = (&result, config.extra) {
            ownership.add_register_user(place, extra);
        }
        result
    })
}

/// Checks that CPUs of the kind of `cpu` count the event.
///
/// # Errors
///
/// ENOENT if CPUs of that kind do not count the event.
fn check_kind(config: &EventConfig, cpu: CpuId) -> Result {
    if config.counts_on(percpu::of_cpu(cpu).core_kind()) {
        Ok(())
    } else {
        Err(ENOENT)
    }
}

/// Chooses the counters for an event, if necessary by moving other events. An event with `takes_turns` shares counters in
/// turns only if no counter can be made free for it. Returns `None` if no counter can count the event.
fn choose_counters(
    ownership: &mut Ownership,
    config: &EventConfig,
    target: &Target,
    own_counters: OwnCounters,
) -> Option<ChosenCounters> {
    let mut offers = ownership.offers(target.place(), config, own_counters);
    let mut chosen_counter = choose_counter(config, &offers);
    if chosen_counter.is_none() {
        let Room { counter, has_moved } = reassign::make_room(ownership, target, config);
        chosen_counter = counter;
        if has_moved && config.takes_turns {
            let own_counters = attach::own_counters(target, config);
            offers = ownership.offers(target.place(), config, own_counters);
        }
    }
    if !config.takes_turns {
        return chosen_counter.map(ChosenCounters::only);
    }
    let counters_for_turns = turn_counters(config, &offers);
    if chosen_counter.is_none() {
        widen_event(ownership, target, counters_for_turns);
    }
    let first = chosen_counter.or_else(|| highest(counters_for_turns))?;
    Some(ChosenCounters {
        first,
        all: first.bit() | counters_for_turns,
    })
}

/// An event that a search of slots has found.
///
/// # Invariants
///
/// The event had a slot while the ownership lock was held, which is still held.
struct FoundEvent(NonNull<Event>);

// SAFETY: `Send` requires that any task may use and drop the value: the pointer is to an event, which any task may use,
// since an `Event` is `Sync`; dropping a pointer does nothing.
unsafe impl Send for FoundEvent {}

/// Finds an event of the target that takes turns, and gives it one more counter, which is free, if a new event can then
/// have one of the counters `wanted`. So events do not wait for turns while one of them could have a free counter.
#[cold]
#[inline(never)]
fn widen_event(ownership: &mut Ownership, target: &Target, wanted: u64) {
    let free_counters = ownership.free_counters();
    if free_counters == 0 {
        return;
    }
    let mut event_and_counter = None;
    with_each_context(target, |_, slots| {
        if let Some((event, counter)) = slots.find_event_to_widen(wanted, free_counters) {
            // INVARIANT: The event has a slot. The caller holds the ownership lock, as `ownership` shows.
            event_and_counter = Some((FoundEvent(NonNull::from(event)), counter));
        }
    });
    let Some((event, counter)) = event_and_counter else {
        return;
    };
    // SAFETY: `as_ref` requires an event that is alive: it had a slot under the ownership lock, as the invariant says, and
    // before an event is freed, and after its slots were removed, that lock is taken to release its counters.
    let event = unsafe { event.0.as_ref() };
    let place = event.target.place();
    if ownership
        .share_counters(place, counter.bit(), &event.config)
        .is_ok()
    {
        ownership.copy_claimant(event.counter(), counter);
        event.add_counter_in_turn(counter);
    }
}

/// Releases what [`take_counters`] took: the counters, the extra register, the branch records, and the exclusive use of
/// the counters. Calls `counters` under the ownership lock, for the mask of the counters to release.
pub(super) fn release_resources(
    counters: impl FnOnce() -> u64,
    config: &EventConfig,
    place: EventPlace,
) {
    if !config.takes_counter() {
        return;
    }
    let mut ownership = OWNERSHIP.lock();
    if let Some(extra) = config.extra {
        ownership.remove_register_user(place, extra);
    }
    ownership.unshare_counters(place, counters(), config);
    if config.sampling.branches.is_some() {
        ownership.end_branches();
    }
    if config.exclusive {
        ownership.end_exclusive(place.kind);
    }
}

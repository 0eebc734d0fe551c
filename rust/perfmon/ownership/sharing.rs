// SPDX-License-Identifier: GPL-2.0-only
//! The counters that events own and share ([`crate::logic::sharing`]).

use super::{claimant::Claimant, owner::Owner, ownership::Ownership};
use crate::{
    logic::{
        admission::{AvailableCounters, OwnCounters},
        core_kinds::Encodings,
        counter::{each_counter, mask_of, CounterId},
        event_config::EventConfig,
        sharing::{CounterUsers, CpuSampling, Demand, TargetKind},
    },
    percpu,
    sys::error::errno,
};
use kernel::{bindings, cpu::CpuId, prelude::*};

/// The place where an event counts.
#[derive(Clone, Copy)]
pub(crate) struct EventPlace {
    /// The kind of the event's target.
    pub(crate) kind: TargetKind,
    /// The CPU, if the event is of a CPU, or of a cgroup on one CPU.
    pub(crate) cpu: Option<CpuId>,
}

impl EventPlace {
    /// Returns how sampled events use a counter on the place's CPU; `None` if the place is not one CPU.
    fn sampling_on(self, id: CounterId) -> Option<CpuSampling> {
        let percpu = percpu::of_cpu(self.cpu?);
        Some(CpuSampling {
            is_sampled: percpu.cpu_sampled_counters.get() & id.bit() != 0,
            needs_own_counter: percpu.cpu_unshared_counters.get() & id.bit() != 0,
        })
    }

    /// Notes whether a sampled event with this demand has a counter on the place's CPU. Does nothing if the event is
    /// not sampled, or the place is not one CPU.
    fn set_sampling_on(self, id: CounterId, demand: Demand, has_counter: bool) {
        let Some(cpu) = self.cpu.filter(|_| demand.is_sampled) else {
            return;
        };
        let percpu = percpu::of_cpu(cpu);
        let bit_if = |is_set| if is_set { id.bit() } else { 0 };
        let is_unshared = has_counter && demand.needs_own_counter;
        percpu
            .cpu_sampled_counters
            .set_masked(id.bit(), bit_if(has_counter));
        percpu
            .cpu_unshared_counters
            .set_masked(id.bit(), bit_if(is_unshared));
    }
}

impl Ownership {
    /// Returns the users of a counter that events own.
    fn event_users(&self, id: CounterId) -> Option<&CounterUsers> {
        match &self.owners[id.index()] {
            Some(Owner::Events(users)) => Some(users),
            Some(Owner::Session(_) | Owner::Trace) | None => None,
        }
    }

    /// Returns the number of events that have a counter.
    pub(crate) fn event_count(&self, id: CounterId) -> usize {
        self.event_users(id)
            .map_or(0, |users| users.count() as usize)
    }

    /// Returns the counters that events own, each with the event select to program at first on each kind of core.
    pub(crate) fn event_counters(&self) -> impl Iterator<Item = (CounterId, Encodings)> + '_ {
        each_counter(u64::MAX).filter_map(|id| Some((id, self.event_users(id)?.encodings())))
    }

    /// Returns the counters that events own and for which `f` is true, as a mask.
    fn counters_where(&self, f: impl Fn(CounterId, &CounterUsers) -> bool) -> u64 {
        mask_of(
            each_counter(u64::MAX)
                .filter(|&id| self.event_users(id).is_some_and(|users| f(id, users))),
        )
    }

    /// Returns the counters that events of tasks own, as a mask.
    pub(crate) fn counters_of_tasks(&self) -> u64 {
        self.counters_where(|_, users| users.has(TargetKind::Task))
    }

    /// Returns the counters whose events [may count at once](CounterUsers::may_overlap), as a mask.
    pub(crate) fn overlapping_counters(&self) -> u64 {
        self.counters_where(|_, users| users.may_overlap())
    }

    /// Returns the counters that one more event at `place` may get. `own` are the counters of its target's present events.
    pub(crate) fn offers(
        &self,
        place: EventPlace,
        config: &EventConfig,
        own: OwnCounters,
    ) -> AvailableCounters {
        let admits = |id, users: &CounterUsers| {
            users.can_admit(place.kind, config.demand_on(id), place.sampling_on(id))
        };
        let is_same = |id, users: &CounterUsers| users.all_have(config.encodings_on(id));
        AvailableCounters {
            free: self.free_counters(),
            shareable: self.counters_where(admits),
            same_select: self.counters_where(|id, users| admits(id, users) && is_same(id, users)),
            own,
        }
    }

    /// Returns whether one more event at `place` may share a counter with the events of other
    /// targets that own it. Also returns true if no events own the counter.
    pub(crate) fn can_admit(&self, place: EventPlace, config: &EventConfig, id: CounterId) -> bool {
        self.event_users(id).is_none_or(|users| {
            users.can_admit(place.kind, config.demand_on(id), place.sampling_on(id))
        })
    }

    /// Returns whether one more event may share a counter with the events that own it, whatever the
    /// event's target is. Returns false if no events own the counter.
    pub(crate) fn admits_anywhere(&self, config: &EventConfig, id: CounterId) -> bool {
        let users = self.event_users(id);
        users.is_some_and(|users| users.can_admit_anywhere(config.demand_on(id)))
    }

    /// Checks that an event can count on a CPU.
    ///
    /// # Errors
    ///
    /// ENODEV if the CPU is offline, EOPNOTSUPP if it is online but can't be used for counting.
    pub(crate) fn check_cpu(&self, cpu: CpuId) -> Result {
        if self.cpus.incapable().contains(cpu) {
            Err(errno(bindings::EOPNOTSUPP))
        } else if self.cpus.is_counted(cpu) {
            Ok(())
        } else {
            Err(ENODEV)
        }
    }

    /// Gives an event a counter that has no owner, or whose events [admit](CounterUsers::can_admit) the event. A counter
    /// without an owner is started on all CPUs that have it. The CPUs must be claimed.
    ///
    /// # Errors
    ///
    /// EIO if the counter does not hold the value that is written to it. Then the event has not got
    /// the counter.
    fn share_counter(&mut self, place: EventPlace, id: CounterId, demand: Demand) -> Result {
        if let Some(Owner::Events(users)) = &mut self.owners[id.index()] {
            let kinds_before = users.kinds();
            users.add(place.kind, demand);
            place.set_sampling_on(id, demand, true);
            if users.kinds() != kinds_before {
                self.publish_target_kinds(id);
            }
            return Ok(());
        }
        self.on_each(|here| {
            // An event of one kind of core may have a counter that this CPU lacks.
            if here.pmu().counters_on(here) & id.bit() == 0 {
                return;
            }
            let select = demand.encodings.select_or_empty(here.percpu().core_kind());
            let select = select.without_extra_register();
            here.pmu().program(here, id, select);
            here.pmu().start(here, id);
        });
        for percpu in self.uncounted_percpus() {
            percpu.tampered.remove(id.bit());
        }
        self.claimants[id.index()] = Some(Claimant::current());
        self.owners[id.index()] = Some(Owner::Events(CounterUsers::new(place.kind, demand)));
        place.set_sampling_on(id, demand, true);
        self.publish_target_kinds(id);
        if self.are_untampered(id.bit()) {
            Ok(())
        } else {
            self.unshare_counter(place, id, demand);
            Err(EIO)
        }
    }

    /// Gives an event all these counters, each by [`Self::share_counter`].
    ///
    /// # Errors
    ///
    /// EIO if a counter does not hold the value that is written to it. Then the event has got no
    /// counter.
    // Not inlined, so that the frames of this function and of `offers` are not on the stack at the same time.
    #[inline(never)]
    pub(crate) fn share_counters(
        &mut self,
        place: EventPlace,
        counters: u64,
        config: &EventConfig,
    ) -> Result {
        let mut shared_counters = 0;
        for id in each_counter(counters) {
            if let Err(error) = self.share_counter(place, id, config.demand_on(id)) {
                self.unshare_counters(place, shared_counters, config);
                return Err(error);
            }
            shared_counters |= id.bit();
        }
        Ok(())
    }

    /// Copies the claimant of counter `from` to counter `to`, which an event of `from` has just
    /// been given. So `PERFMON_GET_OWNER` reports that claimant for `to`, and not the program whose
    /// event needs the room.
    pub(crate) fn copy_claimant(&mut self, from: CounterId, to: CounterId) {
        let claimant = self.claimants[from.index()].as_ref().map(Claimant::another);
        self.claimants[to.index()] = claimant;
    }

    /// Takes these counters from an event, each by [`Self::unshare_counter`].
    pub(crate) fn unshare_counters(
        &mut self,
        place: EventPlace,
        counters: u64,
        config: &EventConfig,
    ) {
        for id in each_counter(counters) {
            self.unshare_counter(place, id, config.demand_on(id));
        }
    }

    /// Takes a counter from an event. If this was the counter's last event, restores the counter's registers and leaves
    /// the counter without an owner.
    fn unshare_counter(&mut self, place: EventPlace, id: CounterId, demand: Demand) {
        let Some(Owner::Events(users)) = &mut self.owners[id.index()] else {
            return;
        };
        let kinds_before = users.kinds();
        users.remove(place.kind, demand);
        place.set_sampling_on(id, demand, false);
        if users.count() != 0 {
            if users.kinds() != kinds_before {
                self.publish_target_kinds(id);
            }
            return;
        }
        self.on_each(|here| {
            here.percpu().task_counters.remove(id.bit());
            here.percpu().overlapping_counters.remove(id.bit());
            here.pmu().restore(here, id.bit());
        });
        self.release_counters(id.bit());
    }

    /// Stores on all CPUs whether the counter has events of tasks, and whether it has events that may count at once.
    fn publish_target_kinds(&self, id: CounterId) {
        let (task_counters, overlapping_counters) =
            (self.counters_of_tasks(), self.overlapping_counters());
        self.on_each(|here| {
            let percpu = here.percpu();
            percpu.task_counters.set_masked(id.bit(), task_counters);
            percpu
                .overlapping_counters
                .set_masked(id.bit(), overlapping_counters);
        });
    }

    /// Makes an exclusive group the only user of the counters while it counts, until [`Self::end_exclusive`]. Groups
    /// of the same kind, tasks or CPUs, are allowed, since they count at other times or on other CPUs.
    ///
    /// # Errors
    ///
    /// EBUSY if a session, a trace, or events of another kind own a counter.
    pub(crate) fn begin_exclusive(&mut self, kind: TargetKind) -> Result {
        let are_same_kind = self.owners.iter().flatten().all(|owner| match owner {
            Owner::Session(_) | Owner::Trace => false,
            Owner::Events(users) => users.are_all_of_kind(kind),
        });
        if !are_same_kind {
            return Err(EBUSY);
        }
        self.exclusive_groups[kind as usize] += 1;
        Ok(())
    }

    /// Undoes [`Self::begin_exclusive`].
    pub(crate) fn end_exclusive(&mut self, kind: TargetKind) {
        self.exclusive_groups[kind as usize] -= 1;
    }

    /// Checks that no exclusive group of another kind excludes a new user of counters: events of the kind `events`, or a
    /// session or a trace if `events` is `None`.
    ///
    /// # Errors
    ///
    /// EBUSY if there is such a group.
    pub(crate) fn check_exclusive(&self, events: Option<TargetKind>) -> Result {
        let [tasks, cpus] = self.exclusive_groups;
        let excluding_groups = match events {
            None | Some(TargetKind::Cgroup) => tasks + cpus,
            Some(TargetKind::Task) => cpus,
            Some(TargetKind::Cpu) => tasks,
        };
        if excluding_groups == 0 {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }
}

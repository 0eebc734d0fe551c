// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The rules by which events share a counter.
//!
//! A counter runs all the time, and each event that has it reads its total where a window of the event begins and ends.
//! So any number of events with the same event select share one counter, whatever their targets are. A sampled event
//! makes the counter overflow when its next sample is due, so a counter has one sampled event at a time. Sampling stops
//! the counter for moments in the kernel, so a sampled event that counts the kernel shares the counter with no other
//! event. A precise event does not share its counter either, since the processor reloads the counter with each sample.
//! Both rules hold for each CPU on its own: sampled events of different CPUs, and of cgroups on different CPUs, share a
//! counter.
//!
//! On a hybrid processor, two events never count on the same CPU if no kind of core counts both of them. Such events share a
//! counter even if they have the same target.
//!
//! Events with different event selects may share a counter if they never count at the same time on the same CPU: events
//! of different tasks, and events of different CPUs. Events of different cgroups may count at the same time, since a
//! cgroup may be in another cgroup.

use super::core_kinds::Encodings;

/// The kind of an event's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A task, and the tasks that it creates.
    Task,
    /// A CPU.
    Cpu,
    /// A cgroup: its tasks, and the tasks of the cgroups in it.
    Cgroup,
}

/// The use that an event makes of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The event select of the counter, on each kind of core.
    pub encodings: Encodings,
    /// Overflows of the counter become samples.
    pub is_sampled: bool,
    /// No other event that counts at the same time on the same CPU may have the counter.
    pub needs_own_counter: bool,
}

impl TargetKind {
    /// All kinds.
    pub(super) const ALL: [Self; 3] = [Self::Task, Self::Cpu, Self::Cgroup];

    /// Returns whether events of these kinds may count at the same time on the same CPU although their targets differ.
    /// Events of two tasks or of two CPUs don't; events of two cgroups may, since one cgroup may be in the other.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        !matches!(
            (self, other),
            (Self::Task, Self::Task) | (Self::Cpu, Self::Cpu)
        )
    }
}

impl Demand {
    /// Returns whether two events with these demands may have the counter at the same time on the same CPU. If no kind of core
    /// counts both events, they never count on the same CPU.
    #[must_use]
    pub fn agrees(self, other: Self) -> bool {
        let is_excluded = self.needs_own_counter
            || other.needs_own_counter
            || self.is_sampled && other.is_sampled;
        self.encodings.agree(&other.encodings)
            && !(is_excluded && self.encodings.have_common_kind(&other.encodings))
    }
}

/// The sampled event that uses a given counter on a CPU, if there is one: an event of the CPU or of a cgroup there.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuSampling {
    /// A sampled event has the counter.
    pub is_sampled: bool,
    /// The event needs a counter of its own.
    pub needs_own_counter: bool,
}

/// The events of one [`TargetKind`] that have a counter.
#[derive(Clone, Copy, Debug, Default)]
struct KindCounts {
    /// The number of events of this kind.
    all_events: u32,
    /// The number of sampled events of this kind.
    sampled_events: u32,
    /// The number of events of this kind that need a counter of their own.
    unshared_events: u32,
}

impl KindCounts {
    /// Adds one event.
    fn add_event(&mut self, demand: Demand) {
        self.all_events += 1;
        self.sampled_events += u32::from(demand.is_sampled);
        self.unshared_events += u32::from(demand.needs_own_counter);
    }

    /// Adds the numbers of events of another kind.
    fn add_counts(&mut self, other: Self) {
        self.all_events += other.all_events;
        self.sampled_events += other.sampled_events;
        self.unshared_events += other.unshared_events;
    }

    /// Returns the numbers without the sampled events.
    fn without_sampled(self) -> Self {
        Self {
            all_events: self.all_events - self.sampled_events,
            ..Self::default()
        }
    }
}

impl From<CpuSampling> for KindCounts {
    fn from(sampling: CpuSampling) -> Self {
        Self {
            all_events: sampling.is_sampled.into(),
            sampled_events: sampling.is_sampled.into(),
            unshared_events: sampling.needs_own_counter.into(),
        }
    }
}

/// The number of different values that [`ValueCounts`] keeps. There are seldom more.
const MAX_VALUES: usize = 4;

/// The values of events, such as the encodings of the events that have a counter, and the number of events with each value.
/// Values differ only if the events never count at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueCounts<T> {
    /// Values, each with the number of its events.
    counted: [(T, u32); MAX_VALUES],
    /// The number of events whose values found no room.
    uncounted: u32,
}

impl<T: Copy + PartialEq> ValueCounts<T> {
    /// Returns the counts of one event, which has this value.
    pub(super) const fn new(value: T) -> Self {
        let mut counted = [(value, 0); MAX_VALUES];
        counted[0].1 = 1;
        Self {
            counted,
            uncounted: 0,
        }
    }

    /// Adds an event.
    pub(super) fn add(&mut self, value: T) {
        let counted = &mut self.counted;
        let same = counted
            .iter()
            .position(|(other, count)| *count != 0 && *other == value);
        let place = same.or_else(|| counted.iter().position(|(_, count)| *count == 0));
        match place.and_then(|index| counted.get_mut(index)) {
            Some(place) => *place = (value, place.1 + 1),
            None => self.uncounted += 1,
        }
    }

    /// Removes an event.
    pub(super) fn remove(&mut self, value: T) {
        let is_same = |&&mut (other, count): &&mut (T, u32)| count != 0 && other == value;
        match self.counted.iter_mut().find(is_same) {
            Some((_, count)) => *count -= 1,
            None => self.uncounted -= 1,
        }
    }

    /// Returns the values that have a place in `counted`. The events in `uncounted` may have other values.
    fn kept_values(&self) -> impl Iterator<Item = T> + '_ {
        let counted = self.counted.iter().filter(|(_, count)| *count != 0);
        counted.map(|(value, _)| *value)
    }

    /// Returns whether all events have this value. Returns false if some values are not kept.
    pub(super) fn are_all_equal(&self, value: T) -> bool {
        self.are_all(|other| other == value)
    }

    /// Returns whether `f` is true for the values of all events. Returns false if some values are
    /// not kept.
    fn are_all(&self, f: impl Fn(T) -> bool) -> bool {
        self.uncounted == 0 && self.kept_values().all(f)
    }
}

/// The events that have a counter: at least one event.
#[derive(Clone, Copy, Debug)]
pub struct CounterUsers {
    /// The numbers of events, by [`TargetKind`].
    kinds: [KindCounts; 3],
    encodings: ValueCounts<Encodings>,
}

impl CounterUsers {
    /// Returns the users of a counter that has one event.
    #[must_use]
    pub fn new(kind: TargetKind, demand: Demand) -> Self {
        let mut new = Self {
            kinds: [KindCounts::default(); 3],
            encodings: ValueCounts::new(demand.encodings),
        };
        new.counts_of_mut(kind).add_event(demand);
        new
    }

    const fn counts_of(&self, kind: TargetKind) -> &KindCounts {
        &self.kinds[kind as usize]
    }

    const fn counts_of_mut(&mut self, kind: TargetKind) -> &mut KindCounts {
        &mut self.kinds[kind as usize]
    }

    /// Adds an event. [`Self::can_admit`] must have returned true for the event.
    pub fn add(&mut self, kind: TargetKind, demand: Demand) {
        self.counts_of_mut(kind).add_event(demand);
        self.encodings.add(demand.encodings);
    }

    /// Removes an event.
    pub fn remove(&mut self, kind: TargetKind, demand: Demand) {
        let counts = self.counts_of_mut(kind);
        counts.all_events -= 1;
        counts.sampled_events -= u32::from(demand.is_sampled);
        counts.unshared_events -= u32::from(demand.needs_own_counter);
        self.encodings.remove(demand.encodings);
    }

    /// Returns the number of events.
    #[must_use]
    pub const fn count(&self) -> u32 {
        let [tasks, cpus, cgroups] = &self.kinds;
        tasks.all_events + cpus.all_events + cgroups.all_events
    }

    /// Returns whether there are events of this kind.
    #[must_use]
    pub const fn has(&self, kind: TargetKind) -> bool {
        self.counts_of(kind).all_events != 0
    }

    /// Returns for each kind, in the order of [`TargetKind`], whether there are events of this kind.
    #[must_use]
    pub fn kinds(&self) -> [bool; 3] {
        self.kinds.map(|counts| counts.all_events != 0)
    }

    /// Returns whether all events are of this kind.
    #[must_use]
    pub const fn are_all_of_kind(&self, kind: TargetKind) -> bool {
        self.counts_of(kind).all_events == self.count()
    }

    /// Returns whether events with different targets may count at the same time on the same CPU. If so, all have the
    /// same event select on each kind of core that counts them.
    #[must_use]
    pub const fn may_overlap(&self) -> bool {
        !self.are_all_of_kind(TargetKind::Task) && !self.are_all_of_kind(TargetKind::Cpu)
    }

    /// Returns the event select of one of the events, on each kind of core.
    #[must_use]
    pub fn encodings(&self) -> Encodings {
        let [(first, _), ..] = self.encodings.counted;
        self.encodings.kept_values().next().unwrap_or(first)
    }

    /// Returns whether all events have this event select, on each kind of core.
    #[must_use]
    pub fn all_have(&self, encodings: Encodings) -> bool {
        self.encodings.are_all_equal(encodings)
    }

    /// Returns whether one more event may share the counter, whatever the targets of the events
    /// are: all events have the same event select, and none excludes the others.
    #[must_use]
    pub fn can_admit_anywhere(&self, demand: Demand) -> bool {
        let mut all = KindCounts::default();
        for counts in self.kinds {
            all.add_counts(counts);
        }
        let is_excluded = demand.needs_own_counter
            || all.unshared_events != 0
            || demand.is_sampled && all.sampled_events != 0;
        self.all_have(demand.encodings) && !is_excluded
    }

    /// Returns whether one more event may have the counter together with the events of other tasks
    /// and CPUs. The caller checks that the event [agrees](Demand::agrees) with the events of its
    /// own task or CPU. For an event of a CPU, or of a cgroup on one CPU, `on_cpu` describes the
    /// sampled event of that CPU. `on_cpu` is `None` for other events, which are assumed to count
    /// on all CPUs.
    #[must_use]
    pub fn can_admit(&self, kind: TargetKind, demand: Demand, on_cpu: Option<CpuSampling>) -> bool {
        // The other events that may count at the same time, and among these the events that may do
        // so on the same CPU.
        let (mut overlapping, mut simultaneous) = (KindCounts::default(), KindCounts::default());
        for other in TargetKind::ALL {
            if kind.overlaps(other) {
                let counts = *self.counts_of(other);
                overlapping.add_counts(counts);
                simultaneous.add_counts(if on_cpu.is_some() && other != TargetKind::Task {
                    counts.without_sampled()
                } else {
                    counts
                });
            }
        }
        simultaneous.add_counts(on_cpu.unwrap_or_default().into());
        let is_excluded = demand.needs_own_counter && simultaneous.all_events != 0
            || demand.is_sampled && simultaneous.sampled_events != 0
            || simultaneous.unshared_events != 0;
        // Without overlap all other events are of the same kind, and count at other times or on other CPUs.
        let agrees = |other: Encodings| other.agree(&demand.encodings);
        let select_fits = overlapping.all_events == 0 || self.encodings.are_all(agrees);
        select_fits && !is_excluded
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_sharing))]
mod tests {
    use super::super::core_kinds::CoreKind;
    use super::super::evtsel::EventSelect;
    use super::*;

    const MAX_EVENTS: usize = 12;
    /// The number of targets of each kind.
    const TARGETS_PER_KIND: u8 = 2;

    /// The number of CPUs.
    const CPUS: u8 = TARGETS_PER_KIND;

    /// An event of the model: its target, its only CPU if it is of a CPU or of a cgroup on one CPU, and its demand.
    #[derive(Clone, Copy)]
    struct Event {
        kind: TargetKind,
        target: u8,
        cpu: Option<u8>,
        demand: Demand,
    }

    impl Event {
        fn random(bits: u64) -> Self {
            let number = 0xc0 + (bits >> 8 & 1) as u16;
            let kind = match bits & 7 {
                0 | 1 => TargetKind::Cgroup,
                2..5 => TargetKind::Cpu,
                _ => TargetKind::Task,
            };
            let target = (bits >> 16) as u8 % TARGETS_PER_KIND;
            let select = EventSelect::new(number, 0).with_modes(true, bits >> 24 & 3 == 0);
            let mut encodings = Encodings::same(select);
            if bits >> 40 & 7 == 0 {
                // An event that only one kind of core counts.
                encodings = Encodings::NONE;
                encodings.set(CoreKind::FIRST, select);
            }
            let demand = Demand {
                encodings,
                is_sampled: bits >> 32 & 3 == 0,
                needs_own_counter: bits >> 32 & 15 == 0,
            };
            let some_cpu = (bits >> 48) as u8 % CPUS;
            Self {
                kind,
                target,
                cpu: match kind {
                    TargetKind::Task => None,
                    TargetKind::Cpu => Some(target),
                    // A sampled event of a cgroup is always restricted to a CPU.
                    TargetKind::Cgroup => {
                        (demand.is_sampled || bits >> 56 & 1 == 0).then_some(some_cpu)
                    }
                },
                demand,
            }
        }

        /// Returns whether both events may count at the same time. Events of a task and of a CPU may, since the task may
        /// run on that CPU; those of two cgroups may, since one cgroup may contain the other.
        fn overlaps(&self, other: &Self) -> bool {
            self.kind != other.kind
                || self.target == other.target
                || self.kind == TargetKind::Cgroup
        }

        /// Returns whether this is a sampled event of another CPU than `new`.
        fn is_sampled_elsewhere(&self, new: &Self) -> bool {
            let differ = self.cpu.zip(new.cpu).is_some_and(|(cpu, new)| cpu != new);
            self.demand.is_sampled && differ
        }

        /// Returns whether the counter of this event can also count `new`.
        fn fits(&self, new: &Self) -> bool {
            !self.overlaps(new)
                || self.demand.agrees(new.demand)
                || self.demand.encodings.agree(&new.demand.encodings)
                    && self.is_sampled_elsewhere(new)
        }
    }

    /// Returns whether a CPU, or a cgroup on this CPU, has a sampled event, and whether this event
    /// needs a counter of its own. There must be no more than one such event.
    fn sampling_of(events: &[Option<Event>], cpu: u8) -> CpuSampling {
        let is_sampled_here = |event: &&Event| event.demand.is_sampled && event.cpu == Some(cpu);
        let mut sampled_events = events.iter().flatten().filter(is_sampled_here);
        let needs_own_counter = |event: &Event| event.demand.needs_own_counter;
        let first = sampled_events.next();
        assert!(sampled_events.next().is_none());
        CpuSampling {
            is_sampled: first.is_some(),
            needs_own_counter: first.is_some_and(needs_own_counter),
        }
    }

    /// Returns the next number of a random generator (xorshift).
    fn next_random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    /// Adds and removes events at random, and compares `can_admit` with a check of each pair of events.
    #[test]
    fn can_admit_agrees_with_a_check_of_each_pair() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut events: [Option<Event>; MAX_EVENTS] = [None; MAX_EVENTS];
        let mut users: Option<CounterUsers> = None;
        let (mut admission_count, mut refusal_count) = (0, 0);
        for _ in 0..20_000 {
            let bits = next_random(&mut state);
            let slot = &mut events[(bits >> 40) as usize % MAX_EVENTS];
            if let (Some(event), Some(some)) = (slot.take(), &mut users) {
                some.remove(event.kind, event.demand);
                if some.count() == 0 {
                    users = None;
                }
                continue;
            }
            let new = Event::random(bits);
            let fits = events.iter().flatten().all(|event| event.fits(&new));
            // The caller of `can_admit` checks the events of its own task or CPU.
            let has_same_target = |event: &&Event| {
                event.kind == new.kind && event.target == new.target && event.cpu == new.cpu
            };
            let agrees = events
                .iter()
                .flatten()
                .filter(has_same_target)
                .all(|event| event.demand.agrees(new.demand));
            let on_cpu = new.cpu.map(|cpu| sampling_of(&events, cpu));
            let admits = users.is_none_or(|users| users.can_admit(new.kind, new.demand, on_cpu));
            assert_eq!(fits, agrees && admits);
            if !(agrees && admits) {
                refusal_count += 1;
                continue;
            }
            admission_count += 1;
            match &mut users {
                Some(users) => users.add(new.kind, new.demand),
                None => users = Some(CounterUsers::new(new.kind, new.demand)),
            }
            events[(bits >> 40) as usize % MAX_EVENTS] = Some(new);
        }
        assert!(admission_count > 1000 && refusal_count > 1000);
    }

    #[test]
    fn events_of_different_kinds_of_cores_agree() {
        let [mut big, mut small] = [Encodings::NONE; 2];
        big.set(CoreKind::FIRST, EventSelect::new(0xc4, 0));
        let second = CoreKind::new(1).unwrap_or(CoreKind::FIRST);
        small.set(second, EventSelect::new(0xc5, 0));
        let demand = |encodings| Demand {
            encodings,
            is_sampled: true,
            needs_own_counter: true,
        };
        assert!(demand(big).agrees(demand(small)) && demand(small).agrees(demand(big)));
        assert!(!demand(big).agrees(demand(big)));
        let both = Demand {
            is_sampled: false,
            needs_own_counter: false,
            ..demand(Encodings::same(EventSelect::new(0xc4, 0)))
        };
        let counting = |encodings| Demand { encodings, ..both };
        assert!(both.agrees(counting(big)) && !both.agrees(counting(small)));
        assert!(!both.agrees(demand(big)));
        // The events of a task and of a CPU may count at once, wherever a kind counts both.
        let mut users = CounterUsers::new(TargetKind::Task, counting(big));
        assert!(users.can_admit(TargetKind::Cpu, counting(small), None));
        assert!(users.can_admit(TargetKind::Cpu, both, None));
        users.add(TargetKind::Task, counting(small));
        assert!(!users.can_admit(TargetKind::Cpu, both, None));
        assert!(!users.can_admit_anywhere(counting(big)));
    }

    #[test]
    fn any_number_of_equal_events_share() {
        let demand = Demand {
            encodings: Encodings::same(EventSelect::new(0xc0, 0).with_modes(true, true)),
            is_sampled: false,
            needs_own_counter: false,
        };
        let mut users = CounterUsers::new(TargetKind::Task, demand);
        for _ in 0..100 {
            assert!(users.can_admit(TargetKind::Cpu, demand, None));
            users.add(TargetKind::Cpu, demand);
            assert!(users.can_admit(TargetKind::Task, demand, None));
            users.add(TargetKind::Task, demand);
        }
        assert_eq!(users.count(), 201);
        assert!(users.may_overlap());
        assert!(users.can_admit(TargetKind::Cgroup, demand, None));
        let other_demand = Demand {
            encodings: Encodings::same(EventSelect::new(0xc4, 0).with_modes(true, true)),
            ..demand
        };
        assert!(!users.can_admit(TargetKind::Task, other_demand, None));
        assert!(!users.can_admit(TargetKind::Cgroup, other_demand, None));
    }

    #[test]
    fn sampled_events_of_cgroups_share_a_counter_if_their_cpus_differ() {
        let demand = Demand {
            encodings: Encodings::same(EventSelect::new(0xc0, 0).with_modes(true, true)),
            is_sampled: true,
            needs_own_counter: true,
        };
        let (elsewhere, here) = (
            Some(CpuSampling::default()),
            Some(CpuSampling {
                is_sampled: true,
                needs_own_counter: true,
            }),
        );
        let mut users = CounterUsers::new(TargetKind::Cgroup, demand);
        for _ in 0..100 {
            assert!(users.can_admit(TargetKind::Cgroup, demand, elsewhere));
            users.add(TargetKind::Cgroup, demand);
        }
        assert!(!users.can_admit(TargetKind::Cgroup, demand, here));
        let unsampled = Demand {
            is_sampled: false,
            needs_own_counter: false,
            ..demand
        };
        // An event of a cgroup on all CPUs would count where another event is sampled.
        assert!(users.can_admit(TargetKind::Cgroup, unsampled, elsewhere));
        assert!(!users.can_admit(TargetKind::Cgroup, unsampled, None));
        assert!(!users.can_admit(TargetKind::Task, unsampled, None));
    }
}

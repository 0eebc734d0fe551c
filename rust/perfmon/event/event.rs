// SPDX-License-Identifier: GPL-2.0-only
//! An event: what is counted, and the sum.
//!
//! A task that inherits an event has a slot of it in its context, and no event of its own: all windows add to the one
//! sum. Memory and locks are such that a context switch and the end of a task may add to it.

use super::{members::Group, memory::MappedMemory, rcu, target::Target};
use crate::{
    cpu::Cycles,
    logic::{counter::CounterId, event_config::EventConfig, evtsel::EventSelect},
    ring::{EventState, Sampler},
};
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use kernel::{prelude::*, sync::Arc};

/// The counters of a new event.
#[derive(Clone, Copy)]
pub(super) struct ChosenCounters {
    /// The one that it begins with.
    pub(super) first: CounterId,
    /// All that it may have, as a mask.
    pub(super) all: u64,
}

/// An event, owned by its descriptor.
///
/// # Invariants
///
/// A context has slots only of events that are not freed: an event is freed by RCU after all its slots have been
/// removed.
#[pin_data]
pub(super) struct Event {
    pub(super) config: EventConfig,
    /// The event select of [`Self::counter`], with the modes.
    pub(super) select: EventSelect,
    pub(super) id: u64,
    /// The counter that the event gets first, and keeps unless it takes turns.
    pub(super) counter: CounterId,
    /// The counters that it may have, as a mask: only [`Self::counter`], unless it takes turns.
    pub(super) counters: u64,
    pub(super) target: Target,
    /// The number of the task in the opener's PID namespace, also when it has ended; -1 for all.
    pub(super) pid: i32,
    /// [`BROKEN`], [`PRECISE`] and [`TURNS`]: 0 for the usual event.
    ///
    /// ATOMICS: relaxed. No bit becomes 0 again.
    slow_read_flags: AtomicU32,
    /// The number of tasks that executed a program which the event must not count.
    ///
    /// ATOMICS: relaxed. It is shown only.
    tasks_left_at_exec: AtomicU32,
    /// The sum of all windows that are closed.
    ///
    /// ATOMICS: relaxed additions by any CPU. A reader makes the CPUs close their windows before, by a call.
    total: AtomicU64,
    /// The total at the last reset.
    ///
    /// ATOMICS: stored with release, and loaded with acquire order before `total`: so it is never more than that.
    base: AtomicU64,
    /// The time of all windows that are closed, in cycles of the time-stamp counter.
    ///
    /// ATOMICS: as `total`.
    cycles: AtomicU64,
    /// The time in which it was enabled and waited for its turn, as in `cycles`.
    ///
    /// ATOMICS: as `total`.
    waited: AtomicU64,
    /// The number of slots.
    ///
    /// ATOMICS: sequentially consistent; the end of the last one wakes pollers.
    slots: AtomicU32,
    /// The group that it leads, alone or with others.
    pub(super) own_group: Arc<Group<Event>>,
    /// The group that it was opened in, as long as that has a leader.
    pub(super) joined_group: Option<Arc<Group<Event>>>,
    /// The page and the ring that programs map.
    #[pin]
    pub(super) mapped: MappedMemory,
    /// The samples and other records of the event.
    pub(super) sampler: Sampler,
    rcu: rcu::Head,
}

/// [`Event::slow_read_flags`]: events were missed.
const BROKEN: u32 = 1;
/// [`Event::slow_read_flags`]: the processor takes the samples.
const PRECISE: u32 = 2;
/// [`Event::slow_read_flags`]: it takes turns.
const TURNS: u32 = 4;

/// Returns [`Event::slow_read_flags`] of a new event.
fn slow_read_flags(config: &EventConfig) -> u32 {
    let precise = if config.sampling.precise { PRECISE } else { 0 };
    let turns = if config.takes_turns { TURNS } else { 0 };
    precise | turns
}

// SAFETY: All fields may be used by any task, under the locks that they name.
unsafe impl Send for Event {}
// SAFETY: All fields may be used by any task, under the locks that they name.
unsafe impl Sync for Event {}

// SAFETY: The head is used by `rcu::free` only.
unsafe impl rcu::HasHead for Event {
    const OFFSET: usize = core::mem::offset_of!(Self, rcu);
}

impl Event {
    /// Returns a new event without slots, which is disabled. `on_last_sample` is called on the CPU where its last sample has
    /// disabled it, with interrupts off.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn new(
        config: EventConfig,
        ChosenCounters { first, all }: ChosenCounters,
        target: Target,
        joined_group: Option<Arc<Group<Event>>>,
        id: u64,
        on_last_sample: unsafe extern "C" fn(),
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            select: config.select_on(first),
            config,
            id,
            counter: first,
            counters: all,
            target,
            slow_read_flags: AtomicU32::new(slow_read_flags(config)),
            tasks_left_at_exec: AtomicU32::new(0),
            total: AtomicU64::new(0),
            base: AtomicU64::new(0),
            cycles: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            slots: AtomicU32::new(0),
            own_group: Group::new()?,
            joined_group,
            mapped <- MappedMemory::new(),
            sampler: Sampler::new(*id, config, on_last_sample)?,
            pid: match &target {
                Target::Task(task, _) => (sampler.ids(task.as_ptr()) >> 32) as i32,
                Target::Cpu(_) | Target::Cgroup(..) => -1,
            },
            rcu: rcu::Head::new(),
        }? Error)
    }

    /// Returns whether the branches of samples are calls that have not returned.
    pub(super) fn records_calls(&self) -> bool {
        self.sampler.sampling.has_recorded_calls()
    }

    /// Returns the state.
    #[inline(always)]
    pub(super) fn state(&self) -> &EventState {
        &self.sampler.state
    }

    /// Enables or disables the event for all tasks. The caller makes the CPUs look at it.
    #[inline]
    pub(super) fn set_enabled(&self, enabled: bool) {
        self.state().set_enabled(enabled);
        if enabled && self.sampler.is_sampled() {
            // Behind it: the last sample may come between.
            self.sampler.notifier.lift_spent_limit();
        }
    }

    /// Adds what a window has counted.
    #[inline(always)]
    pub(super) fn add(&self, count: u64, cycles: u64) {
        self.total.fetch_add(count, Relaxed);
        self.cycles.fetch_add(cycles, Relaxed);
    }

    /// Adds the time of a wait.
    pub(super) fn add_wait(&self, cycles: u64) {
        self.waited.fetch_add(cycles, Relaxed);
    }

    /// Marks that events were missed, so that there is no count any more.
    #[cold]
    pub(super) fn mark_broken(&self) {
        self.slow_read_flags.fetch_or(BROKEN, Relaxed);
    }

    /// Makes the count 0.
    pub(super) fn reset(&self) {
        self.base.store(self.total.load(Relaxed), Release);
    }

    /// Returns the count of all windows that are closed.
    #[inline(always)]
    pub(super) fn count(&self) -> u64 {
        let base = self.base.load(Acquire);
        self.total.load(Relaxed).wrapping_sub(base)
    }

    /// Returns the time of all windows that are closed.
    pub(super) fn time(&self) -> Cycles {
        Cycles(self.cycles.load(Relaxed))
    }

    /// Returns the time of all windows that are closed, and of all waits that have ended.
    pub(super) fn enabled_time(&self) -> Cycles {
        self.time().plus(Cycles(self.waited.load(Relaxed)))
    }

    /// Returns whether events were missed, so that there is no count.
    #[inline(always)]
    pub(super) fn is_broken(&self) -> bool {
        self.slow_read_flags.load(Relaxed) & BROKEN != 0
    }

    /// Returns whether the count can't be read as usual: it is [broken](Self::is_broken), the processor loads the counter,
    /// or the event takes turns.
    #[inline(always)]
    pub(super) fn needs_slow_read(&self) -> bool {
        self.slow_read_flags.load(Relaxed) != 0
    }

    /// Counts a task that executes a program which the event must not count.
    pub(super) fn leave_task(&self) {
        self.tasks_left_at_exec.fetch_add(1, Relaxed);
    }

    /// Returns how many tasks it has left.
    pub(super) fn tasks_left_at_exec(&self) -> u32 {
        self.tasks_left_at_exec.load(Relaxed)
    }

    /// Counts a new slot.
    pub(super) fn begin_slot(&self) {
        self.slots.fetch_add(1, SeqCst);
    }

    /// Uncounts a slot. With the last one the event is over, and pollers are woken.
    pub(super) fn end_slot(&self) {
        if self.slots.fetch_sub(1, SeqCst) == 1 && !self.state().is_closed() {
            self.sampler.notifier.wait.hang_up();
        }
    }

    /// Returns whether no task is left that the event counts.
    pub(super) fn has_ended(&self) -> bool {
        self.slots.load(SeqCst) == 0
    }

    /// Frees the event when no CPU can be using it any more.
    ///
    /// # Safety
    ///
    /// No context has a slot of it, nor gets one any more, and the caller does not use it any more.
    pub(super) unsafe fn free_by_rcu(this: Pin<KBox<Self>>) {
        // SAFETY: The event is not moved any more: its memory is freed by `free`.
        let event = KBox::into_raw(unsafe { Pin::into_inner_unchecked(this) });
        // SAFETY: The caller says that no context has a slot of it, nor gets one any more. It is freed once.
        unsafe { rcu::free(event) };
    }
}

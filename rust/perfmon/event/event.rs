// SPDX-License-Identifier: GPL-2.0-only
//! An event: its configuration, and the sum of what its windows have counted.
//!
//! A task that inherits an event gets a slot in its context, but no event of its own: the windows of all tasks add to one
//! sum. The additions take no lock, so that a context switch and the exit of a task can make them.

use super::{members::Group, memory::MappedMemory, rcu, target::Target};
use crate::{
    cpu::Cycles,
    logic::{
        counter::CounterId, event_config::EventConfig, event_state::EventState, evtsel::EventSelect,
    },
    ring::Sampler,
};
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use kernel::{prelude::*, sync::Arc};

/// The counters that were chosen for a new event.
#[derive(Clone, Copy)]
pub(super) struct ChosenCounters {
    /// The counter that the event begins with.
    pub(super) first: CounterId,
    /// All counters that the event may use, as a mask.
    pub(super) all: u64,
}

impl ChosenCounters {
    /// Returns the choice of one counter.
    pub(super) fn only(counter: CounterId) -> Self {
        Self {
            first: counter,
            all: counter.bit(),
        }
    }
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
    pub(super) id: u64,
    /// The index of the event's counter; of its first counter, if the event takes turns.
    ///
    /// ATOMICS: relaxed. [`super::reassign`] changes it, and then takes and releases the lock of the table of contexts. A
    /// fork that has not seen the change has added the child's context to the table by then.
    counter_index: AtomicU8,
    /// The counters that the event may use if it takes turns, as a mask.
    ///
    /// ATOMICS: relaxed. A counter is added under the ownership lock, after it was taken for the event. A slot that has not
    /// seen the new counter yet does not use it.
    counters_in_turn: AtomicU64,
    pub(super) target: Target,
    /// The TID of the task in the opener's PID namespace, also after the task has ended; -1 if the target is a CPU or
    /// a cgroup.
    pub(super) pid: i32,
    /// The bits [`BROKEN`], [`PRECISE`] and [`WAITS`]; 0 for events that the fast path can read.
    ///
    /// ATOMICS: relaxed. No bit becomes 0 again.
    slow_read_flags: AtomicU32,
    /// The number of tasks that the event stopped counting, because the tasks executed a program
    /// that the event must not count.
    ///
    /// ATOMICS: relaxed. The number is only reported to programs.
    dropped_task_count: AtomicU32,
    /// The sum of all windows that are closed.
    ///
    /// ATOMICS: relaxed additions by any CPU. Before a read, the reader calls the CPUs, which close their windows.
    total: AtomicU64,
    /// The total at the last reset.
    ///
    /// ATOMICS: stored with release order, and loaded with acquire order before `total`, so that a reader never sees a
    /// smaller `total` than this.
    total_at_reset: AtomicU64,
    /// The time of all windows that are closed, in TSC cycles.
    ///
    /// ATOMICS: relaxed additions by any CPU, as for `total`.
    running_cycles: AtomicU64,
    /// The time in which the event was enabled, and waited for its turn or for a CPU that counts it, in TSC cycles.
    ///
    /// ATOMICS: relaxed additions by any CPU, as for `total`.
    waited_cycles: AtomicU64,
    /// The number of slots.
    ///
    /// ATOMICS: sequentially consistent; removing the last slot wakes pollers.
    slot_count: AtomicU32,
    /// The group that this event leads: the event alone, or with members.
    pub(super) own_group: Arc<Group<Event>>,
    /// The group that the event joined as a member, if any. When the leader of that group has been closed, the event
    /// leads [`Self::own_group`].
    pub(super) joined_group: Option<Arc<Group<Event>>>,
    /// The page and the ring of the event, which programs map.
    #[pin]
    pub(super) mapped_memory: MappedMemory,
    /// The writer of the event's samples and other records.
    pub(super) sampler: Sampler,
    rcu: rcu::Head,
}

/// Bit of [`Event::slow_read_flags`]: the count misses events, so that reading the count fails.
const BROKEN: u32 = 1;
/// Bit of [`Event::slow_read_flags`]: the processor writes the samples and reloads the counter
/// (PEBS).
const PRECISE: u32 = 2;
/// Bit of [`Event::slow_read_flags`]: the event [may wait](EventConfig::may_wait) while it is
/// enabled.
const WAITS: u32 = 4;

/// Returns the initial [`Event::slow_read_flags`] for a configuration.
fn slow_read_flags(config: &EventConfig) -> u32 {
    let precise_flag = if config.sampling.is_precise {
        PRECISE
    } else {
        0
    };
    let waits_flag = if config.may_wait() { WAITS } else { 0 };
    precise_flag | waits_flag
}

// SAFETY: `Send` requires that any task may use and drop the value: its fields are immutable, atomic, or
// guarded by locks of their own, except `rcu`, which only `rcu::free` uses.
unsafe impl Send for Event {}
// SAFETY: `Sync` requires that several tasks may use the value at once: its fields are immutable, atomic, or
// guarded by locks of their own, except `rcu`, which only `rcu::free` uses.
unsafe impl Sync for Event {}

// SAFETY: `HasHead` requires a `Head` at `OFFSET` that only `rcu::free` uses: it is the field `rcu`, which nothing else
// accesses.
unsafe impl rcu::HasHead for Event {
    const OFFSET: usize = core::mem::offset_of!(Self, rcu);
}

impl Event {
    /// Returns a new event, which is disabled and has no slots. When the sample limit has disabled the event,
    /// `on_last_sample` is called on the CPU of the last sample, with interrupts off.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(super) fn new(
        config: EventConfig,
        ChosenCounters { first, all }: ChosenCounters,
        target: Target,
        joined_group: Option<Arc<Group<Event>>>,
        id: u64,
        on_last_sample: unsafe extern "C" fn(),
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            config,
            id,
            // CAST: An index is below `MAX_COUNTERS`, 48.
            counter_index: AtomicU8::new(first.index() as u8),
            counters_in_turn: AtomicU64::new(all),
            target,
            slow_read_flags: AtomicU32::new(slow_read_flags(config)),
            dropped_task_count: AtomicU32::new(0),
            total: AtomicU64::new(0),
            total_at_reset: AtomicU64::new(0),
            running_cycles: AtomicU64::new(0),
            waited_cycles: AtomicU64::new(0),
            slot_count: AtomicU32::new(0),
            own_group: Group::new()?,
            joined_group,
            mapped_memory <- MappedMemory::new(),
            sampler: Sampler::new(
                *id,
                config,
                target.hierarchy(),
                on_last_sample,
            )?,
            pid: match &target {
                Target::Task(task, _) => (sampler.ids(task.as_ptr()) >> 32) as i32,
                Target::Cpu(_) | Target::Cgroup(..) => -1,
            },
            rcu: rcu::Head::new(),
        }? Error)
    }

    /// Returns the event's counter, or its first counter if the event takes turns.
    pub(super) fn counter(&self) -> CounterId {
        CounterId::from_index(self.counter_index.load(Relaxed)).unwrap_or(CounterId::NONE)
    }

    /// Gives the event another counter. The event's slots then
    /// [follow](super::slot::Slot::update_counter).
    pub(super) fn set_counter(&self, counter: CounterId) {
        // CAST: An index is below `MAX_COUNTERS`, 48.
        self.counter_index.store(counter.index() as u8, Relaxed);
    }

    /// Returns the counters that the event may use, as a mask: only [`Self::counter`], unless the event takes turns.
    pub(super) fn counters(&self) -> u64 {
        if self.config.takes_turns {
            self.counters_in_turn.load(Relaxed)
        } else {
            self.counter().bit()
        }
    }

    /// Lets the event, which takes turns, use one more counter, which was taken for the event. Must be called with the
    /// ownership lock held.
    pub(super) fn add_counter_in_turn(&self, counter: CounterId) {
        self.counters_in_turn.fetch_or(counter.bit(), Relaxed);
    }

    /// Returns the event select for [`Self::counter`], which includes the modes (user and kernel).
    pub(super) fn select(&self) -> EventSelect {
        self.config.select_on(self.counter())
    }

    /// Returns whether the branches of samples are the calls that have not returned (LBR call stack).
    pub(super) fn records_calls(&self) -> bool {
        self.sampler.sampling.has_call_stack()
    }

    /// Returns the state of the event. The overflow handler may change the state at any time.
    #[inline(always)]
    pub(super) fn state(&self) -> &EventState {
        &self.sampler.state
    }

    /// Enables or disables the event for all tasks. Afterwards the caller makes the CPUs read the new state.
    #[inline]
    pub(super) fn set_enabled(&self, enabled: bool) {
        self.state().set_enabled(enabled);
        if enabled && self.sampler.is_sampled() {
            // The limit is lifted after the event is enabled. Otherwise the last allowed sample might spend the limit
            // between the two steps.
            self.sampler.notifier.lift_spent_limit();
        }
    }

    /// Adds the count and the time, in TSC cycles, of a window that closes.
    #[inline(always)]
    pub(super) fn add_window(&self, count: u64, cycles: u64) {
        self.total.fetch_add(count, Relaxed);
        self.running_cycles.fetch_add(cycles, Relaxed);
    }

    /// Adds the time in which a slot waited for its turn or for a CPU that counts it, in TSC cycles.
    pub(super) fn add_waited_time(&self, cycles: u64) {
        self.waited_cycles.fetch_add(cycles, Relaxed);
    }

    /// Marks that the count misses events, so that reads of the count fail from now on.
    #[cold]
    pub(super) fn mark_broken(&self) {
        self.slow_read_flags.fetch_or(BROKEN, Relaxed);
    }

    /// Resets the count to 0. The times are kept.
    pub(super) fn reset(&self) {
        self.total_at_reset.store(self.total.load(Relaxed), Release);
    }

    /// Returns the count of all closed windows since the last reset.
    #[inline(always)]
    pub(super) fn count(&self) -> u64 {
        let total_at_reset = self.total_at_reset.load(Acquire);
        self.total.load(Relaxed).wrapping_sub(total_at_reset)
    }

    /// Returns the time in which the event has counted: the time of all closed windows.
    pub(super) fn running_time(&self) -> Cycles {
        Cycles(self.running_cycles.load(Relaxed))
    }

    /// Returns the time in which the event was enabled and did not count: all waits that have ended.
    pub(super) fn waited_time(&self) -> Cycles {
        Cycles(self.waited_cycles.load(Relaxed))
    }

    /// Returns whether the count misses events, so that reads of the count fail.
    #[inline(always)]
    pub(super) fn is_broken(&self) -> bool {
        self.slow_read_flags.load(Relaxed) & BROKEN != 0
    }

    /// Returns whether the count can't be read by the fast path: it [misses events](Self::is_broken), the processor
    /// reloads the counter (PEBS), or the event [may wait](EventConfig::may_wait).
    #[inline(always)]
    pub(super) fn needs_slow_read(&self) -> bool {
        self.slow_read_flags.load(Relaxed) != 0
    }

    /// Adds 1 to the number of tasks that the event stopped counting at an exec.
    pub(super) fn count_dropped_task(&self) {
        self.dropped_task_count.fetch_add(1, Relaxed);
    }

    /// Returns the number of tasks that the event stopped counting, because the tasks executed a
    /// program that the event must not count.
    pub(super) fn dropped_task_count(&self) -> u32 {
        self.dropped_task_count.load(Relaxed)
    }

    /// Adds a new slot to the number of slots.
    pub(super) fn count_slot(&self) {
        self.slot_count.fetch_add(1, SeqCst);
    }

    /// Subtracts a removed slot from the number of slots. Without slots the event has ended, and pollers are woken.
    pub(super) fn uncount_slot(&self) {
        if self.slot_count.fetch_sub(1, SeqCst) == 1 && !self.state().is_closed() {
            self.sampler.notifier.wait.hang_up();
        }
    }

    /// Returns the number of slots.
    pub(super) fn slot_count(&self) -> usize {
        self.slot_count.load(SeqCst) as usize
    }

    /// Returns whether no context has a slot of the event any more.
    pub(super) fn has_ended(&self) -> bool {
        self.slot_count() == 0
    }

    /// Frees the event when no CPU can be using it any more.
    ///
    /// # Safety
    ///
    /// No context may have a slot of the event or get one.
    pub(super) unsafe fn free_by_rcu(this: Pin<KBox<Self>>) {
        // SAFETY: `into_inner_unchecked` requires that the value is not moved: the event stays at its address until
        // `rcu::free` frees it there.
        let event = KBox::into_raw(unsafe { Pin::into_inner_unchecked(this) });
        // SAFETY: `rcu::free` requires a value from `KBox::into_raw` that can't be found any more,
        // once: the event is from `KBox::into_raw`, the caller promises that no context has a slot
        // of the event or gets one, and `this` was the event's owner.
        unsafe { rcu::free(event) };
    }
}

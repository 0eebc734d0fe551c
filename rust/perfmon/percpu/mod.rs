// SPDX-License-Identifier: GPL-2.0-only
//! The data of each CPU. The only registers used here are those that a [`CounterValue`] counts with.
//!
//! Data are found through the token that proves to be on a CPU ([`ThisCpu::percpu`]), or for reading by the CPU's
//! number ([`of_cpu`]).

mod budget;
pub(crate) mod buffer;
mod counts;
mod pebs;
mod pending;
mod places;
mod sampled;
mod samplers;
mod saved;
mod scratch;
mod trace;
mod traced_values;
mod user_page;
mod value;
mod watch;
mod word;

pub(crate) use self::{
    budget::Budget,
    counts::{CountBase, SampledCounts},
    pebs::PebsState,
    pending::PendingPmi,
    places::{EntryBitmap, EntryIndex, EntryIndexCell, MAX_ENTRIES},
    sampled::{Due, SampledCounter, RECORD_REFUSED, RECORD_WRITTEN},
    samplers::{ActiveSamplers, ArmedSampler},
    saved::{BranchState, SavedRegisters, BRANCH_WORDS},
    scratch::Scratch,
    trace::CpuTrace,
    traced_values::TracedValues,
    user_page::{ActivePages, UserPagePtr, UserPageState},
    value::CounterValue,
    watch::{WatchState, SLOW, TICKING},
    word::{CounterCell, PmuCell, Word},
};

use crate::{
    cpu::{self, PercpuAreas, ThisCpu},
    logic::{
        counter::{CounterId, MAX_COUNTERS},
        mapping::NAME_WORDS,
        pmu::Pmu,
    },
};
use kernel::{cpu::CpuId, prelude::*};

/// The data of one CPU. Zero is a valid value of each field.
///
/// Every field may be read on any CPU. It is written on its own CPU, or, while the CPU is not counted on, under
/// the ownership lock. Only `single_cpu` is always written under the lock.
pub(crate) struct PerCpu {
    /// Not 0 while the CPU is counted on.
    pub(crate) brought_up: Word,
    /// Not 0 while the CPU is online and can't be counted on: events of tasks are missed here.
    pub(crate) refused: Word,
    /// The CPU's number, while it is counted on.
    pub(crate) number: Word,
    /// Not 0 if no other CPU was ever counted on, so that the values here are those of the machine.
    pub(crate) single_cpu: Word,
    /// The counters that are set up here and not [`Self::tampered`], for PMIOREAD.
    pub(crate) setup_mask: Word,
    /// The CPU's PMU while its registers are ours: [`Self::saved`] is to be restored.
    pub(crate) pmu: PmuCell,
    /// The address of the context of the current task's events ([`crate::event`]); 0 if it has none.
    ///
    /// ATOMICS: published when the windows of the context before have been closed, so that a reader that acquires it
    /// sees what they have counted.
    pub(crate) task_context: Word,
    /// The address of the cgroup of the task that runs here, while there are events of cgroups; 0 if it is not known.
    pub(crate) cgroup: Word,
    /// The address of the first context of cgroups that is loaded here; 0 if there is none.
    pub(crate) cgroup_contexts: Word,
    /// The address of the context of this CPU's events; 0 if it has none.
    pub(crate) cpu_context: Word,
    /// The counters that run here, whose overflows are ours.
    pub(crate) active_mask: Word,
    /// Slow-path conditions of the overflow handler, tested as one word: `SLOW_*`, and the bits of active
    /// counters that count in kernel mode, and so the handler itself.
    pub(crate) slow_path: Word,
    /// The number of times that the overflow handler has stopped counters.
    pub(crate) handler_stops: Word,
    /// The counters whose registers were found to hold something else than was written.
    pub(crate) tampered: Word,
    /// Not 0 while the CPU's registers are ours by a [place-holder](Pmu::place_holder).
    pub(crate) has_place_holder: Word,
    /// Not 0 if active counters were found disabled in the global control register, until it is logged.
    pub(crate) found_disabled: Word,
    /// The late PMIs that may arrive.
    pub(crate) pending: PendingPmi,
    /// The time that overflow interrupts may still take before the next tick.
    pub(crate) budget: Budget,
    /// The state of the timer that watches the CPU.
    pub(crate) watch: WatchState,
    /// The bits in a general and in a fixed-function counter.
    pub(crate) widths: [Word; 2],
    /// The CPU's [`Capabilities::arch_events`](crate::logic::cpuid::Capabilities::arch_events).
    pub(crate) arch_events: Word,
    /// The counters of the CPU that have registers of [`Processor::extended_counters`].
    ///
    /// [`Processor::extended_counters`]: crate::logic::cpuid::Processor::extended_counters
    pub(crate) extended: Word,
    /// The registers before the first counter was set up.
    pub(crate) saved: SavedRegisters,
    /// The counters of events of tasks. A program that may use RDPMC must not see what these counted before the
    /// program was switched in.
    pub(crate) task_counters: Word,
    /// The counters on which windows of several contexts may be open at once.
    pub(crate) overlapping: Word,
    /// The pages of events that count here now.
    pub(crate) pages: ActivePages,
    /// The events that are sampled here now.
    pub(crate) samplers: ActiveSamplers,
    /// The samples that the processor takes here.
    pub(crate) pebs: PebsState,
    /// The counts that their samples show.
    counts: SampledCounts,
    /// The branch records, and how they are used.
    pub(crate) branches: BranchState,
    /// The name of what a program has just mapped here, for [`crate::event`].
    pub(crate) mapping_name: Scratch<NAME_WORDS>,
    /// The part of a trace on this CPU.
    pub(crate) trace: CpuTrace,
    /// The data of each counter, by [`CounterId::index`].
    counters: [Counter; MAX_COUNTERS],
}

/// [`PerCpu::slow_path`]: branches are recorded, and each overflow interrupt freezes them.
pub(crate) const SLOW_BRANCHES: u64 = 1 << 63;
/// [`PerCpu::slow_path`]: programs read counters, and have to learn that one was loaded.
pub(crate) const SLOW_PAGES: u64 = 1 << 62;
/// [`PerCpu::slow_path`]: the vendor's PMU has work after each overflow.
pub(crate) const SLOW_VENDOR: u64 = 1 << 61;
/// [`PerCpu::slow_path`]: the processor takes samples, and interrupts when its buffer is full.
pub(crate) const SLOW_PEBS: u64 = 1 << 60;
/// [`PerCpu::slow_path`]: counters that count in kernel mode.
pub(crate) const SLOW_KERNEL: u64 = !(SLOW_BRANCHES | SLOW_PAGES | SLOW_VENDOR | SLOW_PEBS);

/// The data of one counter, in two cache lines of its own, since the overflow handler needs all of them.
#[repr(align(128))]
struct Counter {
    value: CounterValue,
    sampled: SampledCounter,
}

const _: () = assert!(size_of::<Counter>() == 128);

impl PerCpu {
    /// Returns the value of a counter.
    #[inline(always)]
    pub(crate) fn value(&self, counter: CounterId) -> &CounterValue {
        &self.counter(counter).value
    }

    /// Returns how a counter is recorded.
    #[inline(always)]
    pub(crate) fn sampled(&self, counter: CounterId) -> &SampledCounter {
        &self.counter(counter).sampled
    }

    #[inline(always)]
    fn counter(&self, counter: CounterId) -> &Counter {
        // SAFETY: There are `MAX_COUNTERS`, and by the invariant of a `CounterId` its index is below.
        unsafe { self.counters.get_unchecked(counter.index()) }
    }

    /// Marks counters as tampered with: their values can't be trusted.
    #[cold]
    pub(crate) fn mark_tampered(&self, counters: u64) {
        self.tampered.insert(counters);
        self.setup_mask.remove(counters);
    }

    /// Marks that events of these active counters may be missing: in the buffer, for counters of a trace, or by
    /// EIO.
    pub(crate) fn mark_lost(&self, counters: u64) {
        let traced = counters & self.trace.counters.get();
        if traced != 0 {
            self.trace.mark_lost();
        }
        self.mark_tampered(counters & !traced);
    }
}

/// The memory of all [`PerCpu`].
///
/// # Invariants
///
/// While a value of this type exists, there is a zero-initialized [`PerCpu`] for each possible CPU.
pub(crate) struct Memory(#[allow(dead_code, reason = "frees the memory when dropped")] PercpuAreas);

impl Memory {
    /// Allocates the memory.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life. The result outlives every [`ThisCpu`] and every use of [`of_cpu`].
    pub(crate) unsafe fn new() -> Result<Self> {
        // INVARIANT: The areas are for a `PerCpu`, and zero at first.
        // SAFETY: The caller calls this once, and keeps the result longer than every use of the areas.
        Ok(Self(unsafe { PercpuAreas::new::<PerCpu>() }?))
    }
}

impl<'a> ThisCpu<'a> {
    /// Returns the CPU's data.
    #[inline(always)]
    pub(crate) fn percpu(self) -> &'a PerCpu {
        // SAFETY: `Memory::new` has made the areas for a `PerCpu`, all fields of which may be zero. They outlive
        // this token, and only shared references to them are ever made.
        unsafe { self.area().cast::<PerCpu>().as_ref() }
    }

    /// Returns the CPU's PMU, or one without counters while the registers are not ours.
    #[inline(always)]
    pub(crate) fn pmu(self) -> &'static Pmu {
        static NONE: Pmu = Pmu::NONE;

        self.percpu().pmu.get().unwrap_or(&NONE)
    }
}

/// Returns the data of a CPU, for reading.
pub(crate) fn of_cpu(cpu: CpuId) -> &'static PerCpu {
    // SAFETY: `Memory::new` has made the areas for a `PerCpu`, all fields of which may be zero. They outlive all
    // uses of this function, and only shared references to them are ever made.
    unsafe { cpu::percpu_area(cpu).cast::<PerCpu>().as_ref() }
}

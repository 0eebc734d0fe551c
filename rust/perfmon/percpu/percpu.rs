// SPDX-License-Identifier: GPL-2.0-only
//! The data of one CPU.

use super::{
    budget::Budget,
    counts::SampledCounts,
    extra::ExtraRegisters,
    pebs::PebsState,
    pending::PendingPmi,
    sampled::SampledCounter,
    samplers::ActiveSamplers,
    saved::{BranchState, SavedRegisters},
    scratch::Scratch,
    trace::CpuTrace,
    user_page::ActivePages,
    value::CounterValue,
    watch::WatchState,
    word::{PmuCell, Word},
};
use crate::logic::{
    core_kinds::CoreKind,
    counter::{CounterId, MAX_COUNTERS},
    hierarchy::PerHierarchy,
    mapping::NAME_WORDS,
};

/// The data of one CPU. Zero is a valid value of each field.
///
/// Every field may be read on any CPU. A field is written on its own CPU, or, while that CPU is not
/// used for counting, by the holder of the ownership lock. The fields `single_cpu`,
/// `cpu_sampled_counters` and `cpu_unshared_counters` are an exception: they are always written
/// under the lock.
pub(crate) struct PerCpu {
    /// Not 0 while the CPU is used for counting.
    pub(crate) brought_up: Word,
    /// Not 0 while the CPU is online but its counters can't be used, so that events of tasks miss counts here.
    pub(crate) is_refused: Word,
    /// The CPU's number.
    pub(crate) cpu_number: Word,
    /// Not 0 if no other CPU was ever used for counting, so that the values here are the values of
    /// the whole machine.
    pub(crate) single_cpu: Word,
    /// The counters that are set up here and not [`Self::tampered`], for the fast path of PMIOREAD.
    pub(crate) setup_mask: Word,
    /// The CPU's PMU while the module has claimed the PMU's registers; otherwise none.
    /// [`Self::saved`] has the values with which the registers are restored.
    pub(crate) pmu: PmuCell,
    /// The address of the context of the current task's events ([`crate::event`]); 0 if it has none.
    ///
    /// ATOMICS: published after the windows of the previous context were closed, so that a reader that acquires the
    /// address sees what those windows have counted; and before the context's own windows open.
    pub(crate) task_context: Word,
    /// The cgroups whose events count here, by hierarchy.
    pub(crate) cgroups: PerHierarchy<LoadedCgroups>,
    /// The address of the context of this CPU's events; 0 if it has none.
    pub(crate) cpu_context: Word,
    /// The counters that run here and whose overflows the handler serves.
    pub(crate) active_mask: Word,
    /// Slow-path conditions of the overflow handler, tested as one word: `SLOW_*`, and the bits of active counters that
    /// count in kernel mode, where they count the handler itself.
    pub(crate) slow_path: Word,
    /// The number of times that the overflow handler has stopped counters.
    pub(crate) handler_stops: Word,
    /// The counters with a register that was found to hold another value than the module wrote.
    pub(crate) tampered: Word,
    /// Not 0 while a [place-holder](Pmu::place_holder) reserves the CPU's registers for the module.
    pub(crate) has_place_holder: Word,
    /// Not 0 if active counters were found disabled in the global control register, and the log does not say so yet.
    pub(crate) must_log_disabled: Word,
    /// The late PMIs that may still arrive.
    pub(crate) pending_pmi: PendingPmi,
    /// The time that overflow interrupts may still take until the next tick.
    pub(crate) budget: Budget,
    /// The state of the timer that watches the CPU.
    pub(crate) watch: WatchState,
    /// The number of the CPU's [`CoreKind`].
    core_kind: Word,
    /// The widths, in bits, of a general and of a fixed-function counter.
    pub(crate) widths: [Word; 2],
    /// The CPU's [`Capabilities::arch_events`](crate::logic::cpuid::Capabilities::arch_events).
    pub(crate) arch_events: Word,
    /// The counters of the CPU that have the registers for reloads and records: [`Processor::extended_counters`].
    ///
    /// [`Processor::extended_counters`]: crate::logic::cpuid::Processor::extended_counters
    pub(crate) extended_counters: Word,
    /// The values of registers before the module claimed them.
    pub(crate) saved: SavedRegisters,
    /// The extra registers of events.
    pub(crate) extra: ExtraRegisters,
    /// The counters of tasks' events. A program that may use RDPMC must not see what these counters counted before it
    /// was switched in.
    pub(crate) task_counters: Word,
    /// The counters with events of cgroups, or of both tasks and CPUs. Such a counter may have open
    /// windows of several contexts at once.
    pub(crate) overlapping_counters: Word,
    /// The counters with a sampled event of this CPU, or of a cgroup on it.
    pub(crate) cpu_sampled_counters: Word,
    /// The counters among `cpu_sampled_counters` whose event needs a counter of its own.
    pub(crate) cpu_unshared_counters: Word,
    /// The mapped pages of events whose windows are open here.
    pub(crate) pages: ActivePages,
    /// The samplers of events whose windows are open here.
    pub(crate) samplers: ActiveSamplers,
    /// The processor's samples (PEBS) on this CPU.
    pub(crate) pebs: PebsState,
    /// The counts for samples of [`Self::samplers`].
    pub(super) counts: SampledCounts,
    /// The state of the branch records (LBR).
    pub(crate) branches: BranchState,
    /// Memory for the path of a mapping or of a new cgroup, for the handlers in [`crate::event`].
    pub(crate) path: Scratch<NAME_WORDS>,
    /// The part of a trace on this CPU.
    pub(crate) trace: CpuTrace,
    /// The data of each counter, by [`CounterId::index`].
    counters: [Counter; MAX_COUNTERS],
}

/// The cgroups of one hierarchy whose events count on a CPU. All bits zero: none.
pub(crate) struct LoadedCgroups {
    /// The address of the cgroup of the task that runs here, while cgroups of the hierarchy have
    /// events; 0 if the address is not known.
    pub(crate) cgroup: Word,
    /// The address of the innermost cgroup that may have events, among `cgroup` and its ancestors, or of the root; 0 if
    /// it is not known. Tasks with the same innermost cgroup have the same contexts loaded.
    pub(crate) innermost_cgroup: Word,
    /// The address of the first context of cgroups that is loaded here; 0 if there is none.
    pub(crate) first_context: Word,
    /// The address of the task that the windows of these contexts count: the current task, or the
    /// task that is being switched to.
    pub(crate) task: Word,
}

impl LoadedCgroups {
    /// Marks the cgroup of the task that runs here as not known, so that its contexts are loaded anew.
    pub(crate) fn invalidate(&self) {
        self.cgroup.set(0);
        self.innermost_cgroup.set(0);
    }
}

/// Bit of [`PerCpu::slow_path`]: branches are recorded, so that the handler has to unfreeze the
/// branch records.
pub(crate) const SLOW_BRANCHES: u64 = 1 << 63;
/// Bit of [`PerCpu::slow_path`]: programs read counters with RDPMC, so that pages have to be
/// corrected when a counter is loaded.
pub(crate) const SLOW_PAGES: u64 = 1 << 62;
/// Bit of [`PerCpu::slow_path`]: this vendor's PMU needs work after each overflow.
pub(crate) const SLOW_VENDOR: u64 = 1 << 61;
/// Bit of [`PerCpu::slow_path`]: the processor takes samples (PEBS), and interrupts when its buffer
/// is full.
pub(crate) const SLOW_PEBS: u64 = 1 << 60;
/// Bits of [`PerCpu::slow_path`]: the active counters that count in kernel mode.
pub(crate) const SLOW_KERNEL: u64 = !(SLOW_BRANCHES | SLOW_PAGES | SLOW_VENDOR | SLOW_PEBS);

/// The data of one counter that the overflow handler needs. The data of each counter has two cache
/// lines of its own.
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

    /// Returns the state of a counter's samples.
    #[inline(always)]
    pub(crate) fn sampled_counter(&self, counter: CounterId) -> &SampledCounter {
        &self.counter(counter).sampled
    }

    #[inline(always)]
    fn counter(&self, counter: CounterId) -> &Counter {
        // SAFETY: The index must be less than the array's length, `MAX_COUNTERS`, which is the invariant of
        // `CounterId`.
        unsafe { self.counters.get_unchecked(counter.index()) }
    }

    /// Returns the CPU's kind of core; any kind if the CPU has never been used for counting.
    #[inline(always)]
    pub(crate) fn core_kind(&self) -> CoreKind {
        CoreKind::new(self.core_kind.get() as usize).unwrap_or(CoreKind::FIRST)
    }

    /// Sets the CPU's kind of core.
    pub(crate) fn set_core_kind(&self, kind: CoreKind) {
        self.core_kind.set(kind.number() as u64);
    }

    /// Marks counters as tampered with, so that their values are not trusted.
    #[cold]
    pub(crate) fn mark_tampered(&self, counters: u64) {
        self.tampered.insert(counters);
        self.setup_mask.remove(counters);
    }

    /// Marks active counters that may have missed events. For the trace's counters, sets a flag of
    /// its buffer. Marks the other counters as tampered with, so that reading them fails with EIO.
    pub(crate) fn mark_lost(&self, counters: u64) {
        let traced_counters = counters & self.trace.counters.get();
        if traced_counters != 0 {
            self.trace.mark_lost();
        }
        self.mark_tampered(counters & !traced_counters);
    }
}

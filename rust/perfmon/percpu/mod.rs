// SPDX-License-Identifier: GPL-2.0-only
//! The data of each CPU. The only registers of the PMU that are accessed here are the counters of
//! [`CounterValue`](value::CounterValue).
//!
//! [`ThisCpu::percpu`] gives the data of the current CPU to a caller that can't leave it. [`of_cpu`] gives the data
//! of any CPU, for reading.

mod arm_sampler;
mod budget;
pub(crate) mod buffer;
mod counts;
mod entries;
mod extra;
mod pebs;
mod pebs_samples;
mod pending;
#[allow(clippy::module_inception, reason = "what the folder is about")]
mod percpu;
mod read_counts;
mod sampled;
mod samplers;
mod saved;
mod scratch;
mod show_page;
mod trace;
mod trace_counts;
mod traced_values;
mod user_page;
mod value;
mod watch;
mod word;

pub(crate) use self::{
    budget::set_measured_entry_cost,
    counts::CountBase,
    entries::EntryIndex,
    pending::Expectation,
    percpu::{LoadedCgroups, PerCpu, SLOW_BRANCHES, SLOW_KERNEL, SLOW_PEBS, SLOW_VENDOR},
    sampled::{DueSample, SampledCounter, RECORD_REFUSED, RECORD_WRITTEN},
    samplers::ArmedSampler,
    saved::{BRANCHES_OF_TRACE, BRANCH_WORDS},
    trace::CpuTrace,
    user_page::{UserPagePtr, UserPageState},
    watch::{TIMER_SLOW, TIMER_TICKING},
    word::Word,
};

use crate::{
    cpu::{self, possible_cpus, PercpuAreas, ThisCpu},
    logic::pmu::Pmu,
};
use kernel::{cpu::CpuId, prelude::*};

/// The memory of all [`PerCpu`].
///
/// # Invariants
///
/// While a value of this type exists, there is a [`PerCpu`] for each possible CPU. At first all of
/// its bytes are zero, except its `cpu_number`.
pub(crate) struct Memory(#[allow(dead_code, reason = "frees the memory when dropped")] PercpuAreas);

impl Memory {
    /// Allocates the memory.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life. The result must outlive every [`ThisCpu`] and every use of [`of_cpu`].
    pub(crate) unsafe fn new() -> Result<Self> {
        // SAFETY: `PercpuAreas::new` is to be called once, and its result must outlive every use of the areas: the
        // caller promises both.
        let areas = unsafe { PercpuAreas::new::<PerCpu>() }?;
        for cpu in possible_cpus() {
            of_cpu(cpu).cpu_number.set(cpu.as_u32().into());
        }
        // INVARIANT: Each area has the size of a `PerCpu`, and was zero before the number was written.
        Ok(Self(areas))
    }
}

impl<'a> ThisCpu<'a> {
    /// Returns the CPU's data.
    #[inline(always)]
    pub(crate) fn percpu(self) -> &'a PerCpu {
        // SAFETY: `as_ref` requires a valid `PerCpu` for the token's lifetime: `Memory::new` has allocated it, zeroed,
        // and zero is valid for all fields. The caller of `Memory::new` promises that it outlives all tokens, and only
        // shared references to it are made.
        unsafe { self.percpu_area().cast::<PerCpu>().as_ref() }
    }

    /// Returns the CPU's PMU, or one without counters while the module has not claimed the registers.
    #[inline(always)]
    pub(crate) fn pmu(self) -> &'static Pmu {
        static NONE: Pmu = Pmu::NONE;

        self.percpu().pmu.get().unwrap_or(&NONE)
    }
}

/// Returns the data of a CPU, for reading.
pub(crate) fn of_cpu(cpu: CpuId) -> &'static PerCpu {
    // SAFETY: `as_ref` requires a valid `PerCpu` as long as the result is used: `Memory::new` has allocated it, zeroed,
    // and zero is valid for all fields. The caller of `Memory::new` promises that it outlives all uses of this
    // function, and only shared references to it are made.
    unsafe { cpu::percpu_area(cpu).cast::<PerCpu>().as_ref() }
}

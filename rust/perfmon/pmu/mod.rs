// SPDX-License-Identifier: GPL-2.0-only
//! The PMU of the current CPU: its capabilities, and the operations on its counters.
//!
//! The operations are methods of [`Pmu`], which execute the plans of [`crate::logic::plan`]. Which session, trace or
//! event may use which counter is decided in [`crate::ownership`]. The late PMIs of each vendor are in [`intel`] and [`amd`].

mod amd;
mod claim;
mod control;
mod extensions;
pub(crate) mod extra;
mod intel;
pub(crate) mod lbr;
mod lvtpc;
pub(crate) mod pebs;
mod pebs_period;
mod pebs_single;
mod program;
mod repair;
mod sample_parts;
mod share;
pub(crate) mod values;
mod vendor;

pub(crate) use self::{
    lvtpc::Lvtpc,
    repair::{may_be_tampered, tampered_counters},
    sample_parts::{read_sample_parts, SAMPLE_PARTS},
};

use crate::{
    cpu::{self, msr, ThisCpu},
    logic::{
        core_kinds::CoreKinds,
        cpuid::{Capabilities, Leaf, NoPmu, Processor},
        load_limit::LoadLimit,
        msr::Msr,
        pmu::Pmu,
        throttle::Limits,
    },
};
use kernel::{prelude::*, sync::SetOnce, time::Msecs};

/// The longest time from an overflow to its PMI, in milliseconds: far more than any skid.
const MAX_SKID: Msecs = 10;

/// The PMU that all CPUs have in common. Set after the module has probed all CPUs.
static COMMON: SetOnce<Pmu> = SetOnce::new();

/// Returns the PMU that all CPUs have in common; before [`set_common`], a PMU without counters.
#[inline]
pub(crate) fn common() -> &'static Pmu {
    static NONE: Pmu = Pmu::NONE;

    COMMON.as_ref().unwrap_or(&NONE)
}

/// Returns whether [`set_common`] has been called.
pub(crate) fn has_common() -> bool {
    COMMON.as_ref().is_some()
}

/// Sets the PMU that [`common`] returns. Not inlined: keeps the [`Pmu`] off the caller's stack.
#[inline(never)]
pub(crate) fn set_common(
    capabilities: Capabilities,
    kinds: &CoreKinds,
    place_holder: Option<u8>,
    period_bits: u32,
    throttle_limits: Limits,
    load_limit: LoadLimit,
) {
    let mut pmu = Pmu::NONE;
    pmu.set_capabilities(capabilities);
    pmu.kinds = *kinds;
    pmu.place_holder = place_holder;
    pmu.period_bits = period_bits;
    pmu.throttle_limits = throttle_limits;
    pmu.load_limit = load_limit;
    COMMON.populate(pmu);
}

impl Pmu {
    /// Returns the counters that this CPU has, as a mask. An access to the registers of another counter faults.
    pub(crate) fn counters_on(&self, here: ThisCpu<'_>) -> u64 {
        self.kinds.counters(here.percpu().core_kind())
    }
}

/// Returns the CPUID leaves of the current CPU.
pub(crate) fn processor(_here: ThisCpu<'_>) -> Processor {
    Processor::read(|leaf, subleaf| {
        let result = cpu::cpuid(leaf, subleaf);
        Leaf {
            eax: result.eax,
            ebx: result.ebx,
            ecx: result.ecx,
            edx: result.edx,
        }
    })
}

/// Returns the capabilities of the current CPU's PMU.
///
/// # Errors
///
/// The reason why the module can't count on this CPU.
pub(crate) fn probe(here: ThisCpu<'_>) -> Result<Capabilities, NoPmu> {
    let processor = processor(here);
    let perf_capabilities = if processor.has_perf_capabilities() {
        // Under a hypervisor, CPUID may report the register although it is missing. If so, the module does without its
        // features.
        msr::read_safe(here, Msr::PERF_CAPABILITIES).unwrap_or(0)
    } else {
        0
    };
    let mut capabilities = processor.capabilities(perf_capabilities)?;
    capabilities.last_branch = lbr::probe(here, capabilities.last_branch);
    capabilities.trace_excludes_branches = lbr::is_excluded_by_trace(here, &capabilities);
    capabilities.pebs = pebs::probe(here, &capabilities);
    capabilities.values = values::probe(here, &capabilities, !has_common());
    Ok(capabilities)
}

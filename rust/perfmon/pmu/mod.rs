// SPDX-License-Identifier: GPL-2.0-only
//! The PMU of the current CPU: its capabilities, and the operations on its counters.
//!
//! The operations are methods of [`Pmu`], which execute the plans of [`crate::logic::plan`]. Which session, trace or
//! event may use which counter is decided in [`crate::ownership`]. The vendors' late PMIs are handled in [`intel`] and
//! [`amd`].
//!
//! | Methods of [`Pmu`] | file |
//! |---|---|
//! | construction, tables of registers; no access to hardware | `logic/pmu.rs` |
//! | the counters of this CPU | this file |
//! | claiming, restoring and releasing the registers of a CPU | `claim.rs` |
//! | setting a counter up | `program.rs` |
//! | starting, stopping, reloading and updating a counter | `control.rs` |
//! | changing the event of a counter that events share | `share.rs` |
//! | repairing registers that other software has changed | `repair.rs` |
//! | clearing the extensions of Intel's counters | `extensions.rs` |
//! | samples of the processor (PEBS): starting, stopping, converting records | `pebs.rs` |
//! | samples of the processor: thresholds, and periods of a frequency | `pebs_period.rs` |
//! | samples of the processor that need an interrupt each | `pebs_single.rs` |

mod amd;
mod claim;
mod common_pmu;
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
mod skid;
pub(crate) mod values;
mod vendor;

pub(crate) use self::{
    common_pmu::{common, has_common, set_common},
    lvtpc::Lvtpc,
    repair::{may_be_tampered, tampered_counters},
    sample_parts::{read_sample_parts, SAMPLE_PARTS},
};

use crate::{
    cpu::{self, msr, ThisCpu},
    logic::{
        cpuid::{Capabilities, Leaf, NoPmu, Processor},
        msr::Msr,
        pmu::Pmu,
    },
};
use kernel::prelude::*;

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
    capabilities.intel_pt_excludes_branches = lbr::is_excluded_by_intel_pt(here, &capabilities);
    capabilities.pebs = pebs::probe(here, &capabilities);
    capabilities.values = values::probe(here, &capabilities, !has_common());
    Ok(capabilities)
}

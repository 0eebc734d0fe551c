// SPDX-License-Identifier: GPL-2.0-only
//! What only Intel's processors have.

use crate::{
    cpu::ThisCpu,
    logic::{cpuid::Processor, regs::Msr},
    msr,
};

/// `IA32_PERF_CAPABILITIES`, or 0 where there is none: then nothing of it can be used.
pub(super) fn perf_capabilities(here: &ThisCpu, processor: &Processor) -> u64 {
    if processor.has_perf_capabilities() {
        // A hypervisor may show the bit in CPUID and lack the register.
        msr::read_safe(here, Msr::PERF_CAPABILITIES).unwrap_or(0)
    } else {
        0
    }
}

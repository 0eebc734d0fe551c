// SPDX-License-Identifier: GPL-2.0-only
//! The reason why the counters can't be used.

use crate::logic::msr::Msr;
use core::fmt;
use kernel::{cpu::CpuId, prelude::*};

/// The reason why the counters can't be used.
pub(crate) enum Refusal {
    /// Linux perf has reserved this MSR.
    Reserved(Msr),
    /// Linux perf counts with the counter of this control register.
    Counting(Msr),
    /// A pinned event of Linux perf has the counter on this CPU that the place-holder needs.
    Pinned(CpuId),
    /// Linux perf has given the place-holder of this CPU another counter than requested.
    Misplaced(CpuId),
    /// A virtual machine of KVM has the counters.
    VirtualMachine,
    /// Another error, which has nothing to do with other users of the counters.
    Other(Error),
}

impl Refusal {
    /// Returns the error code for the program: EBUSY if others use the counters.
    pub(super) fn error(&self) -> Error {
        match self {
            Self::Other(error) => *error,
            _ => EBUSY,
        }
    }

    /// Returns whether others use the counters.
    pub(super) fn is_by_others(&self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// Returns the reason, in words, why a CPU that has come online is not used for counting.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::VirtualMachine => {
                "a virtual machine has its counters (KVM's enable_mediated_pmu)"
            }
            Self::Misplaced(_) => {
                "Linux perf has given the place-holder event another counter than requested"
            }
            Self::Other(_) => "there is no memory for Linux perf's place-holder event",
            _ => "Linux perf has its counters, perhaps for the NMI watchdog",
        }
    }

    /// Logs the reason and what to do, if others use the counters.
    pub(super) fn log(&self) {
        match self {
            Self::Reserved(msr) => {
                log_in_use(format_args!("MSR {:#x} is reserved", msr.number()));
            }
            Self::Counting(msr) => {
                log_in_use(format_args!("MSR {:#x} is enabled", msr.number()));
            }
            Self::Pinned(cpu) => {
                log_in_use(format_args!("a pinned event has CPU {}", cpu.as_u32()));
            }
            Self::Misplaced(cpu) => pr_notice!(
                "the counters can't be used: Linux perf has given the place-holder event on CPU {} another counter \
                 than requested. Please report this with the processor's model\n",
                cpu.as_u32()
            ),
            Self::VirtualMachine => pr_notice!(
                "the counters are in use by a virtual machine, to which KVM has given them \
                 (enable_mediated_pmu). Stop the virtual machine, and try again\n"
            ),
            Self::Other(_) => {}
        }
    }
}

fn log_in_use(detail: fmt::Arguments<'_>) {
    pr_notice!(
        "the counters are in use by Linux perf ({detail}). End the programs that use perf events, and stop the NMI \
         watchdog with `sysctl kernel.nmi_watchdog=0`\n"
    );
}

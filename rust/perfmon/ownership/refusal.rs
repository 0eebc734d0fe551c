// SPDX-License-Identifier: GPL-2.0-only
//! The reason why the counters were refused.

use crate::logic::msr::Msr;
use core::fmt;
use kernel::{cpu::CpuId, prelude::*};

/// The reason why the counters were refused.
pub(crate) enum Refusal {
    /// Linux perf has reserved this register.
    Reserved(Msr),
    /// Linux perf counts with this register.
    Counting(Msr),
    /// A pinned event of Linux perf's has this CPU.
    Pinned(CpuId),
    /// Linux perf gives the place-holder of this CPU another counter.
    Misplaced(CpuId),
    /// A virtual machine has the counters.
    VirtualMachine,
    /// An error that says nothing of other users.
    Other(Error),
}

impl Refusal {
    /// Returns the error of the call.
    pub(super) fn error(&self) -> Error {
        match self {
            Self::Reserved(_)
            | Self::Counting(_)
            | Self::Pinned(_)
            | Self::Misplaced(_)
            | Self::VirtualMachine => EBUSY,
            Self::Other(error) => *error,
        }
    }

    /// Returns the reason why a CPU that has come online is not counted on.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::VirtualMachine => "a virtual machine of KVM's has its counters",
            Self::Misplaced(_) => "Linux perf gives the place-holder another counter",
            Self::Other(_) => "Linux perf has refused the place-holder, for want of memory",
            _ => "Linux perf has its counters, perhaps for the NMI watchdog",
        }
    }

    /// Logs why the counters are not to be had, if others have them.
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
                "the counters can't be had: Linux perf gives the event that is to keep it off CPU {} another \
                 counter than the module leaves to it; please report it with the processor's model\n",
                cpu.as_u32()
            ),
            Self::VirtualMachine => pr_notice!(
                "the counters are in use by a virtual machine of KVM's that has been given them \
                 (enable_mediated_pmu): end it first\n"
            ),
            Self::Other(_) => {}
        }
    }
}

fn log_in_use(how: fmt::Arguments<'_>) {
    pr_notice!(
        "the counters are in use by Linux perf ({how}): by an event of a program, or by the NMI watchdog, \
         which `sysctl kernel.nmi_watchdog=0` stops\n"
    );
}

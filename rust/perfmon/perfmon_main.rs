// SPDX-License-Identifier: GPL-2.0-only
//! /dev/perfmon: the x86 performance-monitoring counters.
//!
//! Documentation/design.rst tells how the parts work together.

pub mod abi;
mod arbiter;
mod buffer;
mod compat;
mod count;
mod counting;
mod cpu;
mod device;
mod dirty;
mod error;
mod ffi;
mod file;
mod ioctl;
pub mod logic;
mod machine;
mod memory;
mod msr;
mod overflow;
mod pmi;
mod pmu;
mod policy;
mod power;
mod recorder;
mod session;
mod trace;
mod trial;
mod uaccess;

use crate::logic::throttle::{Limits, Settings};
use kernel::{miscdevice::MiscDeviceRegistration, prelude::*};

module! {
    type: Perfmon,
    name: "perfmon",
    authors: ["The perfmon developers"],
    description: "Performance-monitoring counters of x86 CPUs",
    license: "GPL v2",
    params: {
        // 7.2 has no parameters of type bool.
        unarbitrated: u8 {
            default: 0,
            description: "1: load on a PMU that the kernel can't share between this module and perf",
        },
        period_bits: u32 {
            default: 0,
            description: "For tests of the overflow path on any PMU: let counters overflow after \
                          2^period_bits events, 8 to width - 1 (0, the default: half of their range)",
        },
        perf_event_max_sample_rate: u32 {
            default: 100_000,
            description: "Samples per second and CPU (default 100000; 0: no limit), as the sysctl of \
                          this name for Linux perf: with more, the CPU is throttled",
        },
        perf_cpu_time_max_percent: u32 {
            default: 25,
            description: "The share of each CPU's time that samples may take (default 25; 0 or 100: no \
                          limit), as the sysctl of this name for Linux perf: with more, the CPU is \
                          throttled",
        },
        perf_event_mlock_kb: u32 {
            default: 516,
            description: "KB of buffers for each user and online CPU (default 516), before they count \
                          against RLIMIT_MEMLOCK: as the sysctl of this name, which no module can read",
        },
    },
}

/// The parts that have something to undo. They are dropped in this order: first the way in, last what
/// all others use.
#[pin_data]
struct Perfmon {
    #[pin]
    _device: MiscDeviceRegistration<session::Session>,
    _power: power::Power,
    _cpus: cpu::Hotplug<machine::Machine>,
    _nmi: pmi::Handler,
    _cleaner: dirty::Cleaner,
    _slots: cpu::Slots,
}

/// What overflow interrupts may take of a CPU's time.
fn limits() -> Limits {
    Limits::new(&Settings {
        max_sample_rate: compat::parameter(&module_parameters::perf_event_max_sample_rate),
        max_percent: compat::parameter(&module_parameters::perf_cpu_time_max_percent),
        // SAFETY: Written at boot only.
        tsc_khz: unsafe { kernel::bindings::tsc_khz },
        // SAFETY: Has no requirements.
        tick_ns: unsafe { ffi::perfmon_tick_ns() },
    })
}

impl kernel::InPlaceModule for Perfmon {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // SAFETY: The module is initialized once, and `Perfmon` drops the slots after all else. The
            // same holds for the parts that follow: each is made once, after what it uses.
            _slots: unsafe { cpu::Slots::new() }?,
            // SAFETY: As above.
            _cleaner: unsafe { dirty::Cleaner::new() },
            // SAFETY: As above.
            _nmi: unsafe { pmi::Handler::register() }?,
            _: {
                // SAFETY: As above. No counter is active yet, which would start a timer.
                unsafe { pmi::make_timers() };
            },
            // SAFETY: As above.
            _cpus: unsafe {
                machine::begin(
                    compat::parameter(&module_parameters::unarbitrated) != 0,
                    compat::parameter(&module_parameters::period_bits),
                    limits(),
                )
            }?,
            // SAFETY: As above.
            _power: unsafe { power::Power::register() }?,
            _device <- device::register(),
        })
    }
}

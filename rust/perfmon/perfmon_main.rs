// SPDX-License-Identifier: GPL-2.0-only
//! /dev/perfmon: the x86 performance-monitoring counters.
//!
//! Documentation/design.rst shows how the parts work together.

pub mod abi;
mod counting;
mod cpu;
mod cpus;
mod device;
mod event;
mod ioctl;
pub mod logic;
mod overflow;
mod ownership;
mod percpu;
mod pmu;
mod ring;
mod session;
mod sys;
mod trace;

use crate::{
    cpu::{
        timer::{self, Tick},
        Hotplug, PowerNotifier, ThisCpu,
    },
    cpus::CpuCallbacks,
    logic::throttle::{Limits, Settings},
    overflow::{nmi, watch::Watch},
    sys::compat::parameter,
};
use core::num::NonZeroU64;
use kernel::{miscdevice::MiscDeviceRegistration, prelude::*};

module! {
    type: Perfmon,
    name: "perfmon",
    authors: ["The perfmon developers"],
    description: "Performance-monitoring counters of x86 CPUs",
    license: "GPL v2",
    params: {
        // Linux 7.2 has no parameters of type bool for Rust modules.
        unarbitrated: u8 {
            default: 0,
            description: "Ignored: the module loads without it on the PMUs that needed it, and keeps Linux perf \
                          off them as with placeholder=1",
        },
        placeholder: u8 {
            default: 0,
            description: "1: keep Linux perf off the counters by an event of its own on each CPU. Where the kernel \
                          can't reserve the counters, the module does so without this parameter",
        },
        period_bits: u32 {
            default: 0,
            description: "For tests of the overflow path on any PMU: let counters overflow after \
                          2^period_bits events, 8 to width - 1 (0, the default: half of their range)",
        },
        perf_event_max_sample_rate: u32 {
            default: 100_000,
            description: "Samples per second and CPU above which the CPU is throttled (default 100000; 0: no \
                          limit), as by Linux perf's sysctl of this name",
        },
        perf_cpu_time_max_percent: u32 {
            default: 25,
            description: "Percentage of a CPU's time in samples above which the CPU is throttled (default 25; 0 or \
                          100: no limit), as by Linux perf's sysctl of this name",
        },
        perf_event_mlock_kb: u32 {
            default: 516,
            description: "KB of buffers for each user and online CPU (default 516) that don't count \
                          against RLIMIT_MEMLOCK: set it as the sysctl of this name, which no module can read",
        },
    },
}

/// The parts that have something to undo, in the order in which they are dropped: users before what they use.
#[pin_data]
struct Perfmon {
    #[pin]
    _device: MiscDeviceRegistration<session::Session>,
    _power: PowerNotifier<CpuCallbacks>,
    _cpus: Hotplug<CpuCallbacks>,
    _place_holders: ownership::PlaceHolders,
    _nmi: nmi::Handler,
    _cleaner: ownership::DirtyCounterCleaner,
    _events: event::EventResources,
    _memory: percpu::Memory,
}

/// The work of each CPU's timer.
struct Ticks;

impl Tick for Ticks {
    fn tick(here: ThisCpu<'_>) -> Option<NonZeroU64> {
        let next = Watch::tick(here);
        event::take_turns(here);
        next
    }
}

/// Returns the share of a CPU's time that overflow interrupts may take.
fn limits() -> Limits {
    Limits::new(&Settings {
        max_sample_rate: parameter(&module_parameters::perf_event_max_sample_rate),
        max_percent: parameter(&module_parameters::perf_cpu_time_max_percent),
        tsc_khz: cpu::tsc_khz(),
        tick_ns: timer::period_ns(),
    })
}

impl kernel::InPlaceModule for Perfmon {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // SAFETY: The module is initialized once, and `Perfmon` drops the memory last.
            _memory: unsafe { percpu::Memory::new() }?,
            // SAFETY: The module is initialized once. The per-CPU memory has been allocated, and `Perfmon` drops it
            // later.
            _events: unsafe { event::EventResources::new() }?,
            // SAFETY: The module is initialized once, by the program that loads it. `Perfmon` drops the cleaner
            // after its users: CPUs and device.
            _cleaner: unsafe { ownership::DirtyCounterCleaner::new() },
            _: {
                // SAFETY: The module is initialized once, and the per-CPU memory has been allocated. Dropping `_device`
                // and `_cpus` stops every timer, before the memory is dropped.
                unsafe { timer::init::<Ticks>() };
            },
            // SAFETY: The module is initialized once. The per-CPU memory has been allocated, and `Perfmon` drops it
            // later.
            _nmi: unsafe { nmi::Handler::register() }?,
            _: {
                if parameter(&module_parameters::unarbitrated) != 0 {
                    pr_notice!("unarbitrated=1 is ignored: the module loads without it\n");
                }
            },
            // SAFETY: The module is initialized once, and no CPU is counted on yet. `Perfmon` drops the place-holders
            // after the users of counters: CPUs and device.
            _place_holders: unsafe { ownership::PlaceHolders::new() },
            // SAFETY: The module is initialized once, and nothing before this uses the CPUs or their owners.
            _cpus: unsafe {
                cpus::init(
                    parameter(&module_parameters::placeholder) != 0,
                    parameter(&module_parameters::period_bits),
                    limits(),
                )
            }?,
            // SAFETY: The module is initialized once.
            _power: unsafe { PowerNotifier::register() }?,
            _device <- device::register(),
        })
    }
}

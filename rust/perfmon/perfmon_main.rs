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
            description: "Ignored: older versions needed it on PMUs whose registers the kernel can't reserve, where \
                          this version does what placeholder=1 does",
        },
        placeholder: u8 {
            default: 0,
            description: "1: keep Linux perf off the counters by a pinned perf event, which takes one general counter \
                          of each CPU. Where the kernel can't reserve the counters, the module does so without this \
                          parameter",
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

/// The registrations and resources of the module, each undone when it is dropped. Fields are dropped in this order,
/// each before the fields that it uses.
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

/// The work at each tick of a CPU's timer.
struct Ticks;

impl Tick for Ticks {
    fn tick(here: ThisCpu<'_>) -> Option<NonZeroU64> {
        let next_tick_ns = Watch::tick(here);
        event::set_up_tampered(here);
        event::take_turns(here);
        next_tick_ns
    }
}

/// Returns the limits on the overflow interrupts of a CPU: their number, and the share of the CPU's time that they
/// take.
fn throttle_limits() -> Limits {
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
            // SAFETY: `Memory::new` must be called once, and its result must outlive all uses of per-CPU memory: `init`
            // runs once, and `Perfmon` drops the memory last.
            _memory: unsafe { percpu::Memory::new() }?,
            // SAFETY: `EventResources::new` must be called once, before there are events, and its result must outlive
            // all events and be dropped before the per-CPU memory. `init` runs once, before `_device` lets programs
            // open events; `Perfmon` drops `_events` after `_device` and before `_memory`.
            _events: unsafe { event::EventResources::new() }?,
            // SAFETY: `DirtyCounterCleaner::new` must be called once, by the program that loads the module, and its
            // result must outlive its users. That program runs `init`, once, and `Perfmon` drops the cleaner after its
            // users, `_cpus` and `_device`.
            _cleaner: unsafe { ownership::DirtyCounterCleaner::new() },
            _: {
                // SAFETY: `timer::init` must be called once, with the per-CPU memory allocated, and every timer must be
                // stopped before that memory is freed. `init` runs once; `_memory` has been allocated above; and
                // dropping `_device` and `_cpus`, which are dropped before `_memory`, stops every timer.
                unsafe { timer::init::<Ticks>() };
            },
            // SAFETY: `Handler::register` must be called once, after the per-CPU memory was allocated, which must
            // outlive the result: `init` runs once, `_memory` has been allocated above, and `Perfmon` drops `_memory`
            // after `_nmi`.
            _nmi: unsafe { nmi::Handler::register() }?,
            _: {
                if parameter(&module_parameters::unarbitrated) != 0 {
                    pr_notice!(
                        "unarbitrated=1 is ignored, because this version no longer needs it: remove it from your \
                         modprobe options\n"
                    );
                }
            },
            // SAFETY: `PlaceHolders::new` must be called once, before CPUs are used for counting, and its result must
            // be dropped when no counter has an owner. `init` runs once, and `cpus::init` below begins to use CPUs;
            // `Perfmon` drops the place-holders after `_cpus` and `_device`, which end all ownership.
            _place_holders: unsafe { ownership::PlaceHolders::new() },
            // SAFETY: `cpus::init` must be called once, before any other use of `cpus` and of `OWNERSHIP`: `init` runs
            // once, and the calls above use neither.
            _cpus: unsafe {
                cpus::init(
                    parameter(&module_parameters::placeholder) != 0,
                    parameter(&module_parameters::period_bits),
                    throttle_limits(),
                )
            }?,
            // SAFETY: `PowerNotifier::register` must be called once: `init` runs once.
            _power: unsafe { PowerNotifier::register() }?,
            _device <- device::register(),
        })
    }
}

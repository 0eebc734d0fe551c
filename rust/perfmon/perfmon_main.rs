// SPDX-License-Identifier: GPL-2.0-only
//! /dev/perfmon: the x86 performance-monitoring counters.
//!
//! Documentation/design.rst tells how the parts work together.

pub mod abi;
mod arbiter;
mod count;
mod counting;
mod cpu;
mod device;
mod error;
mod ffi;
mod ioctl;
pub mod logic;
mod msr;
mod pmu;
mod policy;
mod session;
mod uaccess;

use kernel::{miscdevice::MiscDeviceRegistration, prelude::*};

module! {
    type: Perfmon,
    name: "perfmon",
    authors: ["The perfmon developers"],
    description: "Performance-monitoring counters of x86 CPUs",
    license: "GPL v2",
    params: {
        unarbitrated: bool {
            default: false,
            description: "Load on a PMU that the kernel can't share between this module and perf",
        },
    },
}

/// The parts that have something to undo. They are dropped in this order: first the way in, last what
/// all others use.
#[pin_data]
struct Perfmon {
    #[pin]
    _device: MiscDeviceRegistration<session::Session>,
    _cpus: cpu::Hotplug<counting::Machine>,
    _slots: cpu::Slots,
}

impl kernel::InPlaceModule for Perfmon {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // SAFETY: The module is initialized once. `Perfmon` drops the slots after all else.
            _slots: unsafe { cpu::Slots::new() }?,
            // SAFETY: As above; the slots are there.
            _cpus: unsafe { counting::begin(module_parameters::unarbitrated.value()) }?,
            _device <- device::register(),
        })
    }
}

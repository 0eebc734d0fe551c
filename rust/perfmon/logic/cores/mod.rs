// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Properties of cores that CPUID does not report: a table for each core, one file for each family of cores.
//!
//! The tables are from Linux 7.3 (`arch/x86/events`). `cargo xtask cores` compares each entry with Linux's source. On
//! Intel's cores Linux counts some caches, mostly the last level and NUMA nodes, as offcore responses, which an extra
//! register selects: these cache events are missing here.

mod amd;
mod atom;
mod cache;
mod core2;
mod core_events;
mod extra;
mod golden_cove;
mod gracemont;
mod limit;
mod lion_cove;
mod memory;
mod nehalem;
mod panther_cove;
mod sandy_bridge;
mod skylake;

pub(super) use self::cache::{INVALID_EVENT, NO_EVENT};
pub(super) use self::core_events::Core;
pub(super) use self::limit::ALL_COUNTERS;

use self::extra::unsupported;
use self::limit::{event_and_unit, event_number, event_range};
use super::cpuid::Microarchitecture;

impl Core {
    /// A core whose events are not known. Each event that needs an extra register on some core may need one on this
    /// core. All other events are limited to the first four counters, as nearly all events with limits are.
    const UNKNOWN: Self = Self {
        extra_register_events: &[
            unsupported(event_range(0x2a, 0x2b)),
            unsupported(event_and_unit(0x0127)),
            unsupported(event_and_unit(0x0227)),
            unsupported(event_number(0x4f)),
            unsupported(event_number(0xb7)),
            unsupported(event_number(0xbb)),
            unsupported(event_number(0xc6)),
            unsupported(event_number(0xcd)),
            unsupported(event_and_unit(0x05d0)),
            unsupported(event_number(0xd6)),
            unsupported(event_and_unit(0x40ad)),
            unsupported(event_and_unit(0x04c2)),
        ],
        limits: &[(event_range(0, 0xff), 0xf)],
        precise_limits: &[golden_cove::INSTRUCTIONS_NOT_ON_0],
        ..Self::EMPTY
    };

    /// Returns the core of a microarchitecture.
    pub(super) const fn for_microarchitecture(microarchitecture: Microarchitecture) -> Self {
        use Microarchitecture as M;

        match microarchitecture {
            M::Unknown => Self::UNKNOWN,
            M::Core2 => core2::CORE_2,
            M::Nehalem => nehalem::NEHALEM,
            M::Westmere => nehalem::WESTMERE,
            M::SandyBridge => sandy_bridge::SANDY_BRIDGE,
            M::IvyBridge => sandy_bridge::IVY_BRIDGE,
            M::Haswell => sandy_bridge::HASWELL,
            M::Broadwell => sandy_bridge::BROADWELL,
            M::Skylake => skylake::SKYLAKE,
            M::IceLake => skylake::ICE_LAKE,
            M::GoldenCove => golden_cove::GOLDEN_COVE,
            M::RedwoodCove => golden_cove::REDWOOD_COVE,
            M::LionCove | M::CougarCove => lion_cove::LION_COVE,
            M::PantherCove | M::CoyoteCove => panther_cove::PANTHER_COVE,
            M::Bonnell => atom::BONNELL,
            M::Silvermont => atom::SILVERMONT,
            M::Goldmont => atom::GOLDMONT,
            M::GoldmontPlus => atom::GOLDMONT_PLUS,
            M::Tremont => atom::TREMONT,
            M::Gracemont => gracemont::GRACEMONT,
            M::Crestmont => gracemont::CRESTMONT,
            M::Skymont => gracemont::SKYMONT,
            M::Darkmont => gracemont::DARKMONT,
            M::ArcticWolf => gracemont::ARCTIC_WOLF,
            M::AmdBeforeZen | M::Bulldozer => amd::BEFORE_ZEN,
            M::Zen1 => amd::ZEN_1,
            M::Zen2 => amd::ZEN_2,
            M::Zen4 | M::Zen5 | M::Zen6 => amd::ZEN_4,
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Microarchitectures, as far as their events differ.

use super::Processor;

/// A group of processors that have the same events for what CPUID does not report.
///
/// Hybrid processors are [`Self::Unknown`]: all their cores have the same model, but not the same events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Microarchitecture {
    /// Any other: only architectural events are known.
    Unknown,
    /// Intel: Core 2.
    Core2,
    /// Intel: Nehalem.
    Nehalem,
    /// Intel: Westmere.
    Westmere,
    /// Intel: Sandy Bridge.
    SandyBridge,
    /// Intel: Ivy Bridge.
    IvyBridge,
    /// Intel: Haswell and Broadwell.
    Haswell,
    /// Intel: Skylake to Comet Lake, and the servers to Cooper Lake.
    Skylake,
    /// Intel: Ice Lake, Tiger Lake and Rocket Lake.
    IceLake,
    /// Intel: the servers Sapphire Rapids, Emerald Rapids and Granite Rapids.
    GoldenCove,
    /// AMD: families 0fh to 14h, and 16h.
    AmdBeforeZen,
    /// AMD: family 15h.
    Bulldozer,
    /// AMD: the first Zen; Hygon.
    Zen1,
    /// AMD: Zen 2 and 3.
    Zen2,
    /// AMD: Zen 4 and later.
    Zen4,
}

impl Microarchitecture {
    /// Returns the microarchitecture of both, or [`Self::Unknown`] if they differ.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        if self == other {
            self
        } else {
            Self::Unknown
        }
    }
}

impl Processor {
    /// Returns the microarchitecture.
    #[must_use]
    pub fn microarchitecture(&self) -> Microarchitecture {
        match (self.vendor_id, self.family()) {
            (Self::INTEL, 6) => intel(self.model()),
            (Self::AMD, family) => amd(family, self.model()),
            (Self::HYGON, _) => Microarchitecture::Zen1,
            _ => Microarchitecture::Unknown,
        }
    }
}

/// The models of family 6, as Linux perf groups them.
const fn intel(model: u32) -> Microarchitecture {
    use Microarchitecture as M;

    match model {
        0x0f | 0x16 | 0x17 | 0x1d => M::Core2,
        0x1a | 0x1e | 0x2e => M::Nehalem,
        0x25 | 0x2c | 0x2f => M::Westmere,
        0x2a | 0x2d => M::SandyBridge,
        0x3a | 0x3e => M::IvyBridge,
        0x3c | 0x3f | 0x45 | 0x46 | 0x3d | 0x47 | 0x4f | 0x56 => M::Haswell,
        0x4e | 0x5e | 0x55 | 0x8e | 0x9e | 0xa5 | 0xa6 => M::Skylake,
        0x6a | 0x6c | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7 => M::IceLake,
        0x8f | 0xcf | 0xad | 0xae => M::GoldenCove,
        _ => M::Unknown,
    }
}

/// The families, and the models of those that have several generations of cores.
const fn amd(family: u32, model: u32) -> Microarchitecture {
    use Microarchitecture as M;

    match (family, model) {
        (0x0f..=0x14 | 0x16, _) => M::AmdBeforeZen,
        (0x15, _) => M::Bulldozer,
        (0x17, 0x00..=0x2f | 0x50..=0x5f) => M::Zen1,
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => M::Zen4,
        (0x17 | 0x19, _) => M::Zen2,
        (0x1a.., _) => M::Zen4,
        _ => M::Unknown,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_microarchitecture)
)]
mod tests {
    use super::super::{dumps, NoPmu};
    use super::*;
    use Microarchitecture as M;

    #[test]
    fn intel_models() {
        assert_eq!(intel(0x5e), M::Skylake);
        assert_eq!(intel(0x8f), M::GoldenCove);
        // Alder Lake has two kinds of cores.
        assert_eq!(intel(0x97), M::Unknown);
        assert_eq!(intel(0x0e), M::Unknown);
    }

    #[test]
    fn amd_families() {
        assert_eq!(amd(0x10, 2), M::AmdBeforeZen);
        assert_eq!(amd(0x15, 2), M::Bulldozer);
        assert_eq!(amd(0x17, 0x01), M::Zen1);
        assert_eq!(amd(0x17, 0x31), M::Zen2);
        assert_eq!(amd(0x19, 0x01), M::Zen2);
        assert_eq!(amd(0x19, 0x11), M::Zen4);
        assert_eq!(amd(0x1a, 0x44), M::Zen4);
        assert_eq!(amd(6, 2), M::Unknown);
    }

    #[test]
    fn vendors_are_not_mixed_up() {
        // All of the processors that were recorded, except those without a PMU that is supported.
        assert_eq!(
            dumps::first_wrong(|dump, cpu| {
                let is_amd = matches!(
                    cpu.microarchitecture(),
                    M::AmdBeforeZen | M::Bulldozer | M::Zen1 | M::Zen2 | M::Zen4
                );
                dump.expected == Err(NoPmu::Vendor) || is_amd == (cpu.vendor_id[0] != b'G')
            }),
            None
        );
    }

    #[test]
    fn cpus_that_differ_are_unknown() {
        assert_eq!(M::Zen2.intersection(M::Zen2), M::Zen2);
        assert_eq!(M::Skylake.intersection(M::Haswell), M::Unknown);
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Microarchitectures, distinguished by their events.

use super::Processor;

/// A group of cores that have the same events, not counting the events that CPUID reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Microarchitecture {
    /// Any other core, or CPUs of different cores: only architectural events are known.
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
    /// Intel: Haswell.
    Haswell,
    /// Intel: Broadwell.
    Broadwell,
    /// Intel: Skylake to Comet Lake, and the servers to Cooper Lake.
    Skylake,
    /// Intel: Ice Lake, Tiger Lake and Rocket Lake.
    IceLake,
    /// Intel: Alder Lake, Raptor Lake and Bartlett Lake; the servers Sapphire Rapids and Emerald Rapids.
    GoldenCove,
    /// Intel: Meteor Lake and Arrow Lake-U; the server Granite Rapids.
    RedwoodCove,
    /// Intel: Arrow Lake and Lunar Lake.
    LionCove,
    /// Intel: Panther Lake and Wildcat Lake.
    CougarCove,
    /// Intel: the server Diamond Rapids.
    PantherCove,
    /// Intel: Nova Lake.
    CoyoteCove,
    /// Intel: the first Atoms, Bonnell and Saltwell.
    Bonnell,
    /// Intel: Silvermont and Airmont, Knights Landing and Knights Mill.
    Silvermont,
    /// Intel: Goldmont.
    Goldmont,
    /// Intel: Goldmont Plus.
    GoldmontPlus,
    /// Intel: Tremont.
    Tremont,
    /// Intel: Alder Lake-N, and the small cores beside Golden Cove.
    Gracemont,
    /// Intel: the servers Sierra Forest and Grand Ridge, the small cores beside Redwood Cove, and the cores of
    /// Arrow Lake-H's low-power island.
    Crestmont,
    /// Intel: the small cores beside Lion Cove.
    Skymont,
    /// Intel: the server Clearwater Forest, and the small cores beside Cougar Cove.
    Darkmont,
    /// Intel: the small cores beside Coyote Cove.
    ArcticWolf,
    /// AMD: families 0fh to 14h, and 16h.
    AmdBeforeZen,
    /// AMD: family 15h.
    Bulldozer,
    /// AMD: the first Zen; Hygon.
    Zen1,
    /// AMD: Zen 2 and 3.
    Zen2,
    /// AMD: Zen 4.
    Zen4,
    /// AMD: Zen 5.
    Zen5,
    /// AMD: Zen 6 and later.
    Zen6,
}

impl Microarchitecture {
    /// Returns this microarchitecture if `other` is the same, otherwise [`Self::Unknown`].
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
    /// Returns the microarchitecture of the core that executed CPUID.
    #[must_use]
    pub const fn microarchitecture(&self) -> Microarchitecture {
        match self.vendor_id {
            Self::INTEL => match intel_cores(self.family(), self.model()) {
                Cores::One(core) => core,
                Cores::Two { big, small } => self.core_of_kind(big, small),
            },
            Self::AMD => amd_core(self.family(), self.model()),
            Self::HYGON => Microarchitecture::Zen1,
            _ => Microarchitecture::Unknown,
        }
    }

    /// Returns `big` or `small`, whichever this core is. A machine whose cores are all of one kind has big cores.
    const fn core_of_kind(
        &self,
        big: Microarchitecture,
        small: Microarchitecture,
    ) -> Microarchitecture {
        /// The kinds in leaf 0x1a, EAX[31:24].
        const BIG: u32 = 0x40;
        const SMALL: u32 = 0x20;
        /// The model of a small core in EAX[23:0]: Crestmont. A low-power island has Crestmont even if the other small
        /// cores are Skymont.
        const CRESTMONT: u32 = 2;

        let leaf = self.core_kind.eax;
        match leaf >> 24 {
            BIG => big,
            SMALL if leaf & 0xff_ffff == CRESTMONT => Microarchitecture::Crestmont,
            SMALL => small,
            _ if self.is_hybrid() => Microarchitecture::Unknown,
            _ => big,
        }
    }
}

/// The cores of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cores {
    One(Microarchitecture),
    /// The cores of a hybrid processor, even if its small cores are off or missing.
    Two {
        big: Microarchitecture,
        small: Microarchitecture,
    },
}

/// Returns the cores of a family and model of Intel, as Linux perf groups them.
const fn intel_cores(family: u32, model: u32) -> Cores {
    use Microarchitecture as M;

    let core = match (family, model) {
        (6, 0x0f | 0x16 | 0x17 | 0x1d) => M::Core2,
        (6, 0x1a | 0x1e | 0x2e) => M::Nehalem,
        (6, 0x25 | 0x2c | 0x2f) => M::Westmere,
        (6, 0x2a | 0x2d) => M::SandyBridge,
        (6, 0x3a | 0x3e) => M::IvyBridge,
        (6, 0x3c | 0x3f | 0x45 | 0x46) => M::Haswell,
        (6, 0x3d | 0x47 | 0x4f | 0x56) => M::Broadwell,
        (6, 0x4e | 0x5e | 0x55 | 0x8e | 0x9e | 0xa5 | 0xa6) => M::Skylake,
        (6, 0x6a | 0x6c | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7) => M::IceLake,
        (6, 0x8f | 0xcf | 0xd7) => M::GoldenCove,
        (6, 0xad | 0xae) => M::RedwoodCove,
        (0x13, 0x01) => M::PantherCove,

        (6, 0x1c | 0x26 | 0x27 | 0x35 | 0x36) => M::Bonnell,
        (6, 0x37 | 0x4a | 0x4c | 0x4d | 0x57 | 0x5a | 0x75 | 0x85) => M::Silvermont,
        (6, 0x5c | 0x5f) => M::Goldmont,
        (6, 0x7a) => M::GoldmontPlus,
        (6, 0x86 | 0x96 | 0x9c) => M::Tremont,
        (6, 0xbe) => M::Gracemont,
        (6, 0xaf | 0xb6) => M::Crestmont,
        (6, 0xdd) => M::Darkmont,

        (6, 0x97 | 0x9a | 0xb7 | 0xba | 0xbf) => return two_kinds(M::GoldenCove, M::Gracemont),
        (6, 0xaa | 0xac | 0xb5) => return two_kinds(M::RedwoodCove, M::Crestmont),
        (6, 0xbd | 0xc5 | 0xc6) => return two_kinds(M::LionCove, M::Skymont),
        (6, 0xcc | 0xd5 | 0xe5) => return two_kinds(M::CougarCove, M::Darkmont),
        (0x12, 0x01 | 0x03) => return two_kinds(M::CoyoteCove, M::ArcticWolf),
        _ => M::Unknown,
    };
    Cores::One(core)
}

const fn two_kinds(big: Microarchitecture, small: Microarchitecture) -> Cores {
    Cores::Two { big, small }
}

/// Returns the core of a family of AMD, and of a model where the family has several generations of cores.
const fn amd_core(family: u32, model: u32) -> Microarchitecture {
    use Microarchitecture as M;

    match (family, model) {
        (0x0f..=0x14 | 0x16, _) => M::AmdBeforeZen,
        (0x15, _) => M::Bulldozer,
        (0x17, 0x00..=0x2f | 0x50..=0x5f) => M::Zen1,
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => M::Zen4,
        (0x17 | 0x19, _) => M::Zen2,
        (0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => M::Zen5,
        (0x1a.., _) => M::Zen6,
        _ => M::Unknown,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_microarchitecture)
)]
mod tests {
    use super::super::{dumps, Leaf};
    use super::*;
    use Microarchitecture as M;

    #[test]
    fn intel_models_have_their_cores() {
        assert_eq!(intel_cores(6, 0x5e), Cores::One(M::Skylake));
        assert_eq!(intel_cores(6, 0x56), Cores::One(M::Broadwell));
        assert_eq!(intel_cores(6, 0x8f), Cores::One(M::GoldenCove));
        assert_eq!(intel_cores(6, 0xae), Cores::One(M::RedwoodCove));
        assert_eq!(intel_cores(6, 0xb6), Cores::One(M::Crestmont));
        assert_eq!(intel_cores(6, 0xdd), Cores::One(M::Darkmont));
        assert_eq!(intel_cores(6, 0xe5), two_kinds(M::CougarCove, M::Darkmont));
        assert_eq!(
            intel_cores(0x12, 3),
            two_kinds(M::CoyoteCove, M::ArcticWolf)
        );
        assert_eq!(intel_cores(0x13, 1), Cores::One(M::PantherCove));
        assert_eq!(intel_cores(6, 0x0e), Cores::One(M::Unknown));
        assert_eq!(intel_cores(0x0f, 0x06), Cores::One(M::Unknown));
    }

    #[test]
    fn leaf_1a_distinguishes_cores_of_hybrids() {
        let core_with = |hybrid, kind| {
            let cpu = Processor::read(|leaf, _| {
                let eax = match leaf {
                    0 => 0x23,
                    1 => 0x000c_0652,
                    0x1a => kind,
                    _ => 0,
                };
                let edx = if leaf == 7 { hybrid } else { 0 };
                Leaf {
                    eax,
                    edx,
                    ..Leaf::default()
                }
            });
            Processor {
                vendor_id: Processor::INTEL,
                ..cpu
            }
            .microarchitecture()
        };
        assert_eq!(core_with(1 << 15, 0x4000_0003), M::LionCove);
        assert_eq!(core_with(1 << 15, 0x2000_0003), M::Skymont);
        // A small core of the low-power island.
        assert_eq!(core_with(1 << 15, 0x2000_0002), M::Crestmont);
        // Without the small cores there is no leaf 0x1a.
        assert_eq!(core_with(0, 0), M::LionCove);
        // A hypervisor may hide leaf 0x1a.
        assert_eq!(core_with(1 << 15, 0), M::Unknown);
    }

    #[test]
    fn dumps_have_the_expected_cores() {
        assert_eq!(
            dumps::first_mismatch(|dump, cpu| cpu.microarchitecture() == dump.core),
            None
        );
    }

    #[test]
    fn amd_families_have_their_cores() {
        assert_eq!(amd_core(0x10, 2), M::AmdBeforeZen);
        assert_eq!(amd_core(0x15, 2), M::Bulldozer);
        assert_eq!(amd_core(0x17, 0x01), M::Zen1);
        assert_eq!(amd_core(0x17, 0x31), M::Zen2);
        assert_eq!(amd_core(0x19, 0x01), M::Zen2);
        assert_eq!(amd_core(0x19, 0x11), M::Zen4);
        assert_eq!(amd_core(0x1a, 0x44), M::Zen5);
        assert_eq!(amd_core(0x1a, 0x50), M::Zen6);
        assert_eq!(amd_core(0x1b, 0), M::Zen6);
        assert_eq!(amd_core(6, 2), M::Unknown);
    }

    #[test]
    fn cpus_that_differ_are_unknown() {
        assert_eq!(M::Zen2.intersection(M::Zen2), M::Zen2);
        assert_eq!(M::Skylake.intersection(M::Haswell), M::Unknown);
    }
}

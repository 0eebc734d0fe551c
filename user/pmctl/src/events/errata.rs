// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errata of processors that make counts wrong, and that the driver does not work around.

use std::ops::RangeInclusive;

use perfmon::Pmu;
use perfmon::pmu::Microarchitecture;

/// An erratum.
#[derive(Debug)]
pub(crate) struct Erratum {
    core: Microarchitecture,
    /// The erratum's numbers in Intel's specification updates.
    pub(crate) name: &'static str,
    /// The numbers of the events whose counts are wrong; `None` if all counts of general counters are wrong.
    events: Option<RangeInclusive<u16>>,
    /// The erratum has an effect only if two threads share a core (Hyper-Threading).
    pub(crate) needs_hyper_threading: bool,
    /// The consequence for counts, as a sentence without a full stop.
    pub(crate) consequence: &'static str,
    /// Advice how to get correct counts.
    pub(crate) fix: &'static str,
}

impl Erratum {
    /// Returns the erratum that makes counts of memory events wrong. Linux's perf works around it: while a hardware
    /// thread counts a memory event, the other thread of the core does not use the counter of the same number
    /// (`intel_ht_bug()` in arch/x86/events/intel/core.c).
    const fn of_memory_events(core: Microarchitecture, name: &'static str) -> Self {
        Self {
            core,
            name,
            events: Some(0xd0..=0xd3),
            needs_hyper_threading: true,
            consequence: "with Hyper-Threading, a counter of a memory event (0xd0 to 0xd3, MEM_*) may miss events, and \
                          the counter of the same number on the core's other thread may count them",
            fix: "For these events boot with nosmt, or leave the other thread of the core idle.",
        }
    }

    /// Returns the erratum that makes all counts of general counters wrong. Linux's perf works around it: before perf
    /// adds an event, it runs certain other events on the counters (`intel_pmu_nhm_workaround()` in
    /// arch/x86/events/intel/core.c).
    const fn of_general_counters(core: Microarchitecture, name: &'static str) -> Self {
        Self {
            core,
            name,
            events: None,
            needs_hyper_threading: false,
            consequence: "a general counter may count wrong from the moment it is set up",
            fix: "Repeat the measurement (`pmctl stat -r 5`), and compare with an event that a fixed counter counts.",
        }
    }

    /// Returns whether `number` is one of the events that the erratum names. Returns false if the erratum names no
    /// events because all counts of general counters are wrong.
    pub(crate) fn affects_event(&self, number: u16) -> bool {
        self.events
            .as_ref()
            .is_some_and(|events| events.contains(&number))
    }
}

/// The errata, at most one for a core.
static ERRATA: [Erratum; 5] = [
    Erratum::of_general_counters(Microarchitecture::Nehalem, "AAK100, AAP53"),
    Erratum::of_general_counters(Microarchitecture::Westmere, "BD53"),
    Erratum::of_memory_events(Microarchitecture::SandyBridge, "BJ122"),
    Erratum::of_memory_events(Microarchitecture::IvyBridge, "BV98"),
    Erratum::of_memory_events(Microarchitecture::Haswell, "HSD29"),
];

/// Returns the erratum of a processor, if it has one.
pub(crate) fn find(pmu: &Pmu) -> Option<&'static Erratum> {
    ERRATA
        .iter()
        .find(|erratum| erratum.core == pmu.microarchitecture())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::machine::Leaves;

    /// Returns the name of the erratum of an Intel processor whose leaf 1 has `version` in EAX.
    fn name_for(version: u32) -> Option<&'static str> {
        let leaves = [
            (0, [0x16, 0x756e_6547, 0x6c65_746e, 0x4965_6e69]),
            (1, [version, 0, 0, 0]),
            (0xa, [0x0730_0403, 0, 0, 0x603]),
        ];
        find(&Pmu::from_cpuid(&Leaves::recorded(&leaves))).map(|erratum| erratum.name)
    }

    #[test]
    fn processors_have_their_errata() {
        // Signatures of processors: Bloomfield, Gulftown, the client and the server of Sandy Bridge, Ivy Bridge, the
        // client and the server of Haswell.
        assert_eq!(name_for(0x0001_06a5), Some("AAK100, AAP53"));
        assert_eq!(name_for(0x0002_06c2), Some("BD53"));
        assert_eq!(name_for(0x0002_06a7), Some("BJ122"));
        assert_eq!(name_for(0x0002_06d7), Some("BJ122"));
        assert_eq!(name_for(0x0003_06a9), Some("BV98"));
        assert_eq!(name_for(0x0003_06c3), Some("HSD29"));
        assert_eq!(name_for(0x0003_06f2), Some("HSD29"));
        // Penryn, Broadwell, Skylake.
        assert_eq!(name_for(0x0001_067a), None);
        assert_eq!(name_for(0x0003_06d4), None);
        assert_eq!(name_for(0x0005_06e3), None);
    }

    #[test]
    fn an_erratum_of_single_events_is_not_of_others() {
        let events_of = |core| {
            let erratum = ERRATA.iter().find(|erratum| erratum.core == core);
            let erratum = erratum.expect("it has one");
            (0..=0x1ff)
                .filter(|number| erratum.affects_event(*number))
                .collect::<Vec<u16>>()
        };
        assert_eq!(
            events_of(Microarchitecture::Haswell),
            [0xd0, 0xd1, 0xd2, 0xd3]
        );
        assert_eq!(events_of(Microarchitecture::Nehalem), [0; 0]);
    }

    #[test]
    fn no_core_has_two_errata() {
        for (index, erratum) in ERRATA.iter().enumerate() {
            assert!(
                ERRATA[..index]
                    .iter()
                    .all(|other| other.core != erratum.core)
            );
        }
    }
}

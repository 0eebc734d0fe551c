// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cache events that a PMU can count.
//!
//! The encodings come from the module (`rust/perfmon/logic/cache_events.rs`).

use perfmon_core::logic::cache_events::cache_event;

use super::cache_event::{CacheEvent, all_events};
use super::listed::{NOT_EMULATED_REASON, is_counted};
use super::on_counters::OnCounters;
use crate::pmu::{Microarchitecture, Pmu};

/// Returns the cache events that this PMU can count.
pub fn cache_events(pmu: &Pmu) -> impl Iterator<Item = CacheEvent> + '_ {
    all_events().filter(move |event| event.counters_on(pmu).is_some())
}

impl CacheEvent {
    /// Returns the counters of this PMU that can count the event; `None` if the CPU's table or QEMU's emulation lacks it.
    #[must_use]
    pub fn counters_on(self, pmu: &Pmu) -> Option<OnCounters> {
        let select = cache_event(self.config(), pmu.microarchitecture()).ok()?;
        OnCounters::of(select, pmu).filter(|_| is_counted(select, pmu))
    }

    /// Returns the reason why the PMU lacks the event, in sentences.
    pub(super) fn absence_reason(self, pmu: &Pmu) -> String {
        match pmu.microarchitecture() {
            Microarchitecture::Unknown => {
                "Linux has no table of cache events for this CPU model.".to_owned()
            }
            cpus if cache_event(self.config(), cpus).is_ok() && pmu.is_emulated() => {
                NOT_EMULATED_REASON.to_owned()
            }
            cpus if self.is_off_core() => format!(
                "Linux's table for this CPU ({cpus:?}) has no such event that needs no extra register: on many CPUs, \
                 last-level cache and NUMA node events need one (OFFCORE_RSP), which the driver writes for raw and listed \
                 events only."
            ),
            cpus => format!("Linux's table for this CPU ({cpus:?}) lacks the event."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventSelect;
    use crate::pmu::{Vendor, testing};

    #[test]
    fn processors_have_their_cores_events() {
        let encode = |model, name| {
            let pmu = Pmu::of_model(perfmon_events::model(model).expect("it is there"));
            let event = CacheEvent::find(name).expect("perf has it");
            let select = event.counters_on(&pmu).and_then(|counters| counters.select);
            select
                .map(EventSelect::bits)
                .ok_or_else(|| event.absence_reason(&pmu))
        };
        assert_eq!(
            encode("graniterapids", "L1-icache-load-misses"),
            Ok(0x3_e424)
        );
        assert_eq!(encode("alderlaken", "dTLB-store-misses"), Ok(0x3_0e49));
        assert_eq!(encode("clearwaterforest", "L1-icache-loads"), Ok(0x3_0380));
        assert_eq!(encode("silvermont", "iTLB-load-misses"), Ok(0x7_0205));
        assert_eq!(encode("amdzen6", "L1-dcache-load-misses"), Ok(0x3_c860));
        assert_eq!(
            encode("lunarlake-core", "L1-icache-load-misses"),
            Ok(0x3_e424)
        );
        assert_eq!(
            encode("lunarlake-atom", "L1-icache-load-misses"),
            Ok(0x3_0280)
        );
    }

    #[test]
    fn the_counters_are_those_of_the_modules_table() {
        let names = |pmu: &Pmu| cache_events(pmu).map(|e| e.to_string()).collect::<Vec<_>>();
        assert!(names(&testing::intel()).is_empty(), "its model is unknown");
        let skylake = names(&testing::skylake());
        assert!(skylake.contains(&"L1-dcache-loads".to_owned()));
        assert!(!skylake.contains(&"LLC-loads".to_owned()));
        assert!(names(&testing::amd()).contains(&"iTLB-load-misses".to_owned()));
        let emulated_pmus = [Vendor::Intel, Vendor::Amd].map(testing::emulated);
        let on_skylake = [
            "L1-dcache-loads",
            "L1-dcache-stores",
            "dTLB-loads",
            "dTLB-stores",
            "branch-loads",
        ];
        assert_eq!(
            emulated_pmus.map(|pmu| names(&pmu)),
            [&on_skylake[..], &["branch-loads"]]
        );
        let loads = CacheEvent::find("L1-dcache-loads").expect("perf has it");
        let counters = loads
            .counters_on(&testing::skylake())
            .expect("Skylake has it");
        assert_eq!(counters.select.map(EventSelect::bits), Some(0x3_81d0));
    }

    #[test]
    fn the_reason_names_the_table() {
        let llc = CacheEvent::find("LLC-loads").expect("perf has it");
        assert!(llc.absence_reason(&testing::skylake()).contains("Skylake"));
        assert!(
            llc.absence_reason(&testing::skylake())
                .contains("extra register")
        );
        assert!(llc.absence_reason(&testing::intel()).contains("no table"));
        let fetches = CacheEvent::find("L1-icache-loads").expect("perf has it");
        assert!(
            fetches
                .absence_reason(&testing::skylake())
                .contains("lacks the event")
        );
        let emulated_pmu = testing::emulated(Vendor::Intel);
        assert!(
            fetches
                .absence_reason(&emulated_pmu)
                .contains("lacks the event")
        );
        let misses = CacheEvent::find("L1-dcache-load-misses").expect("perf has it");
        assert_eq!(misses.counters_on(&emulated_pmu), None);
        assert!(
            misses
                .absence_reason(&emulated_pmu)
                .contains("QEMU's emulation")
        );
    }
}

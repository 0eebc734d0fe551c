// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events with a name that does not depend on the CPU's model: perf's names, and the vendors'
//! names.
//!
//! The encodings come from the module (`rust/perfmon/logic/{architectural,hardware}_events.rs`).
//! The events of the CPU's model are in `listed`.

use perfmon_core::abi;
use perfmon_core::logic::architectural_events::architectural_select;
use perfmon_core::logic::hardware_events::hardware_event;

use super::cache_event;
use super::listed::is_counted;
use super::meaning::Meaning;
use super::on_counters::OnCounters;
use crate::event::Encoding;
use crate::pmu::{Pmu, Vendor};

use Meaning as M;
use Vendor::{Amd, Intel};

/// An event that has a name of perf, a name of the vendor, or both.
#[derive(Debug)]
pub struct NamedEvent {
    vendor: Vendor,
    meaning: Meaning,
    /// The fixed counter, if these names mean an event that no general counter counts.
    only_fixed: Option<u8>,
    vendor_names: &'static [&'static str],
}

const fn general_event(
    vendor: Vendor,
    meaning: Meaning,
    vendor_names: &'static [&'static str],
) -> NamedEvent {
    NamedEvent {
        vendor,
        meaning,
        only_fixed: None,
        vendor_names,
    }
}

const fn fixed_event(
    meaning: Meaning,
    vendor_names: &'static [&'static str],
    counter: u8,
) -> NamedEvent {
    NamedEvent {
        vendor: Vendor::Intel,
        meaning,
        only_fixed: Some(counter),
        vendor_names,
    }
}

/// All named events.
#[rustfmt::skip]
const NAMED_EVENTS: &[NamedEvent] = &[
    general_event(Intel, M::Instructions, &["INST_RETIRED.ANY_P"]),
    general_event(Intel, M::Cycles, &["CPU_CLK_UNHALTED.THREAD_P", "CPU_CLK_UNHALTED.CORE_P"]),
    general_event(Intel, M::ReferenceCycles, &["CPU_CLK_UNHALTED.REF_TSC"]),
    general_event(Intel, M::BusCycles, &["CPU_CLK_UNHALTED.REF_XCLK", "CPU_CLK_UNHALTED.REF_P"]),
    general_event(Intel, M::CacheReferences, &["LONGEST_LAT_CACHE.REFERENCE"]),
    general_event(Intel, M::CacheMisses, &["LONGEST_LAT_CACHE.MISS"]),
    general_event(Intel, M::Branches, &["BR_INST_RETIRED.ALL_BRANCHES"]),
    general_event(Intel, M::BranchMisses, &["BR_MISP_RETIRED.ALL_BRANCHES"]),
    general_event(Intel, M::Slots, &["TOPDOWN.SLOTS_P"]),
    general_event(Intel, M::StalledFrontend, &[]),
    general_event(Intel, M::StalledBackend, &[]),
    fixed_event(M::Instructions, &["INST_RETIRED.ANY"], 0),
    fixed_event(M::Cycles, &["CPU_CLK_UNHALTED.THREAD", "CPU_CLK_UNHALTED.CORE"], 1),
    fixed_event(M::Slots, &["TOPDOWN.SLOTS"], FIXED_SLOTS),

    general_event(Amd, M::Instructions, &["ex_ret_instr"]),
    general_event(Amd, M::Cycles, &["ls_not_halted_cyc"]),
    general_event(Amd, M::ReferenceCycles, &[]),
    general_event(Amd, M::CacheReferences, &[]),
    general_event(Amd, M::CacheMisses, &[]),
    general_event(Amd, M::Branches, &["ex_ret_brn"]),
    general_event(Amd, M::BranchMisses, &["ex_ret_brn_misp"]),
    general_event(Amd, M::StalledFrontend, &[]),
    general_event(Amd, M::StalledBackend, &[]),
];

/// The fixed counter of slots.
const FIXED_SLOTS: u8 = 3;

impl NamedEvent {
    /// Returns the meaning.
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        self.meaning
    }

    /// Returns all names, the preferred name first.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let perf_names = match self.only_fixed {
            None => self.meaning.names(),
            Some(_) => &[],
        };
        perf_names.iter().chain(self.vendor_names).copied()
    }

    /// Returns the preferred name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.names().next().unwrap_or_default()
    }

    /// Returns the fixed counter, if these names mean an event that no general counter counts.
    #[must_use]
    pub fn only_fixed(&self) -> Option<u8> {
        self.only_fixed
    }

    /// Returns the counters of this PMU that can count the event; `None` if no counter can.
    #[must_use]
    pub fn counters_on(&self, pmu: &Pmu) -> Option<OnCounters> {
        let capabilities = pmu.capabilities().ok()?;
        if let Some(number) = self.only_fixed {
            return pmu.has_fixed(number).then_some(OnCounters {
                select: None,
                general: 0,
                fixed: Some(number),
            });
        }
        let select = match self.meaning.number() {
            Some(number) => {
                let cpus = pmu.microarchitecture();
                hardware_event(number, &capabilities, cpus).ok()
            }
            None => architectural_select(abi::PERFMON_ARCH_EVENT_TOPDOWN_SLOTS, &capabilities),
        };
        let select = select.filter(|select| is_counted(*select, pmu))?;
        let counters = OnCounters::of(select, pmu)?;
        let has_fixed_slots = self.meaning == M::Slots && pmu.has_fixed(FIXED_SLOTS);
        Some(OnCounters {
            fixed: counters.fixed.or(has_fixed_slots.then_some(FIXED_SLOTS)),
            ..counters
        })
    }

    /// Returns the encoding by which an event of a task is opened.
    pub(super) fn encoding(&self, counters: &OnCounters) -> Option<Encoding> {
        match (self.only_fixed, self.meaning.number()) {
            (Some(number), _) => Some(Encoding::Fixed(number)),
            (None, Some(number)) => Some(Encoding::Hardware(number)),
            (None, None) => counters.select.map(Encoding::Raw),
        }
    }
}

/// Default events; the CPU may lack some of them.
pub(super) const DEFAULT_EVENTS: &[Meaning] =
    &[M::Instructions, M::Cycles, M::Branches, M::BranchMisses];

/// Finds an event by its name; case does not matter.
pub(super) fn find(vendor: Vendor, name: &str) -> Option<&'static NamedEvent> {
    named_events(vendor).find(|event| event.names().any(|known| known.eq_ignore_ascii_case(name)))
}

/// Finds the event of this meaning among the events with perf's names.
pub(super) fn find_meaning(vendor: Vendor, meaning: Meaning) -> Option<&'static NamedEvent> {
    named_events(vendor).find(|event| event.meaning == meaning)
}

/// Names of software events, which the kernel counts, not the CPU.
const SOFTWARE_EVENTS: &[&str] = &[
    "task-clock",
    "cpu-clock",
    "page-faults",
    "faults",
    "minor-faults",
    "major-faults",
    "context-switches",
    "cs",
    "cpu-migrations",
    "migrations",
    "alignment-faults",
    "emulation-faults",
    "cgroup-switches",
    "bpf-output",
    "dummy",
    "duration_time",
    "user_time",
    "system_time",
];

/// Returns whether this is the name of a software event, which the kernel counts, not the CPU.
pub(super) fn is_software(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SOFTWARE_EVENTS.contains(&&*name)
}

/// Returns the known names that resemble `name` most, the closest first, from the tables and `listed`. The list is empty
/// if no name resembles it.
pub(super) fn nearest_names(
    vendor: Vendor,
    name: &str,
    listed: impl Iterator<Item = String>,
) -> Vec<String> {
    /// The smallest likeness at which two names count as similar.
    const MIN_LIKENESS: f64 = 0.75;
    const MAX_SUGGESTIONS: usize = 3;
    /// The largest length of a text that is compared with the known names. No event has a longer name, and comparing
    /// takes long.
    const MAX_NAME_LENGTH: usize = 100;
    if name.len() > MAX_NAME_LENGTH {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase();
    let known_names = named_events(vendor).flat_map(NamedEvent::names);
    let cache_events = cache_event::all_events().map(|event| event.to_string());
    let mut similar_names: Vec<(f64, String)> = known_names
        .map(str::to_owned)
        .chain(cache_events)
        .chain(listed)
        .map(|known| (likeness(&name, &known.to_ascii_lowercase()), known))
        .filter(|(likeness, _)| *likeness >= MIN_LIKENESS)
        .collect();
    similar_names.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut names: Vec<String> = Vec::new();
    for (_, known) in similar_names {
        // A name of the table may also be in the vendor's list.
        if !names
            .iter()
            .any(|earlier| earlier.eq_ignore_ascii_case(&known))
        {
            names.push(known);
        }
    }
    names.truncate(MAX_SUGGESTIONS);
    names
}

/// Returns the likeness of two names, from 0 to 1: 1 if `typed` is a prefix of `known`, else the normalized edit distance.
fn likeness(typed: &str, known: &str) -> f64 {
    if typed.len() >= 3 && known.starts_with(typed) {
        return 1.0;
    }
    strsim::normalized_damerau_levenshtein(typed, known)
}

/// Returns the named events that this vendor's CPUs may have, without cache events, which
/// [`cache_events`](super::cache_events) returns.
pub fn named_events(vendor: Vendor) -> impl Iterator<Item = &'static NamedEvent> {
    NAMED_EVENTS
        .iter()
        .filter(move |event| event.vendor == vendor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventSelect;
    use crate::pmu::testing;

    #[test]
    fn a_name_means_one_event() {
        for vendor in [Intel, Amd] {
            let known_names = named_events(vendor).flat_map(NamedEvent::names);
            let caches = cache_event::all_events().map(|event| event.to_string());
            let names = known_names.map(str::to_owned).chain(caches);
            let mut names: Vec<String> = names.map(|n| n.to_ascii_lowercase()).collect();
            let number_of_names = names.len();
            names.sort();
            names.dedup();
            assert_eq!(
                names.len(),
                number_of_names,
                "a name of {vendor:?} occurs twice"
            );
        }
    }

    #[test]
    fn each_of_perfs_numbers_has_a_name() {
        for number in 0..10 {
            let name = Meaning::name_of(number).expect("perf has it");
            let event = find(Intel, name).expect("it is in the table");
            assert_eq!(event.meaning().number(), Some(number));
        }
        assert_eq!(Meaning::name_of(10), None);
        assert_eq!(M::Slots.number(), None);
    }

    #[test]
    fn case_does_not_matter() {
        let event = find(Intel, "inst_retired.any_p").expect("it is Intel's");
        assert_eq!(event.name(), "instructions");
        assert!(find(Amd, "INST_RETIRED.ANY_P").is_none(), "it is not AMD's");
    }

    #[test]
    fn misspelt_names_get_suggestions() {
        assert_eq!(
            nearest_names(Intel, "instrucions", std::iter::empty())[0],
            "instructions"
        );
        assert_eq!(
            nearest_names(Intel, "branchmisses", std::iter::empty())[0],
            "branch-misses"
        );
        assert_eq!(
            nearest_names(Intel, "inst_ret", std::iter::empty())[0],
            "INST_RETIRED.ANY_P"
        );
        assert_eq!(
            nearest_names(Amd, "l1-dcache-load", std::iter::empty())[0],
            "L1-dcache-loads"
        );
        assert!(nearest_names(Intel, "zzzzzz", std::iter::empty()).is_empty());
    }

    #[test]
    fn the_default_events_exist_for_every_vendor() {
        for vendor in [Intel, Amd] {
            assert!(
                DEFAULT_EVENTS
                    .iter()
                    .all(|m| find_meaning(vendor, *m).is_some())
            );
        }
    }

    #[test]
    fn the_counters_are_those_of_the_module() {
        let counters_of = |pmu: &Pmu, name| {
            let counters = find(pmu.vendor(), name)?.counters_on(pmu)?;
            let bits = counters.select.map(EventSelect::bits);
            Some((bits, counters.general, counters.fixed))
        };
        let intel = testing::intel();
        assert_eq!(
            counters_of(&intel, "instructions"),
            Some((Some(0x3_00c0), 0xff, Some(0)))
        );
        assert_eq!(counters_of(&intel, "ref-cycles"), Some((None, 0, Some(2))));
        assert_eq!(counters_of(&intel, "cache-misses"), None);
        assert_eq!(
            counters_of(&intel, "INST_RETIRED.ANY"),
            Some((None, 0, Some(0)))
        );
        assert_eq!(counters_of(&intel, "TOPDOWN.SLOTS"), None);
        let amd = testing::amd();
        assert_eq!(
            counters_of(&amd, "ref-cycles"),
            Some((Some(0x1_0003_0120), 0x3f, None))
        );
        assert_eq!(
            counters_of(&amd, "branches"),
            Some((Some(0x3_00c2), 0x3f, None))
        );
    }

    #[test]
    fn an_emulation_lacks_events_that_it_does_not_count() {
        let is_counted = |vendor, name| {
            let event = find(vendor, name).expect("it is in the table");
            event.counters_on(&testing::emulated(vendor)).is_some()
        };
        for name in ["instructions", "cycles", "ref-cycles", "branches"] {
            assert!(is_counted(Intel, name) && is_counted(Amd, name), "{name}");
        }
        for name in ["branch-misses", "cache-references", "cache-misses"] {
            assert!(!is_counted(Intel, name) && !is_counted(Amd, name), "{name}");
        }
        assert!(is_counted(Intel, "bus-cycles"));
    }
}

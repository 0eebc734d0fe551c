// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf's names of loads and stores, which `perf mem record` samples: `mem-loads` and `mem-stores`.
//!
//! Linux defines these names for each core (`EVENT_ATTR_STR` in arch/x86/events/intel/core.c). This
//! module finds the vendor's names for the same events in the list of the model.

use perfmon_events::{Event, Model};

const LOADS: &str = "mem-loads";
const STORES: &str = "mem-stores";

/// The smallest latency of `mem-loads` in cycles.
const MIN_LATENCY: u64 = 3;

/// The vendor's names of perf's loads and stores. A model uses the first row if it has both events
/// of the row, or else the next row.
const VENDOR_NAMES: [(&str, &str); 5] = [
    // Golden Cove and later.
    (
        "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4",
        "MEM_TRANS_RETIRED.STORE_SAMPLE",
    ),
    // Sandy Bridge, Ivy Bridge.
    (
        "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4",
        "MEM_TRANS_RETIRED.PRECISE_STORE",
    ),
    // Haswell, Broadwell.
    (
        "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4",
        "MEM_UOPS_RETIRED.ALL_STORES",
    ),
    // Skylake to Ice Lake.
    (
        "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4",
        "MEM_INST_RETIRED.ALL_STORES",
    ),
    // Gracemont and later.
    (
        "MEM_UOPS_RETIRED.LOAD_LATENCY_GT_4",
        "MEM_UOPS_RETIRED.STORE_LATENCY",
    ),
];

/// Returns the event that perf's name means on a model; `None` for other names, and if the model lacks the event.
pub(super) fn find(name: &str, model: &Model) -> Option<Event> {
    access_kind(name)?;
    let name = name.to_ascii_lowercase();
    let mut rows = VENDOR_NAMES.iter();
    let (mut loads, stores) =
        rows.find_map(|(loads, stores)| Some((model.event(loads)?, model.event(stores)?)))?;
    if let Some(extra) = &mut loads.extra {
        extra.value = MIN_LATENCY;
    }
    let mut event = if name == LOADS { loads } else { stores };
    event.name = name;
    Some(event)
}

/// Returns `load` or `store` for perf's name of loads or stores; `None` for other names.
pub(super) fn access_kind(name: &str) -> Option<&'static str> {
    let kinds = [(LOADS, "load"), (STORES, "store")];
    let mut kinds = kinds.into_iter();
    kinds.find_map(|(known, kind)| name.eq_ignore_ascii_case(known).then_some(kind))
}

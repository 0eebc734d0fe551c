// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Events of Intel's cores whose precise samples describe an access to memory, and the codes for the source of the data
//! (Linux: `intel_*_pebs_event_constraints` and `*pebs_data_source` in arch/x86/events/intel/ds.c).

use super::super::memory_access::data_source::{
    LVLNUM_ANY_CACHE, LVLNUM_L1, LVLNUM_L2, LVLNUM_L2_MHB, LVLNUM_L3, LVLNUM_LFB, LVLNUM_MSC,
    LVLNUM_NA, LVLNUM_RAM, LVL_HIT, LVL_IO, LVL_L1, LVL_L2, LVL_L3, LVL_LFB, LVL_LOC_RAM, LVL_MISS,
    LVL_REM_CCE1, LVL_REM_RAM1, LVL_UNC, REMOTE, SNOOPX_FWD, SNOOP_HIT, SNOOP_HITM, SNOOP_MISS,
    SNOOP_NA, SNOOP_NONE,
};
use super::super::memory_access::{meanings_of_bytes, ByteMeanings, Source, SourceFlags, RESERVED};
use super::limit::{event_and_unit, event_range, Events};

/// Events whose precise samples describe an access to memory.
pub(in super::super) struct MemoryEvents {
    pub(in super::super) events: Events,
    /// The source of the data; `None` if records have the source only while the core also counts another event.
    pub(in super::super) source: Option<&'static Source>,
    /// The events count loads of at least a latency ([`load_latency`](super::extra::load_latency)).
    pub(in super::super) has_threshold: bool,
}

impl MemoryEvents {
    const fn new(events: Events, source: &'static Source) -> Self {
        Self {
            events,
            source: Some(source),
            has_threshold: false,
        }
    }
}

/// Returns the event of loads of at least a given latency.
pub(super) const fn slow_loads(mask_and_number: u16, source: &'static Source) -> MemoryEvents {
    MemoryEvents {
        has_threshold: true,
        ..MemoryEvents::new(event_and_unit(mask_and_number), source)
    }
}

/// Returns the event of loads of at least a given latency, on a core whose records have the source only while the core also
/// counts the event 0x8203.
pub(super) const fn slow_loads_without_source(mask_and_number: u16) -> MemoryEvents {
    MemoryEvents {
        events: event_and_unit(mask_and_number),
        source: None,
        has_threshold: true,
    }
}

/// Returns the event of stores and their latencies.
pub(super) const fn stores_with_latency(
    mask_and_number: u16,
    source: &'static Source,
) -> MemoryEvents {
    MemoryEvents::new(event_and_unit(mask_and_number), source)
}

/// Returns events of loads whose records have no source.
const fn loads(events: Events) -> MemoryEvents {
    MemoryEvents::new(events, Source::LOAD)
}

/// Returns an event of stores whose records show only whether the store hit the L1 cache.
pub(super) const fn stores(mask_and_number: u16) -> MemoryEvents {
    MemoryEvents::new(event_and_unit(mask_and_number), Source::STORE)
}

/// MEM_INST_RETIRED.STLB_MISS_LOADS, LOCK_LOADS, SPLIT_LOADS and ALL_LOADS, the corresponding events of stores except
/// LOCK_STORES, and MEM_LOAD_RETIRED to MEM_LOAD_MISC_RETIRED, or to MEM_LOAD_L3_MISS_RETIRED, whose number is
/// `last_load`.
pub(super) const fn loads_and_stores(last_load: u8) -> [MemoryEvents; 8] {
    [
        loads(event_and_unit(0x11d0)),
        loads(event_and_unit(0x21d0)),
        loads(event_and_unit(0x41d0)),
        loads(event_and_unit(0x81d0)),
        stores(0x12d0),
        stores(0x42d0),
        stores(0x82d0),
        loads(event_range(0xd1, last_load)),
    ]
}

/// The sources of data (`PERF_MEM_*`), by the code in the processor's record.
type Sources = [u64; 16];

/// The sources on cores before Skylake. The tables of later cores are made from this table.
const PRE_SKYLAKE_SOURCES: Sources = [
    LVL_MISS | LVLNUM_L3 | SNOOP_NA,
    LVL_HIT | LVL_L1 | LVLNUM_L1 | SNOOP_NONE,
    LVL_HIT | LVL_LFB | LVLNUM_LFB | SNOOP_NONE,
    LVL_HIT | LVL_L2 | LVLNUM_L2 | SNOOP_NONE,
    L3_HIT | SNOOP_NONE,
    L3_HIT | SNOOP_MISS,
    L3_HIT | SNOOP_HIT,
    L3_HIT | SNOOP_HITM,
    LVL_HIT | LVL_REM_CCE1 | REMOTE | LVLNUM_L3 | SNOOP_HIT,
    LVL_HIT | LVL_REM_CCE1 | REMOTE | LVLNUM_L3 | SNOOP_HITM,
    LOCAL_RAM | SNOOP_HIT,
    LVL_HIT | LVL_REM_RAM1 | REMOTE | LVLNUM_L3 | SNOOP_HIT,
    LOCAL_RAM | SNOOP_NONE | SNOOP_MISS,
    LVL_HIT | LVL_REM_RAM1 | LVLNUM_RAM | REMOTE | SNOOP_NONE | SNOOP_MISS,
    LVL_HIT | LVL_IO | LVLNUM_NA | SNOOP_NONE,
    LVL_HIT | LVL_UNC | LVLNUM_NA | SNOOP_NONE,
];

const L3_HIT: u64 = LVL_HIT | LVL_L3 | LVLNUM_L3;
const LOCAL_RAM: u64 = LVL_HIT | LVL_LOC_RAM | LVLNUM_RAM;
const REMOTE_RAM: u64 = LVL_HIT | LVLNUM_RAM | REMOTE;
const REMOTE_CACHE: u64 = LVL_HIT | LVLNUM_ANY_CACHE | REMOTE;

/// Returns [`PRE_SKYLAKE_SOURCES`] with other sources for some codes.
const fn pre_skylake_sources_with(others: &[(usize, u64)]) -> Sources {
    let mut sources = PRE_SKYLAKE_SOURCES;
    let mut n = 0;
    while n < others.len() {
        let (code, source) = others[n];
        sources[code] = source;
        n += 1;
    }
    sources
}

/// Skylake to Redwood Cove. Codes 8 and 9 are persistent memory on servers and a cache of the fourth level on other
/// processors. This table does not tell these apart, so samples show no level.
const SKYLAKE_SOURCES: Sources = pre_skylake_sources_with(&[
    (0x8, LVL_HIT | LVLNUM_NA | SNOOP_HIT),
    (0x9, LVL_HIT | LVLNUM_NA | REMOTE | SNOOP_HIT),
    (0xb, REMOTE_RAM | SNOOP_NONE),
    (0xc, REMOTE_CACHE | SNOOPX_FWD),
    (0xd, REMOTE_CACHE | SNOOP_HITM),
]);

const GRACEMONT_SOURCES: Sources = pre_skylake_sources_with(&[
    (0x5, L3_HIT | SNOOP_HIT),
    (0x6, L3_HIT | SNOOP_HITM),
    (0x8, L3_HIT | SNOOPX_FWD),
]);

const CRESTMONT_SOURCES: Sources = pre_skylake_sources_with(&[
    (0x7, L3_HIT | SNOOPX_FWD),
    (0x8, L3_HIT | SNOOP_HITM),
    (0xa, LOCAL_RAM | SNOOP_NONE),
    (0xb, REMOTE_RAM | SNOOP_NONE),
    (0xc, REMOTE_RAM | SNOOPX_FWD),
    (0xd, REMOTE_RAM | SNOOP_HITM),
]);

const LION_COVE_SOURCES: [u64; 18] = [
    LVL_MISS | LVLNUM_L3 | SNOOP_NA,
    LVL_HIT | LVL_L1 | LVLNUM_L1 | SNOOP_NONE,
    LVL_HIT | LVL_L1 | LVLNUM_L1 | SNOOP_NONE,
    LVL_HIT | LVL_LFB | LVLNUM_LFB | SNOOP_NONE,
    RESERVED,
    LVL_HIT | LVL_L2 | LVLNUM_L2 | SNOOP_NONE,
    LVL_HIT | LVLNUM_L2_MHB | SNOOP_NONE,
    RESERVED,
    L3_HIT | SNOOP_NONE,
    RESERVED,
    RESERVED,
    RESERVED,
    L3_HIT | SNOOPX_FWD,
    L3_HIT | SNOOP_HITM,
    RESERVED,
    LVL_MISS | LVL_L3 | LVLNUM_L3 | SNOOP_HITM,
    LVL_HIT | LVLNUM_MSC | SNOOP_NONE,
    LOCAL_RAM | SNOOP_NONE,
];

static SKYLAKE_BYTES: ByteMeanings = meanings_of_bytes(&SKYLAKE_SOURCES, 0xf);
static GRACEMONT_BYTES: ByteMeanings = meanings_of_bytes(&GRACEMONT_SOURCES, 0xf);
static CRESTMONT_BYTES: ByteMeanings = meanings_of_bytes(&CRESTMONT_SOURCES, 0xf);
static LION_COVE_BYTES: ByteMeanings = meanings_of_bytes(&LION_COVE_SOURCES, 0xff);

const SKYLAKE_FLAGS: SourceFlags = SourceFlags {
    shift: 4,
    tlb_miss: 1 << 4,
    locked: 1 << 5,
    data_blocked: 0,
    address_blocked: 0,
};

const GOLDEN_COVE_FLAGS: SourceFlags = SourceFlags {
    data_blocked: 1 << 6,
    address_blocked: 1 << 7,
    ..SKYLAKE_FLAGS
};

const GRACEMONT_FLAGS: SourceFlags = SourceFlags {
    shift: 4,
    tlb_miss: 1 << 5,
    locked: 1 << 4,
    data_blocked: 1 << 6,
    address_blocked: 0,
};

/// Crestmont and Skymont.
const CRESTMONT_FLAGS: SourceFlags = SourceFlags {
    shift: 4,
    tlb_miss: 1 << 6,
    locked: 1 << 5,
    data_blocked: 1 << 7,
    address_blocked: 0,
};

const LION_COVE_FLAGS: SourceFlags = SourceFlags {
    shift: 10,
    tlb_miss: 1 << 10,
    locked: 1 << 11,
    data_blocked: 1 << 12,
    address_blocked: 1 << 13,
};

/// Loads of Skylake and Ice Lake.
pub(super) static SKYLAKE_LOADS: Source = Source::of_loads(&SKYLAKE_BYTES, SKYLAKE_FLAGS);
/// Loads of Golden Cove and Redwood Cove.
pub(super) static GOLDEN_COVE_LOADS: Source = Source::of_loads(&SKYLAKE_BYTES, GOLDEN_COVE_FLAGS);
/// Stores of Golden Cove and Redwood Cove.
pub(super) static GOLDEN_COVE_STORES: Source = Source::of_stores(&SKYLAKE_BYTES, SKYLAKE_FLAGS);
pub(super) static GRACEMONT_LOADS: Source = Source::of_loads(&GRACEMONT_BYTES, GRACEMONT_FLAGS);
pub(super) static GRACEMONT_STORES: Source = Source::of_stores(&GRACEMONT_BYTES, GRACEMONT_FLAGS);
/// Loads of Crestmont and Skymont.
pub(super) static CRESTMONT_LOADS: Source = Source::of_loads(&CRESTMONT_BYTES, CRESTMONT_FLAGS);
/// Stores of Crestmont and Skymont.
pub(super) static CRESTMONT_STORES: Source = Source::of_stores(&CRESTMONT_BYTES, CRESTMONT_FLAGS);
pub(super) static LION_COVE_LOADS: Source = Source::of_loads(&LION_COVE_BYTES, LION_COVE_FLAGS);
pub(super) static LION_COVE_STORES: Source = Source::of_stores(&LION_COVE_BYTES, LION_COVE_FLAGS);

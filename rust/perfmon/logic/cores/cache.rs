// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tables of cache events: for each cache the encodings of its events.

/// The events of one cache, as event selects without modes: accesses and misses of reads, accesses and misses of
/// writes, accesses and misses of prefetches.
pub(in super::super) type CacheRow = [u32; 6];

/// The caches in the order of `enum perf_hw_cache_id`: L1D, L1I, LL, DTLB, ITLB, BPU, NODE.
pub(in super::super) type CacheTable = [CacheRow; 7];

/// The encoding of an event that these processors lack.
pub(in super::super) const NO_EVENT: u32 = 0;
/// The encoding of an event that makes no sense, such as a write to an instruction cache.
pub(in super::super) const INVALID_EVENT: u32 = u32::MAX;

/// The row of a cache without events.
pub(super) const NO_EVENT_ROW: CacheRow = [NO_EVENT; 6];

/// Returns the row of a cache that is only read.
pub(super) const fn read_only_row(accesses: u32, misses: u32) -> CacheRow {
    [
        accesses,
        misses,
        INVALID_EVENT,
        INVALID_EVENT,
        INVALID_EVENT,
        INVALID_EVENT,
    ]
}

/// Returns the row of a cache of instructions.
pub(super) const fn instruction_row(accesses: u32, misses: u32) -> CacheRow {
    [
        accesses,
        misses,
        INVALID_EVENT,
        INVALID_EVENT,
        NO_EVENT,
        NO_EVENT,
    ]
}

/// Returns a row without prefetches.
pub(super) const fn read_write_row(reads: [u32; 2], writes: [u32; 2]) -> CacheRow {
    [reads[0], reads[1], writes[0], writes[1], NO_EVENT, NO_EVENT]
}

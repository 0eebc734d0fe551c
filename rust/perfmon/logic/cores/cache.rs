// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Tables of cache events: for each cache the encodings of its events.

/// The events of one cache, as event selects without modes: accesses and misses of reads, accesses and misses of
/// writes, accesses and misses of prefetches.
pub(in super::super) type Row = [u32; 6];

/// The caches in the order of `enum perf_hw_cache_id`: L1D, L1I, LL, DTLB, ITLB, BPU, NODE.
pub(in super::super) type CacheTable = [Row; 7];

/// The encoding of an event that these processors lack.
pub(in super::super) const NONE: u32 = 0;
/// The encoding of an event that makes no sense, such as a write to an instruction cache.
pub(in super::super) const WRONG: u32 = u32::MAX;

/// The row of a cache without events.
pub(super) const NO_EVENTS: Row = [NONE; 6];

/// Returns the row of a cache that is only read.
pub(super) const fn reads(accesses: u32, misses: u32) -> Row {
    [accesses, misses, WRONG, WRONG, WRONG, WRONG]
}

/// Returns the row of a cache of instructions.
pub(super) const fn fetches(accesses: u32, misses: u32) -> Row {
    [accesses, misses, WRONG, WRONG, NONE, NONE]
}

/// Returns a row without prefetches.
pub(super) const fn reads_and_writes(reads: [u32; 2], writes: [u32; 2]) -> Row {
    [reads[0], reads[1], writes[0], writes[1], NONE, NONE]
}

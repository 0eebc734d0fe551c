// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf's names of cache events: `L1-dcache-loads`, `LLC-load-misses`, `branch-loads`.

use std::fmt;

/// An event of a cache, of a translation look-aside buffer or of branch prediction: `PERF_TYPE_HW_CACHE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheEvent {
    cache: usize,
    operation: usize,
    is_miss: bool,
}

/// The caches in the order of perf's numbers, each with the operations that make sense for it.
const CACHES: [(&str, &[usize]); 7] = [
    ("L1-dcache", &[LOAD, STORE, PREFETCH]),
    ("L1-icache", &[LOAD, PREFETCH]),
    ("LLC", &[LOAD, STORE, PREFETCH]),
    ("dTLB", &[LOAD, STORE, PREFETCH]),
    ("iTLB", &[LOAD]),
    ("branch", &[LOAD]),
    ("node", &[LOAD, STORE, PREFETCH]),
];

const LOAD: usize = 0;
const STORE: usize = 1;
const PREFETCH: usize = 2;

/// For each operation in the order of perf's numbers, the name of all accesses and the name of misses.
const OPERATIONS: [[&str; 2]; 3] = [
    ["loads", "load-misses"],
    ["stores", "store-misses"],
    ["prefetches", "prefetch-misses"],
];

/// Words that perf accepts for the caches, in the order of [`CACHES`]. perf's word `L2` for the last level is left out,
/// because the last level is rarely the second.
const CACHE_WORDS: [&[&str]; 7] = [
    &["l1-dcache", "l1-data", "l1-d", "l1d"],
    &["l1-icache", "l1-instruction", "l1-i", "l1i"],
    &["llc"],
    &["dtlb", "d-tlb", "data-tlb"],
    &["itlb", "i-tlb", "instruction-tlb"],
    &["branch", "branches", "bpu", "btb", "bpc"],
    &["node"],
];

/// Words that perf accepts for the operations, in the order of perf's numbers.
const OPERATION_WORDS: [&[&str]; 3] = [
    &["-loads", "-load", "-read"],
    &["-stores", "-store", "-write"],
    &[
        "-prefetches",
        "-prefetch",
        "-speculative-read",
        "-speculative-load",
    ],
];

/// The words that perf accepts for the result "all accesses".
const ACCESS_WORDS: [&str; 5] = ["", "-refs", "-reference", "-ops", "-access"];
/// The words that perf accepts for the result "misses".
const MISS_WORDS: [&str; 2] = ["-misses", "-miss"];

/// Parses the name after the cache: an optional operation, and its result.
fn parse_operation_and_result(rest: &str) -> Option<(usize, bool)> {
    let words = (0..).zip(OPERATION_WORDS);
    let mut pairs = words.flat_map(|(operation, words)| words.iter().map(move |w| (operation, w)));
    pairs
        .find_map(|(operation, word)| Some((operation, is_miss(rest.strip_prefix(word)?)?)))
        .or_else(|| Some((LOAD, is_miss(rest)?)))
}

/// Returns whether the word of a result means a miss; `None` if no result has the word.
fn is_miss(result: &str) -> Option<bool> {
    let is_miss = MISS_WORDS.contains(&result);
    (is_miss || ACCESS_WORDS.contains(&result)).then_some(is_miss)
}

/// The indices of the last-level cache and of the NUMA nodes in [`CACHES`]. On Intel, their events
/// need an extra register.
const OFF_CORE_CACHES: [usize; 2] = [2, 6];

/// Returns all cache events that perf names.
pub(super) fn all_events() -> impl Iterator<Item = CacheEvent> {
    (0..).zip(CACHES).flat_map(|(cache, (_, operations))| {
        operations.iter().flat_map(move |operation| {
            [false, true].map(|is_miss| CacheEvent {
                cache,
                operation: *operation,
                is_miss,
            })
        })
    })
}

impl CacheEvent {
    /// Finds an event by its name, in any of the words that perf accepts; case does not matter.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let (cache, rest) = (0..).zip(CACHE_WORDS).find_map(|(cache, words)| {
            let mut remainders = words.iter().filter_map(|word| name.strip_prefix(word));
            let rest = remainders.find(|rest| rest.is_empty() || rest.starts_with('-'))?;
            Some((cache, rest))
        })?;
        let (operation, is_miss) = parse_operation_and_result(rest)?;
        let event = Self {
            cache,
            operation,
            is_miss,
        };
        all_events().find(|existing| *existing == event)
    }

    /// Returns the event with perf's number `config`.
    pub(crate) fn from_config(config: u32) -> Option<Self> {
        all_events().find(|event| event.config() == config)
    }

    /// Returns perf's number of the event, the `config` of `PERF_TYPE_HW_CACHE`.
    #[must_use]
    pub fn config(self) -> u32 {
        let [cache, operation] =
            [self.cache, self.operation].map(|part| u32::try_from(part).unwrap_or(u32::MAX));
        cache | operation << 8 | u32::from(self.is_miss) << 16
    }

    /// Returns whether the event is of the last-level cache or of NUMA nodes. Such an event needs
    /// an extra register on Intel.
    pub(super) fn is_off_core(self) -> bool {
        OFF_CORE_CACHES.contains(&self.cache)
    }
}

impl fmt::Display for CacheEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cache, _) = CACHES[self.cache];
        let operation = OPERATIONS[self.operation][usize::from(self.is_miss)];
        write!(f, "{cache}-{operation}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_perfs_numbers() {
        let table = [
            ("L1-dcache-loads", 0x00000),
            ("l1-dcache-load-misses", 0x1_0000),
            ("L1-dcache-stores", 0x00100),
            ("L1-dcache-prefetch-misses", 0x1_0200),
            ("L1-icache-load-misses", 0x1_0001),
            ("LLC-loads", 0x00002),
            ("LLC-store-misses", 0x1_0102),
            ("dTLB-load-misses", 0x1_0003),
            ("iTLB-loads", 0x00004),
            ("branch-loads", 0x00005),
            ("branch-load-misses", 0x1_0005),
            ("node-prefetches", 0x00206),
        ];
        for (name, config) in table {
            let event = CacheEvent::find(name).expect("perf has it");
            assert_eq!(event.config(), config, "{name}");
            assert_eq!(CacheEvent::from_config(config), Some(event));
            assert!(event.to_string().eq_ignore_ascii_case(name));
        }
        for name in [
            "L1-icache-stores",
            "branch-stores",
            "LLC-",
            "LLCs",
            "L1-dcache-load-loads",
            "L2-loads",
        ] {
            assert_eq!(CacheEvent::find(name), None, "{name}");
        }
        assert_eq!(all_events().count(), 32);
    }

    #[test]
    fn other_words_of_perfs_mean_the_same() {
        let table = [
            ("L1-dcache", "L1-dcache-loads"),
            ("L1-dcache-misses", "L1-dcache-load-misses"),
            ("l1d-read-miss", "L1-dcache-load-misses"),
            ("L1-d-loads", "L1-dcache-loads"),
            ("L1-dcache-loads-misses", "L1-dcache-load-misses"),
            ("L1-dcache-load-refs", "L1-dcache-loads"),
            ("l1i-misses", "L1-icache-load-misses"),
            ("LLC-write", "LLC-stores"),
            ("Data-TLB-speculative-read", "dTLB-prefetches"),
            ("bpu-misses", "branch-load-misses"),
            ("branches-loads", "branch-loads"),
        ];
        for (name, plain) in table {
            let event = CacheEvent::find(name).expect(name);
            assert_eq!(event.to_string(), plain, "{name}");
        }
        for event in all_events() {
            assert_eq!(CacheEvent::find(&event.to_string()), Some(event));
        }
    }
}

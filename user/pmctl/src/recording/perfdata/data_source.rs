// SPDX-License-Identifier: MIT OR Apache-2.0
//! `union perf_mem_data_src`: where the data of a memory access came from, in perf's words
//! (tools/perf/util/mem-events.c).

use std::fmt;

use perfmon_core::logic::memory_access;

/// A value of `union perf_mem_data_src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DataSource(pub(crate) u64);

impl Default for DataSource {
    /// Returns the value of samples without a source, which is the same in the kernel and in perf.
    fn default() -> Self {
        Self(memory_access::data_source::NOT_AVAILABLE)
    }
}

/// A member of the union's bit field.
#[derive(Clone, Copy)]
struct BitField {
    shift: u32,
    width: u32,
}

impl BitField {
    const fn new(shift: u32, width: u32) -> Self {
        Self { shift, width }
    }
}

/// `mem_op`, `mem_lvl`, `mem_snoop`, `mem_lock`, `mem_dtlb`, `mem_lvl_num`, `mem_remote`, `mem_snoopx`, `mem_blk` and
/// `mem_hops`.
const OPERATION: BitField = BitField::new(0, 5);
const LEVELS: BitField = BitField::new(5, 14);
const SNOOP: BitField = BitField::new(19, 5);
const LOCK: BitField = BitField::new(24, 2);
const TLB: BitField = BitField::new(26, 7);
const LEVEL_NUMBER: BitField = BitField::new(33, 4);
const REMOTE: BitField = BitField::new(37, 1);
const SNOOP_EXTENSION: BitField = BitField::new(38, 2);
const BLOCKED: BitField = BitField::new(40, 3);
const HOPS: BitField = BitField::new(43, 3);

/// The bit of a member for a value that is not available.
const NOT_AVAILABLE: u64 = 1 << 0;
/// perf's word for a value that is not available.
pub(crate) const NA: &str = "N/A";

/// Bits of `mem_lvl` and `mem_dtlb`: the access hit, or missed.
const HIT: u64 = 1 << 1;
const MISS: u64 = 1 << 2;
const OUTCOME_MASK: u64 = HIT | MISS;

/// perf's words for the bits of members, from bit 0 on.
const OPERATION_WORDS: [&str; 5] = [NA, "LOAD", "STORE", "PFETCH", "EXEC"];
const LEVEL_WORDS: [&str; 14] = [
    NA,
    "HIT",
    "MISS",
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
const SNOOP_WORDS: [&str; 5] = [NA, "None", "Hit", "Miss", "HitM"];
const SNOOP_EXTENSION_WORDS: [&str; 2] = ["Fwd", "Peer"];
const LOCK_WORDS: [&str; 2] = [NA, "Yes"];
const TLB_WORDS: [&str; 7] = [NA, "HIT", "MISS", "L1", "L2", "Walker", "Fault"];
const BLOCKED_WORDS: [&str; 3] = [NA, "Data", "Addr"];

/// perf's words for the values of `mem_lvl_num`. The first and the last mean that `mem_lvl` has the level.
const LEVEL_NUMBER_NAMES: [&str; 16] = [
    NA,
    "L1",
    "L2",
    "L3",
    "L4",
    "L2 MHB",
    "Memory-side Cache",
    "L0",
    "Uncached",
    "CXL",
    "I/O",
    "Any cache",
    "LFB/MAB",
    "RAM",
    "PMEM",
    NA,
];
/// perf's words for the values of `mem_hops`.
const HOPS_WORDS: [&str; 8] = [
    "",
    "core, same node ",
    "node, same socket ",
    "socket, same board ",
    "board ",
    "",
    "",
    "",
];

impl DataSource {
    const fn member(self, field: BitField) -> u64 {
        self.0 >> field.shift & ((1 << field.width) - 1)
    }

    /// Returns the kind of access: `LOAD`, `STORE`, ...
    pub(crate) fn operation(self) -> &'static str {
        let mut words = words_of(self.member(OPERATION), &OPERATION_WORDS);
        words.next().unwrap_or("No")
    }

    /// Returns the level of the memory hierarchy that had the data, or that was asked for it: `L1 hit`.
    pub(crate) fn level(self) -> String {
        let levels = self.member(LEVELS);
        let outcome = if levels & HIT != 0 {
            " hit"
        } else if levels & MISS != 0 {
            " miss"
        } else {
            ""
        };
        match LEVEL_NUMBER_NAMES[self.index(LEVEL_NUMBER)] {
            NA => {
                let levels = levels & !(NOT_AVAILABLE | OUTCOME_MASK);
                match joined(words_of(levels, &LEVEL_WORDS)) {
                    words if words == NA => words,
                    words => words + outcome,
                }
            }
            level => {
                let remote = match self.member(REMOTE) {
                    0 => "",
                    _ => "Remote ",
                };
                let hops = HOPS_WORDS[self.index(HOPS)];
                format!("{remote}{hops}{level}{outcome}")
            }
        }
    }

    /// Returns the answer of other caches: `HitM` if one of them had changed data.
    pub(crate) fn snoop(self) -> String {
        let answers = words_of(self.member(SNOOP), &SNOOP_WORDS);
        let further_answers = words_of(self.member(SNOOP_EXTENSION), &SNOOP_EXTENSION_WORDS);
        joined(answers.chain(further_answers))
    }

    /// Returns the translation buffer that had the address, or that was asked for it: `L1 hit`.
    pub(crate) fn tlb(self) -> String {
        let bits = self.member(TLB);
        let mut text = joined(words_of(bits & !OUTCOME_MASK, &TLB_WORDS));
        for (bit, word) in [(HIT, " hit"), (MISS, " miss")] {
            if bits & bit != 0 {
                text.push_str(word);
            }
        }
        text
    }

    /// Returns `Yes` for an access of a locked instruction, otherwise `No`.
    pub(crate) fn locked(self) -> &'static str {
        let mut words = words_of(self.member(LOCK), &LOCK_WORDS);
        words.next().unwrap_or("No")
    }

    /// Returns the reasons why a load had to wait for an earlier store: `Data`, `Addr`.
    pub(crate) fn blocked(self) -> String {
        let bits = self.member(BLOCKED);
        if bits == 0 || bits & NOT_AVAILABLE != 0 {
            return NA.to_owned();
        }
        let words: Vec<&str> = words_of(bits, &BLOCKED_WORDS).collect();
        words.join(" ")
    }

    /// Returns the value of a member, as an index into its table of words, which has an entry for each value.
    fn index(self, field: BitField) -> usize {
        usize::try_from(self.member(field)).unwrap_or(0)
    }
}

impl fmt::Display for DataSource {
    /// Writes all members as `perf script` does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "|OP {}|LVL {}|SNP {}|TLB {}|LCK {}|BLK  {}",
            self.operation(),
            self.level(),
            self.snoop(),
            self.tlb(),
            self.locked(),
            self.blocked()
        )
    }
}

/// Returns the words of the bits that are set.
fn words_of(
    bits: u64,
    words: &'static [&'static str],
) -> impl Iterator<Item = &'static str> + use<> {
    let words = words.iter().enumerate();
    let set = words.filter(move |(bit, _)| bits >> bit & 1 != 0);
    set.map(|(_, word)| *word)
}

/// Returns the words with `or` between them; `N/A` without any.
fn joined(words: impl Iterator<Item = &'static str>) -> String {
    let words: Vec<&str> = words.collect();
    if words.is_empty() {
        return NA.to_owned();
    }
    words.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a value with one member.
    fn source(field: BitField, value: u64) -> DataSource {
        DataSource(value << field.shift)
    }

    #[test]
    fn members_stand_where_the_kernels_header_has_them() {
        let fields = [
            OPERATION,
            LEVELS,
            SNOOP,
            LOCK,
            TLB,
            LEVEL_NUMBER,
            REMOTE,
            SNOOP_EXTENSION,
            BLOCKED,
            HOPS,
        ];
        let mut next_shift = 0;
        for BitField { shift, width } in fields {
            assert_eq!(shift, next_shift);
            next_shift = shift + width;
        }
        assert_eq!(next_shift, 46);
    }

    #[test]
    fn operations_have_perfs_words() {
        for (bits, word) in [
            (0, "No"),
            (0x01, "N/A"),
            (0x02, "LOAD"),
            (0x04, "STORE"),
            (0x06, "LOAD"),
            (0x08, "PFETCH"),
            (0x10, "EXEC"),
        ] {
            assert_eq!(source(OPERATION, bits).operation(), word, "{bits:#x}");
        }
    }

    #[test]
    fn levels_by_bits_have_perfs_words() {
        for (bits, words) in [
            (0, "N/A"),
            (0x0001, "N/A"),
            (0x0003, "N/A"),
            (0x0008, "L1"),
            (0x000a, "L1 hit"),
            (0x0012, "LFB/MAB hit"),
            (0x0022, "L2 hit"),
            (0x0042, "L3 hit"),
            (0x0044, "L3 miss"),
            (0x0046, "L3 hit"),
            (0x0082, "Local RAM hit"),
            (0x0102, "Remote RAM (1 hop) hit"),
            (0x0202, "Remote RAM (2 hops) hit"),
            (0x0402, "Remote Cache (1 hop) hit"),
            (0x0802, "Remote Cache (2 hops) hit"),
            (0x1002, "I/O hit"),
            (0x2002, "Uncached hit"),
            (0x0028, "L1 or L2"),
        ] {
            assert_eq!(source(LEVELS, bits).level(), words, "{bits:#x}");
            // The value for a number that is not available.
            let with_number = source(LEVELS, bits).0 | source(LEVEL_NUMBER, 0xf).0;
            assert_eq!(DataSource(with_number).level(), words, "{bits:#x}");
        }
    }

    #[test]
    fn levels_by_number_have_perfs_words() {
        let numbers = [
            (0x1, "L1"),
            (0x2, "L2"),
            (0x3, "L3"),
            (0x4, "L4"),
            (0x5, "L2 MHB"),
            (0x6, "Memory-side Cache"),
            (0x7, "L0"),
            (0x8, "Uncached"),
            (0x9, "CXL"),
            (0xa, "I/O"),
            (0xb, "Any cache"),
            (0xc, "LFB/MAB"),
            (0xd, "RAM"),
            (0xe, "PMEM"),
        ];
        for (number, word) in numbers {
            let number = source(LEVEL_NUMBER, number).0;
            assert_eq!(DataSource(number).level(), word);
            // If there is a level number, a level among the bits does not count.
            let hit = DataSource(number | source(LEVELS, 0x2a).0);
            assert_eq!(hit.level(), format!("{word} hit"));
            let remote = DataSource(number | source(REMOTE, 1).0 | source(LEVELS, MISS).0);
            assert_eq!(remote.level(), format!("Remote {word} miss"));
        }
        let places = [
            (1, "Remote core, same node L2"),
            (2, "Remote node, same socket L2"),
            (3, "Remote socket, same board L2"),
            (4, "Remote board L2"),
            (7, "Remote L2"),
        ];
        let remote_cache = source(LEVEL_NUMBER, 2).0 | source(REMOTE, 1).0;
        for (hops, words) in places {
            assert_eq!(
                DataSource(remote_cache | source(HOPS, hops).0).level(),
                words
            );
        }
    }

    #[test]
    fn snoops_have_perfs_words() {
        for (bits, words) in [
            (0, "N/A"),
            (0x01, "N/A"),
            (0x02, "None"),
            (0x04, "Hit"),
            (0x08, "Miss"),
            (0x10, "HitM"),
            (0x14, "Hit or HitM"),
        ] {
            assert_eq!(source(SNOOP, bits).snoop(), words, "{bits:#x}");
        }
        assert_eq!(source(SNOOP_EXTENSION, 1).snoop(), "Fwd");
        assert_eq!(source(SNOOP_EXTENSION, 2).snoop(), "Peer");
        let both = source(SNOOP, 0x10).0 | source(SNOOP_EXTENSION, 1).0;
        assert_eq!(DataSource(both).snoop(), "HitM or Fwd");
    }

    #[test]
    fn translations_have_perfs_words() {
        for (bits, words) in [
            (0, "N/A"),
            (0x01, "N/A"),
            (0x02, "N/A hit"),
            (0x08, "L1"),
            (0x0a, "L1 hit"),
            (0x12, "L2 hit"),
            (0x1a, "L1 or L2 hit"),
            (0x14, "L2 miss"),
            (0x22, "Walker hit"),
            (0x42, "Fault hit"),
        ] {
            assert_eq!(source(TLB, bits).tlb(), words, "{bits:#x}");
        }
    }

    #[test]
    fn locks_and_waits_have_perfs_words() {
        for (bits, word) in [(0, "No"), (1, "N/A"), (2, "Yes")] {
            assert_eq!(source(LOCK, bits).locked(), word);
        }
        for (bits, words) in [
            (0, "N/A"),
            (1, "N/A"),
            (2, "Data"),
            (4, "Addr"),
            (6, "Data Addr"),
        ] {
            assert_eq!(source(BLOCKED, bits).blocked(), words);
        }
    }

    #[test]
    fn all_members_are_written_as_perf_script_does() {
        // The value of a load that hits L1, as perf has it for Intel's processors.
        let load = DataSource(0x6810_0142);
        assert_eq!(
            load.to_string(),
            "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A"
        );
    }
}

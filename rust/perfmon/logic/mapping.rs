// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The mappings of programs, and their records: `PERF_RECORD_MMAP` and `PERF_RECORD_MMAP2`.

use super::event_attr::PerfEventAttr;
use super::perf_event::{
    PERF_RECORD_MISC_MMAP_DATA, PERF_RECORD_MISC_USER, PERF_RECORD_MMAP, PERF_RECORD_MMAP2,
};

/// The number of words in the longest name: `PATH_MAX` bytes.
pub const NAME_WORDS: usize = 4096 / size_of::<u64>();

/// `PROT_EXEC`
const PROT_EXEC: u32 = 4;

/// A part of a program's address space that has just been mapped or changed, without the name of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The address of the first byte.
    pub start: u64,
    /// The number of bytes.
    pub size: u64,
    /// The offset of the first byte in the file.
    pub offset: u64,
    /// The device of the file, as two numbers; 0 without a file.
    pub device: [u32; 2],
    /// The inode number of the file; 0 without a file.
    pub inode: u64,
    /// The generation of the inode number.
    pub generation: u64,
    /// `PROT_*`
    pub protection: u32,
    /// `MAP_*`
    pub flags: u32,
}

impl Mapping {
    /// Returns whether the program may execute the mapping.
    #[must_use]
    pub const fn is_executable(&self) -> bool {
        self.protection & PROT_EXEC != 0
    }
}

/// The mappings that an event records, and the type of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingRecords {
    /// Mappings that can be executed are recorded.
    executable: bool,
    /// Mappings that can't be executed are recorded.
    data: bool,
    /// Records are `PERF_RECORD_MMAP2`.
    is_mmap2: bool,
}

/// The largest number of words in a record before the name.
const MAX_WORDS: usize = 8;
/// The number of words in `PERF_RECORD_MMAP` before the name. `PERF_RECORD_MMAP2` begins with the same words.
const SHORT_WORDS: usize = 4;

/// A record without its name, and without the sample ID at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappingRecord {
    /// `PERF_RECORD_*`
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`
    pub misc: u16,
    words: [u64; MAX_WORDS],
    /// The number of `words` that the record has.
    count: usize,
}

impl MappingRecords {
    /// Returns the mappings that `attr` asks for.
    #[must_use]
    pub const fn new(attr: &PerfEventAttr) -> Self {
        Self {
            executable: attr.has(PerfEventAttr::MMAP | PerfEventAttr::MMAP2),
            data: attr.has(PerfEventAttr::MMAP_DATA),
            is_mmap2: attr.has(PerfEventAttr::MMAP2),
        }
    }

    /// Returns whether any mapping is recorded.
    #[must_use]
    pub const fn are_wanted(self) -> bool {
        self.executable || self.data
    }

    /// Returns whether executable mappings are recorded or, if `executable` is false, whether other
    /// mappings are recorded.
    #[inline]
    #[must_use]
    pub const fn include(self, executable: bool) -> bool {
        if executable {
            self.executable
        } else {
            self.data
        }
    }

    /// Returns the record of a task's mapping. `ids` are the numbers of the task: the process in bits 31:0, the thread in bits
    /// 63:32.
    #[must_use]
    pub const fn record(self, ids: u64, mapping: &Mapping) -> MappingRecord {
        let [major, minor] = mapping.device;
        MappingRecord {
            kind: if self.is_mmap2 {
                PERF_RECORD_MMAP2
            } else {
                PERF_RECORD_MMAP
            },
            misc: if mapping.is_executable() {
                PERF_RECORD_MISC_USER
            } else {
                PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_DATA
            },
            words: [
                ids,
                mapping.start,
                mapping.size,
                mapping.offset,
                pack_words(major, minor),
                mapping.inode,
                mapping.generation,
                pack_words(mapping.protection, mapping.flags),
            ],
            count: if self.is_mmap2 {
                MAX_WORDS
            } else {
                SHORT_WORDS
            },
        }
    }
}

impl MappingRecord {
    /// Returns the words between the header and the name.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.words.get(..self.count).unwrap_or(&self.words)
    }
}

/// Packs two numbers into one word, the first in the lower half.
const fn pack_words(first: u32, second: u32) -> u64 {
    first as u64 | (second as u64) << 32
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_mapping))]
mod tests {
    use super::*;

    const CODE_MAPPING: Mapping = Mapping {
        start: 0x1000,
        size: 0x2000,
        offset: 0x3000,
        device: [8, 1],
        inode: 17,
        generation: 5,
        protection: 5,
        flags: 2,
    };
    const DATA_MAPPING: Mapping = Mapping {
        protection: 3,
        ..CODE_MAPPING
    };

    fn records(flags: u64) -> MappingRecords {
        MappingRecords::new(&PerfEventAttr {
            flags,
            ..PerfEventAttr::ZERO
        })
    }

    #[test]
    fn attr_chooses_the_recorded_mappings() {
        let recorded_mappings = |flags| {
            let records = records(flags);
            [
                records.are_wanted(),
                records.include(true),
                records.include(false),
            ]
            .map(u8::from)
        };
        assert_eq!(recorded_mappings(0), [0, 0, 0]);
        assert_eq!(recorded_mappings(PerfEventAttr::MMAP), [1, 1, 0]);
        assert_eq!(recorded_mappings(PerfEventAttr::MMAP2), [1, 1, 0]);
        assert_eq!(recorded_mappings(PerfEventAttr::MMAP_DATA), [1, 0, 1]);
        assert_eq!(
            recorded_mappings(PerfEventAttr::MMAP | PerfEventAttr::MMAP_DATA),
            [1, 1, 1]
        );
    }

    #[test]
    fn records_have_the_words_of_linux() {
        let mmap_records = records(PerfEventAttr::MMAP);
        let record = mmap_records.record(0x0000_0007_0000_0006, &CODE_MAPPING);
        assert_eq!((record.kind, record.misc), (1, 2));
        assert_eq!(
            record.words(),
            [0x0000_0007_0000_0006, 0x1000, 0x2000, 0x3000].as_slice()
        );
        let mmap2_records = records(PerfEventAttr::MMAP2 | PerfEventAttr::MMAP);
        let record = mmap2_records.record(6, &CODE_MAPPING);
        assert_eq!((record.kind, record.misc), (10, 2));
        let words = [
            6,
            0x1000,
            0x2000,
            0x3000,
            0x0000_0001_0000_0008,
            17,
            5,
            0x0000_0002_0000_0005,
        ];
        assert_eq!(record.words(), words.as_slice());
    }

    #[test]
    fn data_mappings_have_their_misc_bit() {
        let data_records = records(PerfEventAttr::MMAP_DATA);
        assert_eq!(data_records.record(6, &DATA_MAPPING).misc, 0x2002);
        assert_eq!(data_records.record(6, &DATA_MAPPING).kind, 1);
    }
}

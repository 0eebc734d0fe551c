// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mappings of tasks: `PERF_RECORD_MMAP2`.

use std::ops::Range;

use super::raw::RawRecord;
use super::stamp::{HEADER_WORDS, Stamp, TRAILER_WORDS, Task, split_word};

/// A mapping that a task has made: see [`Record::Map`](super::Record::Map).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mapping<'a> {
    /// The task that made the mapping.
    pub task: Task,
    /// The first address.
    pub start: u64,
    /// The length in bytes.
    pub size: u64,
    /// The offset of the mapping in the file, in bytes.
    pub offset: u64,
    /// The major and the minor number of the file's device.
    pub device: (u32, u32),
    /// The file's inode, and the inode's generation.
    pub inode: u64,
    #[expect(missing_docs, reason = "documented with `inode`")]
    pub generation: u64,
    /// `PROT_*`.
    pub protection: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// The time and the CPU of the mapping.
    pub stamp: Stamp,
    record: RawRecord<'a>,
    /// The indices of the record's words that hold the name.
    name: Range<usize>,
}

impl<'a> Mapping<'a> {
    /// Index of the first word of the name.
    const NAME: usize = 8;
    /// The smallest number of words that a record has.
    pub(super) const MIN_WORDS: usize = Self::NAME + 1;

    /// Decodes a record of at least [`Self::MIN_WORDS`] words.
    pub(super) fn new(record: RawRecord<'a>) -> Self {
        let word = |index: usize| record.word(HEADER_WORDS + index);
        let (protection, flags) = split_word(word(7));
        Self {
            task: Task::new(word(0)),
            start: word(1),
            size: word(2),
            offset: word(3),
            device: split_word(word(4)),
            inode: word(5),
            generation: word(6),
            protection,
            flags,
            stamp: Stamp::at_end(record),
            record,
            name: HEADER_WORDS + Self::NAME..record.size() - TRAILER_WORDS,
        }
    }

    /// Returns the path of the file, or a name such as `[vdso]` or `//anon` for a mapping without a file.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        let words = self.name.clone().map(|index| self.record.word(index));
        let bytes = words.flat_map(u64::to_ne_bytes);
        bytes.take_while(|byte| *byte != 0).collect()
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mappings of tasks: `PERF_RECORD_MMAP2`.

use std::ops::Range;

use super::raw::RawRecord;
use super::{Stamp, Task};

/// A mapping that can be executed.
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
    #[expect(missing_docs, reason = "as the inode says")]
    pub generation: u64,
    /// `PROT_*`.
    pub protection: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// The time and the CPU of the mapping.
    pub stamp: Stamp,
    pub(super) record: RawRecord<'a>,
    /// The indices of the record's words that hold the name.
    pub(super) name: Range<usize>,
}

impl Mapping<'_> {
    /// Index of the first word of the name.
    pub(super) const NAME: usize = 8;
    /// The fewest words that a record has.
    pub(super) const MIN_WORDS: usize = Self::NAME + 1;

    /// Returns the path of the file, or a name such as `[vdso]` or `//anon` for a mapping without a file.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        let words = self.name.clone().map(|index| self.record.word(index));
        let bytes = words.flat_map(u64::to_ne_bytes);
        bytes.take_while(|byte| *byte != 0).collect()
    }
}

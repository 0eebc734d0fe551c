// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a task has mapped: `PERF_RECORD_MMAP2`.

use std::ops::Range;

use super::raw::RawRecord;
use super::{Stamp, Task};

/// A mapping that can be executed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mapping<'a> {
    /// The task that has made it.
    pub task: Task,
    /// The first address.
    pub start: u64,
    /// The length in bytes.
    pub size: u64,
    /// The place in the file, in bytes.
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
    /// When and where it was made.
    pub stamp: Stamp,
    pub(super) record: RawRecord<'a>,
    /// The words of the name.
    pub(super) name: Range<usize>,
}

impl Mapping<'_> {
    /// The first word of the name, and the fewest words that there are.
    pub(super) const NAME: usize = 8;
    pub(super) const LEAST_WORDS: usize = Self::NAME + 1;

    /// Returns the path of the file, or a name as `[vdso]` and `//anon` where there is none.
    #[must_use]
    pub fn name(&self) -> Vec<u8> {
        let words = self.name.clone().map(|index| self.record.word(index));
        let bytes = words.flat_map(u64::to_ne_bytes);
        bytes.take_while(|byte| *byte != 0).collect()
    }
}

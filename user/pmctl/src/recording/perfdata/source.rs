// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a recording: in memory, or in a file that is read in blocks.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::MAGIC;

/// The bytes of a recording.
#[derive(Clone)]
pub(crate) enum RecordingBytes {
    Memory(Vec<u8>),
    /// A file with its size. Must be a regular file, which can be read at any offset.
    File(Arc<File>, u64),
}

impl Default for RecordingBytes {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl<T: Into<Vec<u8>>> From<T> for RecordingBytes {
    fn from(bytes: T) -> Self {
        Self::Memory(bytes.into())
    }
}

impl RecordingBytes {
    /// Opens a file; `-` is standard input. What is not a regular file, as a pipe, is read into memory; of one that has
    /// no end and is no recording, as `/dev/zero`, only the beginning.
    ///
    /// # Errors
    /// Those of the file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut file = if path.as_os_str() == "-" {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            File::open(path)?
        };
        let facts = file.metadata()?;
        if facts.is_file() {
            return Ok(Self::File(Arc::new(file), facts.len()));
        }
        let mut bytes = Vec::new();
        let magic = MAGIC.to_le_bytes();
        file.by_ref()
            .take(magic.len() as u64)
            .read_to_end(&mut bytes)?;
        if bytes == magic {
            file.read_to_end(&mut bytes)?;
        }
        Ok(Self::Memory(bytes))
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, size) => *size,
        }
    }

    /// Returns `size` bytes from `offset` on; `None` if they are not there or can't be read.
    pub(super) fn part(&self, (offset, size): (u64, u64)) -> Option<Cow<'_, [u8]>> {
        let end = offset.checked_add(size).filter(|end| *end <= self.size())?;
        match self {
            Self::Memory(bytes) => {
                let range = usize::try_from(offset).ok()?..usize::try_from(end).ok()?;
                bytes.get(range).map(Cow::Borrowed)
            }
            Self::File(file, _) => {
                let mut bytes = vec![0; usize::try_from(size).ok()?];
                file.read_exact_at(&mut bytes, offset).ok()?;
                Some(Cow::Owned(bytes))
            }
        }
    }
}

/// The bytes of a section, from front to back.
pub(super) struct BlockReader<'a> {
    source: &'a RecordingBytes,
    /// The bytes that were read last: all if they are in memory.
    block: Cow<'a, [u8]>,
    /// Offset of the next record in the block.
    place: usize,
    /// Offsets in the source: behind the block, and behind the section.
    next: u64,
    end: u64,
}

impl<'a> BlockReader<'a> {
    /// Bytes of a file that are read at once: far more than the longest record, the size of which has 16 bits.
    const BLOCK: u64 = 1 << 20;
    const MAX_RECORD_SIZE: usize = 1 << 16;

    /// Begins at the front of a section.
    pub(super) fn new(source: &'a RecordingBytes, (start, end): (u64, u64)) -> Self {
        Self {
            source,
            block: Cow::Borrowed(&[]),
            place: 0,
            next: start,
            end,
        }
    }

    /// Returns the bytes from the next record on, with the whole of that record; none at the end of the section, and
    /// `None` if they can't be read.
    #[inline]
    pub(super) fn rest(&mut self) -> Option<&[u8]> {
        if self.block.len() - self.place < Self::MAX_RECORD_SIZE && self.next < self.end {
            self.fill()?;
        }
        self.block.get(self.place..)
    }

    /// Goes on behind `size` bytes, of which some may not have been in [`rest`](Self::rest).
    #[inline]
    pub(super) fn skip(&mut self, size: usize) {
        self.place = self.place.saturating_add(size);
        if self.place > self.block.len() {
            let beyond = (self.place - self.block.len()) as u64;
            self.next = self.next.saturating_add(beyond).min(self.end);
            self.block = Cow::Borrowed(&[]);
            self.place = 0;
        }
    }

    fn fill(&mut self) -> Option<()> {
        let start = self.next - (self.block.len() - self.place) as u64;
        let size = match self.source {
            RecordingBytes::Memory(_) => self.end - start,
            RecordingBytes::File(..) => (self.end - start).min(Self::BLOCK),
        };
        self.block = self.source.part((start, size))?;
        self.place = 0;
        self.next = start + size;
        Some(())
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a recording: in memory, or in a file that is read in blocks.

use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::header::MAGIC;

/// The bytes of a recording.
#[derive(Clone)]
pub(crate) enum RecordingBytes {
    Memory(Vec<u8>),
    /// A file and its size in bytes. It must be a regular file, which can be read at any offset.
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
    /// Opens a file; `-` is standard input. A file that is not regular, such as a pipe, is read into memory, but only if it
    /// begins as a recording does, since a file like `/dev/zero` has no end.
    ///
    /// # Errors
    /// The file can't be opened or read.
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

    /// Returns the facts of the file; `None` if the bytes are not from a regular file.
    pub(crate) fn file_facts(&self) -> Option<Metadata> {
        match self {
            Self::Memory(_) => None,
            Self::File(file, _) => file.metadata().ok(),
        }
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, size) => *size,
        }
    }

    /// Returns `size` bytes from `offset` on; `None` if the file ends before, or can't be read.
    pub(super) fn bytes_at(&self, (offset, size): (u64, u64)) -> Option<Cow<'_, [u8]>> {
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

/// Reads the bytes of a section, from front to back.
pub(super) struct BlockReader<'a> {
    source: &'a RecordingBytes,
    /// The bytes that were read last; the whole section if the source is in memory.
    block: Cow<'a, [u8]>,
    /// Offset of the next record in the block.
    offset: usize,
    /// Offset of the end of the block in the source.
    block_end: u64,
    /// Offset of the end of the section in the source.
    section_end: u64,
}

impl<'a> BlockReader<'a> {
    /// Bytes of a file that are read at once: far more than the longest record, whose size has 16 bits.
    const BLOCK_SIZE: u64 = 1 << 20;
    const MAX_RECORD_SIZE: usize = 1 << 16;

    /// Creates a reader of a section, which begins at the section's first byte.
    pub(super) fn new(source: &'a RecordingBytes, (start, end): (u64, u64)) -> Self {
        Self {
            source,
            block: Cow::Borrowed(&[]),
            offset: 0,
            block_end: start,
            section_end: end,
        }
    }

    /// Returns bytes from the next record on, at least all of that record. At the end of the
    /// section, returns no bytes; `None` if the source can't be read.
    #[inline]
    pub(super) fn buffered(&mut self) -> Option<&[u8]> {
        if self.block.len() - self.offset < Self::MAX_RECORD_SIZE
            && self.block_end < self.section_end
        {
            self.read_block()?;
        }
        self.block.get(self.offset..)
    }

    /// Skips `size` bytes, which may be more than [`buffered`](Self::buffered) returned.
    #[inline]
    pub(super) fn skip(&mut self, size: usize) {
        self.offset = self.offset.saturating_add(size);
        if self.offset > self.block.len() {
            let bytes_beyond_block = (self.offset - self.block.len()) as u64;
            self.block_end = self
                .block_end
                .saturating_add(bytes_beyond_block)
                .min(self.section_end);
            self.block = Cow::Borrowed(&[]);
            self.offset = 0;
        }
    }

    /// Reads the block that begins with the next record.
    fn read_block(&mut self) -> Option<()> {
        let start = self.block_end - (self.block.len() - self.offset) as u64;
        let size = match self.source {
            RecordingBytes::Memory(_) => self.section_end - start,
            RecordingBytes::File(..) => (self.section_end - start).min(Self::BLOCK_SIZE),
        };
        self.block = self.source.bytes_at((start, size))?;
        self.offset = 0;
        self.block_end = start + size;
        Some(())
    }
}

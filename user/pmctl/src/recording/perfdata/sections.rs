// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sections of a file, by offset and size, and the reasons why a file can't be read.

use std::borrow::Cow;
use std::fmt;

use super::source::RecordingBytes;
use crate::system::text::thousands;

/// Names of the parts of a file, for messages.
pub(super) const EVENTS: &str = "list of events";
pub(super) const RECORDS: &str = "list of records";
pub(super) const FEATURES: &str = "list of features";

/// Size of a section's entry: offset and size.
pub(super) const SECTION_SIZE: u64 = 16;

/// Reason why a file can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The file is empty.
    Empty,
    /// The file does not begin as a perf.data file does.
    NotPerfData,
    /// The file is from a machine of the other byte order.
    OtherByteOrder,
    /// The file is from a `perf record` before Linux 3.2.
    FirstVersion,
    /// The file is a stream of `perf record`.
    PerfStream,
    /// The file is from `perf record -z`.
    Compressed,
    /// The file is from `perf stat record`.
    Counts,
    /// The file is from `perf record --threads`.
    Divided,
    /// The file is from a version of pmctl whose notes have another format.
    Version { found: u32, known: u32 },
    /// This part of the file can't be decoded.
    Broken(&'static str),
    /// This part of the file would end after the end of the file.
    CutOff {
        part: &'static str,
        end: u64,
        size: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::NotPerfData => f.write_str("this is not a perf.data file"),
            Self::OtherByteOrder => f.write_str(
                "this file is from a big-endian machine, and pmctl reads only little-endian ones, of x86\nRead it \
                 with `perf report` or `perf script`.",
            ),
            Self::FirstVersion => f.write_str(
                "this file has the first format of perf.data (PERFFILE), which `perf record` wrote before Linux 3.2\nRead it with \
                 `perf report` or `perf script`.",
            ),
            Self::PerfStream => f.write_str(
                "this is a stream of `perf record -o -`, and pmctl reads perf's files only\nRecord with `-o FILE`, or \
                 read it with `perf report` or `perf script`.",
            ),
            Self::Compressed => f.write_str(
                "the records are compressed, which pmctl can't read\nRecord without `-z`, or read it with `perf report` or \
                 `perf script`.",
            ),
            Self::Counts => f.write_str(
                "the file has counts of `perf stat record`, and no samples\n`perf stat report -i FILE` shows them.",
            ),
            Self::Divided => f.write_str(
                "the records are in several files, which pmctl can't read\nRecord without `--threads`, or read the folder \
                 with `perf report` or `perf script`.",
            ),
            Self::Version { found, known } => write!(
                f,
                "this file is from another version of pmctl: its notes have version {found}, and this pmctl reads \
                 version {known}\n`perf report` and `perf script` can read it."
            ),
            Self::Broken(part) => write!(f, "the file is damaged: its {part} can't be read"),
            Self::CutOff { part, end, size } => write!(
                f,
                "the file is cut off, or damaged: it has {} bytes, and its {part} ends at byte {}\n\
                 Copy it again from where it was recorded.",
                thousands(*size),
                thousands(*end)
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// Returns the end of a part of the file, which may not be after the end of the file.
pub(super) fn checked_end(
    source: &RecordingBytes,
    (offset, size): (u64, u64),
    part: &'static str,
) -> Result<u64, ReadError> {
    let end = offset.checked_add(size).ok_or(ReadError::Broken(part))?;
    let size = source.size();
    if end > size {
        return Err(ReadError::CutOff { part, end, size });
    }
    Ok(end)
}

/// Returns the bytes of a part of the file.
pub(super) fn part<'a>(
    source: &'a RecordingBytes,
    section: (u64, u64),
    part: &'static str,
) -> Result<Cow<'a, [u8]>, ReadError> {
    checked_end(source, section, part)?;
    source.bytes_at(section).ok_or(ReadError::Broken(part))
}

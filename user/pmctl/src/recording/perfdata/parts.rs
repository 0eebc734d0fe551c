// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of a file, which says where its parts are, and a recording without its records.

use std::ops::RangeInclusive;

use super::attr::Attr;
use super::bytes::Reader;
use super::features::{self, Features};
use super::header::HEADER_SIZE;
use super::sections::SECTION_SIZE;

/// Content of the header.
pub(super) struct Header {
    /// Size of each event's entry, in bytes.
    pub(super) entry_size: usize,
    /// Offset and size of the events' entries.
    pub(super) attrs: (u64, u64),
    /// Offset and size of the records.
    pub(super) data: (u64, u64),
    /// The bits of the features that the file has.
    pub(super) features: [u8; features::BITS as usize / 8],
}

impl Header {
    pub(super) fn decode(mut reader: Reader<'_>) -> Option<Self> {
        /// Sizes of an entry in bytes: from that of the oldest perf to more than that of the newest.
        const ENTRY_SIZES: RangeInclusive<u64> = 64 + SECTION_SIZE..=1024;
        let section = |reader: &mut Reader<'_>| Some((reader.u64()?, reader.u64()?));
        let (_magic, size, entry_size) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let attrs = section(&mut reader)?;
        let data = section(&mut reader)?;
        let _names = section(&mut reader)?;
        let features = reader.take(features::BITS as usize / 8)?.try_into().ok()?;
        let is_known =
            size == HEADER_SIZE as u64 && ENTRY_SIZES.contains(&entry_size) && entry_size % 8 == 0;
        is_known.then_some(Self {
            entry_size: usize::try_from(entry_size).ok()?,
            attrs,
            data,
            features,
        })
    }

    /// Returns the numbers of the features that the file has.
    pub(super) fn feature_numbers(&self) -> impl Iterator<Item = u32> + '_ {
        (0..features::BITS).filter(|n| self.features[*n as usize / 8] >> (n % 8) & 1 != 0)
    }
}

/// A recording without its records.
pub(super) struct ParsedParts {
    pub(super) attrs: Vec<Attr>,
    pub(super) features: Features,
    /// The recording was not finished.
    pub(super) is_unfinished: bool,
    /// The file is from `perf record`.
    pub(super) is_from_perf: bool,
    /// Offsets of the first record and of the end of the last one.
    pub(super) section: (u64, u64),
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a recording. The records stay encoded, in the file if possible, and an iterator decodes one at a
//! time. So a recording of a million samples takes no more memory than a recording of one sample.

use super::codec::{self, decode_record};
use super::memory_access::Weight;
use super::record::{Body, Record};
use super::sample_parts::SampleParts;
use super::sections::ReadError;
use super::source::{BlockReader, RecordingBytes};

/// The unit of offsets: the size of each record is a multiple of it.
const UNIT: usize = 8;

/// Error for records that can't be read.
const UNREADABLE: ReadError = ReadError::Broken("list of records");

/// Records in the order of their times.
#[derive(Clone, Default)]
pub(crate) struct Records {
    source: RecordingBytes,
    /// Offsets of the first record and of the end of the last one.
    section: (u64, u64),
    /// The parts of samples.
    parts: SampleParts,
    /// The offset of each record in units of [`UNIT`], in the order of the records' times; `None` if the records are in that
    /// order already.
    order: Option<Vec<u32>>,
}

impl Records {
    /// Checks the records of `source` between the two offsets of `section`.
    ///
    /// # Errors
    /// A record can't be decoded, or is a sample of an event whose index is not below `events`.
    pub(super) fn read(
        source: RecordingBytes,
        section: (u64, u64),
        parts: SampleParts,
        events: usize,
    ) -> Result<Self, ReadError> {
        let (mut sorted, mut latest) = (true, 0);
        let mut blocks = BlockReader::new(&source, section);
        while let Some((record, size)) = next_record(&mut blocks, parts)? {
            if size % UNIT != 0 {
                return Err(UNREADABLE);
            }
            if let Some(Record { stamp, body }) = record {
                if matches!(body, Body::Sample(sample) if sample.event >= events) {
                    return Err(UNREADABLE);
                }
                sorted &= latest <= stamp.time;
                latest = stamp.time;
            }
        }
        let mut records = Self {
            source,
            section,
            parts,
            order: None,
        };
        if !sorted {
            records.sort().ok_or(UNREADABLE)?;
        }
        Ok(records)
    }

    /// Reads the records into memory, and sorts them by time.
    fn sort(&mut self) -> Option<()> {
        let (start, end) = self.section;
        let data = self.source.bytes_at((start, end - start))?.into_owned();
        self.order = Some(offsets_by_time(&data)?);
        self.section = (0, data.len() as u64);
        self.source = data.into();
        Some(())
    }

    /// Returns the records in the order of their times. Records of the same time come in the order in which they were
    /// written.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Record, ReadError>> + '_ {
        let mut blocks = BlockReader::new(&self.source, self.section);
        let mut order = self.order.as_deref().map(<[u32]>::iter);
        std::iter::from_fn(move || {
            loop {
                if let Some(order) = &mut order {
                    let start = u64::from(*order.next()?) * UNIT as u64;
                    blocks = BlockReader::new(&self.source, (start, self.section.1));
                }
                match next_record(&mut blocks, self.parts) {
                    Ok(Some((None, _))) => {}
                    Ok(found) => return found.and_then(|(record, _)| record).map(Ok),
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }
}

/// Decodes the next record as [`decode_record`] does; `None` at the end.
fn next_record(
    blocks: &mut BlockReader<'_>,
    parts: SampleParts,
) -> Result<Option<(Option<Record>, usize)>, ReadError> {
    let bytes = blocks.buffered().ok_or(UNREADABLE)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let (record, size) = decode_record(bytes, parts).ok_or(UNREADABLE)?;
    blocks.skip(size);
    Ok(Some((record, size)))
}

/// Returns the offsets of the records in units of [`UNIT`], in the order of the records' times.
fn offsets_by_time(data: &[u8]) -> Option<Vec<u32>> {
    let mut order = Vec::new();
    let mut offset = 0;
    while offset < data.len() {
        order.push(u32::try_from(offset / UNIT).ok()?);
        offset += codec::record_size(&data[offset..])?;
    }
    // The records are nearly in order, for which this sort is fast.
    order.sort_by_key(|offset| codec::record_time(&data[*offset as usize * UNIT..]).unwrap_or(0));
    Some(order)
}

impl From<&[Record]> for Records {
    /// Encodes the records and reads them, as if from a file. All samples get the parts that at least one of them has.
    fn from(records: &[Record]) -> Self {
        let samples = || {
            records.iter().filter_map(|record| match &record.body {
                Body::Sample(sample) => Some(sample),
                _ => None,
            })
        };
        let parts = SampleParts {
            has_data_address: samples().any(|sample| sample.access.address != 0),
            has_chain: samples().any(|sample| !sample.chain.is_empty()),
            has_branches: samples().any(|sample| !sample.branches.is_empty()),
            has_user_stack: samples().any(|sample| sample.user_stack.is_some()),
            has_weight: samples().any(|sample| sample.access.weight != Weight::default()),
            has_data_source: samples().any(|sample| sample.access.source.0 != 0),
            has_cgroup: samples().any(|sample| sample.cgroup != 0),
        };
        let mut bytes = Vec::new();
        for record in records {
            record.encode(parts, &mut bytes);
        }
        let whole_range = (0, bytes.len() as u64);
        Self::read(bytes.into(), whole_range, parts, usize::MAX).unwrap_or_default()
    }
}

impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

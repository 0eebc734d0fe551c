// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a recording. The records stay encoded, in the file if possible, and a reader decodes one at a time.
//! So a recording of a million samples takes no more memory than a recording of one sample.

use std::{mem, slice};

use super::codec;
use super::memory_access::Weight;
use super::record::{Body, Record};
use super::sample_parts::SampleParts;
use super::sections::ReadError;
use super::source::{BlockReader, RecordingBytes};

/// The unit of offsets, in bytes: the size of each record is a multiple of 8.
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
    /// The time of the last record in nanoseconds; 0 if the records have no times.
    last_time: u64,
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
        let mut record = Record::default();
        while let Some((is_used, size)) = decode_next(&mut blocks, parts, &mut record)? {
            if size % UNIT != 0 {
                return Err(UNREADABLE);
            }
            if is_used {
                if matches!(&record.body, Body::Sample(sample) if sample.event >= events) {
                    return Err(UNREADABLE);
                }
                sorted &= latest <= record.stamp.time;
                latest = latest.max(record.stamp.time);
            }
        }
        let mut records = Self {
            source,
            section,
            parts,
            order: None,
            last_time: latest,
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

    /// Returns the time of the last record in nanoseconds, by the clock of the recording; 0 if the records have no times.
    pub(crate) fn last_time(&self) -> u64 {
        self.last_time
    }

    /// Returns a reader of the records, before the first one.
    pub(crate) fn reader(&self) -> RecordReader<'_> {
        RecordReader {
            records: self,
            blocks: BlockReader::new(&self.source, self.section),
            order: self.order.as_deref().map(<[u32]>::iter),
            record: Record::default(),
        }
    }

    /// Returns the records in the order of their times, for callers that keep them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Record, ReadError>> + '_ {
        let mut reader = self.reader();
        std::iter::from_fn(move || {
            let next = reader.next_record().transpose()?;
            Some(next.map(mem::take))
        })
    }
}

/// Reads records in the order of their times. Records of the same time come in the order in which they were written.
pub(crate) struct RecordReader<'a> {
    records: &'a Records,
    blocks: BlockReader<'a>,
    /// The offsets of the records that were not read yet; `None` if the records are in the order of
    /// their times.
    order: Option<slice::Iter<'a, u32>>,
    /// The record that was read last.
    record: Record,
}

impl RecordReader<'_> {
    /// Returns the next record, in the memory of the previous record; `None` at the end.
    ///
    /// # Errors
    /// The source can't be read.
    pub(crate) fn next_record(&mut self) -> Result<Option<&mut Record>, ReadError> {
        let Records {
            source,
            section,
            parts,
            ..
        } = self.records;
        loop {
            if let Some(order) = &mut self.order {
                let Some(offset) = order.next() else {
                    return Ok(None);
                };
                let start = u64::from(*offset) * UNIT as u64;
                self.blocks = BlockReader::new(source, (start, section.1));
            }
            match decode_next(&mut self.blocks, *parts, &mut self.record)? {
                None => return Ok(None),
                Some((true, _)) => return Ok(Some(&mut self.record)),
                Some((false, _)) => {}
            }
        }
    }
}

/// Decodes the next record as [`codec::decode_record_over`] does; `None` at the end.
fn decode_next(
    blocks: &mut BlockReader<'_>,
    parts: SampleParts,
    record: &mut Record,
) -> Result<Option<(bool, usize)>, ReadError> {
    let bytes = blocks.buffered().ok_or(UNREADABLE)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let (is_used, size) = codec::decode_record_over(record, bytes, parts).ok_or(UNREADABLE)?;
    blocks.skip(size);
    Ok(Some((is_used, size)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::data_source::DataSource;
    use crate::recording::perfdata::memory_access::MemoryAccess;
    use crate::recording::perfdata::{Branch, GuestMode, Sample, Stamp, UserStack};

    #[test]
    fn a_sample_has_nothing_of_the_one_before() {
        let whole = Sample {
            chain: vec![1, 2],
            branches: vec![Branch::default()],
            user_stack: Some(Box::new(UserStack {
                is_64_bit: true,
                registers: [1; UserStack::REGISTERS],
                stack: vec![1; 8],
                requested_bytes: 8,
            })),
            access: MemoryAccess {
                address: 1,
                weight: Weight {
                    latency: 1,
                    others: [1; 2],
                },
                source: DataSource(1),
            },
            cgroup: 1,
            guest_mode: Some(GuestMode::User),
            ..Sample::default()
        };
        let bodies = [
            Body::Sample(whole.clone()),
            Body::Sample(Sample::default()),
            Body::Lost(1),
            Body::Sample(whole),
        ];
        let stamp = Stamp::default();
        let records = bodies.map(|body| Record { stamp, body });
        let read: Result<Vec<Record>, ReadError> = Records::from(&records[..]).iter().collect();
        assert_eq!(read, Ok(records.to_vec()));
    }
}

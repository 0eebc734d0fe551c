// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of a recording, as the bytes that they are in the file: each is decoded when its turn comes, so that
//! a million samples take no more memory than their file.

use super::codec::{self, decode};
use super::record::{Body, Record};

/// The unit of places: all records are multiples of it.
const UNIT: usize = 8;

/// Records by time.
#[derive(Clone, Default)]
pub(crate) struct Records {
    /// What holds the records, and maybe more.
    bytes: Vec<u8>,
    /// Where they begin and end in it.
    start: usize,
    end: usize,
    /// Whether samples have branches.
    branches: bool,
    /// Where each record begins, in units from the first, if they are not by time as they are.
    order: Option<Vec<u32>>,
}

impl Records {
    /// The records between two places of a file; `None` if something there is no record, or a sample of an event that
    /// there is not.
    pub(super) fn read(
        bytes: Vec<u8>,
        (start, end): (usize, usize),
        branches: bool,
        events: usize,
    ) -> Option<Self> {
        let data = bytes.get(start..end)?;
        let (mut sorted, mut latest) = (true, 0);
        let mut place = 0;
        while place < data.len() {
            let (record, size) = decode(&data[place..], branches)?;
            if size % UNIT != 0 {
                return None;
            }
            if let Some(Record { stamp, body }) = record {
                if matches!(body, Body::Sample(sample) if sample.event >= events) {
                    return None;
                }
                sorted &= latest <= stamp.time;
                latest = stamp.time;
            }
            place += size;
        }
        let order = if sorted { None } else { Some(by_time(data)?) };
        Some(Self {
            bytes,
            start,
            end,
            branches,
            order,
        })
    }

    /// The records, by time. Of those with the same time, what was written first comes first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Record> + '_ {
        let data = self.bytes.get(self.start..self.end).unwrap_or_default();
        let mut place = 0;
        let mut order = self.order.as_deref().map(<[u32]>::iter);
        std::iter::from_fn(move || {
            loop {
                if let Some(order) = &mut order {
                    place = *order.next()? as usize * UNIT;
                }
                let (record, size) = decode(data.get(place..)?, self.branches)?;
                place += size;
                if record.is_some() {
                    return record;
                }
            }
        })
    }
}

/// Where the records begin, by time.
fn by_time(data: &[u8]) -> Option<Vec<u32>> {
    let mut order = Vec::new();
    let mut place = 0;
    while place < data.len() {
        order.push(u32::try_from(place / UNIT).ok()?);
        place += codec::size(&data[place..])?;
    }
    // They are nearly in order, which this sort makes use of.
    order.sort_by_key(|place| codec::time(&data[*place as usize * UNIT..]).unwrap_or(0));
    Some(order)
}

impl From<&[Record]> for Records {
    /// The same as if they had been written and read, with branches if one has some.
    fn from(records: &[Record]) -> Self {
        let has_branches = |record: &Record| matches!(&record.body, Body::Sample(sample) if !sample.branches.is_empty());
        let branches = records.iter().any(has_branches);
        let mut bytes = Vec::new();
        for record in records {
            record.encode(branches, &mut bytes);
        }
        let whole = (0, bytes.len());
        Self::read(bytes, whole, branches, usize::MAX).unwrap_or_default()
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

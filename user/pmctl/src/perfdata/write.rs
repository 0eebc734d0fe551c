// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing the file.

use std::io::{self, Write};

use super::bytes::Put;
use super::{ENTRY_SIZE, FIRST_ID, HEADER_SIZE, MAGIC, Recording, features};

/// A part of the file: where it is, and how long.
#[derive(Clone, Copy, Default)]
struct Section {
    offset: usize,
    size: usize,
}

impl Section {
    /// What follows this one.
    const fn then(self, size: usize) -> Self {
        Self {
            offset: self.offset + self.size,
            size,
        }
    }

    fn encode(self, bytes: &mut Vec<u8>) {
        bytes.u64(self.offset as u64);
        bytes.u64(self.size as u64);
    }
}

const SECTION_SIZE: usize = 16;

/// Writes a recording.
///
/// # Errors
/// Those of `output`.
pub(crate) fn write(recording: &Recording, output: &mut impl Write) -> io::Result<()> {
    let mut data = Vec::new();
    let branches = recording.has_branches();
    for record in &recording.records {
        record.encode(branches, &mut data);
    }
    let features = features::encode(recording)?;

    let events = recording.events.len();
    let head = Section {
        offset: 0,
        size: HEADER_SIZE,
    };
    let ids = head.then(8 * events);
    let attrs = ids.then(ENTRY_SIZE * events);
    let records = attrs.then(data.len());

    let mut bytes = Vec::new();
    bytes.u64(MAGIC);
    bytes.u64(HEADER_SIZE as u64);
    bytes.u64(ENTRY_SIZE as u64);
    attrs.encode(&mut bytes);
    records.encode(&mut bytes);
    // Names of trace points, which has been elsewhere since 2010.
    Section::default().encode(&mut bytes);
    bytes.extend(bits(features.iter().map(|(number, _)| *number)));
    debug_assert_eq!(bytes.len(), HEADER_SIZE);

    for id in (FIRST_ID..).take(events) {
        bytes.u64(id);
    }
    for (index, event) in recording.events.iter().enumerate() {
        bytes.extend(event.attr.encode());
        let id = Section {
            offset: ids.offset + 8 * index,
            size: 8,
        };
        id.encode(&mut bytes);
    }
    output.write_all(&bytes)?;
    output.write_all(&data)?;

    // Where the features are is right behind the records, in the order of their numbers.
    let mut table = Vec::new();
    let mut last = records.then(SECTION_SIZE * features.len());
    for (_, content) in &features {
        last = last.then(content.len());
        last.encode(&mut table);
    }
    output.write_all(&table)?;
    for (_, content) in &features {
        output.write_all(content)?;
    }
    Ok(())
}

/// A bit for each number.
fn bits(numbers: impl Iterator<Item = u32>) -> [u8; features::BITS as usize / 8] {
    let mut bits = [0; features::BITS as usize / 8];
    for number in numbers {
        bits[number as usize / 8] |= 1 << (number % 8);
    }
    bits
}

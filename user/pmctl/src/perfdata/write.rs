// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing the file: the records as they come, and at the end what is known then only.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};

use super::bytes::Put;
use super::features::{self, BITS, Ending};
use super::{BuildId, ENTRY_SIZE, Event, FIRST_ID, HEADER_SIZE, Host, MAGIC, Notes, Record};

/// A part of the file: where it is, and how long.
#[derive(Clone, Copy, Default)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    /// What follows this one.
    const fn then(self, size: u64) -> Self {
        Self {
            offset: self.offset + self.size,
            size,
        }
    }

    fn encode(self, bytes: &mut Vec<u8>) {
        bytes.u64(self.offset);
        bytes.u64(self.size);
    }
}

const SECTION_SIZE: u64 = 16;
/// Of an event's identifier.
const ID_SIZE: u64 = 8;

/// A file that is being written. Until [`finish`](Self::finish) its header says that it has no records, which perf
/// and [`read`](super::read()) take for a recording that was not finished.
pub(crate) struct Writer<W: Write + Seek> {
    output: BufWriter<W>,
    events: Vec<Event>,
    /// Whether samples have branches.
    branches: bool,
    /// Where the records are, as far as there are some.
    records: Section,
    /// The times of the first sample and of the last.
    times: Option<(u64, u64)>,
    samples: u64,
    /// The bytes of one record.
    scratch: Vec<u8>,
}

impl<W: Write + Seek> Writer<W> {
    /// Begins to write, at the beginning of `output`.
    ///
    /// # Errors
    /// Those of `output`.
    pub(crate) fn new(output: W, events: Vec<Event>) -> io::Result<Self> {
        let branches = super::have_branches(&events);
        let mut writer = Self {
            output: BufWriter::new(output),
            records: attrs(&events).then(0),
            events,
            branches,
            times: None,
            samples: 0,
            scratch: Vec::new(),
        };
        writer.head(&[])?;
        // From now on one can see what it is going to be.
        writer.output.flush()?;
        Ok(writer)
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn record(&mut self, record: &Record) -> io::Result<()> {
        if record.is_sample() {
            let time = record.stamp.time;
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
            self.samples += 1;
        }
        self.scratch.clear();
        record.encode(self.branches, &mut self.scratch);
        self.records.size += self.scratch.len() as u64;
        self.output.write_all(&self.scratch)
    }

    /// How many samples there are.
    pub(crate) const fn samples(&self) -> u64 {
        self.samples
    }

    /// The time of the last sample; 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        self.times.map_or(0, |times| times.1)
    }

    /// Writes what belongs to all records, and makes the file whole.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn finish(
        mut self,
        host: &Host,
        build_ids: &[BuildId],
        notes: &Notes,
    ) -> io::Result<W> {
        let features = features::encode(&Ending {
            events: &self.events,
            host,
            build_ids,
            notes,
            times: self.times.unwrap_or_default(),
        })?;
        // Where the features are is right behind the records, in the order of their numbers.
        let mut table = Vec::new();
        let mut last = self.records.then(SECTION_SIZE * features.len() as u64);
        for (_, content) in &features {
            last = last.then(content.len() as u64);
            last.encode(&mut table);
        }
        self.output.write_all(&table)?;
        for (_, content) in &features {
            self.output.write_all(content)?;
        }

        self.output.seek(SeekFrom::Start(0))?;
        let numbers: Vec<u32> = features.iter().map(|(number, _)| *number).collect();
        self.head(&numbers)?;
        self.output.into_inner().map_err(io::Error::from)
    }

    /// Writes what comes before the records; `features` are the numbers of those that there are.
    fn head(&mut self, features: &[u32]) -> io::Result<()> {
        let attrs = attrs(&self.events);
        let mut bytes = Vec::new();
        bytes.u64(MAGIC);
        bytes.u64(HEADER_SIZE as u64);
        bytes.u64(ENTRY_SIZE as u64);
        attrs.encode(&mut bytes);
        self.records.encode(&mut bytes);
        // Names of trace points, which has been elsewhere since 2010.
        Section::default().encode(&mut bytes);
        bytes.extend(bits(features));
        debug_assert_eq!(bytes.len(), HEADER_SIZE);

        let events = self.events.len() as u64;
        for id in FIRST_ID..FIRST_ID + events {
            bytes.u64(id);
        }
        let mut id = ids(0);
        for event in &self.events {
            bytes.extend(event.attr.encode());
            id = id.then(ID_SIZE);
            id.encode(&mut bytes);
        }
        self.output.write_all(&bytes)
    }
}

/// Where the identifiers of so many events are.
const fn ids(events: u64) -> Section {
    let header = Section {
        offset: 0,
        size: HEADER_SIZE as u64,
    };
    header.then(ID_SIZE * events)
}

/// Where the events are.
fn attrs(events: &[Event]) -> Section {
    let events = events.len() as u64;
    ids(events).then(ENTRY_SIZE as u64 * events)
}

/// A bit for each number.
fn bits(numbers: &[u32]) -> [u8; BITS as usize / 8] {
    let mut bits = [0; BITS as usize / 8];
    for number in numbers {
        bits[*number as usize / 8] |= 1 << (number % 8);
    }
    bits
}

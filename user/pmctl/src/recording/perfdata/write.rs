// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the file: the records as they come, and at the end the features and the notes.
//!
//! The header is correct at any time: [`Writer::save`] updates it to the records that have been written so far. When
//! the disk is full, the last records are dropped to make room for the end of the file.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::mem;

use nix::libc;

use super::bytes::Put;
use super::event::{Event, parts};
use super::features::{self, BITS, BuildId, FeatureContent};
use super::header::{ENTRY_SIZE, HEADER_SIZE, MAGIC};
use super::host::Host;
use super::identifier::FIRST_ID;
use super::notes::Notes;
use super::record::Record;
use super::sample_parts::SampleParts;
use super::sections::SECTION_SIZE;
use crate::system::text::{count, error_text, thousands};

/// A part of the file, by its offset and its size in bytes.
#[derive(Clone, Copy, Default)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    /// Returns the section of `size` bytes after this one.
    const fn next_section(self, size: u64) -> Self {
        Self {
            offset: self.offset + self.size,
            size,
        }
    }

    const fn end(self) -> u64 {
        self.offset + self.size
    }

    fn encode(self, bytes: &mut Vec<u8>) {
        bytes.u64(self.offset);
        bytes.u64(self.size);
    }
}

/// Size of an event's identifier.
const ID_SIZE: u64 = 8;
/// Bytes of room for a larger attr of an event, since `perf inject` up to 5.10 replaces the attrs by its own, and leaves
/// the records where they are.
const ENTRY_ROOM: usize = 64;
/// The number of bytes of records that are collected before they are written to the output.
const BLOCK_SIZE: usize = 1 << 16;
/// The distance in bytes between the records at which the file can be cut.
pub(super) const CUT_DISTANCE: u64 = 1 << 12;
/// Bytes that the file system may need in addition when the end of the file moves: a block at each side of the end.
const END_SLACK: u64 = 1 << 13;

/// Sums over the records up to some point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordTotals {
    /// Bytes of the records.
    pub(super) size: u64,
    pub(super) samples: u64,
    /// The times of the first sample and of the last.
    times: Option<(u64, u64)>,
}

impl RecordTotals {
    /// Adds a record of `bytes` bytes. `time` is the time of a sample, or `None` for other records.
    pub(super) fn add(&mut self, bytes: usize, time: Option<u64>) {
        self.size += bytes as u64;
        if let Some(time) = time {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
            self.samples += 1;
        }
    }
}

/// A file that is being written. It has no features until [`finish`](Self::finish), so that [`read`](super::read())
/// recognizes an unfinished recording. perf shows its samples, too.
pub(crate) struct Writer<W: Write + Seek> {
    output: W,
    events: Vec<Event>,
    /// The parts of samples.
    parts: SampleParts,
    /// The encoded records that are not written yet.
    block: Vec<u8>,
    /// Sums over all records, including those in the block.
    totals: RecordTotals,
    /// Sums over the records that are in the file.
    written: RecordTotals,
    /// The totals up to each record at which the file can be cut, including records that are still in the block.
    /// `written` is one of these totals.
    cut_points: Vec<RecordTotals>,
    /// The error because of which records were dropped.
    drop_reason: Option<String>,
}

/// A finished file.
pub(crate) struct Finished<W> {
    pub(crate) output: W,
    pub(crate) samples: u64,
    /// Bytes of the recording. Bytes of `output` beyond this size belong to dropped records.
    pub(crate) size: u64,
}

/// Returns whether the error means that the file can't grow: the disk is full, or a limit is reached.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let reasons = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG];
    let is_unfinished = || {
        error
            .get_ref()
            .is_some_and(<dyn Error + Send + Sync>::is::<NoRoomForEnd>)
    };
    error.raw_os_error().is_some_and(|e| reasons.contains(&e)) || is_unfinished()
}

/// The file has no room for its end, but has records.
#[derive(Debug)]
struct NoRoomForEnd {
    reason: io::Error,
    written: RecordTotals,
}

impl fmt::Display for NoRoomForEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\nThe file has no room for its end, with the names of functions, but it has {} ({} KiB), which `pmctl report` \
             reads: it looks the names up. Make room, give another file (-o), or limit the recording (--max-size).",
            self.reason,
            count(self.written.samples, "sample"),
            thousands(self.written.size.div_ceil(1024))
        )
    }
}

impl Error for NoRoomForEnd {}

impl<W: Write + Seek> Writer<W> {
    /// Begins to write, at the beginning of `output`.
    ///
    /// # Errors
    /// The errors of `output`.
    pub(crate) fn new(output: W, events: Vec<Event>) -> io::Result<Self> {
        let parts = parts(&events);
        let mut writer = Self {
            output,
            events,
            parts,
            block: Vec::new(),
            totals: RecordTotals::default(),
            written: RecordTotals::default(),
            cut_points: Vec::new(),
            drop_reason: None,
        };
        writer.write_header(&[])?;
        Ok(writer)
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The errors of the output. Records that were not written yet are dropped then.
    pub(crate) fn append(&mut self, record: &Record) -> io::Result<()> {
        let previous_length = self.block.len();
        record.encode(self.parts, &mut self.block);
        let time = record.is_sample().then_some(record.stamp.time);
        self.totals.add(self.block.len() - previous_length, time);
        self.flush_if_large()
    }

    /// Appends an encoded record of the kernel, in which the caller has replaced the event's ID by
    /// [`identifier`](super::identifier()). `time` is the time of a sample in nanoseconds; `None` for other records.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub(crate) fn append_raw(&mut self, bytes: &[u8], time: Option<u64>) -> io::Result<()> {
        self.block.extend_from_slice(bytes);
        self.totals.add(bytes.len(), time);
        self.flush_if_large()
    }

    /// Returns the size of all records so far in bytes, written or not.
    pub(crate) const fn size(&self) -> u64 {
        self.totals.size
    }

    fn flush_if_large(&mut self) -> io::Result<()> {
        let last_cut = self.cut_points.last().map_or(0, |point| point.size);
        if self.totals.size - last_cut >= CUT_DISTANCE {
            self.cut_points.push(self.totals);
        }
        if self.block.len() < BLOCK_SIZE {
            return Ok(());
        }
        self.flush()
    }

    /// Writes all records, and updates the header to them.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub(crate) fn save(&mut self) -> io::Result<()> {
        self.flush()?;
        let result = self.write_header(&[]);
        // On a file system that copies on write there may be no room even for the header. The caller records no more then.
        if let Err(error) = &result {
            self.note_if_full(error);
        }
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = mem::take(&mut self.block);
        let end = self.records_section().end();
        match write_at(&mut self.output, end, &block) {
            Ok(()) => {
                self.written = self.totals;
                self.cut_points.push(self.totals);
                Ok(())
            }
            Err((written_bytes, error)) => {
                self.cut(self.written.size + written_bytes);
                self.note_if_full(&error);
                Err(error)
            }
        }
    }

    /// Drops the records after the last point at which the file can be cut within `size` bytes of records.
    fn cut(&mut self, size: u64) {
        let kept_count = self.cut_points.partition_point(|point| point.size <= size);
        self.cut_points.truncate(kept_count);
        self.written = self.cut_points.last().copied().unwrap_or_default();
        self.totals = self.written;
    }

    /// If the error means that there is no room, notes it as the reason why the recording ends early.
    fn note_if_full(&mut self, error: &io::Error) {
        if is_full(error) {
            self.drop_reason.get_or_insert_with(|| error_text(error));
        }
    }

    /// Returns the section of the records that are in the file.
    fn records_section(&self) -> Section {
        front_section(&self.events).next_section(self.written.size)
    }

    /// Writes the end of the file. If there is no room, drops the last records to make room, and puts the reason into
    /// `notes`.
    ///
    /// # Errors
    /// The errors of the output, also if there would be no room even without records. All records
    /// then stay, and the recording remains unfinished.
    pub(crate) fn finish(
        mut self,
        host: &Host,
        build_ids: &[BuildId],
        notes: &mut Notes,
    ) -> io::Result<Finished<W>> {
        let mut result = self.flush();
        let written_end = self.records_section().end();
        loop {
            match result {
                Err(error) if !is_full(&error) => return Err(error),
                _ => notes.cut.clone_from(&self.drop_reason),
            }
            let features = features::encode(&FeatureContent {
                events: &self.events,
                host,
                build_ids,
                times: self.written.times.unwrap_or_default(),
            });
            let mut bytes = encode_features(self.records_section(), &features);
            bytes.extend(notes.encode()?);
            let start = self.records_section().end();
            let Err((_, error)) = write_at(&mut self.output, start, &bytes) else {
                let numbers: Vec<u32> = features.iter().map(|(number, _)| *number).collect();
                self.write_header(&numbers)?;
                return Ok(Finished {
                    samples: self.written.samples,
                    size: start + bytes.len() as u64,
                    output: self.output,
                });
            };
            // The next end is a little longer than this one, since the notes contain the reason.
            let limit = written_end.saturating_sub(bytes.len() as u64 + END_SLACK);
            let size = limit
                .min(start - 1)
                .saturating_sub(front_section(&self.events).end());
            if self
                .cut_points
                .first()
                .is_none_or(|first| first.size > size)
            {
                self.write_header(&[])?;
                let is_readable = self.written.size > 0 && is_full(&error);
                return Err(if is_readable {
                    self.no_room_for_end(error)
                } else {
                    error
                });
            }
            self.cut(size);
            self.note_if_full(&error);
            result = Err(error);
            // The end may be written over the dropped records.
            self.write_header(&[])?;
        }
    }

    /// Returns the error for a file without an end.
    fn no_room_for_end(&self, reason: io::Error) -> io::Error {
        let written = self.written;
        io::Error::new(reason.kind(), NoRoomForEnd { reason, written })
    }

    /// Writes the header and the events. `features` are the numbers of the features that the file has.
    fn write_header(&mut self, features: &[u32]) -> io::Result<()> {
        let attrs = attrs_section(&self.events);
        let mut bytes = Vec::new();
        bytes.u64(MAGIC);
        bytes.u64(HEADER_SIZE as u64);
        bytes.u64(ENTRY_SIZE as u64);
        attrs.encode(&mut bytes);
        self.records_section().encode(&mut bytes);
        // The section of tracepoint names, which perf has not used since 2010.
        Section::default().encode(&mut bytes);
        bytes.extend(feature_bits(features));
        debug_assert_eq!(bytes.len(), HEADER_SIZE);

        let events = self.events.len() as u64;
        for id in FIRST_ID..FIRST_ID + events {
            bytes.u64(id);
        }
        let mut id = ids_section(0);
        for event in &self.events {
            bytes.extend(event.attr.encode());
            id = id.next_section(ID_SIZE);
            id.encode(&mut bytes);
        }
        // Fills the file up to the first record, so that the file is complete even without records.
        bytes.resize(bytes.len() + ENTRY_ROOM * self.events.len(), 0);
        self.output.seek(SeekFrom::Start(0))?;
        self.output.write_all(&bytes)
    }
}

/// Writes all bytes at an offset. An error comes with the number of bytes that were written before it.
fn write_at(
    output: &mut (impl Write + Seek),
    offset: u64,
    bytes: &[u8],
) -> Result<(), (u64, io::Error)> {
    output
        .seek(SeekFrom::Start(offset))
        .map_err(|error| (0, error))?;
    let mut written = 0;
    while written < bytes.len() {
        match output.write(&bytes[written..]) {
            Ok(0) => return Err((written as u64, ErrorKind::WriteZero.into())),
            Ok(number) => written += number,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err((written as u64, error)),
        }
    }
    Ok(())
}

/// Encodes the end of the file: the sections of the features, by number, and the features.
fn encode_features(records: Section, features: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = records.next_section(SECTION_SIZE * features.len() as u64);
    for (_, content) in features {
        last = last.next_section(content.len() as u64);
        last.encode(&mut bytes);
    }
    for (_, content) in features {
        bytes.extend(content);
    }
    bytes
}

/// Returns the section of the identifiers of `events` events.
const fn ids_section(events: u64) -> Section {
    let header = Section {
        offset: 0,
        size: HEADER_SIZE as u64,
    };
    header.next_section(ID_SIZE * events)
}

/// Returns the section of the events.
fn attrs_section(events: &[Event]) -> Section {
    let events = events.len() as u64;
    ids_section(events).next_section(ENTRY_SIZE as u64 * events)
}

/// Returns the section in front of the records, which ends with [`ENTRY_ROOM`] bytes for each event.
fn front_section(events: &[Event]) -> Section {
    let room = (ENTRY_ROOM * events.len()) as u64;
    Section {
        offset: 0,
        size: attrs_section(events).next_section(room).end(),
    }
}

/// Returns the header's mask of features: a bit for each of these numbers.
fn feature_bits(numbers: &[u32]) -> [u8; BITS as usize / 8] {
    let mut bits = [0; BITS as usize / 8];
    for number in numbers {
        bits[*number as usize / 8] |= 1 << (number % 8);
    }
    bits
}

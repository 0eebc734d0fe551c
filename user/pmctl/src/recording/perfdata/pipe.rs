// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recording as a stream, for standard output, in perf's format for pipes, which `perf report -i -` reads.
//!
//! ```text
//! header          16 bytes: PERFILE2, and its size
//! HEADER_ATTR     for each event: a `struct perf_event_attr` and the identifier
//! HEADER_FEATURE  host name, command line, ...
//! EVENT_UPDATE    with a type of pmctl's own, empty: the notes follow at the end
//! records         as in the file, with FINISHED_ROUND after each round
//! BUILD_ID        for each file with samples
//! EVENT_UPDATE    the notes, in parts
//! ```
//!
//! perf refuses features with unknown numbers, and skips updates with unknown types. So the notes are updates here, and
//! not a feature.

use std::io::{self, Write};

use super::attr::Attr;
use super::bytes::{Put, Reader};
use super::event::{Event, parts};
use super::features::{self, BuildId, Features};
use super::header::MAGIC;
use super::host::Host;
use super::identifier::{FIRST_ID, identifier};
use super::notes::{MARK, Notes};
use super::parts::ParsedParts;
use super::record::Record;
use super::sample_parts::SampleParts;
use super::source::{BlockReader, RecordingBytes};
use super::write::{Finished, RecordTotals};
use super::{attr, codec};

/// `PERF_RECORD_*` that the perf tool makes, and not the kernel.
const HEADER_ATTR: u32 = 64;
const HEADER_BUILD_ID: u32 = 67;
const FINISHED_ROUND: u32 = 68;
const EVENT_UPDATE: u32 = 78;
const HEADER_FEATURE: u32 = 80;

/// Bytes of the header.
const HEADER_SIZE: usize = 16;
/// The largest size of a record in bytes.
const MAX_RECORD_SIZE: usize = (u16::MAX as usize + 1) - 8;
/// Size in bytes of the fields in front of the content of an update.
const UPDATE_HEAD_SIZE: usize = 24;
/// Number of bytes of records that are collected before they are written to the output.
const BLOCK_SIZE: usize = 1 << 16;

/// A stream that is being written.
pub(crate) struct Pipe<W: Write> {
    output: W,
    /// The parts of samples.
    parts: SampleParts,
    /// Bytes that are not yet written to `output`.
    block: Vec<u8>,
    totals: RecordTotals,
    /// Records were appended since the last round ended.
    has_open_round: bool,
}

impl<W: Write> Pipe<W> {
    /// Begins a stream: writes the header, the events and the features.
    ///
    /// # Errors
    /// The errors of `output`.
    pub(crate) fn new(output: W, events: &[Event], host: &Host) -> io::Result<Self> {
        let mut pipe = Self {
            output,
            parts: parts(events),
            block: Vec::new(),
            totals: RecordTotals::default(),
            has_open_round: false,
        };
        pipe.block.u64(MAGIC);
        pipe.block.u64(HEADER_SIZE as u64);
        for (index, event) in events.iter().enumerate() {
            pipe.append_to_block((HEADER_ATTR, 0), |bytes| {
                bytes.extend(event.attr.encode());
                bytes.u64(identifier(index));
            });
        }
        for (number, content) in features::encode_known(events, host) {
            pipe.append_to_block((HEADER_FEATURE, 0), |bytes| {
                bytes.u64(number.into());
                bytes.extend(content);
            });
        }
        pipe.put_notes(&[]);
        pipe.flush()?;
        Ok(pipe)
    }

    /// Appends a record to the block. A record that is too long is left out.
    fn append_to_block(&mut self, (kind, flags): (u32, u16), content: impl FnOnce(&mut Vec<u8>)) {
        let start = self.block.len();
        self.block.u32(kind);
        self.block.u16(flags);
        self.block.u16(0);
        content(&mut self.block);
        let end = start + (self.block.len() - start).next_multiple_of(8);
        self.block.resize(end, 0);
        match u16::try_from(end - start) {
            Ok(size) => self.block[start + 6..start + 8].copy_from_slice(&size.to_le_bytes()),
            Err(_) => self.block.truncate(start),
        }
    }

    fn put_notes(&mut self, part: &[u8]) {
        self.append_to_block((EVENT_UPDATE, 0), |bytes| {
            bytes.u64(MARK);
            bytes.u64(FIRST_ID);
            bytes.extend(part);
        });
    }

    /// Appends a record.
    ///
    /// # Errors
    /// The errors of the output.
    pub(crate) fn append(&mut self, record: &Record) -> io::Result<()> {
        let previous_length = self.block.len();
        record.encode(self.parts, &mut self.block);
        let time = record.is_sample().then_some(record.stamp.time);
        self.count_record(self.block.len() - previous_length, time)
    }

    /// Appends an encoded record of the kernel, in which the caller has replaced the event's ID by [`identifier`]. `time` is
    /// the time of a sample in nanoseconds; `None` for other records.
    ///
    /// # Errors
    /// The errors of the output.
    pub(crate) fn append_raw(&mut self, bytes: &[u8], time: Option<u64>) -> io::Result<()> {
        self.block.extend_from_slice(bytes);
        self.count_record(bytes.len(), time)
    }

    /// Returns the size of all records so far in bytes, written or not.
    pub(crate) const fn size(&self) -> u64 {
        self.totals.size
    }

    /// Adds an appended record to the totals, and writes the block if it is full.
    fn count_record(&mut self, bytes: usize, time: Option<u64>) -> io::Result<()> {
        self.totals.add(bytes, time);
        self.has_open_round = true;
        if self.block.len() < BLOCK_SIZE {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.output.write_all(&self.block);
        self.block.clear();
        result?;
        self.output.flush()
    }

    /// Ends a round, and flushes the output. Later records are not older than those before the round.
    ///
    /// # Errors
    /// The errors of the output.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        if self.has_open_round {
            self.append_to_block((FINISHED_ROUND, 0), |_| {});
            self.has_open_round = false;
        }
        self.flush()
    }

    /// Writes the build-ids and the notes, which end the stream.
    ///
    /// # Errors
    /// The errors of the output.
    pub(crate) fn finish(
        mut self,
        build_ids: &[BuildId],
        notes: &Notes,
    ) -> io::Result<Finished<W>> {
        for id in build_ids {
            self.append_to_block((HEADER_BUILD_ID, features::build_id_flags(id)), |bytes| {
                features::put_build_id(id, bytes);
            });
        }
        for part in serde_json::to_vec(notes)?.chunks(MAX_RECORD_SIZE - UPDATE_HEAD_SIZE) {
            self.put_notes(part);
        }
        self.totals.size += self.block.len() as u64;
        self.flush()?;
        Ok(Finished {
            output: self.output,
            samples: self.totals.samples,
            size: self.totals.size,
        })
    }
}

/// Returns whether a file that begins with these bytes is a stream.
pub(super) fn is_pipe(front: &[u8]) -> bool {
    let mut reader = Reader(front);
    (reader.u64(), reader.u64()) == (Some(MAGIC), Some(HEADER_SIZE as u64))
}

/// Reads the parts of a stream other than the kernel's records. A record that is cut off ends the stream. Returns `None` if
/// a record can't be decoded.
pub(super) fn parse(source: &RecordingBytes) -> Option<ParsedParts> {
    let mut attrs = Vec::new();
    let mut features = Features::default();
    let mut notes: Option<Vec<u8>> = None;
    let start = HEADER_SIZE as u64;
    let mut end = start;
    let mut blocks = BlockReader::new(source, (start, source.size()));
    loop {
        let rest = blocks.buffered()?;
        if rest.len() < codec::HEADER_SIZE {
            break;
        }
        let size = codec::record_size(rest)?;
        let Some(record) = rest.get(..size) else {
            break;
        };
        let mut reader = Reader(record);
        let kind = reader.u32()?;
        let _ = reader.u32()?;
        match kind {
            HEADER_ATTR => attrs.push(Attr::decode(reader.take(attr::SIZE)?)?),
            HEADER_FEATURE => {
                let number = u32::try_from(reader.u64()?).ok()?;
                features.add(number, reader.0)?;
            }
            HEADER_BUILD_ID => features.build_ids.push(features::decode_build_id(record)?),
            EVENT_UPDATE if reader.u64()? == MARK => {
                let _id = reader.u64()?;
                notes.get_or_insert_default().extend_from_slice(reader.0);
            }
            _ => {}
        }
        blocks.skip(size);
        end += size as u64;
    }
    // Streams of other programs have no notes, not even empty ones.
    let notes = notes.map(|bytes| {
        // The record is padded with zeros after the JSON.
        let length = bytes.iter().rposition(|byte| *byte != 0);
        length.and_then(|last| serde_json::from_slice(&bytes[..=last]).ok())
    });
    let is_unfinished = notes == Some(None);
    features.notes = match notes {
        Some(None) => Features::unfinished(&attrs).notes,
        Some(read) => read,
        None => None,
    };
    Some(ParsedParts {
        attrs,
        features,
        is_unfinished,
        is_from_perf: false,
        section: (start, end),
    })
}

#[cfg(test)]
mod tests {
    use super::super::example::{example, records};
    use super::super::read::read;
    use super::super::sections::ReadError;
    use super::super::{Recording, Records, SymbolTable};
    use super::*;
    use linux_perf_data::{PerfFileReader, PerfFileRecord};
    use proptest::prelude::*;

    /// Returns a recording as a stream, with rounds of three records.
    fn stream_of(recording: &Recording) -> Vec<u8> {
        let mut pipe = begin_pipe(recording);
        for (index, record) in recording.records.iter().enumerate() {
            let record = record.expect("it is well formed");
            pipe.append(&record).expect("a vector takes everything");
            if index % 3 == 0 {
                pipe.save().expect("a vector takes everything");
            }
        }
        let result = pipe.finish(&recording.build_ids, &recording.notes);
        result.expect("a vector takes everything").output
    }

    fn begin_pipe(recording: &Recording) -> Pipe<Vec<u8>> {
        let pipe = Pipe::new(Vec::new(), &recording.events, &recording.host);
        pipe.expect("a vector takes everything")
    }

    #[test]
    fn what_is_written_is_read_again() {
        for all in [false, true] {
            let mut recording = example(all);
            // Notes that take several records.
            recording.notes.symbols = vec![
                SymbolTable {
                    file: "a name".to_owned(),
                    ..SymbolTable::default()
                };
                5000
            ];
            assert_eq!(read(stream_of(&recording)), Ok(recording));
        }
    }

    #[test]
    fn the_number_of_an_error_in_notes_of_earlier_versions_is_left_out() {
        let mut recording = example(false);
        recording.notes.cut = Some("No space left on device (os error 28)".to_owned());
        let read = read(stream_of(&recording)).expect("it is whole");
        assert_eq!(read.notes.cut.as_deref(), Some("No space left on device"));
    }

    #[test]
    fn another_reader_finds_the_same() {
        let bytes = stream_of(&example(true));
        let PerfFileReader {
            mut record_iter,
            mut perf_file,
        } = PerfFileReader::parse_pipe(&bytes[..]).expect("it is well formed");
        let names: Vec<_> = perf_file
            .event_attributes()
            .iter()
            .map(|event| event.name().unwrap_or("none").to_owned())
            .collect();
        assert_eq!(names, ["cycles:u", "r1c0"]);
        let host = perf_file.hostname().expect("it is well formed");
        assert_eq!(host, Some("here"));
        let mut event_records = 0;
        while let Some(record) = record_iter
            .next_record(&mut perf_file)
            .expect("it is well formed")
        {
            event_records += usize::from(matches!(record, PerfFileRecord::EventRecord { .. }));
        }
        assert_eq!(event_records, records(true).len());
    }

    #[test]
    fn a_stream_that_is_cut_off_is_read_up_to_there() {
        let mut recording = example(true);
        let whole_stream = stream_of(&recording);
        recording.build_ids.clear();
        let mut pipe = begin_pipe(&recording);
        for record in &records(true) {
            pipe.append(record).expect("a vector takes everything");
        }
        pipe.save().expect("a vector takes everything");
        let mut bytes = pipe.output;
        bytes.truncate(bytes.len() - 12);
        let cut_recording = read(bytes).expect("it is whole as far as it goes");
        assert!(cut_recording.is_unfinished);
        assert_eq!(cut_recording.host, recording.host);
        let mut kept_records = records(true);
        kept_records.pop();
        assert_eq!(cut_recording.records, Records::from(&kept_records[..]));
        // Wherever the stream is cut off, reading does not panic, and only the whole stream counts as finished.
        for length in 0..whole_stream.len() {
            let read_recording = read(&whole_stream[..length]);
            assert!(
                read_recording.is_err()
                    || read_recording.is_ok_and(|read_recording| read_recording.is_unfinished),
                "{length}"
            );
        }
    }

    proptest! {
        #[test]
        fn damage_does_not_panic(places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
            let mut bytes = stream_of(&example(true));
            for (place, value) in places {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            let _ = read(bytes);
        }
    }

    #[test]
    fn a_stream_of_perf_is_refused() {
        let recording = example(false);
        let mut pipe = begin_pipe(&recording);
        pipe.save().expect("a vector takes everything");
        let bytes = pipe.output;
        // The empty notes are at the end.
        assert_eq!(
            read(&bytes[..bytes.len() - UPDATE_HEAD_SIZE]),
            Err(ReadError::PerfStream)
        );
        assert!(read(bytes).is_ok_and(|read| read.is_unfinished));
    }
}

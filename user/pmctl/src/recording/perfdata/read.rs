// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the files of [`Writer`](super::Writer), and those of `perf record`. Other bytes are refused with an error.
//!
//! Crate linux-perf-data is used in the tests only. It holds all records in memory to sort them: 213 MB for a million
//! samples, where this reader takes 6 MB. It also takes 1,700 instructions for a record, more than `report` takes for a
//! sample.

use super::attr::{self, Attr};
use super::bytes::Reader;
use super::event::Event;
use super::features::Features;
use super::header::{ENTRY_SIZE, HEADER_SIZE, MAGIC};
use super::notes::Notes;
use super::parts::{Header, ParsedParts};
use super::recording::Recording;
use super::records::Records;
use super::sample_parts::SampleParts;
use super::sections::{EVENTS, FEATURES, RECORDS, ReadError, SECTION_SIZE, checked_end, part};
use super::source::RecordingBytes;
use super::{perfs, pipe};
use crate::system::text::without_error_numbers;

/// The magic number `PERFFILE` of the first version of the format.
const FIRST_MAGIC: u64 = u64::from_le_bytes(*b"PERFFILE");

/// Reads a recording.
///
/// # Errors
/// [`ReadError`], whatever the bytes are.
pub(crate) fn read(source: impl Into<RecordingBytes>) -> Result<Recording, ReadError> {
    let source = source.into();
    let header_bytes = source.bytes_at((0, source.size().min(HEADER_SIZE as u64)));
    let header_bytes = header_bytes.ok_or(ReadError::Broken("header"))?;
    if header_bytes.is_empty() {
        return Err(ReadError::Empty);
    }
    match Reader(&header_bytes).u64() {
        Some(MAGIC) => {}
        Some(word) if word == MAGIC.swap_bytes() => return Err(ReadError::OtherByteOrder),
        Some(FIRST_MAGIC) => return Err(ReadError::FirstVersion),
        _ => return Err(ReadError::NotPerfData),
    }
    let parts = if pipe::is_pipe(&header_bytes) {
        pipe::parse(&source).ok_or(ReadError::Broken(RECORDS))?
    } else {
        if header_bytes.len() < HEADER_SIZE {
            return Err(ReadError::Broken("header"));
        }
        let mut header =
            Header::decode(Reader(&header_bytes)).ok_or(ReadError::Broken("header"))?;
        let is_unfinished = header.feature_numbers().next().is_none();
        if header.entry_size == ENTRY_SIZE && is_unfinished {
            parse(&source, &header, None)?
        } else if header.data.1 == 0 {
            // perf writes the size of the records and the features when the recording ends.
            header.data.1 = source.size().saturating_sub(header.data.0);
            let (parts, records) = perfs::parse(&source, &header, None)?;
            return assemble(records, parts);
        } else {
            let (features, features_end) = read_features(&source, &header)?;
            if header.entry_size != ENTRY_SIZE || !features.is_of_pmctl {
                let (parts, records) = perfs::parse(&source, &header, Some(features))?;
                return assemble(records, parts);
            }
            parse(&source, &header, Some((features, features_end)))?
        }
    };
    drop(header_bytes);
    assemble(source, parts)
}

/// Reads the parts of a file other than the records. `features` has the file's features, and the
/// offset after them; `None` for an unfinished file.
fn parse(
    source: &RecordingBytes,
    header: &Header,
    features: Option<(Features, u64)>,
) -> Result<ParsedParts, ReadError> {
    let attrs = read_attrs(source, header)?;
    let is_unfinished = features.is_none();
    let features = match features {
        None => Features::unfinished(&attrs),
        Some((mut features, notes_offset)) => {
            // Earlier versions wrote the notes as a feature.
            if features.notes.is_none() {
                features.notes = Some(Notes::read(source, notes_offset)?);
            }
            features
        }
    };
    let (start, size) = header.data;
    Ok(ParsedParts {
        attrs,
        features,
        is_unfinished,
        is_from_perf: false,
        section: (start, checked_end(source, (start, size), RECORDS)?),
    })
}

/// Checks the records, and makes the recording of its parts.
fn assemble(source: RecordingBytes, parsed: ParsedParts) -> Result<Recording, ReadError> {
    let ParsedParts {
        attrs,
        features,
        is_unfinished,
        is_from_perf,
        section,
    } = parsed;
    let mut notes = features.notes.ok_or(ReadError::PerfStream)?;
    if notes.version != Notes::VERSION {
        return Err(ReadError::Version {
            found: notes.version,
            known: Notes::VERSION,
        });
    }
    // Earlier versions stored the number of the error, too.
    notes.cut = notes.cut.as_deref().map(without_error_numbers);

    let no_events = ReadError::Broken(EVENTS);
    let parts = attrs.first().map_or_else(SampleParts::default, Attr::parts);
    let have_same_fields = attrs.iter().all(|a| a.fields == parts.fields());
    let have_all_totals = notes.totals.is_empty() || notes.totals.len() == attrs.len();
    if attrs.is_empty()
        || !have_same_fields
        || features.names.len() != attrs.len()
        || !have_all_totals
    {
        return Err(no_events);
    }
    let events = features.names.into_iter().zip(attrs);
    let events: Vec<Event> = events.map(|(name, attr)| Event { name, attr }).collect();

    let records = Records::read(source, section, parts, events.len())?;
    Ok(Recording {
        events,
        records,
        host: features.host,
        build_ids: features.build_ids,
        notes,
        is_unfinished,
        is_from_perf,
        end: None,
    })
}

fn read_attrs(source: &RecordingBytes, header: &Header) -> Result<Vec<Attr>, ReadError> {
    let attrs = part(source, header.attrs, EVENTS)?;
    let attrs = attrs
        .chunks_exact(ENTRY_SIZE)
        .map(|entry| Attr::decode(&entry[..attr::SIZE]));
    attrs
        .collect::<Option<_>>()
        .ok_or(ReadError::Broken(EVENTS))
}

/// Returns the features, and the offset after the last one.
fn read_features(source: &RecordingBytes, header: &Header) -> Result<(Features, u64), ReadError> {
    let broken_features = ReadError::Broken(FEATURES);
    let mut features = Features::default();
    let start = checked_end(source, header.data, RECORDS)?;
    let size = header.feature_numbers().count() as u64 * SECTION_SIZE;
    let table = part(source, (start, size), FEATURES)?;
    let mut table = Reader(&table);
    let mut features_end = start;
    for number in header.feature_numbers() {
        let section = table.u64().zip(table.u64()).ok_or(broken_features)?;
        let content = part(source, section, FEATURES)?;
        features.add(number, &content).ok_or(broken_features)?;
        features_end = checked_end(source, section, FEATURES)?;
    }
    Ok((features, features_end))
}

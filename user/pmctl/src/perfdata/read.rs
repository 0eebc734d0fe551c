// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading what [`Writer`](super::Writer) wrote, and surviving what it didn't.

use std::fmt;

use super::attr::{self, Attr, sample_fields};
use super::bytes::Reader;
use super::features::{self, Features};
use super::{ENTRY_SIZE, Event, HEADER_SIZE, MAGIC, Notes, Recording, Records};

/// Why a file can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// It does not begin as a perf.data file does.
    NotPerfData,
    /// It is a perf.data file, but not from `pmctl record`.
    NotOurs,
    /// It was never finished: pmctl was killed, or the machine went down.
    Unfinished,
    /// It is from a pmctl whose notes have another version.
    Version(u32),
    /// This part of it is cut off or makes no sense.
    Broken(&'static str),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPerfData => f.write_str("this is no perf.data file"),
            Self::NotOurs => f.write_str(
                "this perf.data file is not from `pmctl record`\n`perf report` and `perf script` can read it.",
            ),
            Self::Unfinished => f.write_str(
                "this recording was not finished: who wrote it was killed, or still writes it\n`perf report` and \
                 `perf script` can read what there is.",
            ),
            Self::Version(version) => write!(
                f,
                "this file is from another version of pmctl: its notes have version {version}, and this pmctl \
                 reads version {}\n`perf report` and `perf script` can read it.",
                Notes::VERSION
            ),
            Self::Broken(part) => write!(f, "the file is damaged: its {part} can't be read"),
        }
    }
}

impl std::error::Error for ReadError {}

/// What the header says.
struct Header {
    attrs: (u64, u64),
    data: (u64, u64),
    features: [u8; features::BITS as usize / 8],
}

impl Header {
    fn decode(mut reader: Reader<'_>) -> Option<Self> {
        let section = |reader: &mut Reader<'_>| Some((reader.u64()?, reader.u64()?));
        let (_magic, size, entry) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let attrs = section(&mut reader)?;
        let data = section(&mut reader)?;
        let _names = section(&mut reader)?;
        let features = reader.take(features::BITS as usize / 8)?.try_into().ok()?;
        (size == HEADER_SIZE as u64 && entry == ENTRY_SIZE as u64).then_some(Self {
            attrs,
            data,
            features,
        })
    }

    /// The features that there are.
    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        (0..features::BITS).filter(|n| self.features[*n as usize / 8] >> (n % 8) & 1 != 0)
    }
}

/// Where a section begins and ends.
fn range(file: &[u8], (offset, size): (u64, u64)) -> Option<(usize, usize)> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    (end <= file.len()).then_some((start, end))
}

/// The bytes of a section.
fn part(file: &[u8], section: (u64, u64)) -> Option<&[u8]> {
    let (start, end) = range(file, section)?;
    file.get(start..end)
}

/// Reads a recording from the bytes of a file.
///
/// # Errors
/// [`ReadError`], whatever the bytes are.
pub(crate) fn read(file: impl Into<Vec<u8>>) -> Result<Recording, ReadError> {
    let bytes = file.into();
    let file = &bytes[..];
    if Reader(file).u64() != Some(MAGIC) {
        return Err(ReadError::NotPerfData);
    }
    if file.len() < HEADER_SIZE {
        return Err(ReadError::Broken("header"));
    }
    // perf may have larger attrs than pmctl.
    let header = Header::decode(Reader(file)).ok_or(ReadError::NotOurs)?;
    // They are written last.
    if header.numbers().next().is_none() {
        return Err(ReadError::Unfinished);
    }
    let features = read_features(file, &header)?;
    let notes = features.notes.ok_or(ReadError::NotOurs)?;
    if notes.version != Notes::VERSION {
        return Err(ReadError::Version(notes.version));
    }

    let attrs = part(file, header.attrs).ok_or(ReadError::Broken("list of events"))?;
    let attrs: Vec<Attr> = attrs
        .chunks_exact(ENTRY_SIZE)
        .map(|entry| Attr::decode(&entry[..attr::SIZE]))
        .collect::<Option<_>>()
        .ok_or(ReadError::Broken("list of events"))?;
    let branches = attrs.first().is_some_and(Attr::has_branches);
    let uniform = attrs.iter().all(|a| a.fields == sample_fields(branches));
    if !uniform || features.names.len() != attrs.len() || notes.totals.len() != attrs.len() {
        return Err(ReadError::Broken("list of events"));
    }
    let events = features.names.into_iter().zip(attrs);

    let unreadable = ReadError::Broken("list of records");
    let place = range(file, header.data).ok_or(unreadable)?;
    let events: Vec<Event> = events.map(|(name, attr)| Event { name, attr }).collect();
    let records = Records::read(bytes, place, branches, events.len()).ok_or(unreadable)?;
    Ok(Recording {
        events,
        records,
        host: features.host,
        build_ids: features.build_ids,
        notes,
    })
}

fn read_features(file: &[u8], header: &Header) -> Result<Features, ReadError> {
    let mut features = Features::default();
    let table = header.data.0.checked_add(header.data.1);
    let table = table.and_then(|offset| file.get(usize::try_from(offset).ok()?..));
    let mut table = Reader(table.ok_or(ReadError::Broken("list of features"))?);
    for number in header.numbers() {
        let section = table.u64().zip(table.u64());
        section
            .and_then(|section| part(file, section))
            .and_then(|content| features.add(number, content))
            .ok_or(ReadError::Broken("list of features"))?;
    }
    Ok(features)
}

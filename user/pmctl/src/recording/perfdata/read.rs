// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads what [`Writer`](super::Writer) wrote, and survives other bytes.
//!
//! Crate linux-perf-data reads the files in the tests only: to sort the records it holds all of them, 213 MB for a
//! million samples where this takes 6, and a record takes it 1,700 instructions, more than a sample takes `report`.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use super::attr::{self, Attr, Parts};
use super::bytes::Reader;
use super::features::{self, Features};
use super::source::Source;
use super::write::SECTION_SIZE;
use super::{ENTRY_SIZE, Event, HEADER_SIZE, MAGIC, Notes, Recording, Records, perfs, pipe};
use crate::system::text::thousands;

/// Parts of a file in messages.
pub(super) const EVENTS: &str = "list of events";
pub(super) const RECORDS: &str = "list of records";
const FEATURES: &str = "list of features";

/// `PERFFILE`, of the first version.
const FIRST_MAGIC: u64 = u64::from_le_bytes(*b"PERFFILE");

/// Reason why a file can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// It has no byte.
    Empty,
    /// It does not begin as a perf.data file does.
    NotPerfData,
    /// It is from a machine of the other byte order.
    OtherByteOrder,
    /// It is a file of `perf record` before Linux 3.2.
    FirstVersion,
    /// It is a stream of `perf record`.
    PerfsStream,
    /// It is a file of `perf record -z`.
    Compressed,
    /// It is a file of `perf stat record`.
    Counts,
    /// It is a file of `perf record --threads`.
    Divided,
    /// It is from a pmctl whose notes have another version.
    Version(u32),
    /// This part of it makes no sense.
    Broken(&'static str),
    /// This part of it ends behind the end of the file.
    CutOff {
        part: &'static str,
        end: u64,
        size: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::NotPerfData => f.write_str("this is not a perf.data file"),
            Self::OtherByteOrder => f.write_str(
                "this file is from a machine of the other byte order (big-endian), and pmctl reads those of x86 only\nRead it \
                 with `perf report` or `perf script`.",
            ),
            Self::FirstVersion => f.write_str(
                "this file has the first format of perf.data (PERFFILE), which `perf record` wrote before Linux 3.2\nRead it with \
                 `perf report` or `perf script`.",
            ),
            Self::PerfsStream => f.write_str(
                "this is a stream of `perf record -o -`, and pmctl reads perf's files only\nRecord with `-o FILE`, or \
                 read it with `perf report` or `perf script`.",
            ),
            Self::Compressed => f.write_str(
                "the records are compressed, which pmctl can't read\nRecord without `-z`, or read it with `perf report` or \
                 `perf script`.",
            ),
            Self::Counts => f.write_str(
                "the file has counts of `perf stat record`, and no samples\n`perf stat report -i FILE` shows them.",
            ),
            Self::Divided => f.write_str(
                "the records are in several files, which pmctl can't read\nRecord without `--threads`, or read the folder \
                 with `perf report` or `perf script`.",
            ),
            Self::Version(version) => write!(
                f,
                "this file is from another version of pmctl: its notes have version {version}, and this pmctl \
                 reads version {}\n`perf report` and `perf script` can read it.",
                Notes::VERSION
            ),
            Self::Broken(part) => write!(f, "the file is damaged: its {part} can't be read"),
            Self::CutOff { part, end, size } => write!(
                f,
                "the file is cut off, or damaged: it has {} bytes, and its {part} ends at byte {}\n\
                 Copy it again from where it was recorded.",
                thousands(*size),
                thousands(*end)
            ),
        }
    }
}

impl std::error::Error for ReadError {}

/// Content of the header.
pub(super) struct Header {
    /// Bytes of the entry of each event.
    pub(super) entry: usize,
    pub(super) attrs: (u64, u64),
    pub(super) data: (u64, u64),
    features: [u8; features::BITS as usize / 8],
}

impl Header {
    fn decode(mut reader: Reader<'_>) -> Option<Self> {
        /// That of the oldest perf, and more than that of the newest.
        const SIZES: RangeInclusive<u64> = 64 + SECTION_SIZE..=1024;
        let section = |reader: &mut Reader<'_>| Some((reader.u64()?, reader.u64()?));
        let (_magic, size, entry) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let attrs = section(&mut reader)?;
        let data = section(&mut reader)?;
        let _names = section(&mut reader)?;
        let features = reader.take(features::BITS as usize / 8)?.try_into().ok()?;
        let is_known = size == HEADER_SIZE as u64 && SIZES.contains(&entry) && entry % 8 == 0;
        is_known.then_some(Self {
            entry: usize::try_from(entry).ok()?,
            attrs,
            data,
            features,
        })
    }

    /// Returns the numbers of the features that there are.
    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        (0..features::BITS).filter(|n| self.features[*n as usize / 8] >> (n % 8) & 1 != 0)
    }
}

/// Reads a recording.
///
/// # Errors
/// [`ReadError`], whatever the bytes are.
pub(crate) fn read(source: impl Into<Source>) -> Result<Recording, ReadError> {
    let source = source.into();
    let front = source.part((0, source.size().min(HEADER_SIZE as u64)));
    let front = front.ok_or(ReadError::Broken("header"))?;
    if front.is_empty() {
        return Err(ReadError::Empty);
    }
    match Reader(&front).u64() {
        Some(MAGIC) => {}
        Some(word) if word == MAGIC.swap_bytes() => return Err(ReadError::OtherByteOrder),
        Some(FIRST_MAGIC) => return Err(ReadError::FirstVersion),
        _ => return Err(ReadError::NotPerfData),
    }
    let parsed = if pipe::is_pipe(&front) {
        pipe::parse(&source).ok_or(ReadError::Broken(RECORDS))?
    } else {
        if front.len() < HEADER_SIZE {
            return Err(ReadError::Broken("header"));
        }
        let mut header = Header::decode(Reader(&front)).ok_or(ReadError::Broken("header"))?;
        let is_unfinished = header.numbers().next().is_none();
        if header.entry == ENTRY_SIZE && is_unfinished {
            parse(&source, &header, None)?
        } else if header.data.1 == 0 {
            // perf writes the size of the records, and the features, at the end.
            header.data.1 = source.size().saturating_sub(header.data.0);
            let (parsed, records) = perfs::parse(&source, &header, None)?;
            return assemble(records, parsed);
        } else {
            let (features, behind) = read_features(&source, &header)?;
            if header.entry != ENTRY_SIZE || !features.is_of_pmctl {
                let (parsed, records) = perfs::parse(&source, &header, Some(features))?;
                return assemble(records, parsed);
            }
            parse(&source, &header, Some((features, behind)))?
        }
    };
    drop(front);
    assemble(source, parsed)
}

/// What a recording has besides its records.
pub(super) struct Parsed {
    pub(super) attrs: Vec<Attr>,
    pub(super) features: Features,
    /// It has no end.
    pub(super) unfinished: bool,
    /// It is from `perf record`.
    pub(super) from_perf: bool,
    /// Offsets of the first record, and behind the last one.
    pub(super) section: (u64, u64),
}

/// Reads all but the records of a file. `features` are those that it has, and the offset behind them; a file that was not
/// finished has none.
fn parse(
    source: &Source,
    header: &Header,
    features: Option<(Features, u64)>,
) -> Result<Parsed, ReadError> {
    let attrs = read_attrs(source, header)?;
    let unfinished = features.is_none();
    let features = match features {
        None => Features::unfinished(&attrs),
        Some((mut features, behind)) => {
            // Those of earlier versions are a feature.
            if features.notes.is_none() {
                features.notes = Some(Notes::read(source, behind)?);
            }
            features
        }
    };
    let (start, size) = header.data;
    Ok(Parsed {
        attrs,
        features,
        unfinished,
        from_perf: false,
        section: (start, end(source, (start, size), RECORDS)?),
    })
}

/// Returns the end of a part of the file.
pub(super) fn end(
    source: &Source,
    (offset, size): (u64, u64),
    part: &'static str,
) -> Result<u64, ReadError> {
    let end = offset.checked_add(size).ok_or(ReadError::Broken(part))?;
    let size = source.size();
    if end > size {
        return Err(ReadError::CutOff { part, end, size });
    }
    Ok(end)
}

/// Returns the bytes of a part of the file.
pub(super) fn part<'a>(
    source: &'a Source,
    section: (u64, u64),
    part: &'static str,
) -> Result<Cow<'a, [u8]>, ReadError> {
    end(source, section, part)?;
    source.part(section).ok_or(ReadError::Broken(part))
}

/// Checks the records, and puts all together.
fn assemble(source: Source, parsed: Parsed) -> Result<Recording, ReadError> {
    let Parsed {
        attrs,
        features,
        unfinished,
        from_perf,
        section,
    } = parsed;
    let notes = features.notes.ok_or(ReadError::PerfsStream)?;
    if notes.version != Notes::VERSION {
        return Err(ReadError::Version(notes.version));
    }

    let no_events = ReadError::Broken(EVENTS);
    let parts = attrs.first().map_or_else(Parts::default, Attr::parts);
    let uniform = attrs.iter().all(|a| a.fields == parts.fields());
    let are_of_all = notes.totals.is_empty() || notes.totals.len() == attrs.len();
    if !uniform || features.names.len() != attrs.len() || !are_of_all {
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
        unfinished,
        from_perf,
        ended: None,
    })
}

fn read_attrs(source: &Source, header: &Header) -> Result<Vec<Attr>, ReadError> {
    let attrs = part(source, header.attrs, EVENTS)?;
    let attrs = attrs
        .chunks_exact(ENTRY_SIZE)
        .map(|entry| Attr::decode(&entry[..attr::SIZE]));
    attrs
        .collect::<Option<_>>()
        .ok_or(ReadError::Broken(EVENTS))
}

/// Returns the features, and the offset behind the last one.
fn read_features(source: &Source, header: &Header) -> Result<(Features, u64), ReadError> {
    let broken = ReadError::Broken(FEATURES);
    let mut features = Features::default();
    let start = end(source, header.data, RECORDS)?;
    let size = header.numbers().count() as u64 * SECTION_SIZE;
    let table = part(source, (start, size), FEATURES)?;
    let mut table = Reader(&table);
    let mut behind = start;
    for number in header.numbers() {
        let section = table.u64().zip(table.u64()).ok_or(broken)?;
        let content = part(source, section, FEATURES)?;
        features.add(number, &content).ok_or(broken)?;
        behind = end(source, section, FEATURES)?;
    }
    Ok((features, behind))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The features of the file, such as host name and build-ids, which are after the records.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use perfmon_core::logic::perf_event::{PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_USER};

use super::attr::Attr;
use super::build_id_size::{BUILD_ID_SIZE, recorded_part_of_build_id};
use super::bytes::{Put, Reader};
use super::event::{Event, has_call_stack, parts};
use super::host::Host;
use super::identifier::FIRST_ID;
use super::notes::Notes;
use super::{attr, codec};

/// The numbers of the features.
pub(super) const BUILD_ID: u32 = 2;
pub(super) const HOSTNAME: u32 = 3;
pub(super) const OSRELEASE: u32 = 4;
/// The program that wrote the file.
pub(super) const VERSION: u32 = 5;
pub(super) const ARCH: u32 = 6;
pub(super) const NRCPUS: u32 = 7;
/// `perf data convert --to-json` of perf 6.1 crashes if this feature or CPUID is missing.
pub(super) const CPUDESC: u32 = 8;
pub(super) const CPUID: u32 = 9;
pub(super) const TOTAL_MEM: u32 = 10;
pub(super) const CMDLINE: u32 = 11;
pub(super) const EVENT_DESC: u32 = 12;
pub(super) const BRANCH_STACK: u32 = 15;
pub(super) const SAMPLE_TIME: u32 = 21;
/// The recording is a folder, and this file is in it.
const DIR_FORMAT: u32 = 24;
/// pmctl's notes, in recordings of versions that wrote them as a feature. perf 6.1 to 7.3 reads past the end of a table
/// for such a number, in `perf inject` and `perf data convert`; so the notes now follow the features.
pub(super) const NOTES: u32 = 255;

/// Number of bits for features in the header.
pub(super) const BITS: u32 = 256;

/// pmctl's name and version, in the place of perf's version.
const WRITER: &str = concat!("pmctl ", env!("CARGO_PKG_VERSION"));

/// Padding of texts.
const TEXT_ALIGN: usize = 64;

/// The build-id of a file: two versions of the file have different build-ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildId {
    pub(crate) file: PathBuf,
    pub(crate) is_kernel: bool,
    /// The bytes of the build-id; there are at most 20.
    pub(crate) id: Vec<u8>,
}

/// Content of the features: all that is known at the end.
pub(super) struct FeatureContent<'a> {
    pub(super) events: &'a [Event],
    pub(super) host: &'a Host,
    pub(super) build_ids: &'a [BuildId],
    /// Times of the first and of the last sample.
    pub(super) times: (u64, u64),
}

/// Encodes the features, in the order of their numbers.
pub(super) fn encode(content: &FeatureContent<'_>) -> Vec<(u32, Vec<u8>)> {
    let mut features = vec![(BUILD_ID, encode_build_ids(content.build_ids))];
    features.extend(encode_known(content.events, content.host));
    features.push((SAMPLE_TIME, encode_sample_time(content.times)));
    features
}

/// Encodes the features that are known before the recording, in the order of their numbers.
pub(super) fn encode_known(events: &[Event], host: &Host) -> Vec<(u32, Vec<u8>)> {
    let encode_text = |text: &str| {
        let mut bytes = Vec::new();
        put_text(text, &mut bytes);
        bytes
    };
    let mut features = vec![
        (HOSTNAME, encode_text(&host.name)),
        (OSRELEASE, encode_text(&host.release)),
        (VERSION, encode_text(WRITER)),
        (ARCH, encode_text(&host.architecture)),
        (NRCPUS, encode_cpus(host)),
        (CPUDESC, encode_text(&host.processor)),
        (CPUID, encode_text(&host.cpuid)),
        (TOTAL_MEM, host.memory.to_le_bytes().to_vec()),
        (CMDLINE, encode_command_line(&host.command_line)),
        (EVENT_DESC, encode_descriptions(events)),
    ];
    // With this feature `perf report` shows branches instead of call chains.
    if parts(events).has_branches && !has_call_stack(events) {
        features.push((BRANCH_STACK, Vec::new()));
    }
    features
}

fn put_text(text: &str, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.u32(0);
    bytes.padded(text.as_bytes(), TEXT_ALIGN);
    put_length(start, bytes);
}

/// Writes a length to the 4 bytes at `start`: the number of bytes that follow them.
fn put_length(start: usize, bytes: &mut [u8]) {
    let length = u32::try_from(bytes.len() - start - 4).unwrap_or(u32::MAX);
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn decode_text(reader: &mut Reader<'_>) -> Option<String> {
    let length = usize::try_from(reader.u32()?).ok()?;
    Some(Reader(reader.take(length)?).text())
}

fn encode_cpus(host: &Host) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.u32(host.cpus_possible);
    bytes.u32(host.cpus_online);
    bytes
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn encode_command_line(words: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.u32(to_u32(words.len()));
    for word in words {
        put_text(word, &mut bytes);
    }
    bytes
}

/// Encodes the names of the events, which their attrs do not contain.
fn encode_descriptions(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.u32(to_u32(events.len()));
    bytes.u32(to_u32(attr::SIZE));
    for (id, event) in (FIRST_ID..).zip(events) {
        bytes.extend(event.attr.encode());
        bytes.u32(1);
        put_text(&event.name, &mut bytes);
        bytes.u64(id);
    }
    bytes
}

/// Encodes the build-ids, each as a record with type 0.
fn encode_build_ids(ids: &[BuildId]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for id in ids {
        let start = bytes.len();
        bytes.u32(0);
        bytes.u16(build_id_flags(id));
        bytes.u16(0);
        put_build_id(id, &mut bytes);
        let size = u16::try_from(bytes.len() - start).unwrap_or(u16::MAX);
        bytes[start + 6..start + 8].copy_from_slice(&size.to_le_bytes());
    }
    bytes
}

/// Returns the flags of a build-id's record. `MISC_SIZE` means that the record has the size of the build-id; older
/// versions of perf don't set it.
pub(super) const fn build_id_flags(id: &BuildId) -> u16 {
    const MISC_SIZE: u16 = 1 << 15;
    MISC_SIZE
        | if id.is_kernel {
            PERF_RECORD_MISC_KERNEL
        } else {
            PERF_RECORD_MISC_USER
        }
}

/// Appends the content of a build-id's record, which is after its header.
pub(super) fn put_build_id(BuildId { file, id, .. }: &BuildId, bytes: &mut Vec<u8>) {
    let id = recorded_part_of_build_id(id);
    bytes.u32(u32::MAX); // of no process
    let start = bytes.len();
    bytes.extend(id);
    bytes.resize(start + BUILD_ID_SIZE, 0);
    bytes.u32(to_u32(id.len()));
    bytes.padded(file.as_os_str().as_bytes(), TEXT_ALIGN);
}

fn encode_sample_time((first, last): (u64, u64)) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.u64(first);
    bytes.u64(last);
    bytes
}

/// Features that a reader uses.
#[derive(Default)]
pub(super) struct Features {
    pub(super) host: Host,
    pub(super) names: Vec<String>,
    pub(super) build_ids: Vec<BuildId>,
    pub(super) notes: Option<Notes>,
    /// pmctl wrote the file.
    pub(super) is_of_pmctl: bool,
    /// The records are in other files of the same folder.
    pub(super) is_divided: bool,
}

impl Features {
    /// Returns the features of an unfinished recording, which has events with these attrs.
    pub(super) fn unfinished(attrs: &[Attr]) -> Self {
        const DEGRADED: &str = "the recording was not finished: `pmctl record` was killed, or still runs; it is shown as \
                                far as it had been written";
        let notes = Notes {
            version: Notes::VERSION,
            scope: "an unfinished recording".to_owned(),
            degraded: vec![DEGRADED.to_owned()],
            ..Notes::default()
        };
        Self {
            names: attrs.iter().map(Attr::name).collect(),
            notes: Some(notes),
            ..Self::default()
        }
    }

    /// Adds a feature. Features that pmctl does not use are skipped. `None` if the feature is damaged.
    pub(super) fn add(&mut self, number: u32, bytes: &[u8]) -> Option<()> {
        let reader = &mut Reader(bytes);
        match number {
            HOSTNAME => self.host.name = decode_text(reader)?,
            OSRELEASE => self.host.release = decode_text(reader)?,
            VERSION => self.is_of_pmctl |= decode_text(reader)?.starts_with("pmctl "),
            ARCH => self.host.architecture = decode_text(reader)?,
            NRCPUS => {
                self.host.cpus_possible = reader.u32()?;
                self.host.cpus_online = reader.u32()?;
            }
            CPUDESC => self.host.processor = decode_text(reader)?,
            CPUID => self.host.cpuid = decode_text(reader)?,
            TOTAL_MEM => self.host.memory = reader.u64()?,
            CMDLINE => {
                let words = reader.u32()?;
                let words = (0..words).map(|_| decode_text(reader));
                self.host.command_line = words.collect::<Option<_>>()?;
            }
            EVENT_DESC => self.names = decode_names(reader)?,
            BUILD_ID => self.build_ids = decode_build_ids(reader)?,
            // 0 means a folder of `perf record --kcore`, which has all records in this file.
            DIR_FORMAT => self.is_divided = reader.u64()? != 0,
            NOTES => {
                self.notes = Some(serde_json::from_slice(bytes).ok()?);
                self.is_of_pmctl = true;
            }
            _ => {}
        }
        Some(())
    }
}

fn decode_names(reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let (events, size) = (reader.u32()?, reader.u32()?);
    let name = |_| {
        reader.take(usize::try_from(size).ok()?)?;
        let ids = usize::try_from(reader.u32()?).ok()?;
        let name = decode_text(reader)?;
        reader.take(ids.checked_mul(8)?)?;
        Some(name)
    };
    (0..events).map(name).collect()
}

fn decode_build_ids(reader: &mut Reader<'_>) -> Option<Vec<BuildId>> {
    let mut ids = Vec::new();
    while !reader.0.is_empty() {
        let size = codec::record_size(reader.0)?;
        ids.push(decode_build_id(reader.take(size)?)?);
    }
    Some(ids)
}

/// Returns the build-id of a record.
pub(super) fn decode_build_id(record: &[u8]) -> Option<BuildId> {
    let mut content = Reader(record);
    let (_type, misc, _size) = (content.u32()?, content.u16()?, content.u16()?);
    let _pid = content.u32()?;
    let id = content.take(BUILD_ID_SIZE)?;
    // Older versions of perf write 0.
    let length = match content.u32()? & 0xff {
        0 => id.len(),
        length => usize::try_from(length).ok()?,
    };
    Some(BuildId {
        file: content.name().into(),
        is_kernel: misc & 7 == 1,
        id: id.get(..length)?.to_vec(),
    })
}

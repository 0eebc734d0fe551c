// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads files of `perf record`. Their records have other layouts ([`Layout`]), and their events have a number for
//! each CPU; so the records are rewritten in pmctl's layout while they are read. Names, which pmctl's own files have in
//! the notes, are looked up on this machine, as for an unfinished recording.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ahash::AHashMap;
use perfmon_core::logic::perf_event::{
    PERF_RECORD_CALLCHAIN_DEFERRED, PERF_RECORD_FORK, PERF_RECORD_LOST_SAMPLES,
    PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_FORK_EXEC, PERF_RECORD_MISC_KERNEL,
    PERF_RECORD_MISC_LOST_SAMPLES_BPF, PERF_RECORD_MISC_MMAP_DATA, PERF_RECORD_MMAP,
    PERF_RECORD_SAMPLE,
};

use super::attr::{self, Attr, EventKind};
use super::bytes::Reader;
use super::codec::{self, FIRST_PERF_TYPE};
use super::deferred::DeferredChains;
use super::features::{BuildId, Features};
use super::header::ENTRY_SIZE;
use super::host::Host;
use super::layout::Layout;
use super::notes::Notes;
use super::parts::{Header, ParsedParts};
use super::record::{Body, KERNEL, Map, Record, Task};
use super::sample_parts::SampleParts;
use super::sections::{self, EVENTS, RECORDS, ReadError};
use super::source::{BlockReader, RecordingBytes};
use crate::system::text::count;

/// The type of records with the counts of `perf stat record`.
const STAT: u32 = 76;
/// The type of records that are followed by data. The record has the size of the data in bytes.
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// Size of the end of an event's entry, which says where the event's ids are.
const IDS_SECTION_SIZE: usize = ENTRY_SIZE - attr::SIZE;

/// Reads a file of `perf record`, whose features have been read, and returns its records in pmctl's layout. An
/// unfinished file has no features, and its last record may be cut off.
///
/// # Errors
/// [`ReadError`], whatever the bytes are.
pub(super) fn parse(
    source: &RecordingBytes,
    header: &Header,
    features: Option<Features>,
) -> Result<(ParsedParts, RecordingBytes), ReadError> {
    let is_unfinished = features.is_none();
    let features = features.unwrap_or_default();
    if features.is_divided {
        return Err(ReadError::Divided);
    }
    let mut events = Events::read(source, header, &features.names)?;
    let (start, size) = header.data;
    let mut section = (
        start,
        sections::checked_end(source, (start, size), RECORDS)?,
    );
    if is_unfinished {
        section.1 = end_of_whole_records(source, section)?;
    }
    if events.have_deferred_chains {
        events.collect_deferred(&mut BlockReader::new(source, section))?;
    }
    let mut blocks = BlockReader::new(source, section);
    let mut bytes = Vec::new();
    while let Some((record, size)) = events.next_record(&mut blocks)? {
        if let Some(mut record) = record {
            if let Body::Sample(sample) = &mut record.body {
                events.deferred.resolve(&mut sample.chain);
            }
            append(record, events.parts, &mut bytes);
        }
        blocks.skip(size);
    }
    let section = (0, bytes.len() as u64);
    let lost_records = events.lost_records.max(events.lost_samples);
    let reasons = [
        lost_note(lost_records),
        events.unassigned_note(),
        events.no_callers_note(),
        events.deferred.missing_note(),
        is_unfinished.then(|| UNFINISHED.to_owned()),
    ];
    let degraded = reasons.into_iter().flatten().collect();
    let attrs = events.attrs;
    let notes = Notes {
        version: Notes::VERSION,
        scope: scope_in_words(&features.host),
        degraded,
        lost_by_perf: lost_records,
        ..Notes::default()
    };
    let features = Features {
        names: events.names,
        notes: Some(notes),
        build_ids: [features.build_ids, events.build_ids].concat(),
        ..features
    };
    let parts = ParsedParts {
        attrs,
        features,
        is_unfinished,
        is_from_perf: true,
        section,
    };
    Ok((parts, bytes.into()))
}

/// The note on an unfinished file.
const UNFINISHED: &str = "the recording was not finished: `perf record` was killed, or still runs; it is shown as far as it \
                          had been written";

/// Returns the offset at which the last complete record of a section ends.
fn end_of_whole_records(
    source: &RecordingBytes,
    (start, end): (u64, u64),
) -> Result<u64, ReadError> {
    let mut blocks = BlockReader::new(source, (start, end));
    let mut whole_end = start;
    loop {
        match peek_record(&mut blocks) {
            Ok(Some((_, size))) => {
                let record_end = whole_end.checked_add(size as u64);
                let Some(record_end) = record_end.filter(|record_end| *record_end <= end) else {
                    // The record is cut off.
                    return Ok(whole_end);
                };
                whole_end = record_end;
                blocks.skip(size);
            }
            // The last record may be cut off in its header.
            Ok(None) | Err(ReadError::Broken(_)) => return Ok(whole_end),
            Err(error) => return Err(error),
        }
    }
}

/// Appends a record in pmctl's layout. That layout has more fields, so a sample that gets too long for a record loses
/// the end of its stack, as if fewer bytes of it had been requested.
fn append(mut record: Record, parts: SampleParts, bytes: &mut Vec<u8>) {
    /// Size of the longest record in bytes: a multiple of 8 that fits into 16 bits.
    const MAX_SIZE: usize = 0xfff8;
    let start = bytes.len();
    record.encode(parts, bytes);
    let excess = (bytes.len() - start).saturating_sub(MAX_SIZE);
    if excess > 0 {
        bytes.truncate(start);
        if let Body::Sample(sample) = &mut record.body {
            if let Some(user_stack) = &mut sample.user_stack {
                let rest = user_stack.requested_bytes.saturating_sub(excess as u64);
                user_stack.requested_bytes = rest;
                user_stack
                    .stack
                    .truncate(usize::try_from(rest).unwrap_or(0));
            }
            record.encode(parts, bytes);
        }
    }
}

/// Returns the scope in words: perf's command line. Some versions of perf write only its first word.
fn scope_in_words(host: &Host) -> String {
    match &host.command_line[..] {
        [] | [_] => "by perf".to_owned(),
        words => format!("`{}`", words.join(" ")),
    }
}

/// Returns a note for the user if records were lost.
fn lost_note(records: u64) -> Option<String> {
    (records > 0).then(|| {
        let records = count(records, "record");
        format!(
            "{records} were lost, as perf's buffers were full: `perf record -m` makes them larger"
        )
    })
}

/// The events of a file, and facts from the records that were read so far, except samples.
struct Events {
    attrs: Vec<Attr>,
    names: Vec<String>,
    /// The layouts of all events of the file, each with its index in `attrs` if the event is kept.
    layouts: Vec<(Layout, Option<usize>)>,
    /// Indexes in `layouts`, by the kernel's numbers.
    ids: AHashMap<u64, usize>,
    /// The parts that samples of any event have.
    parts: SampleParts,
    /// Number of lost records of all kinds, as the kernel has reported them.
    lost_records: u64,
    /// Number of lost samples, as perf reports them at the end. If the kernel has reported lost records, these samples are
    /// among `lost_records`.
    lost_samples: u64,
    /// Number of samples whose event's number no event of the file has.
    unassigned_samples: u64,
    /// Build-ids of the kernel and its modules, from their mappings.
    build_ids: Vec<BuildId>,
    /// The programs' parts of call chains, if these came in records of their own.
    deferred: DeferredChains,
    have_deferred_chains: bool,
}

impl Events {
    /// Reads the list of events; `names` has a name for each, or is empty.
    fn read(source: &RecordingBytes, header: &Header, names: &[String]) -> Result<Self, ReadError> {
        let broken_events = ReadError::Broken(EVENTS);
        let entries = sections::part(source, header.attrs, EVENTS)?;
        let (mut all, mut ids) = (Vec::new(), AHashMap::new());
        // The ids of all events together can't take more bytes than the file has. This bounds the memory for a damaged file.
        let mut rest = source.size();
        for entry in entries.chunks_exact(header.entry_size) {
            let (attr, section) = entry.split_at(header.entry_size - IDS_SECTION_SIZE);
            // Older versions of perf write a shorter structure, and newer ones a longer structure, of which pmctl uses
            // the beginning.
            let mut bytes = [0; attr::SIZE];
            let size = attr.len().min(attr::SIZE);
            bytes[..size].copy_from_slice(&attr[..size]);
            let mut section = Reader(section);
            let section = section.u64().zip(section.u64()).ok_or(broken_events)?;
            rest = rest.checked_sub(section.1).ok_or(broken_events)?;
            let numbers = sections::part(source, section, EVENTS)?;
            let mut numbers = Reader(&numbers);
            ids.extend(std::iter::from_fn(|| numbers.u64()).map(|id| (id, all.len())));
            let (attr, others) = Attr::decode_any(&bytes).ok_or(broken_events)?;
            all.push((attr, Layout::of(&attr, others)));
        }
        let parts = all
            .iter()
            .fold(SampleParts::default(), |parts, (_, layout)| {
                parts.or(layout.parts())
            });
        let mut events = Self {
            attrs: Vec::new(),
            names: Vec::new(),
            layouts: Vec::new(),
            ids,
            parts,
            lost_records: 0,
            lost_samples: 0,
            unassigned_samples: 0,
            build_ids: Vec::new(),
            deferred: DeferredChains::default(),
            have_deferred_chains: all.iter().any(|(attr, _)| attr.has_deferred_chains()),
        };
        let have_names = names.len() == all.len();
        let has_samples = |attr: &Attr| attr.kind != EventKind::Dummy;
        // A dummy event has no samples. It is left out, unless there is no other event.
        let are_all_dummies = !all.iter().any(|(attr, _)| has_samples(attr));
        for (index, (attr, layout)) in all.into_iter().enumerate() {
            let kept_index = (are_all_dummies || has_samples(&attr)).then_some(events.attrs.len());
            events.layouts.push((layout, kept_index));
            if kept_index.is_some() {
                events.names.push(if have_names {
                    names[index].clone()
                } else {
                    attr.name()
                });
                events.attrs.push(attr.with_parts_of_all(parts));
            }
        }
        if events.attrs.is_empty() {
            return Err(broken_events);
        }
        Ok(events)
    }

    /// Returns a note for the user if call chains can't be unwound.
    fn no_callers_note(&self) -> Option<String> {
        const NO_CALLERS_NOTE: &str = "callers in programs are not shown: perf recorded the stacks with other registers than \
                                       `--call-graph dwarf` records on x86-64 without `--user-regs`";
        let mut layouts = self.layouts.iter();
        let has_other_registers = layouts.any(|(layout, _)| layout.has_other_registers());
        has_other_registers.then(|| NO_CALLERS_NOTE.to_owned())
    }

    /// Returns a note for the user if samples were left out.
    fn unassigned_note(&self) -> Option<String> {
        (self.unassigned_samples > 0).then(|| {
            let samples = count(self.unassigned_samples, "sample");
            format!("{samples} left out: the file does not say of which event they are")
        })
    }

    /// Decodes the next record, and returns it with the distance to the next one in bytes; `None` at the end. The record is
    /// `None` if pmctl does not use its type.
    fn next_record(
        &mut self,
        blocks: &mut BlockReader<'_>,
    ) -> Result<Option<(Option<Record>, usize)>, ReadError> {
        let Some((kind, size)) = peek_record(blocks)? else {
            return Ok(None);
        };
        if kind >= FIRST_PERF_TYPE {
            return Ok(Some((None, size)));
        }
        let record = blocks.buffered().and_then(|bytes| bytes.get(..size));
        let record = record.ok_or(ReadError::Broken(RECORDS))?;
        Ok(Some((self.decode_record(record)?, size)))
    }

    /// Collects the programs' parts of call chains, which come after their samples.
    fn collect_deferred(&mut self, blocks: &mut BlockReader<'_>) -> Result<(), ReadError> {
        let broken_records = ReadError::Broken(RECORDS);
        while let Some((kind, size)) = peek_record(blocks)? {
            if kind == PERF_RECORD_CALLCHAIN_DEFERRED {
                let record = blocks
                    .buffered()
                    .and_then(|bytes| bytes.get(codec::HEADER_SIZE..size));
                let result = record.and_then(|content| self.deferred.add(content));
                result.ok_or(broken_records)?;
            }
            blocks.skip(size);
        }
        Ok(())
    }

    /// Decodes a record of the kernel. `None` if pmctl does not use its type.
    fn decode_record(&mut self, bytes: &[u8]) -> Result<Option<Record>, ReadError> {
        let broken_records = ReadError::Broken(RECORDS);
        let (kind, misc, content) = split_record(bytes).ok_or(broken_records)?;
        // All layouts have the event's number at the same offset.
        let (first, _) = self.layouts[0];
        let id = first.id(kind == PERF_RECORD_SAMPLE, content);
        let known_index = id.and_then(|id| self.ids.get(&id)).copied();
        // Records that perf makes itself have no number. Without a list of numbers, the only event has all samples.
        let (layout, kept_index) = self.layouts[known_index.unwrap_or(0)];
        if kind == PERF_RECORD_SAMPLE {
            if known_index.is_none() && self.layouts.len() > 1 {
                self.unassigned_samples += 1;
                return Ok(None);
            }
            let sample = kept_index.map(|index| {
                layout
                    .decode_sample(index, misc, content)
                    .ok_or(broken_records)
            });
            return sample.transpose();
        }
        let (content, stamp) = layout.split_stamp(content).ok_or(broken_records)?;
        if kind == PERF_RECORD_FORK && is_synthesized(misc, content) {
            return Ok(None);
        }
        let body = match kind {
            PERF_RECORD_MMAP => decode_mmap(content).map(Body::Map),
            PERF_RECORD_LOST_SAMPLES => {
                let samples = Reader(content).u64().ok_or(broken_records)?;
                // With the flag, the samples are not lost: the user's filter left them out (`perf record --filter`).
                if misc & PERF_RECORD_MISC_LOST_SAMPLES_BPF == 0 {
                    self.lost_samples = self.lost_samples.saturating_add(samples);
                }
                return Ok(None);
            }
            _ if codec::USED_TYPES.contains(&kind) => codec::decode_body((kind, misc), content),
            _ => return Ok(None),
        };
        Ok(match body.ok_or(broken_records)? {
            Body::Map(map) => self.convert_mapping(map, misc).map(|map| {
                self.build_ids.extend(build_id_of_kernel_part(&map));
                let body = Body::Map(map);
                Record { stamp, body }
            }),
            Body::Lost(records) => {
                self.lost_records = self.lost_records.saturating_add(records);
                None
            }
            body => Some(Record { stamp, body }),
        })
    }
}

impl Events {
    /// Returns a mapping as pmctl writes it; `None` for a mapping of data if samples have no addresses of data.
    fn convert_mapping(&self, mut map: Map, misc: u16) -> Option<Map> {
        map.is_data = misc & PERF_RECORD_MISC_MMAP_DATA != 0;
        if map.is_data && !self.parts.has_data_address {
            return None;
        }
        map.is_kernel = misc & PERF_RECORD_MISC_CPUMODE_MASK == PERF_RECORD_MISC_KERNEL;
        if map.is_kernel {
            map.offset = map.start;
            map.file = module_name(&map.file);
        }
        Some(map)
    }
}

/// Returns the type of the next record, and the distance to the one after it in bytes; `None` at the end.
fn peek_record(blocks: &mut BlockReader<'_>) -> Result<Option<(u32, usize)>, ReadError> {
    let broken_records = ReadError::Broken(RECORDS);
    let bytes = blocks.buffered().ok_or(broken_records)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let size = codec::record_size(bytes).ok_or(broken_records)?;
    let mut reader = Reader(bytes.get(..size).ok_or(broken_records)?);
    let kind = reader.u32().ok_or(broken_records)?;
    let distance = match kind {
        COMPRESSED | COMPRESSED2 => return Err(ReadError::Compressed),
        STAT => return Err(ReadError::Counts),
        AUXTRACE => {
            let _header = reader.u32();
            let further_size = reader.u64().and_then(|size| usize::try_from(size).ok());
            let size = further_size.and_then(|further_size| size.checked_add(further_size));
            size.ok_or(broken_records)?
        }
        _ => size,
    };
    Ok(Some((kind, distance)))
}

/// Splits a record into type, flags and content.
fn split_record(bytes: &[u8]) -> Option<(u32, u16, &[u8])> {
    let mut reader = Reader(bytes);
    let (kind, misc, _size) = (reader.u32()?, reader.u16()?, reader.u16()?);
    Some((kind, misc, reader.0))
}

/// Returns whether perf made this FORK record for a task that existed before the recording. Such a task does not start
/// with its parent's mappings: other records list its own.
fn is_synthesized(misc: u16, content: &[u8]) -> bool {
    /// The time is after two process numbers and two thread numbers.
    const TIME_OFFSET: usize = 16;
    let time = content
        .get(TIME_OFFSET..)
        .and_then(|rest| Reader(rest).u64());
    // perf before Linux 4.20 does not set the flag, and makes the record with a time of 0.
    misc & PERF_RECORD_MISC_FORK_EXEC != 0 || time == Some(0)
}

/// Decodes a mapping without device and inode.
fn decode_mmap(content: &[u8]) -> Option<Map> {
    let mut reader = Reader(content);
    let task = Task {
        pid: reader.u32()?,
        tid: reader.u32()?,
    };
    let (start, length, offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
    Some(Map {
        task,
        start,
        length,
        offset,
        file: reader.name().into(),
        ..Map::default()
    })
}

/// Returns the build-id of the kernel's image or of a module, if its mapping has one.
fn build_id_of_kernel_part(map: &Map) -> Option<BuildId> {
    let is_image = map
        .file
        .as_os_str()
        .as_bytes()
        .starts_with(KERNEL.as_bytes());
    let is_known = map.is_kernel && !map.build_id.is_empty();
    is_known.then(|| BuildId {
        file: if is_image {
            KERNEL.into()
        } else {
            map.file.clone()
        },
        is_kernel: true,
        id: map.build_id.clone(),
    })
}

/// Returns pmctl's name of a part of the kernel. perf names a module by its file, pmctl by its name in brackets.
fn module_name(file: &Path) -> PathBuf {
    let name = file.file_name().and_then(|name| name.to_str());
    match name.and_then(|name| name.split_once(".ko")) {
        Some((name, _)) => format!("[{}]", name.replace('-', "_")).into(),
        None => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Sample, Stamp, UserStack};
    use super::*;

    #[test]
    fn a_sample_that_gets_too_long_keeps_the_beginning_of_its_stack() {
        let parts = SampleParts {
            has_user_stack: true,
            ..SampleParts::default()
        };
        for (requested, size) in [(0x8000, 0x8000), (0xfff0, 0xfff8)] {
            let user_stack = UserStack {
                is_64_bit: true,
                registers: [1; UserStack::REGISTERS],
                stack: vec![7; requested],
                requested_bytes: requested as u64,
            };
            let body = Body::Sample(Sample {
                user_stack: Some(Box::new(user_stack)),
                ..Sample::default()
            });
            let mut bytes = Vec::new();
            append(
                Record {
                    stamp: Stamp::default(),
                    body,
                },
                parts,
                &mut bytes,
            );
            assert!(
                bytes.len() >= size && bytes.len() <= 0xfff8,
                "{}",
                bytes.len()
            );
            let (record, _) = codec::decode_record(&bytes, parts).expect("it is whole");
            let Some(Body::Sample(sample)) = record.map(|record| record.body) else {
                panic!("it is a sample");
            };
            let user_stack = sample.user_stack.expect("it has one");
            assert_eq!(user_stack.stack.len() as u64, user_stack.requested_bytes);
            assert!(user_stack.stack.iter().all(|byte| *byte == 7));
        }
    }
}

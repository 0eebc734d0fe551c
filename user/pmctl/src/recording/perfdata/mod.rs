// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file `perf.data`, as `pmctl record` writes it and `pmctl script` and `pmctl report` read it.
//!
//! ```text
//! header     104 bytes: where the other parts are, and a bit for each feature
//! ids        one number for each event
//! events     for each, a `struct perf_event_attr` of 112 bytes and where its ids are
//! data       records: what was mapped and started, and the samples; nearly by time
//! features   one after the other: host name, command line, build-ids, ...
//! ```
//!
//! All numbers are little-endian. The layout is described in the kernel source's
//! tools/perf/Documentation/perf.data-file-format.txt, the events and records in `perf_event_open(2)`.
//!
//! Every tool must be able to open the file. So the attrs have the size 112, which perf has known since Linux 4.8
//! (versions of perf refuse a larger size than theirs), and all samples have the same fields. Only pmctl uses
//! [`Notes`], which are after the last feature, where other tools don't look.
//!
//! On standard output, a recording is a stream: [`pipe`].

use std::io::{self, Seek, Write};
use std::path::Path;
use std::time::SystemTime;

mod attr;
mod bytes;
mod codec;
mod data_source;
mod deferred;
pub(crate) mod example;
mod features;
mod layout;
mod memory_access;
mod notes;
mod parts;
mod perfs;
mod pipe;
mod read;
mod record;
mod records;
mod sample_parts;
mod sections;
mod source;
mod write;

pub(crate) use attr::{Attr, BranchKinds, EventKind};
pub(crate) use codec::{FIRST_PERF_TYPE, decode_record, record_size};
pub(crate) use data_source::{DataSource, NA};
pub(crate) use features::{BuildId, recorded_part_of_build_id};
pub(crate) use memory_access::{MemoryAccess, Weight};
pub(crate) use notes::{
    BufferGaps, FileFacts, Loss, Notes, Symbol, SymbolTable, warn, warn_of_losses,
};
pub(crate) use pipe::Pipe;
pub(crate) use read::read;
pub(crate) use record::{
    Body, Branch, KERNEL, Map, Record, Sample, Stamp, Task, UserStack, VDSO, is_kernel,
};
pub(crate) use records::Records;
pub(crate) use sample_parts::SampleParts;
pub(crate) use sections::ReadError;
pub(crate) use source::RecordingBytes;
pub(crate) use write::{Finished, Writer, is_full};

/// A recording: everything that is in the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recording {
    pub(crate) events: Vec<Event>,
    pub(crate) records: Records,
    pub(crate) host: Host,
    /// Build-ids of the files with samples.
    pub(crate) build_ids: Vec<BuildId>,
    pub(crate) notes: Notes,
    /// The recording was not finished: pmctl was killed, or still runs.
    pub(crate) is_unfinished: bool,
    /// `perf record` wrote the file.
    pub(crate) is_from_perf: bool,
    /// Time at which the recording ended, if it is known.
    pub(crate) end: Option<SystemTime>,
}

impl Recording {
    /// Returns whether the recording has all samples from its beginning to its end, except in gaps.
    pub(crate) fn has_all_samples(&self) -> bool {
        self.notes.is_whole()
            && !self.notes.overwritten
            && !self.notes.reached_max_size
            && !self.is_unfinished
    }
}

impl Event {
    /// Returns whether the samples have a level, such as a temperature, which can't be divided among functions.
    pub(crate) fn is_level(&self) -> bool {
        self.attr.unit().is_some_and(|unit| !unit.grows())
    }
}

/// An event that was recorded. Its samples name it by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Name that the user wrote.
    pub(crate) name: String,
    pub(crate) attr: Attr,
}

/// Machine and command of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// The kernel's release.
    pub(crate) release: String,
    pub(crate) architecture: String,
    pub(crate) cpus_possible: u32,
    pub(crate) cpus_online: u32,
    /// The vendor's name of the processor.
    pub(crate) processor: String,
    /// The processor's vendor, family, model and stepping, as perf writes them: `GenuineIntel,6,94,3`.
    pub(crate) cpuid: String,
    /// Memory of the machine, in KiB.
    pub(crate) memory: u64,
    /// The command line of the program that recorded.
    pub(crate) command_line: Vec<String>,
}

impl Recording {
    /// Returns the parts that samples have. Branches that are a call stack don't count as branches: they become part of the
    /// call chain.
    pub(crate) fn parts(&self) -> SampleParts {
        let parts = parts(&self.events);
        SampleParts {
            has_branches: parts.has_branches && !self.has_calls(),
            ..parts
        }
    }

    /// Returns whether the branches of samples are the program's call stack.
    pub(crate) fn has_calls(&self) -> bool {
        has_calls(&self.events)
    }

    /// Returns how many samples at the same address a record merges: 1, unless each event was sampled.
    pub(crate) fn sample_count(&self, sample: &Sample) -> u64 {
        self.samples_in_period(sample.event, sample.period)
    }

    /// Returns how many samples a record of this event and period merges.
    pub(crate) fn samples_in_period(&self, event: usize, period: u64) -> u64 {
        let event = self.events.get(event);
        if event.is_some_and(|event| event.attr.samples_each_event()) {
            period
        } else {
            1
        }
    }

    /// Returns the build-id of a file.
    pub(crate) fn build_id(&self, file: &Path) -> Option<&[u8]> {
        let mut ids = self.build_ids.iter();
        ids.find(|id| id.file == file).map(|id| &id.id[..])
    }

    /// Returns what identifies the recorded version of a file.
    pub(crate) fn version(&self, file: &Path) -> FileVersion<'_> {
        let mut tables = self.notes.symbols.iter();
        let table = tables.find(|table| Path::new(&table.file) == file);
        FileVersion {
            build_id: self.build_id(file),
            facts: table.and_then(|table| table.facts.as_ref()),
        }
    }

    /// Returns the samples, each with its stamp.
    pub(crate) fn samples(&self) -> impl Iterator<Item = (Stamp, Sample)> + '_ {
        self.records.iter().filter_map(|record| match record {
            Ok(Record {
                stamp,
                body: Body::Sample(sample),
            }) => Some((stamp, sample)),
            _ => None,
        })
    }
}

/// The version of a file that was recorded: its build-id and its facts, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileVersion<'a> {
    pub(crate) build_id: Option<&'a [u8]>,
    pub(crate) facts: Option<&'a FileFacts>,
}

/// Writes a whole recording.
///
/// # Errors
/// The errors of `output`.
pub(crate) fn write_recording<W: Write + Seek>(recording: &Recording, output: W) -> io::Result<W> {
    let mut writer = Writer::new(output, recording.events.clone())?;
    for record in recording.records.iter() {
        writer.append(&record.map_err(io::Error::other)?)?;
    }
    let mut notes = recording.notes.clone();
    let file = writer.finish(&recording.host, &recording.build_ids, &mut notes)?;
    Ok(file.output)
}

/// Returns the parts that samples of these events have; the events don't differ in them.
fn parts(events: &[Event]) -> SampleParts {
    events
        .first()
        .map_or_else(SampleParts::default, |event| event.attr.parts())
}

/// Returns whether the branches of these events are the program's call stack.
fn has_calls(events: &[Event]) -> bool {
    events.iter().any(|event| event.attr.has_calls())
}

/// Returns the identifier of an event by its index. In pmctl's files it replaces the kernel's id.
pub(crate) const fn identifier(event: usize) -> u64 {
    FIRST_ID + event as u64
}

/// `PERFILE2`, of a file in this CPU's byte order.
const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");
/// Bytes of the header, and of an event's entry: the attr, and the section with its ids.
const HEADER_SIZE: usize = 104;
const ENTRY_SIZE: usize = attr::SIZE + 16;
/// The identifier of the first event. The kernel's own ids count from 1 on, and 0 means none.
const FIRST_ID: u64 = 1 << 32;

#[cfg(test)]
mod memory_recording;
#[cfg(test)]
mod tests;

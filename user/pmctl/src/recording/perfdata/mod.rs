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

mod attr;
mod build_id_size;
mod bytes;
mod codec;
mod data_source;
mod deferred;
mod event;
pub(crate) mod example;
mod features;
mod header;
mod host;
mod identifier;
mod layout;
mod memory_access;
mod notes;
mod parts;
mod perfs;
mod pipe;
mod read;
mod record;
mod recording;
mod records;
mod sample_parts;
mod sections;
mod source;
mod symbol_table;
mod write;

pub(crate) use attr::{Attr, BranchKinds, EventKind};
pub(crate) use build_id_size::recorded_part_of_build_id;
pub(crate) use codec::{FIRST_PERF_TYPE, decode_record, record_size};
pub(crate) use data_source::{DataSource, NA};
pub(crate) use event::Event;
pub(crate) use features::BuildId;
pub(crate) use host::Host;
pub(crate) use identifier::identifier;
pub(crate) use memory_access::{MemoryAccess, Weight};
pub(crate) use notes::{BufferGaps, Loss, Notes, warn, warn_of_losses};
pub(crate) use perfmon_core::logic::lbr::is_kernel_address;
pub(crate) use pipe::Pipe;
pub(crate) use read::read;
pub(crate) use record::{
    Body, Branch, GuestMode, KERNEL, Map, Record, Sample, Stamp, Task, UserStack, VDSO,
};
pub(crate) use recording::{FileVersion, Recording};
pub(crate) use records::Records;
pub(crate) use sample_parts::SampleParts;
pub(crate) use sections::ReadError;
pub(crate) use source::RecordingBytes;
pub(crate) use symbol_table::{FileFacts, Symbol, SymbolTable};
pub(crate) use write::{Finished, Writer, is_full};

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

#[cfg(test)]
mod memory_recording;
#[cfg(test)]
mod tests;

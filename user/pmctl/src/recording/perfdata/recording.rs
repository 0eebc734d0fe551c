// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording: everything that is in the file.

use std::path::Path;
use std::time::SystemTime;

use super::event::{Event, has_call_stack, parts};
use super::features::BuildId;
use super::host::Host;
use super::notes::Notes;
use super::record::{Body, Record, Sample, Stamp};
use super::records::Records;
use super::sample_parts::SampleParts;
use super::symbol_table::FileFacts;
use crate::recording::file_text::text_of_path;

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
    /// Time at which the recording ended, or up to a second later. If it is `None`, any file may have changed since.
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

    /// Returns the parts that samples have. Branches that are a call stack don't count as branches: they become part of the
    /// call chain.
    pub(crate) fn parts(&self) -> SampleParts {
        let parts = parts(&self.events);
        SampleParts {
            has_branches: parts.has_branches && !self.has_call_stack(),
            ..parts
        }
    }

    /// Returns whether the branches of samples are the program's call stack.
    pub(crate) fn has_call_stack(&self) -> bool {
        has_call_stack(&self.events)
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

    /// Returns the facts that identify the recorded version of a file.
    pub(crate) fn version(&self, file: &Path) -> FileVersion<'_> {
        let mut tables = self.notes.symbols.iter();
        let text = text_of_path(file);
        let table = tables.find(|table| table.file == *text);
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

/// The version of a file that was recorded: its build-id and its facts, if they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileVersion<'a> {
    pub(crate) build_id: Option<&'a [u8]>,
    pub(crate) facts: Option<&'a FileFacts>,
}

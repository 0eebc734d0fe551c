// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies records from the rings to the file while the rings fill. At most twice the size of the rings is kept in memory.
//!
//! All rings are read in rounds. A record is visible as soon as it is written. So after a round, no record can come that is
//! older than the latest record of the previous round: all records up to that time are sorted by time, and written. Samples
//! go to the file as the kernel wrote them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::mem;
use std::ops::{ControlFlow, Range};

use ahash::AHashMap;
use anyhow::Result;
use perfmon_core::logic::perf_event::{
    PERF_RECORD_LOST, PERF_RECORD_SAMPLE, PERF_RECORD_THROTTLE, PERF_RECORD_UNTHROTTLE,
};

use super::history::History;
use super::maps::Maps;
use super::plan::SamplingPlan;
use super::rings::RingRecord;
use super::samplers::Samplers;
use crate::commands::record::destination::Sink;
use crate::recording::perfdata::{
    Body, BuildId, Finished, Host, Notes, Record, SampleParts, SymbolTable, decode_record,
    identifier,
};
use crate::recording::places::Places;
use crate::recording::procfs;
use crate::recording::unwind::CutChains;
use crate::system::stdio::complain;

/// A file that is being recorded.
pub(super) struct RingStream {
    /// The file that is being written; `None` with --overwrite until the end.
    sink: Option<Sink>,
    parts: SampleParts,
    /// Records that are not written yet, with their times.
    pending: Vec<(u64, Pending)>,
    /// The bytes of pending records from rings.
    bytes: Vec<u8>,
    /// The latest time in the previous round. All records that come later have later times.
    limit: u64,
    /// The CPUs on which samples were throttled since the previous file.
    throttled: BTreeSet<u32>,
    /// Places of the samples that were written.
    places: Places,
    /// The state that the next file begins with, if there are several.
    history: Option<History>,
    /// The output is full: nothing more is written.
    is_full: bool,
    /// The size in bytes at which the file ends (--max-size).
    max_size: Option<u64>,
    /// The file has reached `max_size`: nothing more is written.
    reached_max_size: bool,
    /// Size of the records of the file so far in bytes.
    size: u64,
    /// Size of the records of earlier files in bytes.
    earlier_size: u64,
}

/// A record that is not written yet.
enum Pending {
    /// A record from a ring, as its range in [`RingStream::bytes`].
    Ring(Range<usize>),
    /// A record of a task or a mapping.
    Task(Box<Record>),
}

impl RingStream {
    /// Returns a stream without a file. `has_history` is needed if there may be more than one file. If `max_size` is given, a
    /// file ends with the first record that reaches this number of bytes.
    pub(super) fn new(plan: &SamplingPlan, has_history: bool, max_size: Option<u64>) -> Self {
        Self {
            sink: None,
            parts: plan.parts(),
            pending: Vec::new(),
            bytes: Vec::new(),
            limit: 0,
            throttled: BTreeSet::new(),
            places: Places::default(),
            history: has_history.then(History::default),
            is_full: false,
            max_size,
            reached_max_size: false,
            size: 0,
            earlier_size: 0,
        }
    }

    /// Begins to write to `sink`, with the known state of tasks first.
    ///
    /// # Errors
    /// An error if the file can't be written.
    pub(super) fn begin_file(&mut self, mut sink: Sink) -> io::Result<()> {
        self.places = Places::default();
        self.is_full = false;
        self.reached_max_size = false;
        self.earlier_size += self.size;
        self.size = 0;
        for record in self.history.iter().flat_map(History::initial_records) {
            self.places.note_record(&record);
            sink.append(&record)?;
        }
        self.sink = Some(sink);
        Ok(())
    }

    /// Keeps the records of tasks, while the rings of samples are overwritten.
    ///
    /// # Errors
    /// An error if a ring can't be read.
    pub(super) fn keep_task_records(
        &mut self,
        samplers: &mut Samplers,
        maps: &mut Maps,
    ) -> Result<()> {
        let mut records = maps.take_records();
        let mut bytes = Vec::new();
        samplers.drain_dummies(|record| {
            bytes.clear();
            record.copy_to(&mut bytes);
            if let Some((Some(record), _)) = decode_record(&bytes, SampleParts::default()) {
                if maps.reads_procfs() {
                    maps.note_exec(&record);
                }
                records.push(record);
            }
        })?;
        // Sorts all records, since those of each CPU come from a ring of its own.
        records.sort_by_key(|record| record.stamp.time);
        if let Some(history) = &mut self.history {
            records
                .into_iter()
                .for_each(|record| history.keep_recent(record));
        }
        Ok(())
    }

    /// Writes the records of the rings that are overwritten.
    ///
    /// # Errors
    /// An error if the file can't be written, or if a ring can't be read.
    pub(super) fn dump(&mut self, samplers: &mut Samplers, maps: &mut Maps) -> Result<()> {
        samplers.drain_newest(|record, event_indices| {
            self.add(&RingRecord::Driver(record), event_indices, maps);
        })?;
        // Task records are read after the samples, so that no task record is missing that precedes the newest sample.
        self.keep_task_records(samplers, maps)?;
        if let (true, Some(history)) = (maps.reads_procfs(), &mut self.history) {
            let state_records = procfs::process_records(maps.kinds());
            state_records
                .iter()
                .for_each(|record| history.apply(record));
        }
        // Puts the oldest records first: the rings were read from the newest on.
        self.pending.reverse();
        let recent = self.history.as_mut().map(History::take_recent);
        let tasks = recent
            .into_iter()
            .flatten()
            .map(|record| (record.stamp.time, Pending::Task(Box::new(record))));
        let samples = mem::take(&mut self.pending);
        self.pending = tasks.chain(samples).collect();
        self.pending.sort_by_key(|(time, _)| *time);
        Ok(self.write_or_drop(u64::MAX)?)
    }

    /// Takes the records since the last round, and writes the records that no later record can
    /// precede. Breaks if the output is full, or if the file has reached its largest size.
    ///
    /// # Errors
    /// An error if the file can't be written, or if a ring can't be read.
    pub(super) fn write_round(
        &mut self,
        samplers: &mut Samplers,
        maps: &mut Maps,
    ) -> Result<ControlFlow<()>> {
        // Task records go first: the sort is stable, so they stand before a sample of the same time.
        for record in maps.take_records() {
            let time = record.stamp.time;
            self.pending.push((time, Pending::Task(Box::new(record))));
        }
        samplers.drain(|record, event_indices| self.add(&record, event_indices, maps))?;
        self.pending.sort_by_key(|(time, _)| *time);
        let latest = self.pending.last().map_or(0, |(time, _)| *time);
        self.write_or_drop(self.limit)?;
        self.limit = latest.max(self.limit);
        Ok(if self.is_full || self.reached_max_size {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Adds a record of a ring to the pending records.
    fn add(
        &mut self,
        record: &RingRecord<'_>,
        event_indices: &AHashMap<u64, usize>,
        maps: &mut Maps,
    ) {
        let start = self.bytes.len();
        record.copy_to(&mut self.bytes);
        let bytes = &mut self.bytes[start..];
        let Some(fields) = RecordFields::locate(bytes) else {
            self.bytes.truncate(start);
            return;
        };
        let id = |word: u64| identifier(event_indices.get(&word).copied().unwrap_or(0));
        for index in fields.ids.into_iter().flatten() {
            let word = id(word_of(bytes, index)).to_le_bytes();
            bytes[index * 8..][..8].copy_from_slice(&word);
        }
        // Linux throttles only its own events, which `LinuxRings` reports.
        if let (Some(cpu), RingRecord::Driver(_)) = (fields.throttled, record) {
            // The CPU's number is the lower half of the word.
            let [number @ .., _, _, _, _] = word_of(bytes, cpu).to_le_bytes();
            self.throttled.insert(u32::from_le_bytes(number));
        }
        let time = word_of(bytes, fields.time);
        if !fields.is_sample && maps.reads_procfs() {
            if let Some((Some(record), _)) = decode_record(bytes, self.parts) {
                maps.note_exec(&record);
            }
        }
        self.size += (self.bytes.len() - start) as u64;
        let range = start..self.bytes.len();
        self.pending.push((time, Pending::Ring(range)));
    }

    /// Writes the pending records up to a time. If the output is full, drops them.
    fn write_or_drop(&mut self, limit: u64) -> io::Result<()> {
        let ready_count = self.pending.partition_point(|(time, _)| *time <= limit);
        let later = self.pending.split_off(ready_count);
        let ready = mem::replace(&mut self.pending, later);
        if !self.is_full {
            let result = ready.iter().try_for_each(|(time, pending)| {
                if self.check_size() {
                    return Ok(());
                }
                self.write_record(*time, pending)
            });
            let result = result.and_then(|()| self.sink.as_mut().map_or(Ok(()), Sink::save));
            match result {
                Err(error) if self.sink.as_ref().is_some_and(|s| s.is_full(&error)) => {
                    self.is_full = true;
                }
                result => result?,
            }
        }
        // Moves the remaining records to the front.
        let mut rest = Vec::new();
        for (_, pending) in &mut self.pending {
            if let Pending::Ring(range) = pending {
                let start = rest.len();
                rest.extend_from_slice(&self.bytes[range.clone()]);
                *range = start..rest.len();
            }
        }
        self.bytes = rest;
        Ok(())
    }

    /// Returns whether the file has reached its size limit. Reports that to the user once.
    pub(super) fn check_size(&mut self) -> bool {
        let size = self.sink.as_ref().map_or(0, Sink::size);
        if !self.reached_max_size && self.max_size.is_some_and(|max_size| size >= max_size) {
            self.reached_max_size = true;
            complain("--max-size: the recording ends here, as the file has reached this size");
        }
        self.reached_max_size
    }

    fn write_record(&mut self, time: u64, pending: &Pending) -> io::Result<()> {
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let range = match pending {
            Pending::Task(record) => {
                self.places.note_record(record);
                self.history
                    .iter_mut()
                    .for_each(|history| history.apply(record));
                return sink.append(record);
            }
            Pending::Ring(range) => range.clone(),
        };
        let bytes = &self.bytes[range];
        // Skips bytes that are no record: they would make the file unreadable.
        let Some((record, _)) = decode_record(bytes, self.parts) else {
            return Ok(());
        };
        let is_sample = record.as_ref().is_some_and(Record::is_sample);
        if let Some(record) = &record {
            match &record.body {
                Body::Lost(_) => {}
                _ => {
                    self.places.note_record(record);
                    self.history
                        .iter_mut()
                        .for_each(|history| history.apply(record));
                }
            }
        }
        sink.append_raw(bytes, is_sample.then_some(time))
    }

    /// Returns the call chains that end early and their reasons, for the records of the file that have been written.
    pub(super) fn take_cut_chains(&mut self) -> CutChains {
        self.places.take_cut_chains()
    }

    /// Returns the CPUs on which samples were throttled, because the samples were too many, or took too much time.
    pub(super) fn take_throttled(&mut self) -> BTreeSet<u32> {
        mem::take(&mut self.throttled)
    }

    /// Returns the size of the records of the file so far in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the size of the records of all files so far in bytes.
    pub(super) const fn total_size(&self) -> u64 {
        self.earlier_size + self.size
    }

    /// Writes all remaining records of the file, and returns the symbols and the build IDs of the sampled files.
    ///
    /// # Errors
    /// An error if the file can't be written.
    pub(super) fn write_rest(&mut self) -> io::Result<(Vec<SymbolTable>, Vec<BuildId>)> {
        self.write_or_drop(u64::MAX)?;
        Ok(self.places.look_up())
    }

    /// Writes the parts that follow the records.
    ///
    /// # Errors
    /// An error if the file can't be written.
    pub(super) fn finish(
        &mut self,
        host: &Host,
        build_ids: &[BuildId],
        notes: &mut Notes,
    ) -> io::Result<Finished<File>> {
        let sink = self.sink.take().ok_or(io::ErrorKind::NotFound)?;
        notes.reached_max_size = self.reached_max_size;
        sink.finish(host, build_ids, notes)
    }
}

/// Returns the word of a record at an index, which must be within the record.
fn word_of(record: &[u8], index: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&record[index * 8..][..8]);
    u64::from_le_bytes(word)
}

/// The positions of fields in a record of a ring. A position is the index of a word of 8 bytes.
struct RecordFields {
    time: usize,
    /// The positions of the words that have the kernel's ID of the event, at most three.
    ids: [Option<usize>; 3],
    /// The word with the throttled CPU; `None` unless samples were throttled.
    throttled: Option<usize>,
    is_sample: bool,
}

impl RecordFields {
    /// Returns the positions of the fields; `None` if the record is too short.
    fn locate(record: &[u8]) -> Option<Self> {
        let size = record.len() / 8;
        let last = size.checked_sub(1)?;
        // The lower half of the first word.
        let kind = u32::from_le_bytes(record.get(..4)?.try_into().ok()?);
        if kind == PERF_RECORD_SAMPLE {
            // Words of a sample: header, identifier, address, task, time.
            return (size > 4).then_some(Self {
                time: 4,
                ids: [Some(1), None, None],
                throttled: None,
                is_sample: true,
            });
        }
        // The last words of other records: task, time, CPU, identifier.
        let time = last.checked_sub(2).filter(|time| *time >= 2)?;
        let ids = match kind {
            PERF_RECORD_LOST if size >= 7 => [Some(1), None, Some(last)],
            PERF_RECORD_THROTTLE | PERF_RECORD_UNTHROTTLE if size >= 8 => {
                [Some(2), Some(3), Some(last)]
            }
            _ => [None, None, Some(last)],
        };
        Some(Self {
            time,
            ids,
            throttled: (kind == PERF_RECORD_THROTTLE).then_some(time + 1),
            is_sample: false,
        })
    }
}

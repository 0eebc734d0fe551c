// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies records from the rings to the file while the rings fill. Memory holds what the rings held, twice.
//!
//! Records are taken out in rounds. A record is visible as soon as it is written. So after a round, no record can come
//! that is older than the latest one of the round before: all records up to that time are written, by time. Samples go
//! to the file as the kernel wrote them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::mem;
use std::ops::{ControlFlow, Range};

use ahash::AHashMap;
use anyhow::Result;
use perfmon::sampler::RawRecord;

use super::history::History;
use super::maps::Maps;
use super::plan::SamplingPlan;
use super::samplers::Samplers;
use crate::commands::record::destination::Sink;
use crate::recording::perfdata::{
    Body, BuildId, Finished, Host, Notes, Parts, Record, SymbolTable, decode, identifier,
};
use crate::recording::places::Places;
use crate::recording::procfs;
use crate::recording::unwind::Cuts;
use crate::system::stdio::complain;

/// A file that is being recorded.
pub(super) struct RingStream {
    /// The file that is being written; `None` while a flight recorder only keeps what may be written.
    sink: Option<Sink>,
    parts: Parts,
    /// Records that are not written yet: their time, and what they are.
    pending: Vec<(u64, Pending)>,
    /// The bytes of those from rings.
    bytes: Vec<u8>,
    /// Latest time in the round before.
    limit: u64,
    /// The CPUs whose samples ceased for a while since the file before.
    throttled: BTreeSet<u32>,
    /// Places of the samples that were written.
    places: Places,
    /// The state that the next file begins with, if there are several.
    history: Option<History>,
    /// The output is full: nothing more is written.
    full: bool,
    /// The most bytes of records that the file may have.
    most: Option<u64>,
    /// The file has `most` bytes: nothing more is written.
    at_limit: bool,
    /// Size of the records of the file so far in bytes.
    size: u64,
    /// Size of the records of the files before, in bytes.
    before: u64,
}

/// A record that is not written yet.
enum Pending {
    /// From a ring: a range of the bytes.
    Ring(Range<usize>),
    /// A record of a task, or of what is mapped.
    Task(Box<Record>),
}

impl RingStream {
    /// Returns a stream without a file. Is `has_history` set, there may be more than one. A file has `most` bytes of
    /// records, and one more record, if it is limited.
    pub(super) fn new(plan: &SamplingPlan, has_history: bool, most: Option<u64>) -> Self {
        Self {
            sink: None,
            parts: plan.parts(),
            pending: Vec::new(),
            bytes: Vec::new(),
            limit: 0,
            throttled: BTreeSet::new(),
            places: Places::default(),
            history: has_history.then(History::default),
            full: false,
            most,
            at_limit: false,
            size: 0,
            before: 0,
        }
    }

    /// Begins to write to `sink`, with the known state of tasks first.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn begin(&mut self, mut sink: Sink) -> io::Result<()> {
        self.places = Places::default();
        self.full = false;
        self.at_limit = false;
        self.before += self.size;
        self.size = 0;
        for record in self.history.iter().flat_map(History::initial_records) {
            self.places.take(&record);
            sink.record(&record)?;
        }
        self.sink = Some(sink);
        Ok(())
    }

    /// Keeps what is told of tasks, while the rings of samples are overwritten.
    ///
    /// # Errors
    /// Those of the rings.
    pub(super) fn keep(&mut self, samplers: &mut Samplers, maps: &mut Maps) -> Result<()> {
        let mut records = maps.take();
        let mut bytes = Vec::new();
        samplers.drain_dummies(|record| {
            bytes.clear();
            record.copy_to(&mut bytes);
            if let Some((Some(record), _)) = decode(&bytes, Parts::default()) {
                if maps.are_read() {
                    maps.note(&record);
                }
                records.push(record);
            }
        })?;
        // Each CPU has a ring.
        records.sort_by_key(|record| record.stamp.time);
        if let Some(history) = &mut self.history {
            records.into_iter().for_each(|record| history.keep(record));
        }
        Ok(())
    }

    /// Writes what is in rings that are overwritten.
    ///
    /// # Errors
    /// Those of the file and of the rings.
    pub(super) fn dump(&mut self, samplers: &mut Samplers, maps: &mut Maps) -> Result<()> {
        samplers.drain_newest(|record, numbers| self.take(record, numbers, maps))?;
        // All that was told before the newest sample.
        self.keep(samplers, maps)?;
        if let (true, Some(history)) = (maps.are_read(), &mut self.history) {
            let all = procfs::process_records();
            all.iter().for_each(|record| history.fold(record));
        }
        // The oldest first.
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

    /// Takes the records since the last round, and writes those that no later one can precede. Breaks if there is no
    /// room.
    ///
    /// # Errors
    /// Those of the file and of the rings.
    pub(super) fn round(
        &mut self,
        samplers: &mut Samplers,
        maps: &mut Maps,
    ) -> Result<ControlFlow<()>> {
        // Task records go first: the sort is stable, so they stand before a sample of the same time.
        for record in maps.take() {
            let time = record.stamp.time;
            self.pending.push((time, Pending::Task(Box::new(record))));
        }
        samplers.drain(|record, numbers| self.take(record, numbers, maps))?;
        self.pending.sort_by_key(|(time, _)| *time);
        let latest = self.pending.last().map_or(0, |(time, _)| *time);
        self.write_or_drop(self.limit)?;
        self.limit = latest.max(self.limit);
        Ok(if self.full || self.at_limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Takes a record of a ring.
    fn take(&mut self, record: RawRecord<'_>, numbers: &AHashMap<u64, usize>, maps: &mut Maps) {
        let start = self.bytes.len();
        record.copy_to(&mut self.bytes);
        let Some(places) = RecordFields::of(&record) else {
            self.bytes.truncate(start);
            return;
        };
        let bytes = &mut self.bytes[start..];
        let id = |word: u64| identifier(numbers.get(&word).copied().unwrap_or(0));
        for place in places.ids.into_iter().flatten() {
            let word = id(record.word(place)).to_le_bytes();
            bytes[place * 8..][..8].copy_from_slice(&word);
        }
        if let Some(cpu) = places.throttled {
            // The number is the lower half of the word.
            let [number @ .., _, _, _, _] = record.word(cpu).to_le_bytes();
            self.throttled.insert(u32::from_le_bytes(number));
        }
        if !places.is_sample && maps.are_read() {
            if let Some((Some(record), _)) = decode(bytes, self.parts) {
                maps.note(&record);
            }
        }
        self.size += (self.bytes.len() - start) as u64;
        let time = record.word(places.time);
        let range = start..self.bytes.len();
        self.pending.push((time, Pending::Ring(range)));
    }

    /// Writes the pending records up to a time, as far as there is room.
    fn write_or_drop(&mut self, limit: u64) -> io::Result<()> {
        let ready = self.pending.partition_point(|(time, _)| *time <= limit);
        let later = self.pending.split_off(ready);
        let now = mem::replace(&mut self.pending, later);
        if !self.full {
            let written = now.iter().try_for_each(|(time, what)| {
                if self.is_at_limit() {
                    return Ok(());
                }
                self.write(*time, what)
            });
            let written = written.and_then(|()| self.sink.as_mut().map_or(Ok(()), Sink::save));
            match written {
                Err(error) if self.sink.as_ref().is_some_and(|s| s.is_full(&error)) => {
                    self.full = true;
                }
                result => result?,
            }
        }
        // Moves the remaining records to the front.
        let mut rest = Vec::new();
        for (_, what) in &mut self.pending {
            if let Pending::Ring(range) = what {
                let start = rest.len();
                rest.extend_from_slice(&self.bytes[range.clone()]);
                *range = start..rest.len();
            }
        }
        self.bytes = rest;
        Ok(())
    }

    /// Returns whether the file has all that it may have, and tells the user so when it has come to that.
    pub(super) fn is_at_limit(&mut self) -> bool {
        let size = self.sink.as_ref().map_or(0, Sink::size);
        if !self.at_limit && self.most.is_some_and(|most| size >= most) {
            self.at_limit = true;
            complain("--max-size: the recording ends here");
        }
        self.at_limit
    }

    fn write(&mut self, time: u64, what: &Pending) -> io::Result<()> {
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let range = match what {
            Pending::Task(record) => {
                self.places.take(record);
                self.history.iter_mut().for_each(|h| h.fold(record));
                return sink.record(record);
            }
            Pending::Ring(range) => range.clone(),
        };
        let bytes = &self.bytes[range];
        // Skips bytes that are no record: they would make the file unreadable.
        let Some((record, _)) = decode(bytes, self.parts) else {
            return Ok(());
        };
        let is_sample = record.as_ref().is_some_and(Record::is_sample);
        if let Some(record) = &record {
            match &record.body {
                Body::Lost(_) => {}
                _ => {
                    self.places.take(record);
                    self.history.iter_mut().for_each(|h| h.fold(record));
                }
            }
        }
        sink.bytes(bytes, is_sample.then_some(time))
    }

    /// Returns which call chains of the file could not be found out, as far as it is written.
    pub(super) fn take_cuts(&mut self) -> Cuts {
        self.places.take_cuts()
    }

    /// Returns the CPUs whose samples ceased for a while: there were too many, or they took too much time.
    pub(super) fn take_throttled(&mut self) -> BTreeSet<u32> {
        mem::take(&mut self.throttled)
    }

    /// Returns the size of the records of the file so far in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the same of all files together.
    pub(super) const fn total(&self) -> u64 {
        self.before + self.size
    }

    /// Writes all remaining records of the file, and looks the symbols up.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn end(&mut self) -> io::Result<(Vec<SymbolTable>, Vec<BuildId>)> {
        self.write_or_drop(u64::MAX)?;
        Ok(self.places.look_up())
    }

    /// Writes the end of the file.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn finish(
        &mut self,
        host: &Host,
        build_ids: &[BuildId],
        notes: &mut Notes,
    ) -> io::Result<Finished<File>> {
        let sink = self.sink.take().ok_or(io::ErrorKind::NotFound)?;
        sink.finish(host, build_ids, notes)
    }
}

/// Where in a record of a ring the time and the kernel's numbers of the event are, in words.
struct RecordFields {
    time: usize,
    ids: [Option<usize>; 3],
    /// The word that holds the throttled CPU.
    throttled: Option<usize>,
    is_sample: bool,
}

impl RecordFields {
    /// Returns the places; `None` if the record is too short to have them.
    fn of(record: &RawRecord<'_>) -> Option<Self> {
        /// `PERF_RECORD_*`
        const LOST: u32 = 2;
        const THROTTLE: u32 = 5;
        const UNTHROTTLE: u32 = 6;
        const SAMPLE: u32 = 9;
        let size = record.size();
        let last = size.checked_sub(1)?;
        if record.kind() == SAMPLE {
            // Identifier, address, task, time.
            return (size > 4).then_some(Self {
                time: 4,
                ids: [Some(1), None, None],
                throttled: None,
                is_sample: true,
            });
        }
        // At the end: task, time, CPU, identifier.
        let time = last.checked_sub(2).filter(|time| *time >= 2)?;
        let ids = match record.kind() {
            LOST if size >= 7 => [Some(1), None, Some(last)],
            THROTTLE | UNTHROTTLE if size >= 8 => [Some(2), Some(3), Some(last)],
            _ => [None, None, Some(last)],
        };
        Some(Self {
            time,
            ids,
            throttled: (record.kind() == THROTTLE).then_some(time + 1),
            is_sample: false,
        })
    }
}

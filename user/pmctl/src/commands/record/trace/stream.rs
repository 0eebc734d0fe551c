// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies the records of the driver and of perf to the file while they come. Memory does not grow with the recording: at
//! most twice the size of the buffers is kept in memory.
//!
//! All buffers are read in rounds. A record is visible as soon as it is made. So after a round, no record can come that is
//! older than the latest record of the previous round: all records up to that time are sorted by time, and written, as in
//! perf. A record that comes late nevertheless is written late, and readers sort it.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;

use anyhow::Result;
use perfmon::trace::Chunk;

use super::convert::convert;
use super::counted::TraceCounts;
use super::plan::TracePlan;
use super::scope::KeptRecords;
use super::task_log::TaskLog;
use crate::commands::record::destination::Sink;
use crate::recording::perfdata::{Body, BuildId, Finished, Host, Notes, Record, SymbolTable};
use crate::recording::places::Places;

/// A file that is being recorded.
pub(super) struct TraceStream<'a> {
    plan: &'a TracePlan,
    scope: KeptRecords<'a>,
    sink: Sink,
    /// Records that are not written yet.
    pending: Vec<Record>,
    /// The latest time in the previous round. All records that come later have later times.
    limit: u64,
    /// Places of the samples that were written.
    places: Places,
    /// The output is full: nothing more is written.
    is_full: bool,
    counts: TraceCounts,
}

impl<'a> TraceStream<'a> {
    /// Begins to write to `sink`.
    pub(super) fn new(plan: &'a TracePlan, scope: KeptRecords<'a>, sink: Sink) -> Self {
        Self {
            plan,
            scope,
            sink,
            pending: Vec::new(),
            limit: 0,
            places: Places::default(),
            is_full: false,
            counts: TraceCounts::zeros(plan),
        }
    }

    /// Adds the records since the last round to the pending records.
    ///
    /// # Errors
    /// The bytes are not records of this plan. This is a fault of the driver.
    pub(super) fn add(&mut self, chunks: &[Chunk], log: &mut TaskLog) -> Result<()> {
        // Task records go first: the sort is stable, so they stand before a sample of the same time.
        self.pending.append(&mut log.take_records());
        for chunk in chunks {
            let clock = log.clock();
            convert(chunk, self.plan, clock, &mut self.counts, &mut self.pending)?;
        }
        self.pending.sort_by_key(|record| record.stamp.time);
        Ok(())
    }

    /// Ends a round: writes the records that no later record can precede. Breaks if the output is full.
    ///
    /// # Errors
    /// An error if the file can't be written.
    pub(super) fn write_round(&mut self, log: &mut TaskLog) -> io::Result<ControlFlow<()>> {
        let latest = self.pending.last().map_or(0, |record| record.stamp.time);
        self.write_or_drop(self.limit, log)?;
        self.limit = latest.max(self.limit);
        Ok(if self.is_full {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Writes the pending records up to a time. If the output is full, drops them.
    fn write_or_drop(&mut self, limit: u64, log: &mut TaskLog) -> io::Result<()> {
        if !self.is_full {
            let result = self.write_until(limit, log);
            match result.and_then(|()| self.sink.save()) {
                Err(error) if self.sink.is_full(&error) => self.is_full = true,
                result => return result,
            }
        }
        self.pending.clear();
        Ok(())
    }

    /// Writes the pending records up to a time, if they are in the scope.
    fn write_until(&mut self, limit: u64, log: &mut TaskLog) -> io::Result<()> {
        let ready = self
            .pending
            .partition_point(|record| record.stamp.time <= limit);
        for mut record in self.pending.drain(..ready) {
            if let Body::Sample(sample) = &record.body {
                record.stamp.task = log.task_of_sample(&record.stamp, sample.ip);
            }
            if self.scope.keeps(&record) {
                self.places.note_record(&record);
                self.sink.append(&record)?;
            } else if record.is_sample() {
                self.counts.left_out_samples += 1;
            }
        }
        log.forget_switches_before(limit);
        Ok(())
    }

    /// Writes all remaining records.
    ///
    /// # Errors
    /// An error if the file can't be written.
    pub(super) fn write_rest(mut self, log: &mut TaskLog) -> io::Result<EndedTrace<'a>> {
        self.write_or_drop(u64::MAX, log)?;
        let (symbols, build_ids) = self.places.look_up();
        Ok(EndedTrace {
            sink: self.sink,
            scope: self.scope,
            counts: self.counts,
            symbols,
            build_ids,
        })
    }
}

/// A file that has all of its records, but not the parts that follow them.
pub(super) struct EndedTrace<'a> {
    sink: Sink,
    pub(super) scope: KeptRecords<'a>,
    pub(super) counts: TraceCounts,
    pub(super) symbols: Vec<SymbolTable>,
    build_ids: Vec<BuildId>,
}

impl EndedTrace<'_> {
    /// Appends records, unless the output is full.
    ///
    /// # Errors
    /// An error if the file can't be written.
    pub(super) fn append(&mut self, records: impl Iterator<Item = Record>) -> io::Result<()> {
        for record in records {
            match self.sink.append(&record) {
                Err(error) if self.sink.is_full(&error) => return Ok(()),
                result => result?,
            }
        }
        Ok(())
    }

    /// Writes the parts that follow the records.
    ///
    /// # Errors
    /// An error if the file can't be written.
    pub(super) fn finish(self, host: &Host, notes: &mut Notes) -> io::Result<Finished<File>> {
        self.sink.finish(host, &self.build_ids, notes)
    }
}

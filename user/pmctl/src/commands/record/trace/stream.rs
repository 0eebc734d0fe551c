// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies the records of the driver and of perf to the file while they come. Memory does not grow with the recording:
//! it holds at most what the buffers hold, twice.
//!
//! Records are taken out in rounds. A record is visible as soon as it is made. So after a round, no record can come
//! that is older than the latest one of the round before: all records up to that time are written, by time, as in perf.
//! A record that comes late all the same is written late, and readers sort it.

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
    writer: Sink,
    /// Records that are not written yet.
    pending: Vec<Record>,
    /// Latest time in the round before.
    limit: u64,
    /// Places of the samples that were written.
    places: Places,
    /// The output is full: nothing more is written.
    full: bool,
    counted: TraceCounts,
}

impl<'a> TraceStream<'a> {
    /// Begins to write to `sink`.
    pub(super) fn new(plan: &'a TracePlan, scope: KeptRecords<'a>, sink: Sink) -> Self {
        Self {
            plan,
            scope,
            writer: sink,
            pending: Vec::new(),
            limit: 0,
            places: Places::default(),
            full: false,
            counted: TraceCounts::nothing(plan),
        }
    }

    /// Adds the records since the last round.
    ///
    /// # Errors
    /// If the bytes are no records of this plan: a fault of the driver.
    pub(super) fn take(&mut self, chunks: &[Chunk], log: &mut TaskLog) -> Result<()> {
        // Task records go first: the sort is stable, so they stand before a sample of the same time.
        self.pending.append(&mut log.take());
        for chunk in chunks {
            let clock = log.clock();
            convert(
                chunk,
                self.plan,
                clock,
                &mut self.counted,
                &mut self.pending,
            )?;
        }
        self.pending.sort_by_key(|record| record.stamp.time);
        Ok(())
    }

    /// Ends a round: writes the records that no later one can precede. Breaks if there is no room.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn write(&mut self, log: &mut TaskLog) -> io::Result<ControlFlow<()>> {
        let latest = self.pending.last().map_or(0, |record| record.stamp.time);
        self.write_or_drop(self.limit, log)?;
        self.limit = latest.max(self.limit);
        Ok(if self.full {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Writes the pending records up to a time, as far as there is room.
    fn write_or_drop(&mut self, limit: u64, log: &mut TaskLog) -> io::Result<()> {
        if !self.full {
            let written = self.write_until(limit, log);
            match written.and_then(|()| self.writer.save()) {
                Err(error) if self.writer.is_full(&error) => self.full = true,
                result => return result,
            }
        }
        self.pending.clear();
        Ok(())
    }

    /// Writes the pending records up to a time, as far as they are in the scope.
    fn write_until(&mut self, limit: u64, log: &mut TaskLog) -> io::Result<()> {
        let ready = self
            .pending
            .partition_point(|record| record.stamp.time <= limit);
        for mut record in self.pending.drain(..ready) {
            if let Body::Sample(sample) = &record.body {
                record.stamp.task = log.task(&record.stamp, sample.ip);
            }
            if self.scope.keeps(&record) {
                self.places.take(&record);
                self.writer.record(&record)?;
            } else if record.is_sample() {
                self.counted.others += 1;
            }
        }
        log.forget(limit);
        Ok(())
    }

    /// Writes all remaining records.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn end(mut self, log: &mut TaskLog) -> io::Result<EndedTrace<'a>> {
        self.write_or_drop(u64::MAX, log)?;
        let (symbols, build_ids) = self.places.look_up();
        Ok(EndedTrace {
            writer: self.writer,
            scope: self.scope,
            counted: self.counted,
            symbols,
            build_ids,
        })
    }
}

/// A file with all of its records but without its end.
pub(super) struct EndedTrace<'a> {
    writer: Sink,
    pub(super) scope: KeptRecords<'a>,
    pub(super) counted: TraceCounts,
    pub(super) symbols: Vec<SymbolTable>,
    build_ids: Vec<BuildId>,
}

impl EndedTrace<'_> {
    /// Appends records, if there is room.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn append(&mut self, records: impl Iterator<Item = Record>) -> io::Result<()> {
        for record in records {
            match self.writer.record(&record) {
                Err(error) if self.writer.is_full(&error) => return Ok(()),
                result => result?,
            }
        }
        Ok(())
    }

    /// Writes the end of the file.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn finish(self, host: &Host, notes: &mut Notes) -> io::Result<Finished<File>> {
        self.writer.finish(host, &self.build_ids, notes)
    }
}

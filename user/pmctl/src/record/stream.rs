// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what the driver and perf tell to the file, while they tell it: what is in memory does not grow with the
//! recording; at most it is what the buffers hold, twice.
//!
//! All of it is taken out in rounds. A record can be seen as soon as it was made; so when a round has been taken out,
//! nothing will come any more that happened before the latest of what the round before had. So much is written then,
//! by time, as perf does it, too. What comes later all the same is written late, and readers put it in its place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use anyhow::Result;
use perfmon::trace::{Chunk, Totals};

use super::convert::convert;
use super::plan::Plan;
use super::scope::Scope;
use super::story::Story;
use super::symbols::Places;
use crate::perfdata::{Body, BuildId, Host, Notes, Record, SymbolTable, Writer};

/// A file that is being recorded.
pub(super) struct Stream<'a> {
    plan: &'a Plan,
    scope: Scope<'a>,
    writer: Writer<File>,
    /// What is not written yet.
    pending: Vec<Record>,
    /// The latest time that there was at the end of the round before.
    limit: u64,
    /// Of what was written.
    places: Places,
    counted: Counted,
}

/// What was counted while samples were made.
pub(super) struct Counted {
    /// How often each event happened, on each CPU.
    pub(super) totals: Totals,
    /// How many samples each CPU would have made besides, had they not been lost: their events were counted.
    pub(super) lost: BTreeMap<u32, u64>,
    /// How many samples were left out because they are of others.
    pub(super) others: u64,
}

impl<'a> Stream<'a> {
    /// A file without records.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn new(
        plan: &'a Plan,
        scope: Scope<'a>,
        branches: bool,
        file: File,
    ) -> io::Result<Self> {
        Ok(Self {
            plan,
            scope,
            writer: Writer::new(file, plan.describe(branches))?,
            pending: Vec::new(),
            limit: 0,
            places: Places::default(),
            counted: Counted {
                totals: Totals::new(&plan.config),
                lost: BTreeMap::new(),
                others: 0,
            },
        })
    }

    /// Takes in what was recorded since the last round, and what happened meanwhile.
    ///
    /// # Errors
    /// If the bytes are no records of this plan: a fault of the driver.
    pub(super) fn take(&mut self, chunks: &[Chunk], story: &mut Story) -> Result<()> {
        // What a sample needs to be understood comes before it if both have the same time: the sort is stable.
        self.pending.append(&mut story.take());
        for chunk in chunks {
            let clock = story.clock();
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

    /// Ends a round: writes what nothing can come before any more.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn write(&mut self, story: &mut Story) -> io::Result<()> {
        let latest = self.pending.last().map_or(0, |record| record.stamp.time);
        self.write_until(self.limit, story)?;
        self.limit = latest.max(self.limit);
        Ok(())
    }

    /// Writes what is pending up to a time, as far as it is in the scope.
    fn write_until(&mut self, limit: u64, story: &mut Story) -> io::Result<()> {
        let ready = self
            .pending
            .partition_point(|record| record.stamp.time <= limit);
        for mut record in self.pending.drain(..ready) {
            if let Body::Sample(sample) = &record.body {
                record.stamp.task = story.task(&record.stamp, sample.ip);
            }
            if self.scope.keeps(&record) {
                self.places.take(&record);
                self.writer.record(&record)?;
            } else if record.is_sample() {
                self.counted.others += 1;
            }
        }
        story.forget(limit);
        Ok(())
    }

    /// Writes all that is left.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn end(mut self, story: &mut Story) -> io::Result<Ended<'a>> {
        self.write_until(u64::MAX, story)?;
        let (symbols, build_ids) = self.places.look_up();
        Ok(Ended {
            writer: self.writer,
            scope: self.scope,
            counted: self.counted,
            symbols,
            build_ids,
        })
    }
}

/// A file with all of its records, to which only the end is missing.
pub(super) struct Ended<'a> {
    writer: Writer<File>,
    pub(super) scope: Scope<'a>,
    pub(super) counted: Counted,
    pub(super) symbols: Vec<SymbolTable>,
    build_ids: Vec<BuildId>,
}

impl Ended<'_> {
    /// The time of the last sample.
    pub(super) fn last(&self) -> u64 {
        self.writer.last()
    }

    /// Appends a record that is about none of the others.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn record(&mut self, record: &Record) -> io::Result<()> {
        self.writer.record(record)
    }

    /// Makes the file whole; gives the number of its samples, and its size in bytes.
    ///
    /// # Errors
    /// Those of the file.
    pub(super) fn finish(self, host: &Host, notes: &Notes) -> io::Result<(u64, u64)> {
        let samples = self.writer.samples();
        let file = self.writer.finish(host, &self.build_ids, notes)?;
        Ok((samples, file.metadata()?.len()))
    }
}

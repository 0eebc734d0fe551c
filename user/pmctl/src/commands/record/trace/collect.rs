// SPDX-License-Identifier: MIT OR Apache-2.0
//! A running trace: takes the records out of its buffers, and replaces buffers that are nearly full.

use std::collections::BTreeMap;
use std::mem;
use std::time::Instant;

use anyhow::Result;
use perfmon::trace::{Alloc, Allocated, Buffer, Chunk, Config, Flags, Running, Staged, Trace};
use perfmon::{Cause, Session};

use crate::recording::perfdata::BufferGaps;
use crate::system::exit::with_help;

/// The size of a page of a buffer in bytes.
const PAGE_SIZE: u64 = 4096;

/// The pages of a buffer without -m.
const DEFAULT_PAGES: u32 = 1024;
/// The smallest buffer that is tried, in pages, if the limit of locked memory is too low for [`DEFAULT_PAGES`].
const MIN_PAGES: u32 = 16;

/// A trace that is ready to start.
pub(super) struct ReadyTrace<'a> {
    session: &'a Session,
    config: &'a Config,
    alloc: Alloc,
    trace: Trace<Staged>,
    buffers: Vec<Buffer>,
}

/// A running trace.
pub(super) struct Collector<'a> {
    session: &'a Session,
    config: &'a Config,
    alloc: Alloc,
    trace: Trace<Running>,
    buffers: Vec<Buffer>,
    collected: Collected,
}

/// Records of a trace.
#[derive(Default)]
pub(super) struct Collected {
    /// Records that [`Self::take_chunks`] has not returned yet.
    chunks: Vec<Chunk>,
    /// Size of all records in bytes.
    pub(super) size: u64,
    /// The flags of all buffers that each CPU has had.
    pub(super) flags: BTreeMap<u32, Flags>,
    /// The time without a trace while buffers were replaced.
    pub(super) gaps: BufferGaps,
}

impl<'a> ReadyTrace<'a> {
    /// Allocates the buffers of all CPUs, with `pages` pages each. Without -m, a buffer has
    /// [`DEFAULT_PAGES`] pages, or fewer if the limit of locked memory is too low.
    pub(super) fn new(
        session: &'a Session,
        config: &'a Config,
        pages: Option<u32>,
    ) -> Result<Self> {
        let info = session.device().info().map_err(with_help)?;
        let mut alloc = Alloc::new(&info, pages.unwrap_or(DEFAULT_PAGES));
        let trace = loop {
            match session.allocate(alloc) {
                Err(error)
                    if error.cause == Cause::MemoryLimit
                        && pages.is_none()
                        && alloc.pages > MIN_PAGES =>
                {
                    alloc.pages /= 2;
                }
                result => break result.map_err(with_help)?,
            }
        };
        let (trace, buffers) = stage_trace(trace, config)?;
        Ok(Self {
            session,
            config,
            alloc,
            trace,
            buffers,
        })
    }

    /// Starts the trace.
    pub(super) fn start(self) -> Result<Collector<'a>> {
        Ok(Collector {
            session: self.session,
            config: self.config,
            alloc: self.alloc,
            trace: start_trace(self.trace)?,
            buffers: self.buffers,
            collected: Collected::default(),
        })
    }
}

fn stage_trace(trace: Trace<Allocated>, config: &Config) -> Result<(Trace<Staged>, Vec<Buffer>)> {
    let trace = trace.stage(config).map_err(|e| with_help(e.error))?;
    let buffers = trace.buffers().map_err(with_help)?;
    Ok((trace, buffers))
}

fn start_trace(trace: Trace<Staged>) -> Result<Trace<Running>> {
    trace.start().map_err(|refused| with_help(refused.error))
}

impl Collector<'_> {
    /// Returns the records since the last call.
    pub(super) fn poll(&mut self) -> Result<Vec<Chunk>> {
        self.collected.drain(&mut self.buffers)?;
        Ok(self.collected.take_chunks())
    }

    /// Returns whether a buffer is nearly full.
    pub(super) fn is_nearly_full(&self) -> bool {
        let limit = u64::from(self.alloc.pages) * PAGE_SIZE / 4 * 3;
        let end = |buffer: &Buffer| buffer.header().capture_end;
        self.buffers.iter().any(|buffer| end(buffer) > limit)
    }

    /// Continues the trace with new buffers. Nothing is recorded while they are replaced.
    pub(super) fn replace_buffers(self) -> Result<Self> {
        let begin = Instant::now();
        let trace = self.trace.stop().map_err(|e| with_help(e.error))?;
        trace.free().map_err(|e| with_help(e.error))?;
        let mut collected = self.collected;
        // The old buffers stay until they are dropped, and count against the memory limit until then.
        let mut old = self.buffers;
        let trace = match self.session.allocate(self.alloc) {
            Err(error) if error.cause == Cause::MemoryLimit => {
                collected.drain_and_drop(&mut old)?;
                self.session.allocate(self.alloc)
            }
            result => result,
        };
        let (trace, buffers) = stage_trace(trace.map_err(with_help)?, self.config)?;
        let trace = start_trace(trace)?;
        let gap = begin.elapsed();

        collected.gaps.number += 1;
        collected.gaps.nanoseconds += u64::try_from(gap.as_nanos())?;
        collected.drain_and_drop(&mut old)?;
        Ok(Self {
            trace,
            buffers,
            collected,
            ..self
        })
    }

    /// Stops the trace, and returns its remaining records, flags and gaps.
    pub(super) fn stop(mut self) -> Result<Collected> {
        self.trace.stop().map_err(|e| with_help(e.error))?;
        self.collected.drain_and_drop(&mut self.buffers)?;
        Ok(self.collected)
    }

    /// Returns the size of all records so far in bytes.
    pub(super) const fn size(&self) -> u64 {
        self.collected.size
    }
}

impl Collected {
    /// Removes and returns the records.
    pub(super) fn take_chunks(&mut self) -> Vec<Chunk> {
        mem::take(&mut self.chunks)
    }

    fn drain(&mut self, buffers: &mut [Buffer]) -> Result<()> {
        for buffer in buffers {
            let chunk = buffer.records().map_err(with_help)?;
            if !chunk.bytes().is_empty() {
                self.size += chunk.bytes().len() as u64;
                self.chunks.push(chunk);
            }
        }
        Ok(())
    }

    /// Reads the records and flags of a stopped trace's buffers, and drops the buffers.
    fn drain_and_drop(&mut self, buffers: &mut Vec<Buffer>) -> Result<()> {
        self.drain(buffers)?;
        for buffer in buffers.drain(..) {
            let flags = self.flags.entry(buffer.cpu()).or_default();
            *flags = Flags::from_bits(flags.bits() | buffer.header().flags.bits());
        }
        Ok(())
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! Writing the counts of a trace's counters into its buffer.

use super::{buffer::Writer, percpu::PerCpu, trace::CpuTrace};
use crate::{cpu::timestamp, logic::counter::each_counter};

impl PerCpu {
    /// Writes a TIME record, and for each of `counters` a COUNT record with the events since the counter's last record.
    /// Then `write_more` writes further records. The counters must not be active.
    ///
    /// # Safety
    ///
    /// A trace must be recorded on this CPU. Its buffer must have no other writer, and room for the
    /// TIME record, the COUNT records, and the records of `write_more`.
    pub(crate) unsafe fn write_counts(
        &self,
        counters: u64,
        write_more: impl FnOnce(Writer) -> Writer,
    ) {
        let trace = &self.trace;
        // SAFETY: `writer` requires a trace that is recorded, room in its buffer, and no other writer: the caller
        // promises all three.
        let mut writer = unsafe { trace.writer(trace.sample_start.get()) };
        writer.put(CpuTrace::time_record(timestamp()));
        for counter in each_counter(counters) {
            writer.put(
                self.sampled_counter(counter)
                    .count_record(self.value(counter).total()),
            );
        }
        let writer = write_more(writer);
        trace.set_sample_start(writer.next_offset() as u64);
        // SAFETY: `buffer` requires that a trace is recorded on this CPU, and `publish` a buffer that is alive and has
        // no other writer: the caller promises that a trace is recorded, which keeps its buffer alive, and that the
        // buffer has no other writer.
        unsafe { trace.buffer().publish(writer.next_offset()) };
    }
}

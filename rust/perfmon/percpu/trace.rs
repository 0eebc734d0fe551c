// SPDX-License-Identifier: GPL-2.0-only
//! The part of a trace that is on one CPU.
//!
//! While a trace runs on a CPU, the CPU's overflow handler writes the records
//! ([`TraceSample`](crate::overflow::trace_sample::TraceSample)). Before and after, when none of the trace's counters
//! is active, the holder of the ownership lock does ([`crate::trace::cpu`]). In between, a timer does so while sampling
//! is suspended, when the handler writes nothing ([`crate::overflow::suspend`]). All of them run on the CPU itself, so
//! there is one writer at a time.

use super::{
    buffer::{BufferPtr, Writer},
    sampled::header,
    PerCpu, TracedValues, Word,
};
use crate::{
    abi,
    cpu::{cr3, timestamp, Regs},
    logic::{
        counter::each, lbr::is_kernel_address, trace_events::EventId, trace_record::TIME,
        values::ValueId,
    },
};
use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

/// The part of a trace on one CPU. Zero is a valid value of each field: no trace.
pub(crate) struct CpuTrace {
    /// Not 0 while the trace is recorded.
    pub(crate) recording: Word,
    /// The counters of the trace.
    pub(crate) counters: Word,
    /// The counters whose overflows are recorded.
    pub(crate) sampled: Word,
    /// The counters that are recorded with the timebase.
    pub(crate) followers: Word,
    /// The bit of the timebase, if there is one.
    pub(crate) timebase: Word,
    /// The counters that are recorded with branches.
    pub(crate) branching: Word,
    /// The bits of CR3 that records show: [`CR3_ADDRESS_SPACE_MASK`](crate::cpu::CR3_ADDRESS_SPACE_MASK), or without access to the
    /// kernel none.
    pub(crate) aspace_mask: Word,
    /// [`BufferPtr::address`].
    pub(crate) buffer: Word,
    /// The offset of the next sample.
    pub(crate) sample_start: Word,
    /// The offset of the handler's next record: behind the TIME of the sample, which it writes last.
    pub(crate) next_record: Word,
    /// The highest offset at which a sample may begin.
    pub(crate) last_start: Word,
    /// As [`Self::last_start`], for the handler: 0 while sampling is suspended.
    pub(crate) sample_limit: Word,
    /// Not 0 if a sample did not fit, so that the counters were stopped.
    pub(crate) full: Word,
    /// Not 0 while sampling is suspended.
    pub(crate) suspended: Word,
    /// The values.
    pub(crate) values: TracedValues,
}

impl CpuTrace {
    /// Returns a VALUE record.
    pub(crate) fn value(id: ValueId, value: u64) -> abi::perfmon_value_record {
        abi::perfmon_value_record {
            header: header(abi::PERFMON_RECORD_VALUE, id.event()),
            value,
        }
    }

    /// Returns a TIME record.
    #[inline(always)]
    pub(crate) fn time(now: u64) -> abi::perfmon_time_record {
        abi::perfmon_time_record {
            header: header(abi::PERFMON_RECORD_TIME, EventId::NONE.0),
            time: now as i64,
        }
    }

    /// Returns the address space and the instruction that a sample shows. Without access to the kernel, the address
    /// space reads as 0, and so do kernel addresses, where a late interrupt may come.
    #[inline(always)]
    pub(crate) fn sample_location(&self, regs: Regs<'_>) -> (u64, u64) {
        let (aspace_mask, pc) = (self.aspace_mask.get(), regs.ip());
        if aspace_mask != 0 {
            (cr3() & aspace_mask, pc)
        } else if is_kernel_address(pc) {
            (0, 0)
        } else {
            (0, pc)
        }
    }

    /// Returns where the buffer is.
    ///
    /// # Safety
    ///
    /// A trace must be recorded on this CPU.
    #[inline(always)]
    pub(crate) unsafe fn buffer(&self) -> BufferPtr {
        // SAFETY: The buffer of a trace is alive while it is recorded.
        unsafe { BufferPtr::from_address(self.buffer.get()) }
    }

    /// Returns a writer at the offset `start`.
    ///
    /// # Safety
    ///
    /// A trace must be recorded on this CPU; there must be room for what is written, and no other writer.
    #[inline(always)]
    pub(crate) unsafe fn writer(&self, start: u64) -> Writer {
        // SAFETY: The caller says that there is room and no other writer; the buffer of a trace is alive while it is
        // recorded.
        unsafe { Writer::new(self.buffer(), start as usize) }
    }

    /// Sets the offset of the next sample.
    #[inline(always)]
    pub(crate) fn set_sample_start(&self, start: u64) {
        self.sample_start.set(start);
        self.next_record.set(start.wrapping_add(TIME));
    }

    /// Returns the counters whose overflows are recorded; 0 without a trace.
    pub(crate) fn sampled(&self) -> u64 {
        self.sampled.get() & self.counters.get()
    }

    /// Marks the buffer, if there is a trace.
    #[cold]
    pub(crate) fn mark(&self, flags: u32) {
        if self.recording.get() != 0 {
            // SAFETY: The trace is recorded.
            unsafe { self.buffer().mark(flags) };
        }
    }

    /// Marks in the buffer that events or branches may be missing, if there is a trace.
    #[cold]
    pub(crate) fn mark_lost(&self) {
        self.mark(abi::PERFMON_BUFFER_FLAG_LOST);
    }

    /// Keeps the handler from writing.
    pub(crate) fn block_handler(&self) {
        // First: otherwise the handler would take the limit of 0 for a full buffer.
        self.suspended.set(1);
        compiler_fence(SeqCst);
        self.sample_limit.set(0);
    }

    /// Lets the handler write.
    pub(crate) fn unblock_handler(&self) {
        self.sample_limit.set(self.last_start.get());
        compiler_fence(SeqCst);
        self.suspended.set(0);
    }
}

impl PerCpu {
    /// Writes COUNT records of the events of `counters`, which are not active, since their last records; and what
    /// `more` writes behind them.
    ///
    /// # Safety
    ///
    /// A trace must be recorded on this CPU, with room for TIME, as many COUNT records, and those of `more`, and no
    /// other writer.
    pub(crate) unsafe fn write_counts(&self, counters: u64, more: impl FnOnce(Writer) -> Writer) {
        let trace = &self.trace;
        // SAFETY: The caller says that a trace is recorded, with room and no other writer.
        let mut writer = unsafe { trace.writer(trace.sample_start.get()) };
        writer.put(CpuTrace::time(timestamp()));
        for counter in each(counters) {
            writer.put(self.sampled(counter).count(self.value(counter).total()));
        }
        let writer = more(writer);
        trace.set_sample_start(writer.end() as u64);
        // SAFETY: The caller says that a trace is recorded, so the buffer is alive, and that there is no other writer.
        unsafe { trace.buffer().publish(writer.end()) };
    }
}

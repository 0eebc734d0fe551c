// SPDX-License-Identifier: GPL-2.0-only
//! The state of a trace on one CPU.
//!
//! The buffer has one writer at a time, always on its own CPU. While the trace runs, the overflow handler writes the
//! records ([`TraceSample`](crate::overflow::trace_sample::TraceSample)). While sampling is suspended, the handler
//! writes nothing, and the timer writes the records ([`crate::overflow::suspend`]). Before the trace starts and after it
//! stops, when none of its counters is active, the holder of the ownership lock writes ([`crate::trace::cpu`]).

use super::{
    buffer::{BufferPtr, Writer},
    sampled::header,
    traced_values::TracedValues,
    word::Word,
};
use crate::{
    abi,
    cpu::{cr3, Regs},
    logic::{
        lbr::is_kernel_address, trace_events::EventId, trace_record::TIME_BYTES, values::MiscEvent,
    },
};
use core::sync::atomic::{compiler_fence, Ordering::SeqCst};

/// The state of a trace on one CPU. All bits zero: no trace.
pub(crate) struct CpuTrace {
    /// Not 0 while a trace is recorded on this CPU.
    pub(crate) recording: Word,
    /// The counters of the trace, as a mask.
    pub(crate) counters: Word,
    /// The counters whose overflows are recorded.
    pub(crate) sampled_counters: Word,
    /// The counters that are recorded with the timebase.
    pub(crate) follower_counters: Word,
    /// The bit of the timebase's counter; 0 if nothing is recorded with the timebase.
    pub(crate) timebase: Word,
    /// The counters whose samples have a branch record.
    pub(crate) branch_counters: Word,
    /// The bits of CR3 that records show: [`CR3_ADDRESS_SPACE_MASK`](crate::cpu::CR3_ADDRESS_SPACE_MASK), or 0 if the
    /// opener may not see the kernel.
    pub(crate) aspace_mask: Word,
    /// The buffer, as [`BufferPtr::address`].
    pub(crate) buffer: Word,
    /// The offset of the next sample in the buffer, in bytes.
    pub(crate) sample_start: Word,
    /// The offset in bytes of the handler's next record. It leaves room for the sample's TIME record, which is written
    /// last.
    pub(crate) next_record: Word,
    /// The highest offset in bytes at which a sample may begin.
    pub(crate) last_start: Word,
    /// The highest offset in bytes at which the handler may begin a sample: [`Self::last_start`], or 0 while sampling
    /// is suspended.
    pub(crate) sample_limit: Word,
    /// Not 0 if a sample did not fit into the buffer, so that the counters were stopped.
    pub(crate) full: Word,
    /// Not 0 while sampling is suspended.
    pub(crate) suspended: Word,
    /// The values that the trace records.
    pub(crate) values: TracedValues,
}

impl CpuTrace {
    /// Returns a VALUE record.
    pub(crate) fn value_record(id: MiscEvent, value: u64) -> abi::perfmon_value_record {
        abi::perfmon_value_record {
            header: header(abi::PERFMON_RECORD_VALUE, id.event()),
            value,
        }
    }

    /// Returns a TIME record.
    #[inline(always)]
    pub(crate) fn time_record(now: u64) -> abi::perfmon_time_record {
        abi::perfmon_time_record {
            header: header(abi::PERFMON_RECORD_TIME, EventId::NONE.0),
            time: now as i64,
        }
    }

    /// Returns the address space and the instruction pointer for a sample. If the opener may not see the kernel, the
    /// address space is 0, and so is an instruction pointer in the kernel, where a late interrupt may come.
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

    /// Returns the buffer of this CPU.
    ///
    /// # Safety
    ///
    /// A trace must be recorded on this CPU.
    #[inline(always)]
    pub(crate) unsafe fn buffer(&self) -> BufferPtr {
        // SAFETY: `from_address` requires the address of a buffer that is alive: `begin` has stored
        // the address of a buffer that the trace keeps as long as it is recorded, and the caller
        // promises that a trace is recorded.
        unsafe { BufferPtr::from_address(self.buffer.get()) }
    }

    /// Returns a writer at the offset `start`.
    ///
    /// # Safety
    ///
    /// A trace must be recorded on this CPU; there must be room for the records that are written,
    /// and no other writer.
    #[inline(always)]
    pub(crate) unsafe fn writer(&self, start: u64) -> Writer {
        // SAFETY: `buffer` requires a trace that is recorded, and `Writer::new` room and no other writer: the caller
        // promises all three.
        unsafe { Writer::new(self.buffer(), start as usize) }
    }

    /// Sets the offset of the next sample.
    #[inline(always)]
    pub(crate) fn set_sample_start(&self, start: u64) {
        self.sample_start.set(start);
        self.next_record.set(start.wrapping_add(TIME_BYTES));
    }

    /// Returns the counters whose overflows are recorded, as a mask; 0 without a trace.
    pub(crate) fn sampled_counters(&self) -> u64 {
        self.sampled_counters.get() & self.counters.get()
    }

    /// Sets flags of the buffer (`PERFMON_BUFFER_FLAG_*`), if a trace is recorded.
    #[cold]
    pub(crate) fn set_buffer_flags(&self, flags: u32) {
        if self.recording.get() != 0 {
            // SAFETY: `buffer` requires a trace that is recorded, which `recording` says; its buffer is alive, as
            // `set_flags` requires.
            unsafe { self.buffer().set_flags(flags) };
        }
    }

    /// Marks in the buffer that events or branches may be missing, if a trace is recorded.
    #[cold]
    pub(crate) fn mark_lost(&self) {
        self.set_buffer_flags(abi::PERFMON_BUFFER_FLAG_LOST);
    }

    /// Keeps the overflow handler from writing to the buffer.
    pub(crate) fn block_handler(&self) {
        // `suspended` is set before the limit. Otherwise the handler would take the limit of 0 for a full buffer.
        self.suspended.set(1);
        compiler_fence(SeqCst);
        self.sample_limit.set(0);
    }

    /// Lets the overflow handler write to the buffer.
    pub(crate) fn unblock_handler(&self) {
        self.sample_limit.set(self.last_start.get());
        compiler_fence(SeqCst);
        self.suspended.set(0);
    }
}

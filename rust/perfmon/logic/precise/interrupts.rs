// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The number of records at which the buffer's interrupt is due.

use super::periods::MIN_PERIOD_IN_KERNEL;

/// The smallest number of events from an interrupt to the next record of a counter of kernel mode, if each record causes
/// an interrupt: as many events as [`MIN_RECORDS`] records have with the shortest period.
pub const MIN_DISTANCE_IN_KERNEL: u64 = MIN_RECORDS * MIN_PERIOD_IN_KERNEL;

/// The smallest number of records of a counter of kernel mode at which an interrupt is due. With
/// the shortest period, this many records need more instructions than the handler of Linux perf
/// has. That handler may run in the same NMI. If an interrupt became due in that handler, perf
/// would take the interrupt and the records for its own.
pub const MIN_RECORDS: u64 = 16;

/// Returns the number of records in the buffer at which an interrupt is due while a sample is overdue. Without counters of
/// kernel mode it is one, since that record may be the overdue sample; otherwise [`MIN_RECORDS`] for each of the
/// `kernel_counters`.
#[must_use]
pub const fn records_to_interrupt_if_overdue(kernel_counters: u32) -> u64 {
    if kernel_counters == 0 {
        1
    } else {
        MIN_RECORDS * kernel_counters as u64
    }
}

/// Returns the number of records in the buffer at which an interrupt is due for an event of `frequency` samples in a
/// second: twice as many as are expected until the buffer is read at the next tick, after `tick_ns` nanoseconds. So a
/// period that is far too short is soon changed.
#[must_use]
pub const fn records_to_interrupt(frequency: u64, tick_ns: u64) -> u64 {
    const NS_PER_SECOND: u64 = 1_000_000_000;

    let records = frequency.saturating_mul(2).saturating_mul(tick_ns) / NS_PER_SECOND;
    if records < MIN_RECORDS {
        MIN_RECORDS
    } else {
        records
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_precise_interrupts)
)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_interrupt_before_the_buffer_is_full() {
        assert_eq!(records_to_interrupt(10_000, 4_000_000), 80);
        assert_eq!(records_to_interrupt(1, 4_000_000), 16);
    }

    #[test]
    fn overdue_sample_causes_the_next_interrupt_unless_the_kernel_is_sampled() {
        assert_eq!(records_to_interrupt_if_overdue(0), 1);
        assert_eq!(records_to_interrupt_if_overdue(1), 16);
        assert_eq!(records_to_interrupt_if_overdue(2), 32);
    }
}

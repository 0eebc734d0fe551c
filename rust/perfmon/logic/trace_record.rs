// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sizes of records and samples.
//!
//! A sample is the set of all records of one overflow interrupt. Either all records of a sample are
//! written, or none. Every buffer keeps room for the sample of IOCTL_PERFMON_STOP, so that the sums
//! are exact even in a full buffer.

use super::trace_config::{Config, EventRole, MAX_EVENTS};
use crate::abi;

/// Bytes of a buffer before its first record.
pub const HEADER_BYTES: u64 = size_of::<abi::perfmon_buffer_header>() as u64;
/// Bytes of a TIME record.
pub const TIME_BYTES: u64 = size_of::<abi::perfmon_time_record>() as u64;
/// Bytes of a TICK record.
pub const TICK_BYTES: u64 = size_of::<abi::perfmon_tick_record>() as u64;
/// Bytes of a COUNT record.
pub const COUNT_BYTES: u64 = size_of::<abi::perfmon_count_record>() as u64;
/// Bytes of a VALUE record: as many as [`COUNT_BYTES`], which [`Config::sample_room`] uses for VALUE records, too.
pub const VALUE_BYTES: u64 = size_of::<abi::perfmon_value_record>() as u64;
/// Bytes of a PC record.
pub const PC_BYTES: u64 = size_of::<abi::perfmon_pc_record>() as u64;
/// Bytes of a LAST_BRANCH record with all branches.
pub const LAST_BRANCH_BYTES: u64 = size_of::<abi::perfmon_last_branch_record>() as u64;

// A buffer of one page has room for the header, any sample, and any sample of STOP. In the largest sample every
// event has a PC record and, because the interrupt was late, a COUNT record.
const _: () = {
    assert!(VALUE_BYTES == COUNT_BYTES);
    let largest_sample =
        TIME_BYTES + MAX_EVENTS as u64 * (PC_BYTES + COUNT_BYTES) + LAST_BRANCH_BYTES;
    let stop_sample = TIME_BYTES + MAX_EVENTS as u64 * COUNT_BYTES;
    assert!(HEADER_BYTES + largest_sample + stop_sample <= 4096);
};

/// The room that the samples of a config need, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRoom {
    /// The size of the largest sample of an overflow interrupt.
    pub sample_bytes: u64,
    /// The size of the sample of IOCTL_PERFMON_STOP.
    pub stop_bytes: u64,
}

impl Config {
    /// Returns the room that the samples need.
    #[must_use]
    pub fn sample_room(&self) -> SampleRoom {
        let event_bytes: u64 = self
            .events()
            .map(|event| match event.role {
                // The COUNT record is for events that were counted after the sample was due.
                EventRole::Sampled(_) => COUNT_BYTES + if event.pc { PC_BYTES } else { TICK_BYTES },
                EventRole::FollowsTimebase => COUNT_BYTES,
                EventRole::Counted => 0,
            })
            .sum();
        let branch_bytes = self.last_branch().map_or(0, |_| LAST_BRANCH_BYTES);
        SampleRoom {
            sample_bytes: TIME_BYTES + event_bytes + branch_bytes,
            stop_bytes: TIME_BYTES + self.events().count() as u64 * COUNT_BYTES,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_record))]
mod tests {
    use super::super::branch_records::BranchRecords;
    use super::super::core_kinds::CoreKinds;
    use super::super::cpuid::Capabilities;
    use super::*;

    const CPU: Capabilities = Capabilities {
        general_count: 4,
        general_width: 48,
        arch_events: 0x7f,
        full_width_writes: true,
        last_branch: Some(BranchRecords::Stack),
        ..Capabilities::NONE
    };

    #[test]
    fn record_sizes_match_the_abi() {
        assert_eq!(
            [
                HEADER_BYTES,
                TIME_BYTES,
                TICK_BYTES,
                COUNT_BYTES,
                PC_BYTES,
                LAST_BRANCH_BYTES
            ],
            [24, 12, 4, 12, 20, 784]
        );
    }

    #[test]
    fn sample_room_covers_all_record_types() {
        let mut raw = abi::perfmon_config {
            events: [0; MAX_EVENTS],
            rate: [0; MAX_EVENTS],
            flags: [0; MAX_EVENTS],
        };
        let rows = [
            (
                1 << 10,
                9,
                abi::PERFMON_CONFIG_FLAG_PC | abi::PERFMON_CONFIG_FLAG_LAST_BRANCH,
            ),
            (1 << 10 | 1, 9, 0),
            (1 << 10 | 5, 0, 0),
            (1 << 10 | 6, 0, abi::PERFMON_CONFIG_FLAG_TIMEBASE0),
        ];
        for (n, (id, rate, flags)) in rows.into_iter().enumerate() {
            (raw.events[n], raw.rate[n], raw.flags[n]) = (id, rate, flags);
        }
        let kinds = CoreKinds::one(&CPU);
        let config = Config::new(&raw, &CPU, &kinds, |_| None);
        let room = config.map(|config| config.sample_room());
        assert_eq!(
            room,
            Ok(SampleRoom {
                sample_bytes: 12 + (20 + 12) + (4 + 12) + 12 + 784,
                stop_bytes: 12 + 4 * 12
            })
        );
    }
}

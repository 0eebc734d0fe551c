// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sizes of records, and how much room a set of them may need.
//!
//! Records are written in sets: all that is known at one overflow interrupt, or nothing of it. The room
//! for the set of IOCTL_PERFMON_STOP is kept free in every buffer, so that the sums of a full one are
//! exact, too.

use super::config::{Config, Role, MAX_EVENTS};
use crate::abi;

/// Bytes of a buffer before its first record.
pub const HEADER: u64 = size_of::<abi::perfmon_buffer_header>() as u64;
/// Bytes of a TIME record.
pub const TIME: u64 = size_of::<abi::perfmon_time_record>() as u64;
/// Bytes of a TICK record.
pub const TICK: u64 = size_of::<abi::perfmon_tick_record>() as u64;
/// Bytes of a COUNT record.
pub const COUNT: u64 = size_of::<abi::perfmon_count_record>() as u64;
/// Bytes of a PC record.
pub const PC: u64 = size_of::<abi::perfmon_pc_record>() as u64;
/// Bytes of a LAST_BRANCH record with all branches.
pub const LAST_BRANCH: u64 = size_of::<abi::perfmon_last_branch_record>() as u64;

// A buffer of one page holds the header, any set, and any last set. In the largest one every event ticks,
// and has something to add.
const _: () = {
    let largest = TIME + MAX_EVENTS as u64 * (PC + COUNT) + LAST_BRANCH;
    let last = TIME + MAX_EVENTS as u64 * COUNT;
    assert!(HEADER + largest + last <= 4096);
};

/// The room that the sets of a config need, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Of the largest set.
    pub set: u64,
    /// Of the last one.
    pub stop: u64,
}

impl Config {
    /// The room that its sets need.
    #[must_use]
    pub fn room(&self) -> Room {
        let ticks: u64 = self
            .events()
            .map(|event| match event.role {
                // The tick, and what came too late for it.
                Role::Ticks(_) => COUNT + if event.pc { PC } else { TICK },
                Role::Depends => COUNT,
                Role::Tallies => 0,
            })
            .sum();
        let branches = self.last_branch().map_or(0, |_| LAST_BRANCH);
        Room {
            set: TIME + ticks + branches,
            stop: TIME + self.events().count() as u64 * COUNT,
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_record))]
mod tests {
    use super::super::cpuid::Capabilities;
    use super::*;

    const CPU: Capabilities = Capabilities {
        general: 4,
        general_width: 48,
        arch_events: 0x7f,
        full_width_writes: true,
        last_branch: true,
        ..Capabilities::NOTHING
    };

    #[test]
    fn sizes_are_those_of_the_interface() {
        assert_eq!(
            [HEADER, TIME, TICK, COUNT, PC, LAST_BRANCH],
            [24, 12, 4, 12, 20, 784]
        );
    }

    #[test]
    fn room_is_for_everything_at_once() {
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
        let room = Config::new(&raw, &CPU, |_| None).map(|config| config.room());
        assert_eq!(
            room,
            Ok(Room {
                set: 12 + (20 + 12) + (4 + 12) + 12 + 784,
                stop: 12 + 4 * 12
            })
        );
    }
}

// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Precise events (`precise_ip` of the attribute). The processor writes a record of each of their samples itself, with the
//! address of the exact instruction. One interrupt delivers many samples if these have only parts that the records have, and
//! parts that are the same for all records. Events whose samples have other parts are single: each of their records raises
//! an interrupt, whose handler adds the other parts.

mod access;
mod eligibility;
mod interrupts;
mod merging;
mod periods;

pub(super) use self::access::access_format;
pub(super) use self::eligibility::counters;
pub use self::eligibility::CYCLES;
pub use self::interrupts::{
    records_to_interrupt, records_to_interrupt_if_overdue, MIN_DISTANCE_IN_KERNEL, MIN_RECORDS,
};
pub use self::merging::merges_samples;
pub use self::periods::{
    check_trigger, closest_period, min_load, next_period, stays_overdue, MAX_PERIOD,
    MIN_INSTRUCTIONS, MIN_PERIOD, MIN_PERIOD_IN_KERNEL,
};

#[cfg(any(test, CONFIG_KUNIT = "y"))]
mod testing;

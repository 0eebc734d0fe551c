// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The records of the project's virtual PMU, which may stand for several overflows.

use super::adaptive_record::BasicRecord;
use super::record::{word_index, PebsRecord};

/// A record of the format [`PebsFormat::Merged`](super::PebsFormat::Merged): the basic group of format 4, and the number of
/// overflows.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct MergedRecord([u64; 5]);

impl PebsRecord for MergedRecord {
    const IP: usize = BasicRecord::IP;
    const COUNTERS: usize = BasicRecord::COUNTERS;
    const TSC: usize = BasicRecord::TSC;
    const IS_MERGED: bool = true;

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        self.0[word_index(offset)]
    }

    #[inline(always)]
    fn overflows(&self) -> u64 {
        self.word(0x20)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_pebs_merged_record)
)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_the_basic_group() {
        let record = MergedRecord(core::array::from_fn(|n| 8 * n as u64));
        assert_eq!(
            [
                record.ip(),
                record.counters(),
                record.tsc(),
                record.overflows()
            ],
            [0x08, 0x10, 0x18, 0x20]
        );
    }
}

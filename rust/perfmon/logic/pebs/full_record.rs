// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The records of format 3.

use super::super::memory_access::RecordedAccess;
use super::record::{word_index, PebsRecord, RecordRegisters};

/// A record of format 3, with all registers.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FullRecord([u64; 25]);

impl PebsRecord for FullRecord {
    const HAS_ACCESS: bool = true;
    const IP: usize = 0xb0;
    const COUNTERS: usize = 0x90;
    const TSC: usize = 0xc0;

    #[inline(always)]
    fn word(&self, offset: usize) -> u64 {
        self.0[word_index(offset)]
    }

    #[inline(always)]
    fn access(&self) -> RecordedAccess {
        RecordedAccess {
            address: self.word(0x98),
            source: self.word(0xa0),
            latency: self.word(0xa8),
            transaction: self.word(0xb8),
            retire_latency: 0,
        }
    }

    fn registers(&self) -> Option<RecordRegisters> {
        Some(RecordRegisters {
            flags: self.word(0x00),
            ip: self.word(0x08),
            ax: self.word(0x10),
            bx: self.word(0x18),
            cx: self.word(0x20),
            dx: self.word(0x28),
            si: self.word(0x30),
            di: self.word(0x38),
            bp: self.word(0x40),
            sp: self.word(0x48),
            r8_to_r15: core::array::from_fn(|n| self.word(0x50 + 8 * n)),
        })
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_pebs_full_record)
)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_offsets_of_the_manual() {
        let record = FullRecord(core::array::from_fn(|n| 8 * n as u64));
        assert_eq!(
            [record.counters(), record.ip(), record.tsc()],
            [0x90, 0xb0, 0xc0]
        );
        let registers = record.registers();
        let words = registers.map(|r| {
            [
                r.flags, r.ip, r.ax, r.bx, r.cx, r.dx, r.si, r.di, r.bp, r.sp,
            ]
        });
        assert_eq!(
            words,
            Some([0x00, 0x08, 0x10, 0x18, 0x20, 0x28, 0x30, 0x38, 0x40, 0x48])
        );
        assert_eq!(
            registers.map(|r| r.r8_to_r15),
            Some([0x50, 0x58, 0x60, 0x68, 0x70, 0x78, 0x80, 0x88])
        );
        let access = record.access();
        assert_eq!(
            [
                access.address,
                access.source,
                access.latency,
                access.transaction
            ],
            [0x98, 0xa0, 0xa8, 0xb8]
        );
        assert!(record.has_expected_groups());
    }
}

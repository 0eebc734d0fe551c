// SPDX-License-Identifier: MIT OR Apache-2.0
//! A cache of the rows of recent samples. Most samples of a recording repeat the task and the
//! address of an earlier sample, so that their names and row need not be looked up again.

use crate::args::Key;
use crate::recording::perfdata::{GuestMode, Sample, Stamp, Task};

/// The row that a sample is added to, and the file that lacks the name of its function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownRow {
    /// The index of the row.
    pub(super) row: usize,
    /// The index of the file that lacks the name of the sample's function; `None` if the name is
    /// known.
    pub(super) nameless_file: Option<usize>,
}

/// The facts that the row of a sample depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SampleKey {
    /// The version of the names. It is at least 1, so that no sample has the default key.
    version: u64,
    ip: u64,
    event: usize,
    task: Task,
    guest_mode: Option<GuestMode>,
    /// The CPU of the sample; 0 unless rows depend on the CPU.
    cpu: u32,
    /// The cgroup of the sample; 0 unless rows depend on the cgroup.
    cgroup: u64,
}

/// The rows of samples that were found last. A sample takes the place of an earlier one whose key has the same hash, so that
/// a recording with any number of addresses takes the same memory.
#[derive(Debug)]
pub(super) struct KnownRows {
    slots: Vec<(SampleKey, KnownRow)>,
    depend_on_cpu: bool,
    depend_on_cgroup: bool,
}

impl KnownRows {
    /// The logarithm of the number of slots to the base 2.
    const SLOT_BITS: u32 = 12;

    /// Creates an instance without rows.
    pub(super) fn new(keys: &[Key]) -> Self {
        Self {
            slots: vec![<(SampleKey, KnownRow)>::default(); 1 << Self::SLOT_BITS],
            depend_on_cpu: keys.contains(&Key::Cpu),
            depend_on_cgroup: keys.contains(&Key::Cgroup),
        }
    }

    /// Returns the row of a sample. If the row is not known, calls `find` to look it up. `version`
    /// is the version of the names.
    pub(super) fn find_or_insert_with(
        &mut self,
        (stamp, sample): (Stamp, &Sample),
        version: u64,
        find: impl FnOnce() -> KnownRow,
    ) -> KnownRow {
        let key = SampleKey {
            version,
            ip: sample.ip,
            event: sample.event,
            task: stamp.task,
            guest_mode: sample.guest_mode,
            cpu: if self.depend_on_cpu { stamp.cpu } else { 0 },
            cgroup: if self.depend_on_cgroup {
                sample.cgroup
            } else {
                0
            },
        };
        let slot = &mut self.slots[key.slot_index(Self::SLOT_BITS)];
        if slot.0 != key {
            *slot = (key, find());
        }
        slot.1
    }
}

impl SampleKey {
    /// Returns the index of the key's slot, a hash of `bits` bits.
    fn slot_index(&self, bits: u32) -> usize {
        /// 2^64 divided by the golden ratio: multiplied by it, numbers that are close differ in the upper bits.
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let others = u64::from(self.task.tid ^ self.cpu.rotate_left(16)) << 24;
        let mixed = (self.ip ^ others ^ self.event as u64).wrapping_mul(MULTIPLIER);
        usize::try_from(mixed >> (u64::BITS - bits)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the row that is known for a sample; `None` if there is none.
    fn known(rows: &mut KnownRows, version: u64, stamp: Stamp, sample: &Sample) -> Option<usize> {
        let mut is_known = true;
        let found = rows.find_or_insert_with((stamp, sample), version, || {
            is_known = false;
            KnownRow::default()
        });
        is_known.then_some(found.row)
    }

    #[test]
    fn rows_are_known_until_names_change() {
        let mut rows = KnownRows::new(&[Key::Symbol]);
        let (stamp, sample) = (Stamp::default(), Sample::default());
        let row = KnownRow {
            row: 7,
            nameless_file: Some(8),
        };
        assert_eq!(
            rows.find_or_insert_with((stamp, &sample), 1, || row),
            row,
            "the first sample has the default stamp and address"
        );
        assert_eq!(known(&mut rows, 1, stamp, &sample), Some(7));
        assert_eq!(known(&mut rows, 2, stamp, &sample), None);
    }

    #[test]
    fn samples_that_differ_in_a_key_have_rows_of_their_own() {
        let (stamp, sample) = (Stamp::default(), Sample::default());
        let with = |change: &dyn Fn(&mut Stamp, &mut Sample)| {
            let (mut stamp, mut sample) = (stamp, sample.clone());
            change(&mut stamp, &mut sample);
            (stamp, sample)
        };
        let cases = [
            (Key::Symbol, with(&|_, sample| sample.ip = 1)),
            (Key::Symbol, with(&|_, sample| sample.event = 1)),
            (
                Key::Symbol,
                with(&|_, sample| sample.guest_mode = Some(GuestMode::User)),
            ),
            (Key::Comm, with(&|stamp, _| stamp.task.pid = 1)),
            (Key::Comm, with(&|stamp, _| stamp.task.tid = 1)),
            (Key::Cpu, with(&|stamp, _| stamp.cpu = 1)),
            (Key::Cgroup, with(&|_, sample| sample.cgroup = 1)),
        ];
        for (key, (other_stamp, other_sample)) in cases {
            let mut rows = KnownRows::new(&[key]);
            assert_eq!(known(&mut rows, 1, stamp, &sample), None);
            let other = known(&mut rows, 1, other_stamp, &other_sample);
            assert_eq!(other, None, "{key:?}, {other_stamp:?}");
        }
        // No key shows the CPU and the cgroup.
        let mut rows = KnownRows::new(&[Key::Symbol]);
        let (other_stamp, other_sample) = with(&|stamp, sample| {
            stamp.cpu = 1;
            sample.cgroup = 1;
        });
        assert_eq!(known(&mut rows, 1, stamp, &sample), None);
        assert_eq!(known(&mut rows, 1, other_stamp, &other_sample), Some(0));
    }
}

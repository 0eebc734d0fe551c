// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The branches in the processor's records of precise samples (PEBS, formats 4 to 6): the contents of the branch records
//! when the sample was taken (Intel SDM, volume 3B, "Adaptive PEBS").
//!
//! [`super::branch_records`] has the kinds of branch records and their control registers, [`super::lbr`] the form of each
//! record, and [`super::branches`] the filter.

use super::branch_records::BranchRecords;
use super::branches::BranchStack;
use super::lbr::{branch_type, flags, with_known_cycles};

/// The selection and the form in which samples of an event show the branches of the processor's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedBranches {
    /// The value of [`Branches::kernel_bit`](super::branches::Branches::kernel_bit).
    kernel_bit: u64,
    /// The value of [`BranchStack::info_mask`].
    info_mask: u64,
    /// The value of [`BranchStack::has_index`].
    pub has_index: bool,
    /// The branches are in the form of architectural records.
    are_architectural: bool,
}

/// The number of words of a branch: its source, its target, and its details in a record, or its flags in a sample.
const WORDS_OF_BRANCH: usize = 3;

impl RecordedBranches {
    /// The number of branches in a record, which is the same on all processors with these formats.
    /// The first branch is the newest.
    pub const COUNT: usize = 32;
    /// The number of words of the branches in a record.
    pub const WORDS: usize = WORDS_OF_BRANCH * Self::COUNT;
    /// The index of the newest branch in a sample (`PERF_SAMPLE_BRANCH_HW_INDEX`). The processor's
    /// record lacks the index. In this case Linux perf uses the same value.
    pub const INDEX: u64 = u64::MAX;

    /// Returns the form of the branches of `stack` in samples of a CPU with these branch records; `None` if its processor's
    /// records do not have [`Self::COUNT`] branches.
    #[must_use]
    pub const fn new(stack: &BranchStack, records: BranchRecords) -> Option<Self> {
        let are_architectural = match records {
            BranchRecords::Stack => false,
            BranchRecords::Architectural { .. } => true,
            BranchRecords::OldStack(_) | BranchRecords::Amd { .. } => return None,
        };
        if records.depth() as usize != Self::COUNT {
            return None;
        }
        Some(Self {
            kernel_bit: stack.branches.kernel_bit,
            info_mask: stack.info_mask,
            has_index: stack.has_index,
            are_architectural,
        })
    }

    /// Returns the number of branches that a sample shows. `words` are the branches of the record. A source address of 0 ends
    /// the branches that were recorded since the branch records were emptied.
    #[must_use]
    pub fn count_shown(&self, words: &[u64]) -> usize {
        if self.are_all_shown(words) {
            return words.len() / WORDS_OF_BRANCH;
        }
        let mut count: usize = 0;
        self.for_each_shown(words, |_| count = count.wrapping_add(1));
        count
    }

    /// Returns whether a sample shows all branches of a record, as nearly all samples do. Checks several branches in each
    /// step, to be fast in this common case.
    #[inline(always)]
    fn are_all_shown(&self, words: &[u64]) -> bool {
        const STEP: usize = 8;

        let (mut all_addresses, mut lowest_source) = (0, u64::MAX);
        let mut remaining = words;
        while let Some((step, rest)) = remaining.split_first_chunk::<{ WORDS_OF_BRANCH * STEP }>() {
            for_each_branch(step, |[from, to, _]| {
                all_addresses |= from | to;
                lowest_source = lowest_source.min(from);
            });
            remaining = rest;
        }
        for_each_branch(remaining, |[from, to, _]| {
            all_addresses |= from | to;
            lowest_source = lowest_source.min(from);
        });
        lowest_source != 0 && all_addresses & self.kernel_bit == 0
    }

    /// Returns the number of words of `count` branches in a sample.
    #[inline(always)]
    #[must_use]
    pub const fn word_count(&self, count: usize) -> usize {
        let words = WORDS_OF_BRANCH.wrapping_mul(count);
        words.wrapping_add(1).wrapping_add(self.has_index as usize)
    }

    /// Calls `put` with the three words of each branch that a sample shows, the newest branch first. `words` are the branches
    /// of the record, and `count` is the result of [`Self::count_shown`].
    #[inline(always)]
    pub fn for_each(
        &self,
        words: &[u64],
        count: usize,
        mut put: impl FnMut([u64; WORDS_OF_BRANCH]),
    ) {
        let put = |[from, to, details]: [u64; WORDS_OF_BRANCH]| {
            put([from, to, self.flags(details)]);
        };
        if count == words.len() / WORDS_OF_BRANCH {
            for_each_branch(words, put);
        } else {
            self.for_each_shown(words, put);
        }
    }

    /// Calls `f` with the words of each branch of a record that samples show.
    #[inline(always)]
    fn for_each_shown(&self, words: &[u64], mut f: impl FnMut([u64; WORDS_OF_BRANCH])) {
        let recorded = words
            .chunks_exact(WORDS_OF_BRANCH)
            .position(|branch| branch.first() == Some(&0));
        let words = match recorded {
            Some(count) => words
                .get(..WORDS_OF_BRANCH.wrapping_mul(count))
                .unwrap_or(&[]),
            None => words,
        };
        for_each_branch(words, |[from, to, details]| {
            if (from | to) & self.kernel_bit == 0 {
                f([from, to, details]);
            }
        });
    }

    /// Returns the flags of a branch in a sample.
    #[inline(always)]
    const fn flags(&self, details: u64) -> u64 {
        let flags = if self.are_architectural {
            flags(with_known_cycles(details)) | branch_type(details)
        } else {
            flags(details)
        };
        flags & self.info_mask
    }
}

/// Calls `f` with the words of each branch.
#[inline(always)]
fn for_each_branch(words: &[u64], mut f: impl FnMut([u64; WORDS_OF_BRANCH])) {
    for branch in words.chunks_exact(WORDS_OF_BRANCH) {
        if let &[from, to, details] = branch {
            f([from, to, details]);
        }
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(
    CONFIG_KUNIT = "y",
    kernel::macros::kunit_tests(perfmon_recorded_branches)
)]
mod tests {
    use super::super::branches::Branches;
    use super::*;

    const KERNEL: u64 = 1 << 63;
    const MISPREDICTED: u64 = 1 << 63;

    /// All branches of the program, with all flags and without a type.
    const USER_BRANCHES: BranchStack = BranchStack {
        branches: Branches::in_modes(true, false),
        info_mask: 0xf_ffff,
        has_index: false,
    };

    const ARCHITECTURAL: BranchRecords = BranchRecords::Architectural { depth: 32 };

    /// Returns the first words of the branches that a sample shows of `words`, and the number of words.
    fn sample(stack: &BranchStack, records: BranchRecords, words: &[u64]) -> ([u64; 8], usize) {
        let (mut sample, mut length) = ([0; 8], 0);
        if let Some(branches) = RecordedBranches::new(stack, records) {
            let count = branches.count_shown(words);
            branches.for_each(words, count, |branch| {
                for word in branch {
                    if let Some(place) = sample.get_mut(length) {
                        *place = word;
                    }
                    length += 1;
                }
            });
            assert_eq!(length, 3 * count);
            assert_eq!(
                branches.word_count(count),
                1 + usize::from(branches.has_index) + length
            );
        }
        (sample, length)
    }

    #[test]
    fn samples_show_the_branches_since_the_records_were_emptied() {
        let words = [5, 6, MISPREDICTED | 7, 3, 4, 0, 0, 0, 0, 1, 2, 0];
        assert_eq!(
            sample(&USER_BRANCHES, BranchRecords::Stack, &words),
            ([5, 6, 0x71, 3, 4, 0x02, 0, 0], 6)
        );
        assert_eq!(
            sample(&USER_BRANCHES, BranchRecords::Stack, &[]),
            ([0; 8], 0)
        );
    }

    #[test]
    fn samples_of_a_program_show_no_address_of_the_kernel() {
        let words = [KERNEL | 5, 6, 0, 3, KERNEL | 4, 0, 1, 2, 0];
        assert_eq!(
            sample(&USER_BRANCHES, BranchRecords::Stack, &words),
            ([1, 2, 0x02, 0, 0, 0, 0, 0], 3)
        );
        let all_branches = BranchStack {
            branches: Branches::in_modes(true, true),
            ..USER_BRANCHES
        };
        assert_eq!(sample(&all_branches, BranchRecords::Stack, &words).1, 9);
    }

    #[test]
    fn samples_have_the_parts_that_the_event_asks_for() {
        let bare = BranchStack {
            info_mask: 0,
            has_index: true,
            ..USER_BRANCHES
        };
        assert_eq!(
            sample(&bare, BranchRecords::Stack, &[5, 6, MISPREDICTED | 7]),
            ([5, 6, 0, 0, 0, 0, 0, 0], 3)
        );
        let with_types = BranchStack {
            info_mask: 0xff_ffff,
            ..USER_BRANCHES
        };
        // A return, whose cycles are not known.
        let words = [5, 6, 5 << 56 | 7];
        assert_eq!(
            sample(&with_types, ARCHITECTURAL, &words).0,
            [5, 6, 0x60_0002, 0, 0, 0, 0, 0]
        );
        assert_eq!(sample(&USER_BRANCHES, ARCHITECTURAL, &words).0[2], 0x02);
    }

    #[test]
    fn other_branch_records_are_not_in_records() {
        use super::super::branch_records::OldStack;

        for records in [
            BranchRecords::OldStack(OldStack::Haswell),
            BranchRecords::Architectural { depth: 16 },
            BranchRecords::Amd {
                depth: 32,
                address_bits: 48,
                freezes: true,
            },
        ] {
            assert_eq!(RecordedBranches::new(&USER_BRANCHES, records), None);
        }
    }
}

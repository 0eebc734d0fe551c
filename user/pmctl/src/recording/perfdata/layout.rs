// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes records with other fields than pmctl asks for, by the layout that `struct perf_event_attr` describes
//! (`perf_event_open(2)`, "MMAP layout").

use perfmon_core::logic::event_attr as abi;

use super::attr::{Attr, OtherFields};
use super::bytes::Reader;
use super::data_source::DataSource;
use super::memory_access::{MemoryAccess, Weight};
use super::record::{Body, Branch, GuestMode, Record, Sample, Stamp, Task, UserStack};
use super::sample_parts::{SAMPLE_USER, SAMPLE_WEIGHTS, SampleParts};

/// Fields of the stamp, each of 8 bytes, in their order.
const STAMP: [u64; 6] = [
    abi::PERF_SAMPLE_TID,
    abi::PERF_SAMPLE_TIME,
    abi::PERF_SAMPLE_ID,
    abi::PERF_SAMPLE_STREAM_ID,
    abi::PERF_SAMPLE_CPU,
    abi::PERF_SAMPLE_IDENTIFIER,
];

/// Fields of 8 bytes after the cgroup: the sizes of the pages of data and code.
const AFTER_CGROUP: u64 = 1 << 22 | 1 << 23;
/// `PERF_SAMPLE_AUX`: a field of any size after those of [`AFTER_CGROUP`].
const SAMPLE_AUX: u64 = 1 << 20;

/// `PERF_SAMPLE_BRANCH_COUNTERS`: behind the branches, there is a word with counts for each branch.
const SAMPLE_BRANCH_COUNTERS: u64 = 1 << 19;

/// The fields that the records of an event have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    fields: u64,
    read_format: u64,
    branches: u64,
    registers: u64,
    /// Period of samples that do not have it as a field.
    period: u64,
    has_stamps: bool,
}

impl Layout {
    /// Returns the layout that an attr describes.
    pub(super) fn of(attr: &Attr, others: OtherFields) -> Self {
        Self {
            fields: attr.fields,
            read_format: others.read_format,
            branches: attr.branches,
            registers: others.registers,
            period: attr.fixed_period().unwrap_or(0),
            has_stamps: attr.has_stamps(),
        }
    }

    /// Returns the parts of the samples that pmctl reads. Stacks with other registers than pmctl asks for are not read,
    /// since they can't be unwound.
    pub(super) const fn parts(self) -> SampleParts {
        let parts = SampleParts::of(self.fields);
        SampleParts {
            has_user_stack: parts.has_user_stack && self.registers == UserStack::REGISTER_MASK,
            has_cgroup: parts.has_cgroup && self.fields & SAMPLE_AUX == 0,
            ..parts
        }
    }

    /// Returns whether samples have stacks with other registers than those that pmctl asks for.
    pub(super) const fn has_other_registers(self) -> bool {
        self.fields & SAMPLE_USER == SAMPLE_USER && self.registers != UserStack::REGISTER_MASK
    }

    /// Returns the kernel's number of the event in a record's content; `None` if it has none.
    pub(super) fn id(self, is_sample: bool, content: &[u8]) -> Option<u64> {
        let offset = match (is_sample, self.fields & abi::PERF_SAMPLE_IDENTIFIER != 0) {
            (true, true) => 0,
            (true, false) if self.fields & abi::PERF_SAMPLE_ID != 0 => {
                8 * (self.fields
                    & (abi::PERF_SAMPLE_IP
                        | abi::PERF_SAMPLE_TID
                        | abi::PERF_SAMPLE_TIME
                        | abi::PERF_SAMPLE_ADDR))
                    .count_ones() as usize
            }
            (false, true) if self.has_stamps => content.len().checked_sub(8)?,
            _ => return None,
        };
        Reader(content.get(offset..)?).u64()
    }

    /// Decodes the content of a sample of the event with this index, whose header has these flags.
    pub(super) fn decode_sample(self, event: usize, misc: u16, content: &[u8]) -> Option<Record> {
        let has_field = |field| self.fields & field != 0;
        let mut reader = Reader(content);
        let mut next_word = |field, otherwise| {
            if has_field(field) {
                reader.u64()
            } else {
                Some(otherwise)
            }
        };
        next_word(abi::PERF_SAMPLE_IDENTIFIER, 0)?;
        let ip = next_word(abi::PERF_SAMPLE_IP, 0)?;
        let task = task(next_word(abi::PERF_SAMPLE_TID, u64::MAX)?);
        let time = next_word(abi::PERF_SAMPLE_TIME, 0)?;
        let address = next_word(abi::PERF_SAMPLE_ADDR, 0)?;
        next_word(abi::PERF_SAMPLE_ID, 0)?;
        next_word(abi::PERF_SAMPLE_STREAM_ID, 0)?;
        let cpu = cpu(next_word(abi::PERF_SAMPLE_CPU, u64::MAX)?);
        let period = next_word(abi::PERF_SAMPLE_PERIOD, self.period)?;
        if has_field(abi::PERF_SAMPLE_READ) {
            self.skip_values(&mut reader)?;
        }
        let mut chain = Vec::new();
        if has_field(abi::PERF_SAMPLE_CALLCHAIN) {
            reader.append_words(&mut chain)?;
        }
        if has_field(abi::PERF_SAMPLE_RAW) {
            let size = reader.u32()?;
            reader.take(usize::try_from(size).ok()?)?;
        }
        let branches = if has_field(abi::PERF_SAMPLE_BRANCH_STACK) {
            self.decode_branches(&mut reader)?
        } else {
            Vec::new()
        };
        let user_stack = if self.parts().has_user_stack {
            UserStack::decode(&mut reader)?
        } else {
            None
        };
        let access = self.decode_access(address, &mut reader)?;
        let cgroup = if self.parts().has_cgroup {
            self.decode_cgroup(content)?
        } else {
            0
        };
        let body = Body::Sample(Sample {
            event,
            ip,
            period,
            chain,
            branches,
            user_stack,
            access,
            cgroup,
            guest_mode: GuestMode::of_flags(misc),
        });
        Some(Record {
            stamp: Stamp { time, task, cpu },
            body,
        })
    }

    /// Decodes the rest of the memory access at `address`. `reader` must be behind the branches or, if pmctl reads
    /// stacks with these registers, behind the stack.
    fn decode_access(self, address: u64, reader: &mut Reader<'_>) -> Option<MemoryAccess> {
        let mut access = MemoryAccess {
            address,
            ..MemoryAccess::default()
        };
        if self.fields & (SAMPLE_WEIGHTS | abi::PERF_SAMPLE_DATA_SRC) == 0 {
            return Some(access);
        }
        if !self.parts().has_user_stack {
            self.skip_user_stack(reader)?;
        }
        if self.fields & abi::PERF_SAMPLE_WEIGHT != 0 {
            access.weight = Weight::from_word(reader.u64()?);
        } else if self.fields & abi::PERF_SAMPLE_WEIGHT_STRUCT != 0 {
            access.weight = Weight::from_struct_word(reader.u64()?);
        }
        if self.fields & abi::PERF_SAMPLE_DATA_SRC != 0 {
            access.source = DataSource(reader.u64()?);
        }
        Some(access)
    }

    /// Passes over the program's registers and its stack, if samples have them.
    fn skip_user_stack(self, reader: &mut Reader<'_>) -> Option<()> {
        // The kind of registers is 0 for a kernel thread, which has none.
        if self.fields & abi::PERF_SAMPLE_REGS_USER != 0 && reader.u64()? != 0 {
            reader.take(8 * self.registers.count_ones() as usize)?;
        }
        if self.fields & abi::PERF_SAMPLE_STACK_USER != 0 {
            let size = reader.u64()?;
            if size != 0 {
                reader.take(usize::try_from(size).ok()?)?;
                // The size of the part of the stack that the kernel could read.
                reader.u64()?;
            }
        }
        Some(())
    }

    /// Returns the cgroup, which is found by its distance from the end: not all fields in front of it are decoded.
    fn decode_cgroup(self, content: &[u8]) -> Option<u64> {
        let words_after = (self.fields & AFTER_CGROUP).count_ones() as usize;
        let place = content.len().checked_sub(8 * (words_after + 1))?;
        Reader(content.get(place..)?).u64()
    }

    /// Passes over the counts of `PERF_SAMPLE_READ`.
    fn skip_values(self, reader: &mut Reader<'_>) -> Option<()> {
        let has_format = |part| u64::from(self.read_format & part != 0);
        let times = has_format(abi::PERF_FORMAT_TOTAL_TIME_ENABLED)
            + has_format(abi::PERF_FORMAT_TOTAL_TIME_RUNNING);
        let words_per_value =
            1 + has_format(abi::PERF_FORMAT_ID) + has_format(abi::PERF_FORMAT_LOST);
        let values = if has_format(abi::PERF_FORMAT_GROUP) == 0 {
            1
        } else {
            reader.u64()?
        };
        let rest = values.checked_mul(words_per_value)?.checked_add(times)?;
        reader.take(usize::try_from(rest.checked_mul(8)?).ok()?)?;
        Some(())
    }

    fn decode_branches(self, reader: &mut Reader<'_>) -> Option<Vec<Branch>> {
        let count = reader.u64()?;
        if self.branches & abi::PERF_SAMPLE_BRANCH_HW_INDEX != 0 {
            reader.u64()?;
        }
        let mut branches = Vec::new();
        Branch::append_decoded(&mut branches, reader, count)?;
        // Each of the `count` branches has a word of counts, also a branch that was left out.
        if self.branches & SAMPLE_BRANCH_COUNTERS != 0 {
            let size = count.checked_mul(8)?;
            reader.take(usize::try_from(size).ok()?)?;
        }
        Some(branches)
    }

    /// Splits the content of a record other than a sample into its body and its stamp.
    pub(super) fn split_stamp(self, content: &[u8]) -> Option<(&[u8], Stamp)> {
        let unknown_stamp = Stamp {
            task: Task::UNKNOWN,
            time: 0,
            cpu: Stamp::NO_CPU,
        };
        if !self.has_stamps {
            return Some((content, unknown_stamp));
        }
        let fields = STAMP.into_iter().filter(|field| self.fields & field != 0);
        let size = 8 * fields.clone().count();
        let (content, stamp) = content.split_at_checked(content.len().checked_sub(size)?)?;
        let mut reader = Reader(stamp);
        fields
            .into_iter()
            .try_fold(unknown_stamp, |stamp, field| {
                let value = reader.u64()?;
                Some(match field {
                    abi::PERF_SAMPLE_TID => Stamp {
                        task: task(value),
                        ..stamp
                    },
                    abi::PERF_SAMPLE_TIME => Stamp {
                        time: value,
                        ..stamp
                    },
                    abi::PERF_SAMPLE_CPU => Stamp {
                        cpu: cpu(value),
                        ..stamp
                    },
                    _ => stamp,
                })
            })
            .map(|stamp| (content, stamp))
    }
}

/// Returns the process and the thread of `PERF_SAMPLE_TID`: the lower and the upper 4 bytes.
fn task(word: u64) -> Task {
    let half_word =
        |shift: u32| u32::try_from(word >> shift & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    Task {
        pid: half_word(0),
        tid: half_word(32),
    }
}

/// Returns the CPU of `PERF_SAMPLE_CPU`: the lower 4 bytes.
fn cpu(word: u64) -> u32 {
    task(word).pid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn memory_accesses_are_read_behind_stacks_of_any_form() {
        let layout = |fields, registers| Layout {
            fields: fields | abi::PERF_SAMPLE_ADDR | abi::PERF_SAMPLE_DATA_SRC,
            registers,
            ..Layout::default()
        };
        let access = |layout: Layout, words: &[u64]| {
            let content = bytes_of(words);
            let Body::Sample(sample) = layout.decode_sample(0, 0, &content)?.body else {
                return None;
            };
            Some(sample.access)
        };
        let (address, source) = (0x7000, 0x6810_0142);
        let expected = |weight| {
            Some(MemoryAccess {
                address,
                weight,
                source: DataSource(source),
            })
        };
        let number = layout(abi::PERF_SAMPLE_WEIGHT, 0);
        assert_eq!(
            access(number, &[address, 9, source]),
            expected(Weight::from_word(9))
        );
        let parts = layout(abi::PERF_SAMPLE_WEIGHT_STRUCT, 0);
        let word = 0x0003_0002_0000_0001;
        assert_eq!(
            access(parts, &[address, word, source]),
            expected(Weight::from_struct_word(word))
        );
        let without_source = Layout {
            fields: abi::PERF_SAMPLE_ADDR | abi::PERF_SAMPLE_WEIGHT,
            ..Layout::default()
        };
        let unknown = access(without_source, &[address, 9]).expect("all words are there");
        assert_eq!(unknown.weight, Weight::from_word(9));
        for word in [
            unknown.source.operation(),
            &unknown.source.level(),
            &unknown.source.tlb(),
        ] {
            assert_eq!(word, "N/A");
        }
        // First a program with two registers and 16 bytes of the stack, then a kernel thread.
        let stacks = layout(SAMPLE_USER, 0b11);
        assert_eq!(
            access(stacks, &[address, 2, 5, 6, 16, 7, 8, 16, source]),
            expected(Weight::default())
        );
        assert_eq!(
            access(stacks, &[address, 0, 0, source]),
            expected(Weight::default())
        );
        assert_eq!(access(stacks, &[address, 2, 5]), None);
    }

    #[test]
    fn counts_of_branches_are_passed_over() {
        let words = [
            2, // branches, of three words
            0x10, 0x20, 0, 0x30, 0x40, 0, //
            7, 8, // their counts
            9, // the cgroup
        ];
        let content = bytes_of(&words);
        let mut reader = Reader(&content);
        let layout = Layout {
            branches: SAMPLE_BRANCH_COUNTERS,
            ..Layout::default()
        };
        let branches = layout
            .decode_branches(&mut reader)
            .expect("all words are there");
        assert_eq!((branches[1].from, branches[1].to), (0x30, 0x40));
        assert_eq!(reader.u64(), Some(9));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records whose fields are not those that pmctl asks for: what `struct perf_event_attr` says of their layout
//! (`perf_event_open(2)`, "MMAP layout").

use super::attr::{self, Parts};
use super::bytes::Reader;
use super::record::{Body, Branch, Record, Sample, Stamp, Task, UserStack};

/// Fields of a sample, and of the stamp at the end of other records: bits of `sample_type`.
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDRESS: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const BRANCH_STACK: u64 = 1 << 11;
const REGS_USER: u64 = 1 << 12;
const STACK_USER: u64 = 1 << 13;
const IDENTIFIER: u64 = 1 << 16;

/// What the callers of a sample are found out from.
const USER: u64 = REGS_USER | STACK_USER;

/// Fields of the stamp, each of 8 bytes, in their order.
const STAMP: [u64; 6] = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];

/// What `PERF_SAMPLE_READ` consists of: bits of `read_format`.
const READ_ENABLED: u64 = 1 << 0;
const READ_RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const READ_GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// Bits of `branch_sample_type` that make a branch stack longer.
const BRANCH_HW_INDEX: u64 = 1 << 17;

/// Flags of the attr: the period is a frequency; records that are no samples have a stamp.
const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// How the records of an event are laid out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    fields: u64,
    read_format: u64,
    branches: u64,
    registers: u64,
    /// Of samples that do not have it.
    period: u64,
    has_stamps: bool,
}

impl Layout {
    /// Returns the layout that an attr describes.
    pub(super) fn of(attr: &[u8; attr::SIZE]) -> Option<Self> {
        let mut reader = Reader(&attr[16..]);
        let (period, fields) = (reader.u64()?, reader.u64()?);
        let (read_format, flags) = (reader.u64()?, reader.u64()?);
        reader.take(24)?;
        Some(Self {
            fields,
            read_format,
            branches: reader.u64()?,
            registers: reader.u64()?,
            period: if flags & FREQUENCY == 0 { period } else { 0 },
            has_stamps: flags & SAMPLE_ID_ALL != 0,
        })
    }

    /// Returns the parts of its samples that pmctl reads. Of registers that are not those that pmctl asks for, no caller
    /// can be found out.
    pub(super) const fn parts(self) -> Parts {
        Parts {
            chain: self.fields & CALLCHAIN != 0,
            branches: self.fields & BRANCH_STACK != 0,
            user: self.fields & USER == USER && self.registers == UserStack::MASK,
        }
    }

    /// Returns whether samples have stacks with other registers than those that pmctl asks for.
    pub(super) const fn has_other_registers(self) -> bool {
        self.fields & USER == USER && self.registers != UserStack::MASK
    }

    /// Returns the kernel's number of the event in a record's content; `None` if it has none.
    pub(super) fn id(self, is_sample: bool, content: &[u8]) -> Option<u64> {
        let place = match (is_sample, self.fields & IDENTIFIER != 0) {
            (true, true) => 0,
            (true, false) if self.fields & ID != 0 => {
                8 * (self.fields & (IP | TID | TIME | ADDRESS)).count_ones() as usize
            }
            (false, true) if self.has_stamps => content.len().checked_sub(8)?,
            _ => return None,
        };
        Reader(content.get(place..)?).u64()
    }

    /// Decodes the content of a sample of the event with this index.
    pub(super) fn sample(self, event: usize, content: &[u8]) -> Option<Record> {
        let has = |field| self.fields & field != 0;
        let mut reader = Reader(content);
        let mut word = |field, otherwise| {
            if has(field) {
                reader.u64()
            } else {
                Some(otherwise)
            }
        };
        word(IDENTIFIER, 0)?;
        let ip = word(IP, 0)?;
        let task = task(word(TID, u64::MAX)?);
        let time = word(TIME, 0)?;
        word(ADDRESS, 0)?;
        word(ID, 0)?;
        word(STREAM_ID, 0)?;
        let cpu = cpu(word(CPU, u64::MAX)?);
        let period = word(PERIOD, self.period)?;
        if has(READ) {
            self.skip_values(&mut reader)?;
        }
        let chain = if has(CALLCHAIN) {
            words(&mut reader)?
        } else {
            Vec::new()
        };
        if has(RAW) {
            let size = reader.u32()?;
            reader.take(usize::try_from(size).ok()?)?;
        }
        let branches = if has(BRANCH_STACK) {
            self.branches(&mut reader)?
        } else {
            Vec::new()
        };
        let user = if self.parts().user {
            let (is_there, user) = UserStack::decode(&mut reader)?;
            is_there.then(|| Box::new(user))
        } else {
            None
        };
        let body = Body::Sample(Sample {
            event,
            ip,
            period,
            chain,
            branches,
            user,
        });
        Some(Record {
            stamp: Stamp { time, task, cpu },
            body,
        })
    }

    fn skip_values(self, reader: &mut Reader<'_>) -> Option<()> {
        let has = |part| u64::from(self.read_format & part != 0);
        let times = has(READ_ENABLED) + has(READ_RUNNING);
        let each = 1 + has(READ_ID) + has(READ_LOST);
        let values = if has(READ_GROUP) == 0 {
            1
        } else {
            reader.u64()?
        };
        let rest = values.checked_mul(each)?.checked_add(times)?;
        reader.take(usize::try_from(rest.checked_mul(8)?).ok()?)?;
        Some(())
    }

    fn branches(self, reader: &mut Reader<'_>) -> Option<Vec<Branch>> {
        let count = reader.u64()?;
        if self.branches & BRANCH_HW_INDEX != 0 {
            reader.u64()?;
        }
        (0..count).map(|_| Branch::decode(reader)).collect()
    }

    /// Splits the content of a record that is no sample into what is its own, and its stamp.
    pub(super) fn split(self, content: &[u8]) -> Option<(&[u8], Stamp)> {
        let unknown = Stamp {
            task: Task::UNKNOWN,
            time: 0,
            cpu: Stamp::NO_CPU,
        };
        if !self.has_stamps {
            return Some((content, unknown));
        }
        let fields = STAMP.into_iter().filter(|field| self.fields & field != 0);
        let size = 8 * fields.clone().count();
        let (content, stamp) = content.split_at_checked(content.len().checked_sub(size)?)?;
        let mut reader = Reader(stamp);
        fields
            .into_iter()
            .try_fold(unknown, |stamp, field| {
                let value = reader.u64()?;
                Some(match field {
                    TID => Stamp {
                        task: task(value),
                        ..stamp
                    },
                    TIME => Stamp {
                        time: value,
                        ..stamp
                    },
                    CPU => Stamp {
                        cpu: cpu(value),
                        ..stamp
                    },
                    _ => stamp,
                })
            })
            .map(|stamp| (content, stamp))
    }
}

/// Process and thread of the 8 bytes that have both.
fn task(word: u64) -> Task {
    let half = |shift: u32| u32::try_from(word >> shift & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    Task {
        pid: half(0),
        tid: half(32),
    }
}

/// CPU of the 8 bytes that have it and 4 that mean nothing.
fn cpu(word: u64) -> u32 {
    task(word).pid
}

/// Reads words, and their number in front of them.
fn words(reader: &mut Reader<'_>) -> Option<Vec<u64>> {
    let count = reader.u64()?;
    (0..count).map(|_| reader.u64()).collect()
}

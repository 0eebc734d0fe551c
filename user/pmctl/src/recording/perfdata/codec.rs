// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encodes and decodes records. Records other than samples have the same form in the file as in the kernel's ring.

use std::os::unix::ffi::OsStrExt;

use perfmon_core::logic::perf_event::{
    PERF_RECORD_CGROUP, PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_KSYMBOL,
    PERF_RECORD_LOST, PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MISC_CPUMODE_MASK,
    PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_MMAP_BUILD_ID, PERF_RECORD_MISC_MMAP_DATA,
    PERF_RECORD_MISC_SWITCH_OUT, PERF_RECORD_MISC_USER, PERF_RECORD_MMAP2, PERF_RECORD_SAMPLE,
    PERF_RECORD_SWITCH_CPU_WIDE,
};

use super::build_id_size::{BUILD_ID_SIZE, recorded_part_of_build_id};
use super::bytes::{Put, Reader};
use super::data_source::DataSource;
use super::identifier::FIRST_ID;
use super::memory_access::Weight;
use super::record::{Body, Branch, GuestMode, Map, Record, Sample, Stamp, Task, UserStack};
use super::sample_parts::SampleParts;

/// Types of records that pmctl uses, besides samples.
pub(super) const USED_TYPES: [u32; 8] = [
    PERF_RECORD_LOST,
    PERF_RECORD_COMM,
    PERF_RECORD_EXIT,
    PERF_RECORD_FORK,
    PERF_RECORD_MMAP2,
    PERF_RECORD_SWITCH_CPU_WIDE,
    PERF_RECORD_KSYMBOL,
    PERF_RECORD_CGROUP,
];
/// The first type that the perf tool makes; lower ones are the kernel's.
pub(crate) const FIRST_PERF_TYPE: u32 = 64;

/// Bits of a branch's flags: mispredicted, predicted, and the position and the mask of the cycles.
const BRANCH_MISPREDICTED: u64 = 1 << 0;
const BRANCH_PREDICTED: u64 = 1 << 1;
const BRANCH_CYCLES_SHIFT: u32 = 4;
const BRANCH_CYCLES_MASK: u64 = 0xffff;

/// `PERF_SAMPLE_REGS_ABI_*`
const REGISTERS_32: u64 = 1;
const REGISTERS_64: u64 = 2;

/// Bytes of the stamp at the end of a record other than a sample.
const STAMP_SIZE: usize = 32;
pub(super) const HEADER_SIZE: usize = 8;

impl Record {
    /// Appends the encoded record. If it is a sample, it gets these parts.
    pub(super) fn encode(&self, parts: SampleParts, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        // The header is filled in at the end, when the size is known.
        bytes.u64(0);
        let (kind, misc) = self.body.encode(&self.stamp, parts, bytes);
        if kind != PERF_RECORD_SAMPLE {
            self.stamp.encode(bytes);
        }
        let size = u16::try_from(bytes.len() - start).unwrap_or(u16::MAX);
        let mut header = Vec::with_capacity(HEADER_SIZE);
        header.u32(kind);
        header.u16(misc);
        header.u16(size);
        bytes[start..start + HEADER_SIZE].copy_from_slice(&header);
    }
}

impl Task {
    fn encode(self, bytes: &mut Vec<u8>) {
        bytes.u32(self.pid);
        bytes.u32(self.tid);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let [word] = reader.word_array()?;
        Some(Self::from_word(word))
    }

    /// Returns the task of a word with the process number in its lower half, and the thread number in its upper half.
    #[expect(clippy::cast_possible_truncation, reason = "a half of the word")]
    const fn from_word(word: u64) -> Self {
        Self {
            pid: word as u32,
            tid: (word >> 32) as u32,
        }
    }
}

impl Stamp {
    /// Encodes the stamp with the identifier 0, which stands for no event.
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.task.encode(bytes);
        bytes.u64(self.time);
        bytes.u64(u64::from(self.cpu));
        bytes.u64(0);
    }

    fn decode(mut reader: Reader<'_>) -> Option<Self> {
        Some(Self {
            task: Task::decode(&mut reader)?,
            time: reader.u64()?,
            cpu: reader.u32()?,
        })
    }
}

/// Encodes two tasks as FORK and EXIT have them: both process numbers, both thread numbers, and the time.
fn encode_pair(first: Task, second: Task, time: u64, bytes: &mut Vec<u8>) {
    for number in [first.pid, second.pid, first.tid, second.tid] {
        bytes.u32(number);
    }
    bytes.u64(time);
}

fn decode_pair(reader: &mut Reader<'_>) -> Option<(Task, Task)> {
    let pids = (reader.u32()?, reader.u32()?);
    let tids = (reader.u32()?, reader.u32()?);
    let task = |pid, tid| Task { pid, tid };
    Some((task(pids.0, tids.0), task(pids.1, tids.1)))
}

impl Body {
    /// Appends the bytes between the header and the stamp, and returns the type and the flags for the header.
    fn encode(&self, stamp: &Stamp, parts: SampleParts, bytes: &mut Vec<u8>) -> (u32, u16) {
        match self {
            Self::Map(map) => {
                map.encode(bytes);
                let mode = if map.is_kernel {
                    PERF_RECORD_MISC_KERNEL
                } else {
                    PERF_RECORD_MISC_USER
                };
                let flag = |is_set, flag| if is_set { flag } else { 0 };
                let content = flag(map.is_data, PERF_RECORD_MISC_MMAP_DATA);
                let identity = flag(!map.build_id.is_empty(), PERF_RECORD_MISC_MMAP_BUILD_ID);
                (PERF_RECORD_MMAP2, mode | content | identity)
            }
            Self::Comm { task, name, exec } => {
                task.encode(bytes);
                bytes.padded(name.as_bytes(), 8);
                (
                    PERF_RECORD_COMM,
                    if *exec { PERF_RECORD_MISC_COMM_EXEC } else { 0 },
                )
            }
            Self::Fork { child, parent } => {
                encode_pair(*child, *parent, stamp.time, bytes);
                (PERF_RECORD_FORK, 0)
            }
            Self::Exit { task, parent } => {
                encode_pair(*task, *parent, stamp.time, bytes);
                (PERF_RECORD_EXIT, 0)
            }
            Self::Switch { out, other } => {
                other.encode(bytes);
                (
                    PERF_RECORD_SWITCH_CPU_WIDE,
                    if *out { PERF_RECORD_MISC_SWITCH_OUT } else { 0 },
                )
            }
            Self::Code {
                address,
                length,
                kind,
                flags,
                name,
            } => {
                bytes.u64(*address);
                bytes.u32(*length);
                bytes.u16(*kind);
                bytes.u16(*flags);
                bytes.padded(name.as_bytes(), 8);
                (PERF_RECORD_KSYMBOL, 0)
            }
            Self::Cgroup { id, path } => {
                bytes.u64(*id);
                bytes.padded(path.as_bytes(), 8);
                (PERF_RECORD_CGROUP, 0)
            }
            Self::Lost(number) => {
                // The identifier: no event.
                bytes.u64(0);
                bytes.u64(*number);
                (PERF_RECORD_LOST, 0)
            }
            Self::Sample(sample) => {
                sample.encode(stamp, parts, bytes);
                let mode = match sample.guest_mode {
                    Some(mode) => mode.flags(),
                    None if sample.in_kernel() => PERF_RECORD_MISC_KERNEL,
                    None => PERF_RECORD_MISC_USER,
                };
                (PERF_RECORD_SAMPLE, mode)
            }
        }
    }
}

impl Map {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.task.encode(bytes);
        for number in [self.start, self.length, self.offset] {
            bytes.u64(number);
        }
        if self.build_id.is_empty() {
            bytes.u32(self.device.0);
            bytes.u32(self.device.1);
            bytes.u64(self.inode);
            bytes.u64(0); // the inode's generation
        } else {
            let id = recorded_part_of_build_id(&self.build_id);
            let end = bytes.len() + 4 + BUILD_ID_SIZE;
            bytes.u32(u32::try_from(id.len()).unwrap_or(0));
            bytes.extend(id);
            bytes.resize(end, 0);
        }
        bytes.u32(self.protection);
        bytes.u32(self.flags);
        bytes.padded(self.file.as_os_str().as_bytes(), 8);
    }

    fn decode(mut reader: Reader<'_>, misc: u16) -> Option<Self> {
        let task = Task::decode(&mut reader)?;
        let (start, length, offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (mut device, mut inode, mut build_id) = ((0, 0), 0, Vec::new());
        if misc & PERF_RECORD_MISC_MMAP_BUILD_ID == 0 {
            device = (reader.u32()?, reader.u32()?);
            inode = reader.u64()?;
            let _generation = reader.u64()?;
        } else {
            // The size has a byte, and three bytes after it are reserved.
            let size = usize::try_from(reader.u32()? & 0xff).ok()?;
            build_id = reader.take(BUILD_ID_SIZE)?.get(..size)?.to_vec();
        }
        Some(Self {
            task,
            is_kernel: misc & PERF_RECORD_MISC_CPUMODE_MASK == PERF_RECORD_MISC_KERNEL,
            is_data: misc & PERF_RECORD_MISC_MMAP_DATA != 0,
            start,
            length,
            offset,
            device,
            inode,
            build_id,
            protection: reader.u32()?,
            flags: reader.u32()?,
            file: reader.name().into(),
        })
    }
}

/// Reads a word if it is there; otherwise the value is 0.
fn optional_word(reader: &mut Reader<'_>, is_present: bool) -> Option<u64> {
    if is_present { reader.u64() } else { Some(0) }
}

impl Sample {
    fn encode(&self, stamp: &Stamp, parts: SampleParts, bytes: &mut Vec<u8>) {
        bytes.u64(FIRST_ID + self.event as u64);
        bytes.u64(self.ip);
        stamp.task.encode(bytes);
        bytes.u64(stamp.time);
        if parts.has_data_address {
            bytes.u64(self.access.address);
        }
        bytes.u64(u64::from(stamp.cpu));
        bytes.u64(self.period);
        if parts.has_chain {
            bytes.u64(self.chain.len() as u64);
            self.chain.iter().for_each(|word| bytes.u64(*word));
        }
        if parts.has_branches {
            bytes.u64(self.branches.len() as u64);
            for branch in &self.branches {
                let prediction = match branch.mispredicted {
                    Some(true) => BRANCH_MISPREDICTED,
                    Some(false) => BRANCH_PREDICTED,
                    None => 0,
                };
                bytes.u64(branch.from);
                bytes.u64(branch.to);
                bytes.u64(prediction | u64::from(branch.cycles) << BRANCH_CYCLES_SHIFT);
            }
        }
        match &self.user_stack {
            Some(user_stack) if parts.has_user_stack => user_stack.encode(bytes),
            // The sample has neither registers nor a stack.
            None if parts.has_user_stack => [0, 0].into_iter().for_each(|word| bytes.u64(word)),
            _ => {}
        }
        if parts.has_weight {
            bytes.u64(self.access.weight.to_word());
        }
        if parts.has_data_source {
            bytes.u64(self.access.source.0);
        }
        if parts.has_cgroup {
            bytes.u64(self.cgroup);
        }
    }

    /// Replaces this sample by the encoded sample in `reader`, and returns the stamp of the new
    /// sample. `misc` has the flags of the record's header. The lists of this sample keep their
    /// memory.
    fn decode_over(
        &mut self,
        mut reader: Reader<'_>,
        misc: u16,
        parts: SampleParts,
    ) -> Option<Stamp> {
        let [id, ip, task, time] = reader.word_array()?;
        self.event = usize::try_from(id.checked_sub(FIRST_ID)?).ok()?;
        self.ip = ip;
        let task = Task::from_word(task);
        self.access.address = optional_word(&mut reader, parts.has_data_address)?;
        let [cpu, period] = reader.word_array()?;
        let cpu = u32::try_from(cpu).ok()?;
        self.period = period;
        self.chain.clear();
        if parts.has_chain {
            reader.append_words(&mut self.chain)?;
        }
        self.branches.clear();
        let count = optional_word(&mut reader, parts.has_branches)?;
        Branch::append_decoded(&mut self.branches, &mut reader, count)?;
        self.user_stack = if parts.has_user_stack {
            UserStack::decode(&mut reader)?
        } else {
            None
        };
        let weight = optional_word(&mut reader, parts.has_weight)?;
        self.access.weight = Weight::from_struct_word(weight);
        self.access.source = if parts.has_data_source {
            DataSource(reader.u64()?)
        } else {
            DataSource::default()
        };
        self.cgroup = optional_word(&mut reader, parts.has_cgroup)?;
        self.guest_mode = GuestMode::of_flags(misc);
        Some(Stamp { time, task, cpu })
    }
}

impl Branch {
    /// Decodes `count` branches, and appends them to `branches`, without those that were executed speculatively on a wrong
    /// path.
    pub(super) fn append_decoded(
        branches: &mut Vec<Self>,
        reader: &mut Reader<'_>,
        count: u64,
    ) -> Option<()> {
        /// `perf_branch_entry::spec`, and `PERF_BR_SPEC_WRONG_PATH`.
        const SPECULATION: u64 = 0b11 << 24;
        const WRONG_PATH: u64 = 1 << 24;

        let mut decode = || {
            let (from, to, flags) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let branch = Self {
                from,
                to,
                mispredicted: match flags & (BRANCH_MISPREDICTED | BRANCH_PREDICTED) {
                    0 => None,
                    prediction => Some(prediction & BRANCH_MISPREDICTED != 0),
                },
                cycles: u16::try_from(flags >> BRANCH_CYCLES_SHIFT & BRANCH_CYCLES_MASK).ok()?,
            };
            Some((branch, flags & SPECULATION != WRONG_PATH))
        };
        for _ in 0..count {
            let (branch, was_taken) = decode()?;
            if was_taken {
                branches.push(branch);
            }
        }
        Some(())
    }
}

impl UserStack {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.u64(if self.is_64_bit {
            REGISTERS_64
        } else {
            REGISTERS_32
        });
        self.registers.iter().for_each(|value| bytes.u64(*value));
        bytes.u64(self.requested_bytes);
        if self.requested_bytes > 0 {
            let end = bytes.len() + usize::try_from(self.requested_bytes).unwrap_or(0);
            bytes.extend(&self.stack);
            bytes.resize(end, 0);
            bytes.u64(self.stack.len() as u64);
        }
    }

    /// Decodes registers and a stack. Returns `Some(None)` for a sample of a kernel thread, which
    /// has neither.
    #[expect(
        clippy::option_option,
        reason = "bytes that can't be decoded are not those of a task without a stack"
    )]
    pub(super) fn decode(reader: &mut Reader<'_>) -> Option<Option<Box<Self>>> {
        let kind = reader.u64()?;
        let mut registers = [0; Self::REGISTERS];
        if kind != 0 {
            for register in &mut registers {
                *register = reader.u64()?;
            }
        }
        let requested_bytes = reader.u64()?;
        let mut stack: &[u8] = &[];
        if requested_bytes > 0 {
            let bytes = reader.take(usize::try_from(requested_bytes).ok()?)?;
            stack = bytes.get(..usize::try_from(reader.u64()?).ok()?)?;
        }
        Some((kind != 0).then(|| {
            Box::new(Self {
                is_64_bit: kind == REGISTERS_64,
                registers,
                stack: stack.to_vec(),
                requested_bytes,
            })
        }))
    }
}

/// Returns the size of the first record of `bytes`.
pub(crate) fn record_size(bytes: &[u8]) -> Option<usize> {
    let size = Reader(bytes.get(HEADER_SIZE - 2..)?).u16()?;
    Some(size.into()).filter(|size| *size >= HEADER_SIZE)
}

/// Returns the time of the first record of `bytes`, if it has one.
pub(super) fn record_time(bytes: &[u8]) -> Option<u64> {
    let offset = match Reader(bytes).u32()? {
        FIRST_PERF_TYPE.. => return None,
        // After the identifier, the address and the task.
        PERF_RECORD_SAMPLE => HEADER_SIZE + 24,
        // After the task, in the stamp at the end.
        _ => record_size(bytes)?.checked_sub(STAMP_SIZE - 8)?,
    };
    Reader(bytes.get(offset..)?).u64()
}

/// Decodes the first record of `bytes`, and returns it with its size in bytes. The record is `None` if pmctl does not
/// use its type. Returns `None` if the bytes are not a record.
pub(crate) fn decode_record(bytes: &[u8], parts: SampleParts) -> Option<(Option<Record>, usize)> {
    let mut record = Record::default();
    let (is_used, size) = decode_record_over(&mut record, bytes, parts)?;
    Some((is_used.then_some(record), size))
}

/// Replaces `record` by the first record of `bytes`. Returns true if pmctl uses the type of the
/// record, and the size of the record in bytes. A record of an unused type leaves `record`
/// unchanged. Returns `None` if the bytes are not a record.
///
/// Moving a record takes a call of memcpy(3), and a call chain takes an allocation. If the record
/// before was a sample, too, decoding a sample needs neither.
pub(super) fn decode_record_over(
    record: &mut Record,
    bytes: &[u8],
    parts: SampleParts,
) -> Option<(bool, usize)> {
    let [kind @ .., m0, m1, s0, s1] = *bytes.first_chunk::<HEADER_SIZE>()?;
    let (kind, misc) = (u32::from_le_bytes(kind), u16::from_le_bytes([m0, m1]));
    let size = usize::from(u16::from_le_bytes([s0, s1]));
    let content = bytes.get(HEADER_SIZE..size)?;
    if kind == PERF_RECORD_SAMPLE {
        if !record.is_sample() {
            record.body = Body::default();
        }
        if let Body::Sample(sample) = &mut record.body {
            record.stamp = sample.decode_over(Reader(content), misc, parts)?;
        }
        return Some((true, size));
    }
    // Records of perf's own types have no stamp.
    if !USED_TYPES.contains(&kind) {
        return Some((false, size));
    }
    let (content, trailer) = content.split_at_checked(content.len().checked_sub(STAMP_SIZE)?)?;
    record.body = decode_body((kind, misc), content)?;
    record.stamp = Stamp::decode(Reader(trailer))?;
    Some((true, size))
}

/// Decodes the content of a record, between header and stamp, by the type and the flags in its header. The type is one
/// of [`USED_TYPES`].
#[inline]
pub(super) fn decode_body((kind, misc): (u32, u16), content: &[u8]) -> Option<Body> {
    let mut reader = Reader(content);
    Some(match kind {
        PERF_RECORD_MMAP2 => Body::Map(Map::decode(reader, misc)?),
        PERF_RECORD_COMM => Body::Comm {
            task: Task::decode(&mut reader)?,
            name: reader.text(),
            exec: misc & PERF_RECORD_MISC_COMM_EXEC != 0,
        },
        PERF_RECORD_FORK => {
            let (child, parent) = decode_pair(&mut reader)?;
            Body::Fork { child, parent }
        }
        PERF_RECORD_EXIT => {
            let (task, parent) = decode_pair(&mut reader)?;
            Body::Exit { task, parent }
        }
        PERF_RECORD_SWITCH_CPU_WIDE => Body::Switch {
            out: misc & PERF_RECORD_MISC_SWITCH_OUT != 0,
            other: Task::decode(&mut reader)?,
        },
        PERF_RECORD_KSYMBOL => Body::Code {
            address: reader.u64()?,
            length: reader.u32()?,
            kind: reader.u16()?,
            flags: reader.u16()?,
            name: reader.text(),
        },
        PERF_RECORD_CGROUP => Body::Cgroup {
            id: reader.u64()?,
            path: reader.text(),
        },
        PERF_RECORD_LOST => {
            let _id = reader.u64()?;
            Body::Lost(reader.u64()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_encoded_as_the_kernel_does() {
        // The bits of `struct perf_branch_entry`: mispred:1, predicted:1, in_tx:1, abort:1, cycles:16.
        for (mispredicted, flags) in [
            (Some(true), 9 << 4 | 1),
            (Some(false), 9 << 4 | 2),
            (None, 9 << 4),
        ] {
            let branch = Branch {
                from: 1,
                to: 2,
                mispredicted,
                cycles: 9,
            };
            let sample = Sample {
                branches: vec![branch],
                ..Sample::default()
            };
            let mut bytes = Vec::new();
            let parts = SampleParts {
                has_branches: true,
                ..SampleParts::default()
            };
            sample.encode(&Stamp::default(), parts, &mut bytes);
            let mut reader = Reader(&bytes[bytes.len() - 32..]);
            let number = |reader: &mut Reader<'_>| reader.u64().expect("it is there");
            let numbers = [(); 4].map(|()| number(&mut reader));
            // The count, from, to, and the flags.
            assert_eq!(numbers, [1, 1, 2, flags]);
            let mut reader = Reader(&bytes[bytes.len() - 24..]);
            let mut branches = Vec::new();
            let decoded = Branch::append_decoded(&mut branches, &mut reader, 1);
            assert_eq!((decoded, branches), (Some(()), vec![branch]));
        }
    }
}

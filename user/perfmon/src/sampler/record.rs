// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a ring, decoded.

use perfmon_core::logic::event_attr as attr;
use perfmon_core::logic::perf_event::{
    PERF_CONTEXT_KERNEL, PERF_CONTEXT_MAX, PERF_CONTEXT_USER, PERF_RECORD_COMM, PERF_RECORD_EXIT,
    PERF_RECORD_FORK, PERF_RECORD_LOST, PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MISC_CPUMODE_MASK,
    PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_SWITCH_OUT, PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
    PERF_RECORD_MMAP2, PERF_RECORD_SAMPLE, PERF_RECORD_SWITCH, PERF_RECORD_SWITCH_CPU_WIDE,
    PERF_RECORD_THROTTLE, PERF_RECORD_UNTHROTTLE,
};

use super::mapping::Mapping;
use super::raw::RawRecord;
use super::stamp::{HEADER_WORDS, Stamp, TRAILER_WORDS, Task, TaskName, cpu};

/// Fields of every sample (`PERF_SAMPLE_*`), in the order of their words.
pub(super) const SAMPLE_FIELDS: u64 = attr::PERF_SAMPLE_IDENTIFIER
    | attr::PERF_SAMPLE_IP
    | attr::PERF_SAMPLE_TID
    | attr::PERF_SAMPLE_TIME
    | attr::PERF_SAMPLE_CPU
    | attr::PERF_SAMPLE_PERIOD;

/// Words of a sample after the header, without optional fields: the fields of [`SAMPLE_FIELDS`].
const SAMPLE_WORDS: usize = 6;
/// Index of the data address among the words after the header. The words of CPU and period follow it.
const DATA_ADDRESS_INDEX: usize = 4;

/// The optional fields of samples that this library decodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SampleShape {
    pub(super) has_data_address: bool,
    pub(super) has_chain: bool,
}

impl SampleShape {
    /// Returns the fields as bits of `sample_type`.
    pub(super) const fn fields(self) -> u64 {
        let address = if self.has_data_address {
            attr::PERF_SAMPLE_ADDR
        } else {
            0
        };
        let chain = if self.has_chain {
            attr::PERF_SAMPLE_CALLCHAIN
        } else {
            0
        };
        address | chain
    }
}

/// A record of a ring.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample, taken after each period of events.
    Sample(Sample<'a>),
    /// The kernel lost this number of samples at this place: the ring was full, or the interrupt
    /// came too late.
    #[expect(missing_docs, reason = "documented with the variant")]
    Lost { samples: u64, stamp: Stamp },
    /// A task has a new name; `exec` is set if an exec gave it.
    #[expect(missing_docs, reason = "documented with the variant")]
    Comm {
        task: Task,
        name: TaskName,
        exec: bool,
        stamp: Stamp,
    },
    /// A task has created another task.
    #[expect(missing_docs, reason = "documented with the variant")]
    Fork {
        child: Task,
        parent: Task,
        stamp: Stamp,
    },
    /// A task has ended.
    #[expect(missing_docs, reason = "documented with the variant")]
    Exit {
        task: Task,
        parent: Task,
        stamp: Stamp,
    },
    /// A task has made an executable mapping, or has made an existing mapping executable. With
    /// [`Builder::data_mappings`](crate::event::Builder::data_mappings), also: a task has made a
    /// mapping that can't be executed.
    Map(Mapping<'a>),
    /// The task is switched in, or out if `out` is set; `preempted` means that it could still run. Events of a CPU also
    /// record the `other` task of the switch.
    #[expect(missing_docs, reason = "documented with the variant")]
    Switch {
        out: bool,
        preempted: bool,
        other: Option<Task>,
        stamp: Stamp,
    },
    /// The kernel has stopped sampling for a while, because samples took too much time.
    #[expect(missing_docs, reason = "documented with the variant")]
    Throttle { stamp: Stamp },
    /// The kernel samples again after [`Throttle`](Self::Throttle).
    #[expect(missing_docs, reason = "documented with the variant")]
    Unthrottle { stamp: Stamp },
    /// A record of a kind that this library does not know.
    Other(RawRecord<'a>),
}

/// A sample.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample<'a> {
    /// The address of the instruction; 0 if the opener may not see it.
    pub ip: u64,
    /// The address is in the kernel.
    pub kernel: bool,
    /// The number of events since the previous sample.
    pub period: u64,
    /// The address of the data that the instruction reads or writes, 0 if it has none; `None` unless the sampler records
    /// [data addresses](crate::event::Builder::data_addresses).
    pub data_address: Option<u64>,
    /// The event, task, time and CPU of the sample.
    pub stamp: Stamp,
    chain: Callchain<'a>,
}

impl<'a> Sample<'a> {
    /// Returns the call chain, from the sampled address outward; empty unless the sampler records it.
    #[must_use]
    pub fn callchain(&self) -> Callchain<'a> {
        self.chain.clone()
    }
}

/// An address of a call chain: the sampled address, or a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Frame {
    /// An address in the kernel.
    Kernel(u64),
    /// An address in the program.
    User(u64),
}

impl Frame {
    /// Returns the address.
    #[must_use]
    pub const fn address(self) -> u64 {
        match self {
            Self::Kernel(address) | Self::User(address) => address,
        }
    }
}

/// Iterator over the addresses of a call chain, which it reads from the ring one by one.
#[derive(Clone, Debug)]
pub struct Callchain<'a> {
    record: RawRecord<'a>,
    /// Index of the next word in the record.
    next: usize,
    /// Index after the last word.
    end: usize,
    /// The next addresses are in the kernel, as the last mark says. Before the first mark, the mode
    /// of the sample decides.
    in_kernel: bool,
}

impl Iterator for Callchain<'_> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        while self.next < self.end {
            let word = self.record.word(self.next);
            self.next += 1;
            match word {
                PERF_CONTEXT_KERNEL => self.in_kernel = true,
                PERF_CONTEXT_USER => self.in_kernel = false,
                PERF_CONTEXT_MAX.. => {}
                address if self.in_kernel => return Some(Frame::Kernel(address)),
                address => return Some(Frame::User(address)),
            }
        }
        None
    }
}

impl<'a> Record<'a> {
    /// Decodes a record; returns `None` if it is too short for its kind.
    pub(super) fn new(record: RawRecord<'a>, shape: SampleShape) -> Option<Self> {
        let size = record.size();
        let require_words =
            |words: usize| (size >= HEADER_WORDS + words + TRAILER_WORDS).then_some(());
        let word = |index: usize| record.word(HEADER_WORDS + index);
        if record.kind() == PERF_RECORD_SAMPLE {
            return Sample::new(record, shape).map(Self::Sample);
        }
        // The stamp is read only for known kinds, since only their layout is known.
        let stamp = || Stamp::at_end(record);
        Some(match record.kind() {
            PERF_RECORD_LOST => {
                require_words(2)?;
                Self::Lost {
                    samples: word(1),
                    stamp: stamp(),
                }
            }
            PERF_RECORD_COMM => {
                require_words(2)?;
                let has_second_word = require_words(3).is_some();
                Self::Comm {
                    task: Task::new(word(0)),
                    name: TaskName::new(word(1), has_second_word.then(|| word(2))),
                    exec: record.misc() & PERF_RECORD_MISC_COMM_EXEC != 0,
                    stamp: stamp(),
                }
            }
            kind @ (PERF_RECORD_FORK | PERF_RECORD_EXIT) => {
                require_words(3)?;
                let (task, parent) = Task::parse_with_parent(word(0), word(1));
                let stamp = stamp();
                match kind {
                    PERF_RECORD_FORK => Self::Fork {
                        child: task,
                        parent,
                        stamp,
                    },
                    _ => Self::Exit {
                        task,
                        parent,
                        stamp,
                    },
                }
            }
            PERF_RECORD_MMAP2 => {
                require_words(Mapping::MIN_WORDS)?;
                Self::Map(Mapping::new(record))
            }
            kind @ (PERF_RECORD_SWITCH | PERF_RECORD_SWITCH_CPU_WIDE) => {
                let is_cpu_wide = kind == PERF_RECORD_SWITCH_CPU_WIDE;
                require_words(is_cpu_wide.into())?;
                Self::Switch {
                    out: record.misc() & PERF_RECORD_MISC_SWITCH_OUT != 0,
                    preempted: record.misc() & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0,
                    other: is_cpu_wide.then(|| Task::new(word(0))),
                    stamp: stamp(),
                }
            }
            PERF_RECORD_THROTTLE | PERF_RECORD_UNTHROTTLE => {
                require_words(3)?;
                let stamp = stamp();
                match record.kind() {
                    PERF_RECORD_THROTTLE => Self::Throttle { stamp },
                    _ => Self::Unthrottle { stamp },
                }
            }
            _ => Self::Other(record),
        })
    }

    /// Returns the event, task, time and CPU of the record; `None` if its kind is unknown.
    #[must_use]
    pub const fn stamp(&self) -> Option<&Stamp> {
        match self {
            Self::Sample(sample) => Some(&sample.stamp),
            Self::Map(mapping) => Some(&mapping.stamp),
            Self::Lost { stamp, .. }
            | Self::Comm { stamp, .. }
            | Self::Fork { stamp, .. }
            | Self::Exit { stamp, .. }
            | Self::Switch { stamp, .. }
            | Self::Throttle { stamp }
            | Self::Unthrottle { stamp } => Some(stamp),
            Self::Other(_) => None,
        }
    }
}

impl<'a> Sample<'a> {
    fn new(record: RawRecord<'a>, shape: SampleShape) -> Option<Self> {
        let SampleShape {
            has_data_address,
            has_chain,
        } = shape;
        let size = record.size();
        let words = SAMPLE_WORDS + usize::from(has_data_address);
        if size < HEADER_WORDS + words + usize::from(has_chain) {
            return None;
        }
        let word = |index: usize| record.word(HEADER_WORDS + index);
        let first = HEADER_WORDS + words + 1;
        let length = if has_chain { word(words) } else { 0 };
        let end = first.checked_add(usize::try_from(length).ok()?)?;
        if has_chain && end > size {
            return None;
        }
        let kernel = record.misc() & PERF_RECORD_MISC_CPUMODE_MASK == PERF_RECORD_MISC_KERNEL;
        Some(Self {
            ip: word(1),
            kernel,
            period: word(words - 1),
            data_address: has_data_address.then(|| word(DATA_ADDRESS_INDEX)),
            stamp: Stamp {
                id: word(0),
                task: Task::new(word(2)),
                time: word(3),
                cpu: cpu(word(words - 2)),
            },
            chain: Callchain {
                record,
                next: first,
                end,
                in_kernel: kernel,
            },
        })
    }
}

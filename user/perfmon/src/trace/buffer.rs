// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that a CPU records to.

use std::fmt;
use std::sync::atomic::Ordering;

use perfmon_core::abi;

use super::Chunk;
use crate::sys::Mapping;
use crate::{Attempt, Cause, Error};

/// The buffer of one CPU, mapped, and how far it was read.
///
/// It can be read while the trace runs, in any thread, and after the trace was freed and the session is gone.
///
/// ```no_run
/// use perfmon::trace::{Buffer, Running, Staged, Trace};
///
/// /// Looks ten times at what there is, while it is recorded.
/// fn watch(trace: Trace<Running>, mut buffer: Buffer) -> Result<Trace<Staged>, perfmon::Error> {
///     for _ in 0..10 {
///         std::thread::sleep(std::time::Duration::from_millis(100));
///         println!("{} more records", buffer.records()?.records().count());
///     }
///     let trace = trace.stop()?;
///     println!("{} more at the end", buffer.records()?.records().count());
///     if buffer.header().flags.is_full() {
///         println!("the buffer became full: the rest of what CPU {} did is lost", buffer.cpu());
///     }
///     Ok(trace)
/// }
/// ```
#[derive(Debug)]
pub struct Buffer {
    memory: Mapping,
    cpu: u32,
    /// Words of records that were read.
    position: usize,
}

impl Buffer {
    pub(super) fn new(cpu: u32, memory: Mapping) -> Result<Self, Error> {
        let version = memory.header().version.load(Ordering::Relaxed);
        if u32::from(version) != abi::PERFMON_BUFFER_VERSION {
            return Err(Error {
                attempt: Attempt::Map(cpu),
                cause: Cause::BufferVersion(version),
            });
        }
        Ok(Self {
            memory,
            cpu,
            position: 0,
        })
    }

    /// The CPU's number.
    #[must_use]
    pub const fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Returns the header as of now.
    #[must_use]
    pub fn header(&self) -> Header {
        let header = self.memory.header();
        let ticks = header.ticks_per_second.load(Ordering::Relaxed);
        Header {
            flags: Flags::from_bits(header.flags.load(Ordering::Relaxed)),
            ticks_per_second: u64::try_from(ticks).ok().filter(|&ticks| ticks != 0),
            capture_end: header.capture_end.load(Ordering::Relaxed),
        }
    }

    /// Copies out what was recorded since the last call: whole sets of records, which begin with a time.
    ///
    /// # Errors
    /// [`Cause::BadHeader`].
    pub fn records(&mut self) -> Result<Chunk, Error> {
        let all = self.memory.records();
        let new = all.and_then(|all| all.get(self.position..)).ok_or(Error {
            attempt: Attempt::ReadBuffer(self.cpu),
            cause: Cause::BadHeader,
        })?;
        let mut bytes = Vec::with_capacity(size_of_val(new));
        for word in new {
            // ATOMICS: Published words are not written again.
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        self.position += new.len();
        Ok(Chunk::new(self.cpu, bytes))
    }

    /// Begins again with the first record.
    ///
    /// This has to be done for the trace's next run, which overwrites this one: without it, `records` gives
    /// [`Cause::BadHeader`], or what is behind the place where the last run ended.
    ///
    /// ```no_run
    /// # use perfmon::trace::{Buffer, Staged, Trace};
    /// # fn f(trace: Trace<Staged>, mut buffer: Buffer) -> Result<(), perfmon::Error> {
    /// let first = buffer.records()?;
    /// let trace = trace.start()?;
    /// buffer.rewind();
    /// # Ok(())
    /// # }
    /// ```
    pub fn rewind(&mut self) {
        self.position = 0;
    }
}

/// The header of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Returns the flags of the CPU and its buffer.
    pub flags: Flags,
    /// Ticks of the times per second, the frequency of the time-stamp counter; `None` if it is not known.
    pub ticks_per_second: Option<u64>,
    /// Offset of the end of the records, in bytes from the beginning of the buffer.
    pub capture_end: u64,
}

/// Flags of a CPU and its buffer: `PERFMON_BUFFER_FLAG_*`.
///
/// ```
/// use perfmon::trace::Flags;
///
/// let flags = Flags::from_bits(3);
/// assert!(flags.is_full() && flags.is_throttled() && !flags.is_offline());
/// assert_eq!(flags.to_string(), "full, throttled");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

/// The flags that there are, with their names.
const FLAGS: [(u32, &str); 5] = [
    (abi::PERFMON_BUFFER_FLAG_FULL, "full"),
    (abi::PERFMON_BUFFER_FLAG_THROTTLED, "throttled"),
    (abi::PERFMON_BUFFER_FLAG_OFFLINE, "offline"),
    (abi::PERFMON_BUFFER_FLAG_NOT_TRACED, "not traced"),
    (abi::PERFMON_BUFFER_FLAG_LOST, "lost"),
];

impl Flags {
    /// The member of the header.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The member of the header.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The buffer was full: from there on nothing was recorded but the last counts at STOP.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_FULL != 0
    }

    /// There were too many interrupts: some events were not sampled but only counted.
    #[must_use]
    pub const fn is_throttled(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_THROTTLED != 0
    }

    /// The CPU went offline, or the system slept: its trace ended there.
    #[must_use]
    pub const fn is_offline(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_OFFLINE != 0
    }

    /// The CPU was offline when the trace was allocated, and is not traced.
    #[must_use]
    pub const fn is_not_traced(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_NOT_TRACED != 0
    }

    /// Something else changed registers that the trace depends on: events, samples or branches may be missing.
    #[must_use]
    pub const fn is_lost(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_LOST != 0
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (_, name) in FLAGS.iter().filter(|(bit, _)| self.0 & bit != 0) {
            write!(f, "{separator}{name}")?;
            separator = ", ";
        }
        Ok(())
    }
}

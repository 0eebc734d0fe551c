// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buffer of a CPU.

use std::fmt;
use std::sync::atomic::Ordering;

use perfmon_core::abi;

use super::Chunk;
use crate::sys::Mapping;
use crate::{Attempt, Cause, Error};

/// The mapped buffer of one CPU, with the position up to which it was read.
///
/// The buffer can be read while the trace runs, in any thread, and even after the trace and the
/// session were dropped.
///
/// ```no_run
/// use perfmon::trace::{Buffer, Running, Staged, Trace};
///
/// /// Reads the buffer ten times while the trace runs.
/// fn watch(trace: Trace<Running>, mut buffer: Buffer) -> Result<Trace<Staged>, perfmon::Error> {
///     for _ in 0..10 {
///         std::thread::sleep(std::time::Duration::from_millis(100));
///         println!("{} more records", buffer.records()?.records().count());
///     }
///     let trace = trace.stop()?;
///     println!("{} more at the end", buffer.records()?.records().count());
///     if buffer.header().flags.is_full() {
///         println!("the buffer became full: later records of CPU {} are lost", buffer.cpu());
///     }
///     Ok(trace)
/// }
/// ```
#[derive(Debug)]
pub struct Buffer {
    mapping: Mapping,
    cpu: u32,
    /// Number of words of records that were read.
    position: usize,
}

impl Buffer {
    pub(super) fn new(cpu: u32, mapping: Mapping) -> Result<Self, Error> {
        let version = mapping.header().version.load(Ordering::Relaxed);
        if u32::from(version) != abi::PERFMON_BUFFER_VERSION {
            return Err(Error {
                attempt: Attempt::Map(cpu),
                cause: Cause::BufferVersion(version),
            });
        }
        Ok(Self {
            mapping,
            cpu,
            position: 0,
        })
    }

    /// Returns the CPU's number.
    #[must_use]
    pub const fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Returns the current content of the header.
    #[must_use]
    pub fn header(&self) -> Header {
        let header = self.mapping.header();
        let ticks = header.ticks_per_second.load(Ordering::Relaxed);
        Header {
            flags: Flags::from_bits(header.flags.load(Ordering::Relaxed)),
            ticks_per_second: u64::try_from(ticks).ok().filter(|&ticks| ticks != 0),
            capture_end: header.capture_end.load(Ordering::Relaxed),
        }
    }

    /// Copies the records since the last call: whole sets, each of which begins with a time.
    ///
    /// # Errors
    /// [`Cause::BadHeader`] if the header's `capture_end` is impossible, or lies before the end of
    /// the records that were read.
    pub fn records(&mut self) -> Result<Chunk, Error> {
        let records = self.mapping.records();
        let new_words = records
            .and_then(|records| records.get(self.position..))
            .ok_or(Error {
                attempt: Attempt::ReadBuffer(self.cpu),
                cause: Cause::BadHeader,
            })?;
        let mut bytes = Vec::with_capacity(size_of_val(new_words));
        for word in new_words {
            // ATOMICS: Needs no order: the kernel does not write published words again.
            bytes.extend_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        self.position += new_words.len();
        Ok(Chunk::new(self.cpu, bytes))
    }

    /// Sets the position back to the first record.
    ///
    /// Call it before each further run of the trace, which overwrites the records of the last run. Otherwise `records`
    /// fails with [`Cause::BadHeader`], or misses the records before the end of the last run.
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
    /// The flags of the CPU and its buffer.
    pub flags: Flags,
    /// The frequency of the time-stamp counter in Hz; `None` if it is unknown.
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

/// All flags, with their names.
const FLAGS: [(u32, &str); 5] = [
    (abi::PERFMON_BUFFER_FLAG_FULL, "full"),
    (abi::PERFMON_BUFFER_FLAG_THROTTLED, "throttled"),
    (abi::PERFMON_BUFFER_FLAG_OFFLINE, "offline"),
    (abi::PERFMON_BUFFER_FLAG_NOT_TRACED, "not traced"),
    (abi::PERFMON_BUFFER_FLAG_LOST, "lost"),
];

impl Flags {
    /// Converts the member `flags` of the header.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns the member `flags` of the header.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns whether the buffer became full: later records are missing, except for the last counts at STOP.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_FULL != 0
    }

    /// Returns whether there were too many interrupts. If so, some events were only counted, and
    /// have no samples.
    #[must_use]
    pub const fn is_throttled(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_THROTTLED != 0
    }

    /// Returns whether the trace of the CPU ended early, because the CPU went offline or the system was suspended.
    #[must_use]
    pub const fn is_offline(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_OFFLINE != 0
    }

    /// Returns whether the CPU is not traced, because it was offline when the trace was allocated.
    #[must_use]
    pub const fn is_not_traced(self) -> bool {
        self.0 & abi::PERFMON_BUFFER_FLAG_NOT_TRACED != 0
    }

    /// Returns whether something else changed registers of the trace, so that events, samples or branches may be missing.
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

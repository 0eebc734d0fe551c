// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts that records of several kinds have: tasks, their names, and stamps.

use std::fmt;

use super::raw::RawRecord;

/// Words of the header.
pub(super) const HEADER_WORDS: usize = 1;
/// Words at the end of records other than samples (`sample_id_all`): task, time, CPU, ID.
pub(super) const TRAILER_WORDS: usize = 4;

/// A process and one of its threads, by their IDs in the PID namespace of the event's opener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Task {
    /// The ID of the process.
    pub pid: u32,
    /// The ID of the thread.
    pub tid: u32,
}

impl Task {
    pub(super) const fn new(word: u64) -> Self {
        let (pid, tid) = split_word(word);
        Self { pid, tid }
    }

    /// Decodes a task and its parent from two words: `pids` has both process IDs, `tids` has both
    /// thread IDs.
    pub(super) const fn parse_with_parent(pids: u64, tids: u64) -> (Self, Self) {
        let (pid, parent) = split_word(pids);
        let (tid, parent_tid) = split_word(tids);
        let parent = Self {
            pid: parent,
            tid: parent_tid,
        };
        (Self { pid, tid }, parent)
    }
}

/// The event, task, time and CPU of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The event's ID: [`Event::id`](crate::Event::id).
    pub id: u64,
    /// The task.
    pub task: Task,
    /// The time in nanoseconds, by the clock of Linux's perf.
    pub time: u64,
    /// The number of the CPU.
    pub cpu: u32,
}

/// The name (comm) of a task: at most 15 bytes, which need not be UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskName([u8; 16]);

impl TaskName {
    /// Decodes a name of at most 8 bytes from `first`, or a longer name from both words.
    pub(super) fn new(first: u64, second: Option<u64>) -> Self {
        let mut name = [0; 16];
        name[..8].copy_from_slice(&first.to_ne_bytes());
        name[8..].copy_from_slice(&second.unwrap_or(0).to_ne_bytes());
        Self(name)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        &self.0[..end.unwrap_or(self.0.len())]
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl Stamp {
    /// Returns the stamp at the end of a record other than a sample, which must be long enough.
    pub(super) fn at_end(record: RawRecord<'_>) -> Self {
        let first = record.size() - TRAILER_WORDS;
        Self {
            task: Task::new(record.word(first)),
            time: record.word(first + 1),
            cpu: cpu(record.word(first + 2)),
            id: record.word(first + 3),
        }
    }
}

/// Returns the CPU number in a word, whose upper half is reserved.
pub(super) const fn cpu(word: u64) -> u32 {
    split_word(word).0
}

/// Returns the lower and the upper half of a word.
#[expect(clippy::cast_possible_truncation, reason = "two numbers in a word")]
pub(super) const fn split_word(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

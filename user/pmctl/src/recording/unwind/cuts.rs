// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call chains that end too early, and why.

use std::io::{self, Write};
use std::path::PathBuf;

use ahash::AHashMap;

use crate::recording::perfdata::UserStack;
use crate::system::screen::Colors;
use crate::system::text::{count, printable, thousands};

/// Why a call chain ends before its outermost function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Reason {
    /// The stack is longer than what was recorded of it.
    TooLong,
    /// The stack was not in memory, or it is elsewhere.
    NoMemory,
    /// Code that was made at run time, or an address of none.
    NoFile,
    /// The file has no table for the function.
    NotInTables(PathBuf),
    /// The file is not the one that was recorded.
    Replaced(PathBuf),
    /// The file is not there.
    Missing(PathBuf),
    /// A table that can't be right, or a stack that was damaged.
    Nonsense,
    /// A program of 32 bits.
    Bits32,
    /// The processor keeps no more calls.
    Recorded,
}

/// The number of call chains that were found out from stacks, and the number of these that are cut.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    all: u64,
    reasons: AHashMap<Reason, u64>,
    /// Bytes of the stacks that were recorded.
    size: u64,
}

impl Cuts {
    /// Counts a chain; `reason` is why it was cut.
    pub(super) fn add(&mut self, reason: Option<Reason>, size: u64) {
        self.all += 1;
        self.size = self.size.max(size);
        if let Some(reason) = reason {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// Returns how many chains there are, and how many of them are cut.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> (u64, u64) {
        (self.all, self.reasons.values().sum())
    }

    /// Writes which chains are cut, and what to do about it; nothing if all are whole.
    pub(crate) fn write(&self, colors: Colors, output: &mut impl Write) -> io::Result<()> {
        const MAX_REASONS: usize = 5;
        let mark = colors.warning;
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_unstable_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let all = count(self.all, "call chain");
        for (reason, cut) in reasons.iter().take(MAX_REASONS) {
            writeln!(
                output,
                "{mark}CUT{mark:#}: {} of {all}: {}.",
                thousands(**cut),
                self.in_words(reason)
            )?;
        }
        let rest: u64 = reasons.iter().skip(MAX_REASONS).map(|(_, cut)| **cut).sum();
        if rest > 0 {
            writeln!(
                output,
                "{mark}CUT{mark:#}: {} of {all}, for other reasons.",
                thousands(rest)
            )?;
        }
        Ok(())
    }

    fn in_words(&self, reason: &Reason) -> String {
        /// What the longest stacks have at least: a record has other parts, too.
        const MAX_STACK_BYTES: u64 = UserStack::MAX_SIZE as u64 - 2048;
        match reason {
            Reason::TooLong if self.size < MAX_STACK_BYTES => {
                let more = (self.size * 4).min(UserStack::MAX_SIZE.into());
                format!(
                    "the stack is longer than the {} bytes of it that were recorded; \
                     `pmctl record --call-graph=dwarf,{more}` records more",
                    self.size
                )
            }
            Reason::TooLong => {
                "the stack is longer than a sample can be; -g follows the frame pointers of programs that were compiled \
                 with -fno-omit-frame-pointer"
                    .to_owned()
            }
            Reason::NoMemory => "the stack was not in memory, or is another thread's or signal's".to_owned(),
            Reason::NoFile => {
                "the callers lead to code that has no file, no tables and no frame pointers (JIT)"
                    .to_owned()
            }
            Reason::NotInTables(path) => format!(
                "{} has no table for a function (.eh_frame or .debug_frame); compile it with \
                 -fasynchronous-unwind-tables, or install its debug symbols",
                printable(&path.to_string_lossy())
            ),
            Reason::Replaced(path) => format!(
                "{} was replaced since the recording, so its unwind tables do not fit",
                printable(&path.to_string_lossy())
            ),
            Reason::Missing(path) => format!(
                "{} is not on this machine, or can't be read",
                printable(&path.to_string_lossy())
            ),
            Reason::Nonsense => "the unwind tables do not fit the stack".to_owned(),
            Reason::Recorded => {
                "the processor keeps no more than 32 calls; -g and --call-graph=dwarf have more".to_owned()
            }
            Reason::Bits32 => "programs of 32 bits are followed by their frame pointers only (-g)".to_owned(),
        }
    }
}

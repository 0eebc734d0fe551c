// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of call chains that end too early, by reason.

use std::io::{self, Write};
use std::path::PathBuf;

use ahash::AHashMap;

use crate::recording::perfdata::UserStack;
use crate::system::screen::Colors;
use crate::system::text::{count, printable, thousands};

/// Reason why a call chain ends before its outermost function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum CutReason {
    /// The stack is longer than the part of it that was recorded.
    TooLong,
    /// An address of the stack was not recorded: the page was not in memory, or the address is on another stack.
    NoMemory,
    /// The address is in JIT code, or in no mapping.
    NoFile,
    /// The file has no table for the function.
    NotInTables(PathBuf),
    /// The recorded file was replaced.
    Replaced(PathBuf),
    /// The file does not exist, or can't be read.
    Missing(PathBuf),
    /// The tables contradict the stack: a table is wrong, or the stack was overwritten.
    Inconsistent,
    /// The program is a 32-bit program, which is not unwound.
    Bits32,
    /// The calls are from the processor's branch records, which were full, so that outer callers may be missing.
    BranchRecordsFull,
}

/// Number of call chains that were unwound from stacks or taken from branch records, and number of incomplete ones. Chains
/// by frame pointers are counted separately, because the kernel does not give a reason for their end.
#[derive(Debug, Default)]
pub(crate) struct CutChains {
    /// Number of chains from stacks or branch records.
    all: u64,
    /// Number of incomplete chains among them, by reason.
    reasons: AHashMap<CutReason, u64>,
    /// Bytes of the largest recorded stack.
    max_stack_size: u64,
    /// Number of programs' call chains that were recorded by frame pointers.
    by_frame_pointers: u64,
    /// Number of these chains by frame pointers that end early.
    without_frame_pointers: u64,
}

impl CutChains {
    /// Counts a chain. `reason` is the reason why the chain is incomplete, and `size` is the size of its stack in
    /// bytes.
    pub(super) fn add(&mut self, reason: Option<CutReason>, size: u64) {
        self.all += 1;
        self.max_stack_size = self.max_stack_size.max(size);
        if let Some(reason) = reason {
            *self.reasons.entry(reason).or_default() += 1;
        }
    }

    /// Counts a program's call chain that was recorded by frame pointers.
    pub(super) fn add_by_frame_pointers(&mut self, ends_early: bool) {
        self.by_frame_pointers += 1;
        self.without_frame_pointers += u64::from(ends_early);
    }

    /// Returns whether most chains by frame pointers end early. Some do in each program: a function has no frame pointer yet
    /// at its first instruction.
    fn lacks_frame_pointers(&self) -> bool {
        /// The smallest number of chains that allows a statement about the programs.
        const MIN_CHAINS: u64 = 10;
        self.by_frame_pointers >= MIN_CHAINS
            && self.without_frame_pointers > self.by_frame_pointers / 2
    }

    /// Returns the number of chains from stacks or branch records, and the number of incomplete ones among them.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> (u64, u64) {
        (self.all, self.reasons.values().sum())
    }

    /// Writes how many chains are incomplete, why, and what to do about it.
    pub(crate) fn write(&self, colors: Colors, output: &mut impl Write) -> io::Result<()> {
        const MAX_REASONS: usize = 5;
        let style = colors.warning;
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_unstable_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let all = count(self.all, "call chain");
        for (reason, cut) in reasons.iter().take(MAX_REASONS) {
            writeln!(
                output,
                "{style}CUT{style:#}: {} of {all}: {}.",
                thousands(**cut),
                self.in_words(reason)
            )?;
        }
        let rest: u64 = reasons.iter().skip(MAX_REASONS).map(|(_, cut)| **cut).sum();
        if rest > 0 {
            writeln!(
                output,
                "{style}CUT{style:#}: {} of {all}, for other reasons.",
                thousands(rest)
            )?;
        }
        if self.lacks_frame_pointers() {
            writeln!(
                output,
                "{style}CUT{style:#}: {} of {} of programs end early, since functions of the programs or of libraries have no frame \
                 pointers; `pmctl record --call-graph=dwarf`, or `=lbr` where the processor can, finds the callers.",
                thousands(self.without_frame_pointers),
                count(self.by_frame_pointers, "call chain")
            )?;
        }
        Ok(())
    }

    /// Returns the reason in words, with advice.
    fn in_words(&self, reason: &CutReason) -> String {
        /// Bytes from which on a stack counts as the longest possible: a sample has other parts, too.
        const MAX_STACK_BYTES: u64 = UserStack::MAX_SIZE as u64 - 2048;
        match reason {
            CutReason::TooLong if self.max_stack_size < MAX_STACK_BYTES => {
                let larger_size = (self.max_stack_size * 4).min(UserStack::MAX_SIZE.into());
                format!(
                    "the stack is longer than the {} bytes of it that were recorded; \
                     `pmctl record --call-graph=dwarf,{larger_size}` records more",
                    self.max_stack_size
                )
            }
            CutReason::TooLong => {
                "the stack is longer than a sample can be; -g follows the frame pointers of programs that were compiled \
                 with -fno-omit-frame-pointer"
                    .to_owned()
            }
            CutReason::NoMemory => "the stack was paged out, or belongs to another thread or signal".to_owned(),
            CutReason::NoFile => {
                "the return address is in no file: a caller is generated code (JIT) without unwind tables and frame \
                 pointers"
                    .to_owned()
            }
            CutReason::NotInTables(path) => format!(
                "{} has no table for a function (.eh_frame or .debug_frame); compile it with \
                 -fasynchronous-unwind-tables, or install its debug symbols",
                printable(&path.to_string_lossy())
            ),
            CutReason::Replaced(path) => format!(
                "{} was replaced since the recording, so its unwind tables can't be used; record again",
                printable(&path.to_string_lossy())
            ),
            CutReason::Missing(path) => format!(
                "{} is not on this machine, or can't be read; read the recording where it was made, as the same user",
                printable(&path.to_string_lossy())
            ),
            CutReason::Inconsistent => "the unwind tables contradict the stack, which was overwritten, or a table is wrong; `pmctl record -g` \
                 follows frame pointers instead"
                    .to_owned(),
            CutReason::BranchRecordsFull => {
                "the processor records no more than 32 calls; -g and --call-graph=dwarf have no such limit"
                    .to_owned()
            }
            CutReason::Bits32 => "32-bit programs can't be unwound from stacks; use frame pointers (-g)".to_owned(),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Branches that a CPU has executed as one with the instruction before them, a comparison: AMD's records have the address
//! of that. perf's kernel part reads the code and records the branch; the driver records what the CPU tells.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ahash::AHashMap;
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

use crate::recording::address_spaces::FileNumber;
use crate::recording::perfdata::{Branch, Recording, is_kernel};
use crate::recording::profile::{SampleNames, Site};
use crate::recording::symbols::DebugFiles;
use crate::system::files;

/// Instructions that AMD's processors execute as one with a conditional branch behind them (Software Optimization Guide
/// for Zen 4, "Branch fusion").
const FUSED: [Mnemonic; 9] = [
    Mnemonic::Cmp,
    Mnemonic::Test,
    Mnemonic::Add,
    Mnemonic::Sub,
    Mnemonic::Inc,
    Mnemonic::Dec,
    Mnemonic::And,
    Mnemonic::Or,
    Mnemonic::Xor,
];

/// Near branches that depend on no flags, so that no comparison is executed as one with them.
const UNFUSED: [Mnemonic; 9] = [
    Mnemonic::Jmp,
    Mnemonic::Call,
    Mnemonic::Loop,
    Mnemonic::Loope,
    Mnemonic::Loopne,
    Mnemonic::Jcxz,
    Mnemonic::Jecxz,
    Mnemonic::Jrcxz,
    Mnemonic::Xbegin,
];

/// The most bytes of a pair of instructions.
const MAX_PAIR_BYTES: usize = 2 * 15;

/// An instruction, and a conditional branch behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    /// The length of the first.
    length: u64,
    /// The distance from the first to where the branch leads.
    distance: u64,
}

impl Pair {
    /// Returns the pair that code begins with, if it does.
    fn of(code: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
        let (first, second) = (decoder.decode(), decoder.decode());
        let is_pair = FUSED.contains(&first.mnemonic())
            && second.op0_kind() == OpKind::NearBranch64
            && !UNFUSED.contains(&second.mnemonic());
        is_pair.then(|| Self {
            length: second.ip(),
            distance: second.near_branch_target(),
        })
    }
}

/// Finds such branches.
pub(super) struct FusedBranches<'a> {
    recording: &'a Recording,
    /// The recording is of a processor whose records have the address of the branch itself.
    has_own: bool,
    /// The programs and libraries, while they are those that ran.
    files: AHashMap<FileNumber, Option<File>>,
    /// The pair at an offset of a file, if there is one.
    pairs: AHashMap<(FileNumber, u64), Option<Pair>>,
}

impl<'a> FusedBranches<'a> {
    /// Creates one that has read nothing.
    pub(super) fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            has_own: recording.host.cpuid.starts_with("GenuineIntel"),
            files: AHashMap::new(),
            pairs: AHashMap::new(),
        }
    }

    /// Returns a branch of a process with its own address: that of the record, or if a branch behind the instruction there
    /// leads to where the record's does, of that one.
    pub(super) fn own(&mut self, names: &SampleNames<'_>, pid: u32, branch: &Branch) -> Branch {
        let mut own = *branch;
        if self.has_own || is_kernel(branch.from) {
            return own;
        }
        let pair = self.pair(&names.site(pid, branch.from));
        if let Some(pair) = pair.filter(|pair| branch.from.wrapping_add(pair.distance) == branch.to)
        {
            own.from += pair.length;
        }
        own
    }

    /// Returns the pair at a place in a file, if there is one.
    fn pair(&mut self, site: &Site<'_>) -> Option<Pair> {
        let (file, offset) = (site.number()?, site.place());
        if let Some(known) = self.pairs.get(&(file, offset)) {
            return *known;
        }
        let recording = self.recording;
        let open = || {
            let path = site.path();
            let path = Path::new(&*path);
            let located = DebugFiles::of_user().locate(path, recording.version(path));
            files::open(&located.ok()?.path).ok()
        };
        let mut code = [0; MAX_PAIR_BYTES];
        let opened = self.files.entry(file).or_insert_with(open).as_ref();
        let read = opened.and_then(|opened| opened.read_at(&mut code, offset).ok());
        let pair = read.and_then(|length| Pair::of(&code[..length]));
        self.pairs.insert((file, offset), pair);
        pair
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conditional_branch_behind_an_instruction_is_a_pair() {
        // cmp eax, ebx; jne .+5
        let pair = Pair::of(&[0x39, 0xd8, 0x75, 0x03, 0x90]);
        assert_eq!(
            pair,
            Some(Pair {
                length: 2,
                distance: 7
            })
        );
        // test al, al; je .-10
        let pair = Pair::of(&[0x84, 0xc0, 0x74, 0xf4]);
        let distance = 0_u64.wrapping_sub(8);
        assert_eq!(
            pair,
            Some(Pair {
                length: 2,
                distance
            })
        );
        // A branch by itself, a call behind a comparison, and half an instruction.
        assert_eq!(Pair::of(&[0x75, 0x03, 0x75, 0x03]), None);
        assert_eq!(Pair::of(&[0x39, 0xd8, 0xe8, 0, 0, 0, 0]), None);
        assert_eq!(Pair::of(&[0x39, 0xd8, 0x75]), None);
        assert_eq!(Pair::of(&[]), None);
    }
}

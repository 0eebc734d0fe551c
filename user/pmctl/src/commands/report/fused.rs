// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fused branches: AMD's CPUs execute a comparison and the conditional branch after it as one, and their branch records
//! have the address of the comparison. perf corrects the address in the kernel. The driver records it unchanged, so the
//! report corrects it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use ahash::AHashMap;
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};

use crate::recording::address_spaces::FileNumber;
use crate::recording::file_text::path_of_text;
use crate::recording::perfdata::{Branch, Recording, is_kernel_address};
use crate::recording::profile::{NamedSample, SampleNames, Site};
use crate::recording::symbols::DebugFiles;
use crate::system::files;

/// Instructions that AMD's processors fuse with a conditional branch after them (Software Optimization Guide for Zen 4,
/// "Branch fusion").
const FUSIBLE_INSTRUCTIONS: [Mnemonic; 9] = [
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

/// Near branches that don't depend on flags, so that no instruction is fused with them.
const UNFUSED_BRANCHES: [Mnemonic; 9] = [
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

/// The largest number of bytes of a pair of instructions.
const MAX_PAIR_BYTES: usize = 2 * 15;

/// An instruction and the conditional branch after it, which can be fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FusedPair {
    /// Length of the first instruction in bytes.
    length: u64,
    /// Distance in bytes from the first instruction to the target of the branch.
    distance: u64,
}

impl FusedPair {
    /// Returns the pair at the beginning of `code` of a program with registers of `bits` bits; `None` if no pair is there.
    fn decode(bits: u32, code: &[u8]) -> Option<Self> {
        /// The address at which the code is decoded. It is large enough that targets before it are not negative, and
        /// has 32 bits for programs with 32 bits.
        const START: u64 = 1 << 31;
        let mut decoder = Decoder::with_ip(bits, code, START, DecoderOptions::NONE);
        let (first, second) = (decoder.decode(), decoder.decode());
        let is_near = [OpKind::NearBranch32, OpKind::NearBranch64].contains(&second.op0_kind());
        let is_pair = FUSIBLE_INSTRUCTIONS.contains(&first.mnemonic())
            && is_near
            && !UNFUSED_BRANCHES.contains(&second.mnemonic());
        is_pair.then(|| Self {
            length: second.ip() - START,
            distance: second.near_branch_target().wrapping_sub(START),
        })
    }
}

/// Finds the addresses of fused branches in a recording.
pub(super) struct FusedBranches<'a> {
    recording: &'a Recording,
    /// The recording is of a processor whose records have the address of the branch itself.
    has_branch_addresses: bool,
    /// The opened programs and libraries, with the sizes of their registers in bits; `None` for a file that is not the one
    /// that ran.
    files: AHashMap<FileNumber, Option<(File, u32)>>,
    /// The pairs that were looked up, by file and offset.
    pairs: AHashMap<(FileNumber, u64), Option<FusedPair>>,
}

impl<'a> FusedBranches<'a> {
    /// Prepares the search. Reads no file yet.
    pub(super) fn new(recording: &'a Recording) -> Self {
        Self {
            recording,
            has_branch_addresses: recording.host.cpuid.starts_with("GenuineIntel"),
            files: AHashMap::new(),
            pairs: AHashMap::new(),
        }
    }

    /// Returns `branch` of a sample with a corrected address. If a fused pair is at the recorded
    /// address, and the pair's branch has the recorded target, the address becomes that of the
    /// pair's branch. Other branches are returned unchanged.
    pub(super) fn with_branch_address(
        &mut self,
        names: &SampleNames<'_>,
        named: &NamedSample<'_>,
        branch: &Branch,
    ) -> Branch {
        let mut corrected = *branch;
        if self.has_branch_addresses || is_kernel_address(branch.from) {
            return corrected;
        }
        let (from, _) = names.branch_sites(named, branch);
        let pair = self.pair_at(&from);
        if let Some(pair) = pair.filter(|pair| branch.from.wrapping_add(pair.distance) == branch.to)
        {
            corrected.from += pair.length;
        }
        corrected
    }

    /// Returns the pair at a place in a file, if there is one.
    fn pair_at(&mut self, site: &Site<'_>) -> Option<FusedPair> {
        let (file, offset) = (site.file_number()?, site.file_offset());
        if let Some(known) = self.pairs.get(&(file, offset)) {
            return *known;
        }
        let recording = self.recording;
        let open_program = || {
            let path = site.path();
            let path = &*path_of_text(&path);
            let file = DebugFiles::of_user()
                .locate(path, recording.version(path))
                .ok()?;
            Some((files::open(&file.path).ok()?, file.elf.bits()))
        };
        let mut code = [0; MAX_PAIR_BYTES];
        let program = self.files.entry(file).or_insert_with(open_program).as_ref();
        let pair = program.and_then(|(program, bits)| {
            let length = program.read_at(&mut code, offset).ok()?;
            FusedPair::decode(*bits, &code[..length])
        });
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
        let pair = FusedPair::decode(64, &[0x39, 0xd8, 0x75, 0x03, 0x90]);
        assert_eq!(
            pair,
            Some(FusedPair {
                length: 2,
                distance: 7
            })
        );
        // test al, al; je .-10
        let pair = FusedPair::decode(64, &[0x84, 0xc0, 0x74, 0xf4]);
        let distance = 0_u64.wrapping_sub(8);
        assert_eq!(
            pair,
            Some(FusedPair {
                length: 2,
                distance
            })
        );
        // The same pair in a program of 32 bits; and `dec eax`, whose code is a prefix in programs
        // of 64 bits.
        let pair = FusedPair::decode(32, &[0x84, 0xc0, 0x74, 0xf4]);
        assert_eq!(
            pair,
            Some(FusedPair {
                length: 2,
                distance
            })
        );
        let pair = FusedPair::decode(32, &[0x48, 0x75, 0x03]);
        assert_eq!(
            pair,
            Some(FusedPair {
                length: 1,
                distance: 6
            })
        );
        // A branch alone, a call after a comparison, and half an instruction are not pairs.
        assert_eq!(FusedPair::decode(64, &[0x75, 0x03, 0x75, 0x03]), None);
        assert_eq!(FusedPair::decode(64, &[0x39, 0xd8, 0xe8, 0, 0, 0, 0]), None);
        assert_eq!(FusedPair::decode(64, &[0x39, 0xd8, 0x75]), None);
        assert_eq!(FusedPair::decode(64, &[]), None);
    }
}

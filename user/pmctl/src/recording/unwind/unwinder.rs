// SPDX-License-Identifier: MIT OR Apache-2.0
//! The unwinder of a recording: it follows the steps of the files' tables from a sample to its callers.

use std::mem;

use ahash::AHashMap;
use iced_x86::Instruction;

use super::cut_chains::{CutChains, CutReason};
use super::files::{Programs, read_tables};
use super::memory::{Registers, Stack};
use super::step::{Step, by_frame_pointer, is_outermost};
use super::tables::UnwindTables;
use crate::recording::address_spaces::{AddressSpaces, FileOffset};
use crate::recording::perfdata::{UserStack, is_kernel_address};
use crate::recording::symbols::DebugFiles;

/// The largest number of callers of a sample. Each needs a return address in the stack. The limit ends loops in tables that
/// don't read the stack.
pub(super) const MAX_CALLERS: u32 = UserStack::MAX_SIZE / 8;

/// A mark of pmctl's own in a call chain, in the place of `PERF_CONTEXT_USER`. The program's addresses that follow are
/// addresses of calls, and not return addresses.
pub(crate) const UNWOUND: u64 = 513_u64.wrapping_neg();

/// Number of calls that the branch records of a processor hold (Intel's manual, volume 3B, "Last branch, interrupt and
/// exception recording for processors based on Skylake microarchitecture").
const LBR_DEPTH: usize = 32;

/// The tables of files, by the file's number, or the reason why there are none.
pub(super) type FileTables = AHashMap<u32, Result<UnwindTables, CutReason>>;

/// Unwinds the callers of samples that have the program's stack.
pub(crate) struct Unwinder {
    debug_files: DebugFiles,
    /// The tables of the files so far.
    pub(super) files: FileTables,
    /// The steps so far, by the file's number and the offset.
    steps: AHashMap<(u32, u64), Result<Step, CutReason>>,
    /// The sampled instructions so far, by the file's number and the offset.
    pub(super) instructions: AHashMap<(u32, u64), Instruction>,
    cut_chains: CutChains,
}

impl Default for Unwinder {
    /// Creates an instance that has read no file yet.
    fn default() -> Self {
        Self {
            debug_files: DebugFiles::of_user(),
            files: FileTables::new(),
            steps: AHashMap::new(),
            instructions: AHashMap::new(),
            cut_chains: CutChains::default(),
        }
    }
}

/// A process to unwind, and where to find the files that it has mapped.
#[derive(Clone, Copy)]
pub(crate) struct UnwoundProcess<'a> {
    pub(crate) pid: u32,
    pub(crate) spaces: &'a AddressSpaces,
    pub(crate) programs: &'a dyn Programs,
}

impl Unwinder {
    /// Returns the counts of incomplete chains.
    pub(crate) fn into_cut_chains(self) -> CutChains {
        self.cut_chains
    }

    /// Returns the counts of incomplete chains since the last call of this function.
    pub(crate) fn take_cut_chains(&mut self) -> CutChains {
        mem::take(&mut self.cut_chains)
    }

    /// Appends the program's part of a call chain: [`UNWOUND`], the sampled address, and the addresses of the calls that led
    /// there. Like perf, it gives the addresses of the calls, and not the return addresses. `ip` is the address of the
    /// sample.
    pub(crate) fn append(
        &mut self,
        process: UnwoundProcess<'_>,
        ip: u64,
        user_stack: &UserStack,
        chain: &mut Vec<u64>,
    ) {
        chain.push(UNWOUND);
        let start = chain.len();
        let result = self.unwind(process, user_stack, chain);
        self.cut_chains
            .add(result.err(), user_stack.requested_bytes);
        if chain[start] != ip && !is_kernel_address(ip) {
            let sampled_address_count =
                self.sampled_address_count(process, ip, &mut chain[start..]);
            chain.splice(start..start + sampled_address_count, [ip]);
        }
    }

    /// Counts a chain of `calls` calls that the processor has recorded; 0 means that there is no chain.
    pub(crate) fn count_calls(&mut self, calls: usize) {
        if calls != 0 {
            let is_cut = calls >= LBR_DEPTH;
            self.cut_chains
                .add(is_cut.then_some(CutReason::BranchRecordsFull), 0);
        }
    }

    /// Counts a chain that the kernel has made by frame pointers, of a sample at this address.
    pub(crate) fn count_by_frame_pointers(
        &mut self,
        process: UnwoundProcess<'_>,
        address: u64,
        ends_early: bool,
    ) {
        // A chain that begins in code without tables does not count as ending early: assembly code
        // may have no caller, for example a program that is a single loop.
        let ends_early =
            ends_early && !matches!(self.step(process, address), Err(CutReason::NotInTables(_)));
        self.cut_chains.add_by_frame_pointers(ends_early);
    }

    /// Appends the addresses of the chain. If it can't be followed to its end, returns the reason.
    fn unwind(
        &mut self,
        process: UnwoundProcess<'_>,
        user_stack: &UserStack,
        chain: &mut Vec<u64>,
    ) -> Result<(), CutReason> {
        let mut registers = Registers::of(user_stack);
        let stack = Stack::new(&registers, user_stack);
        let mut address = registers.instruction();
        chain.push(address);
        if !user_stack.is_64_bit {
            return Err(CutReason::Bits32);
        }
        let is_code = |address| process.spaces.find(process.pid, address).is_some();
        for _ in 0..MAX_CALLERS {
            let (caller, is_signal) = match self.step(process, address) {
                Ok((step, tables)) => {
                    if step.is_signal && chain.last() != Some(&registers.instruction()) {
                        // The kernel made this frame for a signal handler. The address is not that of a call but of the
                        // first instruction of the function that returns from the signal.
                        chain.pop();
                        chain.push(registers.instruction());
                    }
                    let Some(caller) = step.caller(tables, &registers, &stack)? else {
                        return Ok(());
                    };
                    (caller, step.is_signal)
                }
                Err(CutReason::NotInTables(_)) if is_outermost(&registers) => return Ok(()),
                // Like perf, assumes that code without tables has frame pointers. If not, the chain ends here.
                Err(reason) => {
                    let may_have_frame_pointers =
                        matches!(reason, CutReason::NoFile | CutReason::NotInTables(_));
                    let caller = may_have_frame_pointers
                        .then(|| by_frame_pointer(&registers, &stack))
                        .flatten();
                    let is_plausible = |caller: &Registers| is_code(caller.instruction() - 1);
                    (caller.filter(is_plausible).ok_or(reason)?, false)
                }
            };
            registers = caller;
            // A call is in front of its return address. After a signal, the address is where the program was interrupted.
            address = match registers.instruction() {
                0 => return Ok(()),
                interrupted if is_signal => interrupted,
                return_address => return_address - 1,
            };
            if !is_code(address) {
                return Err(CutReason::NoFile);
            }
            chain.push(address);
        }
        Err(CutReason::Inconsistent)
    }

    /// Returns the step at an address, and the tables of its file.
    pub(super) fn step(
        &mut self,
        process: UnwoundProcess<'_>,
        address: u64,
    ) -> Result<(&Step, &UnwindTables), CutReason> {
        let (file_offset, tables) = tables_at(&mut self.files, process, address)?;
        let key = (file_offset.file.number(), file_offset.offset);
        let step = self.steps.entry(key).or_insert_with(|| {
            let step = tables.step(file_offset.offset, &self.debug_files);
            let path = || process.spaces.path(file_offset.file).to_owned();
            step.ok_or_else(|| CutReason::NotInTables(path()))
        });
        Ok((step.as_ref().map_err(Clone::clone)?, tables))
    }
}

/// Returns the position of an address in its file, and the tables of the file.
pub(super) fn tables_at<'a>(
    files: &'a mut FileTables,
    process: UnwoundProcess<'_>,
    address: u64,
) -> Result<(FileOffset, &'a mut UnwindTables), CutReason> {
    let UnwoundProcess {
        pid,
        spaces,
        programs,
    } = process;
    let file_offset = spaces.find(pid, address).ok_or(CutReason::NoFile)?;
    let tables = files.entry(file_offset.file.number());
    let tables = tables.or_insert_with(|| read_tables(file_offset.file, spaces, programs));
    Ok((
        file_offset,
        tables.as_mut().map_err(|reason| reason.clone())?,
    ))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The callers of functions that have no frame pointers: from the registers and the stack of a program, and from the
//! tables that compilers make for exceptions (`.eh_frame`) and for debuggers (`.debug_frame`).
//!
//! [`UnwindTables`] are those of a file. They give for each address a [`Step`]: where the function's caller has its registers
//! by then. Steps are kept, for most samples are where others were.

mod cuts;
mod files;
mod memory;
mod step;
mod tables;
#[cfg(test)]
mod tests;

use std::mem;

use ahash::AHashMap;

pub(crate) use cuts::Cuts;
use cuts::Reason;
pub(crate) use files::{Programs, Recorded, vdso, vdso_build_id};
use memory::{Registers, Stack};
use step::{Step, by_frame_pointer, is_outermost};
use tables::UnwindTables;

use crate::recording::address_spaces::AddressSpaces;
use crate::recording::perfdata::UserStack;
use crate::recording::symbols::DebugFiles;

/// The most callers of a sample. Each has a return address in the stack; tables may claim that none has, without an end.
const MAX_CALLERS: u32 = UserStack::MAX_SIZE / 8;

/// A mark of pmctl's own, in the place of `PERF_CONTEXT_USER`: the program's addresses follow, those of calls and not
/// those that they return to.
pub(crate) const UNWOUND: u64 = 513_u64.wrapping_neg();

/// Number of calls that processors keep which have room for calls (Intel's manual, volume 3B, "Last branch, interrupt
/// and exception recording for processors based on Skylake microarchitecture").
const LBR_DEPTH: usize = 32;

/// Finds out the callers of samples that have the program's stack.
pub(crate) struct Unwinder {
    debug_files: DebugFiles,
    /// The tables of each file that was asked for, by its number; why there are none.
    files: AHashMap<u32, Result<UnwindTables, Reason>>,
    /// By file and offset.
    steps: AHashMap<(u32, u64), Result<Step, Reason>>,
    cuts: Cuts,
}

impl Default for Unwinder {
    /// Creates one that has read nothing yet.
    fn default() -> Self {
        Self {
            debug_files: DebugFiles::of_user(),
            files: AHashMap::new(),
            steps: AHashMap::new(),
            cuts: Cuts::default(),
        }
    }
}

/// A process, and where the files are that it has mapped.
#[derive(Clone, Copy)]
pub(crate) struct UnwoundProcess<'a> {
    pub(crate) pid: u32,
    pub(crate) spaces: &'a AddressSpaces,
    pub(crate) programs: &'a dyn Programs,
}

impl Unwinder {
    /// Returns which chains are cut, and why.
    pub(crate) fn into_cuts(self) -> Cuts {
        self.cuts
    }

    /// Returns which chains were cut since the last call.
    pub(crate) fn take_cuts(&mut self) -> Cuts {
        mem::take(&mut self.cuts)
    }

    /// Appends the program's part of a call chain: its address, and those of the calls that led there. These are of the
    /// calls and not behind them, as with perf.
    pub(crate) fn append(
        &mut self,
        process: UnwoundProcess<'_>,
        user: &UserStack,
        chain: &mut Vec<u64>,
    ) {
        chain.push(UNWOUND);
        let result = self.walk(process, user, chain);
        self.cuts.add(result.err(), user.wanted);
    }

    /// Counts a chain of so many calls, which the processor has recorded; without calls it is none.
    pub(crate) fn count_calls(&mut self, calls: usize) {
        if calls != 0 {
            let is_cut = calls >= LBR_DEPTH;
            self.cuts.add(is_cut.then_some(Reason::Recorded), 0);
        }
    }

    fn walk(
        &mut self,
        process: UnwoundProcess<'_>,
        user: &UserStack,
        chain: &mut Vec<u64>,
    ) -> Result<(), Reason> {
        let mut registers = Registers::of(user);
        let stack = Stack::new(&registers, user);
        let mut address = registers.instruction();
        chain.push(address);
        if !user.wide {
            return Err(Reason::Bits32);
        }
        let is_code = |address| process.spaces.find(process.pid, address).is_some();
        for _ in 0..MAX_CALLERS {
            let (caller, is_signal) = match self.step(process, address) {
                Ok((step, tables)) => {
                    if step.is_signal && chain.last() != Some(&registers.instruction()) {
                        // The kernel has made it up: it is no call, and the first instruction of a function.
                        chain.pop();
                        chain.push(registers.instruction());
                    }
                    let Some(caller) = step.caller(tables, &registers, &stack)? else {
                        return Ok(());
                    };
                    (caller, step.is_signal)
                }
                Err(Reason::NotInTables(_)) if is_outermost(&registers) => return Ok(()),
                // As perf does it: code that has no tables has frame pointers, or it ends here.
                Err(reason) => {
                    let guess = matches!(reason, Reason::NoFile | Reason::NotInTables(_));
                    let caller = guess
                        .then(|| by_frame_pointer(&registers, &stack))
                        .flatten();
                    let is_plausible = |caller: &Registers| is_code(caller.instruction() - 1);
                    (caller.filter(is_plausible).ok_or(reason)?, false)
                }
            };
            registers = caller;
            // A call is before the address that it returns to; a signal has come where it says.
            address = match registers.instruction() {
                0 => return Ok(()),
                interrupted if is_signal => interrupted,
                behind => behind - 1,
            };
            if !is_code(address) {
                return Err(Reason::NoFile);
            }
            chain.push(address);
        }
        Err(Reason::Nonsense)
    }

    /// Returns the step at an address, and the tables that it is of.
    fn step(
        &mut self,
        process: UnwoundProcess<'_>,
        address: u64,
    ) -> Result<(&Step, &UnwindTables), Reason> {
        let UnwoundProcess {
            pid,
            spaces,
            programs,
        } = process;
        let place = spaces.find(pid, address).ok_or(Reason::NoFile)?;
        let path = || spaces.path(place.file);
        let key = (place.file.number(), place.offset);
        let tables = self.files.entry(key.0);
        let tables = tables.or_insert_with(|| files::tables(place.file, spaces, programs));
        let tables = tables.as_mut().map_err(|reason| reason.clone())?;
        let step = self.steps.entry(key).or_insert_with(|| {
            let step = tables.step(place.offset, &self.debug_files);
            step.ok_or_else(|| Reason::NotInTables(path().to_owned()))
        });
        Ok((step.as_ref().map_err(Clone::clone)?, tables))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call chains of precise samples. Their registers are those after the sampled instruction, or some instructions later, so
//! they belong to another function if the instruction is a call, a return or a jump.

use super::{Unwinder, UnwoundProcess, tables_at};

/// The largest number of bytes of an instruction (Intel SDM, volume 2A, section 2.3.11).
const MAX_INSTRUCTION_BYTES: u64 = 15;

/// A position in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// The number of the file, and the function's first address there.
    function: (u32, u64),
    is_at_start: bool,
}

impl Unwinder {
    /// Returns the number of addresses at the beginning of `chain` that stand for the sampled instruction, whose address is
    /// `ip`. The others are its callers. `chain` was unwound from the registers of a precise sample.
    pub(super) fn sampled_part(
        &mut self,
        process: UnwoundProcess<'_>,
        ip: u64,
        chain: &mut [u64],
    ) -> usize {
        let [current, callers @ ..] = chain else {
            return 0;
        };
        let sampled_position = self.position(process, ip);
        let position = self.position(process, *current);
        if sampled_position.map(|at| at.function) == position.map(|at| at.function) {
            return 1;
        }
        let is_sampled_call = |call: &u64| (ip..ip + MAX_INSTRUCTION_BYTES).contains(call);
        if callers.first().is_some_and(is_sampled_call) {
            return 2;
        }
        // A jump leads to the beginning of a function, and a return does not.
        if position.is_some_and(|at| at.is_at_start) {
            return 1;
        }
        // As that of each caller, the address is the one of the call.
        *current = current.saturating_sub(1);
        0
    }

    /// Returns the position of an address in its function; `None` if there are no tables for it.
    fn position(&mut self, process: UnwoundProcess<'_>, address: u64) -> Option<Position> {
        let (at, tables) = tables_at(&mut self.files, process, address).ok()?;
        let (first_address, address) = tables.function(at.offset)?;
        Some(Position {
            function: (at.file.number(), first_address),
            is_at_start: address == first_address,
        })
    }
}

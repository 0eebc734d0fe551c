// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call chains of precise samples. The registers of such a sample are from the time after the sampled instruction, or
//! some instructions later. So the registers belong to another function if the instruction is a call, a return or a
//! jump.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};

use super::unwinder::{Unwinder, UnwoundProcess, tables_at};

/// A position in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    /// The number of the file, and the function's first address there.
    function: (u32, u64),
    is_at_start: bool,
}

impl Unwinder {
    /// Returns the number of addresses at the beginning of `chain` that stand for the sampled instruction, whose
    /// address is `ip`. The remaining addresses are callers of the instruction's function. `chain` must have been
    /// unwound from the registers of a precise sample.
    pub(super) fn sampled_address_count(
        &mut self,
        process: UnwoundProcess<'_>,
        ip: u64,
        chain: &mut [u64],
    ) -> usize {
        let [current, callers @ ..] = chain else {
            return 0;
        };
        let caller = callers.first().copied();
        let instruction = self.instruction(process, ip);
        let is_branch = instruction.op0_kind() == OpKind::NearBranch64;
        match instruction.mnemonic() {
            Mnemonic::Call => {
                let call = ip..instruction.next_ip();
                if caller.is_some_and(|caller| call.contains(&caller)) {
                    return 2;
                }
            }
            Mnemonic::Ret => {
                self.turn_into_call_address(process, current);
                return 0;
            }
            Mnemonic::Jmp => return 1,
            _ if is_branch => return 1,
            _ => {}
        }
        // The registers may be those some instructions later, and the instruction may be unknown.
        let [sampled, position, caller] = [Some(ip), Some(*current), caller]
            .map(|address| address.and_then(|address| self.position(process, address)));
        let is_in_sampled_function =
            |other: Option<Position>| other.map(|at| at.function) == sampled.map(|at| at.function);
        if is_in_sampled_function(position) {
            return 1;
        }
        if caller.is_some() && is_in_sampled_function(caller) {
            // The sampled function has called the function of the registers.
            return 2;
        }
        // A jump to a function leads to its beginning, and a return does not.
        if position.is_some_and(|at| at.is_at_start) {
            return 1;
        }
        self.turn_into_call_address(process, current);
        0
    }

    /// Changes a return address to the address of its call, which chains have for all callers.
    fn turn_into_call_address(&mut self, process: UnwoundProcess<'_>, address: &mut u64) {
        let step = self.step(process, *address);
        // The code that returns from a signal handler has not called it.
        if !step.is_ok_and(|(step, _)| step.is_signal) {
            *address = address.saturating_sub(1);
        }
    }

    /// Returns the instruction at an address; an invalid one if the code is not known.
    fn instruction(&mut self, process: UnwoundProcess<'_>, ip: u64) -> Instruction {
        let Ok((at, tables)) = tables_at(&mut self.files, process, ip) else {
            return Instruction::default();
        };
        let key = (at.file.number(), at.offset);
        let mut instruction = *self.instructions.entry(key).or_insert_with(|| {
            let code = tables.code(at.offset);
            Decoder::new(64, &code, DecoderOptions::NONE).decode()
        });
        instruction.set_ip(ip);
        instruction
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

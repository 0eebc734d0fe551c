// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers and the stack of a sample, from which the callers are unwound.

use gimli::{Register, X86_64};

use super::cut_chains::CutReason;
use crate::recording::perfdata::UserStack;

/// Values of the registers that unwinding uses, by the registers' numbers in DWARF. The last value
/// is the address of the instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    values: [u64; Registers::REGISTER_COUNT],
    /// Mask of the registers whose values are known.
    known: u32,
}

impl Registers {
    const REGISTER_COUNT: usize = 17;

    /// The numbers in DWARF of the registers of a sample. `None` are the flags and segments, which are not used.
    const SAMPLED_REGISTERS: [Option<Register>; UserStack::REGISTERS] = [
        Some(X86_64::RAX),
        Some(X86_64::RBX),
        Some(X86_64::RCX),
        Some(X86_64::RDX),
        Some(X86_64::RSI),
        Some(X86_64::RDI),
        Some(X86_64::RBP),
        Some(X86_64::RSP),
        Some(X86_64::RA),
        None,
        None,
        None,
        Some(X86_64::R8),
        Some(X86_64::R9),
        Some(X86_64::R10),
        Some(X86_64::R11),
        Some(X86_64::R12),
        Some(X86_64::R13),
        Some(X86_64::R14),
        Some(X86_64::R15),
    ];

    /// Registers that a function restores before it returns, so that they have the caller's values unless its table says
    /// where they were saved.
    const CALLEE_SAVED: [Register; 6] = [
        X86_64::RBX,
        X86_64::RBP,
        X86_64::R12,
        X86_64::R13,
        X86_64::R14,
        X86_64::R15,
    ];

    /// Returns the registers of a sample.
    pub(super) fn of(user_stack: &UserStack) -> Self {
        let mut registers = Self::none();
        for (number, value) in Self::SAMPLED_REGISTERS
            .into_iter()
            .zip(user_stack.registers)
        {
            if let Some(number) = number {
                registers.set(number, value);
            }
        }
        registers
    }

    const fn none() -> Self {
        Self {
            values: [0; Self::REGISTER_COUNT],
            known: 0,
        }
    }

    /// Returns only the callee-saved registers, which have the same values in a function and in its caller.
    pub(super) fn callee_saved(&self) -> Self {
        let mut saved_registers = Self::none();
        for register in Self::CALLEE_SAVED {
            if let Some(value) = self.get(register) {
                saved_registers.set(register, value);
            }
        }
        saved_registers
    }

    /// Returns the value of a register, if it is known.
    #[inline]
    pub(super) fn get(&self, register: Register) -> Option<u64> {
        let number = usize::from(register.0);
        let value = self.values.get(number)?;
        (self.known >> number & 1 != 0).then_some(*value)
    }

    /// Sets a register. Registers that unwinding does not use are ignored.
    #[inline]
    pub(super) fn set(&mut self, register: Register, value: u64) {
        let number = usize::from(register.0);
        if let Some(slot) = self.values.get_mut(number) {
            *slot = value;
            self.known |= 1 << number;
        }
    }

    /// Makes the value of a register unknown.
    pub(super) fn forget(&mut self, register: Register) {
        if usize::from(register.0) < Self::REGISTER_COUNT {
            self.known &= !(1 << register.0);
        }
    }

    /// Returns the address of the instruction.
    pub(super) const fn instruction(&self) -> u64 {
        self.values[Self::REGISTER_COUNT - 1]
    }

    /// Returns the stack pointer.
    pub(super) const fn stack_pointer(&self) -> u64 {
        self.values[X86_64::RSP.0 as usize]
    }
}

/// The stack of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack<'a> {
    start: u64,
    bytes: &'a [u8],
    /// The recorded bytes are as many as requested, so the stack may be longer.
    is_full: bool,
}

impl<'a> Stack<'a> {
    /// Creates the stack of a sample, which begins at the stack pointer.
    pub(super) fn new(registers: &Registers, user_stack: &'a UserStack) -> Self {
        Self {
            start: registers.stack_pointer(),
            bytes: &user_stack.stack,
            is_full: user_stack.stack.len() as u64 == user_stack.requested_bytes,
        }
    }

    /// Reads a 64-bit number at an address.
    #[inline]
    pub(super) fn word(&self, address: u64) -> Result<u64, CutReason> {
        self.number(address, 8)
    }

    /// Reads a number of `size` bytes, at most 8, at an address.
    pub(super) fn number(&self, address: u64, size: usize) -> Result<u64, CutReason> {
        let bytes = address.checked_sub(self.start).and_then(|offset| {
            let offset = usize::try_from(offset).ok()?;
            self.bytes.get(offset..offset.checked_add(size)?)
        });
        let Some(bytes) = bytes else {
            return Err(self.missing_reason(address));
        };
        let mut padded_bytes = [0; 8];
        padded_bytes[..size.min(8)].copy_from_slice(&bytes[..size.min(8)]);
        Ok(u64::from_le_bytes(padded_bytes))
    }

    /// Returns the reason why the stack has no bytes at an address.
    fn missing_reason(&self, address: u64) -> CutReason {
        /// Bytes from the stack pointer; an address farther away is on another stack, or invalid.
        const MAX_STACK_DISTANCE: u64 = 8 << 20;
        match address.checked_sub(self.start) {
            Some(distance) if distance < MAX_STACK_DISTANCE && self.is_full => CutReason::TooLong,
            _ => CutReason::NoMemory,
        }
    }
}

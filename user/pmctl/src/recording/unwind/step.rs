// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a function to its caller.

use gimli::{
    CfaRule, Encoding, EndianSlice, Evaluation, EvaluationResult, Expression, Format, LittleEndian,
    Location, Register, RegisterRule, UnwindExpression, UnwindTableRow, Value, X86_64,
};

use super::cuts::Reason;
use super::memory::{Registers, Stack};

/// The most operations of an expression: usual ones have less than ten.
const MAX_OPERATIONS: u32 = 1000;

/// The tables that steps are from, which have the expressions.
pub(super) trait Expressions {
    /// Returns the bytes of an expression in a section.
    fn expression(&self, section: usize, expression: &UnwindExpression<usize>) -> Option<&[u8]>;
}

/// The rules that find the registers of a caller, at one address of the function.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The stack pointer of the caller.
    frame: CfaRule<usize>,
    /// The caller's other registers that differ from the function's.
    registers: Box<[(Register, RegisterRule<usize>)]>,
    encoding: Encoding,
    /// The section that expressions are in: a number for [`Expressions`].
    section: usize,
    /// The function was called by the kernel, for a signal: it returns to where the program was interrupted.
    pub(super) is_signal: bool,
}

impl Step {
    /// Returns what a row of a table says.
    pub(super) fn new(
        row: &UnwindTableRow<usize>,
        encoding: Encoding,
        section: usize,
        is_signal: bool,
    ) -> Self {
        Self {
            frame: row.cfa().clone(),
            registers: row.registers().cloned().collect(),
            encoding,
            section,
            is_signal,
        }
    }

    /// Returns that at a jump to a function: as at its first instruction, the stack has but the return address.
    pub(super) fn of_jump() -> Self {
        const WORD: i64 = 8;
        Self {
            frame: CfaRule::RegisterAndOffset {
                register: X86_64::RSP,
                offset: WORD,
            },
            registers: [(X86_64::RA, RegisterRule::Offset(-WORD))].into(),
            encoding: Encoding {
                address_size: 8,
                format: Format::Dwarf32,
                version: 4,
            },
            section: 0,
            is_signal: false,
        }
    }

    /// Returns the registers of the caller; `None` if the function has none.
    pub(super) fn caller(
        &self,
        tables: &impl Expressions,
        registers: &Registers,
        stack: &Stack<'_>,
    ) -> Result<Option<Registers>, Reason> {
        let evaluate = |expression: &UnwindExpression<usize>, first| {
            let bytes = tables.expression(self.section, expression);
            let bytes = bytes.ok_or(Reason::Nonsense)?;
            evaluate(bytes, self.encoding, first, (registers, stack))
        };
        let frame = match &self.frame {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = registers.get(*register).ok_or(Reason::Nonsense)?;
                base.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => evaluate(expression, None)?,
        };
        // Only a signal can change to another stack.
        if !self.is_signal && frame <= registers.stack_pointer() {
            return Err(Reason::Nonsense);
        }
        let mut caller = registers.kept();
        caller.set(X86_64::RSP, frame);
        let mut has_caller = false;
        for (register, rule) in &self.registers {
            let value = match rule {
                RegisterRule::Undefined => None,
                RegisterRule::SameValue => registers.get(*register),
                RegisterRule::Offset(offset) => {
                    let place = frame.wrapping_add_signed(*offset);
                    if place < registers.stack_pointer() && *register != X86_64::RA {
                        // An epilogue has popped it, and did not say so.
                        continue;
                    }
                    Some(stack.word(place)?)
                }
                RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => registers.get(*other),
                RegisterRule::Expression(expression) => {
                    Some(stack.word(evaluate(expression, Some(frame))?)?)
                }
                RegisterRule::ValExpression(expression) => Some(evaluate(expression, Some(frame))?),
                RegisterRule::Constant(value) => Some(*value),
                _ => return Err(Reason::Nonsense),
            };
            match value {
                Some(value) => caller.set(*register, value),
                None => caller.forget(*register),
            }
            has_caller |= *register == X86_64::RA && value.is_some();
        }
        Ok(has_caller.then_some(caller))
    }
}

/// Returns whether code without tables is where the program began, as glibc's `_start` of ld.so is: the ABI has it mark
/// the outermost frame by a frame pointer of 0.
pub(super) fn is_outermost(registers: &Registers) -> bool {
    registers.get(X86_64::RBP) == Some(0)
}

/// Returns the registers of the caller of code without tables, as they are if it has frame pointers.
pub(super) fn by_frame_pointer(registers: &Registers, stack: &Stack<'_>) -> Option<Registers> {
    let frame = registers.get(X86_64::RBP)?;
    let behind = frame.checked_add(16)?;
    let is_above = frame >= registers.stack_pointer() && frame % 8 == 0;
    let (before, instruction) = (stack.word(frame).ok()?, stack.word(frame + 8).ok()?);
    let mut caller = registers.kept();
    caller.set(X86_64::RSP, behind);
    caller.set(X86_64::RBP, before);
    caller.set(X86_64::RA, instruction);
    (is_above && instruction != 0).then_some(caller)
}

/// Returns the value of an expression; it may begin with `first` on its stack.
fn evaluate(
    bytes: &[u8],
    encoding: Encoding,
    first: Option<u64>,
    (registers, stack): (&Registers, &Stack<'_>),
) -> Result<u64, Reason> {
    let nonsense = |_| Reason::Nonsense;
    let expression = Expression(EndianSlice::new(bytes, LittleEndian));
    let mut evaluation: Evaluation<_> = expression.evaluation(encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut state = evaluation.evaluate().map_err(nonsense)?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(register).ok_or(Reason::Nonsense)?;
                evaluation.resume_with_register(Value::Generic(value))
            }
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let value = stack.number(address, size.into())?;
                evaluation.resume_with_memory(Value::Generic(value))
            }
            _ => return Err(Reason::Nonsense),
        }
        .map_err(nonsense)?;
    }
    match evaluation.as_result().last().map(|piece| &piece.location) {
        Some(Location::Address { address }) => Ok(*address),
        _ => Err(Reason::Nonsense),
    }
}

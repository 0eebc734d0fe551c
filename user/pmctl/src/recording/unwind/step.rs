// SPDX-License-Identifier: MIT OR Apache-2.0
//! A step of unwinding: computes the registers of a function's caller.

use gimli::{
    CfaRule, Encoding, EndianSlice, Evaluation, EvaluationResult, Expression, Format, LittleEndian,
    Location, Register, RegisterRule, UnwindExpression, UnwindTableRow, Value, X86_64,
};

use super::cut_chains::CutReason;
use super::memory::{Registers, Stack};

/// The largest number of operations of an expression. Usual expressions have fewer than ten
/// operations.
const MAX_OPERATIONS: u32 = 1000;

/// Tables with the expressions that steps refer to.
pub(super) trait Expressions {
    /// Returns the bytes of an expression in a section.
    fn expression(&self, section: usize, expression: &UnwindExpression<usize>) -> Option<&[u8]>;
}

/// The rules that compute a caller's registers from the registers at one address of the function.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Rule for the caller's stack pointer (DWARF: canonical frame address).
    frame: CfaRule<usize>,
    /// Rules for the caller's other registers, where they differ from the function's.
    registers: Box<[(Register, RegisterRule<usize>)]>,
    encoding: Encoding,
    /// The section that expressions are in: an argument of [`Expressions::expression`].
    section: usize,
    /// The frame was made by the kernel for a signal: the caller is where the program was interrupted.
    pub(super) is_signal: bool,
}

impl Step {
    /// Creates the step that a row of a table describes.
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

    /// Creates the step for a jump to a function, such as a stub. As at the first instruction of a function, only the return
    /// address is on the stack.
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

    /// Returns the registers of the caller; `None` if the function is the outermost one.
    pub(super) fn caller(
        &self,
        tables: &impl Expressions,
        registers: &Registers,
        stack: &Stack<'_>,
    ) -> Result<Option<Registers>, CutReason> {
        let evaluate = |expression: &UnwindExpression<usize>, first| {
            let bytes = tables.expression(self.section, expression);
            let bytes = bytes.ok_or(CutReason::Inconsistent)?;
            evaluate(bytes, self.encoding, first, (registers, stack))
        };
        let frame = match &self.frame {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = registers.get(*register).ok_or(CutReason::Inconsistent)?;
                base.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => evaluate(expression, None)?,
        };
        // A caller's frame is at a higher address. Only a signal can change to another stack.
        if !self.is_signal && frame <= registers.stack_pointer() {
            return Err(CutReason::Inconsistent);
        }
        let mut caller = registers.callee_saved();
        caller.set(X86_64::RSP, frame);
        let mut has_caller = false;
        for (register, rule) in &self.registers {
            let value = match rule {
                RegisterRule::Undefined => None,
                RegisterRule::SameValue => registers.get(*register),
                RegisterRule::Offset(offset) => {
                    let address = frame.wrapping_add_signed(*offset);
                    if address < registers.stack_pointer() && *register != X86_64::RA {
                        // An epilogue has popped the register already, which the table does not describe.
                        continue;
                    }
                    Some(stack.word(address)?)
                }
                RegisterRule::ValOffset(offset) => Some(frame.wrapping_add_signed(*offset)),
                RegisterRule::Register(other) => registers.get(*other),
                RegisterRule::Expression(expression) => {
                    Some(stack.word(evaluate(expression, Some(frame))?)?)
                }
                RegisterRule::ValExpression(expression) => Some(evaluate(expression, Some(frame))?),
                RegisterRule::Constant(value) => Some(*value),
                _ => return Err(CutReason::Inconsistent),
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

/// Returns whether code without tables is the outermost function, such as glibc's `_start` of ld.so. By the ABI, a frame
/// pointer of 0 marks the outermost frame.
pub(super) fn is_outermost(registers: &Registers) -> bool {
    registers.get(X86_64::RBP) == Some(0)
}

/// Returns the registers of the caller by the frame pointer, for code without tables; `None` if the frame pointer does
/// not point to a frame.
pub(super) fn by_frame_pointer(registers: &Registers, stack: &Stack<'_>) -> Option<Registers> {
    let frame = registers.get(X86_64::RBP)?;
    let stack_pointer = frame.checked_add(16)?;
    let is_above = frame >= registers.stack_pointer() && frame % 8 == 0;
    let (saved_frame, instruction) = (stack.word(frame).ok()?, stack.word(frame + 8).ok()?);
    let mut caller = registers.callee_saved();
    caller.set(X86_64::RSP, stack_pointer);
    caller.set(X86_64::RBP, saved_frame);
    caller.set(X86_64::RA, instruction);
    (is_above && instruction != 0).then_some(caller)
}

/// Evaluates an expression. `first`, if there is one, is pushed on the expression's stack at the beginning.
fn evaluate(
    bytes: &[u8],
    encoding: Encoding,
    first: Option<u64>,
    (registers, stack): (&Registers, &Stack<'_>),
) -> Result<u64, CutReason> {
    let inconsistent = |_| CutReason::Inconsistent;
    let expression = Expression(EndianSlice::new(bytes, LittleEndian));
    let mut evaluation: Evaluation<_> = expression.evaluation(encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    let mut state = evaluation.evaluate().map_err(inconsistent)?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(register).ok_or(CutReason::Inconsistent)?;
                evaluation.resume_with_register(Value::Generic(value))
            }
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let value = stack.number(address, size.into())?;
                evaluation.resume_with_memory(Value::Generic(value))
            }
            _ => return Err(CutReason::Inconsistent),
        }
        .map_err(inconsistent)?;
    }
    match evaluation.as_result().last().map(|piece| &piece.location) {
        Some(Location::Address { address }) => Ok(*address),
        _ => Err(CutReason::Inconsistent),
    }
}

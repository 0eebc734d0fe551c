// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disassembles machine code.

use std::borrow::Cow;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, IntelFormatter};

use super::code::Code;
use crate::args::Syntax;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) address: u64,
    pub(super) length: u64,
    pub(super) text: String,
    /// The address that the instruction jumps to or calls.
    pub(super) target: Option<u64>,
}

/// Disassembles code. `name` returns the function at an address, and the address's offset in that function.
pub(super) fn disassemble<'a>(
    code: &Code,
    syntax: Syntax,
    name: impl Fn(u64) -> Option<(Cow<'a, str>, u64)>,
) -> Vec<Instruction> {
    const MNEMONIC_WIDTH: u32 = 7;
    let mut formatter: Box<dyn Formatter> = match syntax {
        Syntax::Att => Box::new(GasFormatter::new()),
        Syntax::Intel => Box::new(IntelFormatter::new()),
    };
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_first_operand_char_index(MNEMONIC_WIDTH);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_rip_relative_addresses(true);
    let mut decoder = Decoder::with_ip(code.bits, &code.bytes, code.address, DecoderOptions::NONE);
    let mut instructions = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let target = Some(instruction.near_branch_target()).filter(|target| *target != 0);
        let mut text = String::new();
        match target {
            None => formatter.format(&instruction, &mut text),
            Some(target) => {
                formatter.format_mnemonic(&instruction, &mut text);
                text = format!("{text:width$}{target:x}", width = MNEMONIC_WIDTH as usize);
                if let Some((name, offset)) = name(target) {
                    text += &match offset {
                        0 => format!(" <{name}>"),
                        _ => format!(" <{name}+{offset:#x}>"),
                    };
                }
            }
        }
        instructions.push(Instruction {
            address: instruction.ip(),
            length: instruction.len() as u64,
            text,
            target,
        });
    }
    instructions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of `f: dec %rax; jnz f; call g; mov 0x10(%rip),%edx; ret`, assembled by gas, and after it a prefix
    /// without an instruction.
    const CODE: [u8; 18] = [
        0x48, 0xff, 0xc8, 0x75, 0xfb, 0xe8, 0xf6, 0x0f, 0x00, 0x00, 0x8b, 0x15, 0x10, 0x00, 0x00,
        0x00, 0xc3, 0x48,
    ];

    fn texts(syntax: Syntax) -> Vec<String> {
        let code = Code {
            bytes: CODE.to_vec(),
            address: 0x40_1000,
            bits: 64,
            path: None,
        };
        let name = |address| match address {
            0x40_1000..0x40_1012 => Some((Cow::Borrowed("f"), address - 0x40_1000)),
            0x40_2000.. => Some((Cow::Borrowed("g"), address - 0x40_2000)),
            _ => None,
        };
        let instructions = disassemble(&code, syntax, name);
        assert_eq!(
            instructions.iter().map(|i| i.length).sum::<u64>(),
            CODE.len() as u64
        );
        assert_eq!(instructions[1].target, Some(0x40_1000));
        instructions
            .into_iter()
            .map(|instruction| instruction.text)
            .collect()
    }

    #[test]
    fn code_of_32_bits_is_decoded_as_such() {
        let code = Code {
            // `dec %eax; jmp` to itself: 48H is a prefix in code of 64 bits.
            bytes: vec![0x48, 0xeb, 0xfe],
            address: 0x804_9000,
            bits: 32,
            path: None,
        };
        let instructions = disassemble(&code, Syntax::Att, |_| None);
        let texts: Vec<&str> = instructions.iter().map(|i| &i.text[..]).collect();
        assert_eq!(texts, ["dec    %eax", "jmp    8049001"]);
    }

    #[test]
    fn targets_have_names() {
        let expected = [
            "dec    %rax",
            "jne    401000 <f>",
            "call   402000 <g>",
            "mov    0x10(%rip),%edx",
            "ret",
            "(bad)",
        ];
        assert_eq!(texts(Syntax::Att), expected);
        assert_eq!(texts(Syntax::Intel)[0], "dec    rax");
        assert_eq!(texts(Syntax::Intel)[3], "mov    edx,[rip+0x10]");
    }
}

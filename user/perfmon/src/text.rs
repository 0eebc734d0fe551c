// SPDX-License-Identifier: MIT OR Apache-2.0
//! Safe output of untrusted text to terminals.

/// Returns `text` without control sequences: each control character becomes a question mark, and
/// each character that changes the direction of writing becomes an escape such as `\u{202e}`. Names
/// of tasks, functions and files can hold all of these characters.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => output.push('?'),
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                output.extend(c.escape_unicode());
            }
            c => output.push(c),
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_replaced() {
        assert_eq!(printable("a\x1b[31mé\n\u{9b}"), "a?[31mé??");
        assert_eq!(
            printable("\u{202e}a\u{2066}b\u{200f}"),
            "\\u{202e}a\\u{2066}b\\u{200f}"
        );
    }
}

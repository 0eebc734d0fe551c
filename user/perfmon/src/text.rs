// SPDX-License-Identifier: MIT OR Apache-2.0
//! Text that others have written, for terminals.

/// Returns `text` without what a terminal obeys: a question mark for each control character, and the characters that
/// turn the direction of writing as `\u{202e}`. Names of tasks, functions and files can hold any.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => shown.push('?'),
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                shown.extend(c.escape_unicode());
            }
            c => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing() {
        assert_eq!(printable("a\x1b[31mé\n\u{9b}"), "a?[31mé??");
        assert_eq!(
            printable("\u{202e}a\u{2066}b\u{200f}"),
            "\\u{202e}a\\u{2066}b\\u{200f}"
        );
    }
}

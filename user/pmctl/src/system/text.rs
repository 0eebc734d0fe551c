// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formats texts for output: numbers, names, and columns.

use std::borrow::Cow;

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;

/// Returns a number with a noun, such as `1 counter` or `2,000 counters`.
pub(crate) fn count(number: impl Into<u64>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        number => format!("{} {noun}s", thousands(number)),
    }
}

pub(crate) use perfmon::printable;
pub(crate) use perfmon_compare::errors::{error_text, without_error_numbers};
pub(crate) use perfmon_compare::numbers::thousands;

/// Wraps a text to lines of at most `width` characters. Lines are broken between words, but not within backticks.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    let mut in_command = false;
    let between_words = |c: char| {
        in_command ^= c == '`';
        c.is_whitespace() && !in_command
    };
    for word in text.split(between_words).filter(|word| !word.is_empty()) {
        let last = lines.len() - 1;
        if lines[last].is_empty() {
            lines[last].push_str(word);
        } else if lines[last].chars().count() + 1 + word.chars().count() <= width {
            lines[last].push(' ');
            lines[last].push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// Parses a JSON object. An error begins with `message`. The parser's message with line and column follows only if the
/// text is an object: for text of another kind, that message is meaningless.
pub(crate) fn json_of<T: DeserializeOwned>(
    text: &[u8],
    message: impl FnOnce() -> String,
) -> Result<T> {
    let is_object = text.trim_ascii_start().starts_with(b"{");
    match serde_json::from_slice(text) {
        Err(error) if is_object => Err(error).with_context(message),
        result => result.map_err(|_| anyhow!(message())),
    }
}

/// Appends `text`, padded with blanks to `width` characters. This function and the next three don't use `write!`, which
/// takes ten times as long and panics at widths above 65535: `pmctl script` writes millions of numbers, and `pmctl report`
/// names of any length.
pub(crate) fn push_left(line: &mut String, text: &str, width: usize) {
    line.push_str(text);
    push_blanks(line, width.saturating_sub(text.chars().count()));
}

/// Appends `text`, padded on the left with blanks to `width` characters.
pub(crate) fn push_right(line: &mut String, text: &str, width: usize) {
    push_blanks(line, width.saturating_sub(text.chars().count()));
    line.push_str(text);
}

/// Appends a decimal number, padded on the left with blanks to `width` characters.
pub(crate) fn push_decimal(line: &mut String, number: impl itoa::Integer, width: usize) {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number);
    push_blanks(line, width.saturating_sub(digits.len()));
    line.push_str(digits);
}

/// Appends a hexadecimal number, padded on the left with blanks to `width` characters.
pub(crate) fn push_hexadecimal(line: &mut String, number: u64, width: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Four bits a digit.
    let length = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    push_blanks(line, width.saturating_sub(length as usize));
    for place in (0..length).rev() {
        line.push(DIGITS[(number >> (4 * place) & 0xf) as usize].into());
    }
}

fn push_blanks(line: &mut String, mut number: usize) {
    const BLANKS: &str = "                ";
    while number > 0 {
        let length = number.min(BLANKS.len());
        line.push_str(&BLANKS[..length]);
        number -= length;
    }
}

/// Returns a bar for a share of the whole, from 0 to 1. A share of 1 is `width` characters.
pub(crate) fn bar(share: f64, width: usize) -> String {
    let filled_columns = (share.clamp(0.0, 1.0) * width as f64).round();
    let is_filled = |index: &usize| (*index as f64) < filled_columns;
    "\u{2588}".repeat((0..width).filter(is_filled).count())
}

/// Joins names, as in `a, b or c`; `word` is the last separator.
pub(crate) fn join_names(names: &[&str], word: &str) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [front @ .., last] => format!("{} {word} {last}", front.join(", ")),
    }
}

/// Returns the question whether one of these names is meant; `None` without names.
pub(crate) fn did_you_mean(names: &[&str]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Some(format!("Did you mean {}?", join_names(&names, "or")))
}

/// Quotes a word for a shell if necessary. Characters that are not printable, such as line ends, become question marks.
pub(crate) fn quoted(word: &str) -> String {
    let text = printable(word);
    shlex::try_quote(&text).map_or_else(|_| text.clone(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("perf.data"), "perf.data");
        assert_eq!(quoted("my file"), "'my file'");
        assert_eq!(quoted("a\nb; c"), "'a?b; c'");
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("extraordinary", 5), ["extraordinary"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("a `b c d` e", 5), ["a", "`b c d`", "e"]);
    }

    #[test]
    fn columns_are_the_same_as_with_write() {
        for number in [0, 1, 9, 10, 0xf, 0x10, 0x40_1234, u64::MAX] {
            for width in [0, 1, 16, 40] {
                let mut line = String::new();
                push_left(&mut line, "é", width);
                push_right(&mut line, "é", width);
                push_decimal(&mut line, number, width);
                push_hexadecimal(&mut line, number, width);
                let expected = format!(
                    "{0:<width$}{0:>width$}{number:>width$}{number:>width$x}",
                    "é"
                );
                assert_eq!(line, expected);
            }
        }
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1u8, "counter"), "1 counter");
        assert_eq!(count(0u8, "counter"), "0 counters");
    }
}

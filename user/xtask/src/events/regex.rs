// SPDX-License-Identifier: MIT OR Apache-2.0
//! Regular expressions, as far as mapfile.csv uses them: `6-55-[56789ABCDEF]`, `6-(3C|45)`, `[[:xdigit:]]+`.

use anyhow::{Result, bail};

/// Returns whether the whole of `text` matches.
pub(super) fn matches(pattern: &str, text: &str) -> Result<bool> {
    Ok(match_ends(pattern.as_bytes(), text.as_bytes())?.contains(&text.len()))
}

/// Returns the positions where a match that begins at the start of `text` can end.
fn match_ends(pattern: &[u8], text: &[u8]) -> Result<Vec<usize>> {
    let mut ends = Vec::new();
    for alternative in split_alternatives(pattern) {
        ends.extend(sequence_ends(alternative, text)?);
    }
    Ok(ends)
}

/// Splits at each `|` outside of brackets and parentheses.
fn split_alternatives(pattern: &[u8]) -> Vec<&[u8]> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, byte) in pattern.iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'|' if depth == 0 => {
                parts.push(&pattern[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&pattern[start..]);
    parts
}

/// Returns the positions like [`match_ends`], for a pattern without alternatives at its top level.
fn sequence_ends(pattern: &[u8], text: &[u8]) -> Result<Vec<usize>> {
    let Some(first) = pattern.first() else {
        return Ok(vec![0]);
    };
    let length = match first {
        b'(' => bracket_length(pattern, b'(', b')')?,
        b'[' => bracket_length(pattern, b'[', b']')?,
        b'?' | b'*' | b'.' | b'\\' | b'{' | b'^' | b'$' => {
            bail!("{} is not supported", char::from(*first))
        }
        _ => 1,
    };
    let (atom, rest) = pattern.split_at(length);
    let repeats = rest.first() == Some(&b'+');
    let rest = &rest[usize::from(repeats)..];
    let mut reached_positions = atom_ends(atom, text)?;
    if repeats {
        let mut at = 0;
        while at < reached_positions.len() {
            let from = reached_positions[at];
            let further_ends = atom_ends(atom, &text[from..])?
                .into_iter()
                .map(|end| from + end);
            reached_positions.extend(further_ends.filter(|end| *end > from).collect::<Vec<_>>());
            at += 1;
        }
    }
    let mut ends = Vec::new();
    for from in reached_positions {
        ends.extend(
            sequence_ends(rest, &text[from..])?
                .into_iter()
                .map(|end| from + end),
        );
    }
    Ok(ends)
}

/// Returns the positions like [`match_ends`], for a letter, a set or a group.
fn atom_ends(atom: &[u8], text: &[u8]) -> Result<Vec<usize>> {
    if let [b'(', inner @ .., b')'] = atom {
        return match_ends(inner, text);
    }
    let Some(byte) = text.first() else {
        return Ok(Vec::new());
    };
    let is_match = match atom {
        b"[[:xdigit:]]" => byte.is_ascii_hexdigit(),
        [b'[', inner @ .., b']'] => in_set(inner, *byte)?,
        _ => atom[0] == *byte,
    };
    Ok(if is_match { vec![1] } else { Vec::new() })
}

/// Returns whether a set like `0-9AF` has the byte.
fn in_set(set: &[u8], byte: u8) -> Result<bool> {
    match set {
        [] => Ok(false),
        [b'^' | b'[', ..] => bail!("this kind of set is not supported"),
        [first, b'-', last, rest @ ..] => {
            Ok((*first..=*last).contains(&byte) || in_set(rest, byte)?)
        }
        [first, rest @ ..] => Ok(*first == byte || in_set(rest, byte)?),
    }
}

/// Returns the length of a part in brackets, including the brackets.
fn bracket_length(pattern: &[u8], open: u8, close: u8) -> Result<usize> {
    let mut depth = 0;
    for (at, byte) in pattern.iter().enumerate() {
        if *byte == open {
            depth += 1;
        } else if *byte == close {
            depth -= 1;
            if depth == 0 {
                return Ok(at + 1);
            }
        }
    }
    bail!("a bracket is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_the_map_match() {
        let table = [
            ("6-(97|9A|B7)", "6-9A", true),
            ("6-(97|9A|B7)", "6-9B", false),
            ("6-55-[56789ABCDEF]", "6-55-7", true),
            ("6-55-[01234]", "6-55-7", false),
            ("6-9[6C]", "6-9C", true),
            ("23-([12][0-9A-F]|[0-9A-F])", "23-1", true),
            ("23-([12][0-9A-F]|[0-9A-F])", "23-31", false),
            ("23-[[:xdigit:]]+", "23-31", true),
            ("23-[[:xdigit:]]+", "23-", false),
            ("25-([245][[:xdigit:]]|[[:xdigit:]])", "25-5F", true),
        ];
        for (pattern, text, expected) in table {
            let is_match = matches(pattern, text).expect("it is understood");
            assert_eq!(is_match, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn other_patterns_are_refused() {
        for pattern in ["6-.", "6-[^1]", "6-(1", "6-1*", "6-1?"] {
            assert!(matches(pattern, "6-1").is_err(), "{pattern}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns of names: `*` is any text, `?` any byte.

/// Returns whether a name has the form of a pattern.
pub(crate) fn is_like(glob: &[u8], name: &[u8]) -> bool {
    // Where the last `*` is, and what is left of the name behind what it stands for.
    let (mut glob, mut name) = (glob, name);
    let mut back: Option<(&[u8], &[u8])> = None;
    loop {
        match (glob, name) {
            ([b'*', rest @ ..], _) => {
                back = Some((rest, name));
                glob = rest;
            }
            ([], []) => return true,
            ([first, rest @ ..], [byte, others @ ..]) if first == byte || *first == b'?' => {
                (glob, name) = (rest, others);
            }
            _ => match back {
                Some((rest, [_, others @ ..])) => {
                    back = Some((rest, others));
                    (glob, name) = (rest, others);
                }
                _ => return false,
            },
        }
    }
}

/// Returns whether a text is a pattern, and not a name.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

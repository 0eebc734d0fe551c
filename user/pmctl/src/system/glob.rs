// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns for names, in which `*` matches any text, and `?` any byte.

/// Returns whether a name matches a pattern.
pub(crate) fn matches_glob(glob: &[u8], name: &[u8]) -> bool {
    let (mut glob, mut name) = (glob, name);
    // The rest of the pattern after the last `*`, and the rest of the name with which it was compared last.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (glob, name) {
            ([b'*', rest @ ..], _) => {
                retry = Some((rest, name));
                glob = rest;
            }
            ([], []) => return true,
            ([first, rest @ ..], [byte, others @ ..]) if first == byte || *first == b'?' => {
                (glob, name) = (rest, others);
            }
            _ => match retry {
                Some((rest, [_, others @ ..])) => {
                    retry = Some((rest, others));
                    (glob, name) = (rest, others);
                }
                _ => return false,
            },
        }
    }
}

/// Returns whether a text is a pattern, and not a plain name.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Returns whether `name` contains the text `glob` or, if `glob` is a pattern, matches it.
pub(crate) fn contains_or_matches(glob: &str, name: &str) -> bool {
    if !is_pattern(glob) {
        return name.contains(glob);
    }
    matches_glob(glob.as_bytes(), name.as_bytes())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits a text of -e into its events.

/// Splits a text at its commas, except those between slashes: `cpu/event=1,umask=2/` is one word. The opening brace of
/// a group stays with the group's first word, and the closing brace with its last word.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut in_slashes = false;
    text.split(move |letter| {
        in_slashes ^= letter == '/';
        letter == ',' && !in_slashes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_between_slashes_do_not_split() {
        let of = |text| words(text).collect::<Vec<_>>();
        assert_eq!(
            of("cycles,cpu/event=1,umask=2/u,{a,x/y/}"),
            ["cycles", "cpu/event=1,umask=2/u", "{a", "x/y/}"]
        );
        assert_eq!(of("a/b,c"), ["a/b,c"]);
        assert_eq!(of(""), [""]);
    }
}

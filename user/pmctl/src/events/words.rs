// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits the texts of -e into their events.

/// Splits a text at its commas, except those between slashes: `cpu/event=1,umask=2/` is one word. The opening brace of
/// a group stays with the group's first word, and the closing brace with its last word.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut in_slashes = false;
    text.split(move |letter| {
        in_slashes ^= letter == '/';
        letter == ',' && !in_slashes
    })
}

/// Returns the texts of -e without the words that `is_taken` accepts, and without texts that have no other words.
pub(crate) fn without_words(
    texts: &[String],
    mut is_taken: impl FnMut(&str) -> bool,
) -> Vec<String> {
    let rest = texts.iter().filter_map(|text| {
        let others: Vec<&str> = text.split(',').filter(|word| !is_taken(word)).collect();
        (!others.is_empty()).then(|| others.join(","))
    });
    rest.collect()
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

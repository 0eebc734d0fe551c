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

/// Splits a text as [`words`] does, and returns whether each word is in the braces of a group.
pub(crate) fn grouped_words(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut in_group = false;
    words(text).map(move |word| {
        let is_grouped = in_group || word.contains('{');
        in_group = is_grouped && !word.contains('}');
        (word, is_grouped)
    })
}

/// Returns the texts of -e without the words that `is_taken` accepts, and without texts that have no other words. Words in
/// the braces of a group stay.
pub(crate) fn without_words(
    texts: &[String],
    mut is_taken: impl FnMut(&str) -> bool,
) -> Vec<String> {
    let rest = texts.iter().filter_map(|text| {
        let others =
            grouped_words(text).filter(|(word, is_grouped)| *is_grouped || !is_taken(word));
        let others: Vec<&str> = others.map(|(word, _)| word).collect();
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

    #[test]
    fn a_word_in_braces_stays_in_its_group() {
        let texts = ["x,{a,x,b},x,c", "x", "{x}", "cpu/a=1,x,b=2/,x"].map(str::to_owned);
        assert_eq!(
            without_words(&texts, |word| word == "x"),
            ["{a,x,b},c", "{x}", "cpu/a=1,x,b=2/"]
        );
    }
}

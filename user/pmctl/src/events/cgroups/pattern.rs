// SPDX-License-Identifier: MIT OR Apache-2.0
//! Patterns of the names of cgroups.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::system::exit::Usage;
use crate::system::glob::{is_pattern, matches_glob};

/// A name of a cgroup, in which `*` stands for any text without a slash, `?` for a byte other than a slash, and `**`
/// between slashes for zero or more levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    /// The parts between slashes.
    levels: Vec<String>,
}

/// The level of a pattern that stands for any number of levels.
const ANY_LEVELS: &str = "**";

impl Pattern {
    /// Parses a pattern, which may have slashes at both ends.
    pub(crate) fn new(text: &str) -> Self {
        let levels = text.split('/').filter(|level| !level.is_empty());
        Self {
            text: text.to_owned(),
            levels: levels.map(str::to_owned).collect(),
        }
    }

    /// Parses the patterns of an option, which are separated by commas.
    ///
    /// # Errors
    /// A pattern is empty. It would match the root, which contains all cgroups.
    pub(crate) fn list(option: &str, text: &str) -> Result<Vec<Self>, Usage> {
        if text.split(',').any(str::is_empty) {
            return Err(Usage(format!(
                "{option}: a pattern is empty in `{text}`. The root cgroup, which contains all others, is `/`."
            )));
        }
        Ok(text.split(',').map(Self::new).collect())
    }

    /// Returns the pattern as the user wrote it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern is the name of a single cgroup.
    pub(crate) fn is_name(&self) -> bool {
        !is_pattern(&self.text)
    }

    /// Returns whether a name matches.
    pub(crate) fn matches(&self, name: &Path) -> bool {
        matches(&self.levels, &levels(name))
    }

    /// Returns whether the name of a cgroup below `name` may match.
    pub(crate) fn may_match_below(&self, name: &Path) -> bool {
        may_match_below(&self.levels, &levels(name))
    }
}

/// Returns the levels of a name.
fn levels(name: &Path) -> Vec<&[u8]> {
    name.iter().map(OsStrExt::as_bytes).collect()
}

fn matches(pattern: &[String], name: &[&[u8]]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        ([first, rest @ ..], _) if first == ANY_LEVELS => {
            matches(rest, name) || name.get(1..).is_some_and(|below| matches(pattern, below))
        }
        ([first, rest @ ..], [level, below @ ..]) => {
            matches_glob(first.as_bytes(), level) && matches(rest, below)
        }
        _ => false,
    }
}

fn may_match_below(pattern: &[String], name: &[&[u8]]) -> bool {
    match (pattern, name) {
        ([], _) => false,
        ([first, ..], _) if first == ANY_LEVELS => true,
        (_, []) => true,
        ([first, rest @ ..], [level, below @ ..]) => {
            matches_glob(first.as_bytes(), level) && may_match_below(rest, below)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_within_a_level_except_double_stars() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("/a/", "a", true),
            ("a", "a/b", false),
            ("a/b", "a", false),
            ("a*", "abc", true),
            ("a*", "abc/d", false),
            ("*/d", "abc/d", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("**", "", true),
            ("**", "a/b/c", true),
            ("a/**", "a", true),
            ("a/**", "a/b/c", true),
            ("a/**", "b", false),
            ("**/c", "c", true),
            ("**/c", "a/b/c", true),
            ("**/c", "a/b/c/d", false),
            ("a/**/d*", "a/b/c/d1", true),
            ("a/**/d*", "a/d1", true),
            ("", "", true),
            ("/", "", true),
            ("/", "a", false),
            // systemd escapes a hyphen in this way.
            ("a\\x2db.slice", "a\\x2db.slice", true),
        ] {
            let matches = Pattern::new(pattern).matches(Path::new(name));
            assert_eq!(matches, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn only_cgroups_that_may_contain_matches_are_searched() {
        for (pattern, name, expected) in [
            ("a/b", "", true),
            ("a/b", "a", true),
            ("a/b", "b", false),
            ("a/b", "a/b", false),
            ("a/**", "a/b/c", true),
            ("a/**", "b", false),
            ("**/c", "x/y", true),
            ("*/b", "x", true),
            ("", "", false),
        ] {
            let may_match = Pattern::new(pattern).may_match_below(Path::new(name));
            assert_eq!(may_match, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn an_empty_pattern_is_refused() {
        let texts = |text| {
            let patterns = Pattern::list("--cgroups", text).ok()?;
            let texts = patterns.iter().map(|pattern| pattern.text().to_owned());
            Some(texts.collect::<Vec<String>>())
        };
        assert_eq!(texts("a/*,/"), Some(vec!["a/*".to_owned(), "/".to_owned()]));
        for text in ["", "a,", ",a", "a,,b"] {
            assert_eq!(texts(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_no_patterns() {
        assert!(Pattern::new("system.slice/a-b.service").is_name());
        assert!(!Pattern::new("system.slice/*").is_name());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the prose in a file: its comments, or all of a page of documentation.

use std::path::Path;

/// The kind of a file, by which its prose is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    C,
    /// Shell, Python, make: from `#` to the end of the line.
    Hash,
    /// A page of documentation, all of which is prose.
    Page,
}

impl Language {
    /// Returns the language of a file with this name and text; `None` if it has no prose.
    pub(crate) fn of(path: &Path, text: &str) -> Option<Self> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension.unwrap_or_default() {
            "rs" => Some(Self::Rust),
            "c" | "h" | "cc" => Some(Self::C),
            "rst" | "md" | "4" => Some(Self::Page),
            "sh" | "py" | "mk" => Some(Self::Hash),
            _ if path.ends_with("Makefile") || text.starts_with("#!") => Some(Self::Hash),
            _ => None,
        }
    }

    /// Returns the lines of prose without their mark, each with its number from 1 on. In Rust the third slash of
    /// documentation stays.
    pub(crate) fn lines(self, text: &str) -> Vec<(usize, &str)> {
        let mut in_block = false;
        let prose = |line| match self {
            Self::Page => Some(line),
            Self::Rust => text_after(line, "//"),
            Self::Hash => line.strip_prefix('#').or_else(|| {
                let position = line.find(" #").or_else(|| line.find("\t#"))?;
                Some(&line[position + 2..])
            }),
            Self::C => c_comment(line, &mut in_block),
        };
        let lines = text.lines().map(prose).zip(1..);
        lines
            .filter_map(|(line, number)| Some((number, line?)))
            .collect()
    }
}

fn text_after<'t>(line: &'t str, mark: &str) -> Option<&'t str> {
    line.split_once(mark).map(|(_, rest)| rest)
}

/// Returns the comment in a line of C. On entry `in_block` is true if the line begins inside a block comment; on return,
/// if the line ends inside one.
fn c_comment<'t>(line: &'t str, in_block: &mut bool) -> Option<&'t str> {
    let comment = if *in_block {
        line
    } else {
        *in_block = line.contains("/*");
        text_after(line, "/*").or_else(|| text_after(line, "//"))?
    };
    match comment.split_once("*/") {
        Some((comment, _)) => {
            *in_block = false;
            Some(comment)
        }
        None => Some(comment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_in_each_language() {
        let c = "int who; /* one */\n/*\n * two\n */\nint x; // three\n";
        let comments = Language::C.lines(c);
        let words: Vec<&str> = comments.iter().map(|(_, line)| line.trim()).collect();
        assert_eq!(words, ["one", "", "* two", "", "three"]);
        let shell = "#!/bin/sh\nwho=$#; x=${who#y} # one\n\t# two\n";
        let comments = Language::Hash.lines(shell);
        assert_eq!(comments, [(1, "!/bin/sh"), (2, " one"), (3, " two")]);
        assert_eq!(Language::Rust.lines("x // one\ny\n"), [(1, " one")]);
        assert_eq!(Language::Page.lines("a\nb"), [(1, "a"), (2, "b")]);
    }

    #[test]
    fn a_script_needs_no_ending() {
        let language_of = |name, text| Language::of(Path::new(name), text);
        assert_eq!(
            language_of("selftests/run", "#!/bin/sh\n"),
            Some(Language::Hash)
        );
        assert_eq!(language_of("selftests/Makefile", ""), Some(Language::Hash));
        assert_eq!(
            language_of("Documentation/perfmon.4", ""),
            Some(Language::Page)
        );
        assert_eq!(language_of("selftests/tests.list", "# a list\n"), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the words of the comments of the kernel module and of the user-space crates.
//!
//! A caller, a reader and a writer are called that. A SAFETY comment stands by itself. Documentation begins with a noun,
//! or with what a function does.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::arrows::{MODULE, sources};

/// The folders of sources.
const FOLDERS: [&str; 2] = [MODULE, "user"];

/// Files and folders with other words: made from C headers, options whose documentation is their help, what cargo
/// makes, and the words that are found here.
const SKIPPED: [&str; 5] = [
    "rust/perfmon/abi/perfmon.rs",
    "rust/perfmon/sys/ffi.rs",
    "user/pmctl/src/args",
    "user/target",
    "user/xtask/src/words.rs",
];

/// Words for a caller, a reader or a writer that do not say which.
const VAGUE: [&str; 6] = ["who", "whom", "whoever", "nobody", "somebody", "heed"];

/// Reasons that stand in another place.
const ELSEWHERE: [&str; 4] = [
    "As above",
    "By the requirement",
    "By the type invariant",
    "By the type invariants",
];

/// First words of documentation that has no noun.
const NO_NOUN: [&str; 9] = [
    "Of", "Those", "That", "Also", "They", "It", "Whether", "Who", "How",
];

/// Fails with each comment that has such words.
pub(crate) fn check(top: &Path) -> Result<()> {
    let mut wrong = Vec::new();
    for folder in FOLDERS {
        for path in sources(&top.join(folder))? {
            let name = path.strip_prefix(top)?;
            if SKIPPED.iter().any(|skipped| name.starts_with(skipped)) {
                continue;
            }
            let text = fs::read_to_string(&path)
                .with_context(|| format!("can't read {}", path.display()))?;
            for (number, fault) in faults(&text) {
                wrong.push(format!("  {}:{number}: {fault}", name.display()));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(
        "These comments can't be understood alone:\n{}",
        wrong.join("\n")
    )
}

/// Returns the faults of a file, each with the number of its line.
fn faults(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_documentation = false;
    for (at, line) in text.lines().enumerate() {
        let mut fault = |what: String| found.push((at + 1, what));
        let Some((_, comment)) = line.split_once("//") else {
            in_documentation = false;
            continue;
        };
        let documentation = comment.strip_prefix('/').map(str::trim);
        let comment = comment.trim_start_matches(['/', '!']).trim();
        let words = comment.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '`');
        for word in words.filter(|word| VAGUE.contains(&word.to_lowercase().as_str())) {
            fault(format!(
                "'{word}' does not say which caller, reader or writer"
            ));
        }
        if let Some(reason) = comment.strip_prefix("SAFETY: ") {
            let reason = reason.trim_end_matches('.');
            if ELSEWHERE.contains(&reason) || reason.starts_with("As above") {
                fault(format!("'{reason}' is a reason in another place"));
            }
        }
        let first = documentation.and_then(|text| text.split(' ').next());
        if let Some(first) = first.filter(|first| !in_documentation && NO_NOUN.contains(first)) {
            fault(format!(
                "documentation that begins with '{first}' has no noun"
            ));
        }
        in_documentation = documentation.is_some();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        faults(text).iter().map(|(line, _)| *line).collect()
    }

    #[test]
    fn vague_words_are_found_in_comments() {
        assert_eq!(
            lines("let who = 1;\n// Nobody waits.\n//! Those who poll.\n"),
            [2, 3]
        );
        assert_eq!(lines("// The caller whose buffer it is.\n"), [0; 0]);
    }

    #[test]
    fn reasons_stand_by_themselves() {
        assert_eq!(
            lines("// SAFETY: As above.\n// SAFETY: By the requirement.\n"),
            [1, 2]
        );
        assert_eq!(
            lines("// SAFETY: The caller keeps the page alive.\n"),
            [0; 0]
        );
    }

    #[test]
    fn documentation_begins_with_a_noun() {
        assert_eq!(lines("/// Of a sample: written.\nx: u8,\n"), [1]);
        assert_eq!(
            lines("/// The sample.\n///\n/// It is written.\nx: u8,\n"),
            [0; 0]
        );
    }
}

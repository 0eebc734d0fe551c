// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the words of comments, of the documentation and of the subjects of commits.
//!
//! Comments name a caller, a reader or a writer by these words. A SAFETY comment contains its
//! reason. A doc comment in Rust begins with a noun, or, for a function, with a verb. The subject
//! of a commit names an area, and then begins with a verb.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arrows::MODULE;
use crate::comments::Language;

/// The folders and the file that are checked.
const CHECKED_PATHS: [&str; 6] = [
    MODULE,
    "user",
    "selftests",
    "scripts",
    "Documentation",
    "README.md",
];

/// Files and folders that are not checked: bindings of C headers, patches for another project, options whose
/// documentation is their help, cargo's output, and this file, which contains the words.
const SKIPPED_PATHS: [&str; 6] = [
    "rust/perfmon/abi/perfmon.rs",
    "rust/perfmon/sys/ffi.rs",
    "selftests/vm/qemu/patches",
    "user/pmctl/src/args",
    "user/target",
    "user/xtask/src/words.rs",
];

/// Vague words, which could mean a caller, a reader or a writer.
const VAGUE_WORDS: [&str; 6] = ["who", "whom", "whoever", "nobody", "somebody", "heed"];

/// Words for people, after which `who` is clear.
const PEOPLE: [&str; 5] = ["user", "users", "reader", "readers", "people"];

/// Texts of SAFETY comments that only refer to a reason in another place.
const REFERENCES_TO_REASONS: [&str; 4] = [
    "As above",
    "By the requirement",
    "By the type invariant",
    "By the type invariants",
];

/// First words of documentation that does not begin with a noun.
const FIRST_WORDS_WITHOUT_NOUN: [&str; 15] = [
    "Of", "Those", "That", "These", "Also", "They", "It", "Whether", "Who", "How", "What", "As",
    "To", "Other", "There",
];

/// First words of subjects that are not imperative.
const FIRST_WORDS_WITHOUT_VERB: [&str; 12] = [
    "a", "an", "the", "what", "how", "those", "that", "it", "no", "each", "all", "more",
];

/// Fails with a list of the places that have such words.
pub(crate) fn check(top: &Path) -> Result<()> {
    let mut faulty_places = Vec::new();
    for path in CHECKED_PATHS
        .iter()
        .map(|path| files_below(&top.join(path)))
        .collect::<Result<Vec<_>>>()?
        .concat()
    {
        let name = path.strip_prefix(top)?;
        // A file that is not UTF-8 has no prose.
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        if SKIPPED_PATHS
            .iter()
            .any(|skipped| name.starts_with(skipped))
        {
            continue;
        }
        for (number, fault) in faults(name, &text) {
            faulty_places.push(format!("  {}:{number}: {fault}", name.display()));
        }
    }
    if faulty_places.is_empty() {
        return Ok(());
    }
    bail!(
        "These comments and texts are not clear by themselves:\n{}",
        faulty_places.join("\n")
    )
}

/// Fails with a list of the faults of the subjects on standard input.
pub(crate) fn check_subjects() -> Result<()> {
    let mut subjects = String::new();
    let result = std::io::stdin().read_to_string(&mut subjects);
    result.context("can't read standard input")?;
    let faults = subjects
        .lines()
        .flat_map(|subject| {
            let faults = faults_of_subject(subject).into_iter();
            faults.map(move |fault| format!("  {subject}: {fault}"))
        })
        .collect::<Vec<_>>();
    if faults.is_empty() {
        return Ok(());
    }
    bail!("Subjects of commits with faults:\n{}", faults.join("\n"))
}

/// Returns all files below a folder, or the file itself.
fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        files.extend(files_below(&entry?.path())?);
    }
    files.sort();
    Ok(files)
}

/// Returns the faults of a file, each with the number of its line.
fn faults(name: &Path, text: &str) -> Vec<(usize, String)> {
    let Some(language) = Language::of(name, text) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    // The number of the line before, and its last word.
    let mut last_word = (0, String::new());
    // The number of the line of documentation that was read last.
    let mut last_documentation = None;
    for (number, line) in language.lines(text) {
        let mut fault = |message: String| faults.push((number, message));
        // A sentence may go on in the next line.
        let (last, word) = last_word;
        let word = if last + 1 == number {
            word
        } else {
            String::new()
        };
        let (vague, word) = vague_words(line, word);
        vague.into_iter().for_each(&mut fault);
        last_word = (number, word);
        if language == Language::Rust {
            let is_first = last_documentation != Some(number - 1);
            faults_of_rust(line, is_first).into_iter().for_each(fault);
            if is_documentation(line) {
                last_documentation = Some(number);
            }
        }
    }
    faults
}

/// Returns whether a comment in Rust is documentation of an item or of a file, by its third character.
fn is_documentation(line: &str) -> bool {
    line.starts_with(['/', '!'])
}

/// Returns the faults in the words of a line that follows the word `before`, and its last word.
fn vague_words(line: &str, mut before: String) -> (Vec<String>, String) {
    let mut faults = Vec::new();
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '`');
    for word in words.filter(|word| !word.is_empty()) {
        let lower_word = word.to_lowercase();
        let is_clear = lower_word == "who" && PEOPLE.contains(&before.as_str());
        if VAGUE_WORDS.contains(&lower_word.as_str()) && !is_clear {
            faults.push(format!(
                "'{word}' does not say which caller, reader or writer"
            ));
        }
        before = lower_word;
    }
    (faults, before)
}

/// Returns the faults of a comment in Rust. `is_first` is false if the line before is documentation, too.
fn faults_of_rust(line: &str, is_first: bool) -> Vec<String> {
    let mut faults = Vec::new();
    let documentation = is_documentation(line).then(|| line[1..].trim());
    let comment = line.trim_start_matches(['/', '!']).trim();
    if let Some(reason) = comment.strip_prefix("SAFETY: ") {
        let reason = reason.trim_end_matches('.');
        if REFERENCES_TO_REASONS.contains(&reason) || reason.starts_with("As above") {
            faults.push(format!("'{reason}' refers to a reason in another place"));
        }
    }
    let first_word = documentation.and_then(|text| text.split(' ').next());
    if let Some(first_word) =
        first_word.filter(|first_word| is_first && FIRST_WORDS_WITHOUT_NOUN.contains(first_word))
    {
        faults.push(format!(
            "documentation begins with '{first_word}' instead of a noun"
        ));
    }
    faults
}

/// Returns the faults of the subject of a commit.
fn faults_of_subject(subject: &str) -> Vec<String> {
    let (mut faults, _) = vague_words(subject, String::new());
    let predicate = subject.rsplit(": ").next().unwrap_or(subject);
    if predicate == subject {
        faults.push("it names no area, as in `pmctl: stat: ...`".to_owned());
    }
    let first_word = predicate.split(' ').next().unwrap_or_default();
    if FIRST_WORDS_WITHOUT_VERB.contains(&first_word.to_lowercase().as_str()) {
        faults.push(format!(
            "'{first_word}' is not a verb: say what the commit does"
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(name: &str, text: &str) -> Vec<usize> {
        let faults = faults(Path::new(name), text);
        faults.iter().map(|(line, _)| *line).collect()
    }

    fn lines(text: &str) -> Vec<usize> {
        lines_of("x.rs", text)
    }

    #[test]
    fn vague_words_are_found_in_comments() {
        assert_eq!(
            lines("let who = 1;\n// Nobody waits.\n//! Programs, those who poll.\n"),
            [2, 3]
        );
        assert_eq!(lines("// The caller whose buffer it is.\n"), [0; 0]);
        assert_eq!(
            lines_of("x.sh", "who=1 # nobody\necho who # x\n# heed\n"),
            [1, 3]
        );
        assert_eq!(lines_of("x.c", "int who;\n/*\n * who\n */\n"), [3]);
    }

    #[test]
    fn who_is_clear_after_people() {
        let page = "A user\nwho may count.\n\nReaders who want.\nThose who want.\n";
        assert_eq!(lines_of("x.rst", page), [5]);
        assert_eq!(lines("// The user\n\n// who waits\n"), [3]);
    }

    #[test]
    fn a_safety_comment_gives_its_reason_itself() {
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
        assert_eq!(lines("//! What is sampled.\n//!\n//! It is rare.\n"), [1]);
        assert_eq!(
            lines("/// The sample.\n///\n/// It is written.\nx: u8,\n"),
            [0; 0]
        );
    }

    #[test]
    fn a_subject_has_an_area_and_a_verb() {
        let count = |subject| faults_of_subject(subject).len();
        assert_eq!(count("pmctl: stat: print each table once"), 0);
        assert_eq!(count("print each table once"), 1);
        assert_eq!(count("pmctl: the tables"), 1);
        assert_eq!(count("doc: say who waits"), 1);
    }
}

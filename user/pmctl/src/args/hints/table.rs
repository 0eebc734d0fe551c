// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads `hints.txt`, whose first lines describe its format.

const HINTS_TEXT: &str = include_str!("hints.txt");

/// The command in the table that stands for perf itself, whose "options" are commands of perf.
pub(super) const PERF: &str = "perf";

/// The prefix of an answer that offers no alternative.
const NO_ALTERNATIVE: &str = "not: ";

/// An answer to an option or a command of perf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hint {
    pub(super) name: &'static str,
    pub(super) answer: &'static str,
    /// The answer offers an alternative.
    pub(super) has_alternative: bool,
}

/// Returns the hints for `command`, in the order of the table.
pub(super) fn hints(command: &str) -> impl Iterator<Item = Hint> {
    let rows = parse_rows(HINTS_TEXT).filter(move |row| row.command == command);
    rows.flat_map(|row| {
        let (answer, has_alternative) = match row.answer.strip_prefix(NO_ALTERNATIVE) {
            Some(answer) => (answer, false),
            None => (row.answer, true),
        };
        row.names.split(' ').map(move |name| Hint {
            name,
            answer,
            has_alternative,
        })
    })
}

/// An answer, and one of the lines below it in the table: a command, and the names of options that have this answer.
struct AnswerRow<'t> {
    answer: &'t str,
    command: &'t str,
    names: &'t str,
}

fn parse_rows(table: &str) -> impl Iterator<Item = AnswerRow<'_>> {
    let mut answer = "";
    let lines = table.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(move |line| {
        let Some(row) = line.strip_prefix("  ") else {
            answer = line;
            return None;
        };
        let (command, names) = row.split_once(' ')?;
        Some(AnswerRow {
            answer,
            command,
            names,
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn answers_have_rows_and_each_name_stands_once() {
        let mut answers = HashSet::new();
        let mut names = HashSet::new();
        for row in parse_rows(HINTS_TEXT) {
            assert!(row.answer.ends_with('.'), "{}", row.answer);
            answers.insert(row.answer);
            for name in row.names.split(' ') {
                assert_eq!(name.starts_with('-'), row.command != PERF, "{name}");
                assert!(names.insert((row.command, name)), "{} {name}", row.command);
            }
        }
        let lines = HINTS_TEXT
            .lines()
            .filter(|line| !line.starts_with(['#', ' ']));
        assert_eq!(lines.filter(|line| !line.is_empty()).count(), answers.len());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the page of the documentation with perf's options and what pmctl does with each.

use std::fmt::Write as _;

use clap::{Arg, Command};

use super::options;
use super::table::{Hint, hints};

const PAGE_HEAD: &str = "\
.. SPDX-License-Identifier: GPL-2.0-only
.. Made by `cargo xtask pmctl`: not to be edited.

pmctl for users of perf
=======================

This page lists the options of ``perf stat`` and ``perf record`` (Linux 7.3). For perf's commands that show
samples, it lists only the commonest options that pmctl lacks. In each row one of three columns says what
pmctl does: it has the option, another way replaces the option, or pmctl does not support it. On the
command line, pmctl answers an option that it lacks with the same text.

The counters are the driver's: each event has a counter all the time, and no number is an estimate.
pmctl refuses events that perf would scale, except with ``pmctl stat --multiplex``. Under ``pmctl wrap``
perf scales as usual; ``--exact`` prevents this.

``perf stat record`` and ``perf stat report`` are ``pmctl stat --record FILE`` and
``pmctl stat --report FILE``; the file is the JSON object of ``--json=v1``, and ``--report`` shows it in
any format: with ``-x,``, ``--json``, ``--metric-only``.

The kernel counts ``task-clock``, ``cpu-clock``, ``page-faults``, ``minor-faults``, ``major-faults``,
``context-switches`` and ``cpu-migrations`` without a counter. ``-e`` accepts them together with other
events, and shows one number for all counted tasks. For a user who may not count the kernel, the kernel's
part is left out, as with perf, and the name ends in ``:u``. The clocks count all modes in any case. Context
switches and migrations happen in the kernel only: where perf shows 0, pmctl shows ``<not supported>``.
Without ``-e`` these events are not counted, but the time of a command, and its time in user mode and in
the kernel, are below every ``pmctl stat``. ``-e duration_time`` has the time also in the lines of ``-x,``, ``--json`` and
``-I``; ``user_time`` and ``system_time`` are no events.
Use ``pmctl wrap -- perf stat`` for tracepoints.
";

/// Returns the page as reStructuredText.
#[must_use]
pub fn page(pmctl: &Command) -> String {
    let mut text = PAGE_HEAD.to_owned();
    for (name, options) in perf_options() {
        let Some(command) = pmctl.find_subcommand(name) else {
            continue;
        };
        let title = format!("perf {name}");
        let _ = write!(
            text,
            "\n{title}\n{}\n\n.. list-table::\n   :header-rows: 1\n   :widths: 25 25 25 25\n\n   * - perf's option\n     - \
             pmctl has it\n     - another way\n     - not\n",
            "-".repeat(title.len())
        );
        for (options, answer) in group_by_answer(command, &options) {
            let [supported, alternative, unsupported] = answer.columns();
            let _ = writeln!(
                text,
                "   * - {}\n     -{supported}\n     -{alternative}\n     -{unsupported}",
                options.join(", ")
            );
        }
    }
    text
}

/// Returns perf's commands with their options. Commands that show samples have only the options for which there are hints.
fn perf_options() -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("stat", options::STAT_OPTIONS.to_owned()),
        ("record", options::RECORD_OPTIONS.to_owned()),
    ];
    let viewing = ["report", "script", "annotate", "top", "diff"].into_iter();
    rows.extend(viewing.map(|name| {
        let options: Vec<&str> = hints(name).map(|hint| hint.name).collect();
        (name, options.join(" "))
    }));
    rows
}

/// The answer that the page gives for an option of perf.
#[derive(Debug, PartialEq)]
enum HintAnswer {
    /// pmctl has the option; the text is its help.
    Supported(String),
    /// pmctl has another way to do the same, which the text describes.
    Alternative(String),
    /// pmctl has nothing like the option; the text says why.
    Unsupported(String),
}

impl HintAnswer {
    /// Returns the three columns of a row: the column of this answer has its text after a blank, and the others are
    /// empty.
    fn columns(&self) -> [String; 3] {
        let mut columns = [const { String::new() }; 3];
        let (column, text) = match self {
            Self::Supported(text) => (0, text),
            Self::Alternative(text) => (1, text),
            Self::Unsupported(text) => (2, text),
        };
        columns[column] = format!(" {text}");
        columns
    }
}

/// Returns the answer of a hint.
fn hint_answer(hint: Hint) -> HintAnswer {
    let text = to_rst(hint.answer);
    if hint.has_alternative {
        HintAnswer::Alternative(text)
    } else {
        HintAnswer::Unsupported(text)
    }
}

/// Groups options by their answer, and returns each group with its answer. Options without an answer are left out.
fn group_by_answer(command: &Command, options: &str) -> Vec<(Vec<String>, HintAnswer)> {
    let mut rows: Vec<(Vec<String>, HintAnswer)> = Vec::new();
    for option in options.split_whitespace() {
        let name = option.split('=').next().unwrap_or(option);
        let own_option = command.get_arguments().find(|arg| is_called(arg, name));
        let hint = hints(command.get_name()).find(|hint| hint.name == name);
        let answer = match (own_option, hint) {
            (Some(arg), _) => HintAnswer::Supported(option_help(arg, name)),
            (None, Some(hint)) => hint_answer(hint),
            (None, None) => continue,
        };
        let markup = format!("``{name}``");
        match rows.iter_mut().find(|(_, known)| *known == answer) {
            Some((names, _)) if !names.contains(&markup) => names.push(markup),
            Some(_) => {}
            None => rows.push((vec![markup], answer)),
        }
    }
    rows
}

/// Returns whether `name` is the short or the long name of the option.
pub(super) fn is_called(arg: &Arg, name: &str) -> bool {
    match name.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long)
                || arg
                    .get_all_aliases()
                    .is_some_and(|aliases| aliases.contains(&long))
        }
        None => name
            .chars()
            .nth(1)
            .is_some_and(|short| arg.get_short() == Some(short)),
    }
}

/// Returns the help of an option of pmctl, with its name in pmctl if the names differ.
fn option_help(arg: &Arg, name: &str) -> String {
    if arg.is_hide_set() {
        return "Accepted without effect: pmctl always does this, or the option has no meaning here.".to_owned();
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let long_name = arg.get_long().unwrap_or_default();
    let has_other_name = name.starts_with("--") && long_name != &name[2..];
    let name_note = if has_other_name {
        format!(" (``--{long_name}``)")
    } else {
        String::new()
    };
    format!("{}{name_note}.", to_rst(&help))
}

/// Converts a text to reStructuredText: code is in double backticks, and stars elsewhere are escaped.
fn to_rst(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(number, part)| match number % 2 {
        0 => part.replace('*', "\\*"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("``")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn stars_are_escaped_outside_of_code() {
        assert_eq!(to_rst("a * `b*` c*"), "a \\* ``b*`` c\\*");
        assert_eq!(to_rst("`**`"), "``**``");
    }

    #[test]
    fn every_option_has_an_answer() {
        let mut pmctl = Cli::command();
        pmctl.build();
        for (name, options) in perf_options() {
            let command = pmctl.find_subcommand(name).expect("it is there");
            let rows = group_by_answer(command, &options);
            let answered_names: Vec<&String> = rows.iter().flat_map(|(names, _)| names).collect();
            for option in options.split_whitespace() {
                let option = option.split('=').next().unwrap_or(option);
                assert!(
                    answered_names.contains(&&format!("``{option}``")),
                    "{option}"
                );
            }
        }
    }
}

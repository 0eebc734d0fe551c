// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers to options and commands of perf that pmctl lacks: the text to type instead.

mod options;
mod page;
mod table;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use page::is_called;
pub use page::page;
use table::{Hint, PERF, hints};

/// Returns the message about an option or command of perf that pmctl lacks; `None` for other mistakes.
pub(crate) fn perf_user_message(error: &clap::Error, command: &str) -> Option<String> {
    if let Some(message) = conflict_message(error) {
        return Some(message.to_owned());
    }
    if let Some(message) = column_message(error) {
        return Some(message);
    }
    if let Some(Hint { name, answer, .. }) = hint_for_option(error, command) {
        return Some(format!("there is no option `{name}`.\n{answer}"));
    }
    if let Some(file) = stray_file(error, command) {
        return Some(format!(
            "a recording is named by -i: `pmctl {command} -i {file}`."
        ));
    }
    let Hint { name, answer, .. } = hint_for_command(error)?;
    Some(format!("there is no command `{name}`.\n{answer}"))
}

/// Returns the message about `record -gdwarf`, which clap parses as several options of one letter, if that is the mistake.
pub(crate) fn attached_mode_message(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let (command, words) = words.split_first()?;
    if error.kind() != ErrorKind::UnknownArgument || command != "record" {
        return None;
    }
    let words = words.iter().take_while(|word| *word != "--");
    let mut words = words.filter_map(|word| word.to_str());
    words.find_map(|word| {
        let mode = word.strip_prefix("-g")?;
        let is_mode = matches!(mode.split(',').next(), Some("fp" | "dwarf" | "lbr"));
        is_mode
            .then(|| format!("{word}: write `--call-graph {mode}`, or `-g {mode}` with a blank."))
    })
}

/// Returns whether clap suggests an option that is hidden from the help of `command`.
pub(crate) fn suggests_hidden_option(error: &clap::Error, command: &clap::Command) -> bool {
    let Some(ContextValue::String(name)) = error.get(ContextKind::SuggestedArg) else {
        return false;
    };
    let mut options = command.get_arguments();
    options.any(|option| option.is_hide_set() && is_called(option, name))
}

const TWICE_DETAILED: &str = "-d: it can be given once, since the further events of perf's `-d -d` would have to share \
                              counters. Name those that you want: `pmctl stat -e dTLB-load-misses,iTLB-load-misses -- \
                              COMMAND`.";

const PERIOD_AND_FREQUENCY: &str = "-c, -F: pmctl cannot set frequency and period at the same time. -c N takes a sample every N events, -F HZ \
                                    about HZ per second: give one of the two.";

/// Returns the message about options that exclude each other, where users of perf expect something else.
fn conflict_message(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(name) if name == "--detailed" => Some(TWICE_DETAILED),
        ContextValue::String(name) if name == "--period <N>" || name == "--freq <HZ>" => {
            Some(PERIOD_AND_FREQUENCY)
        }
        _ => None,
    }
}

/// Columns of reports that perf's --sort takes, each with its place in pmctl.
const PERF_COLUMNS: [(&str, &str); 2] = [
    (
        "period",
        "the column `overhead` shows it as a percentage of the event count above the table; leave `period` out.",
    ),
    (
        "overhead_children",
        "`--children` shows it. Leave it out of --sort.",
    ),
];

/// Returns the message about a column of perf in the place of a key, if that is the mistake.
fn column_message(error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    if error.kind() != ErrorKind::InvalidValue
        || context(ContextKind::InvalidArg)? != "--sort <KEYS>"
    {
        return None;
    }
    let value = context(ContextKind::InvalidValue)?;
    let (name, answer) = PERF_COLUMNS.iter().find(|(name, _)| *name == value)?;
    Some(format!("--sort {name}: {answer}"))
}

/// Returns the hint about an option of perf that pmctl lacks, if that is the mistake.
fn hint_for_option(error: &clap::Error, command: &str) -> Option<Hint> {
    let name = unknown_word(error)?;
    hints(command).find(|hint| hint.name == name)
}

/// Returns the option or argument that the command does not know, if that is the mistake.
fn unknown_word(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (ErrorKind::UnknownArgument, ContextValue::String(name)) => Some(name),
        _ => None,
    }
}

/// Returns the file in the place of a command's argument, as in `perf report FILE`, if that is the mistake: these
/// commands take a file only with -i.
fn stray_file<'a>(error: &'a clap::Error, command: &str) -> Option<&'a str> {
    const READING_COMMANDS: [&str; 4] = ["report", "script", "flamegraph", "export"];
    unknown_word(error).filter(|name| READING_COMMANDS.contains(&command) && !name.starts_with('-'))
}

/// Returns the hint about a command of perf that pmctl lacks, if that is the mistake.
fn hint_for_command(error: &clap::Error) -> Option<Hint> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    hints(PERF).find(|hint| hint.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;

    fn parse_error(command: &str, words: &[&str]) -> Option<clap::Error> {
        Cli::try_parse_from([&["pmctl", command], words, &["true"]].concat()).err()
    }

    #[test]
    fn an_option_of_perf_works_or_has_a_hint() {
        let all = [
            ("record", options::RECORD_OPTIONS),
            ("stat", options::STAT_OPTIONS),
        ];
        let options = |(command, options): (&'static str, &'static str)| {
            let options = options.split_whitespace();
            options.map(move |option| (command, option))
        };
        for (command, option) in all.into_iter().flat_map(options) {
            // Options that clap requires together with this one.
            let required_options: &[&str] = match option.split('=').next() {
                Some("--interval-count" | "--interval-clear" | "--summary") => &["-I100"],
                Some("--append") => &["-ox"],
                Some("--td-level") => &["--topdown"],
                Some("--switch-max-files") => &["--switch-output"],
                Some("--log-fd") => &["-x,"],
                _ => &[],
            };
            let word = match option.split_once('=') {
                Some((name, value)) if !name.starts_with("--") => format!("{name}{value}"),
                _ => option.to_owned(),
            };
            if let Some(error) = parse_error(command, &[required_options, &[&word]].concat()) {
                assert!(
                    perf_user_message(&error, command).is_some(),
                    "{command} {option}: {error}"
                );
            }
        }
    }

    #[test]
    fn a_recording_without_its_option_has_a_hint() {
        let error = Cli::try_parse_from(["pmctl", "report", "old.data"]).expect_err("it needs -i");
        let message = perf_user_message(&error, "report").unwrap_or_default();
        assert!(message.contains("`pmctl report -i old.data`"), "{error}");
        let error = Cli::try_parse_from(["pmctl", "report", "--olddata"]).expect_err("it is none");
        assert_eq!(perf_user_message(&error, "report"), None);
    }

    #[test]
    fn hints_are_for_options_that_pmctl_lacks() {
        for command in [
            "record", "stat", "report", "script", "annotate", "top", "diff",
        ] {
            assert!(hints(command).count() > 0, "{command}");
            for Hint { name, .. } in hints(command) {
                let error = parse_error(command, &[name]).expect(name);
                let message = perf_user_message(&error, command).unwrap_or_default();
                assert!(
                    message.contains(&format!("no option `{name}`")),
                    "{name}: {error}"
                );
            }
        }
    }
}

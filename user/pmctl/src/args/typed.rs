// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line as the user typed it, for messages: clap's errors have only the long names of options, and don't say
//! which option needs another one.

use std::ffi::OsString;

use clap::{Arg, Command};

/// Pairs of options by their long names: the first one needs the second one.
const REQUIRED_OPTIONS: [(&str, &str); 8] = [
    ("append", "output"),
    ("count", "timebase"),
    ("interval-clear", "interval"),
    ("interval-count", "interval"),
    ("summary", "interval"),
    ("switch-max-files", "switch-output"),
    ("td-level", "topdown"),
    ("timebase", "count"),
];

/// A command line as the user typed it.
pub(super) struct TypedCommandLine<'a> {
    /// The words before any `--`: the subcommand and its arguments.
    words: Vec<&'a str>,
    /// clap's definition of the subcommand; `None` for an unknown name.
    definition: Option<&'a Command>,
}

impl<'a> TypedCommandLine<'a> {
    /// Parses the words after the program's name.
    pub(super) fn new(words: &'a [OsString], pmctl: &'a Command) -> Self {
        let words = words.iter().take_while(|word| *word != "--");
        let words: Vec<&str> = words
            .map(|word| word.to_str().unwrap_or_default())
            .collect();
        let name = words.first().copied().unwrap_or_default();
        Self {
            definition: pmctl.find_subcommand(name),
            words,
        }
    }

    /// Returns the name of the command; empty if there is none.
    pub(super) fn command(&self) -> &'a str {
        self.definition.map_or("", Command::get_name)
    }

    /// Returns `pmctl` with the name of the command.
    pub(super) fn program(&self) -> String {
        match self.command() {
            "" => "pmctl".to_owned(),
            command => format!("pmctl {command}"),
        }
    }

    /// Returns the name for messages of clap's `clap_name`: for an option such as `--long <VALUE>`,
    /// the name that the user typed; for an argument such as `[WORD]...`, the word without
    /// brackets.
    pub(super) fn name(&self, clap_name: &str) -> String {
        let Some(long) = long_name(clap_name) else {
            return unbracketed(clap_name).to_owned();
        };
        match self.short_name(long) {
            Some(short) if !self.has_long(long) => short,
            _ => format!("--{long}"),
        }
    }

    /// Returns a typed option, and the option that it needs. The needed option is one of `missing`,
    /// the options that clap reports as missing.
    pub(super) fn option_and_missing_one(&self, missing: &[&str]) -> Option<(String, String)> {
        let typed_with_missing = |(option, needed): &(&'static str, &'static str)| {
            let is_needed = |reported: &&&str| long_name(reported) == Some(*needed);
            let reported = missing.iter().find(is_needed)?;
            self.has_long(option)
                .then_some((*option, *needed, *reported))
        };
        let (option, needed, reported) = REQUIRED_OPTIONS.iter().find_map(typed_with_missing)?;
        // `[=<VALUE>]` is a value that may be omitted, so it is not shown.
        let value = reported
            .split_once(" <")
            .map_or("", |(_, value)| value.trim_end_matches('>'));
        let name = self
            .short_name(needed)
            .unwrap_or_else(|| format!("--{needed}"));
        let needed = format!("{name} {value}");
        Some((format!("--{option}"), needed.trim_end().to_owned()))
    }

    /// Returns the words that an option takes as its value; empty if it takes any text, and for arguments that are not
    /// options.
    pub(super) fn values(&self, clap_name: &str) -> Vec<String> {
        let Some((definition, long)) = self.definition.zip(long_name(clap_name)) else {
            return Vec::new();
        };
        let mut options = definition.get_arguments();
        let option = options.find(|option| option.get_long() == Some(long));
        let values = option.map_or(Vec::new(), Arg::get_possible_values);
        let shown_values = values.iter().filter(|value| !value.is_hide_set());
        shown_values
            .map(|value| value.get_name().to_owned())
            .collect()
    }

    /// Returns whether an option was typed by its long name.
    fn has_long(&self, long: &str) -> bool {
        let is_option = |word: &&str| {
            let rest = word
                .strip_prefix("--")
                .and_then(|word| word.strip_prefix(long));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        self.words.iter().any(is_option)
    }

    /// Returns the short name of an option, such as `-o`.
    fn short_name(&self, long: &str) -> Option<String> {
        let mut options = self.definition?.get_arguments();
        let option = options.find(|option| option.get_long() == Some(long))?;
        Arg::get_short(option).map(|short| format!("-{short}"))
    }
}

/// Returns the `long` of clap's `--long <VALUE>`; `None` if `clap_name` is not an option.
fn long_name(clap_name: &str) -> Option<&str> {
    let long = clap_name.strip_prefix("--")?;
    let end = long.find([' ', '=', '[']).unwrap_or(long.len());
    Some(&long[..end])
}

/// Returns the `WORD` of clap's `<WORD>...` or `[WORD]...`.
pub(super) fn unbracketed(word: &str) -> &str {
    if word.starts_with('-') {
        return word;
    }
    word.trim_matches(['<', '>', '[', ']', '.'])
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    fn name(line: &str, clap_name: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let pmctl = Cli::command();
        TypedCommandLine::new(&words, &pmctl).name(clap_name)
    }

    #[test]
    fn an_option_is_called_as_it_was_typed() {
        assert_eq!(name("stat -r x true", "--repeat <N>"), "-r");
        assert_eq!(name("stat -rx true", "--repeat <N>"), "-r");
        assert_eq!(name("stat --repeat x true", "--repeat <N>"), "--repeat");
        assert_eq!(name("stat --repeat=x true", "--repeat <N>"), "--repeat");
        assert_eq!(name("stat -r x -- true --repeat", "--repeat <N>"), "-r");
        assert_eq!(name("stat --td-level x", "--td-level <N>"), "--td-level");
        assert_eq!(name("stat -jx", "--json[=<KIND>]"), "-j");
        assert_eq!(name("encode", "<EVENTS>..."), "EVENTS");
    }

    #[test]
    fn clap_requires_the_same_options() {
        for (option, needed) in REQUIRED_OPTIONS {
            let mut pmctl = Cli::command();
            pmctl.build();
            let takes_option = |command: &&Command| {
                command
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(option) && !arg.is_hide_set())
            };
            let commands_with_option = pmctl.get_subcommands().filter(takes_option);
            let commands_with_option = commands_with_option
                .filter(|command| ["stat", "record"].contains(&command.get_name()));
            for command in commands_with_option.map(Command::get_name) {
                let option = match option {
                    "append" | "interval-clear" | "summary" => format!("--{option}"),
                    _ => format!("--{option}=1"),
                };
                let line = ["pmctl", command, &option];
                let error = Cli::try_parse_from(line).expect_err("something is missing");
                assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument, "{option}");
                let text = error.to_string();
                assert!(text.contains(&format!("--{needed}")), "{text}");
            }
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line as the user typed it: clap's errors have the long names of options only, and not which option needs
//! another.

use std::ffi::OsString;

use clap::{Arg, Command};

/// Options that need another one: their long names.
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

/// A command line as it was typed.
pub(super) struct Typed<'a> {
    /// The words before any `--`: the subcommand and its arguments.
    words: Vec<&'a str>,
    /// The command, if there is one of this name.
    definition: Option<&'a Command>,
}

impl<'a> Typed<'a> {
    /// Takes the words behind the program's name.
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

    /// Returns the program with the command.
    pub(super) fn program(&self) -> String {
        match self.command() {
            "" => "pmctl".to_owned(),
            command => format!("pmctl {command}"),
        }
    }

    /// Returns the name of an option that clap shows as `--long <VALUE>`, as it was typed; that of an argument without its
    /// brackets.
    pub(super) fn name(&self, shown: &str) -> String {
        let Some(long) = long_name(shown) else {
            return unbracketed(shown).to_owned();
        };
        match self.short(long) {
            Some(short) if !self.has_long(long) => short,
            _ => format!("--{long}"),
        }
    }

    /// Returns the option that was typed without one of the options `missing`, which clap shows, and what it needs.
    pub(super) fn option_without(&self, missing: &[&str]) -> Option<(String, String)> {
        let missed = |(option, needed): &(&'static str, &'static str)| {
            let is_needed = |shown: &&&str| long_name(shown) == Some(*needed);
            let shown = missing.iter().find(is_needed)?;
            self.has_long(option).then_some((*option, *needed, *shown))
        };
        let (option, needed, shown) = REQUIRED_OPTIONS.iter().find_map(missed)?;
        // `[=<VALUE>]` is a value that may be left out.
        let value = shown
            .split_once(" <")
            .map_or("", |(_, value)| value.trim_end_matches('>'));
        let name = self.short(needed).unwrap_or_else(|| format!("--{needed}"));
        let needed = format!("{name} {value}");
        Some((format!("--{option}"), needed.trim_end().to_owned()))
    }

    fn has_long(&self, long: &str) -> bool {
        let is_it = |word: &&str| {
            let rest = word
                .strip_prefix("--")
                .and_then(|word| word.strip_prefix(long));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        self.words.iter().any(is_it)
    }

    /// Returns the short name of an option, as `-o`.
    fn short(&self, long: &str) -> Option<String> {
        let mut options = self.definition?.get_arguments();
        let option = options.find(|option| option.get_long() == Some(long))?;
        Arg::get_short(option).map(|short| format!("-{short}"))
    }
}

/// Returns the long name of an option that clap shows with the placeholder of its value.
fn long_name(shown: &str) -> Option<&str> {
    let long = shown.strip_prefix("--")?;
    let end = long.find([' ', '=', '[']).unwrap_or(long.len());
    Some(&long[..end])
}

/// Returns the placeholder of a word, which clap shows as `<WORD>...` or `[WORD]...`.
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

    fn name(line: &str, shown: &str) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let pmctl = Cli::command();
        Typed::new(&words, &pmctl).name(shown)
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
    fn what_an_option_needs_is_what_clap_misses() {
        for (option, needed) in REQUIRED_OPTIONS {
            let mut pmctl = Cli::command();
            pmctl.build();
            let has = |command: &&Command| {
                command
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(option) && !arg.is_hide_set())
            };
            let of = pmctl.get_subcommands().filter(has);
            let of = of.filter(|command| ["stat", "record"].contains(&command.get_name()));
            for command in of.map(Command::get_name) {
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages about mistakes in a command line, in pmctl's words. clap finds the mistakes.

use std::error::Error;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::typed::{TypedCommandLine, unbracketed};
use crate::system::text::{did_you_mean, join_names};

/// Returns the message about a mistake in a command line; `None` if clap's own message is to be shown.
pub(crate) fn message(
    error: &clap::Error,
    words: &[OsString],
    pmctl: &clap::Command,
) -> Option<String> {
    let typed = TypedCommandLine::new(words, pmctl);
    let (command, program) = (typed.command(), typed.program());
    let mistake = match error.kind() {
        ErrorKind::UnknownArgument => unknown_message(error, command, &program)?,
        ErrorKind::InvalidSubcommand => {
            let name = context_text(error, ContextKind::InvalidSubcommand)?;
            let question = similar_question(error, ContextKind::SuggestedSubcommand);
            format!("there is no command `{name}`.{question}")
        }
        // This message names the values that the option takes, and needs no reference to the help.
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            return value_message(error, &typed);
        }
        ErrorKind::MissingRequiredArgument => {
            let names = context_names(error, ContextKind::InvalidArg)?;
            match typed.option_and_missing_one(&names) {
                Some((option, needed)) => {
                    return Some(format!(
                        "{option} needs {needed}, too: give both, or leave {option} out."
                    ));
                }
                None => missing_arguments_message(&names, &typed),
            }
        }
        ErrorKind::ArgumentConflict => {
            let name = typed.name(context_text(error, ContextKind::InvalidArg)?);
            let other_names = context_names(error, ContextKind::PriorArg)?;
            let other_names: Vec<String> = other_names
                .into_iter()
                .map(|other| typed.name(other))
                .collect();
            if other_names.contains(&name) {
                format!("{name} was given more than once: give it once.")
            } else {
                let other_names: Vec<&str> = other_names.iter().map(String::as_str).collect();
                format!(
                    "{name} can't be used with {}.",
                    join_names(&other_names, "or")
                )
            }
        }
        ErrorKind::TooManyValues => surplus_argument_message(error, &typed)?,
        _ => return None,
    };
    let list = if command.is_empty() {
        "commands"
    } else {
        "options"
    };
    Some(format!("{mistake}\n`{program} --help` lists the {list}."))
}

/// Returns the message about an unknown option or argument.
fn unknown_message(error: &clap::Error, command: &str, program: &str) -> Option<String> {
    let word = context_text(error, ContextKind::InvalidArg)?;
    if !word.starts_with('-') {
        // The value of this option is optional.
        let hint = match command {
            "top" => format!(" For cgroups: `--cgroups={word}`, with the equals sign."),
            _ => String::new(),
        };
        return Some(format!(
            "`{program}` does not take the argument `{word}`.{hint}"
        ));
    }
    let question = similar_question(error, ContextKind::SuggestedArg);
    let hint = match command {
        "stat" | "record" | "wrap" | "vm" => {
            "\nOptions of a command that is to run come after `--`."
        }
        "bench" => {
            "\nA command with options of its own is one word, `'ls -la'`, or comes after `--`."
        }
        _ => "",
    };
    Some(format!("there is no option `{word}`.{question}{hint}"))
}

/// Returns the message about arguments and options that a command needs, with the values that they take.
fn missing_arguments_message(names: &[&str], typed: &TypedCommandLine<'_>) -> String {
    let values: Vec<String> = names.iter().flat_map(|name| typed.values(name)).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let values = match &values[..] {
        [] => String::new(),
        values => format!(": {}", join_names(values, "or")),
    };
    let names: Vec<&str> = names.iter().copied().map(unbracketed).collect();
    format!(
        "`{}` needs {}{values}.",
        typed.program(),
        join_names(&names, "and")
    )
}

/// Commands with a limited number of arguments, each with a sentence about its arguments.
const ARGUMENT_LIMITS: [(&str, &str); 2] = [
    (
        "diff",
        "It compares two or three recordings: compare further ones with the first in another `pmctl diff`.",
    ),
    (
        "list",
        "It takes `events`, `metrics`, `metricgroups` or `pmus`, and one pattern: `pmctl list metrics 'tma_*'`.",
    ),
];

/// Returns the message about a surplus argument, or about the value of an option that takes none.
fn surplus_argument_message(error: &clap::Error, typed: &TypedCommandLine<'_>) -> Option<String> {
    let name = typed.name(context_text(error, ContextKind::InvalidArg)?);
    let value = context_text(error, ContextKind::InvalidValue)?;
    if name.starts_with('-') {
        return Some(format!("{name} takes no value: leave `{value}` out."));
    }
    let command = typed.command();
    let mut limits = ARGUMENT_LIMITS.iter();
    let limit = limits.find(|(name, _)| *name == command);
    let advice = limit.map_or_else(String::new, |(_, advice)| format!(" {advice}"));
    Some(format!(
        "`{value}` is one {name} too many for `{}`.{advice}",
        typed.program()
    ))
}

/// Returns the message about an option's value.
fn value_message(error: &clap::Error, typed: &TypedCommandLine<'_>) -> Option<String> {
    let option = context_text(error, ContextKind::InvalidArg)?;
    let name = typed.name(option);
    let value = context_text(error, ContextKind::InvalidValue)?;
    if value.is_empty() {
        let placeholder = option
            .find([' ', '=', '['])
            .map_or("", |end| &option[end..]);
        return Some(format!("{name}{placeholder}: the value is missing."));
    }
    if let Some(reason) = error.source() {
        return Some(format!("{name} {value}: {reason}."));
    }
    let values = context_names(error, ContextKind::ValidValue)?;
    let question = similar_question(error, ContextKind::SuggestedValue);
    Some(format!(
        "{name} {value}: it takes {}.{question}",
        join_names(&values, "or")
    ))
}

/// Returns a blank and the question whether a similar name is meant; empty if no name is similar.
fn similar_question(error: &clap::Error, kind: ContextKind) -> String {
    let mut names = context_names(error, kind).unwrap_or_default();
    // clap has the most similar name last.
    names.reverse();
    did_you_mean(&names).map_or_else(String::new, |question| format!(" {question}"))
}

fn context_text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

fn context_names(error: &clap::Error, kind: ContextKind) -> Option<Vec<&str>> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(vec![text]),
        ContextValue::Strings(texts) => Some(texts.iter().map(String::as_str).collect()),
        _ => None,
    }
}

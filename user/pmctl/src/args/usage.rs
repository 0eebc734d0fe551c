// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is wrong with a command line, in pmctl's words: clap finds it.

use std::error::Error;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::system::text::{did_you_mean, listed};

/// Returns the message about a mistake in the words of `command`, which is empty if there is none. `None` of what clap
/// says as well.
pub(crate) fn message(answer: &clap::Error, command: &str) -> Option<String> {
    let program = if command.is_empty() {
        "pmctl".to_owned()
    } else {
        format!("pmctl {command}")
    };
    let what = match answer.kind() {
        ErrorKind::UnknownArgument => unknown(answer, command, &program)?,
        ErrorKind::InvalidSubcommand => {
            let name = text(answer, ContextKind::InvalidSubcommand)?;
            let similar = similar(answer, ContextKind::SuggestedSubcommand);
            format!("there is no command `{name}`.{similar}")
        }
        // It says what the option takes.
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => return value(answer),
        ErrorKind::MissingRequiredArgument => {
            let names = names(answer, ContextKind::InvalidArg)?;
            let names: Vec<&str> = names.into_iter().map(unbracketed).collect();
            format!("`{program}` needs {}.", listed(&names, "and"))
        }
        ErrorKind::ArgumentConflict => {
            let name = name(text(answer, ContextKind::InvalidArg)?);
            let others = names(answer, ContextKind::PriorArg)?;
            let others: Vec<&str> = others.into_iter().map(self::name).collect();
            if others.contains(&name) {
                format!("{name} can be given once.")
            } else {
                format!("{name} can't be used with {}.", listed(&others, "or"))
            }
        }
        _ => return None,
    };
    let list = if command.is_empty() {
        "commands"
    } else {
        "options"
    };
    Some(format!("{what}\n`{program} --help` lists the {list}."))
}

/// Returns what to say of a word that is no option.
fn unknown(answer: &clap::Error, command: &str, program: &str) -> Option<String> {
    let word = text(answer, ContextKind::InvalidArg)?;
    if !word.starts_with('-') {
        return Some(format!("`{program}` has no use for `{word}`."));
    }
    let similar = similar(answer, ContextKind::SuggestedArg);
    let hint = match command {
        "stat" | "record" | "wrap" | "vm" => {
            "\nOptions of a command that is to run stand behind `--`."
        }
        "bench" => "\nA command with options of its own is one word, `'ls -la'`, or behind `--`.",
        _ => "",
    };
    Some(format!("there is no option `{word}`.{similar}{hint}"))
}

/// Returns what to say of an option's value.
fn value(answer: &clap::Error) -> Option<String> {
    let option = text(answer, ContextKind::InvalidArg)?;
    let name = name(option);
    let value = text(answer, ContextKind::InvalidValue)?;
    if value.is_empty() {
        return Some(format!("{option}: the value is missing."));
    }
    if let Some(reason) = answer.source() {
        return Some(format!("{name} {value}: {reason}."));
    }
    let values = names(answer, ContextKind::ValidValue)?;
    let similar = similar(answer, ContextKind::SuggestedValue);
    Some(format!(
        "{name} {value}: it takes {}.{similar}",
        listed(&values, "or")
    ))
}

/// Returns the question whether something similar is meant, behind a blank; empty if there is none.
fn similar(answer: &clap::Error, kind: ContextKind) -> String {
    let names = names(answer, kind).unwrap_or_default();
    did_you_mean(&names).map_or_else(String::new, |question| format!(" {question}"))
}

/// Returns an option as clap shows it without the placeholder of its value.
fn name(option: &str) -> &str {
    let end = if option.starts_with('-') {
        option.find([' ', '=', '['])
    } else {
        None
    };
    unbracketed(&option[..end.unwrap_or(option.len())])
}

/// Returns the placeholder of a word, which clap shows as `<WORD>...` or `[WORD]...`.
fn unbracketed(word: &str) -> &str {
    if word.starts_with('-') {
        return word;
    }
    word.trim_matches(['<', '>', '[', ']', '.'])
}

fn text(answer: &clap::Error, kind: ContextKind) -> Option<&str> {
    match answer.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

fn names(answer: &clap::Error, kind: ContextKind) -> Option<Vec<&str>> {
    match answer.get(kind)? {
        ContextValue::String(text) => Some(vec![text]),
        ContextValue::Strings(texts) => Some(texts.iter().map(String::as_str).collect()),
        _ => None,
    }
}

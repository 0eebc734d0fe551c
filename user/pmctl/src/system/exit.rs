// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and errors that determine them.

use std::fmt::{self, Write};

use perfmon::{Attempt, Cause, Encoding};

use crate::system::busy_counters;
use crate::system::core_kinds;
use crate::system::machine::Machine;
use crate::system::node_rights;
use crate::system::processes;

/// Counting does not work here, or a file can't be read.
pub(crate) const FAILURE: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// No count or recording was made, or it can't be trusted (`stat`, `record`). timeout(1) and env(1) use this code for their
/// own failures, too.
pub(crate) const NO_COUNT: u8 = 125;
/// The command was found and can't be executed, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found, as in a shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// A mistake in the command line.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A failure with its own exit code, such as that of another process, and its message.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: u8,
    message: String,
}

impl Failed {
    pub(crate) fn new(code: u8, message: &str) -> Self {
        let message = message.to_owned();
        Self { code, message }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failed {}

/// Adds advice to an error of the library.
pub(crate) fn with_help(error: perfmon::Error) -> anyhow::Error {
    match message_with_help(error.to_string(), &error) {
        Some(text) => anyhow::anyhow!(text),
        None => error.into(),
    }
}

/// Adds advice to an error of the library. `attempt` describes what failed.
pub(crate) fn error_with_advice(attempt: &str, error: &perfmon::Error) -> anyhow::Error {
    let text = format!("{attempt}: {}", error.cause);
    let with_help = message_with_help(text.clone(), error);
    anyhow::anyhow!(with_help.unwrap_or(text))
}

/// Returns the error for an attempt for which no file descriptor was free, with advice. `attempt`
/// describes the attempt in words.
pub(crate) fn no_descriptor(attempt: &str) -> anyhow::Error {
    let cause = Cause::NoDescriptor;
    anyhow::anyhow!("{attempt}: {cause}\n{}", cause.help().unwrap_or_default())
}

/// Returns the message about an error with advice; `None` if there is no advice.
fn message_with_help(mut text: String, error: &perfmon::Error) -> Option<String> {
    const CHECK_ALL: &str = "`pmctl doctor` checks everything that counting needs.";
    if error.cause == Cause::AnotherWriter {
        let holders = processes::find_holders(&Machine::here(), |target| target == perfmon::PATH);
        for holder in holders {
            let _ = write!(text, "\n{holder} has it open.");
        }
    }
    if error.cause == Cause::NoSuchEvent {
        if let Some(kinds) = core_kinds::describe(&Machine::here()) {
            let _ = write!(text, "\nThe kinds of cores are {kinds}.");
        }
    }
    if let (Attempt::OpenEvent(label, _), Cause::NoFreeCounter(_)) = (&error.attempt, &error.cause)
    {
        if matches!(label.encoding(), Encoding::RawWithRegister(..)) {
            text.push_str(
                "\nIt needs an extra register, which can have one value at a time: an event with another value may \
                 count already.",
            );
        }
    }
    if let Some((owners, advice)) = busy_counters::owners_and_advice(error) {
        return Some(format!("{text}{owners}\n{advice}"));
    }
    if let (Attempt::Open(path), Cause::NodeForbidden) = (&error.attempt, &error.cause) {
        if let Some((rights, advice)) = node_rights::explain(path) {
            return Some(format!("{text}\n{rights}\n{advice}\n{CHECK_ALL}"));
        }
    }
    let help = error.cause.help()?;
    Some(format!("{text}\n{help}\n{CHECK_ALL}"))
}

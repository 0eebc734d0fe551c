// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and errors that decide about them.

use std::fmt::{self, Write};

use perfmon::event::{Owner, OwnerKind, Owners};
use perfmon::{Cause, Device};

use crate::machine::Machine;
use crate::processes;

/// Counting does not work here, or a file can't be read.
pub(crate) const FAILURE: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// `stat`, `record`: there is no count or no recording, or one that can't be trusted. timeout(1) and env(1) use it likewise.
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

/// A failure that has an exit code of its own, as that of another process, with its message.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) code: u8,
    words: String,
}

impl Failed {
    pub(crate) fn new(code: u8, words: &str) -> Self {
        let words = words.to_owned();
        Self { code, words }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Failed {}

/// Returns the programs that have counters of the driver, beside this one; `None` if perf has the counters, or nobody.
fn other_owners() -> Option<Owners> {
    let Owners(mut owners) = Device::open().ok()?.owners();
    owners.retain(|(_, owner)| owner.pid != Some(std::process::id()));
    let owners = Owners(owners);
    (!owners.0.is_empty() && !owners.has(OwnerKind::Perf)).then_some(owners)
}

/// Adds advice to an error of the library.
pub(crate) fn with_help(error: perfmon::Error) -> anyhow::Error {
    let mut text = error.to_string();
    if error.cause == Cause::AnotherWriter {
        let users = processes::holding(&Machine::here(), |target| target == perfmon::PATH);
        for user in users {
            let _ = write!(text, "\n{user} has it open.");
        }
    }
    if let Cause::NoFreeCounter(owners) = &error.cause {
        let own = |(_, owner): &(_, Owner)| owner.pid == Some(std::process::id());
        if owners.0.iter().any(own) {
            let others = if owners.0.iter().all(own) {
                String::new()
            } else {
                format!(", pid {}, and others", std::process::id())
            };
            return anyhow::anyhow!(
                "{text}\nThat is this measurement{others}. Count fewer events at once: pmctl never shares a counter \
                 between events, so that every number is a count and no estimate."
            );
        }
    }
    if error.cause == Cause::HardwareBusy {
        if let Some(others) = other_owners() {
            return anyhow::anyhow!(
                "{text}: {others}.\nCount fewer events at once, or wait until the others have ended."
            );
        }
    }
    match error.cause.help() {
        None => error.into(),
        Some(help) => {
            anyhow::anyhow!("{text}\n{help}\n`pmctl doctor` checks everything that counting needs.")
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and errors that decide about them.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use perfmon::event::{Owner, OwnerKind, Owners};
use perfmon::{Cause, CounterId, Device};

use crate::system::machine::Machine;
use crate::system::processes;

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

/// Returns the other programs that have counters of the driver; `None` if there are none, or if perf has counters.
fn other_owners() -> Option<Owners> {
    let Owners(mut owners) = Device::open().ok()?.owners();
    owners.retain(|(_, owner)| owner.pid != Some(std::process::id()));
    let owners = Owners(owners);
    (!owners.0.is_empty() && !owners.has(OwnerKind::Perf)).then_some(owners)
}

/// Returns whether there is a counter that none of these has.
fn has_free(owners: &Owners) -> bool {
    let Ok(device) = Device::open() else {
        return false;
    };
    let properties = device.properties();
    let number = |counters: u16| 0..u8::try_from(counters).unwrap_or(u8::MAX);
    let general = number(properties.general.number).map(CounterId::General);
    let mut all = general.chain(number(properties.fixed.number).map(CounterId::Fixed));
    // A counter whose owner can't be read is one that no event gets.
    all.any(|id| !owners.0.iter().any(|(taken, _)| *taken == id) && device.owner(id).is_ok())
}

/// Returns what to do if process `own` has some of the counters; `None` if it has none.
fn of_own_counters(owners: &Owners, own: u32, has_free: bool) -> Option<String> {
    let is_own = |(_, owner): &&(CounterId, Owner)| owner.pid == Some(own);
    let ours = owners.0.iter().filter(is_own).count();
    if ours == 0 {
        return None;
    }
    let free = if has_free {
        "Other counters are free, but can't count this event. "
    } else {
        ""
    };
    if ours == owners.0.len() {
        return Some(format!(
            "This measurement has them all. {free}Count fewer events at once: pmctl never shares a counter between events, \
             so that every number is a count and no estimate."
        ));
    }
    let verb = if ours == 1 {
        "is this measurement's"
    } else {
        "are this measurement's"
    };
    let others = owners.0.iter().filter(|owner| !is_own(owner));
    let pids: BTreeSet<u32> = others.filter_map(|(_, owner)| owner.pid).collect();
    let pids: Vec<String> = pids.iter().map(|pid| format!("pid {pid}")).collect();
    let end = if pids.is_empty() {
        "what has the others".to_owned()
    } else {
        pids.join(", ")
    };
    Some(format!(
        "{ours} of them {verb} (pid {own}). {free}Count fewer events, or end {end}."
    ))
}

/// Adds advice to an error of the library.
pub(crate) fn with_help(error: perfmon::Error) -> anyhow::Error {
    match message_with_help(error.to_string(), &error) {
        Some(text) => anyhow::anyhow!(text),
        None => error.into(),
    }
}

/// Adds help to an error, with pmctl's words for the attempt.
pub(crate) fn with_help_to(attempt: &str, error: &perfmon::Error) -> anyhow::Error {
    let text = format!("{attempt}: {}", error.cause);
    let helped = message_with_help(text.clone(), error);
    anyhow::anyhow!(helped.unwrap_or(text))
}

/// Returns the message about an error with advice; `None` if there is none.
fn message_with_help(mut text: String, error: &perfmon::Error) -> Option<String> {
    if error.cause == Cause::AnotherWriter {
        let users = processes::holding(&Machine::here(), |target| target == perfmon::PATH);
        for user in users {
            let _ = write!(text, "\n{user} has it open.");
        }
    }
    if let Cause::NoFreeCounter(owners) = &error.cause {
        if let Some(advice) = of_own_counters(owners, std::process::id(), has_free(owners)) {
            return Some(format!("{text}\n{advice}"));
        }
    }
    if error.cause == Cause::HardwareBusy {
        if let Some(others) = other_owners() {
            return Some(format!(
                "{text}: {others}.\nCount fewer events at once, or wait until the others have ended."
            ));
        }
    }
    let help = error.cause.help()?;
    Some(format!(
        "{text}\n{help}\n`pmctl doctor` checks everything that counting needs."
    ))
}

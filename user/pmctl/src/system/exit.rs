// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and errors that determine them.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use perfmon::event::{Owner, OwnerKind, Owners};
use perfmon::{Attempt, Cause, CounterId, Device, Encoding};

use crate::system::core_kinds;
use crate::system::machine::Machine;
use crate::system::processes;

/// Counting does not work here, or a file can't be read.
pub(crate) const FAILURE: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// There is no count or recording, or it can't be trusted (`stat`, `record`). timeout(1) and env(1) use this code for their
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

/// Returns the other programs that use counters of the driver; `None` if no other program does, or if perf uses counters.
fn other_owners() -> Option<Owners> {
    let Owners(mut owners) = Device::open().ok()?.owners();
    owners.retain(|(_, owner)| owner.pid != Some(std::process::id()));
    let owners = Owners(owners);
    (!owners.0.is_empty() && !owners.contains_kind(OwnerKind::Perf)).then_some(owners)
}

/// Returns whether a counter is free that none of these owners has.
fn has_free_counter(owners: &Owners) -> bool {
    let Ok(device) = Device::open() else {
        return false;
    };
    let properties = device.properties();
    let number = |counters: u16| 0..u8::try_from(counters).unwrap_or(u8::MAX);
    let general = number(properties.general.number).map(CounterId::General);
    let mut counters = general.chain(number(properties.fixed.number).map(CounterId::Fixed));
    // Events can't use a counter whose owner can't be read.
    counters.any(|id| !owners.0.iter().any(|(taken, _)| *taken == id) && device.owner(id).is_ok())
}

/// Returns advice if process `own` has some of the counters; `None` if it has none.
fn own_counters_advice(owners: &Owners, own: u32, has_free: bool) -> Option<String> {
    let is_own = |(_, owner): &&(CounterId, Owner)| owner.pid == Some(own);
    let own_count = owners.0.iter().filter(is_own).count();
    if own_count == 0 {
        return None;
    }
    let free_note = if has_free {
        "Other counters are free, but can't count this event. "
    } else {
        ""
    };
    if own_count == owners.0.len() {
        return Some(format!(
            "This measurement has them all. {free_note}Count fewer events at once: pmctl never shares a counter between \
             events, so that every number is an exact count."
        ));
    }
    let verb = if own_count == 1 {
        "is this measurement's"
    } else {
        "are this measurement's"
    };
    let other_owners = owners.0.iter().filter(|owner| !is_own(owner));
    let pids: BTreeSet<u32> = other_owners.filter_map(|(_, owner)| owner.pid).collect();
    let pids: Vec<String> = pids.iter().map(|pid| format!("pid {pid}")).collect();
    let other_programs = if pids.is_empty() {
        "the programs that have the others".to_owned()
    } else {
        pids.join(", ")
    };
    Some(format!(
        "{own_count} of them {verb} (pid {own}). {free_note}Count fewer events, or end {other_programs}."
    ))
}

/// Adds advice to an error of the library.
pub(crate) fn with_help(error: perfmon::Error) -> anyhow::Error {
    match message_with_help(error.to_string(), &error) {
        Some(text) => anyhow::anyhow!(text),
        None => error.into(),
    }
}

/// Adds advice to an error of the library. `attempt` describes what failed.
pub(crate) fn with_help_to(attempt: &str, error: &perfmon::Error) -> anyhow::Error {
    let text = format!("{attempt}: {}", error.cause);
    let with_help = message_with_help(text.clone(), error);
    anyhow::anyhow!(with_help.unwrap_or(text))
}

/// Returns the message about an error with advice; `None` if there is no advice.
fn message_with_help(mut text: String, error: &perfmon::Error) -> Option<String> {
    if error.cause == Cause::AnotherWriter {
        let users = processes::find_holders(&Machine::here(), |target| target == perfmon::PATH);
        for user in users {
            let _ = write!(text, "\n{user} has it open.");
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
    if let Cause::NoFreeCounter(owners) = &error.cause {
        let has_free = has_free_counter(owners);
        if let Some(advice) = own_counters_advice(owners, std::process::id(), has_free) {
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

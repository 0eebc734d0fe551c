// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of the messages between host and guest: the command, its files, its end.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The directory that holds the guest's pmctl, at the end of PATH.
pub(super) const TOOLS_DIRECTORY: &str = "/dev/perfmon-vm";

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Size {
    pub(super) rows: u16,
    pub(super) columns: u16,
}

/// A command and its surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestTask {
    pub(super) words: Vec<OsString>,
    /// The words are a command of pmctl's, without `pmctl`.
    pub(super) is_pmctl: bool,
    /// The working directory.
    pub(super) directory: OsString,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) groups: Vec<u32>,
    pub(super) umask: u32,
    pub(super) host_name: OsString,
    /// The time when it starts, since 1970; `None` for the host's, which the guest asks for.
    pub(super) clock: Option<Duration>,
    /// Addresses are as random as on the host.
    pub(super) randomize: bool,
    /// Standard input, output and error: `true` for those that are a terminal.
    pub(super) is_terminal: [bool; 3],
    /// The guest gets each key as it is typed, and what it writes to the terminal is not changed.
    pub(super) has_keys: bool,
    pub(super) size: Option<Size>,
    /// Files that are wanted when the command has ended, relative to the directory.
    pub(super) files: Vec<OsString>,
    /// Directories of the host that the command may change; each one comes behind those that it is in.
    pub(super) shared: Vec<OsString>,
}

/// A file of [`GuestTask::files`] at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestFile {
    /// Index in the list.
    pub(super) index: usize,
    pub(super) content: GuestContent,
}

/// The content of a file at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum GuestContent {
    /// The content comes as [`Stream::File`](super::wire::Stream::File). These are the permission bits.
    Follows(u32),
    /// The file is in one of [`GuestTask::shared`], and so on the host already.
    OnHost,
    /// The file is missing, for this reason.
    Missing(String),
}

/// The end of the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestEnd {
    /// Exit code, as in a shell.
    pub(super) code: u8,
    /// The kernel has killed processes because there was no memory left.
    pub(super) out_of_memory: bool,
    /// The memory for new files is used up.
    pub(super) out_of_room: bool,
    /// Something was sent to another machine, or to a port of this one where nothing listens, as a resolver of names is
    /// asked.
    #[serde(default)]
    pub(super) asked_network: bool,
}

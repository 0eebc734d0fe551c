// SPDX-License-Identifier: MIT OR Apache-2.0
//! Structures in the messages between host and guest: the command, its files, and how it ended.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The directory in the guest with its pmctl, which is the last one in PATH.
pub(super) const TOOLS_DIRECTORY: &str = "/dev/perfmon-vm";

/// Size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TerminalSize {
    pub(super) rows: u16,
    pub(super) columns: u16,
}

/// A command, with the user, environment and terminal that it runs with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestTask {
    /// The words of the command line.
    pub(super) words: Vec<OsString>,
    /// The words are a command of pmctl, without the word `pmctl`.
    pub(super) is_pmctl: bool,
    /// The working directory.
    pub(super) directory: OsString,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) groups: Vec<u32>,
    pub(super) umask: u32,
    pub(super) host_name: OsString,
    /// The guest's time at the start, since 1970; `None` for the host's time, which the guest asks for.
    pub(super) clock: Option<Duration>,
    /// Addresses are randomized, as on most systems.
    pub(super) randomize_addresses: bool,
    /// For standard input, output and error: the stream is a terminal.
    pub(super) is_terminal: [bool; 3],
    /// The caller's terminal is in raw mode: the guest gets each key as it is typed, and output is not changed.
    pub(super) has_keys: bool,
    /// The size of the caller's terminal, if it is known.
    pub(super) size: Option<TerminalSize>,
    /// Files to send to the host after the command has ended, relative to `directory`.
    pub(super) files: Vec<OsString>,
    /// Paths of the host's directories that the command may change. Parents come before directories inside of them.
    pub(super) shared_directories: Vec<OsString>,
}

/// A file of [`GuestTask::files`] after the end of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestFile {
    /// Index in [`GuestTask::files`].
    pub(super) index: usize,
    pub(super) content: GuestContent,
}

/// The content of a file after the end of the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum GuestContent {
    /// The content follows as [`Stream::File`](super::wire::Stream::File). The number is the permission bits.
    Follows(u32),
    /// The file is in one of [`GuestTask::shared_directories`], so it is on the host already.
    OnHost,
    /// The file is missing, for this reason.
    Missing(String),
}

/// The end of a command, and the things that the command lacked: memory, room for files, the
/// network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GuestEnd {
    /// Exit code, as in a shell.
    pub(super) code: u8,
    /// The kernel has killed processes because there was no memory left.
    pub(super) out_of_memory: bool,
    /// The memory for new files is used up.
    pub(super) out_of_room: bool,
    /// A packet was sent to another machine, or to a loopback port where no program listens, as by name resolution.
    #[serde(default)]
    pub(super) asked_network: bool,
}

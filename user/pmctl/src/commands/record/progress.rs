// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line of progress that a recording shows on a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Line of progress on a terminal, updated once a second.
pub(super) struct Progress {
    begin: Instant,
    next_update: Instant,
    is_shown: bool,
    is_off: bool,
}

impl Progress {
    const INTERVAL: Duration = Duration::from_secs(1);

    pub(super) fn new(begin: Instant, is_off: bool) -> Self {
        Self {
            begin,
            next_update: begin + Self::INTERVAL,
            is_shown: false,
            is_off,
        }
    }

    /// Shows the time and the size of the records; `bytes` is `None` if the size is known only at
    /// the end.
    pub(super) fn show(&mut self, bytes: Option<u64>) {
        if self.is_off || Instant::now() < self.next_update || !stderr().is_terminal() {
            return;
        }
        self.next_update += Self::INTERVAL;
        self.is_shown = true;
        let seconds = self.begin.elapsed().as_secs();
        let size = bytes.map(|bytes| format!(", {} KiB of records", bytes / 1024));
        // Progress that can't be shown is no reason to fail.
        let _ = write!(
            stderr(),
            "\rpmctl: {seconds} s{} ",
            size.unwrap_or_default()
        );
    }

    /// Removes the line.
    pub(super) fn remove(&mut self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r{:40}\r", "");
            self.is_shown = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.remove();
    }
}

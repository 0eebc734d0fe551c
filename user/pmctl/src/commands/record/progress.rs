// SPDX-License-Identifier: MIT OR Apache-2.0
//! The line on a terminal that says how far a recording is.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Line of progress on a terminal, once a second.
pub(super) struct Progress {
    begin: Instant,
    next: Instant,
    shown: bool,
    is_off: bool,
}

impl Progress {
    const INTERVAL: Duration = Duration::from_secs(1);

    pub(super) fn new(begin: Instant, is_off: bool) -> Self {
        Self {
            begin,
            next: begin + Self::INTERVAL,
            shown: false,
            is_off,
        }
    }

    /// Shows how many bytes of records there are, if that is known before the end.
    pub(super) fn show(&mut self, bytes: Option<u64>) {
        if self.is_off || Instant::now() < self.next || !stderr().is_terminal() {
            return;
        }
        self.next += Self::INTERVAL;
        self.shown = true;
        let seconds = self.begin.elapsed().as_secs();
        let size = bytes.map(|bytes| format!(", {} KiB of records", bytes / 1024));
        // It is no loss if it can't be shown.
        let _ = write!(
            stderr(),
            "\rpmctl: {seconds} s{} ",
            size.unwrap_or_default()
        );
    }

    /// Removes the line.
    pub(super) fn remove(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r{:40}\r", "");
            self.shown = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.remove();
    }
}

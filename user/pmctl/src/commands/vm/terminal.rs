// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caller's terminal while the guest has it.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::{Context, Result};
use nix::libc;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};

use super::task::Size;

nix::ioctl_read_bad!(get_size, libc::TIOCGWINSZ, libc::winsize);

/// The terminal of standard input: each key goes to the guest as it is, and what it writes is not changed.
pub(super) struct RawTerminal {
    /// The terminal that is standard input, opened for writing as well.
    file: File,
    before: Option<Termios>,
}

impl RawTerminal {
    /// Returns the caller's terminal if standard input is one and pmctl is in its foreground.
    pub(super) fn of_caller() -> Option<Self> {
        let input = io::stdin();
        let is_foreground = || tcgetpgrp(&input).is_ok_and(|group| group == getpgrp());
        if !input.is_terminal() || !is_foreground() {
            return None;
        }
        let file = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        Some(Self { file, before: None })
    }

    /// Gives the terminal to the guest.
    pub(super) fn make_raw(&mut self) -> Result<()> {
        let before = tcgetattr(&self.file).context("can't read the terminal's settings")?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&self.file, SetArg::TCSADRAIN, &raw)
            .context("can't change the terminal's settings")?;
        self.before = Some(before);
        Ok(())
    }
}

impl AsFd for RawTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.file, SetArg::TCSADRAIN, before);
        }
    }
}

/// Returns the size of a terminal, if it is one and knows it.
pub(super) fn size(terminal: BorrowedFd<'_>) -> Option<Size> {
    // SAFETY: A structure of numbers, for which zeros are values.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: The descriptor is open, and the call writes to a structure of its type.
    unsafe { get_size(terminal.as_raw_fd(), &raw mut size) }.ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(Size {
        rows: size.ws_row,
        columns: size.ws_col,
    })
}

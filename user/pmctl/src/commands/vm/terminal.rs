// SPDX-License-Identifier: MIT OR Apache-2.0
//! The caller's terminal, in raw mode while the command in the guest uses it.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use anyhow::{Context, Result};
use nix::libc;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};

use super::task::TerminalSize;

nix::ioctl_read_bad!(get_size, libc::TIOCGWINSZ, libc::winsize);

/// The terminal of standard input. In raw mode each key is sent to the guest, and the guest's output is not changed.
pub(super) struct RawTerminal {
    /// The terminal that is standard input, also opened for writing.
    file: File,
    /// Settings to restore, if the terminal is in raw mode.
    saved_settings: Option<Termios>,
}

impl RawTerminal {
    /// Returns the caller's terminal if standard input is a terminal and pmctl is in its
    /// foreground.
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
        Some(Self {
            file,
            saved_settings: None,
        })
    }

    /// Puts the terminal into raw mode.
    pub(super) fn make_raw(&mut self) -> Result<()> {
        let settings = tcgetattr(&self.file).context("can't read the terminal's settings")?;
        let mut raw_settings = settings.clone();
        cfmakeraw(&mut raw_settings);
        tcsetattr(&self.file, SetArg::TCSADRAIN, &raw_settings)
            .context("can't change the terminal's settings")?;
        self.saved_settings = Some(settings);
        Ok(())
    }

    /// Returns whether the terminal is in raw mode.
    pub(super) const fn is_raw(&self) -> bool {
        self.saved_settings.is_some()
    }
}

impl AsFd for RawTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Some(settings) = &self.saved_settings {
            let _ = tcsetattr(&self.file, SetArg::TCSADRAIN, settings);
        }
    }
}

/// Returns the size of a terminal; `None` if the descriptor is not a terminal, or the size is not known.
pub(super) fn size(terminal: BorrowedFd<'_>) -> Option<TerminalSize> {
    // SAFETY: `zeroed` requires a type for which zero bytes are a valid value. `winsize` consists of integers.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes a `winsize` to the pointer, which is that of the live local `size`.
    unsafe { get_size(terminal.as_raw_fd(), &raw mut size) }.ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some(TerminalSize {
        rows: size.ws_row,
        columns: size.ws_col,
    })
}

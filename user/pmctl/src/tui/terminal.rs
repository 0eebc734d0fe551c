// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal while the TUI has it: whatever ends the program, the user gets it back as it was.

use std::io::{self, IsTerminal, Stdout, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use crossterm::event::{self, Event as Input};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Size;

use crate::signals::{Event, Signals};

/// Set while the terminal is the TUI's.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// What happened at the terminal.
#[derive(Clone, Debug)]
pub(super) enum Happened {
    Input(Input),
    /// The time is over.
    Nothing,
    /// A signal, or the terminal is gone: the exit code.
    End(u8),
}

/// The terminal.
pub(super) struct Terminal {
    /// Never dropped: at a terminal that is gone it writes to standard error that the cursor can't be shown, and panics if
    /// that is the same terminal.
    screen: ManuallyDrop<ratatui::Terminal<CrosstermBackend<Stdout>>>,
    /// The size that was drawn last.
    drawn: Size,
    signals: Signals,
}

impl Terminal {
    /// Returns whether there is one that can be used: with keys and a screen.
    pub(super) fn is_there() -> bool {
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        io::stdin().is_terminal() && io::stdout().is_terminal() && !is_dumb
    }

    /// Takes the terminal.
    pub(super) fn take() -> Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                give_back();
                before(info);
            }));
        });
        let signals = Signals::hold()?;
        enable_raw_mode().context("can't take the terminal")?;
        TAKEN.store(true, Ordering::SeqCst);
        let taken = execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
            .and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(io::stdout())));
        match taken {
            Ok(screen) => Ok(Self {
                screen: ManuallyDrop::new(screen),
                drawn: Size::default(),
                signals,
            }),
            Err(error) => {
                give_back();
                Err(error).context("can't take the terminal")
            }
        }
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        match self.screen.draw(draw) {
            Ok(drawn) => self.drawn = drawn.area.as_size(),
            // `wait` tells it.
            Err(_) if is_gone() => {}
            Err(error) => return Err(error).context("can't write to the terminal"),
        }
        Ok(())
    }

    /// Waits for a key, a new size, a signal, or until the time is over.
    pub(super) fn wait(&self, limit: Duration) -> Result<Happened> {
        match self.wait_for_any(limit) {
            // It went meanwhile.
            Err(_) if is_gone() => Ok(Happened::End(code(Signal::SIGHUP))),
            happened => happened,
        }
    }

    fn wait_for_any(&self, limit: Duration) -> Result<Happened> {
        // The size is noticed when the terminal is asked.
        const LONGEST: Duration = Duration::from_millis(250);
        // At a terminal that is gone, there is always something to read: its end.
        if is_gone() {
            return Ok(Happened::End(code(Signal::SIGHUP)));
        }
        if let Some(input) = next()? {
            return Ok(Happened::Input(input));
        }
        // The signal that tells it may have come before anyone waited for it.
        let size = self.screen.size().context("can't ask the terminal")?;
        if size != self.drawn {
            return Ok(Happened::Input(Input::Resize(size.width, size.height)));
        }
        let stdin = io::stdin();
        match self
            .signals
            .wait(Some(limit.min(LONGEST)), Some(stdin.as_fd()))?
        {
            Event::End { signal, .. } => return Ok(Happened::End(code(signal))),
            Event::Other | Event::Nothing | Event::Child | Event::Switch | Event::Resized => {}
        }
        Ok(Happened::Nothing)
    }
}

/// Returns the exit code of a program that a signal has ended.
fn code(signal: Signal) -> u8 {
    128 + u8::try_from(signal as i32).unwrap_or(0)
}

fn next() -> Result<Option<Input>> {
    const FAILED: &str = "can't read from the terminal";
    // Of no time at all, nothing would be read.
    const SHORT: Duration = Duration::from_millis(1);
    if !event::poll(SHORT).context(FAILED)? {
        return Ok(None);
    }
    event::read().context(FAILED).map(Some)
}

/// Returns whether the terminal was hung up.
fn is_gone() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let number = poll(&mut polled, PollTimeout::ZERO);
    let events = polled[0].revents().unwrap_or(PollFlags::empty());
    number.is_ok() && events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Makes the terminal what it was; errors are ignored, as it may be gone.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}

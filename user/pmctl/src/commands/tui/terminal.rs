// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal while the TUI uses it. However the program ends, the terminal's settings are restored.

use std::env;
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
use crossterm::{cursor, execute, terminal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect, Size};
use ratatui::{Frame, TerminalOptions, Viewport};

use crate::system::screen::has_dumb_terminal;
use crate::system::signals::{Event, Signals};

/// Set while the terminal is the TUI's.
static TERMINAL_TAKEN: AtomicBool = AtomicBool::new(false);

/// What happened at the terminal.
#[derive(Clone, Debug)]
pub(super) enum TerminalEvent {
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
    /// The size of `screen`, which was drawn last.
    drawn: Size,
    signals: Signals,
}

impl Terminal {
    /// Returns whether there is one that can be used: with keys and a screen.
    pub(super) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal() && !has_dumb_terminal()
    }

    /// Takes the terminal.
    pub(super) fn take() -> Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore_terminal();
                before(info);
            }));
        });
        let signals = Signals::hold()?;
        enable_raw_mode().context("can't take the terminal")?;
        TERMINAL_TAKEN.store(true, Ordering::SeqCst);
        let taken = execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
            .and_then(|()| size())
            .and_then(|size| Ok((screen(size)?, size)));
        match taken {
            Ok((screen, drawn)) => Ok(Self {
                screen: ManuallyDrop::new(screen),
                drawn,
                signals,
            }),
            Err(error) => {
                restore_terminal();
                Err(error).context("can't take the terminal")
            }
        }
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        match self.try_draw(draw) {
            // `wait` reports that the terminal is gone.
            Err(_) if is_gone() => Ok(()),
            drawn => drawn.context("can't write to the terminal"),
        }
    }

    fn try_draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let size = size()?;
        if size != self.drawn {
            self.screen.resize(area(size))?;
            self.drawn = size;
        }
        self.screen.draw(draw).map(drop)
    }

    /// Waits for a key, a new size, a signal, or until the time is over.
    pub(super) fn wait(&self, limit: Duration) -> Result<TerminalEvent> {
        match self.wait_for_any(limit) {
            // The terminal is gone.
            Err(_) if is_gone() => Ok(TerminalEvent::End(signal_exit_code(Signal::SIGHUP))),
            happened => happened,
        }
    }

    fn wait_for_any(&self, limit: Duration) -> Result<TerminalEvent> {
        // The size is noticed when the terminal is asked.
        const MAX_WAIT: Duration = Duration::from_millis(250);
        // At a terminal that is gone, there is always something to read: its end.
        if is_gone() {
            return Ok(TerminalEvent::End(signal_exit_code(Signal::SIGHUP)));
        }
        if let Some(input) = next()? {
            return Ok(TerminalEvent::Input(input));
        }
        // The signal that tells it may have come before anyone waited for it.
        let size = size().context("can't read the terminal's settings")?;
        if size != self.drawn {
            return Ok(TerminalEvent::Input(Input::Resize(size.width, size.height)));
        }
        let stdin = io::stdin();
        match self
            .signals
            .wait(Some(limit.min(MAX_WAIT)), Some(stdin.as_fd()))?
        {
            Event::End { signal, .. } => return Ok(TerminalEvent::End(signal_exit_code(signal))),
            Event::Other | Event::Nothing | Event::Child | Event::Switch | Event::Resized => {}
        }
        Ok(TerminalEvent::Nothing)
    }
}

/// Returns a screen of a fixed size. By itself ratatui asks the terminal for the size, which can be 0.
fn screen(size: Size) -> io::Result<ratatui::Terminal<CrosstermBackend<Stdout>>> {
    let viewport = Viewport::Fixed(area(size));
    let backend = CrosstermBackend::new(io::stdout());
    ratatui::Terminal::with_options(backend, TerminalOptions { viewport })
}

fn area(size: Size) -> Rect {
    Rect::from((Position::ORIGIN, size))
}

/// Returns the size of the terminal. A serial console has 0 rows and columns until stty(1) sets them: then it is
/// $COLUMNS and $LINES, or 80x24.
fn size() -> io::Result<Size> {
    const DEFAULT_SIZE: Size = Size::new(80, 24);
    let size = Size::from(terminal::size()?);
    if has_room(size) {
        return Ok(size);
    }
    let number = |name| env::var(name).ok()?.parse().ok();
    let given = number("COLUMNS").zip(number("LINES"));
    let given = given.map(Size::from);
    Ok(given.filter(|size| has_room(*size)).unwrap_or(DEFAULT_SIZE))
}

const fn has_room(size: Size) -> bool {
    size.width > 0 && size.height > 0
}

/// Returns the exit code of a program that a signal has ended.
fn signal_exit_code(signal: Signal) -> u8 {
    128 + u8::try_from(signal as i32).unwrap_or(0)
}

fn next() -> Result<Option<Input>> {
    const READ_FAILED: &str = "can't read from the terminal";
    // With a time of 0, nothing would be read.
    const MIN_WAIT: Duration = Duration::from_millis(1);
    if !event::poll(MIN_WAIT).context(READ_FAILED)? {
        return Ok(None);
    }
    event::read().context(READ_FAILED).map(Some)
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
        restore_terminal();
    }
}

/// Makes the terminal what it was; errors are ignored, as it may be gone.
fn restore_terminal() {
    if TERMINAL_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal while the TUI uses it. The terminal's settings are restored however the program ends.

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
use crate::system::signals::{BlockedSignals, Event};

/// Set while the TUI uses the terminal.
static TERMINAL_ENTERED: AtomicBool = AtomicBool::new(false);

/// An event at the terminal.
#[derive(Clone, Debug)]
pub(super) enum TerminalEvent {
    Input(Input),
    /// Nothing happened within the time limit.
    Nothing,
    /// A signal came, or the terminal was hung up. pmctl has to end with this exit code.
    End(u8),
}

/// The terminal.
pub(super) struct Terminal {
    /// ratatui's terminal. It is never dropped, since at a terminal that was hung up its destructor writes to standard
    /// error, and panics if that is the same terminal.
    screen: ManuallyDrop<ratatui::Terminal<CrosstermBackend<Stdout>>>,
    /// The size with which the screen was created or drawn last.
    drawn_size: Size,
    signals: BlockedSignals,
}

impl Terminal {
    /// Returns whether standard input and output are a terminal that can show a TUI.
    pub(super) fn is_usable() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal() && !has_dumb_terminal()
    }

    /// Puts the terminal into raw mode, and switches to its alternate screen.
    pub(super) fn enter() -> Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous_hook = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                restore_terminal();
                previous_hook(info);
            }));
        });
        let signals = BlockedSignals::hold()?;
        enable_raw_mode().context("can't put the terminal into raw mode")?;
        TERMINAL_ENTERED.store(true, Ordering::SeqCst);
        let result = execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
            .and_then(|()| size())
            .and_then(|size| Ok((create_screen(size)?, size)));
        match result {
            Ok((screen, drawn_size)) => Ok(Self {
                screen: ManuallyDrop::new(screen),
                drawn_size,
                signals,
            }),
            Err(error) => {
                restore_terminal();
                Err(error).context("can't switch the terminal to another screen")
            }
        }
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<()> {
        match self.try_draw(draw) {
            // `wait` reports that the terminal was hung up.
            Err(_) if is_hung_up() => Ok(()),
            result => result.context("can't write to the terminal"),
        }
    }

    fn try_draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let size = size()?;
        if size != self.drawn_size {
            self.screen.resize(area(size))?;
            self.drawn_size = size;
        }
        self.screen.draw(draw).map(drop)
    }

    /// Waits for a key, a new size or a signal, at most `limit`.
    pub(super) fn wait(&self, limit: Duration) -> Result<TerminalEvent> {
        match self.wait_for_any(limit) {
            Err(_) if is_hung_up() => Ok(TerminalEvent::End(signal_exit_code(Signal::SIGHUP))),
            result => result,
        }
    }

    fn wait_for_any(&self, limit: Duration) -> Result<TerminalEvent> {
        // A new size is noticed only when the terminal is asked for it, so a wait ends after this time.
        const MAX_WAIT: Duration = Duration::from_millis(250);
        // This check comes first, since a terminal that was hung up is always readable.
        if is_hung_up() {
            return Ok(TerminalEvent::End(signal_exit_code(Signal::SIGHUP)));
        }
        if let Some(input) = next_input()? {
            return Ok(TerminalEvent::Input(input));
        }
        // SIGWINCH may have come before this wait.
        let size = size().context("can't read the terminal's size")?;
        if size != self.drawn_size {
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

/// Creates a screen of a fixed size. By default, ratatui asks the terminal for its size, which can be 0.
fn create_screen(size: Size) -> io::Result<ratatui::Terminal<CrosstermBackend<Stdout>>> {
    let viewport = Viewport::Fixed(area(size));
    let backend = CrosstermBackend::new(io::stdout());
    ratatui::Terminal::with_options(backend, TerminalOptions { viewport })
}

fn area(size: Size) -> Rect {
    Rect::from((Position::ORIGIN, size))
}

/// Returns the size of the terminal. A serial console has 0 rows and columns until stty(1) sets them; for these the size
/// is $COLUMNS and $LINES, or 80x24.
fn size() -> io::Result<Size> {
    const DEFAULT_SIZE: Size = Size::new(80, 24);
    let size = Size::from(terminal::size()?);
    if has_room(size) {
        return Ok(size);
    }
    let number = |name| env::var(name).ok()?.parse().ok();
    let env_size = number("COLUMNS").zip(number("LINES"));
    let env_size = env_size.map(Size::from);
    Ok(env_size
        .filter(|size| has_room(*size))
        .unwrap_or(DEFAULT_SIZE))
}

const fn has_room(size: Size) -> bool {
    size.width > 0 && size.height > 0
}

/// Returns the exit code for a program that a signal has ended.
fn signal_exit_code(signal: Signal) -> u8 {
    128 + u8::try_from(signal as i32).unwrap_or(0)
}

/// Returns the next input, if there is one already.
fn next_input() -> Result<Option<Input>> {
    const READ_FAILED: &str = "can't read from the terminal";
    // With a timeout of 0, crossterm would read nothing.
    const MIN_WAIT: Duration = Duration::from_millis(1);
    if !event::poll(MIN_WAIT).context(READ_FAILED)? {
        return Ok(None);
    }
    event::read().context(READ_FAILED).map(Some)
}

/// Returns whether the terminal was hung up.
fn is_hung_up() -> bool {
    let stdin = io::stdin();
    let mut poll_fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let number = poll(&mut poll_fds, PollTimeout::ZERO);
    let events = poll_fds[0].revents().unwrap_or(PollFlags::empty());
    number.is_ok() && events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Restores the terminal's settings and screen. Errors are ignored, since the terminal may have been hung up.
fn restore_terminal() {
    if TERMINAL_ENTERED.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}

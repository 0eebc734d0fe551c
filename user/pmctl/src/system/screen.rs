// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output, with colors and a pager if it is a terminal, as in git and perf.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::{Child, Command, Stdio};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};

use crate::system::child;
use crate::system::stdio::NamedOutput;

/// Number of bytes of output that are collected before they are written.
const BUFFER_SIZE: usize = 1 << 16;

/// Options for `less` if `LESS` is not set: quit if all text fits on the screen, pass colors through, chop long lines, and
/// leave the text on the screen.
const LESS_OPTIONS: &str = "FRSX";

/// Standard output, or a pager that shows it.
pub(crate) struct Screen {
    /// The output; `None` only while this is dropped.
    output: Option<BufWriter<NamedOutput<Box<dyn Write>>>>,
    pager: Option<Child>,
    pub(crate) colors: Colors,
}

impl Screen {
    /// Opens standard output, with a pager if `pager` is set and standard output is a terminal that a pager can use.
    ///
    /// # Errors
    /// The pager can't be started.
    pub(crate) fn open(pager: bool) -> Result<Self> {
        let stdout = io::stdout();
        // The colors are chosen before the pager is started: the pager's input is a pipe, for which
        // there would be no colors.
        let colors = Colors::new(AutoStream::choice(&stdout) != ColorChoice::Never);
        let can_page = || stdout.is_terminal() && !has_dumb_terminal() && has_keys();
        let command = pager_command().filter(|_| pager && can_page());
        let (output, name, pager): (Box<dyn Write>, _, _) = match command {
            None => (Box::new(stdout.lock()), "standard output", None),
            Some(command) => {
                let (child, input) = start_pager(&command)?;
                (input, "the pager's input", Some(child))
            }
        };
        let name = name.to_owned();
        Ok(Self {
            output: Some(BufWriter::with_capacity(
                BUFFER_SIZE,
                NamedOutput { output, name },
            )),
            pager,
            colors,
        })
    }

    /// Returns whether a pager shows the output, so that pmctl must not write to the terminal itself.
    pub(crate) const fn is_paged(&self) -> bool {
        self.pager.is_some()
    }

    fn output(&mut self) -> io::Result<&mut impl Write> {
        let output = self.output.as_mut();
        output.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output()?.flush()
    }
}

impl Drop for Screen {
    /// Waits until the user has quit the pager.
    fn drop(&mut self) {
        // Dropping the output closes the pager's input.
        self.output = None;
        if let Some(pager) = &mut self.pager {
            let _ = pager.wait();
        }
    }
}

/// Returns the command line of the pager: `$PAGER`, or `less` if it is installed; `None` if the user wants no pager.
fn pager_command() -> Option<OsString> {
    match env::var_os("PAGER") {
        Some(command) if command.is_empty() || command == "cat" => None,
        Some(command) => Some(command),
        None => {
            let less = OsString::from("less");
            child::Command::find(&[less.clone()]).ok().map(|_| less)
        }
    }
}

/// Returns whether $TERM names no terminal, or `dumb`, a terminal that can only write lines.
pub(crate) fn has_dumb_terminal() -> bool {
    env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb")
}

/// Returns whether the locale uses UTF-8.
pub(crate) fn has_unicode() -> bool {
    is_unicode(["LC_ALL", "LC_CTYPE", "LANG"].map(env::var_os))
}

/// Returns whether the first of these variables that has a value names UTF-8. Their order is that of setlocale(3).
fn is_unicode(variables: [Option<OsString>; 3]) -> bool {
    let mut values = variables.into_iter().flatten();
    let locale = values.find(|value| !value.is_empty()).unwrap_or_default();
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Returns whether a pager could read keys. On a terminal that is not the controlling terminal, such as a machine's
/// console, the user could not quit the pager.
fn has_keys() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Starts a pager, and returns its input.
fn start_pager(command: &OsStr) -> Result<(Child, Box<dyn Write>)> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped());
    if env::var_os("LESS").is_none() {
        shell.env("LESS", LESS_OPTIONS);
    }
    let name = command.to_string_lossy().into_owned();
    let mut child = shell
        .spawn()
        .with_context(|| format!("can't start the pager `{name}`"))?;
    let input = child.stdin.take().context("the pager has no input")?;
    // Ctrl-C is for the pager, which does not end by it. pmctl ends when the pager does.
    let mut interrupt = SigSet::empty();
    interrupt.add(Signal::SIGINT);
    interrupt.thread_block().context("can't block SIGINT")?;
    Ok((child, Box::new(input)))
}

/// The styles of the output, which are empty without colors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Colors {
    pub(crate) heading: Style,
    pub(crate) warning: Style,
    very_high: Style,
    medium: Style,
}

impl Colors {
    /// Styles without colors.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self {
        heading: Style::new(),
        warning: Style::new(),
        very_high: Style::new(),
        medium: Style::new(),
    };

    /// Returns styles with colors, or empty styles if `has_colors` is false.
    pub(crate) fn new(has_colors: bool) -> Self {
        if !has_colors {
            return Self::default();
        }
        Self {
            heading: Style::new().bold(),
            warning: AnsiColor::Yellow.on_default().bold(),
            very_high: AnsiColor::Red.on_default(),
            medium: AnsiColor::Green.on_default(),
        }
    }

    /// Returns whether the styles have colors.
    pub(crate) fn are_on(&self) -> bool {
        *self != Self::default()
    }

    /// Returns the style of a notable number.
    pub(crate) fn notable(&self) -> Style {
        self.very_high
    }

    /// Returns the style of a number. Above the first of these limits the number is high, above the second very high.
    pub(crate) fn ratio(&self, value: f64, limits: Option<(f64, f64)>) -> Style {
        match limits {
            Some((_, very_high)) if value > very_high => self.very_high,
            Some((high, _)) if value > high => self.warning,
            _ => Style::new(),
        }
    }

    /// Returns the style of a share of the whole, from 0 to 1. The limits are the same as perf's: 5 % and 0.5 %.
    pub(crate) fn style_of_share(&self, share: f64) -> Style {
        match share {
            large if large >= 0.05 => self.very_high,
            medium if medium >= 0.005 => self.medium,
            _ => Style::new(),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output and standard error: they may be closed, or full.
//!
//! Rust opens `/dev/null` in place of a descriptor that is closed, before `main`: from then on every write succeeds
//! and nothing arrives. So the descriptors are looked at earlier, when the C library initializes the program.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Result, bail};
use nix::errno::Errno;
use nix::libc;

use crate::system::text::printable;

/// Bit n: descriptor n was closed when the program was executed.
static CLOSED_DESCRIPTORS: AtomicU8 = AtomicU8::new(0);

// SAFETY: The C library calls each function in `.init_array`, before Rust's runtime is set up. `look` needs none of
// it: it makes system calls and stores a number.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    for descriptor in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: It reads the flags of a descriptor and takes no pointer; for one that is closed it fails.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED_DESCRIPTORS.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

fn is_closed(descriptor: libc::c_int) -> bool {
    CLOSED_DESCRIPTORS.load(Ordering::Relaxed) & 1 << descriptor != 0
}

/// Fails if standard output is closed.
pub(crate) fn require_output() -> Result<()> {
    if is_closed(libc::STDOUT_FILENO) {
        bail!(
            "standard output is closed, so nothing can be printed. Redirect it to a file or a pipe."
        );
    }
    Ok(())
}

/// Fails if standard error is closed.
pub(crate) fn require_error() -> Result<()> {
    if is_closed(libc::STDERR_FILENO) {
        bail!("standard error is closed, so the counts can't be printed. Give a file with -o.");
    }
    Ok(())
}

/// Returns another descriptor of what a descriptor that pmctl was started with is open for.
///
/// # Errors
/// EBADF if there is no such descriptor, or pmctl opened it itself: its own are closed by exec, those are not.
pub(crate) fn inherited(number: u32) -> Result<File, Errno> {
    let descriptor = libc::c_int::try_from(number).map_err(|_| Errno::EBADF)?;
    if descriptor <= libc::STDERR_FILENO && is_closed(descriptor) {
        return Err(Errno::EBADF);
    }
    // SAFETY: It reads the flags of a descriptor and takes no pointer; for one that is closed it fails.
    let flags = Errno::result(unsafe { libc::fcntl(descriptor, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: It makes a descriptor and takes no pointer, but the least number that the new descriptor may have; for a
    // descriptor that is closed it fails.
    let new = Errno::result(unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: The descriptor was just made, and nothing else knows it.
    Ok(unsafe { File::from_raw_fd(new) })
}

/// An output whose errors tell its name.
pub(crate) struct NamedOutput<W> {
    pub(crate) output: W,
    pub(crate) name: String,
}

impl<W> NamedOutput<W> {
    /// Adds the name to an error.
    pub(crate) fn with_name<T>(&self, result: io::Result<T>) -> io::Result<T> {
        let name = &self.name;
        result.map_err(|error| io::Error::new(error.kind(), format!("can't write {name}: {error}")))
    }
}

impl<W: Write> Write for NamedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.output.write(bytes);
        self.with_name(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.output.flush();
        self.with_name(result)
    }
}

/// Writes a message to standard error; errors are ignored, because the exit code tells the failure too. It is one write:
/// in a pipe no other program's words come in between.
pub(crate) fn complain(message: impl fmt::Display) {
    let text = format!("pmctl: {}\n", lines(&in_words(&message.to_string())));
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Returns a message without the numbers that Rust puts behind the words of the system's errors.
fn in_words(message: &str) -> String {
    let mut parts = message.split(" (os error ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.push_str(rest);
            }
            _ => {
                text.push_str(" (os error ");
                text.push_str(part);
            }
        }
    }
    text
}

/// Returns a message whose lines are printable: it can have names that others have chosen.
fn lines(message: &str) -> String {
    let lines: Vec<String> = message.split('\n').map(printable).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_no_numbers_of_errors() {
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        let message = format!("can't read a: {error}\nb (os error x)");
        assert_eq!(
            in_words(&message),
            "can't read a: No such file or directory\nb (os error x)"
        );
    }

    #[test]
    fn a_message_has_lines_and_no_escapes() {
        assert_eq!(lines("a \x1b]0;b\x07\nc"), "a ?]0;b?\nc");
    }
}

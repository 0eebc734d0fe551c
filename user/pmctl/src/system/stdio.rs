// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard output and standard error, which may be closed, or full.
//!
//! Before `main`, Rust opens `/dev/null` for standard descriptors that are closed, so that every write succeeds and is
//! lost. So the descriptors are checked earlier, when the C library initializes the program.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use nix::errno::Errno;
use nix::libc;

use crate::system::text::{printable, without_error_numbers};

/// Mask of the descriptors that were closed when the program was executed.
static CLOSED_DESCRIPTORS: AtomicU8 = AtomicU8::new(0);

// SAFETY: `.init_array` must contain pointers to C functions, which the C library calls before Rust's runtime is set up.
// This is one such pointer. `note_closed_descriptors` does not need the runtime: it makes system calls and stores an
// integer.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_CLOSED_DESCRIPTORS: extern "C" fn() = note_closed_descriptors;

/// Notes which of standard output and standard error are closed.
extern "C" fn note_closed_descriptors() {
    for descriptor in [libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: F_GETFD takes no further argument and accesses no memory. It fails for a closed descriptor.
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
        bail!("standard error is closed, so the counts can't be printed. Name a file with -o.");
    }
    Ok(())
}

/// Returns a duplicate of a descriptor that pmctl has inherited from its parent.
///
/// # Errors
/// EBADF if there is no such descriptor, or if pmctl itself has opened the descriptor, so that it
/// has the flag close-on-exec.
pub(crate) fn duplicate_inherited(number: u32) -> Result<File, Errno> {
    let descriptor = libc::c_int::try_from(number).map_err(|_| Errno::EBADF)?;
    if descriptor <= libc::STDERR_FILENO && is_closed(descriptor) {
        return Err(Errno::EBADF);
    }
    // SAFETY: F_GETFD takes no further argument and accesses no memory. It fails for a closed descriptor.
    let flags = Errno::result(unsafe { libc::fcntl(descriptor, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: F_DUPFD_CLOEXEC takes an integer, the least number of the new descriptor, and accesses no memory. It fails for
    // a closed descriptor.
    let copy = Errno::result(unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: `from_raw_fd` requires an open descriptor without another owner. The successful call above has just
    // created it.
    Ok(unsafe { File::from_raw_fd(copy) })
}

/// An output whose errors contain its name.
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

/// Writes a message to standard error. Errors are ignored, since the exit code also shows the failure. The message is one
/// write, so that in a pipe it is not mixed with other programs' output.
pub(crate) fn complain(message: impl fmt::Display) {
    let text = format!(
        "pmctl: {}\n",
        printable_lines(&without_error_numbers(&message.to_string()))
    );
    write_message(text.as_bytes());
}

/// Writes lines to standard error, or keeps them while messages are held. Errors are ignored.
pub(crate) fn write_message(text: &[u8]) {
    match &mut *held_messages() {
        Some(messages) => messages.extend_from_slice(text),
        None => {
            let _ = anstream::stderr().write_all(text);
        }
    }
}

/// The messages that wait for the end of a command; `None` if messages are written at once.
static HELD_MESSAGES: Mutex<Option<Vec<u8>>> = Mutex::new(None);

fn held_messages() -> MutexGuard<'static, Option<Vec<u8>>> {
    HELD_MESSAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard that holds all messages until it is dropped, since a command uses the screen of the terminal.
pub(crate) struct HeldMessages(());

impl HeldMessages {
    /// Holds messages from now on if standard error is a terminal.
    pub(crate) fn on_terminal() -> Option<Self> {
        io::stderr().is_terminal().then(Self::begin)
    }

    fn begin() -> Self {
        held_messages().get_or_insert_default();
        Self(())
    }
}

impl Drop for HeldMessages {
    fn drop(&mut self) {
        let messages = held_messages().take();
        write_message(&messages.unwrap_or_default());
    }
}

/// Replaces characters that are not printable in the lines of a message, which may contain names from other users.
fn printable_lines(message: &str) -> String {
    let lines: Vec<String> = message.split('\n').map(printable).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_wait_until_they_are_released() {
        let held = HeldMessages::begin();
        complain("a message that waits");
        let messages = held_messages().clone().expect("they are held");
        assert!(String::from_utf8_lossy(&messages).contains("pmctl: a message that waits\n"));
        drop(held);
        assert!(held_messages().is_none());
    }

    #[test]
    fn a_message_has_lines_and_no_escapes() {
        assert_eq!(printable_lines("a \x1b]0;b\x07\nc"), "a ?]0;b?\nc");
    }
}

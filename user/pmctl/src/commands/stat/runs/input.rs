// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard input of a command that runs several times: the runs share it, and the first one reads it.

use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{Whence, lseek};

use crate::system::stdio::complain;

/// The place up to which standard input has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputPosition {
    /// A file, up to this byte.
    File(i64),
    /// A pipe or a socket. `is_over` is true if its end has been reached.
    Stream { is_over: bool },
}

/// Detects a run that has consumed the standard input of all runs. Holds the position before the first run; `None` if
/// the position can't be read, or after the warning.
#[derive(Debug)]
pub(in crate::commands::stat) struct RepeatedInput(Option<InputPosition>);

impl RepeatedInput {
    /// Reads the position before the first run.
    pub(in crate::commands::stat) fn before_runs() -> Self {
        Self(input_position(io::stdin()))
    }

    /// Warns before a later run, once, if the earlier runs have consumed input.
    pub(in crate::commands::stat) fn warn_if_consumed(&mut self) {
        let previous_position = self.0;
        if previous_position.is_some() && input_position(io::stdin()) != previous_position {
            self.0 = None;
            complain(
                "the first run has read standard input, so the later runs get other input or none, and their counts \
                 differ.\n\
                 Let the command open its input itself: `pmctl stat -r 3 -- sh -c 'sort <FILE'`.",
            );
        }
    }
}

/// Returns how far a descriptor has been read; `None` for terminals and devices, and on errors.
fn input_position(input: impl AsFd) -> Option<InputPosition> {
    let kind = SFlag::from_bits_truncate(fstat(&input).ok()?.st_mode) & SFlag::S_IFMT;
    if kind == SFlag::S_IFREG {
        return Some(InputPosition::File(lseek(&input, 0, Whence::SeekCur).ok()?));
    }
    if kind != SFlag::S_IFIFO && kind != SFlag::S_IFSOCK {
        return None;
    }
    let mut poll_fds = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    poll(&mut poll_fds, PollTimeout::ZERO).ok()?;
    let events = poll_fds[0].revents()?;
    let is_over = events.contains(PollFlags::POLLHUP) && !events.contains(PollFlags::POLLIN);
    Some(InputPosition::Stream { is_over })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    use nix::fcntl::OFlag;
    use nix::unistd::pipe2;

    #[test]
    fn the_position_follows_reads() {
        let mut file = tempfile::tempfile().expect("a file can be made");
        file.write_all(b"input").expect("there is room");
        assert_eq!(input_position(&file), Some(InputPosition::File(5)));

        // With O_CLOEXEC, no child of another test inherits the writing end.
        let (read, write) = pipe2(OFlag::O_CLOEXEC).expect("a pipe can be made");
        let (mut read, mut write) = (File::from(read), File::from(write));
        let is_over = |over| Some(InputPosition::Stream { is_over: over });
        assert_eq!(input_position(&read), is_over(false));
        write.write_all(b"x").expect("there is room");
        drop(write);
        assert_eq!(input_position(&read), is_over(false));
        read.read_exact(&mut [0]).expect("it is there");
        assert_eq!(input_position(&read), is_over(true));

        assert_eq!(
            input_position(File::open("/dev/null").expect("it is there")),
            None
        );
    }
}

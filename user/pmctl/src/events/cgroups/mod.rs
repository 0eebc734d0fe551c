// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds cgroups by their names and by patterns.
//!
//! The name of a cgroup is its path below the mount point, as /proc/PID/cgroup has it after `0::` or `perf_event:`, without the
//! slash at the beginning. The root is shown as `/`, and bytes that are not UTF-8 as `\xNN`.

mod container;
mod pattern;
mod search;

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use perfmon::{Attempt, Cause, Error};

pub(crate) use container::ContainerNames;
pub(crate) use pattern::Pattern;
pub(crate) use search::{FoundCgroup, FoundCgroups, SearchLimit, search};

use crate::system::exit::Usage;
use crate::system::text::printable;

/// The rule for several cgroups after -G, in words for messages.
pub(crate) const CGROUP_EVENTS_RULE: &str =
    "with several cgroups, -G gives each one an event of -e";

/// Returns the error for more cgroups after -G than events. `other_way` is the end of the advice; it may be empty.
pub(crate) fn too_few_events(names: &str, events: usize, other_way: &str) -> Usage {
    let number = match events {
        1 => "is one".to_owned(),
        _ => format!("are {events}"),
    };
    Usage(format!(
        "-G {names}: {CGROUP_EVENTS_RULE}, and there {number}. Write an event for each, as in `-e cycles,cycles -G a,b`{other_way}."
    ))
}

/// Returns the name of a cgroup as it is shown in tables.
pub(crate) fn display_name(name: &Path) -> String {
    if name.as_os_str().is_empty() {
        return "/".to_owned();
    }
    printable(&escaped(name))
}

/// Returns a name with `\xNN` for each byte that is not UTF-8. A backslash stays as it is: systemd writes names with `\xNN`,
/// and they must be the same in other programs.
pub(crate) fn escaped(name: &Path) -> String {
    let mut text = String::new();
    for chunk in name.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Returns whether the error of opening a cgroup or its events concerns this cgroup alone: the
/// cgroup's owner has made it unreadable, its path is too long, it is too deep, or it has been
/// removed. A user who may make cgroups must not keep the cgroups of other users from being
/// counted.
pub(crate) fn concerns_one_cgroup(error: &Error) -> bool {
    match (&error.attempt, &error.cause) {
        (_, Cause::NoSuchCgroup | Cause::CgroupTooDeep) => true,
        (Attempt::OpenCgroup(_), Cause::Unexpected(errno)) => {
            matches!(errno, Errno::EACCES | Errno::ENAMETOOLONG)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn cgroups_without_an_event_are_named_with_the_number_of_events() {
        let text = |events, other_way| too_few_events("a,b,c", events, other_way).to_string();
        assert_eq!(
            text(1, ""),
            "-G a,b,c: with several cgroups, -G gives each one an event of -e, and there is one. Write an event for each, as \
             in `-e cycles,cycles -G a,b`."
        );
        assert!(text(2, "").contains("and there are 2."));
        assert!(text(2, ", or leave -G out").ends_with("-G a,b`, or leave -G out."));
    }

    #[test]
    fn names_that_are_not_utf_8_are_different_texts() {
        let name = |bytes| Path::new(OsStr::from_bytes(bytes));
        assert_eq!(escaped(name(b"a/\xc3\xa9\xff\xfe")), r"a/é\xff\xfe");
        assert_eq!(display_name(name(b"a\xff\n")), r"a\xff?");
        assert_eq!(display_name(name(b"")), "/");
    }
}

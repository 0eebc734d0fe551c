// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds cgroups by their names and by patterns.
//!
//! The name of a cgroup is its path below the mount point, as /proc/PID/cgroup has it after `0::` or `perf_event:`, without the
//! slash at the beginning. The root is shown as `/`.

mod container;
mod pattern;
mod search;

use std::path::Path;

use nix::errno::Errno;
use perfmon::{Attempt, Cause, Error};

pub(crate) use container::ContainerNames;
pub(crate) use pattern::Pattern;
pub(crate) use search::{FoundCgroup, FoundCgroups, SearchLimit, search};

use crate::system::text::printable;

/// Returns the name of a cgroup as it is shown.
pub(crate) fn display_name(name: &Path) -> String {
    if name.as_os_str().is_empty() {
        return "/".to_owned();
    }
    printable(&name.to_string_lossy())
}

/// Returns whether the error of opening a cgroup or its events says nothing about other cgroups: its owner has made it
/// unreadable, its path is too long, it is too deep, or it has been removed. A user who may make cgroups must not keep those
/// of others from being counted.
pub(crate) fn concerns_one_cgroup(error: &Error) -> bool {
    match (&error.attempt, &error.cause) {
        (_, Cause::NoSuchCgroup | Cause::CgroupTooDeep) => true,
        (Attempt::OpenCgroup(_), Cause::Unexpected(errno)) => {
            matches!(errno, Errno::EACCES | Errno::ENAMETOOLONG)
        }
        _ => false,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds cgroups by their names and by patterns.
//!
//! The name of a cgroup is its path below the mount point, as /proc/PID/cgroup has it after `0::` or `perf_event:`, without the
//! slash at the beginning. The root is shown as `/`.

mod container;
mod pattern;
mod search;

use std::path::Path;

pub(crate) use container::ContainerNames;
pub(crate) use pattern::Pattern;
pub(crate) use search::{FoundCgroup, FoundCgroups, search};

use crate::system::text::printable;

/// Returns the name of a cgroup as it is shown.
pub(crate) fn display_name(name: &Path) -> String {
    if name.as_os_str().is_empty() {
        return "/".to_owned();
    }
    printable(&name.to_string_lossy())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups by their names, and by patterns of them.
//!
//! A name is the path below the place where cgroups are mounted, as /proc/PID/cgroup has it behind `0::`, without the slash
//! in front; that of the root is `/`.

mod container;
mod pattern;
mod search;

use std::path::Path;

pub(crate) use container::ContainerNames;
pub(crate) use pattern::Pattern;
pub(crate) use search::{FoundCgroup, FoundCgroups, search};

use crate::system::text::printable;

/// Returns a name as it is shown.
pub(crate) fn display_name(name: &Path) -> String {
    if name.as_os_str().is_empty() {
        return "/".to_owned();
    }
    printable(&name.to_string_lossy())
}

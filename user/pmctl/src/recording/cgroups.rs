// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of the cgroups that exist before a recording. These records give names to the cgroup ids of samples.

use std::path::Path;

use anyhow::Result;
use perfmon::event::Cgroup;

use crate::events::cgroups::{FoundCgroup, Pattern, SearchLimit, search};
use crate::recording::perfdata::{Body, Record, Stamp};
use crate::system::exit;

/// The limits of the cgroups that are read. Cgroups of all levels have samples.
const LIMIT: SearchLimit = SearchLimit {
    cgroups: 50_000,
    levels: usize::MAX,
};

/// The cgroups that exist before a recording.
#[derive(Debug, Default)]
pub(crate) struct KnownCgroups {
    pub(crate) records: Vec<Record>,
    /// The machine has more cgroups than `records`.
    pub(crate) is_incomplete: bool,
}

impl KnownCgroups {
    /// Finds all cgroups of the hierarchy whose ids samples show.
    ///
    /// # Errors
    /// Fails if no cgroup hierarchy is mounted, or if one of its directories can't be read.
    pub(crate) fn find() -> Result<Self> {
        let mount = Cgroup::mount_point()
            .map_err(|error| exit::error_with_advice("--all-cgroups", &error))?;
        let found_cgroups = search(&mount, &[Pattern::new("**")], LIMIT)?;
        Ok(Self {
            records: found_cgroups.cgroups.iter().map(cgroup_record).collect(),
            is_incomplete: found_cgroups.is_incomplete,
        })
    }
}

/// Returns the record that perf has for a cgroup.
fn cgroup_record(cgroup: &FoundCgroup) -> Record {
    let path = Path::new("/").join(&cgroup.name);
    Record {
        stamp: Stamp::default(),
        body: Body::Cgroup {
            id: cgroup.inode,
            path: path.to_string_lossy().into_owned(),
        },
    }
}

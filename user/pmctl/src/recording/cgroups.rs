// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cgroups that exist before a recording, as records, which give names to the cgroup ids of samples.

use std::path::Path;

use anyhow::Result;
use perfmon::event::Cgroup;

use crate::events::cgroups::{FoundCgroup, Pattern, search};
use crate::recording::perfdata::{Body, Record, Stamp};
use crate::system::exit;

/// Limit on the number of cgroups that are read, because users may create any number of cgroups.
const MAX_CGROUPS: usize = 50_000;

/// The cgroups that exist before a recording.
#[derive(Debug, Default)]
pub(crate) struct KnownCgroups {
    pub(crate) records: Vec<Record>,
    /// The machine has more cgroups than `records`.
    pub(crate) is_cut: bool,
}

impl KnownCgroups {
    /// Finds all cgroups of the hierarchy whose ids samples show.
    ///
    /// # Errors
    /// Fails if no cgroup hierarchy is mounted, or if one of its directories can't be read.
    pub(crate) fn find() -> Result<Self> {
        let mount =
            Cgroup::mount_point().map_err(|error| exit::with_help_to("--all-cgroups", &error))?;
        let found_cgroups = search(&mount, &[Pattern::new("**")], MAX_CGROUPS)?;
        Ok(Self {
            records: found_cgroups.cgroups.iter().map(record).collect(),
            is_cut: found_cgroups.is_cut,
        })
    }
}

/// Returns the record that perf has for a cgroup.
fn record(cgroup: &FoundCgroup) -> Record {
    let path = Path::new("/").join(&cgroup.name);
    Record {
        stamp: Stamp::default(),
        body: Body::Cgroup {
            id: cgroup.inode,
            path: path.to_string_lossy().into_owned(),
        },
    }
}

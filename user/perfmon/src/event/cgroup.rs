// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups that events can count.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::Mode;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, fstatfs};
use nix::unistd::{AccessFlags, faccessat};

/// A cgroup, as its open directory, for [`Builder::cgroup`](super::Builder::cgroup). The cgroup is of version 2, or of
/// version 1 in the hierarchy that has the controller `perf_event`.
///
/// The object keeps referring to the cgroup that was opened, even if another cgroup gets its path. Events of a removed
/// cgroup keep their counts.
///
/// ```no_run
/// use perfmon::Event;
/// use perfmon::event::Cgroup;
///
/// let cgroup = Cgroup::named("system.slice/ssh.service")?;
/// let event = Event::instructions().cgroup(&cgroup).open()?;
/// # Ok::<(), perfmon::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cgroup(Arc<Directory>);

#[derive(Debug)]
struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Cgroup {
    /// The largest number of levels below the root that a cgroup with events can have.
    pub const MAX_LEVELS: usize = 32;

    /// Creates a cgroup from a directory that is open already. The directory is not checked here:
    /// if it is not the directory of a cgroup, opening an event fails with
    /// [`Cause::NotACgroup`](crate::Cause::NotACgroup). Error messages call the cgroup `path`.
    #[must_use]
    pub fn from_directory(descriptor: OwnedFd, path: &Path) -> Self {
        Self(Arc::new(Directory {
            descriptor,
            path: path.to_owned(),
        }))
    }

    /// Returns the path that the cgroup was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns whether the cgroup has been removed.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        let result = faccessat(self, "cgroup.procs", AccessFlags::F_OK, AtFlags::empty());
        matches!(result, Err(Errno::ENOENT | Errno::ENODEV))
    }

    /// Returns whether the cgroup has more than [`MAX_LEVELS`](Self::MAX_LEVELS) levels below the root of its mount.
    pub(crate) fn is_too_deep(&self) -> bool {
        let parent = |directory: BorrowedFd<'_>| {
            let parent = openat(directory, "..", OFlag::O_PATH, Mode::empty()).ok()?;
            let kind = fstatfs(&parent).ok()?.filesystem_type();
            matches!(kind, CGROUP2_SUPER_MAGIC | CGROUP_SUPER_MAGIC).then_some(parent)
        };
        let mut ancestor = parent(self.as_fd());
        for _ in 0..Self::MAX_LEVELS {
            ancestor = ancestor.and_then(|directory| parent(directory.as_fd()));
        }
        ancestor.is_some()
    }

    /// Returns whether the cgroup is of version 1.
    pub(crate) fn is_of_version_1(&self) -> bool {
        fstatfs(self).is_ok_and(|kind| kind.filesystem_type() == CGROUP_SUPER_MAGIC)
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }
}

/// Two values are equal if one is a clone of the other.
impl PartialEq for Cgroup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Cgroup {}

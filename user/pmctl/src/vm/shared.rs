// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that `--write` names: what the command changes there, it changes on the host.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result};

use crate::exit::Usage;

/// Places where the guest has file systems of its own.
const GUESTS: [&str; 3] = ["/dev", "/proc", "/sys"];

/// The directories, without links in their names; each one comes behind those that it is in.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared(Vec<PathBuf>);

impl Shared {
    /// Finds the directories.
    ///
    /// # Errors
    /// A name that is of no directory, or of one that the guest has itself.
    pub(super) fn find(names: &[PathBuf]) -> Result<Self> {
        let mut directories = names
            .iter()
            .map(|name| find(name))
            .collect::<Result<Vec<_>>>()?;
        directories.sort();
        directories.dedup();
        Ok(Self(directories))
    }

    /// Returns the directories.
    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.0
    }

    /// Returns the directories' names.
    pub(super) fn names(&self) -> Vec<OsString> {
        let names = self.0.iter().cloned();
        names.map(PathBuf::into_os_string).collect()
    }

    /// Returns whether a file is in one of the directories, and so needs not be copied.
    pub(super) fn has(&self, file: &Path) -> bool {
        let folder = absolute(file).ok().and_then(|file| {
            let folder = file.parent()?;
            fs::canonicalize(folder).ok()
        });
        folder.is_some_and(|folder| self.0.iter().any(|shared| folder.starts_with(shared)))
    }
}

fn find(name: &Path) -> Result<PathBuf> {
    let directory = fs::canonicalize(name)
        .with_context(|| format!("--write: can't find {}", name.display()))?;
    let refused = if !directory.is_dir() {
        "is no directory"
    } else if directory == Path::new("/") {
        "would be all files; name a directory below it"
    } else if GUESTS.iter().any(|place| directory.starts_with(place)) {
        "can't be shared: /dev, /proc and /sys are the virtual machine's own"
    } else {
        return Ok(directory);
    };
    Err(Usage(format!("--write: {} {refused}.", name.display())).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_behind_those_that_they_are_in() {
        let folder = tempfile::tempdir().unwrap();
        let outer = fs::canonicalize(folder.path()).unwrap();
        let inner = outer.join("a");
        fs::create_dir(&inner).unwrap();
        let names = [inner.clone(), outer.clone(), inner.join("../a")];
        let shared = Shared::find(&names).unwrap();
        assert_eq!(shared.directories(), [outer, inner.clone()]);
        assert!(shared.has(&inner.join("perf.data")));
        assert!(!shared.has(Path::new("/perf.data")));
    }

    #[test]
    fn names_of_no_directory_are_refused() {
        for (name, reason) in [
            ("/none", "can't find /none"),
            ("/", "would be all files"),
            ("/proc/self", "are the virtual machine's own"),
            ("/etc/passwd", "is no directory"),
        ] {
            let error = Shared::find(&[name.into()]).unwrap_err();
            assert!(format!("{error:#}").contains(reason), "{error:#}");
        }
    }
}

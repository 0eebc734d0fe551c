// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that `--write` names: what the command changes there, it changes on the host.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::system::exit::Usage;

/// The most directories: each is a device of the machine.
const MAX_FOLDERS: usize = 16;

/// Places where the guest has file systems of its own.
const GUEST_FILE_SYSTEMS: [&str; 3] = ["/dev", "/proc", "/sys"];

/// The directories, without links in their names; each one comes behind those that it is in.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedFolders(Vec<PathBuf>);

impl SharedFolders {
    /// Finds the directories.
    ///
    /// # Errors
    /// A name that is of no directory, or of one that the guest has itself.
    pub(super) fn find(names: &[PathBuf]) -> Result<Self, Usage> {
        let mut directories = names
            .iter()
            .map(|name| find(name))
            .collect::<Result<Vec<_>, _>>()?;
        directories.sort();
        directories.dedup();
        if directories.len() > MAX_FOLDERS {
            return Err(Usage(format!(
                "--write: {} directories are too many, {MAX_FOLDERS} are the most. Name one that they are in.",
                directories.len()
            )));
        }
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
}

fn find(name: &Path) -> Result<PathBuf, Usage> {
    let directory = fs::canonicalize(name)
        .map_err(|error| Usage(format!("--write: can't find {}: {error}", name.display())))?;
    let refused = if !directory.is_dir() {
        "is no directory"
    } else if directory == Path::new("/") {
        "would be all files; name a directory below it"
    } else if GUEST_FILE_SYSTEMS
        .iter()
        .any(|place| directory.starts_with(place))
    {
        "can't be shared: /dev, /proc and /sys are the virtual machine's own"
    } else {
        return Ok(directory);
    };
    Err(Usage(format!("--write: {} {refused}.", name.display())))
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
        let shared = SharedFolders::find(&names).unwrap();
        assert_eq!(shared.directories(), [outer, inner]);
    }

    #[test]
    fn there_is_an_end_to_directories() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<PathBuf> = (0..=MAX_FOLDERS)
            .map(|number| folder.path().join(number.to_string()))
            .collect();
        names.iter().for_each(|name| fs::create_dir(name).unwrap());
        assert!(SharedFolders::find(&names[1..]).is_ok());
        assert!(SharedFolders::find(&names).is_err());
    }

    #[test]
    fn names_of_no_directory_are_refused() {
        for (name, reason) in [
            ("/none", "can't find /none"),
            ("/", "would be all files"),
            ("/proc/self", "are the virtual machine's own"),
            ("/etc/passwd", "is no directory"),
        ] {
            let error = SharedFolders::find(&[name.into()]).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}

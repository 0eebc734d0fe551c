// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that `--write` names, in which the command can change the host's files.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::system::exit::Usage;

/// The largest number of directories: each needs a device of the machine.
const MAX_FOLDERS: usize = 16;

/// Mount points of the guest's own file systems, which can't be shared.
const GUEST_FILE_SYSTEMS: [&str; 3] = ["/dev", "/proc", "/sys"];

/// The directories, without symbolic links in their paths. Parents come before directories inside of them.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedFolders(Vec<PathBuf>);

impl SharedFolders {
    /// Finds the directories.
    ///
    /// # Errors
    /// A name is `/` or not a directory, the guest has a file system of its own there, or there are too many names.
    pub(super) fn find(names: &[PathBuf]) -> Result<Self, Usage> {
        let mut directories = names
            .iter()
            .map(|name| find_directory(name))
            .collect::<Result<Vec<_>, _>>()?;
        directories.sort();
        directories.dedup();
        if directories.len() > MAX_FOLDERS {
            return Err(Usage(format!(
                "--write: {} directories were named, and at most {MAX_FOLDERS} can be shared. Name a directory that contains them.",
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

/// Returns the path of a directory, if it can be shared.
fn find_directory(name: &Path) -> Result<PathBuf, Usage> {
    let directory = fs::canonicalize(name)
        .map_err(|error| Usage(format!("--write: can't find {}: {error}", name.display())))?;
    let refusal = if !directory.is_dir() {
        "is not a directory"
    } else if directory == Path::new("/") {
        "would share all files of this machine; name a directory below it"
    } else if GUEST_FILE_SYSTEMS
        .iter()
        .any(|path| directory.starts_with(path))
    {
        "can't be shared: /dev, /proc and /sys are the virtual machine's own"
    } else {
        return Ok(directory);
    };
    Err(Usage(format!("--write: {} {refusal}.", name.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_comes_after_its_parents() {
        let folder = tempfile::tempdir().unwrap();
        let outer_folder = fs::canonicalize(folder.path()).unwrap();
        let inner_folder = outer_folder.join("a");
        fs::create_dir(&inner_folder).unwrap();
        let names = [
            inner_folder.clone(),
            outer_folder.clone(),
            inner_folder.join("../a"),
        ];
        let shared_folders = SharedFolders::find(&names).unwrap();
        assert_eq!(shared_folders.directories(), [outer_folder, inner_folder]);
    }

    #[test]
    fn too_many_directories_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<PathBuf> = (0..=MAX_FOLDERS)
            .map(|number| folder.path().join(number.to_string()))
            .collect();
        names.iter().for_each(|name| fs::create_dir(name).unwrap());
        assert!(SharedFolders::find(&names[1..]).is_ok());
        assert!(SharedFolders::find(&names).is_err());
    }

    #[test]
    fn names_other_than_of_directories_are_refused() {
        for (name, reason) in [
            ("/none", "can't find /none"),
            ("/", "would share all files"),
            ("/proc/self", "are the virtual machine's own"),
            ("/etc/passwd", "is not a directory"),
        ] {
            let error = SharedFolders::find(&[name.into()]).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds a recorded file: at its path if it has not changed, or a copy of it.

use std::path::{Path, PathBuf};

use super::{DebugFiles, Elf};
use crate::recording::file_text::path_of_name;
use crate::recording::perfdata::{FileFacts, FileVersion};

/// A recorded file, or a copy of it, and its headers.
#[derive(Clone, Debug)]
pub(crate) struct LocatedFile {
    pub(crate) path: PathBuf,
    pub(crate) elf: Elf,
}

/// Reason why a recorded file can't be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// The file does not exist.
    Missing,
    /// The file at the path is another version.
    Replaced,
    /// The file at the path may be another version.
    Unknown,
}

impl Absence {
    /// Returns the reason in words, as the beginning of a sentence.
    pub(crate) fn reason(self, name: &str) -> String {
        match self {
            Self::Missing => format!(
                "{name} is not on this machine, and neither ~/.debug nor debuginfod's cache has a copy of it"
            ),
            Self::Replaced => format!(
                "{name} was replaced since the recording (by its build-id, or by its size and time), and neither ~/.debug \
                 nor debuginfod's cache has a copy of what was recorded"
            ),
            Self::Unknown => format!(
                "{name} has no build-id, and the recording does not tell its size and time, so that it may be another \
                 version"
            ),
        }
    }
}

/// Returns the path at which the file of this name may be on this machine. If an earlier file had
/// the same path, the name has more words after the path. A path may itself end in such words, so a
/// file with the whole name is looked for first.
pub(crate) fn path_on_this_machine(name: &Path) -> &Path {
    if name.exists() {
        name
    } else {
        path_of_name(name)
    }
}

impl DebugFiles {
    /// Returns the recorded version of a program or library: the file at its path, or a copy that
    /// perf or debuginfod keeps. If an earlier file had the same path, `name` has more words after
    /// the path. A file is the recorded one if it matches `version`.
    ///
    /// # Errors
    /// The reason why the file can't be found.
    pub(crate) fn locate(
        &self,
        name: &Path,
        version: FileVersion<'_>,
    ) -> Result<LocatedFile, Absence> {
        let path = path_on_this_machine(name);
        let elf_here = Elf::read(path);
        let absence = match (&elf_here, version) {
            (None, _) => Absence::Missing,
            (
                Some(_),
                FileVersion {
                    build_id: None,
                    facts: None,
                },
            ) => Absence::Unknown,
            _ => Absence::Replaced,
        };
        let is_same = |elf: &Elf| match version.build_id {
            Some(id) => elf.has_build_id(id),
            None => version.facts.is_some() && FileFacts::of(path).as_ref() == version.facts,
        };
        if let Some(elf) = elf_here.filter(is_same) {
            let path = path.to_owned();
            return Ok(LocatedFile { path, elf });
        }
        let copy = version.build_id.and_then(|id| self.find_copy(id));
        copy.ok_or(absence)
    }

    /// Returns the copy of the program or library with this build-id that perf or debuginfod keeps.
    pub(crate) fn find_copy(&self, id: &[u8]) -> Option<LocatedFile> {
        let copies = self.program_paths(id).into_iter();
        let mut copies = copies.filter_map(|path| {
            let elf = Elf::read_version(&path, id)?;
            Some(LocatedFile { path, elf })
        });
        copies.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_file_of_a_path_is_found() {
        let path = std::env::current_exe().expect("this program has a path");
        let facts = FileFacts::of(&path);
        let version = FileVersion {
            build_id: None,
            facts: facts.as_ref(),
        };
        let mut name = path.clone().into_os_string();
        name.push(" (inode 12 of 8:1)");
        let located_file = DebugFiles::of_user().locate(Path::new(&name), version);
        assert_eq!(located_file.expect("it is there").path, path);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that tables are read from: those that ran, and not others of the same name.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use object::ReadCache;

use super::cuts::Reason;
use super::tables::Tables;
use crate::files::open;
use crate::perfdata::Recording;
use crate::profile::VDSO;
use crate::symbols::{DebugFiles, Elf, jit};

/// The versions of files that are asked for.
pub(crate) struct Versions {
    recorded: Option<Recorded>,
    debug_files: DebugFiles,
}

/// Those of a recording.
struct Recorded {
    build_ids: HashMap<PathBuf, Vec<u8>>,
    /// When it ended, if it is known.
    end: Option<SystemTime>,
}

impl Default for Versions {
    /// The files as they are now.
    fn default() -> Self {
        Self {
            recorded: None,
            debug_files: DebugFiles::of_user(),
        }
    }
}

impl Versions {
    /// Returns those of a recording.
    pub(crate) fn of(recording: &Recording) -> Self {
        let ids = recording.build_ids.iter().filter(|id| !id.kernel);
        Self {
            recorded: Some(Recorded {
                build_ids: ids.map(|id| (id.file.clone(), id.id.clone())).collect(),
                end: recording.ended,
            }),
            ..Self::default()
        }
    }

    pub(super) const fn debug_files(&self) -> &DebugFiles {
        &self.debug_files
    }

    /// Reads the tables of a file.
    pub(super) fn tables(&self, path: &Path) -> Result<Tables, Reason> {
        if path == Path::new(VDSO) {
            return self.of_vdso();
        }
        if !path.is_absolute() || jit::process_of(path).is_some() {
            return Err(Reason::NoFile);
        }
        let Some(elf) = Elf::read(path) else {
            let copy = self.copy(path);
            return copy.ok_or_else(|| Reason::Missing(path.to_owned()));
        };
        if self.is_same(path, &elf) {
            let tables = with_file(path, |file| Tables::read(elf, Some(path.into()), file));
            return tables.ok_or_else(|| Reason::Missing(path.to_owned()));
        }
        self.copy(path)
            .ok_or_else(|| Reason::Replaced(path.to_owned()))
    }

    /// Returns whether a file is the one that was recorded.
    fn is_same(&self, path: &Path, elf: &Elf) -> bool {
        let Some(recorded) = &self.recorded else {
            return true;
        };
        match (recorded.build_ids.get(path), &elf.build_id) {
            (Some(known), found) => found.as_ref() == Some(known),
            // Nobody knows: it can be told by its age only.
            (None, _) => {
                let changed = fs::metadata(path).and_then(|facts| facts.modified());
                match (changed, recorded.end) {
                    (Ok(changed), Some(end)) => changed <= end,
                    _ => true,
                }
            }
        }
    }

    /// Returns the tables of a copy that perf or debuginfod has of a file that is not there any more.
    fn copy(&self, path: &Path) -> Option<Tables> {
        let id = self.recorded.as_ref()?.build_ids.get(path)?;
        let copies = self.debug_files.programs(id).into_iter();
        let mut copies = copies.filter_map(|copy| Some((Elf::read_version(&copy, id)?, copy)));
        copies.find_map(|(elf, copy)| {
            with_file(&copy, |file| Tables::read(elf, Some(copy.clone()), file))
        })
    }

    /// Returns the tables of the code that the kernel maps into programs: all have the same, until another kernel runs.
    fn of_vdso(&self) -> Result<Tables, Reason> {
        let path = PathBuf::from(VDSO);
        let known = self.recorded.as_ref();
        let known = known.map(|recorded| recorded.build_ids.get(&path));
        let own = own_vdso().and_then(|bytes| {
            let file = object::File::parse(&*bytes).ok()?;
            let elf = Elf::of(&file);
            let is_same = known.is_none_or(|known| known == elf.build_id.as_ref());
            is_same.then(|| Tables::read(elf, None, &file))
        });
        own.or_else(|| self.copy(&path))
            .ok_or(Reason::Replaced(path))
    }
}

/// Returns the build-id of the code that the kernel maps into programs.
pub(crate) fn vdso_build_id() -> Option<Vec<u8>> {
    let bytes = own_vdso()?;
    Elf::of(&object::File::parse(&*bytes).ok()?).build_id
}

/// Reads this process's own.
fn own_vdso() -> Option<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(VDSO))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (number(start)?, number(end)?);
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    Some(bytes)
}

/// Calls `take` with a file that is read as far as it is asked for.
pub(super) fn with_file<T>(
    path: &Path,
    take: impl FnOnce(&object::File<'_, &ReadCache<File>>) -> T,
) -> Option<T> {
    let cache = ReadCache::new(open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    Some(take(&file))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the files with unwind tables. These must be the files that ran, and not other files of the same name.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::cut_chains::CutReason;
use super::tables::{Code, UnwindTables, with_file};
use crate::recording::address_spaces::{self as mapped, AddressSpaces};
use crate::recording::perfdata::Recording;
use crate::recording::perfdata::VDSO;
use crate::recording::symbols::{Absence, DebugFiles, Elf, jit};
use crate::system::files;

/// Finds the files that were mapped.
pub(crate) trait Programs {
    /// Returns the path of a file in the version that was mapped. [`VDSO`] as result stands for this process's own vDSO.
    ///
    /// # Errors
    /// The reason why the file can't be found.
    fn find(&self, file: mapped::FileNumber, spaces: &AddressSpaces) -> Result<PathBuf, Absence>;
}

/// The files of a recording.
pub(crate) struct RecordedFiles<'a> {
    recording: &'a Recording,
    debug_files: DebugFiles,
}

impl<'a> RecordedFiles<'a> {
    pub(crate) fn of(recording: &'a Recording) -> Self {
        Self {
            recording,
            debug_files: DebugFiles::of_user(),
        }
    }
}

impl Programs for RecordedFiles<'_> {
    fn find(&self, file: mapped::FileNumber, spaces: &AddressSpaces) -> Result<PathBuf, Absence> {
        let name = spaces.path(file);
        let version = self.recording.version(name);
        if name == Path::new(VDSO) {
            return vdso(version.build_id, &self.debug_files);
        }
        let path = spaces.path_in_file_system(file);
        let located_file = self.debug_files.locate(path, version);
        match located_file.map(|located_file| located_file.path) {
            // Without build-id and facts, inode and time tell whether the file was replaced.
            Err(Absence::Unknown)
                if files::is_unchanged(path, spaces.inode(file), self.recording.end) =>
            {
                Ok(path.to_owned())
            }
            located_file => located_file,
        }
    }
}

/// Returns the path of the vDSO with this build-id; [`VDSO`] stands for this process's own vDSO.
/// All programs have the same vDSO as long as the same kernel runs.
pub(crate) fn vdso(id: Option<&[u8]>, debug_files: &DebugFiles) -> Result<PathBuf, Absence> {
    let is_own = id.is_none() || vdso_build_id().as_deref() == id;
    if is_own {
        return Ok(VDSO.into());
    }
    let copy = id.and_then(|id| debug_files.find_copy(id));
    copy.map(|copy| copy.path).ok_or(Absence::Replaced)
}

/// Reads the tables of a file.
pub(super) fn read_tables(
    file: mapped::FileNumber,
    spaces: &AddressSpaces,
    programs: &dyn Programs,
) -> Result<UnwindTables, CutReason> {
    let name = spaces.path(file);
    if name != Path::new(VDSO) && (!name.is_absolute() || jit::process_of(name).is_some()) {
        return Err(CutReason::NoFile);
    }
    let path = programs
        .find(file, spaces)
        .map_err(|absence| match absence {
            Absence::Missing => CutReason::Missing(name.to_owned()),
            Absence::Replaced | Absence::Unknown => CutReason::Replaced(name.to_owned()),
        })?;
    let tables = if path == Path::new(VDSO) {
        own_vdso().and_then(|bytes| {
            let file = object::File::parse(&*bytes).ok()?;
            Some(UnwindTables::read(
                Elf::of(&file),
                Code::Bytes(bytes.clone()),
                &file,
            ))
        })
    } else {
        with_file(&path, |file| {
            UnwindTables::read(Elf::of(file), Code::File(path.clone()), file)
        })
    };
    tables.ok_or_else(|| CutReason::Missing(name.to_owned()))
}

/// Returns the build-id of this process's vDSO.
pub(crate) fn vdso_build_id() -> Option<Vec<u8>> {
    let bytes = own_vdso()?;
    Elf::of(&object::File::parse(&*bytes).ok()?).build_id
}

/// Reads this process's vDSO.
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

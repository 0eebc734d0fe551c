// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells whether a file, or the kernel, has been replaced since it was sampled.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ahash::{AHashMap, AHashSet};

use super::symbols::build_id;
use crate::perfdata::{BuildId, Map, is_kernel};
use crate::profile::KERNEL;
use crate::symbols::{DebugFiles, Names, jit};

/// The versions of files, as `perf record` saw them. Their ctime tells nothing: perf makes links to them, for `perf
/// buildid-cache`.
#[derive(Default)]
pub(super) struct SeenByPerf {
    /// The first of each file.
    build_ids: AHashMap<PathBuf, Vec<u8>>,
    inodes: AHashMap<PathBuf, u64>,
    /// Where the kernel's image began.
    kernel: Option<u64>,
    /// That kernel was another one, or was at another address. Found out when it is asked for first.
    is_other_kernel: OnceCell<bool>,
}

impl SeenByPerf {
    pub(super) fn new(build_ids: Vec<BuildId>) -> Self {
        // With --buildid-mmap there is one for each mapping.
        let ids = build_ids.into_iter().rev().map(|id| (id.file, id.id));
        Self {
            build_ids: ids.collect(),
            ..Self::default()
        }
    }

    pub(super) fn take(&mut self, map: &Map) {
        if map.inode != 0 {
            self.inodes.insert(map.file.clone(), map.inode);
        }
        // perf appends the name of a symbol: `[kernel.kallsyms]_text`.
        let file = map.file.as_os_str().as_bytes();
        if map.kernel && file.starts_with(KERNEL.as_bytes()) {
            self.kernel = Some(map.start);
        }
    }

    /// Returns whether a file is not what it was before this time.
    pub(super) fn is_replaced(&self, path: &Path, end: SystemTime) -> bool {
        // The same kernel may be elsewhere when it was started again.
        if !path.is_absolute() {
            return is_younger(path, end)
                || self.has_other_build_id(path) == Some(true)
                || self.is_other_kernel();
        }
        if let Some(is_other) = self.has_other_build_id(path) {
            return is_other;
        }
        let inode = self.inodes.get(path);
        fs::metadata(path).is_ok_and(|now| {
            inode.is_some_and(|before| now.ino() != *before) || now.mtime() > seconds(end)
        })
    }

    /// Returns whether a file has another build-id now; `None` if perf did not tell the one that it had.
    fn has_other_build_id(&self, path: &Path) -> Option<bool> {
        let before = self.build_ids.get(path)?;
        Some(build_id(path).is_some_and(|now| now.id != *before))
    }

    /// Returns whether the file is of another kernel, as one from another machine, the time of which is that of its
    /// copying.
    fn is_other_kernel(&self) -> bool {
        *self.is_other_kernel.get_or_init(|| {
            let path = Path::new(KERNEL);
            self.has_other_build_id(path) == Some(true) || self.kernel.is_some_and(is_elsewhere)
        })
    }
}

/// Returns whether no symbol of the running kernel has this address, at which its image would begin; not if the
/// addresses are hidden from this user, who then gets no names either.
fn is_elsewhere(start: u64) -> bool {
    let names = Names::new(DebugFiles::of_user());
    let table = names.look_up(Path::new(KERNEL), &AHashSet::from_iter([start]));
    is_kernel(start) && table.symbols.iter().any(|symbol| symbol.start != start)
}

/// Returns whether a file has changed, or the kernel was started, after this time.
pub(super) fn is_younger(path: &Path, time: SystemTime) -> bool {
    let time = seconds(time);
    if path.is_absolute() {
        return fs::metadata(path).is_ok_and(|facts| facts.ctime() > time);
    }
    boot().is_some_and(|boot| boot > time)
}

/// Returns a time in seconds since 1970.
fn seconds(time: SystemTime) -> i64 {
    let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// Returns when the kernel was started, in seconds since 1970.
fn boot() -> Option<i64> {
    let facts = fs::read_to_string("/proc/stat").ok()?;
    let time = facts.lines().find_map(|line| line.strip_prefix("btime "))?;
    time.parse().ok()
}

/// What tells a file from another one of the same name, and changes if it is written to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Version {
    device: u64,
    inode: u64,
    size: u64,
    /// In seconds and nanoseconds.
    modified: (i64, i64),
}

impl Version {
    pub(super) fn of(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        // A file of generated functions grows.
        if jit::process_of(path).is_some() {
            return None;
        }
        Some(Self {
            device: facts.dev(),
            inode: facts.ino(),
            size: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_changed_after_the_recording_is_known() {
        let file = tempfile::NamedTempFile::new().expect("it can be made");
        let hour = Duration::from_secs(3600);
        let (before, after) = (SystemTime::now() - hour, SystemTime::now() + hour);
        assert!(is_younger(file.path(), before) && !is_younger(file.path(), after));
        let kernel = Path::new(KERNEL);
        assert!(is_younger(kernel, UNIX_EPOCH) && !is_younger(kernel, after));
    }

    #[test]
    fn a_kernel_of_another_machine_has_no_names() {
        let other = BuildId {
            file: KERNEL.into(),
            kernel: true,
            id: vec![1; 20],
        };
        let is_replaced = |ids: Vec<BuildId>| {
            let seen = SeenByPerf::new(ids);
            [KERNEL, "[ext4]"].map(|name| seen.is_replaced(Path::new(name), SystemTime::now()))
        };
        assert_eq!(is_replaced(vec![other]), [true, true]);
        let same = build_id(Path::new(KERNEL)).expect("each kernel has one");
        assert_eq!(is_replaced(vec![same]), [false, false]);
    }
}

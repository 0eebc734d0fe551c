// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells whether a file, or a part of the kernel, is still what was mapped, and where it is if it is not at its place.
//!
//! While `record` runs, a program may be replaced or removed, or be in another mount namespace, and still be there for the
//! processes that run it. When a recording of the past is read, only copies are left.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ahash::{AHashMap, AHashSet};
use nix::sys::utsname::uname;

use super::build_id;
use crate::recording::address_spaces::{self as mapped, AddressSpaces};
use crate::recording::perfdata::{FileFacts, FileVersion, KERNEL, Map, Recording, VDSO, is_kernel};
use crate::recording::procfs;
use crate::recording::symbols::{Absence, DebugFiles, SymbolFinder, jit};
use crate::recording::unwind::{self, Programs};
use crate::system::files;

/// What is known of the files that were mapped, and of the kernel.
#[derive(Default)]
pub(super) struct MappedFiles {
    /// The recording, if it is of the past.
    past: Option<PastRecording>,
    /// State of each file when it came up first, by its number.
    files: Vec<FirstSeen>,
    /// Where the kernel's image and its modules began.
    kernel_addresses: AHashMap<PathBuf, u64>,
    /// The addresses where they begin now. Read on first use, as the next field.
    kernel_addresses_now: OnceCell<AHashMap<PathBuf, u64>>,
    is_other_kernel: OnceCell<bool>,
}

/// What a file was when its name came up first.
#[derive(Default)]
struct FirstSeen {
    /// The inode that was mapped; 0 if it is not known.
    inode: u64,
    /// `None` if what was mapped was not at its place.
    facts: Option<FileFacts>,
    /// The mapped file, if it was at another place.
    kept: Option<File>,
}

/// The time and the machine of a recording of the past.
struct PastRecording {
    /// The first build-id of each file.
    build_ids: AHashMap<PathBuf, Vec<u8>>,
    /// When it ended, if it is known.
    end: Option<SystemTime>,
    /// The kernel's release; empty if it is not known.
    release: String,
    debug_files: DebugFiles,
}

impl MappedFiles {
    /// Creates one from the facts of a recording.
    pub(super) fn of_past(recording: &Recording) -> Self {
        // With --buildid-mmap there is one for each mapping.
        let ids = recording.build_ids.iter().rev();
        let build_ids = ids.map(|id| (id.file.clone(), id.id.clone())).collect();
        Self {
            past: Some(PastRecording {
                build_ids,
                end: recording.ended,
                release: recording.host.release.clone(),
                debug_files: DebugFiles::of_user(),
            }),
            ..Self::default()
        }
    }

    /// Notes a mapping that was applied to `spaces` already.
    pub(super) fn take(&mut self, map: &Map, spaces: &AddressSpaces) {
        if map.kernel {
            let name = mapped::file_name(map).to_owned();
            self.kernel_addresses.entry(name).or_insert(map.start);
        }
        for path in spaces.files().skip(self.files.len()) {
            let is_live = self.past.is_none();
            let is_file = path.is_absolute() && jit::process_of(path).is_none();
            self.files.push(if is_file {
                FirstSeen::of(path, map, is_live)
            } else {
                FirstSeen::default()
            });
        }
    }

    /// Returns the build-id that a file had, if the recording tells it.
    fn version(&self, path: &Path) -> FileVersion<'_> {
        let past = self.past.as_ref();
        let build_id = past.and_then(|past| past.build_ids.get(path));
        FileVersion {
            build_id: build_id.map(|id| &id[..]),
            facts: None,
        }
    }

    /// Returns whether a part of the kernel is what it was.
    fn has_part(&self, name: &Path) -> bool {
        if self.past.is_some() && self.is_other_kernel() {
            return false;
        }
        // What has no brackets is a program of BPF, which has its name for itself.
        let is_module = name != Path::new(KERNEL) && name.as_os_str().as_bytes().starts_with(b"[");
        !is_module || self.kernel_addresses.get(name) == self.kernel_addresses_now().get(name)
    }

    fn kernel_addresses_now(&self) -> &AHashMap<PathBuf, u64> {
        self.kernel_addresses_now.get_or_init(|| {
            let modules = procfs::modules().into_iter();
            modules
                .map(|(name, start, _)| (name.into(), start))
                .collect()
        })
    }

    /// Returns whether the kernel was another one, or was at other addresses.
    fn is_other_kernel(&self) -> bool {
        *self.is_other_kernel.get_or_init(|| {
            let Some(past) = &self.past else {
                return false;
            };
            let image = Path::new(KERNEL);
            let has_other_id = past
                .build_ids
                .get(image)
                .is_some_and(|before| build_id(image, image).is_some_and(|now| now.id != *before));
            let has_other_release = !past.release.is_empty()
                && uname().is_ok_and(|now| now.release().as_bytes() != past.release.as_bytes());
            // The same kernel may be elsewhere when it was started again.
            let is_younger = past.end.zip(boot()).is_some_and(|(end, boot)| boot > end);
            has_other_id
                || has_other_release
                || is_younger
                || self
                    .kernel_addresses
                    .get(image)
                    .is_some_and(|start| is_elsewhere(*start))
        })
    }
}

impl Programs for MappedFiles {
    fn find(&self, file: mapped::FileNumber, spaces: &AddressSpaces) -> Result<PathBuf, Absence> {
        let path = spaces.path(file);
        if path == Path::new(VDSO) {
            let id = self.version(path).build_id;
            return match &self.past {
                Some(_) if id.is_none() && self.is_other_kernel() => Err(Absence::Replaced),
                Some(past) => unwind::vdso(id, &past.debug_files),
                None => Ok(path.to_owned()),
            };
        }
        if !path.is_absolute() {
            let is_same = self.has_part(path);
            return is_same.then(|| path.to_owned()).ok_or(Absence::Replaced);
        }
        let first = &self.files[file.index()];
        // A file of generated functions grows, also after the recording, and may be in another mount namespace.
        if let Some(pid) = jit::process_of(path) {
            let end = self.past.as_ref().and_then(|past| past.end);
            let is_younger = |end| FileFacts::of(path).is_some_and(|facts| !facts.is_until(end));
            let is_other = |end| is_younger(end) && jit::begin(pid).is_none_or(|begin| begin > end);
            return (!end.is_some_and(is_other))
                .then(|| path.to_owned())
                .ok_or(Absence::Replaced);
        }
        match &self.past {
            Some(past) => past.find(path, first, self.version(path)),
            None => first.find_file(file, spaces),
        }
    }
}

impl FirstSeen {
    fn of(path: &Path, map: &Map, is_live: bool) -> Self {
        let facts = FileFacts::of(path);
        let is_it = |facts: &FileFacts| map.inode == 0 || facts.inode == map.inode;
        let facts = facts.filter(|facts| !is_live || is_it(facts));
        let is_elsewhere = is_live && facts.is_none() && map.inode != 0;
        let process = (map.task.pid, (map.start, map.length));
        Self {
            inode: map.inode,
            kept: is_elsewhere
                .then(|| open(process, path, map.inode))
                .flatten(),
            facts,
        }
    }

    /// Finds a file that was mapped while pmctl ran.
    fn find_file(
        &self,
        file: mapped::FileNumber,
        spaces: &AddressSpaces,
    ) -> Result<PathBuf, Absence> {
        let path = spaces.path(file);
        if self.facts.is_some() && FileFacts::of(path) == self.facts {
            return Ok(path.to_owned());
        }
        if let Some(kept) = &self.kept {
            return Ok(format!("/proc/self/fd/{}", kept.as_raw_fd()).into());
        }
        let inode = self.facts.map_or(self.inode, |facts| facts.inode);
        let mut mappings = spaces.mappings(file);
        let elsewhere = mappings.find_map(|process| find(process, path, inode));
        elsewhere.ok_or(Absence::Replaced)
    }
}

impl PastRecording {
    /// Finds a file that was mapped before this time, and of which a build-id may be known.
    fn find(
        &self,
        path: &Path,
        first: &FirstSeen,
        version: FileVersion<'_>,
    ) -> Result<PathBuf, Absence> {
        if version.build_id.is_some() {
            let located = self.debug_files.locate(path, version);
            return located.map(|located| located.path);
        }
        let facts = FileFacts::of(path).ok_or(Absence::Missing)?;
        let is_same = (first.inode == 0 || first.inode == facts.inode)
            && self.end.is_none_or(|end| facts.is_until(end));
        is_same.then(|| path.to_owned()).ok_or(Absence::Replaced)
    }
}

/// Finds a file of this inode that a process has mapped at this start and length, or executes.
fn find((pid, (start, length)): (u32, (u64, u64)), path: &Path, inode: u64) -> Option<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let mapping = format!("map_files/{start:x}-{:x}", start.saturating_add(length));
    let inside = path.strip_prefix("/").unwrap_or(path);
    let paths = [
        process.join(mapping),
        process.join("exe"),
        process.join("root").join(inside),
    ];
    let is_it = |path: &PathBuf| FileFacts::of(path).is_some_and(|facts| facts.inode == inode);
    paths.into_iter().find(is_it)
}

/// Opens what [`find`] finds: it stays when the process ends.
fn open(process: (u32, (u64, u64)), path: &Path, inode: u64) -> Option<File> {
    let file = files::open(&find(process, path, inode)?).ok()?;
    // The process may have ended meanwhile, and another one have its number.
    let is_it = file.metadata().is_ok_and(|facts| facts.ino() == inode);
    is_it.then_some(file)
}

/// Returns whether no symbol of the running kernel has this address, at which its image would begin; not if the
/// addresses are hidden from this user: then the names are, too.
fn is_elsewhere(start: u64) -> bool {
    let names = SymbolFinder::new(DebugFiles::of_user());
    let table = names.look_up(Path::new(KERNEL), &AHashSet::from_iter([start]));
    is_kernel(start) && table.symbols.iter().any(|symbol| symbol.start != start)
}

/// Returns the second in which the kernel was started.
fn boot() -> Option<SystemTime> {
    let facts = fs::read_to_string("/proc/stat").ok()?;
    let time = facts.lines().find_map(|line| line.strip_prefix("btime "))?;
    UNIX_EPOCH.checked_add(Duration::from_secs(time.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::recording::perfdata::{Body, BuildId, Host, Record, Stamp, Task};

    /// What is known of a recording with these mappings.
    fn seen(recording: &Recording, maps: &[Map]) -> (MappedFiles, AddressSpaces) {
        let (mut seen, mut spaces) = (MappedFiles::of_past(recording), AddressSpaces::default());
        for map in maps {
            let body = Body::Map(map.clone());
            let stamp = Stamp::default();
            spaces.apply(&Record { stamp, body });
            seen.take(map, &spaces);
        }
        (seen, spaces)
    }

    /// Why the file of a mapping is not found, if it is not.
    fn absence(recording: &Recording, map: Map) -> Option<Absence> {
        let place = map.start;
        let (seen, spaces) = seen(recording, &[map]);
        let file = spaces.find(0, place).expect("it is mapped").file;
        seen.find(file, &spaces).err()
    }

    #[test]
    fn a_file_without_a_build_id_is_known_by_inode_and_time() {
        let file = tempfile::NamedTempFile::new().expect("it can be made");
        let path = file.path().to_owned();
        let inode = FileFacts::of(&path).expect("it is there").inode;
        let map = |inode| Map {
            start: 0x1000,
            length: 0x1000,
            inode,
            file: path.clone(),
            ..Map::default()
        };
        let written = file.as_file().metadata().and_then(|facts| facts.modified());
        let written = written.expect("it is known");
        let until = |end| Recording {
            ended: Some(end),
            ..Recording::default()
        };
        let after = until(written);
        assert_eq!(absence(&after, map(inode)), None);
        assert_eq!(absence(&after, map(0)), None);
        assert_eq!(absence(&after, map(inode + 1)), Some(Absence::Replaced));
        let before = until(written - Duration::from_nanos(1));
        assert_eq!(absence(&before, map(inode)), Some(Absence::Replaced));
        file.close().expect("it is there");
        assert_eq!(absence(&after, map(inode)), Some(Absence::Missing));
    }

    /// The mapping of a part of the kernel.
    fn part(name: &str) -> Map {
        Map {
            task: Task {
                pid: u32::MAX,
                tid: 0,
            },
            kernel: true,
            start: 0xffff_ffff_f000_0000,
            length: 0x1000,
            file: name.into(),
            ..Map::default()
        }
    }

    #[test]
    fn a_kernel_of_another_machine_is_another() {
        let recording = |ids: Vec<BuildId>, release: &str| Recording {
            build_ids: ids,
            host: Host {
                release: release.to_owned(),
                ..Host::default()
            },
            ended: Some(SystemTime::now()),
            ..Recording::default()
        };
        let is_other = |recording: &Recording| MappedFiles::of_past(recording).is_other_kernel();
        let image = Path::new(KERNEL);
        let same = build_id(image, image).expect("each kernel has one");
        let mut other = same.clone();
        other.id[0] ^= 1;
        let release = uname().expect("it is known");
        let release = release.release().to_str().expect("it is text");
        assert!(is_other(&recording(vec![other], release)));
        assert!(!is_other(&recording(vec![same.clone()], release)));
        assert!(!is_other(&recording(vec![], "")));
        // Without a build-id it is known by its release.
        assert!(is_other(&recording(vec![], "5.4.0-42-generic")));
        let old = Recording {
            ended: Some(UNIX_EPOCH),
            ..recording(vec![same], release)
        };
        assert!(is_other(&old), "it was started since");
    }

    #[test]
    fn a_module_that_is_not_where_it_was_is_another() {
        let recording = Recording::default();
        for (name, expected) in [
            ("[not_loaded]", Some(Absence::Replaced)),
            ("bpf_prog_12_x", None),
        ] {
            assert_eq!(absence(&recording, part(name)), expected, "{name}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds mapped files, even if other files are now at their paths. Recognizes files and parts of
//! the kernel that were replaced.
//!
//! While `record` runs, a program may be replaced or removed, or be in another mount namespace, and can still be opened
//! through the processes that run it. When a recording is read later, only the file system is left to search.

use std::cell::OnceCell;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ahash::AHashMap;
use nix::sys::utsname::uname;

use super::build_id::build_id;
use crate::recording::address_spaces::{self as mapped, AddressSpaces};
use crate::recording::file_text::path_of_text;
use crate::recording::perfdata::{
    FileFacts, FileVersion, KERNEL, Map, Recording, VDSO, is_kernel_address,
};
use crate::recording::procfs;
use crate::recording::symbols::{Absence, DebugFiles, jit};
use crate::recording::unwind::{self, Programs};
use crate::system::files;

/// Identity of the files that were mapped, and of the kernel.
#[derive(Default)]
pub(crate) struct MappedFiles {
    /// The recording that is read; `None` while pmctl records.
    past_recording: Option<PastRecording>,
    /// State of each file when it was mapped first, by the file's number.
    files: Vec<FirstMappingState>,
    /// Start addresses of the kernel's image and its modules in the recording.
    kernel_addresses: AHashMap<PathBuf, u64>,
    /// Start addresses of the modules now, which are read on first use.
    kernel_addresses_now: OnceCell<AHashMap<PathBuf, u64>>,
    /// Result of [`Self::is_other_kernel`], which is computed on first use.
    is_other_kernel: OnceCell<bool>,
}

/// State of a file when it was mapped first. It has no content for a recording that was made before.
#[derive(Default)]
struct FirstMappingState {
    /// The inode that was mapped; 0 if it is not known.
    inode: u64,
    /// Facts of the file at the path, if it was the mapped file.
    facts: Option<FileFacts>,
    /// The mapped file, held open if it was not at its path.
    kept_open: Option<File>,
}

/// Identity and end of a recording that was made before.
struct PastRecording {
    /// The first build-id of each file, by name. The build-ids that mappings have are not included.
    build_ids: AHashMap<PathBuf, Vec<u8>>,
    /// The recorded facts of the files without build-id, by name.
    facts: AHashMap<PathBuf, FileFacts>,
    /// [`Recording::end`].
    end: Option<SystemTime>,
    /// The kernel's release; empty if it is not known.
    release: String,
    debug_files: DebugFiles,
}

impl MappedFiles {
    /// Creates an instance for reading a recording that was made before.
    pub(super) fn for_recording(recording: &Recording) -> Self {
        // The first build-id of a file is inserted last, so that it replaces the others.
        let ids = recording.build_ids.iter().rev();
        let build_ids = ids.map(|id| (id.file.clone(), id.id.clone())).collect();
        let tables = recording.notes.symbols.iter();
        let facts = tables.filter_map(|table| {
            let name = path_of_text(&table.file).into_owned();
            Some((name, table.facts?))
        });
        Self {
            past_recording: Some(PastRecording {
                build_ids,
                facts: facts.collect(),
                end: recording.end,
                release: recording.host.release.clone(),
                debug_files: DebugFiles::of_user(),
            }),
            ..Self::default()
        }
    }

    /// Notes a mapping, after it was applied to `spaces`.
    pub(crate) fn add_mapping(&mut self, map: &Map, spaces: &AddressSpaces) {
        if map.is_kernel {
            let name = mapped::file_name(map).to_owned();
            self.kernel_addresses.entry(name).or_insert(map.start);
        }
        for path in spaces.files().skip(self.files.len()) {
            let is_live = self.past_recording.is_none();
            let is_anonymous_data = map.is_data && mapped::is_anonymous(&map.file);
            let is_file =
                path.is_absolute() && jit::process_of(path).is_none() && !is_anonymous_data;
            self.files.push(if is_live && is_file {
                FirstMappingState::of(mapped::file_name(map), map)
            } else {
                FirstMappingState::default()
            });
        }
    }

    /// Returns the recorded version of a file: by the build-id of its mappings, or by its name if
    /// the mappings have no build-id.
    fn version_of<'a>(
        &'a self,
        file: mapped::FileNumber,
        spaces: &'a AddressSpaces,
    ) -> FileVersion<'a> {
        let past = self.past_recording.as_ref();
        let of_name = || past.and_then(|past| past.build_ids.get(spaces.path(file)));
        let of_mappings = spaces.build_id(file);
        FileVersion {
            build_id: of_mappings.or_else(|| of_name().map(|id| &id[..])),
            facts: past.and_then(|past| past.facts.get(spaces.path(file))),
        }
    }

    /// Returns whether the kernel's image, a module or a BPF program is the same as in the
    /// recording.
    fn is_same_kernel_part(&self, name: &Path) -> bool {
        if self.past_recording.is_some() && self.is_other_kernel() {
            return false;
        }
        // A name without brackets is a BPF program, whose name is unique.
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

    /// Returns whether the running kernel is another one than in the recording, or is at other addresses.
    pub(super) fn is_other_kernel(&self) -> bool {
        *self.is_other_kernel.get_or_init(|| {
            let Some(past) = &self.past_recording else {
                return false;
            };
            let image = Path::new(KERNEL);
            let has_other_id = past
                .build_ids
                .get(image)
                .is_some_and(|before| build_id(image, image).is_some_and(|now| now.id != *before));
            let has_other_release = !past.release.is_empty()
                && uname().is_ok_and(|now| now.release().as_bytes() != past.release.as_bytes());
            // After a reboot the same kernel may be at other addresses.
            let was_rebooted = past
                .end
                .zip(boot_time())
                .is_some_and(|(end, boot)| boot > end);
            has_other_id
                || has_other_release
                || was_rebooted
                || self
                    .kernel_addresses
                    .get(image)
                    .is_some_and(|start| is_moved(*start, procfs::kernel_start()))
        })
    }
}

impl Programs for MappedFiles {
    fn find(&self, file: mapped::FileNumber, spaces: &AddressSpaces) -> Result<PathBuf, Absence> {
        let path = spaces.path(file);
        if path == Path::new(VDSO) {
            let id = self.version_of(file, spaces).build_id;
            return match &self.past_recording {
                Some(_) if id.is_none() && self.is_other_kernel() => Err(Absence::Replaced),
                Some(past) => unwind::vdso(id, &past.debug_files),
                None => Ok(path.to_owned()),
            };
        }
        if !path.is_absolute() {
            let is_same = self.is_same_kernel_part(path);
            return is_same.then(|| path.to_owned()).ok_or(Absence::Replaced);
        }
        if let Some(pid) = jit::process_of(path) {
            let past = self.past_recording.as_ref();
            let is_same = past.is_none_or(|past| past.has_jit_map(pid, path));
            return is_same.then(|| path.to_owned()).ok_or(Absence::Replaced);
        }
        match &self.past_recording {
            Some(past) => {
                let version = self.version_of(file, spaces);
                past.find(
                    spaces.path_in_file_system(file),
                    spaces.inode(file),
                    version,
                )
            }
            None => self.files[file.index()].find_file(file, spaces),
        }
    }
}

impl FirstMappingState {
    /// Notes the state of the file at `path`.
    fn of(path: &Path, map: &Map) -> Self {
        let facts = FileFacts::of(path);
        let is_same_file = |facts: &FileFacts| map.inode == 0 || facts.inode == map.inode;
        let facts = facts.filter(is_same_file);
        let is_elsewhere = facts.is_none() && map.inode != 0;
        let process = (map.task.pid, (map.start, map.length));
        Self {
            inode: map.inode,
            kept_open: is_elsewhere
                .then(|| open_through_process(process, path, map.inode))
                .flatten(),
            facts,
        }
    }

    /// Finds a file that was mapped while this pmctl records.
    fn find_file(
        &self,
        file: mapped::FileNumber,
        spaces: &AddressSpaces,
    ) -> Result<PathBuf, Absence> {
        let path = spaces.path_in_file_system(file);
        if self.facts.is_some() && FileFacts::of(path) == self.facts {
            return Ok(path.to_owned());
        }
        if let Some(file) = &self.kept_open {
            return Ok(format!("/proc/self/fd/{}", file.as_raw_fd()).into());
        }
        let inode = self.facts.map_or(self.inode, |facts| facts.inode);
        let mut mappings = spaces.mappings(file);
        let found_path = mappings.find_map(|process| find_through_process(process, path, inode));
        found_path.ok_or(Absence::Replaced)
    }
}

impl PastRecording {
    /// Finds a file of a recording that was made before: by its build-id or its facts if they are recorded, or by inode
    /// and time.
    fn find(
        &self,
        path: &Path,
        inode: Option<u64>,
        version: FileVersion<'_>,
    ) -> Result<PathBuf, Absence> {
        if version.build_id.is_some() || version.facts.is_some() {
            let located_file = self.debug_files.locate(path, version);
            return located_file.map(|located_file| located_file.path);
        }
        FileFacts::of(path).ok_or(Absence::Missing)?;
        let is_same = files::is_unchanged(path, inode, self.end);
        is_same.then(|| path.to_owned()).ok_or(Absence::Replaced)
    }

    /// Returns whether the map of JIT code of a process number is that of the recorded process. The map grows while its
    /// process runs, also after the recording, and may be in another mount namespace.
    fn has_jit_map(&self, pid: u32, path: &Path) -> bool {
        match jit::begin_time(pid) {
            Some(begin) => self.end.is_some_and(|end| begin <= end),
            // The process has ended. If it had no map, there is nothing to read.
            None => !path.exists() || files::is_unchanged(path, None, self.end),
        }
    }
}

/// Finds a file with this inode through a process that maps it at this start and length, or executes it.
fn find_through_process(
    (pid, (start, length)): (u32, (u64, u64)),
    path: &Path,
    inode: u64,
) -> Option<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let mapping = format!("map_files/{start:x}-{:x}", start.saturating_add(length));
    let relative_path = path.strip_prefix("/").unwrap_or(path);
    let paths = [
        process.join(mapping),
        process.join("exe"),
        process.join("root").join(relative_path),
    ];
    let has_inode = |path: &PathBuf| FileFacts::of(path).is_some_and(|facts| facts.inode == inode);
    paths.into_iter().find(has_inode)
}

/// Opens the file that [`find_through_process`] finds, so that it can be read after the process has ended.
fn open_through_process(process: (u32, (u64, u64)), path: &Path, inode: u64) -> Option<File> {
    let file = files::open(&find_through_process(process, path, inode)?).ok()?;
    // The process may have ended since, and its ID may belong to another process.
    let has_inode = file.metadata().is_ok_and(|facts| facts.ino() == inode);
    has_inode.then_some(file)
}

/// Returns whether the running kernel's image, which is at `now`, begins at another address than `start`, its address in the
/// recording. Returns false if the kernel's addresses are hidden from this user.
fn is_moved(start: u64, now: Option<u64>) -> bool {
    is_kernel_address(start) && now.is_some_and(|now| now != start)
}

/// Returns the time at which the kernel was started, to the second.
fn boot_time() -> Option<SystemTime> {
    let facts = fs::read_to_string("/proc/stat").ok()?;
    let time = facts.lines().find_map(|line| line.strip_prefix("btime "))?;
    UNIX_EPOCH.checked_add(Duration::from_secs(time.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::recording::perfdata::{
        Body, BuildId, Host, Notes, Record, Stamp, SymbolTable, Task,
    };
    use crate::recording::symbols::testing::Inlined;

    /// Returns the state after these mappings of a recording.
    fn apply(recording: &Recording, maps: &[Map]) -> (MappedFiles, AddressSpaces) {
        let mut mapped_files = MappedFiles::for_recording(recording);
        let mut spaces = AddressSpaces::default();
        for map in maps {
            let body = Body::Map(map.clone());
            let stamp = Stamp::default();
            spaces.apply(&Record { stamp, body });
            mapped_files.add_mapping(map, &spaces);
        }
        (mapped_files, spaces)
    }

    /// Returns the reason why the file of a mapping is not found; `None` if it is found.
    fn absence(recording: &Recording, map: Map) -> Option<Absence> {
        let address = map.start;
        let (mapped_files, spaces) = apply(recording, &[map]);
        let file = spaces.find(0, address).expect("it is mapped").file;
        mapped_files.find(file, &spaces).err()
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
        let change_time = file.as_file().metadata().and_then(|facts| facts.modified());
        let change_time = change_time.expect("it is known");
        let ended_at = |end| Recording {
            end: Some(end),
            ..Recording::default()
        };
        let ended_after = ended_at(change_time);
        assert_eq!(absence(&ended_after, map(inode)), None);
        assert_eq!(absence(&ended_after, map(0)), None);
        assert_eq!(
            absence(&ended_after, map(inode + 1)),
            Some(Absence::Replaced)
        );
        let ended_before = ended_at(change_time - Duration::from_nanos(1));
        assert_eq!(absence(&ended_before, map(inode)), Some(Absence::Replaced));
        let end_unknown = Recording::default();
        assert_eq!(absence(&end_unknown, map(inode)), Some(Absence::Replaced));
        file.close().expect("it is there");
        assert_eq!(absence(&ended_after, map(inode)), Some(Absence::Missing));
    }

    #[test]
    fn a_file_with_recorded_facts_is_known_by_them() {
        let program = Inlined::new(&[Inlined::NO_BUILD_ID]);
        let path = &program.path;
        let recording = Recording {
            notes: Notes {
                symbols: vec![SymbolTable {
                    file: path.to_str().expect("it is text").to_owned(),
                    facts: FileFacts::of(path),
                    ..SymbolTable::default()
                }],
                ..Notes::default()
            },
            ..Recording::default()
        };
        let map = Map {
            start: 0x1000,
            length: 0x1000,
            file: path.clone(),
            ..Map::default()
        };
        assert_eq!(absence(&recording, map.clone()), None);
        let file = File::options().write(true).open(path);
        let result = file.and_then(|file| file.set_modified(UNIX_EPOCH));
        result.expect("it is ours");
        assert_eq!(absence(&recording, map), Some(Absence::Replaced));
    }

    #[test]
    fn a_map_of_jit_code_is_that_of_the_recorded_process() {
        let is_own = |end, pid: u32| {
            let path = jit::map_path(pid);
            let recording = Recording {
                end,
                ..Recording::default()
            };
            let mapped_files = MappedFiles::for_recording(&recording);
            let past = mapped_files.past_recording.expect("it is one");
            past.has_jit_map(pid, &path)
        };
        let now = SystemTime::now();
        let own_pid = std::process::id();
        assert!(is_own(Some(now), own_pid));
        assert!(!is_own(Some(UNIX_EPOCH), own_pid), "its number was reused");
        assert!(!is_own(None, own_pid), "its number may have been reused");
        // A number above the kernel's limit, so that no process has it.
        let ended_pid = u32::MAX - std::process::id();
        assert!(is_own(None, ended_pid), "it has no map");
        let path = jit::map_path(ended_pid);
        fs::write(&path, "").expect("it can be written");
        let results = [
            is_own(None, ended_pid),
            is_own(Some(UNIX_EPOCH), ended_pid),
            is_own(Some(now + Duration::from_secs(1)), ended_pid),
        ];
        fs::remove_file(&path).expect("it is there");
        assert_eq!(results, [false, false, true]);
    }

    #[test]
    fn each_file_of_a_path_is_found_by_its_inode() {
        let file = tempfile::NamedTempFile::new().expect("it can be made");
        let inode = FileFacts::of(file.path()).expect("it is there").inode;
        let map = |start, inode| Map {
            start,
            length: 0x1000,
            inode,
            file: file.path().to_owned(),
            ..Map::default()
        };
        let recording = Recording {
            end: Some(SystemTime::now() + Duration::from_secs(1)),
            ..Recording::default()
        };
        for [first, second] in [[inode, inode + 1], [inode + 1, inode]] {
            let maps = [map(0x1000, first), map(0x2000, second)];
            let (mapped_files, spaces) = apply(&recording, &maps);
            let found = |address| {
                let file = spaces.find(0, address).expect("it is mapped").file;
                mapped_files.find(file, &spaces)
            };
            let expected = |of| {
                if of == inode {
                    Ok(file.path().to_owned())
                } else {
                    Err(Absence::Replaced)
                }
            };
            assert_eq!(found(0x1000), expected(first));
            assert_eq!(found(0x2000), expected(second));
        }
    }

    #[test]
    fn each_file_of_a_path_is_found_by_its_build_id() {
        let program = Inlined::new(&[]);
        let path = &program.path;
        let own_id = program.build_id.clone().expect("it has one");
        let mut other_id = own_id.clone();
        other_id[0] ^= 1;
        let map = |start, id: &[u8]| Map {
            start,
            length: 0x1000,
            build_id: id.to_vec(),
            file: path.to_owned(),
            ..Map::default()
        };
        for [first, second] in [[&own_id, &other_id], [&other_id, &own_id]] {
            let maps = [map(0x1000, first), map(0x2000, second)];
            let (mapped_files, spaces) = apply(&Recording::default(), &maps);
            for (address, id) in [(0x1000, first), (0x2000, second)] {
                let file = spaces.find(0, address).expect("it is mapped").file;
                let expected = if *id == own_id {
                    Ok(path.to_owned())
                } else {
                    Err(Absence::Replaced)
                };
                assert_eq!(mapped_files.find(file, &spaces), expected);
            }
        }
    }

    /// Returns the mapping of a part of the kernel.
    fn kernel_part(name: &str) -> Map {
        Map {
            task: Task {
                pid: u32::MAX,
                tid: 0,
            },
            is_kernel: true,
            start: 0xffff_ffff_f000_0000,
            length: 0x1000,
            file: name.into(),
            ..Map::default()
        }
    }

    #[test]
    fn a_kernel_of_another_machine_is_recognized() {
        let recording = |ids: Vec<BuildId>, release: &str| Recording {
            build_ids: ids,
            host: Host {
                release: release.to_owned(),
                ..Host::default()
            },
            end: Some(SystemTime::now()),
            ..Recording::default()
        };
        let is_other =
            |recording: &Recording| MappedFiles::for_recording(recording).is_other_kernel();
        let image = Path::new(KERNEL);
        let image_id = build_id(image, image).expect("each kernel has one");
        let mut other_id = image_id.clone();
        other_id.id[0] ^= 1;
        let release = uname().expect("it is known");
        let release = release.release().to_str().expect("it is text");
        assert!(is_other(&recording(vec![other_id], release)));
        assert!(!is_other(&recording(vec![image_id.clone()], release)));
        assert!(!is_other(&recording(vec![], "")));
        // Without a build-id the kernel is known by its release.
        assert!(is_other(&recording(vec![], "5.4.0-42-generic")));
        let old_recording = Recording {
            end: Some(UNIX_EPOCH),
            ..recording(vec![image_id], release)
        };
        assert!(
            is_other(&old_recording),
            "it was started after the recording"
        );
    }

    #[test]
    fn a_kernel_may_have_moved_up_or_down() {
        let start = 0xffff_ffff_8f00_0000;
        assert!(!is_moved(start, Some(start)));
        assert!(is_moved(start, Some(start + 0x100_0000)));
        assert!(is_moved(start, Some(start - 0x100_0000)));
        assert!(!is_moved(start, None), "the address is hidden");
    }

    #[test]
    fn a_module_at_another_address_is_replaced() {
        let recording = Recording::default();
        for (name, expected) in [
            ("[not_loaded]", Some(Absence::Replaced)),
            ("bpf_prog_12_x", None),
        ] {
            assert_eq!(absence(&recording, kernel_part(name)), expected, "{name}");
        }
    }
}

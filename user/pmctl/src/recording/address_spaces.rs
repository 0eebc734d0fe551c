// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and executable memory of tasks, and the paths of cgroups, as of the records so far.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahash::AHashMap;

use crate::recording::perfdata::{Body, KERNEL, Map, Record, Stamp, Task, VDSO, is_kernel_address};
use crate::recording::symbols::{hexadecimal, jit};

/// Names and mappings of the processes of a recording and its cgroups, kept while its records are read.
#[derive(Debug, Default)]
pub(crate) struct AddressSpaces {
    /// The mappings of each process, by their start address. A new process shares those of its parent until one of the two
    /// maps a file: a damaged file could have any number of processes without a mapping of their own.
    processes: AHashMap<u32, Arc<BTreeMap<u64, Mapping>>>,
    /// The mappings of the kernel and its modules, by their start address.
    kernel: BTreeMap<u64, Mapping>,
    /// Number of processes that have had each PID so far: the kernel uses PIDs again.
    pid_reuse_counts: AHashMap<u32, u32>,
    names: AHashMap<Task, NameNumber>,
    /// Number of tasks in `names` of each process that has some.
    named_threads: AHashMap<u32, usize>,
    /// The paths of cgroups, by ID.
    cgroups: AHashMap<u64, String>,
    /// Names of files: their paths, or as [`AddressSpaces::name_of_file`] tells files of one path apart.
    paths: NumberedValues<PathBuf>,
    /// The first mapped file of each path.
    first_files: AHashMap<PathBuf, FileIdentity>,
    /// The path and the identity of each file that is not the first of its path.
    later_files: AHashMap<FileNumber, (PathBuf, FileIdentity)>,
    /// Names of tasks.
    comms: NumberedValues<String>,
}

/// Distinct values, numbered from 0 on.
#[derive(Debug)]
struct NumberedValues<T> {
    values: Vec<T>,
    numbers: AHashMap<T, u32>,
}

impl<T> Default for NumberedValues<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: AHashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> NumberedValues<T> {
    fn number<Q: Hash + Eq + ToOwned<Owned = T> + ?Sized>(&mut self, value: &Q) -> u32
    where
        T: Borrow<Q>,
    {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.to_owned());
        self.numbers.insert(value.to_owned(), number);
        number
    }
}

/// The number of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileNumber(u32);

/// The number of a task's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameNumber(u32);

/// The device and the inode, or the build-id, by which files of the same path differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FileIdentity {
    device: (u32, u32),
    inode: u64,
    /// The build-id; empty if the mapping has device and inode.
    build_id: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    length: u64,
    offset: u64,
    file: FileNumber,
    /// The mapping can't be executed.
    is_data: bool,
}

/// A file and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileOffset {
    pub(crate) file: FileNumber,
    /// Offset from the beginning of the file; for the kernel, the address.
    pub(crate) offset: u64,
}

impl AddressSpaces {
    /// Applies a record.
    pub(crate) fn apply(&mut self, record: &Record) {
        match &record.body {
            Body::Map(map) => self.add_mapping(map),
            Body::Comm { task, name, exec } => {
                if *exec {
                    // execve(2) gives the process a new address space, and ends its other threads.
                    self.processes.remove(&task.pid);
                }
                let name = NameNumber(self.comms.number(name.as_str()));
                self.set_name(*task, name);
            }
            Body::Cgroup { id, path } => {
                self.cgroups.insert(*id, path.clone());
            }
            Body::Fork { child, parent } => {
                match self.names.get(parent).copied() {
                    Some(name) => self.set_name(*child, name),
                    None => self.forget_name(*child),
                }
                if child.pid != parent.pid {
                    // An earlier process may have had the same number.
                    *self.pid_reuse_counts.entry(child.pid).or_default() += 1;
                    match self.processes.get(&parent.pid).cloned() {
                        Some(maps) => self.processes.insert(child.pid, maps),
                        None => self.processes.remove(&child.pid),
                    };
                }
            }
            _ => {}
        }
    }

    /// Returns records that make an empty instance equal to this one.
    pub(crate) fn records(&self) -> Vec<Record> {
        let comms = self.names.iter().map(|(task, name)| Body::Comm {
            task: *task,
            name: self.comms.values[name.0 as usize].clone(),
            exec: false,
        });
        let map = |pid, (start, mapping): (&u64, &Mapping)| {
            let identity = self.identity(mapping.file).cloned().unwrap_or_default();
            Body::Map(Map {
                task: Task::leader(pid),
                is_kernel: is_kernel_address(*start),
                start: *start,
                length: mapping.length,
                offset: mapping.offset,
                device: identity.device,
                inode: identity.inode,
                build_id: identity.build_id,
                is_data: mapping.is_data,
                file: self.path_in_file_system(mapping.file).to_owned(),
                ..Map::default()
            })
        };
        let spaces = self.processes.iter();
        let entries = spaces.flat_map(|(pid, maps)| maps.iter().map(|entry| (*pid, entry)));
        let mut users: Vec<(FileNumber, Body)> = entries
            .map(|(pid, entry)| (entry.1.file, map(pid, entry)))
            .collect();
        // The first file of a path stays the first one in the records, too.
        users.sort_by_key(|(file, body)| (!is_memfd(body), *file));
        let users = users.into_iter().map(|(_, body)| body);
        let kernel = self.kernel.iter().map(|entry| map(u32::MAX, entry));
        let cgroups = self.cgroups.iter().map(|(id, path)| Body::Cgroup {
            id: *id,
            path: path.clone(),
        });
        let bodies = comms.chain(users).chain(kernel).chain(cgroups);
        let stamp = Stamp::default();
        bodies.map(|body| Record { stamp, body }).collect()
    }

    /// Removes a task that has ended. With the last thread of a process, its mappings are removed.
    pub(crate) fn end(&mut self, task: Task) {
        self.forget_name(task);
        if !self.named_threads.contains_key(&task.pid) {
            self.processes.remove(&task.pid);
        }
    }

    fn set_name(&mut self, task: Task, name: NameNumber) {
        if self.names.insert(task, name).is_none() {
            *self.named_threads.entry(task.pid).or_default() += 1;
        }
    }

    fn forget_name(&mut self, task: Task) {
        if self.names.remove(&task).is_none() {
            return;
        }
        if let Entry::Occupied(mut threads) = self.named_threads.entry(task.pid) {
            *threads.get_mut() -= 1;
            if *threads.get() == 0 {
                threads.remove();
            }
        }
    }

    /// Adds a mapping. It replaces what was mapped at its addresses.
    fn add_mapping(&mut self, map: &Map) {
        // A damaged file may have it. Linux has no empty mapping.
        if map.length == 0 {
            return;
        }
        let name = self.name_of_file(map);
        let is_code = !map.is_kernel
            && !map.is_data
            && is_anonymous(&map.file)
            && !self.is_program(map, &name);
        let file = if is_code {
            FileNumber(self.paths.number(&*jit::map_of(map.task.pid)))
        } else {
            let file = FileNumber(self.paths.number(&*name));
            if let Cow::Owned(_) = name {
                let identity = FileIdentity::of(map);
                let later = (map.file.clone(), identity);
                self.later_files.entry(file).or_insert(later);
            }
            file
        };
        let maps = if map.is_kernel {
            &mut self.kernel
        } else {
            Arc::make_mut(self.processes.entry(map.task.pid).or_default())
        };
        let mut end = map.start.saturating_add(map.length);
        if map.is_kernel {
            // The length of a module includes its data, which may be at other addresses, so another module may begin within
            // the length.
            let mut following = maps.range(map.start.saturating_add(1)..end);
            end = following.next().map_or(end, |(next, _)| *next);
        }
        // Removes older mappings in this range, except their parts outside of it.
        let first = maps.range(..map.start).next_back();
        let first = first.filter(|(start, old)| **start + old.length > map.start);
        let first = first.map_or(map.start, |(start, _)| *start);
        let covered_starts: Vec<u64> = maps.range(first..end).map(|(start, _)| *start).collect();
        for start in covered_starts {
            let Some(old) = maps.remove(&start) else {
                continue;
            };
            let range = start..start.saturating_add(old.length);
            for part in parts_outside(range, &(map.start..end)) {
                let mapping = Mapping {
                    length: part.end - part.start,
                    offset: old.offset.wrapping_add(part.start - start),
                    file: old.file,
                    is_data: old.is_data,
                };
                maps.insert(part.start, mapping);
            }
        }
        // Symbols of the kernel and of JIT code are by address, so the address takes the place of the offset.
        let offset = if map.is_kernel || is_code {
            map.start
        } else {
            map.offset
        };
        let mapping = Mapping {
            length: end - map.start,
            offset,
            file,
            is_data: map.is_data,
        };
        maps.insert(map.start, mapping);
    }

    /// Returns the name of a mapped file: its path. If the first file of the path is another one, as in a container or before
    /// an upgrade, returns the path with the inode and the device, as in `/bin/a (inode 12 of 8:1)`, or with the build-id.
    fn name_of_file<'a>(&mut self, map: &'a Map) -> Cow<'a, Path> {
        let path = file_name(map);
        let identity = FileIdentity::of(map);
        // Files of perf's recordings may have neither inode nor build-id.
        if map.is_kernel || !identity.is_known() {
            return Cow::Borrowed(path);
        }
        let Some(first) = self.first_files.get(path) else {
            self.first_files.insert(path.to_owned(), identity);
            return Cow::Borrowed(path);
        };
        if *first == identity {
            return Cow::Borrowed(path);
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!(" ({})", identity.in_words()));
        Cow::Owned(name.into())
    }

    /// Returns whether a mapping of a file of `memfd_create(2)` is the program that the process executes, and not JIT code.
    /// The program is the first file that a process maps.
    fn is_program(&self, map: &Map, name: &Path) -> bool {
        let is_memfd = map.file.as_os_str().as_bytes().starts_with(MEMFD);
        let Some(maps) = self.processes.get(&map.task.pid).filter(|_| is_memfd) else {
            return is_memfd;
        };
        let number = self.paths.numbers.get(name);
        let is_of_file = |mapping: &Mapping| Some(&mapping.file.0) == number;
        // The segments of data of the program, and the stack, are mapped before its code.
        let is_earlier = |mapping: &Mapping| {
            mapping.is_data && (is_of_file(mapping) || is_anonymous(self.path(mapping.file)))
        };
        maps.values().all(is_earlier)
            || maps
                .values()
                .any(|mapping| !mapping.is_data && is_of_file(mapping))
    }

    /// Returns the file and the offset of an address in a process.
    pub(crate) fn find(&self, pid: u32, address: u64) -> Option<FileOffset> {
        let maps = if is_kernel_address(address) {
            &self.kernel
        } else {
            &**self.processes.get(&pid)?
        };
        let (start, mapping) = maps.range(..=address).next_back()?;
        let offset_in_mapping = address - start;
        (offset_in_mapping < mapping.length).then(|| FileOffset {
            file: mapping.file,
            offset: mapping.offset.wrapping_add(offset_in_mapping),
        })
    }

    /// Returns the processes that have mapped a file, with the start and the length of each mapping.
    pub(crate) fn mappings(
        &self,
        file: FileNumber,
    ) -> impl Iterator<Item = (u32, (u64, u64))> + '_ {
        let processes = self.processes.iter();
        processes.flat_map(move |(pid, maps)| {
            let of_file = maps.iter().filter(move |(_, map)| map.file == file);
            of_file.map(|(start, map)| (*pid, (*start, map.length)))
        })
    }

    /// Returns the number of processes that have begun so far with this process number, which tells them apart.
    pub(crate) fn pid_reuse_count(&self, pid: u32) -> u32 {
        self.pid_reuse_counts.get(&pid).copied().unwrap_or(0)
    }

    /// Returns the only process with a mapping at an address; `None` also if several have one.
    pub(crate) fn only_owner(&self, address: u64) -> Option<u32> {
        let mut owners = self
            .processes
            .keys()
            .filter(|pid| self.find(**pid, address).is_some());
        let owner = owners.next().copied();
        owner.filter(|_| owners.next().is_none())
    }

    /// Returns the numbers of the files so far, in ascending order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = FileNumber> + use<> {
        (0..u32::try_from(self.paths.values.len()).unwrap_or(u32::MAX)).map(FileNumber)
    }

    /// Returns the names of the files so far, in the order of their numbers.
    pub(crate) fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.paths.values.iter().map(PathBuf::as_path)
    }

    /// Returns the name of a file: its path, with more words if another file with the same path was mapped before.
    pub(crate) fn path(&self, file: FileNumber) -> &Path {
        &self.paths.values[file.index()]
    }

    /// Returns the path at which a file was mapped. Another file may have been mapped at the same path.
    pub(crate) fn path_in_file_system(&self, file: FileNumber) -> &Path {
        let later = self.later_files.get(&file);
        later.map_or_else(|| self.path(file), |(path, _)| path)
    }

    /// Returns the number of files that have the path of an earlier file.
    pub(crate) fn later_files(&self) -> usize {
        self.later_files.len()
    }

    fn identity(&self, file: FileNumber) -> Option<&FileIdentity> {
        let later = self.later_files.get(&file);
        let first = || self.first_files.get(self.path(file));
        later.map(|(_, identity)| identity).or_else(first)
    }

    /// Returns the build-id that the mappings of a program or library have.
    pub(crate) fn build_id(&self, file: FileNumber) -> Option<&[u8]> {
        let id = &self.identity(file)?.build_id[..];
        (!id.is_empty()).then_some(id)
    }

    /// Returns the number of a task's name. A thread without a name of its own has the name of its process.
    pub(crate) fn name(&self, task: Task) -> Option<NameNumber> {
        let leader = Task::leader(task.pid);
        let name = self.names.get(&task).or_else(|| self.names.get(&leader));
        name.copied()
    }

    /// Returns the name of a task.
    pub(crate) fn comm(&self, task: Task) -> &str {
        match self.name(task) {
            Some(name) => &self.comms.values[name.0 as usize],
            None if task.pid == 0 => "swapper",
            None => UNKNOWN,
        }
    }

    /// Returns the path of a cgroup; `None` if it is not known.
    pub(crate) fn cgroup(&self, id: u64) -> Option<&str> {
        self.cgroups.get(&id).map(String::as_str)
    }
}

impl FileIdentity {
    fn of(map: &Map) -> Self {
        Self {
            device: map.device,
            inode: map.inode,
            build_id: map.build_id.clone(),
        }
    }

    fn is_known(&self) -> bool {
        self.inode != 0 || !self.build_id.is_empty()
    }

    fn in_words(&self) -> String {
        let (major, minor) = self.device;
        match &self.build_id[..] {
            [] => format!("inode {} of {major}:{minor}", self.inode),
            id => format!("build-id {}", hexadecimal(id)),
        }
    }
}

impl FileNumber {
    /// Returns the number.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// Returns the number as an index.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Shown in the place of a name that is not known.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// The name for the vDSO of 32-bit programs, which differs from that of 64-bit programs.
const VDSO32: &str = "[vdso32]";

/// The beginning of the names of files of `memfd_create(2)`, which exist in memory only.
const MEMFD: &[u8] = b"/memfd:";

/// Returns whether a record is the mapping of a file of `memfd_create(2)`. If that file is the program, its record must
/// be the first of the process, so that [`AddressSpaces`] recognizes it.
pub(crate) fn is_memfd(body: &Body) -> bool {
    match body {
        Body::Map(map) => map.file.as_os_str().as_bytes().starts_with(MEMFD),
        _ => false,
    }
}

/// Returns whether the name is one of anonymous memory. Code in such memory is JIT code.
pub(crate) fn is_anonymous(name: &Path) -> bool {
    const ANONYMOUS_PREFIXES: [&[u8]; 8] = [
        b"//anon",
        b"/anon_hugepage",
        b"/dev/zero",
        MEMFD,
        b"/SYSV",
        b"[anon",
        b"[heap]",
        b"[stack",
    ];
    let name = name.as_os_str().as_bytes();
    name.is_empty()
        || ANONYMOUS_PREFIXES
            .iter()
            .any(|start| name.starts_with(start))
}

/// Returns the parts of a range of addresses that a newer one does not cover.
pub(crate) fn parts_outside(
    old: Range<u64>,
    new: &Range<u64>,
) -> impl Iterator<Item = Range<u64>> + use<> {
    let below = old.start..old.end.min(new.start);
    let above = old.start.max(new.end)..old.end;
    [below, above].into_iter().filter(|part| !part.is_empty())
}

/// Returns the name of the mapped file, without the symbol after the kernel's.
pub(crate) fn file_name(map: &Map) -> &Path {
    match map.file.to_str() {
        Some(name) if name.starts_with(KERNEL) => Path::new(KERNEL),
        Some(VDSO) if u32::try_from(map.start).is_ok() => Path::new(VDSO32),
        _ => &map.file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pid: u32, start: u64, length: u64, file: &str) -> Record {
        let map = Map {
            task: Task::leader(pid),
            is_kernel: is_kernel_address(start),
            start,
            length,
            offset: 0x1000,
            file: file.into(),
            ..Map::default()
        };
        record(Body::Map(map))
    }

    fn record(body: Body) -> Record {
        Record {
            stamp: crate::recording::perfdata::Stamp::default(),
            body,
        }
    }

    fn place(spaces: &AddressSpaces, pid: u32, address: u64) -> Option<(&str, u64)> {
        let place = spaces.find(pid, address)?;
        let file = spaces.path(place.file);
        Some((file.to_str().expect("it is text"), place.offset))
    }

    /// Returns the address spaces that the records of `spaces` make.
    fn rebuilt(spaces: &AddressSpaces) -> AddressSpaces {
        let mut copy = AddressSpaces::default();
        for record in spaces.records() {
            copy.apply(&record);
        }
        copy
    }

    #[test]
    fn an_empty_mapping_is_left_out() {
        const KERNEL: u64 = 0xffff_ffff_8000_0000;
        let mut spaces = AddressSpaces::default();
        spaces.apply(&map(0, KERNEL, 0x3000, "[kernel]"));
        spaces.apply(&map(0, KERNEL + 0x1000, 0, "[empty]"));
        assert_eq!(
            place(&spaces, 0, KERNEL + 0x1000),
            Some(("[kernel]", KERNEL + 0x1000))
        );
    }

    #[test]
    fn a_new_mapping_replaces_older_ones() {
        let mut spaces = AddressSpaces::default();
        spaces.apply(&map(1, 0x1000, 0x3000, "old"));
        spaces.apply(&map(1, 0x2000, 0x1000, "new"));
        assert_eq!(place(&spaces, 1, 0x0fff), None);
        assert_eq!(place(&spaces, 1, 0x1fff), Some(("old", 0x1fff)));
        assert_eq!(place(&spaces, 1, 0x2000), Some(("new", 0x1000)));
        assert_eq!(place(&spaces, 1, 0x3000), Some(("old", 0x3000)));
        assert_eq!(place(&spaces, 1, 0x4000), None);
        assert_eq!(place(&spaces, 2, 0x2000), None);
    }

    #[test]
    fn anonymous_memory_is_jit_code_of_its_process() {
        let mut spaces = AddressSpaces::default();
        spaces.apply(&map(1, 0x1000, 0x1000, "//anon"));
        spaces.apply(&map(2, 0x9000, 0x1000, "/bin/true"));
        spaces.apply(&map(2, 0x1000, 0x1000, "/memfd:code (deleted)"));
        assert_eq!(place(&spaces, 1, 0x1008), Some(("/tmp/perf-1.map", 0x1008)));
        assert_eq!(place(&spaces, 2, 0x1008), Some(("/tmp/perf-2.map", 0x1008)));
        let (child, parent) = (Task::leader(3), Task::leader(1));
        spaces.apply(&record(Body::Fork { child, parent }));
        assert_eq!(place(&spaces, 3, 0x1008), Some(("/tmp/perf-1.map", 0x1008)));
    }

    #[test]
    fn a_child_shares_mappings_until_it_has_its_own() {
        let mut spaces = AddressSpaces::default();
        spaces.apply(&map(1, 0x1000, 0x1000, "/bin/a"));
        let (child, parent) = (Task::leader(2), Task::leader(1));
        spaces.apply(&record(Body::Fork { child, parent }));
        assert!(Arc::ptr_eq(&spaces.processes[&1], &spaces.processes[&2]));
        spaces.apply(&map(2, 0x1000, 0x1000, "/bin/b"));
        assert_eq!(place(&spaces, 1, 0x1000), Some(("/bin/a", 0x1000)));
        assert_eq!(place(&spaces, 2, 0x1000), Some(("/bin/b", 0x1000)));
    }

    #[test]
    fn a_program_without_a_name_in_the_file_system_is_a_file() {
        let name = "/memfd:program (deleted)";
        let mut spaces = AddressSpaces::default();
        spaces.apply(&map(1, 0x8000, 0x1000, "/bin/sh"));
        let (task, exec) = (Task::leader(1), true);
        let comm = "program".to_owned();
        spaces.apply(&record(Body::Comm {
            task,
            name: comm,
            exec,
        }));
        spaces.apply(&map(1, 0x5000, 0x1000, name));
        spaces.apply(&map(1, 0x7000, 0x1000, "/lib/ld.so"));
        spaces.apply(&map(1, 0x6000, 0x1000, name));
        spaces.apply(&map(1, 0x1000, 0x1000, "/memfd:code (deleted)"));
        for spaces in [&spaces, &rebuilt(&spaces)] {
            assert_eq!(place(spaces, 1, 0x5000), Some((name, 0x1000)));
            assert_eq!(place(spaces, 1, 0x6000), Some((name, 0x1000)));
            assert_eq!(place(spaces, 1, 0x1000), Some(("/tmp/perf-1.map", 0x1000)));
        }
    }

    /// Returns the record of a mapping that can't be executed.
    fn data_map(pid: u32, start: u64, length: u64, file: &str) -> Record {
        let mut record = map(pid, start, length, file);
        if let Body::Map(map) = &mut record.body {
            map.is_data = true;
        }
        record
    }

    #[test]
    fn data_is_no_jit_code() {
        let code = "/memfd:code (deleted)";
        let program = "/memfd:program (deleted)";
        let mut spaces = AddressSpaces::default();
        spaces.apply(&data_map(1, 0x9000, 0x1000, "[stack]"));
        spaces.apply(&data_map(1, 0x4000, 0x1000, program));
        spaces.apply(&map(1, 0x5000, 0x1000, program));
        spaces.apply(&data_map(1, 0x8000, 0x1000, "//anon"));
        // JIT code may be written through a mapping of its own.
        spaces.apply(&data_map(1, 0x1000, 0x1000, code));
        spaces.apply(&map(1, 0x2000, 0x1000, code));
        for spaces in [&spaces, &rebuilt(&spaces)] {
            assert_eq!(place(spaces, 1, 0x9000), Some(("[stack]", 0x1000)));
            assert_eq!(place(spaces, 1, 0x4000), Some((program, 0x1000)));
            assert_eq!(place(spaces, 1, 0x5000), Some((program, 0x1000)));
            assert_eq!(place(spaces, 1, 0x8000), Some(("//anon", 0x1000)));
            assert_eq!(place(spaces, 1, 0x1000), Some((code, 0x1000)));
            assert_eq!(place(spaces, 1, 0x2000), Some(("/tmp/perf-1.map", 0x2000)));
        }
    }

    #[test]
    fn files_of_one_path_are_told_apart() {
        let of_inode = |pid, start, inode| {
            let mut record = map(pid, start, 0x1000, "/lib/a.so");
            if let Body::Map(map) = &mut record.body {
                (map.device, map.inode) = ((0, 27), inode);
            }
            record
        };
        let mut spaces = AddressSpaces::default();
        for (pid, start, inode) in [
            (1, 0x5000, 10),
            (2, 0x5000, 11),
            (1, 0x7000, 0),
            (3, 0x5000, 10),
        ] {
            spaces.apply(&of_inode(pid, start, inode));
        }
        for spaces in [&spaces, &rebuilt(&spaces)] {
            let name = |pid, address| place(spaces, pid, address).map(|(name, _)| name);
            assert_eq!(name(1, 0x5000), Some("/lib/a.so"));
            assert_eq!(name(2, 0x5000), Some("/lib/a.so (inode 11 of 0:27)"));
            assert_eq!(name(1, 0x7000), Some("/lib/a.so"), "no inode is known");
            assert_eq!(name(3, 0x5000), Some("/lib/a.so"));
            let file = spaces.find(2, 0x5000).expect("it is mapped").file;
            assert_eq!(spaces.path_in_file_system(file), Path::new("/lib/a.so"));
            assert_eq!(spaces.later_files(), 1);
        }
    }

    #[test]
    fn files_of_one_path_are_told_apart_by_build_id() {
        let with_id = |pid, id: &[u8]| {
            let mut record = map(pid, 0x5000, 0x1000, "/lib/a.so");
            if let Body::Map(map) = &mut record.body {
                map.build_id = id.to_vec();
            }
            record
        };
        let mut spaces = AddressSpaces::default();
        for (pid, id) in [
            (1, &[0x1f; 20][..]),
            (2, &[0x2e, 0x07]),
            (3, &[0x1f; 20]),
            (4, &[]),
        ] {
            spaces.apply(&with_id(pid, id));
        }
        for spaces in [&spaces, &rebuilt(&spaces)] {
            let name = |pid| place(spaces, pid, 0x5000).map(|(name, _)| name);
            assert_eq!(name(1), Some("/lib/a.so"));
            assert_eq!(name(2), Some("/lib/a.so (build-id 2e07)"));
            assert_eq!(name(3), Some("/lib/a.so"));
            assert_eq!(name(4), Some("/lib/a.so"), "no build-id is known");
            let file = spaces.find(2, 0x5000).expect("it is mapped").file;
            assert_eq!(spaces.path_in_file_system(file), Path::new("/lib/a.so"));
            assert_eq!(spaces.build_id(file), Some(&[0x2e, 0x07][..]));
        }
    }

    #[test]
    fn programs_of_32_bits_have_another_vdso() {
        let mut spaces = AddressSpaces::default();
        spaces.apply(&map(1, 0xf7f0_0000, 0x1000, VDSO));
        spaces.apply(&map(2, 0x7fff_0000_0000, 0x1000, VDSO));
        let name = |pid, address| place(&spaces, pid, address).map(|(name, _)| name);
        assert_eq!(name(1, 0xf7f0_0000), Some(VDSO32));
        assert_eq!(name(2, 0x7fff_0000_0000), Some(VDSO));
    }

    #[test]
    fn mappings_end_with_the_last_thread() {
        let mut spaces = AddressSpaces::default();
        let (leader, thread) = (Task::leader(1), Task { pid: 1, tid: 2 });
        spaces.apply(&map(1, 0x1000, 0x1000, "x"));
        for task in [leader, thread] {
            let name = "x".to_owned();
            spaces.apply(&record(Body::Comm {
                task,
                name,
                exec: false,
            }));
        }
        spaces.end(leader);
        assert!(place(&spaces, 1, 0x1000).is_some());
        spaces.end(thread);
        assert!(place(&spaces, 1, 0x1000).is_none());
    }

    #[test]
    fn the_kernel_is_found_in_each_process_by_address() {
        let mut spaces = AddressSpaces::default();
        let text = 0xffff_ffff_8100_0000;
        spaces.apply(&map(u32::MAX, text, 0x1000, "[kernel.kallsyms]_text"));
        assert_eq!(place(&spaces, 1, text + 8), Some((KERNEL, text + 8)));
        assert_eq!(place(&spaces, 1, text + 0x1000), None);
    }

    #[test]
    fn a_module_ends_where_another_begins() {
        let module = |start, length, name: &str| map(u32::MAX, start, length, name);
        let start = 0xffff_ffff_c000_0000;
        // The modules are mapped in both orders.
        let first = module(start, 0x8000, "[first]");
        let second = module(start + 0x2000, 0x4000, "[second]");
        for order in [[&first, &second], [&second, &first]] {
            let mut spaces = AddressSpaces::default();
            order.into_iter().for_each(|map| spaces.apply(map));
            let name = |offset| place(&spaces, 1, start + offset).map(|(name, _)| name);
            assert_eq!(name(0x1fff), Some("[first]"));
            assert_eq!(name(0x2000), Some("[second]"));
            assert_eq!(name(0x5fff), Some("[second]"));
        }
    }

    #[test]
    fn a_process_inherits_nothing_from_an_earlier_one_of_its_number() {
        let mut spaces = AddressSpaces::default();
        let (unknown, child) = (Task::leader(1), Task::leader(2));
        let comm = Body::Comm {
            task: child,
            name: "old".to_owned(),
            exec: true,
        };
        spaces.apply(&record(comm));
        spaces.apply(&map(2, 0x1000, 0x1000, "/bin/old"));
        assert_eq!(spaces.pid_reuse_count(2), 0);
        let parent = unknown;
        spaces.apply(&record(Body::Fork { child, parent }));
        assert_eq!(place(&spaces, 2, 0x1000), None);
        assert_eq!(spaces.comm(child), UNKNOWN);
        assert_eq!(spaces.pid_reuse_count(2), 1);
        // The new thread belongs to the same process.
        let (child, parent) = (Task { pid: 2, tid: 3 }, child);
        spaces.apply(&map(2, 0x1000, 0x1000, "/bin/new"));
        spaces.apply(&record(Body::Fork { child, parent }));
        assert_eq!(place(&spaces, 2, 0x1000), Some(("/bin/new", 0x1000)));
        assert_eq!(spaces.pid_reuse_count(2), 1);
    }

    #[test]
    fn a_child_has_its_parents_memory_until_it_executes_something() {
        let mut spaces = AddressSpaces::default();
        let (parent, child) = (Task::leader(1), Task::leader(2));
        spaces.apply(&record(Body::Comm {
            task: parent,
            name: "sh".to_owned(),
            exec: true,
        }));
        spaces.apply(&map(1, 0x1000, 0x1000, "/bin/sh"));
        assert_eq!(spaces.only_owner(0x1000), Some(1));
        spaces.apply(&record(Body::Fork { child, parent }));
        assert_eq!(spaces.comm(child), "sh");
        assert_eq!(place(&spaces, 2, 0x1000), Some(("/bin/sh", 0x1000)));
        assert_eq!(spaces.only_owner(0x1000), None, "both have it");
        spaces.apply(&record(Body::Comm {
            task: child,
            name: "ls".to_owned(),
            exec: true,
        }));
        assert_eq!(place(&spaces, 2, 0x1000), None);
        assert_eq!(spaces.comm(Task { pid: 2, tid: 9 }), "ls");
        assert_eq!(spaces.comm(Task::leader(9)), UNKNOWN);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and mappings of tasks, and the paths of cgroups, by the records that were read so far.

mod file_names;
mod numbered;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahash::AHashMap;

use file_names::MEMFD;
pub(crate) use file_names::{UNKNOWN, file_name, is_anonymous, is_memfd};
use numbered::NumberedValues;
pub(crate) use numbered::{FileNumber, NameNumber};

use crate::recording::file_text::path_of_name;
use crate::recording::perfdata::{Body, Map, Record, Stamp, Task, is_kernel_address};
use crate::recording::symbols::{hexadecimal, jit};

/// The largest number of mappings that processes may have copied. A damaged file may have any number of processes that copy
/// many mappings; 16,000 processes can copy 256 each.
const MAX_COPIED_MAPPINGS: usize = 1 << 22;

/// Mappings by their start address.
type Mappings = BTreeMap<u64, Mapping>;

/// Names and mappings of a recording's processes, and its cgroups. They change while the records
/// are read.
#[derive(Debug, Default)]
pub(crate) struct AddressSpaces {
    /// The mappings of each process, by their start address. A new process shares the mappings of its parent until one
    /// of these two processes maps a file, since a damaged file may list any number of processes.
    processes: AHashMap<u32, Arc<Mappings>>,
    /// Number of mappings that processes have copied instead of sharing them, minus the mappings of
    /// processes that were removed since, copied or not.
    copied_mappings: usize,
    /// The mappings of the kernel and its modules, by their start address.
    kernel: Mappings,
    /// Number of processes that have had each PID so far: the kernel uses PIDs again.
    pid_reuse_counts: AHashMap<u32, u32>,
    /// The names of tasks, as numbers of `comms`.
    names: AHashMap<Task, NameNumber>,
    /// Number of tasks in `names`, for each process with at least one.
    named_threads: AHashMap<u32, usize>,
    /// The paths of cgroups, by ID.
    cgroups: AHashMap<u64, String>,
    /// Names of files, as [`AddressSpaces::name_of_file`] returns them: a path, followed by more words if an earlier
    /// file had the same path.
    paths: NumberedValues<PathBuf>,
    /// The first mapped file of each path.
    first_files: AHashMap<PathBuf, FileIdentity>,
    /// The identity of each file that is not the first of its path.
    later_files: AHashMap<FileNumber, FileIdentity>,
    /// Names of tasks.
    comms: NumberedValues<String>,
}

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
                    self.replace_mappings(task.pid, None);
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
                    let maps = self.processes.get(&parent.pid).cloned();
                    self.replace_mappings(child.pid, maps);
                }
            }
            _ => {}
        }
    }

    /// Returns records that make an empty instance equal to this instance.
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
        let mut user_maps: Vec<(FileNumber, Body)> = entries
            .map(|(pid, entry)| (entry.1.file, map(pid, entry)))
            .collect();
        // The first file of a path stays the first one in the records, too.
        user_maps.sort_by_key(|(file, body)| (!is_memfd(body), *file));
        let user_maps = user_maps.into_iter().map(|(_, body)| body);
        let kernel = self.kernel.iter().map(|entry| map(u32::MAX, entry));
        let cgroups = self.cgroups.iter().map(|(id, path)| Body::Cgroup {
            id: *id,
            path: path.clone(),
        });
        let bodies = comms.chain(user_maps).chain(kernel).chain(cgroups);
        let stamp = Stamp::default();
        bodies.map(|body| Record { stamp, body }).collect()
    }

    /// Removes a task that has ended. With the last thread of a process, its mappings are removed.
    pub(crate) fn remove_task(&mut self, task: Task) {
        self.forget_name(task);
        if !self.named_threads.contains_key(&task.pid) {
            self.replace_mappings(task.pid, None);
        }
    }

    /// Replaces all mappings of a process; `None` removes them.
    fn replace_mappings(&mut self, pid: u32, maps: Option<Arc<Mappings>>) {
        let old = match maps {
            Some(maps) => self.processes.insert(pid, maps),
            None => self.processes.remove(&pid),
        };
        if let Some(old) = old.and_then(Arc::into_inner) {
            self.copied_mappings = self.copied_mappings.saturating_sub(old.len());
        }
    }

    /// Returns the mappings of a process, to change them. If the process shares them with other
    /// processes, it gets a copy; if there are more than [`MAX_COPIED_MAPPINGS`] copies, the
    /// process loses the shared mappings.
    fn own_mappings(&mut self, pid: u32) -> &mut Mappings {
        let maps = self.processes.entry(pid).or_default();
        if Arc::get_mut(maps).is_none() {
            let copied_mappings = self.copied_mappings.saturating_add(maps.len());
            if copied_mappings <= MAX_COPIED_MAPPINGS {
                self.copied_mappings = copied_mappings;
            } else {
                *maps = Arc::default();
            }
        }
        Arc::make_mut(maps)
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

    /// Adds a mapping, which replaces older mappings at its addresses.
    fn add_mapping(&mut self, map: &Map) {
        // Linux makes no empty mapping, but a damaged file may have one.
        if map.length == 0 {
            return;
        }
        let name = self.name_of_file(map);
        let is_jit_code = !map.is_kernel
            && !map.is_data
            && is_anonymous(&map.file)
            && !self.is_program(map, &name);
        let file = if is_jit_code {
            FileNumber(self.paths.number(&*jit::map_path(map.task.pid)))
        } else {
            let file = FileNumber(self.paths.number(&*name));
            if let Cow::Owned(_) = name {
                let later = self.later_files.entry(file);
                later.or_insert_with(|| FileIdentity::of(map));
            }
            file
        };
        let maps = if map.is_kernel {
            &mut self.kernel
        } else {
            self.own_mappings(map.task.pid)
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
        // The kernel and JIT code have symbols by address, so the address takes the place of the offset.
        let offset = if map.is_kernel || is_jit_code {
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

    /// Returns the name of a mapped file. For the first file that was mapped from a path, this is the path. Another
    /// file of the same path may be mapped later, for example in a container or after an upgrade. Its name also has the
    /// inode and the device, as in `/bin/a (inode 12 of 8:1)`, or the build-id.
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

    /// Returns whether the file of a mapping, made by `memfd_create(2)`, is the program of the
    /// process, and not JIT code. The program is the first file that a process maps.
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

    /// Returns the number of processes that have begun so far with this process number. The result tells processes with
    /// the same number apart.
    pub(crate) fn pid_reuse_count(&self, pid: u32) -> u32 {
        self.pid_reuse_counts.get(&pid).copied().unwrap_or(0)
    }

    /// Returns the only process with a mapping at an address; `None` if no process or several processes have one.
    pub(crate) fn only_owner(&self, address: u64) -> Option<u32> {
        let mut owners = self
            .processes
            .keys()
            .filter(|pid| self.find(**pid, address).is_some());
        let owner = owners.next().copied();
        owner.filter(|_| owners.next().is_none())
    }

    /// Returns the numbers of the files so far, in ascending order.
    pub(crate) fn file_numbers(&self) -> impl Iterator<Item = FileNumber> + use<> {
        (0..u32::try_from(self.paths.values.len()).unwrap_or(u32::MAX)).map(FileNumber)
    }

    /// Returns the names of the files so far, in the order of their numbers.
    pub(crate) fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.paths.values.iter().map(PathBuf::as_path)
    }

    /// Returns the name of a file: its path, followed by more words if another file with the same path was mapped
    /// before.
    pub(crate) fn path(&self, file: FileNumber) -> &Path {
        &self.paths.values[file.index()]
    }

    /// Returns the path at which a file was mapped. Another file may have been mapped at the same path.
    pub(crate) fn path_in_file_system(&self, file: FileNumber) -> &Path {
        let name = self.path(file);
        // The path of a first file may itself end in such words.
        if self.later_files.contains_key(&file) {
            path_of_name(name)
        } else {
            name
        }
    }

    /// Returns the number of files that have the path of an earlier file.
    pub(crate) fn later_file_count(&self) -> usize {
        self.later_files.len()
    }

    fn identity(&self, file: FileNumber) -> Option<&FileIdentity> {
        let later = self.later_files.get(&file);
        let first = || self.first_files.get(self.path(file));
        later.or_else(first)
    }

    /// Returns the inode of a program or library; `None` if its mappings have none, as those with a build-id.
    pub(crate) fn inode(&self, file: FileNumber) -> Option<u64> {
        let identity = self.identity(file)?;
        Some(identity.inode).filter(|inode| *inode != 0)
    }

    /// Returns the build-id that the mappings of a program or library have.
    pub(crate) fn build_id(&self, file: FileNumber) -> Option<&[u8]> {
        let id = &self.identity(file)?.build_id[..];
        (!id.is_empty()).then_some(id)
    }

    /// Returns the number of a task's name. A thread without a name of its own has the name of its process.
    pub(crate) fn name_number(&self, task: Task) -> Option<NameNumber> {
        let leader = Task::leader(task.pid);
        let name = self.names.get(&task).or_else(|| self.names.get(&leader));
        name.copied()
    }

    /// Returns the name of a task.
    pub(crate) fn comm(&self, task: Task) -> &str {
        match self.name_number(task) {
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

/// Returns the parts of the older range of addresses that the newer range does not cover.
pub(crate) fn parts_outside(
    old: Range<u64>,
    new: &Range<u64>,
) -> impl Iterator<Item = Range<u64>> + use<> {
    let below = old.start..old.end.min(new.start);
    let above = old.start.max(new.end)..old.end;
    [below, above].into_iter().filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests;

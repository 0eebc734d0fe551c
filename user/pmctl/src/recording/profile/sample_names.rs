// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of a sample: of its task, and of the file and the function at its addresses.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::path::Path;

use crate::recording::address_spaces::{AddressSpaces, FileNumber, NameNumber, UNKNOWN};
use crate::recording::call_chain::call_in_front_of;
use crate::recording::file_text::text_of_path;
use crate::recording::perfdata::{
    Body, Branch, GuestMode, Record, Recording, Sample, Stamp, Symbol, SymbolTable, Task,
};
use crate::recording::symbols::jit;

/// A sample with its names.
#[derive(Clone, Debug)]
pub(crate) struct NamedSample<'a> {
    pub(crate) stamp: Stamp,
    pub(crate) sample: &'a Sample,
    /// Names of the sampled address.
    pub(crate) site: Site<'a>,
}

/// The names of an address.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Site<'a> {
    /// The file; `None` if no file is mapped at this address.
    pub(super) file: Option<(FileNumber, &'a Path)>,
    /// The function; `None` if it is not known.
    symbol: Option<&'a Symbol>,
    /// Offset from the beginning of the function.
    pub(crate) offset: u64,
    /// The mode of the guest that the address belongs to; `None` if the address belongs to the task.
    pub(crate) guest_mode: Option<GuestMode>,
}

/// The text in the place of guests' files, whose mappings a recording does not have.
const GUEST: &str = "[guest]";

impl Site<'_> {
    /// Returns a key that identifies the function: its file and its offset in the file.
    pub(crate) fn function(&self) -> (Option<FileNumber>, Option<u64>) {
        (self.file_number(), self.symbol.map(|symbol| symbol.start))
    }

    /// Returns the number of the file.
    pub(crate) fn file_number(&self) -> Option<FileNumber> {
        self.file.map(|(number, _)| number)
    }

    /// Returns whether the function is known.
    pub(crate) const fn has_symbol(&self) -> bool {
        self.symbol.is_some()
    }

    /// Returns the offset of the function in the file and its length in bytes; `None` if the function is not known.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        self.symbol.map(|symbol| (symbol.start, symbol.length))
    }

    /// Returns the offset of the address in the file.
    pub(crate) fn file_offset(&self) -> u64 {
        self.symbol
            .map_or(0, |symbol| symbol.start)
            .wrapping_add(self.offset)
    }

    /// Returns the name of the function, `[unknown]` if there is none.
    pub(crate) fn symbol(&self) -> &str {
        self.symbol.map_or(UNKNOWN, |symbol| &symbol.name)
    }

    /// Returns the path of the file, `[unknown]` or `[guest]` if there is none.
    pub(crate) fn path(&self) -> Cow<'_, str> {
        let path = self.file.map(|(_, path)| path);
        path.map_or(Cow::Borrowed(self.missing_file()), text_of_path)
    }

    const fn missing_file(&self) -> &'static str {
        match self.guest_mode {
            Some(_) => GUEST,
            None => UNKNOWN,
        }
    }

    /// Returns the name of the file without its folder. For JIT code, returns the name that perf shows.
    pub(crate) fn dso(&self) -> Cow<'_, str> {
        let path = self.file.map(|(_, path)| path);
        if let Some(pid) = path.and_then(jit::process_of) {
            return Cow::Owned(format!("[JIT] tid {pid}"));
        }
        let name = path.map(|path| path.file_name().map_or(path, Path::new));
        name.map_or(Cow::Borrowed(self.missing_file()), text_of_path)
    }
}

/// Finds the names of samples, by the symbols of a recording and the mappings as of the last record.
pub(crate) struct SampleNames<'a> {
    tables: HashMap<&'a str, &'a SymbolTable>,
    /// The symbol table of each file so far, by the file's number.
    files: Vec<Option<&'a SymbolTable>>,
    pub(super) spaces: AddressSpaces,
    /// The tasks that have ended last, the oldest first. These tasks still have their names and mappings, because samples of
    /// the kernel's work at the end of a task come after the record of its end.
    ended_tasks: VecDeque<Task>,
    /// See [`version`](Self::version).
    version: u64,
}

/// The largest number of tasks that still have their names and mappings after they have ended.
const MAX_ENDED_TASKS: usize = 64;

impl<'a> SampleNames<'a> {
    /// Creates the state before the first record.
    pub(super) fn new(recording: &'a Recording) -> Self {
        let tables = &recording.notes.symbols;
        Self {
            tables: tables.iter().map(|t| (t.file.as_str(), t)).collect(),
            files: Vec::new(),
            spaces: AddressSpaces::default(),
            ended_tasks: VecDeque::new(),
            version: 1,
        }
    }

    /// Returns the version of the names, at least 1. As long as the version stays the same, each
    /// task and each address of a task keeps its names.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Applies a record.
    pub(super) fn apply(&mut self, record: &Record) {
        self.spaces.apply(record);
        if !matches!(
            record.body,
            Body::Sample(_) | Body::Switch { .. } | Body::Lost(_)
        ) {
            self.version += 1;
        }
        match &record.body {
            Body::Exit { task, .. } => {
                self.ended_tasks.push_back(*task);
                if self.ended_tasks.len() > MAX_ENDED_TASKS {
                    let oldest = self.ended_tasks.pop_front();
                    oldest
                        .into_iter()
                        .for_each(|task| self.spaces.remove_task(task));
                }
            }
            // A new task has the number of the ended task, or a thread has executed a program and
            // so takes the number of its leader.
            Body::Fork { child: task, .. } | Body::Comm { task, .. } => {
                self.ended_tasks.retain(|ended| ended != task);
            }
            _ => {}
        }
        for path in self.spaces.files().skip(self.files.len()) {
            let table = self.tables.get(&*text_of_path(path));
            self.files.push(table.copied());
        }
    }

    /// Returns the number of a task's name; `None` if it is not known.
    pub(crate) fn name_number(&self, task: Task) -> Option<NameNumber> {
        self.spaces.name_number(task)
    }

    /// Returns the name of a task.
    pub(crate) fn comm(&self, task: Task) -> &str {
        self.spaces.comm(task)
    }

    /// Returns the path of a cgroup, `[unknown]` if there is none.
    pub(crate) fn cgroup(&self, id: u64) -> &str {
        self.spaces.cgroup(id).unwrap_or(UNKNOWN)
    }

    /// Returns the number of processes that have begun so far with this process number. The result tells processes with
    /// the same number apart.
    pub(crate) fn pid_reuse_count(&self, pid: u32) -> u32 {
        self.spaces.pid_reuse_count(pid)
    }

    /// Returns the names of an address in a process.
    pub(crate) fn site(&self, pid: u32, address: u64) -> Site<'_> {
        let Some(file_offset) = self.spaces.find(pid, address) else {
            return Site::default();
        };
        let table = self.files[file_offset.file.index()];
        let symbol = table.and_then(|table| table.at(file_offset.offset));
        Site {
            file: Some((file_offset.file, self.spaces.path(file_offset.file))),
            symbol,
            offset: symbol.map_or(file_offset.offset, |symbol| {
                file_offset.offset - symbol.start
            }),
            guest_mode: None,
        }
    }

    /// Returns a sample with its names.
    pub(crate) fn named<'b>(&'b self, stamp: Stamp, sample: &'b Sample) -> NamedSample<'b> {
        NamedSample {
            stamp,
            sample,
            site: self.sampled_site(stamp.task.pid, sample, sample.ip),
        }
    }

    /// Returns the names of an address in a sample of a process. The names of guests' addresses are not known.
    pub(crate) fn sampled_site(&self, pid: u32, sample: &Sample, address: u64) -> Site<'_> {
        match sample.guest_mode {
            None => self.site(pid, address),
            guest_mode => Site {
                offset: address,
                guest_mode,
                ..Site::default()
            },
        }
    }

    /// Returns the names of an address in the call chain of a sample. A return address has the names of the call in front of
    /// it, since the call may be the last instruction of its function.
    pub(super) fn chain_site(
        &self,
        named: &NamedSample<'_>,
        address: u64,
        is_return: bool,
    ) -> Site<'_> {
        let site = |address| self.sampled_site(named.stamp.task.pid, named.sample, address);
        let call = is_return.then(|| site(call_in_front_of(address)));
        match call {
            Some(call) if call.has_symbol() || self.may_lack_names(&call) => Site {
                offset: call.offset.wrapping_add(1),
                ..call
            },
            // A signal handler returns to the beginning of a function that did not call it. No
            // function with a name is in front of that function.
            _ => site(address),
        }
    }

    /// Returns whether functions of the file may have no names.
    fn may_lack_names(&self, site: &Site<'_>) -> bool {
        let table = site.file_number().and_then(|file| self.files[file.index()]);
        table.is_none_or(|table| table.partial)
    }

    /// Returns the names of the address of a sample's data.
    pub(crate) fn data_site(&self, named: &NamedSample<'_>) -> Site<'_> {
        let address = named.sample.access.address;
        self.sampled_site(named.stamp.task.pid, named.sample, address)
    }

    /// Returns the names of both ends of a branch of a sample.
    pub(crate) fn branch_sites(
        &self,
        named: &NamedSample<'_>,
        branch: &Branch,
    ) -> (Site<'_>, Site<'_>) {
        let site = |address| self.sampled_site(named.stamp.task.pid, named.sample, address);
        (site(branch.from), site(branch.to))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::PathBuf;

    use super::*;
    use crate::recording::perfdata::Map;
    use crate::recording::perfdata::example::example;

    #[test]
    fn each_file_has_its_own_symbols() {
        let path = |byte| PathBuf::from(OsString::from_vec(vec![b'/', byte]));
        let files = [path(0xfe), path(0xff)];
        let mut recording = Recording::default();
        let table = |file: &PathBuf| SymbolTable {
            file: text_of_path(file).into_owned(),
            symbols: vec![Symbol {
                start: 0,
                length: 1,
                name: format!("{file:?}"),
            }],
            ..SymbolTable::default()
        };
        recording.notes.symbols = files.iter().map(table).collect();
        let mut names = SampleNames::new(&recording);
        for (start, file) in (1..).zip(&files) {
            let body = Body::Map(Map {
                start: start * 0x1000,
                length: 0x1000,
                file: file.clone(),
                ..Map::default()
            });
            let stamp = Stamp::default();
            names.apply(&Record { stamp, body });
            let site = names.site(0, start * 0x1000);
            assert_eq!(site.symbol(), format!("{file:?}"));
        }
    }

    #[test]
    fn a_return_address_has_the_name_of_its_call() {
        let mut recording = example(true);
        let symbol = |start, name: &str| Symbol {
            start,
            length: 0x10,
            name: name.to_owned(),
        };
        // The offset in the file is 1000H more than that from the mapping's beginning, 40_0000H.
        recording.notes.symbols = vec![SymbolTable {
            file: "/bin/true".to_owned(),
            symbols: vec![
                symbol(0x2240, "caller"),
                symbol(0x2250, "next"),
                symbol(0x2270, "restorer"),
            ],
            ..SymbolTable::default()
        }];
        let (stamp, sample) = recording.samples().next().expect("it has samples");
        let site = |is_partial, address, is_return| {
            let mut recording = recording.clone();
            recording.notes.symbols[0].partial = is_partial;
            let mut names = SampleNames::new(&recording);
            // Leaves out the exec, which comes after the mapping and would drop it.
            let records = recording.records.iter().flatten();
            let records = records.filter(|record| !matches!(record.body, Body::Comm { .. }));
            records.for_each(|record| names.apply(&record));
            let site = names.sampled_site(stamp.task.pid, &sample, sample.ip);
            let named = NamedSample {
                stamp,
                sample: &sample,
                site,
            };
            let site = names.chain_site(&named, address, is_return);
            (site.symbol().to_owned(), site.offset)
        };
        let found = |name: &str, offset| (name.to_owned(), offset);
        // The call is the last instruction of its function.
        assert_eq!(site(false, 0x40_1250, true), found("caller", 0x10));
        assert_eq!(site(false, 0x40_1250, false), found("next", 0));
        assert_eq!(site(false, 0x40_1255, true), found("next", 5));
        // In front of a signal's restorer is no function, or one without a name.
        assert_eq!(site(false, 0x40_1270, true), found("restorer", 0));
        assert_eq!(site(true, 0x40_1270, true), found(UNKNOWN, 0x2270));
    }

    #[test]
    fn a_guests_address_has_no_name_of_the_host() {
        let recording = example(true);
        let mut names = SampleNames::new(&recording);
        // Leaves out the exec, which comes after the mapping and would drop it.
        let records = recording.records.iter().flatten();
        let records = records.filter(|record| !matches!(record.body, Body::Comm { .. }));
        records.for_each(|record| names.apply(&record));
        let (stamp, mut sample) = recording.samples().next().expect("it has samples");
        let dso = |sample: &Sample| {
            let site = names.sampled_site(stamp.task.pid, sample, sample.ip);
            (site.dso().into_owned(), site.has_symbol())
        };
        let (file, _) = dso(&sample);
        assert_eq!(file, "true");
        sample.guest_mode = Some(GuestMode::User);
        assert_eq!(dso(&sample), ("[guest]".to_owned(), false));
    }

    #[test]
    fn ended_processes_are_forgotten_after_a_while() {
        let recording = example(false);
        let mut names = SampleNames::new(&recording);
        let apply = |names: &mut SampleNames<'_>, body| {
            let stamp = Stamp::default();
            names.apply(&Record { stamp, body });
        };
        let comm = |pid, name: &str| Body::Comm {
            task: Task::leader(pid),
            name: name.to_owned(),
            exec: false,
        };
        let map = |pid| {
            Body::Map(Map {
                task: Task::leader(pid),
                start: 0x1000,
                length: 0x1000,
                file: "/bin/make".into(),
                ..Map::default()
            })
        };
        let exit = |pid| Body::Exit {
            task: Task::leader(pid),
            parent: Task::leader(1),
        };
        let file = |names: &SampleNames<'_>, pid| names.site(pid, 0x1000).path().into_owned();
        for pid in 2..202 {
            apply(&mut names, comm(pid, "make"));
            apply(&mut names, map(pid));
            apply(&mut names, exit(pid));
            assert_eq!(names.comm(Task::leader(pid)), "make", "just ended");
            assert_eq!(file(&names, pid), "/bin/make", "just ended");
        }
        assert_eq!(names.comm(Task::leader(2)), UNKNOWN);
        assert_eq!(file(&names, 2), UNKNOWN);
        // A new process with the number of an ended one is not removed when other processes end.
        apply(&mut names, comm(201, "new"));
        apply(&mut names, map(201));
        for pid in 1000..1100 {
            apply(&mut names, exit(pid));
        }
        assert_eq!(names.comm(Task::leader(201)), "new");
        assert_eq!(file(&names, 201), "/bin/make");
    }
}

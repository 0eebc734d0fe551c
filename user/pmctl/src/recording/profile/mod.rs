// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a recording for the commands that show one: each sample with its names.

mod chain;
mod filter;
mod frame_pointers;
mod refresh;
mod source_lines;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::mem;
use std::path::Path;

use ahash::AHashSet;
use anyhow::{Context, Result, anyhow};

pub(crate) use chain::{Frame, is_outside_its_chain};
pub(crate) use filter::{Filter, TimeSpan};
pub(crate) use source_lines::SourceLines;

use crate::recording::address_spaces::{AddressSpaces, FileNumber, NameNumber, UNKNOWN};
use crate::recording::perfdata::{
    self, Body, Branch, BuildId, Record, Recording, RecordingBytes, Sample, Stamp, Symbol,
    SymbolTable, Task,
};
use crate::recording::places::Places;
use crate::recording::symbols::{DebugFiles, jit};
use crate::recording::unwind::{self, CutChains, RecordedFiles, Unwinder};

/// Opens a recording.
///
/// # Errors
/// A message with the file's name.
pub(crate) fn open(path: &Path) -> Result<Recording> {
    const NO_FILE_ADVICE: &str =
        "Record with `pmctl record -- COMMAND`, or name another recording with -i.";
    open_with_advice(path, NO_FILE_ADVICE)
}

/// Opens a recording; `advice` says what to do if there is no such file.
///
/// # Errors
/// A message with the file's name.
pub(crate) fn open_with_advice(path: &Path, advice: &str) -> Result<Recording> {
    let source = RecordingBytes::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("there is no file {}\n{advice}", path.display()),
        ErrorKind::IsADirectory => anyhow!("{}", folder_message(path)),
        _ => anyhow!("can't read {}: {error}", path.display()),
    })?;
    let mut recording = perfdata::read(source).with_context(|| path.display().to_string())?;
    recording.end = path.metadata().and_then(|facts| facts.modified()).ok();
    if recording.is_unfinished || recording.is_from_perf {
        // The recording has no symbols: they are looked up when a recording by pmctl ends.
        let mut places = Places::for_recording(&recording);
        for record in recording.records.iter() {
            places.note_record(&record?);
        }
        let (symbols, build_ids) = places.look_up();
        recording.notes.symbols = symbols;
        add_build_ids(&mut recording.build_ids, build_ids);
    } else {
        refresh::refresh(&mut recording, &DebugFiles::of_user())?;
    }
    Ok(recording)
}

/// The name of recordings by default.
const USUAL_FILE: &str = "perf.data";

/// Returns the message for a folder that was to be read as a recording.
fn folder_message(path: &Path) -> String {
    let name = path.display();
    let data = path.join("data");
    if path.join("data.0").exists() {
        // The message is the same as for the file in the folder.
        return format!("{name}: {}", perfdata::ReadError::Divided);
    }
    let usual_path = path.join(USUAL_FILE);
    let advice = if data.exists() {
        format!(
            "It was made by `perf record --kcore`: name the file {}.",
            data.display()
        )
    } else if usual_path.exists() {
        format!(
            "The recording in it is the file {}: name that file.",
            usual_path.display()
        )
    } else {
        format!("Name the file: there is no {USUAL_FILE} in it.")
    };
    format!("{name} is a folder, not a recording\n{advice}")
}

/// Adds the build-ids of files on this machine to those of the recording, each file once. With
/// `perf record --buildid-mmap` the recording has one for each mapping.
fn add_build_ids(recorded: &mut Vec<BuildId>, here: Vec<BuildId>) {
    let mut files = AHashSet::new();
    let ids = here.into_iter().chain(mem::take(recorded));
    recorded.extend(ids.filter(|id| files.insert(id.file.clone())));
}

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
    file: Option<(FileNumber, &'a Path)>,
    /// The function; `None` if it is not known.
    symbol: Option<&'a Symbol>,
    /// Offset from the beginning of the function.
    pub(crate) offset: u64,
}

impl Site<'_> {
    /// Returns a key that identifies the function: its file and its offset in the file.
    pub(crate) fn function(&self) -> (Option<FileNumber>, Option<u64>) {
        (self.number(), self.symbol.map(|symbol| symbol.start))
    }

    /// Returns the number of the file.
    pub(crate) fn number(&self) -> Option<FileNumber> {
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
    pub(crate) fn place(&self) -> u64 {
        self.symbol
            .map_or(0, |symbol| symbol.start)
            .wrapping_add(self.offset)
    }

    /// Returns the name of the function, `[unknown]` if there is none.
    pub(crate) fn symbol(&self) -> &str {
        self.symbol.map_or(UNKNOWN, |symbol| &symbol.name)
    }

    /// Returns the path of the file, `[unknown]` if there is none.
    pub(crate) fn path(&self) -> Cow<'_, str> {
        let path = self.file.map(|(_, path)| path);
        path.map_or(Cow::Borrowed(UNKNOWN), Path::to_string_lossy)
    }

    /// Returns the name of the file without its folder. For JIT code, returns the name that perf shows.
    pub(crate) fn dso(&self) -> Cow<'_, str> {
        let path = self.file.map(|(_, path)| path);
        if let Some(pid) = path.and_then(jit::process_of) {
            return Cow::Owned(format!("[JIT] tid {pid}"));
        }
        let name = path.map(|path| path.file_name().unwrap_or(path.as_os_str()));
        name.map_or(Cow::Borrowed(UNKNOWN), OsStr::to_string_lossy)
    }
}

/// The symbols of a recording.
pub(crate) struct SampleNames<'a> {
    tables: HashMap<&'a str, &'a SymbolTable>,
    /// The symbol table of each file so far, by the file's number.
    files: Vec<Option<&'a SymbolTable>>,
    spaces: AddressSpaces,
    /// The tasks that have ended last, the oldest first. They still have their names and mappings, because samples of the
    /// kernel's work at the end of a task come after the record of its end.
    ended_tasks: VecDeque<Task>,
}

/// The most tasks that still have their names and mappings after they have ended.
const MAX_ENDED_TASKS: usize = 64;

impl<'a> SampleNames<'a> {
    /// Creates the state before the first record.
    fn new(recording: &'a Recording) -> Self {
        let tables = &recording.notes.symbols;
        Self {
            tables: tables.iter().map(|t| (t.file.as_str(), t)).collect(),
            files: Vec::new(),
            spaces: AddressSpaces::default(),
            ended_tasks: VecDeque::new(),
        }
    }

    /// Applies a record.
    fn apply(&mut self, record: &Record) {
        self.spaces.apply(record);
        match &record.body {
            Body::Exit { task, .. } => {
                self.ended_tasks.push_back(*task);
                if self.ended_tasks.len() > MAX_ENDED_TASKS {
                    let oldest = self.ended_tasks.pop_front();
                    oldest.into_iter().for_each(|task| self.spaces.end(task));
                }
            }
            // A new task of the same number, or a thread that has executed a program and takes its leader's number.
            Body::Fork { child: task, .. } | Body::Comm { task, .. } => {
                self.ended_tasks.retain(|ended| ended != task);
            }
            _ => {}
        }
        for path in self.spaces.files().skip(self.files.len()) {
            let table = self.tables.get(&*path.to_string_lossy());
            self.files.push(table.copied());
        }
    }

    /// Returns the number of a task's name; `None` if it is not known.
    pub(crate) fn name(&self, task: Task) -> Option<NameNumber> {
        self.spaces.name(task)
    }

    /// Returns the name of a task.
    pub(crate) fn comm(&self, task: Task) -> &str {
        self.spaces.comm(task)
    }

    /// Returns the path of a cgroup, `[unknown]` if there is none.
    pub(crate) fn cgroup(&self, id: u64) -> &str {
        self.spaces.cgroup(id).unwrap_or(UNKNOWN)
    }

    /// Returns the number of processes that have begun so far with this process number, which tells them apart.
    pub(crate) fn instance(&self, pid: u32) -> u32 {
        self.spaces.instance(pid)
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
        }
    }

    /// Returns the names of the address of a sample's data.
    pub(crate) fn data_site(&self, named: &NamedSample<'_>) -> Site<'_> {
        self.site(named.stamp.task.pid, named.sample.access.address)
    }

    /// Returns the names of both ends of a branch.
    pub(crate) fn branch_sites(&self, pid: u32, branch: &Branch) -> (Site<'_>, Site<'_>) {
        (self.site(pid, branch.from), self.site(pid, branch.to))
    }
}

/// Returns the number of a process or thread as text; -1 for an unknown one, the same as perf shows.
pub(crate) fn task_number_text(number: u32) -> String {
    match number {
        u32::MAX => "-1".to_owned(),
        known => known.to_string(),
    }
}

/// Calls `visit` for each sample, with the names as of its time. Returns the call chains that could not be unwound.
pub(crate) fn each_sample(
    recording: &Recording,
    visit: impl FnMut(&NamedSample<'_>, &SampleNames<'_>) -> Result<()>,
) -> Result<CutChains> {
    let mut unwinder = Unwinder::default();
    visit_samples(recording, Some(&mut unwinder), visit)?;
    Ok(unwinder.into_cut_chains())
}

/// Calls `visit` for each sample, for callers that need no call chains: stacks are not unwound.
pub(crate) fn each_sample_without_unwinding(
    recording: &Recording,
    visit: impl FnMut(&NamedSample<'_>, &SampleNames<'_>) -> Result<()>,
) -> Result<CutChains> {
    visit_samples(recording, None, visit)?;
    Ok(CutChains::default())
}

/// Calls `visit` for each sample; unwinds its stack if there is an unwinder.
fn visit_samples(
    recording: &Recording,
    mut unwinder: Option<&mut Unwinder>,
    mut visit: impl FnMut(&NamedSample<'_>, &SampleNames<'_>) -> Result<()>,
) -> Result<()> {
    let mut names = SampleNames::new(recording);
    let programs = RecordedFiles::of(recording);
    let has_calls = recording.has_calls();
    for record in recording.records.iter() {
        let mut record = record?;
        let Body::Sample(sample) = &mut record.body else {
            names.apply(&record);
            continue;
        };
        if has_calls {
            let calls = chain::use_recorded_calls(sample);
            if let Some(unwinder) = &mut unwinder {
                unwinder.count_calls(calls);
            }
        }
        let process = unwind::UnwoundProcess {
            pid: record.stamp.task.pid,
            spaces: &names.spaces,
            programs: &programs,
        };
        if let (Some(user_stack), Some(unwinder)) = (&sample.user_stack, &mut unwinder) {
            unwinder.append(process, sample.ip, user_stack, &mut sample.chain);
        }
        let has_frame_pointers = !has_calls && sample.user_stack.is_none();
        let named = NamedSample {
            stamp: record.stamp,
            sample,
            site: names.site(record.stamp.task.pid, sample.ip),
        };
        if let (true, Some(unwinder)) = (has_frame_pointers, &mut unwinder) {
            if let Some(ends_early) = names.ends_early(&named) {
                unwinder.count_by_frame_pointers(process, named.sample.ip, ends_early);
            }
        }
        visit(&named, &names)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::Map;
    use proptest::prelude::*;

    /// Recordings that the tests of the command line use, too.
    const RECORDINGS: [&[u8]; 2] = [
        include_bytes!("../../../tests/recordings/branches.data"),
        include_bytes!("../../../tests/recordings/timebase.data"),
    ];

    #[test]
    fn samples_have_names() {
        let recording = perfdata::read(RECORDINGS[1]).expect("it is whole");
        let mut symbols = Vec::new();
        each_sample(&recording, |named, names| {
            if names.comm(named.stamp.task) == "pmctl_shares" {
                assert_eq!(
                    named.site.dso() == "pmctl_shares",
                    !named.sample.in_kernel()
                );
                symbols.push(named.site.symbol().to_owned());
            }
            Ok(())
        })
        .expect("nothing fails");
        assert!(
            symbols.iter().any(|symbol| symbol == "share_60"),
            "{symbols:?}"
        );
    }

    #[test]
    fn ended_processes_are_forgotten_after_a_while() {
        let recording = perfdata::read(RECORDINGS[1]).expect("it is whole");
        let mut names = SampleNames::new(&recording);
        let apply = |names: &mut SampleNames<'_>, body| {
            let stamp = perfdata::Stamp::default();
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
        // A process that begins with a number of these is none of them.
        apply(&mut names, comm(201, "new"));
        apply(&mut names, map(201));
        for pid in 1000..1100 {
            apply(&mut names, exit(pid));
        }
        assert_eq!(names.comm(Task::leader(201)), "new");
        assert_eq!(file(&names, 201), "/bin/make");
    }

    proptest! {
        #[test]
        fn damage_does_not_panic(
            which in 0..RECORDINGS.len(),
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        ) {
            let mut bytes = RECORDINGS[which].to_vec();
            for (place, value) in places {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Ok(recording) = perfdata::read(bytes) {
                let result = each_sample(&recording, |named, names| {
                    for branch in &named.sample.branches {
                        names.branch_sites(named.stamp.task.pid, branch);
                    }
                    Ok(())
                });
                prop_assert!(result.is_ok());
            }
        }
    }
}

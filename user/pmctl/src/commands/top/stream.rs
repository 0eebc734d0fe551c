// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stream of `pmctl record -o -`, cut into recordings that can be shown while it is written.

use std::path::{Path, PathBuf};

use ahash::{AHashMap, AHashSet};
use anyhow::{Context, Result};

use crate::recording::address_spaces::{AddressSpaces, FileNumber, FileOffset};
use crate::recording::call_chain::named_addresses;
use crate::recording::file_text::text_of_path;
use crate::recording::perfdata::{
    self, Body, BuildId, FIRST_PERF_TYPE, KERNEL, Record, Recording, Records, SymbolTable,
    is_kernel_address,
};
use crate::recording::places::{MappedFiles, build_id, find_data};
use crate::recording::symbols::{DebugFiles, SymbolFinder, jit};
use crate::recording::unwind::Programs as _;

/// Size of the stream's header in bytes.
const STREAM_HEADER_SIZE: usize = 16;
/// Size of a record's header in bytes.
const RECORD_HEADER_SIZE: usize = 8;

/// A stream of records, as far as it has been received.
pub(super) struct PipeStream {
    /// Bytes that are not decoded yet.
    bytes: Vec<u8>,
    /// The events and the machine; `None` until they have been received.
    head: Option<Recording>,
    /// The tasks and their mappings before the records in `window`.
    spaces: AddressSpaces,
    /// The mapped files, and where they are now.
    programs: MappedFiles,
    /// The records since the last recording.
    window: Vec<Record>,
    /// Number of records that were lost within the last recording.
    lost_records: u64,
    /// Looks up symbols in the mapped files.
    symbol_finder: SymbolFinder,
    /// The symbols that were found so far, by file.
    tables: AHashMap<PathBuf, SymbolTable>,
    /// Processes that have ended. The names of their JIT code stay in `tables` until the next recording.
    ended: AHashSet<u32>,
    /// Files and offsets that have no symbol.
    nameless: AHashSet<(PathBuf, u64)>,
    /// Build-ids that the files in `tables` had when they were first looked up. If a file changes, its instructions are not
    /// shown.
    build_ids: Vec<BuildId>,
}

impl PipeStream {
    /// Creates a stream without any bytes.
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            head: None,
            spaces: AddressSpaces::default(),
            programs: MappedFiles::default(),
            window: Vec::new(),
            lost_records: 0,
            symbol_finder: symbol_finder(),
            tables: AHashMap::new(),
            ended: AHashSet::new(),
            nameless: AHashSet::new(),
            build_ids: Vec::new(),
        }
    }

    /// Adds bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        if self.head.is_none() {
            let Some(end) = self.end_of_head() else {
                return Ok(());
            };
            let head: Vec<u8> = self.bytes.drain(..end).collect();
            let head = perfdata::read(head).context("the stream can't be read")?;
            self.head = Some(head);
        }
        let parts = self.head.as_ref().map(Recording::parts).unwrap_or_default();
        let mut offset = 0;
        while let Some(size) = record_size(&self.bytes[offset..]) {
            let record = perfdata::decode_record(&self.bytes[offset..], parts);
            let (record, _) = record.context("the stream can't be read: a record is broken")?;
            self.window.extend(record);
            offset += size;
        }
        self.bytes.drain(..offset);
        Ok(())
    }

    /// Returns the offset of the kernel's first record; `None` if it has not been received.
    fn end_of_head(&self) -> Option<usize> {
        let mut offset = STREAM_HEADER_SIZE;
        loop {
            let rest = self.bytes.get(offset..)?;
            let size = record_size(rest)?;
            if u32::from_le_bytes(rest[..4].try_into().ok()?) < FIRST_PERF_TYPE {
                return Some(offset);
            }
            offset += size;
        }
    }

    /// Returns whether samples have come since the last [`take_recording`](Self::take_recording).
    pub(super) fn has_samples(&self) -> bool {
        self.window.iter().any(Record::is_sample)
    }

    /// Returns the number of records, mostly samples, that were lost within the last recording.
    pub(super) fn lost_records(&self) -> u64 {
        self.lost_records
    }

    /// Returns the records since the last call as a recording with symbols; `None` if not even the events have come.
    pub(super) fn take_recording(&mut self) -> Option<Recording> {
        self.drop_jit_names();
        let head = self.head.as_ref()?;
        let mut records = self.spaces.records();
        let mut window = std::mem::take(&mut self.window);
        window.sort_by_key(|record| record.stamp.time);
        self.lost_records = 0;
        let later_files = self.spaces.later_file_count();
        let mut unknown_offsets: AHashMap<FileNumber, AHashSet<u64>> = AHashMap::new();
        for record in &window {
            match &record.body {
                Body::Sample(sample) if sample.guest_mode.is_some() => {}
                Body::Sample(sample) => {
                    let task = record.stamp.task;
                    let addresses = named_addresses(&sample.chain).chain([sample.ip]);
                    let places =
                        addresses.filter_map(|address| self.spaces.find(task.pid, address));
                    let data = find_data(&self.spaces, task, sample.access.address);
                    for place in places.chain(data) {
                        self.note_unknown_place(place, &mut unknown_offsets);
                    }
                }
                Body::Exit { task, .. } => self.spaces.remove_task(*task),
                Body::Lost(number) => {
                    self.lost_records = self.lost_records.saturating_add(*number);
                }
                _ => apply(record, &mut self.spaces, &mut self.programs),
            }
        }
        if self.spaces.later_file_count() > later_files {
            // A path has another file now. The old finder would keep the first file that it has
            // read at the path.
            self.symbol_finder = symbol_finder();
        }
        records.append(&mut window);
        let mut recording = Recording {
            records: Records::from(&records[..]),
            ..head.clone()
        };
        for (file, offsets) in unknown_offsets {
            self.look_up_symbols(file, &offsets);
        }
        recording.notes.symbols = self.tables.values().cloned().collect();
        recording.build_ids.clone_from(&self.build_ids);
        Some(recording)
    }

    /// Drops the names of JIT code: programs may write the names later, and put other functions at
    /// the same address. The names of a process that has ended can't be read again. They are kept
    /// for one more recording, which has the last samples of the process.
    fn drop_jit_names(&mut self) {
        let mut ended_processes = AHashSet::new();
        self.tables.retain(|file, _| {
            jit::process_of(file).is_none_or(|pid| {
                let stays = jit::has_ended(pid) && !self.ended.contains(&pid);
                stays && ended_processes.insert(pid)
            })
        });
        self.ended = ended_processes;
        self.nameless
            .retain(|(file, _)| jit::process_of(file).is_none());
    }

    /// Adds a place to `unknown`, unless its symbol is known or known to be missing.
    fn note_unknown_place(
        &self,
        place: FileOffset,
        unknown: &mut AHashMap<FileNumber, AHashSet<u64>>,
    ) {
        let path = self.spaces.path(place.file);
        let table = self.tables.get(path);
        let is_known = table.is_some_and(|table| table.at(place.offset).is_some());
        if is_known || self.nameless.contains(&(path.to_owned(), place.offset)) {
            return;
        }
        let offsets = unknown.entry(place.file).or_default();
        offsets.insert(place.offset);
    }

    /// Looks up the functions at some offsets of a file, and adds them to `tables`.
    fn look_up_symbols(&mut self, number: FileNumber, offsets: &AHashSet<u64>) {
        let file = self.spaces.path(number);
        let program = self.programs.find(number, &self.spaces);
        let found_table = match &program {
            Ok(program) => self.symbol_finder.look_up_in(file, program, offsets),
            Err(_) => SymbolTable {
                file: text_of_path(file).into_owned(),
                ..SymbolTable::default()
            },
        };
        for offset in offsets
            .iter()
            .filter(|offset| found_table.at(**offset).is_none())
        {
            self.nameless.insert((file.to_owned(), *offset));
        }
        let table = self.tables.entry(file.to_owned());
        let table = table.or_insert_with(|| {
            let is_kernels = offsets.iter().any(|offset| is_kernel_address(*offset));
            let id = match program {
                // A module has the build-id of the kernel.
                Ok(_) if is_kernels => build_id(Path::new(KERNEL), Path::new(KERNEL)),
                Ok(program) => build_id(file, &program),
                Err(_) => None,
            };
            self.build_ids.extend(id);
            SymbolTable {
                symbols: Vec::new(),
                ..found_table.clone()
            }
        });
        for symbol in found_table.symbols {
            match table
                .symbols
                .binary_search_by_key(&symbol.start, |known| known.start)
            {
                Ok(index) => table.symbols[index] = symbol,
                Err(index) => table.symbols.insert(index, symbol),
            }
        }
    }
}

/// Applies a record of a task or a mapping.
fn apply(record: &Record, spaces: &mut AddressSpaces, programs: &mut MappedFiles) {
    spaces.apply(record);
    if let Body::Map(map) = &record.body {
        programs.add_mapping(map, spaces);
    }
}

/// Returns a finder that has read no file yet.
fn symbol_finder() -> SymbolFinder {
    SymbolFinder::new(DebugFiles::of_user()).with_kernel_cache()
}

/// Returns the size of the first record in bytes; `None` if not all of it has come.
fn record_size(bytes: &[u8]) -> Option<usize> {
    let header = bytes.get(..RECORD_HEADER_SIZE)?;
    let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
    (size >= RECORD_HEADER_SIZE && size <= bytes.len()).then_some(size)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::recording::perfdata::{FileFacts, Map, MemoryAccess, Pipe, Sample, Stamp, Task};
    use crate::recording::profile;
    use crate::recording::symbols::Elf;
    use crate::recording::symbols::testing::{offset, run};

    const RECORDING: &[u8] = include_bytes!("../../../tests/recordings/callers.data");

    /// Returns the recording as a stream.
    fn stream_bytes(recording: &Recording) -> Vec<u8> {
        let pipe = Pipe::new(Vec::new(), &recording.events, &recording.host);
        let mut pipe = pipe.expect("a vector takes everything");
        for record in recording.records.iter() {
            let record = record.expect("it is well formed");
            pipe.append(&record).expect("a vector takes everything");
        }
        pipe.save().expect("a vector takes everything");
        let end = pipe.finish(&recording.build_ids, &recording.notes);
        end.expect("a vector takes everything").output
    }

    /// Returns the task, the file and the address of each sample.
    fn samples(recording: &Recording) -> Vec<(String, String, u64)> {
        let mut samples = Vec::new();
        let result = profile::each_sample(recording, |named, names| {
            samples.push((
                names.comm(named.stamp.task).to_owned(),
                named.site.path().into_owned(),
                named.sample.ip,
            ));
            Ok(())
        });
        result.expect("nothing fails");
        samples
    }

    #[test]
    fn windows_have_all_samples_with_tasks_and_files_of_before() {
        let recording = perfdata::read(RECORDING).expect("it is whole");
        let bytes = stream_bytes(&recording);
        let mut window_samples = Vec::new();
        let mut windows = 0;
        let mut stream = PipeStream::new();
        assert!(stream.take_recording().is_none());
        for chunk in bytes.chunks(100) {
            stream.push(chunk).expect("it is well formed");
            if let Some(window) = stream.take_recording() {
                let all = samples(&window);
                windows += usize::from(!all.is_empty());
                window_samples.extend(all);
            }
        }
        assert!(windows > 2, "{windows}");
        assert_eq!(window_samples, samples(&recording));
    }

    #[test]
    fn files_have_their_build_ids() {
        let program = std::env::current_exe().expect("it is known");
        let mut stream = PipeStream::new();
        let (map, _) = map_and_sample(&Map::default(), &program);
        apply(&map, &mut stream.spaces, &mut stream.programs);
        let file = stream.spaces.file_numbers().next().expect("it is mapped");
        for _ in 0..2 {
            stream.look_up_symbols(file, &AHashSet::from_iter([0]));
        }
        assert_eq!(
            stream.build_ids,
            Vec::from_iter(build_id(&program, &program))
        );
    }

    /// The file with the names of a process's JIT code, which is removed on drop.
    struct JitNamesFile(PathBuf);

    impl Drop for JitNamesFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Returns the mapping of a file, and a sample 8 bytes after its start.
    fn map_and_sample(map: &Map, file: &Path) -> (Record, Record) {
        let (task, ip) = (map.task, map.start + 8);
        let map = Map {
            length: 0x1000,
            file: file.to_owned(),
            ..map.clone()
        };
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        let sample = Sample {
            ip,
            ..Sample::default()
        };
        let record = |body| Record { stamp, body };
        (record(Body::Map(map)), record(Body::Sample(sample)))
    }

    /// Returns a stream that has its head.
    fn stream_with_head() -> PipeStream {
        let mut stream = PipeStream::new();
        stream.head = Some(perfdata::read(RECORDING).expect("it is whole"));
        stream
    }

    /// Returns a stream in which a process has JIT code at an address, and a sample there.
    fn with_code(pid: u32, address: u64) -> (PipeStream, Record) {
        let map = Map {
            task: Task::leader(pid),
            start: address,
            ..Map::default()
        };
        let (map, sample) = map_and_sample(&map, Path::new("//anon"));
        let mut stream = stream_with_head();
        apply(&map, &mut stream.spaces, &mut stream.programs);
        (stream, sample)
    }

    /// Returns the name that a sample has in the next recording.
    fn name(stream: &mut PipeStream, sample: &Record) -> Option<String> {
        stream.window = vec![sample.clone()];
        let notes = stream.take_recording().expect("the head has come").notes;
        let mut symbols = notes.symbols.into_iter().flat_map(|table| table.symbols);
        symbols.next().map(|symbol| symbol.name)
    }

    #[test]
    fn names_of_jit_code_are_read_anew_for_each_recording() {
        let pid = std::process::id();
        let functions = JitNamesFile(jit::map_path(pid));
        let (mut stream, sample) = with_code(pid, 0x1000);
        assert_eq!(name(&mut stream, &sample), None);
        for line in ["1000 10 early", "1000 10 late"] {
            std::fs::write(&functions.0, line).expect("it can be written");
            let name = name(&mut stream, &sample);
            assert_eq!(name.as_deref(), line.rsplit(' ').next());
        }
    }

    #[test]
    fn names_of_jit_code_of_an_ended_process_stay_for_one_recording() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("it runs");
        let functions = JitNamesFile(jit::map_path(child.id()));
        let (mut stream, sample) = with_code(child.id(), 0x1000);
        std::fs::write(&functions.0, "1000 10 made").expect("it can be written");
        let name_before = name(&mut stream, &sample);
        child.wait().expect("its input has ended");
        drop(functions);
        assert_eq!(name_before.as_deref(), Some("made"));
        assert_eq!(name(&mut stream, &sample).as_deref(), Some("made"));
        assert_eq!(name(&mut stream, &sample), None);
        assert!(stream.ended.is_empty());
    }

    #[test]
    fn a_program_that_is_built_anew_has_its_new_names() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (source, path) = (folder.path().join("a.c"), folder.path().join("a"));
        let mut stream = stream_with_head();
        for (pid, function) in [(1, "early"), (2, "late")] {
            let text = format!(
                "int {function}(int x) {{ return x * 3 + 5; }} int main(void) {{ return 0; }}"
            );
            std::fs::write(&source, text).expect("it can be written");
            let built = folder.path().join("built");
            run(Command::new("cc").arg("-o").args([&built, &source]));
            std::fs::rename(&built, &path).expect("it can be moved");
            let elf = Elf::read(&path).expect("it was compiled");
            let place = offset(&path, &elf, function);
            let map = Map {
                task: Task::leader(pid),
                start: 0x1000,
                offset: place - 8,
                inode: FileFacts::of(&path).expect("it is there").inode,
                ..Map::default()
            };
            let (map, sample) = map_and_sample(&map, &path);
            stream.window = vec![map, sample];
            let notes = stream.take_recording().expect("the head has come").notes;
            let mut names = notes.symbols.iter().flat_map(|table| &table.symbols);
            assert!(
                names.any(|symbol| symbol.name == function),
                "{function}: {:?}",
                notes.symbols
            );
        }
    }

    #[test]
    fn sampled_data_has_the_name_of_its_variable() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (source, path) = (folder.path().join("a.c"), folder.path().join("a"));
        let text = "int counter = 7; int main(void) { return counter; }";
        std::fs::write(&source, text).expect("it can be written");
        run(Command::new("cc").arg("-o").args([&path, &source]));
        let elf = Elf::read(&path).expect("it was compiled");
        let place = offset(&path, &elf, "counter");
        let map = Map {
            task: Task::leader(1),
            start: 0x1000,
            offset: place - 8,
            is_data: true,
            inode: FileFacts::of(&path).expect("it is there").inode,
            ..Map::default()
        };
        let (map, mut sample) = map_and_sample(&map, &path);
        if let Body::Sample(sample) = &mut sample.body {
            let address = sample.ip;
            sample.ip = 0;
            sample.access = MemoryAccess {
                address,
                ..MemoryAccess::default()
            };
        }
        let mut stream = stream_with_head();
        stream.window = vec![map];
        stream.take_recording().expect("the head has come");
        assert_eq!(name(&mut stream, &sample).as_deref(), Some("counter"));
    }

    #[test]
    fn lost_records_are_those_of_the_last_recording() {
        let (mut stream, sample) = with_code(1, 0x1000);
        let lost = |number| Record {
            stamp: Stamp::default(),
            body: Body::Lost(number),
        };
        stream.window = vec![lost(3), sample, lost(4)];
        stream.take_recording().expect("the head has come");
        assert_eq!(stream.lost_records(), 7);
        stream.take_recording().expect("the head has come");
        assert_eq!(stream.lost_records(), 0);
    }

    #[test]
    fn bytes_that_are_no_stream_are_an_error() {
        let mut stream = PipeStream::new();
        assert!(stream.push(&[1; 200]).is_err() || stream.take_recording().is_none());
    }
}

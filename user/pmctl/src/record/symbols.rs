// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of what was sampled, looked up while the files are those that ran.

use std::fs;
use std::mem;
use std::path::Path;
use std::time::SystemTime;

use ahash::AHashSet;

use super::replaced::{SeenByPerf, Version, is_younger};
use crate::perfdata::{Body, BuildId, Record, SymbolTable, Task};
use crate::profile::{AddressSpaces, KERNEL, VDSO};
use crate::symbols::{DebugFiles, Elf, Names};
use crate::unwind::{Cuts, Unwinder, vdso_build_id};

/// Addresses of samples, call chains and branches.
#[derive(Default)]
pub(crate) struct Places {
    /// State as of the last record.
    spaces: AddressSpaces,
    /// Offsets in each file, by its number; addresses in the kernel. They are as many as there is code that was seen.
    files: Vec<AHashSet<u64>>,
    /// What each file was when its name came up first.
    versions: Vec<Option<Version>>,
    /// When the recording ended, if that was long ago.
    end: Option<SystemTime>,
    /// What is known of the files of that time, if `perf record` has seen them.
    seen_by_perf: Option<SeenByPerf>,
    /// Addresses since the last change of what is mapped, by process: most samples are where others were.
    seen: AHashSet<(u32, u64)>,
    /// Finds the callers of samples with stacks.
    unwinder: Unwinder,
    /// Those of the last sample.
    callers: Vec<u64>,
}

impl Places {
    /// Creates one for a recording that has ended at this time, if it is known: what has changed since has no names.
    pub(crate) fn of_past(end: Option<SystemTime>) -> Self {
        Self {
            end,
            ..Self::default()
        }
    }

    /// Creates one for a recording of `perf record`, which had these build-ids of files.
    pub(crate) fn of_perf(end: Option<SystemTime>, build_ids: Vec<BuildId>) -> Self {
        Self {
            seen_by_perf: Some(SeenByPerf::new(build_ids)),
            ..Self::of_past(end)
        }
    }

    /// Applies a record. Records must come by time.
    pub(crate) fn take(&mut self, record: &Record) {
        let Body::Sample(sample) = &record.body else {
            self.seen.clear();
            self.spaces.apply(record);
            let new = self.spaces.files().skip(self.versions.len());
            let new: Vec<_> = new.map(Version::of).collect();
            self.versions.extend(new);
            match (&record.body, &mut self.seen_by_perf) {
                (Body::Exit { task, .. }, _) => self.spaces.end(*task),
                (Body::Map(map), Some(seen)) => seen.take(map),
                _ => {}
            }
            return;
        };
        let task = record.stamp.task;
        let ends = sample.branches.iter().flat_map(|b| [b.from, b.to]);
        let chain = sample.chain.iter().copied();
        for address in ends.chain(chain).chain([sample.ip]) {
            self.address(task, address);
        }
        if let Some(user) = &sample.user {
            let mut callers = mem::take(&mut self.callers);
            let program = (&self.spaces, task.pid);
            self.unwinder.append(program, user, &mut callers);
            callers
                .drain(..)
                .for_each(|address| self.address(task, address));
            self.callers = callers;
        }
    }

    /// Returns which call chains could not be found out since the last call.
    pub(crate) fn take_cuts(&mut self) -> Cuts {
        self.unwinder.take_cuts()
    }

    /// Takes an address of a task; that it is a mark in a call chain does no harm.
    pub(crate) fn address(&mut self, task: Task, address: u64) {
        if !self.seen.insert((task.pid, address)) {
            return;
        }
        if let Some(place) = self.spaces.find(task.pid, address) {
            let file = place.file.index();
            if self.files.len() <= file {
                self.files.resize_with(file + 1, AHashSet::new);
            }
            self.files[file].insert(place.offset);
        }
    }

    /// Returns the symbols and the build-ids of all files with samples.
    pub(crate) fn look_up(&self) -> (Vec<SymbolTable>, Vec<BuildId>) {
        let tables = self.names(&DebugFiles::of_user(), |_| true);
        let same = self.files().into_iter().filter(|file| !file.is_replaced());
        let ids = same.filter_map(|file| build_id(file.path)).collect();
        (tables, ids)
    }

    /// Returns the symbols of those files with samples that are `wanted`.
    pub(crate) fn names(
        &self,
        debug_files: &DebugFiles,
        wanted: impl Fn(&Path) -> bool,
    ) -> Vec<SymbolTable> {
        let names = Names::new(debug_files.clone());
        let files = self.files().into_iter();
        files
            .filter(|file| wanted(file.path))
            .map(|file| {
                if file.is_replaced() {
                    return SymbolTable {
                        file: file.path.to_string_lossy().into_owned(),
                        replaced: true,
                        ..SymbolTable::default()
                    };
                }
                names.look_up(file.path, file.offsets)
            })
            .collect()
    }

    /// Returns the files with samples, by their names.
    fn files(&self) -> Vec<Sampled<'_>> {
        let files = self.spaces.files().zip(&self.files).zip(&self.versions);
        let files = files.map(|((path, offsets), version)| Sampled {
            path,
            offsets,
            version: version.as_ref(),
            end: self.end,
            seen_by_perf: self.seen_by_perf.as_ref(),
        });
        let mut files: Vec<_> = files.filter(|file| !file.offsets.is_empty()).collect();
        files.sort_unstable_by_key(|file| file.path);
        files
    }
}

/// A file with samples.
struct Sampled<'a> {
    path: &'a Path,
    offsets: &'a AHashSet<u64>,
    version: Option<&'a Version>,
    /// When the recording ended.
    end: Option<SystemTime>,
    seen_by_perf: Option<&'a SeenByPerf>,
}

impl Sampled<'_> {
    /// Returns whether the file was another one before: then its names are those of other functions.
    fn is_replaced(&self) -> bool {
        let is_another = |before| Version::of(self.path).as_ref() != Some(before);
        let changed = |end| match self.seen_by_perf {
            Some(seen) => seen.is_replaced(self.path, end),
            None => is_younger(self.path, end),
        };
        self.version.is_some_and(is_another) || self.end.is_some_and(changed)
    }
}

/// Returns the build-id of a file, if it has one.
pub(crate) fn build_id(file: &Path) -> Option<BuildId> {
    let kernel = file == Path::new(KERNEL);
    let id = if kernel {
        running_kernel()?
    } else if file == Path::new(VDSO) {
        vdso_build_id()?
    } else {
        Elf::read(file)?.build_id?
    };
    Some(BuildId {
        file: file.to_owned(),
        kernel,
        id,
    })
}

/// Returns the build-id of the running kernel.
pub(crate) fn running_kernel() -> Option<Vec<u8>> {
    kernel_build_id(&fs::read("/sys/kernel/notes").ok()?)
}

/// The build-id among ELF notes: each has the sizes of its name and its content and its type, then name and
/// content, padded to 4 bytes (System V gABI, "Note Section").
fn kernel_build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const BUILD_ID: u32 = 3;
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_ne_bytes);
    loop {
        let (header, rest) = notes.split_at_checked(12)?;
        let size = |at: usize| usize::try_from(number(&header[at..at + 4])?).ok();
        let (name, rest) = rest.split_at_checked(size(0)?.next_multiple_of(4))?;
        let length = size(4)?;
        let content = rest.get(..length)?;
        if number(&header[8..])? == BUILD_ID && name == b"GNU\0" {
            return Some(content.to_vec());
        }
        notes = rest.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::perfdata::{Map, Sample, Stamp, Symbol};
    use crate::symbols::testing::{Generator, Split};

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let note = |kind: u32, name: &[u8], content: &[u8]| {
            let mut bytes = Vec::new();
            for number in [name.len(), content.len(), kind as usize] {
                bytes.extend(u32::try_from(number).expect("it is small").to_ne_bytes());
            }
            bytes.extend(name);
            bytes.extend(content);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let other = note(6, b"Xen\0", &[1, 2]);
        let id = note(3, b"GNU\0", &[7; 20]);
        assert_eq!(
            kernel_build_id(&[other.clone(), id].concat()),
            Some(vec![7; 20])
        );
        assert_eq!(kernel_build_id(&other), None);
        assert_eq!(kernel_build_id(&[0xff; 12]), None);
    }

    /// Of a name that is the encoding of a type, too: C++'s `float`.
    #[unsafe(no_mangle)]
    extern "C" fn f(number: u64) -> u64 {
        std::hint::black_box(number)
    }

    #[test]
    fn a_c_function_keeps_its_name() {
        let (symbol, _) = look_up(f as *const () as usize as u64);
        assert_eq!(symbol.name, "f");
    }

    #[test]
    fn a_function_of_this_program_has_its_name() {
        let address = build_id as *const () as usize as u64;
        let (symbol, map) = look_up(address);
        assert!(symbol.name.contains("build_id"), "{symbol:?}");
        assert_eq!(symbol.start, address - map.start + map.offset);
    }

    #[test]
    fn a_program_that_is_replaced_has_no_names() {
        let split = Split::new();
        let task = Task::leader(7);
        let map = Body::Map(Map {
            task,
            start: 0x40_0000,
            length: 0x10_0000,
            file: split.program.clone(),
            ..Map::default()
        });
        let sample = Body::Sample(Sample {
            ip: 0x40_0000 + split.shown,
            ..Sample::default()
        });
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        let mut places = Places::default();
        for body in [map, sample] {
            places.take(&Record { stamp, body });
        }
        let (tables, ids) = places.look_up();
        assert_eq!(tables[0].symbols[0].name, "shown");
        assert_eq!(ids.len(), 1);
        // As a linker does it, with the same program, which is younger.
        let new = split.folder.path().join("new");
        fs::copy(&split.program, &new).expect("it can be copied");
        fs::rename(&new, &split.program).expect("it can be moved");
        let (tables, ids) = places.look_up();
        assert!(
            tables[0].replaced && tables[0].symbols.is_empty(),
            "{tables:?}"
        );
        assert_eq!(ids, []);
        fs::remove_file(&split.program).expect("it is there");
        assert!(places.look_up().0[0].replaced);
    }

    #[test]
    fn a_function_that_a_program_made_has_its_name() {
        let mut program = Generator::start();
        let task = Task::leader(program.process.id());
        let mut records = super::super::processes::process(task.pid);
        let sample = Body::Sample(Sample {
            ip: program.address + 5,
            ..Sample::default()
        });
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        records.push(Record {
            stamp,
            body: sample,
        });
        let mut places = Places::default();
        records.iter().for_each(|record| places.take(record));
        let made = SymbolTable {
            file: format!("/tmp/perf-{}.map", task.pid),
            symbols: vec![Symbol {
                start: program.address,
                length: 6,
                name: "made".to_owned(),
            }],
            ..SymbolTable::default()
        };
        assert_eq!(places.look_up().0, [made.clone()]);
        program.process.kill().expect("it is ours");
        program.process.wait().expect("it ends");
        assert_eq!(places.look_up().0, [made], "and after its end");
    }

    /// What is found at an address in this test's own process, and where its file is mapped.
    fn look_up(address: u64) -> (Symbol, Map) {
        let task = Task::leader(std::process::id());
        let mut records = super::super::processes::process(task.pid);
        records.push(Record {
            stamp: Stamp {
                task,
                ..Stamp::default()
            },
            body: Body::Sample(Sample {
                ip: address + 1,
                ..Sample::default()
            }),
        });
        let mut places = Places::default();
        records.iter().for_each(|record| places.take(record));
        let (tables, _) = places.look_up();
        let [SymbolTable { symbols, .. }] = &tables[..] else {
            panic!("one file has a sample: {tables:?}");
        };
        let [symbol] = &symbols[..] else {
            panic!("one function has it: {symbols:?}");
        };
        let map = records.into_iter().find_map(|record| match record.body {
            Body::Map(map) if map.start <= address && address < map.start + map.length => Some(map),
            _ => None,
        });
        (symbol.clone(), map.expect("it is mapped"))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks up the names of sampled addresses. The files must still be those that ran.

mod build_id;
mod mapped_files;

use std::mem;
use std::path::{Path, PathBuf};

use ahash::AHashSet;

use crate::recording::address_spaces::{AddressSpaces, FileOffset, is_anonymous};
use crate::recording::call_chain::named_addresses;
use crate::recording::file_text::text_of_path;
use crate::recording::perfdata::{
    Body, BuildId, KERNEL, Record, Recording, SymbolTable, Task, is_kernel_address,
};
use crate::recording::symbols::{Absence, DebugFiles, SymbolFinder};
use crate::recording::unwind::{self, CutChains, Programs as _, Unwinder};
pub(crate) use build_id::{build_id, running_kernel_build_id};
pub(crate) use mapped_files::MappedFiles;

/// Collects the addresses of samples, of their data, of call chains and of branches, and looks up
/// their names.
#[derive(Default)]
pub(crate) struct Places {
    /// Mappings and names as of the last record.
    spaces: AddressSpaces,
    /// Sampled offsets in each file, by the file's number; addresses for the kernel.
    files: Vec<AHashSet<u64>>,
    /// The files that were mapped, and where they are now.
    programs: MappedFiles,
    /// Process and address of samples since the last change of a mapping. Most samples repeat one of these addresses, which
    /// need not be looked up again.
    noted_addresses: AHashSet<(u32, u64)>,
    /// Finds the callers of samples with stacks.
    unwinder: Unwinder,
    /// A buffer for the callers of a sample, kept to save allocations.
    caller_buffer: Vec<u64>,
}

impl Places {
    /// Creates an instance for a recording that was made before. Files that have changed since the recording get no names.
    pub(crate) fn for_recording(recording: &Recording) -> Self {
        Self {
            programs: MappedFiles::for_recording(recording),
            ..Self::default()
        }
    }

    /// Applies a record: notes the addresses of a sample, or the change that another record describes. Records must come
    /// in the order of their times.
    pub(crate) fn note_record(&mut self, record: &Record) {
        let Body::Sample(sample) = &record.body else {
            self.noted_addresses.clear();
            self.spaces.apply(record);
            match &record.body {
                Body::Exit { task, .. } => self.spaces.remove_task(*task),
                Body::Map(map) => self.programs.add_mapping(map, &self.spaces),
                _ => {}
            }
            return;
        };
        // The addresses are the guest's, and not those of the task.
        if sample.guest_mode.is_some() {
            return;
        }
        let task = record.stamp.task;
        let ends = sample.branches.iter().flat_map(|b| [b.from, b.to]);
        let chain = named_addresses(&sample.chain);
        for address in ends.chain(chain).chain([sample.ip]) {
            self.note_address(task, address);
        }
        self.note_data_address(task, sample.access.address);
        if let Some(user_stack) = &sample.user_stack {
            let mut callers = mem::take(&mut self.caller_buffer);
            let process = unwind::UnwoundProcess {
                pid: task.pid,
                spaces: &self.spaces,
                programs: &self.programs,
            };
            self.unwinder
                .append(process, sample.ip, user_stack, &mut callers);
            callers
                .drain(..)
                .for_each(|address| self.note_address(task, address));
            self.caller_buffer = callers;
        }
    }

    /// Returns the call chains that could not be unwound since the last call of this function.
    pub(crate) fn take_cut_chains(&mut self) -> CutChains {
        self.unwinder.take_cut_chains()
    }

    /// Notes a sampled address of a task. `address` may also be a mark of a call chain, which has
    /// no effect: it is in no mapping.
    pub(crate) fn note_address(&mut self, task: Task, address: u64) {
        if !self.noted_addresses.insert((task.pid, address)) {
            return;
        }
        if let Some(location) = self.spaces.find(task.pid, address) {
            let file = location.file.index();
            if self.files.len() <= file {
                self.files.resize_with(file + 1, AHashSet::new);
            }
            self.files[file].insert(location.offset);
        }
    }

    /// Notes the address of sampled data, if symbols may name it.
    fn note_data_address(&mut self, task: Task, address: u64) {
        if find_data(&self.spaces, task, address).is_some() {
            self.note_address(task, address);
        }
    }

    /// Returns the symbols and the build-ids of all files with samples. For samples in a module, the kernel's build-id is
    /// among them.
    pub(crate) fn look_up(&self) -> (Vec<SymbolTable>, Vec<BuildId>) {
        let tables = self.names(&DebugFiles::of_user(), |_| true);
        let files = self.sampled_files();
        let image = Path::new(KERNEL);
        let is_image_sampled = files.iter().any(|file| file.name == image);
        let is_kernel_sampled = files.iter().any(|file| is_of_kernel(file.offsets));
        let image_id = (is_kernel_sampled && !is_image_sampled && !self.programs.is_other_kernel())
            .then(|| build_id(image, image));
        let ids = files.into_iter().filter_map(|file| match file.build_id {
            Some(id) => Some(BuildId {
                file: file.name.to_owned(),
                is_kernel: false,
                id: id.to_vec(),
            }),
            None => build_id(file.name, &file.current_path.ok()?),
        });
        (tables, ids.chain(image_id.flatten()).collect())
    }

    /// Returns the symbols of the files with samples for which `is_wanted` is true.
    pub(crate) fn names(
        &self,
        debug_files: &DebugFiles,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Vec<SymbolTable> {
        let mut files = self.sampled_files();
        files.retain(|file| is_wanted(file.name));
        let mut finder = SymbolFinder::new(debug_files.clone());
        if files
            .iter()
            .filter(|file| is_of_kernel(file.offsets))
            .count()
            > 1
        {
            // The names of the kernel's image and modules come from one file, which is then read only once.
            finder = finder.with_kernel_cache();
        }
        files
            .into_iter()
            .map(|file| match file.current_path {
                Ok(path) => finder.look_up_in(file.name, &path, file.offsets),
                Err(absence) => SymbolTable {
                    file: text_of_path(file.name).into_owned(),
                    replaced: absence != Absence::Missing,
                    ..SymbolTable::default()
                },
            })
            .collect()
    }

    /// Returns the files with samples in the order of their names.
    fn sampled_files(&self) -> Vec<SampledFile<'_>> {
        let files = self.spaces.file_numbers().zip(&self.files);
        let sampled_files = files.filter(|(_, offsets)| !offsets.is_empty());
        let mut files: Vec<_> = sampled_files
            .map(|(file, offsets)| SampledFile {
                name: self.spaces.path(file),
                current_path: self.programs.find(file, &self.spaces),
                build_id: self.spaces.build_id(file),
                offsets,
            })
            .collect();
        files.sort_unstable_by_key(|file| file.name);
        files
    }
}

/// Returns the place of sampled data in a file, whose symbols can name the data. Returns `None` if the data is in no
/// file or in the kernel, or if `address` is 0, which stands for no address.
pub(crate) fn find_data(spaces: &AddressSpaces, task: Task, address: u64) -> Option<FileOffset> {
    if address == 0 || is_kernel_address(address) {
        return None;
    }
    let location = spaces.find(task.pid, address);
    location.filter(|found| !is_anonymous(spaces.path(found.file)))
}

/// Returns whether sampled offsets are addresses of the kernel or of a module.
fn is_of_kernel(offsets: &AHashSet<u64>) -> bool {
    offsets.iter().any(|offset| is_kernel_address(*offset))
}

/// A file with samples.
struct SampledFile<'a> {
    name: &'a Path,
    /// The path where the file is now.
    current_path: Result<PathBuf, Absence>,
    /// The build-id that the mappings of the file have.
    build_id: Option<&'a [u8]>,
    /// The sampled offsets.
    offsets: &'a AHashSet<u64>,
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::AtomicU64;

    use super::*;

    use crate::recording::perfdata::{GuestMode, Map, MemoryAccess, Sample, Stamp, Symbol};
    use crate::recording::procfs::MappingKinds;
    use crate::recording::symbols::Elf;
    use crate::recording::symbols::testing::{Generator, SplitProgram, offset};

    /// A function whose name is also the mangled name of a type, C++'s `float`.
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

    #[unsafe(no_mangle)]
    static sampled_variable: AtomicU64 = AtomicU64::new(7);

    #[test]
    fn a_recording_of_a_module_has_the_kernels_build_id() {
        let start = 0xffff_ffff_f000_0000;
        let map = Body::Map(Map {
            is_kernel: true,
            start,
            length: 0x1000,
            file: "[module]".into(),
            ..Map::default()
        });
        let sample = Body::Sample(Sample {
            ip: start,
            ..Sample::default()
        });
        let mut places = Places::default();
        for body in [map, sample] {
            let stamp = Stamp::default();
            places.note_record(&Record { stamp, body });
        }
        let image = Path::new(KERNEL);
        let (_, ids) = places.look_up();
        assert_eq!(ids, Vec::from_iter(build_id(image, image)));
    }

    #[test]
    fn a_guests_address_is_no_place_of_the_process() {
        let task = Task::leader(std::process::id());
        let mut records =
            crate::recording::procfs::process_records_of(task.pid, MappingKinds::Code);
        let address = build_id as *const () as usize as u64;
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        let body = Body::Sample(Sample {
            ip: address,
            chain: vec![address],
            guest_mode: Some(GuestMode::User),
            ..Sample::default()
        });
        records.push(Record { stamp, body });
        let mut places = Places::default();
        records.iter().for_each(|record| places.note_record(record));
        assert_eq!(places.look_up(), (vec![], vec![]));
    }

    #[test]
    fn a_variable_of_this_program_has_its_name() {
        let task = Task::leader(std::process::id());
        let kinds = MappingKinds::CodeAndData;
        let mut records = crate::recording::procfs::process_records_of(task.pid, kinds);
        let access = MemoryAccess {
            address: &raw const sampled_variable as u64,
            ..MemoryAccess::default()
        };
        records.push(Record {
            stamp: Stamp {
                task,
                ..Stamp::default()
            },
            body: Body::Sample(Sample {
                access,
                ..Sample::default()
            }),
        });
        let mut places = Places::default();
        records.iter().for_each(|record| places.note_record(record));
        let (tables, _) = places.look_up();
        let names = tables.iter().flat_map(|table| &table.symbols);
        let names: Vec<&str> = names.map(|symbol| &symbol.name[..]).collect();
        assert_eq!(names, ["sampled_variable"]);
    }

    #[test]
    fn a_program_that_is_replaced_has_no_names() {
        let split_program = SplitProgram::new();
        let task = Task::leader(7);
        let map = Body::Map(Map {
            task,
            start: 0x40_0000,
            length: 0x10_0000,
            file: split_program.program.clone(),
            ..Map::default()
        });
        let sample = Body::Sample(Sample {
            ip: 0x40_0000 + split_program.shown,
            ..Sample::default()
        });
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        let mut places = Places::default();
        for body in [map, sample] {
            places.note_record(&Record { stamp, body });
        }
        let (tables, ids) = places.look_up();
        assert_eq!(tables[0].symbols[0].name, "shown");
        assert_eq!(ids.len(), 1);
        // Replaces the program by a newer file with the same content, as a linker does.
        let new_file = split_program.folder.path().join("new");
        fs::copy(&split_program.program, &new_file).expect("it can be copied");
        fs::rename(&new_file, &split_program.program).expect("it can be moved");
        let (tables, ids) = places.look_up();
        assert!(
            tables[0].replaced && tables[0].symbols.is_empty(),
            "{tables:?}"
        );
        assert_eq!(ids, []);
        fs::remove_file(&split_program.program).expect("it is there");
        assert!(places.look_up().0[0].replaced);
    }

    #[test]
    fn a_program_that_is_removed_while_it_runs_has_names() {
        let mut program = Generator::start();
        let task = Task::leader(program.process.id());
        let elf = Elf::read(&program.path).expect("it was compiled");
        let main = offset(&program.path, &elf, "main");
        // The state of the process now, with a sample.
        let places = || {
            let mut records =
                crate::recording::procfs::process_records_of(task.pid, MappingKinds::Code);
            let maps = records.iter().filter_map(|record| match &record.body {
                Body::Map(map) => Some(map),
                _ => None,
            });
            let mut maps = maps.filter(|map| {
                map.file
                    .starts_with(program.path.parent().expect("it has one"))
            });
            let ip = maps.next().expect("it is mapped");
            let ip = ip.start + main - ip.offset;
            let body = Body::Sample(Sample {
                ip,
                ..Sample::default()
            });
            let stamp = Stamp {
                task,
                ..Stamp::default()
            };
            records.push(Record { stamp, body });
            let mut places = Places::default();
            records.iter().for_each(|record| places.note_record(record));
            places
        };
        let names = |places: &Places| {
            let (tables, ids) = places.look_up();
            let symbols = tables[0].symbols.iter();
            assert_eq!(ids.len(), usize::from(!tables[0].replaced));
            symbols.map(|s| s.name.clone()).collect::<Vec<_>>()
        };
        let places_before = places();
        fs::remove_file(&program.path).expect("it is there");
        assert_eq!(names(&places_before), ["main"]);
        let places_after = places();
        // Puts another program at the same path.
        fs::copy("/proc/self/exe", &program.path).expect("it can be copied");
        assert_eq!(names(&places_before), ["main"]);
        assert_eq!(names(&places_after), ["main"]);
        program.process.kill().expect("it is ours");
        program.process.wait().expect("it ends");
        assert_eq!(names(&places_before), [""; 0], "the file is gone");
        assert_eq!(names(&places_after), ["main"], "the file was kept open");
    }

    #[test]
    fn a_generated_function_has_its_name() {
        let mut program = Generator::start();
        let task = Task::leader(program.process.id());
        let mut records =
            crate::recording::procfs::process_records_of(task.pid, MappingKinds::Code);
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
        records.iter().for_each(|record| places.note_record(record));
        let generated_table = SymbolTable {
            file: format!("/tmp/perf-{}.map", task.pid),
            symbols: vec![Symbol {
                start: program.address,
                length: 6,
                name: "made".to_owned(),
            }],
            ..SymbolTable::default()
        };
        assert_eq!(places.look_up().0, [generated_table.clone()]);
        program.process.kill().expect("it is ours");
        program.process.wait().expect("it ends");
        assert_eq!(places.look_up().0, [generated_table], "and after its end");
    }

    /// Returns the symbol at an address in this test's own process, and the mapping of its file.
    fn look_up(address: u64) -> (Symbol, Map) {
        let task = Task::leader(std::process::id());
        let mut records =
            crate::recording::procfs::process_records_of(task.pid, MappingKinds::Code);
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
        records.iter().for_each(|record| places.note_record(record));
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of what was sampled, looked up while the files are those that ran.

use std::fs;
use std::path::Path;

use ahash::AHashSet;
use blazesym::helper::read_elf_build_id;
use blazesym::symbolize::source::{Elf, Kernel, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use blazesym::{Addr, MaybeDefault};

use crate::perfdata::{Body, BuildId, Record, Symbol, SymbolTable, Task, is_kernel};
use crate::profile::{AddressSpaces, KERNEL};

/// Addresses of samples, call chains and branches.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// State as of the last record.
    spaces: AddressSpaces,
    /// Offsets in each file, by its number; addresses in the kernel. They are as many as there is code that was seen.
    files: Vec<AHashSet<u64>>,
    /// Addresses since the last change of what is mapped, by process: most samples are where others were.
    seen: AHashSet<(u32, u64)>,
}

impl Places {
    /// Applies a record. Records must come by time.
    pub(crate) fn take(&mut self, record: &Record) {
        let Body::Sample(sample) = &record.body else {
            self.seen.clear();
            self.spaces.apply(record);
            if let Body::Exit { task, .. } = &record.body {
                self.spaces.end(*task);
            }
            return;
        };
        let ends = sample.branches.iter().flat_map(|b| [b.from, b.to]);
        let chain = sample.chain.iter().copied();
        for address in ends.chain(chain).chain([sample.ip]) {
            self.address(record.stamp.task, address);
        }
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
        let symbolizer = Symbolizer::new();
        let files = self.spaces.files().zip(&self.files);
        let mut files: Vec<_> = files.filter(|(_, offsets)| !offsets.is_empty()).collect();
        files.sort_unstable_by_key(|(file, _)| *file);
        let tables = files.iter().map(|(file, offsets)| SymbolTable {
            file: file.to_string_lossy().into_owned(),
            symbols: symbols(&symbolizer, file, offsets),
        });
        let ids = files.iter().filter_map(|(file, _)| build_id(file));
        (tables.collect(), ids.collect())
    }
}

/// Returns the functions at these places; none if the file can't be read or has no names.
fn symbols(symbolizer: &Symbolizer, file: &Path, places: &AHashSet<u64>) -> Vec<Symbol> {
    let mut places: Vec<Addr> = places.iter().copied().collect();
    places.sort_unstable();
    let kernel = places.first().is_some_and(|place| is_kernel(*place));
    let found = if kernel {
        let source = Source::Kernel(Kernel {
            // As it runs, with its modules.
            vmlinux: MaybeDefault::None,
            debug_syms: false,
            ..Kernel::default()
        });
        symbolizer.symbolize(&source, Input::AbsAddr(&places))
    } else {
        let mut elf = Elf::new(file);
        elf.debug_syms = false;
        symbolizer.symbolize(&Source::Elf(elf), Input::FileOffset(&places))
    };
    let mut symbols: Vec<Symbol> = Vec::new();
    for (place, symbol) in places.iter().zip(found.unwrap_or_default()) {
        let Symbolized::Sym(symbol) = symbol else {
            continue;
        };
        let offset = symbol.offset as u64;
        let start = place.saturating_sub(offset);
        // The kernel's have no sizes: then they go as far as there are samples.
        let length = symbol.size.map_or(0, |size| size as u64).max(offset + 1);
        match symbols.last_mut() {
            Some(last) if last.start == start => last.length = last.length.max(length),
            _ => symbols.push(Symbol {
                start,
                length,
                name: demangled(&symbol.name),
            }),
        }
    }
    symbols
}

/// The name as its programmer wrote it, if a C++ or Rust compiler has encoded it.
///
/// C's names are never encoded. They must not be tried: the demanglers also read the encoding of a type alone, and
/// so take a function `i` for `int`.
fn demangled(name: &str) -> String {
    let rust = || {
        let symbol = rustc_demangle::try_demangle(name).ok()?;
        // Without the hash at the end.
        Some(format!("{symbol:#}"))
    };
    let cpp = || cpp_demangle::Symbol::new(name).ok()?.demangle().ok();
    let encoded = name.starts_with("_Z") || name.starts_with("_R");
    let readable = encoded.then(|| rust().or_else(cpp)).flatten();
    readable.unwrap_or_else(|| name.to_owned())
}

/// Returns the build-id of a file, if it has one.
fn build_id(file: &Path) -> Option<BuildId> {
    let kernel = file == Path::new(KERNEL);
    let id = if kernel {
        kernel_build_id(&fs::read("/sys/kernel/notes").ok()?)?
    } else {
        read_elf_build_id(file).ok()??.into_owned()
    };
    Some(BuildId {
        file: file.to_owned(),
        kernel,
        id,
    })
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
    use crate::perfdata::{Map, Sample, Stamp, Task};

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
    fn only_encoded_names_are_decoded() {
        for name in [
            "i",
            "f",
            "z",
            "Pv",
            "St",
            "main",
            "R",
            "_Z",
            "_R",
            "_Zx y",
            "ptmalloc_init.part.0",
        ] {
            assert_eq!(demangled(name), name);
        }
        for (encoded, name) in [
            ("_ZN5space3fooEibc", "space::foo(int, bool, char)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
        ] {
            assert_eq!(demangled(encoded), name);
        }
    }

    #[test]
    fn a_function_of_this_program_has_its_name() {
        let address = symbols as *const () as usize as u64;
        let (symbol, map) = look_up(address);
        assert!(symbol.name.contains("symbols"), "{symbol:?}");
        assert_eq!(symbol.start, address - map.start + map.offset);
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

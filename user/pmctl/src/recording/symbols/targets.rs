// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the targets of a program's jumps and calls: its functions, and stubs (PLT) for functions of other files.
//!
//! A call to a function of a library, or to one that the C library has in several variants, goes to a stub. The stub jumps
//! through a pointer that the dynamic linker sets. A relocation for the pointer has the name of the function.

use std::fs::File;
use std::path::Path;

use ahash::AHashMap;
use iced_x86::{Code, Decoder, DecoderOptions};
use object::elf::{
    R_X86_64_GLOB_DAT, R_X86_64_IRELATIVE, R_X86_64_JUMP_SLOT, SHF_ALLOC, STT_FUNC, STT_GNU_IFUNC,
};
use object::read::elf::{ElfFile64, Rela as _, SectionHeader as _};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, ReadCache};

use super::demangle::demangle;
use crate::system::files;

type Program<'a> = ElfFile64<'a, LittleEndian, &'a ReadCache<File>>;

const ENDIAN: LittleEndian = LittleEndian;

/// A function or a stub.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    start: u64,
    length: u64,
    /// The name in the symbol table; of a stub, the name of its function. It is demangled only when it is asked for: a
    /// large program has a hundred thousand names.
    mangled_name: String,
    is_stub: bool,
}

impl Target {
    /// Returns the name as a person reads it, with `@plt` at the end of a stub's.
    fn name(&self) -> String {
        let suffix = if self.is_stub { "@plt" } else { "" };
        demangle(&self.mangled_name) + suffix
    }
}

/// The functions and stubs of a program or library, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets(Vec<Target>);

impl Targets {
    /// Reads the targets of a file; none if it is not a 64-bit ELF file.
    pub(crate) fn of(path: &Path) -> Self {
        Self::read(path).unwrap_or_default()
    }

    fn read(path: &Path) -> Option<Self> {
        let data = &ReadCache::new(files::open(path).ok()?);
        let file = &Program::parse(data).ok()?;
        let functions = functions(file);
        let stubs = stubs(file, &pointers(file, data, &functions));
        let mut targets: Vec<Target> = functions.into_values().chain(stubs).collect();
        targets.sort_by_key(|target| target.start);
        Some(Self(targets))
    }

    /// Returns the name of the function or stub at an address, and the offset in it.
    pub(crate) fn at(&self, address: u64) -> Option<(String, u64)> {
        let next_index = self.0.partition_point(|target| target.start <= address);
        let target = self.0[..next_index].last()?;
        let offset_in_target = address - target.start;
        (offset_in_target == 0 || offset_in_target < target.length)
            .then(|| (target.name(), offset_in_target))
    }
}

/// Returns the functions of a file by address. If several symbols have one address, the simplest name wins.
fn functions(file: &Program<'_>) -> AHashMap<u64, Target> {
    let complexity = |name: &str| (name.starts_with('_'), name.len(), name.to_owned());
    let mut targets: AHashMap<u64, Target> = AHashMap::new();
    let symbols = file.symbols().chain(file.dynamic_symbols());
    for symbol in symbols {
        let kind = symbol.elf_symbol().st_type();
        let Ok(name) = symbol.name() else { continue };
        if !matches!(kind, STT_FUNC | STT_GNU_IFUNC) || symbol.is_undefined() || name.is_empty() {
            continue;
        }
        let target = Target {
            start: symbol.address(),
            length: symbol.size(),
            mangled_name: name.to_owned(),
            is_stub: false,
        };
        let known_target = targets
            .entry(target.start)
            .or_insert_with(|| target.clone());
        if complexity(&target.mangled_name) < complexity(&known_target.mangled_name) {
            *known_target = target;
        }
    }
    targets
}

/// Returns the mangled names of the functions whose addresses the dynamic linker stores, by the address of the pointer.
fn pointers(
    file: &Program<'_>,
    data: &ReadCache<File>,
    functions: &AHashMap<u64, Target>,
) -> AHashMap<u64, String> {
    let mut names = AHashMap::new();
    let dynamic = file.dynamic_symbol_table();
    for section in file.elf_section_table().iter() {
        if section.sh_flags(ENDIAN) & u64::from(SHF_ALLOC) == 0 {
            continue;
        }
        let Ok(Some((relocations, _))) = section.rela(ENDIAN, data) else {
            continue;
        };
        for relocation in relocations {
            let name = match relocation.r_type(ENDIAN, false) {
                R_X86_64_JUMP_SLOT | R_X86_64_GLOB_DAT => dynamic.as_ref().and_then(|table| {
                    let index = relocation.symbol(ENDIAN, false)?;
                    let symbol = table.symbol_by_index(index).ok()?;
                    symbol.name().ok().map(str::to_owned)
                }),
                // A function at this address (IFUNC) chooses the fastest variant; its name is that of the variants.
                R_X86_64_IRELATIVE => {
                    let resolver = u64::try_from(relocation.r_addend(ENDIAN)).ok();
                    let resolver = resolver.and_then(|resolver| functions.get(&resolver));
                    resolver.map(|target| target.mangled_name.clone())
                }
                _ => None,
            };
            if let Some(name) = name {
                names.insert(relocation.r_offset(ENDIAN), name);
            }
        }
    }
    names
}

/// Returns the stubs (PLT): jumps through `pointers`, in the sections that linkers make for stubs.
fn stubs(file: &Program<'_>, pointers: &AHashMap<u64, String>) -> Vec<Target> {
    let mut stubs = Vec::new();
    for section in file.sections() {
        if !section.name().is_ok_and(|name| name.starts_with(".plt")) {
            continue;
        }
        let Ok(bytes) = section.data() else { continue };
        let mut decoder = Decoder::with_ip(64, bytes, section.address(), DecoderOptions::NONE);
        let mut previous = None;
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let landing = previous.replace(instruction);
            if instruction.code() != Code::Jmp_rm64 || !instruction.is_ip_rel_memory_operand() {
                continue;
            }
            let Some(name) = pointers.get(&instruction.ip_rel_memory_address()) else {
                continue;
            };
            let landing = landing.filter(|landing| landing.code() == Code::Endbr64);
            let start = landing.map_or(instruction.ip(), |landing| landing.ip());
            stubs.push(Target {
                start,
                length: instruction.next_ip() - start,
                mangled_name: name.clone(),
                is_stub: true,
            });
        }
    }
    stubs
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    use ahash::AHashSet;

    use crate::recording::symbols::{DebugFiles, Elf, SymbolFinder};

    /// Compiles a program that calls `strlen`, and returns its targets.
    fn targets(flags: &[&str]) -> Targets {
        let folder = tempfile::tempdir().expect("a folder can be made");
        Targets::of(&compile(folder.path(), flags))
    }

    fn compile(folder: &Path, flags: &[&str]) -> PathBuf {
        let (source, path) = (folder.join("calls.c"), folder.join("calls"));
        let text = "#include <string.h>\nint main(int n, char **v) { return n + strlen(v[0]); }\n";
        fs::write(&source, text).expect("it can be written");
        let mut command = Command::new("cc");
        let command = command.args(flags).arg("-o").args([&path, &source]);
        assert!(command.status().is_ok_and(|status| status.success()));
        path
    }

    fn find<'a>(targets: &'a Targets, name: &str) -> &'a Target {
        let mut all = targets.0.iter();
        let target = all.find(|target| target.name() == name);
        target.unwrap_or_else(|| panic!("no {name} in {targets:?}"))
    }

    #[test]
    fn a_call_of_a_library_has_its_name() {
        for flags in [
            &["-O1"][..],
            &["-O1", "-static"],
            &["-O1", "-fcf-protection=full"],
        ] {
            let targets = targets(flags);
            let (main, stub) = (find(&targets, "main"), find(&targets, "strlen@plt"));
            let stub_name = "strlen@plt".to_owned();
            assert_eq!(targets.at(stub.start), Some((stub_name, 0)), "{flags:?}");
            assert_eq!(targets.at(main.start + 2), Some(("main".to_owned(), 2)));
            assert_eq!(targets.at(1), None);
        }
    }

    #[test]
    fn a_sample_in_a_stub_has_its_name() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for flags in [&["-O1"][..], &["-O1", "-static"]] {
            let path = compile(folder.path(), flags);
            let stub = find(&Targets::of(&path), "strlen@plt").clone();
            let elf = Elf::read(&path).expect("it is a program");
            let size = fs::metadata(&path).expect("it is there").len();
            let offset = (0..size).find(|offset| elf.address(*offset) == Some(stub.start));
            let offsets = AHashSet::from_iter([offset.expect("it is in the file") + 1]);
            let table = SymbolFinder::new(DebugFiles::of_user()).look_up_in(&path, &path, &offsets);
            let names: Vec<&str> = table.symbols.iter().map(|s| &s.name[..]).collect();
            assert_eq!(names, ["strlen@plt"], "{flags:?}");
        }
    }

    #[test]
    fn the_simplest_of_several_names_wins() {
        let targets = targets(&["-O1", "-static"]);
        let fopen_address = find(&targets, "fopen");
        assert_eq!(
            targets.at(fopen_address.start),
            Some(("fopen".to_owned(), 0))
        );
    }

    #[test]
    fn a_stub_of_a_mangled_name_is_readable() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (source, path) = (
            folder.path().join("library.c"),
            folder.path().join("library.so"),
        );
        let text = "int called(void) __asm__(\"_ZN5outer5innerEv\");\nint main(void) { return called() + 1; }\n";
        fs::write(&source, text).expect("it can be written");
        let mut command = Command::new("cc");
        let command = command.args(["-O1", "-shared", "-fPIC", "-o"]);
        let status = command.args([&path, &source]).status();
        assert!(status.is_ok_and(|status| status.success()));
        let targets = Targets::of(&path);
        let stub = find(&targets, "outer::inner()@plt");
        assert_eq!(
            targets.at(stub.start),
            Some(("outer::inner()@plt".to_owned(), 0))
        );
    }

    #[test]
    fn other_files_than_programs_have_no_targets() {
        assert!(Targets::of(Path::new("/proc/self/maps")).0.is_empty());
        assert!(Targets::of(Path::new("/nonexistent")).0.is_empty());
    }
}

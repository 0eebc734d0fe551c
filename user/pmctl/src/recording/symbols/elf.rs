// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headers of a program or library: its build-id, and where its parts are.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSegment, ReadCache, ReadRef};

use super::sections::MINI_DEBUG;
use crate::recording::perfdata::recorded_part_of_build_id;
use crate::system::files;

/// Facts about a program, library or debug file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Elf {
    /// The build-id, by which the linker identifies this version of the file.
    pub(crate) build_id: Option<Vec<u8>>,
    /// The code is of a program of 32 bits.
    pub(crate) is_32_bit: bool,
    /// The file has a symbol table with the names of all functions, not only of the exported ones.
    pub(crate) has_table: bool,
    /// The file has a compressed symbol table with the names of all functions (`.gnu_debugdata`).
    pub(super) has_mini_table: bool,
    /// The file has source lines.
    pub(crate) has_lines: bool,
    /// Place of debug information that is not in the file.
    pub(super) split_debug: SplitDebug,
    /// The name of the separate debug file (`.gnu_debuglink`).
    pub(super) debug_link: Option<OsString>,
    segments: Vec<Segment>,
    /// Sections with stubs for functions of other files (PLT): addresses, and sizes in bytes.
    stubs: Vec<(u64, u64)>,
}

/// A part of the file that is mapped into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// Offset in the file.
    offset: u64,
    /// Size in the file in bytes.
    file_size: u64,
    /// Size in memory in bytes, including zeroed data after the content of the file (`.bss`).
    memory_size: u64,
    address: u64,
}

impl Segment {
    /// Returns the size in memory up to the end of the last page that has content of the file.
    fn size_of_pages(&self) -> u64 {
        const PAGE_SIZE: u64 = 4096;

        if self.file_size == 0 {
            return 0;
        }
        let end = self.address.saturating_add(self.file_size);
        let page_end = end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(end);
        page_end.saturating_sub(self.address).min(self.memory_size)
    }
}

/// Files that have parts of the debug information.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SplitDebug {
    #[default]
    /// All debug information is in the program, or in its debug file.
    None,
    /// The debug information of inlined functions may be in `.dwo` files, one for each source file.
    PerSourceFile,
    /// Several programs share a file with debug information (dwz).
    Shared,
}

impl Elf {
    /// Reads the headers; `None` if the file can't be read, or is not an ELF file.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(files::open(path).ok()?);
        Some(Self::of(&object::File::parse(&cache).ok()?))
    }

    /// Returns the facts about a file that was parsed already.
    pub(crate) fn of<'a, R: ReadRef<'a>>(file: &object::File<'a, R>) -> Self {
        let has_section = |name| file.section_by_name(name).is_some();
        let segment = |segment: object::Segment<'a, '_, R>| {
            let (offset, file_size) = segment.file_range();
            Segment {
                offset,
                file_size,
                memory_size: segment.size(),
                address: segment.address(),
            }
        };
        Self {
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            is_32_bit: file.architecture() == object::Architecture::I386,
            has_table: has_section(".symtab"),
            has_mini_table: has_section(MINI_DEBUG),
            has_lines: has_section(".debug_line"),
            split_debug: if has_section(".gnu_debugaltlink") {
                SplitDebug::Shared
            } else if has_section(".debug_addr") {
                SplitDebug::PerSourceFile
            } else {
                SplitDebug::None
            },
            debug_link: file
                .gnu_debuglink()
                .ok()
                .flatten()
                .map(|(name, _)| OsString::from_vec(name.to_vec())),
            segments: file.segments().map(segment).collect(),
            stubs: file
                .sections()
                .filter(|section| section.name().is_ok_and(|name| name.starts_with(".plt")))
                .map(|section| (section.address(), section.size()))
                .collect(),
        }
    }

    /// Returns the size of the program's registers in bits.
    pub(crate) const fn bits(&self) -> u32 {
        if self.is_32_bit { 32 } else { 64 }
    }

    /// Reads the headers; `None` if the file has another build-id.
    pub(crate) fn read_version(path: &Path, build_id: &[u8]) -> Option<Self> {
        Self::read(path).filter(|elf| elf.has_build_id(build_id))
    }

    /// Returns whether the file has this build-id. Only the part of a build-id that recordings store is compared.
    pub(crate) fn has_build_id(&self, build_id: &[u8]) -> bool {
        let own_id = self.build_id.as_deref().map(recorded_part_of_build_id);
        own_id == Some(recorded_part_of_build_id(build_id))
    }

    /// Returns whether an address is in a stub (PLT). The symbol table has no names for stubs.
    pub(super) fn has_stub(&self, address: u64) -> bool {
        let is_inside = |(start, size): &(u64, u64)| address.wrapping_sub(*start) < *size;
        self.stubs.iter().any(is_inside)
    }

    /// Returns the address at which the file places the byte at this offset; `None` if no segment has it. The last page of
    /// a segment may contain zeroed data after the content of the file. Pages after it are not mapped from the file: their
    /// offsets belong to other parts of the file.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        let within = |size: fn(&Segment) -> u64| {
            self.segments.iter().find_map(move |segment| {
                let offset_in_segment = offset.checked_sub(segment.offset)?;
                (offset_in_segment < size(segment))
                    .then(|| segment.address.wrapping_add(offset_in_segment))
            })
        };
        within(|segment| segment.file_size).or_else(|| within(Segment::size_of_pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_32_bits_is_known_by_its_header() {
        let program = std::env::current_exe().expect("it is known");
        assert_eq!(Elf::read(&program).map(|elf| elf.bits()), Some(64));
        // An ELF header: class, byte order and version; type, machine (Intel 80386) and version.
        let mut header = [
            &b"\x7fELF\x01\x01\x01"[..],
            &[0; 9],
            &[2, 0, 3, 0, 1, 0, 0, 0],
        ]
        .concat();
        header.resize(52, 0);
        header[40] = 52; // its size
        let file = object::File::parse(&header[..]).expect("it is well formed");
        assert_eq!(Elf::of(&file).bits(), 32);
    }

    #[test]
    fn a_segment_ends_with_the_last_page_of_its_content() {
        let data = Segment {
            offset: 0x2e10,
            file_size: 0x300,
            memory_size: 0x5000,
            address: 0x40_3e10,
        };
        let anonymous = Segment {
            offset: 0x8000,
            file_size: 0,
            memory_size: 0x1000,
            address: 0x50_0000,
        };
        let elf = Elf {
            segments: vec![data, anonymous],
            ..Elf::default()
        };
        assert_eq!(elf.address(0x2e0f), None);
        assert_eq!(elf.address(0x2e10), Some(0x40_3e10));
        assert_eq!(elf.address(0x310f), Some(0x40_410f));
        assert_eq!(
            elf.address(0x3fff).map(|address| address & 0xfff),
            Some(0xfff)
        );
        assert_eq!(elf.address(0x4000), None);
        assert_eq!(elf.address(0x8000), None);
        let small = Segment {
            memory_size: 0x400,
            ..data
        };
        assert_eq!(small.size_of_pages(), 0x400);
    }
}

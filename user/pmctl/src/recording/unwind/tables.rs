// SPDX-License-Identifier: MIT OR Apache-2.0
//! The unwind tables of a file, which say where callers' registers are.

use std::fs::File;
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry,
    LittleEndian, UnwindContext, UnwindExpression, UnwindSection,
};
use object::{Object, ObjectSection, ReadCache, ReadRef};

use super::step::{Expressions, Step};
use crate::recording::symbols::{DebugFiles, Elf, section_content};
use crate::system::files::open;

/// The largest number of bytes of an instruction (Intel SDM, volume 2A, section 2.3.11).
const MAX_INSTRUCTION_BYTES: usize = 15;

/// Bytes of an address.
const ADDRESS_SIZE: u8 = 8;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The unwind tables of a program or library.
pub(super) struct UnwindTables {
    elf: Elf,
    sections: Vec<TableSection>,
    context: UnwindContext<usize>,
    /// Addresses of the linker's stubs (PLT), through which functions of other files are called.
    stubs: Vec<Range<u64>>,
    code: Code,
    /// The debug file, which may have tables for more functions, was looked for.
    has_looked_for_debug_file: bool,
}

/// The source of the instructions: a program or library, or the bytes of the vDSO, which is not a file.
pub(super) enum Code {
    File(PathBuf),
    Bytes(Vec<u8>),
}

/// A section with unwind tables.
struct TableSection {
    kind: TableKind,
    bytes: Vec<u8>,
    bases: BaseAddresses,
    index: TableIndex,
}

#[derive(Clone, Copy)]
enum TableKind {
    /// `.eh_frame`
    Exceptions,
    /// `.debug_frame`
    Debug,
}

/// The index by which the entry of an address is found.
enum TableIndex {
    /// The section `.eh_frame_hdr`, which the linker has sorted.
    Header(Vec<u8>),
    /// The start address and the offset of each entry, by address.
    Sorted(Vec<(u64, usize)>),
}

impl UnwindTables {
    /// Reads the tables of a file.
    pub(super) fn read<'a, R: ReadRef<'a>>(
        elf: Elf,
        code: Code,
        file: &object::File<'a, R>,
    ) -> Self {
        let eh_frame = TableSection::eh_frame(file);
        let debug_frame = TableSection::debug_frame(file);
        let stubs = file.sections().filter_map(|section| {
            let is_stubs = section.name().is_ok_and(|name| name.starts_with(".plt"));
            let start = section.address();
            is_stubs.then(|| start..start.saturating_add(section.size()))
        });
        Self {
            elf,
            stubs: stubs.collect(),
            sections: eh_frame.into_iter().chain(debug_frame).collect(),
            context: UnwindContext::new(),
            code,
            has_looked_for_debug_file: false,
        }
    }

    /// Returns the step at an offset in the file.
    pub(super) fn step(&mut self, offset: u64, debug_files: &DebugFiles) -> Option<Step> {
        let address = self.elf.address(offset)?;
        if let Some(step) = self.step_from(0, address) {
            return Some(step);
        }
        // A stub is a jump. In static programs, stubs have no tables.
        if self.stubs.iter().any(|stubs| stubs.contains(&address)) {
            return Some(Step::of_jump());
        }
        let Code::File(path) = &self.code else {
            return None;
        };
        if mem::replace(&mut self.has_looked_for_debug_file, true) {
            return None;
        }
        let debug_file = debug_files.find(path, &self.elf)?;
        let next = self.sections.len();
        let debug_sections = with_file(&debug_file, |file| {
            TableSection::debug_frame(file)
                .into_iter()
                .collect::<Vec<_>>()
        });
        self.sections.extend(debug_sections?);
        self.step_from(next, address)
    }

    /// Returns the bytes of the instruction at an offset in the file, and some of the next ones; nothing if they can't be read.
    pub(super) fn code(&self, offset: u64) -> Vec<u8> {
        match &self.code {
            Code::File(path) => {
                let mut bytes = vec![0; MAX_INSTRUCTION_BYTES];
                let length = open(path).and_then(|file| file.read_at(&mut bytes, offset));
                bytes.truncate(length.unwrap_or(0));
                bytes
            }
            Code::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let rest = bytes.get(start..).unwrap_or_default();
                rest.iter().take(MAX_INSTRUCTION_BYTES).copied().collect()
            }
        }
    }

    /// Returns the first address of the function at an offset in the file, and the offset's address.
    pub(super) fn function(&self, offset: u64) -> Option<(u64, u64)> {
        let address = self.elf.address(offset)?;
        let mut sections = self.sections.iter();
        let first_address = sections.find_map(|section| section.function(address))?;
        Some((first_address, address))
    }

    /// Returns the step at an address, from the section with index `first` or a later section.
    fn step_from(&mut self, first: usize, address: u64) -> Option<Step> {
        let Self {
            sections, context, ..
        } = self;
        let mut sections = sections.iter().enumerate().skip(first);
        sections.find_map(|(number, section)| section.step(number, address, context))
    }
}

impl Expressions for UnwindTables {
    fn expression(&self, section: usize, expression: &UnwindExpression<usize>) -> Option<&[u8]> {
        let bytes = self.sections.get(section)?.bytes.get(expression.offset..)?;
        bytes.get(..expression.length)
    }
}

impl TableSection {
    fn eh_frame<'a, R: ReadRef<'a>>(file: &object::File<'a, R>) -> Option<Self> {
        let bytes = section_content(file, ".eh_frame")?;
        let address_of = |name| file.section_by_name(name).map_or(0, |s| s.address());
        let bases = BaseAddresses::default()
            .set_eh_frame(address_of(".eh_frame"))
            .set_eh_frame_hdr(address_of(".eh_frame_hdr"))
            .set_text(address_of(".text"))
            .set_got(address_of(".got"));
        let header = section_content(file, ".eh_frame_hdr").filter(|header| {
            let header_table = EhFrameHdr::new(header, LittleEndian).parse(&bases, ADDRESS_SIZE);
            header_table.is_ok_and(|header| header.table().is_some())
        });
        let index = match header {
            Some(header) => TableIndex::Header(header),
            None => TableIndex::Sorted(entries_by_address(&eh_frame(&bytes), &bases)),
        };
        Some(Self {
            kind: TableKind::Exceptions,
            bytes,
            bases,
            index,
        })
    }

    fn debug_frame<'a, R: ReadRef<'a>>(file: &object::File<'a, R>) -> Option<Self> {
        let bytes = section_content(file, ".debug_frame")?;
        let bases = BaseAddresses::default();
        Some(Self {
            index: TableIndex::Sorted(entries_by_address(&debug_frame(&bytes), &bases)),
            kind: TableKind::Debug,
            bytes,
            bases,
        })
    }

    /// Returns the step at an address. `number` is the index of this section.
    fn step(
        &self,
        number: usize,
        address: u64,
        context: &mut UnwindContext<usize>,
    ) -> Option<Step> {
        let position = (address, self.offset(address)?);
        let Self { bytes, bases, .. } = self;
        match self.kind {
            TableKind::Exceptions => entry_step(&eh_frame(bytes), bases, position, number, context),
            TableKind::Debug => entry_step(&debug_frame(bytes), bases, position, number, context),
        }
    }

    /// Returns the first address of the function at an address.
    fn function(&self, address: u64) -> Option<u64> {
        let position = (address, self.offset(address)?);
        let Self { bytes, bases, .. } = self;
        let entry = match self.kind {
            TableKind::Exceptions => entry(&eh_frame(bytes), bases, position),
            TableKind::Debug => entry(&debug_frame(bytes), bases, position),
        };
        entry.map(|entry| entry.initial_address())
    }

    /// Returns the offset of the last entry that begins at or before an address.
    fn offset(&self, address: u64) -> Option<usize> {
        match &self.index {
            TableIndex::Header(header) => {
                let header = EhFrameHdr::new(header, LittleEndian);
                let header = header.parse(&self.bases, ADDRESS_SIZE).ok()?;
                let table = header.table()?;
                let entry = table.lookup(address, &self.bases).ok()?;
                Some(table.pointer_to_offset(entry).ok()?.0)
            }
            TableIndex::Sorted(entries) => {
                let end = entries.partition_point(|(start, _)| *start <= address);
                let (_, offset) = entries[..end].last()?;
                Some(*offset)
            }
        }
    }
}

fn eh_frame(bytes: &[u8]) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(ADDRESS_SIZE);
    section
}

fn debug_frame(bytes: &[u8]) -> DebugFrame<Bytes<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(ADDRESS_SIZE);
    section
}

/// Returns the entry at `offset` of a section, if it covers `address`.
fn entry<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    (address, offset): (u64, usize),
) -> Option<FrameDescriptionEntry<Bytes<'a>>> {
    let entry = section.fde_from_offset(bases, offset.into(), S::cie_from_offset);
    entry.ok().filter(|entry| entry.contains(address))
}

/// Returns the step at an address, from the entry at `offset` of section `number`.
fn entry_step<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    position: (u64, usize),
    number: usize,
    context: &mut UnwindContext<usize>,
) -> Option<Step> {
    let (address, _) = position;
    let entry = entry(section, bases, position)?;
    let row = entry.unwind_info_for_address(section, bases, context, address);
    let encoding = entry.cie().encoding();
    Some(Step::new(
        row.ok()?,
        encoding,
        number,
        entry.is_signal_trampoline(),
    ))
}

/// Returns the start address and the offset of each entry, by address, up to an entry that can't be read.
fn entries_by_address<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
) -> Vec<(u64, usize)> {
    let mut entries_by_address = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(entry) = entry {
            if let Ok(entry) = entry.parse(S::cie_from_offset) {
                entries_by_address.push((entry.initial_address(), entry.offset()));
            }
        }
    }
    entries_by_address.sort_unstable();
    entries_by_address
}

/// Calls `read` with a parsed file, whose parts are read when they are used. `None` if it is not an ELF file.
pub(super) fn with_file<T>(
    path: &Path,
    read: impl FnOnce(&object::File<'_, &ReadCache<File>>) -> T,
) -> Option<T> {
    let cache = ReadCache::new(open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    Some(read(&file))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of a file that say where callers' registers are.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use gimli::{
    BaseAddresses, CieOrFde, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, LittleEndian,
    UnwindContext, UnwindExpression, UnwindSection,
};
use object::{Object, ObjectSection, ReadCache, ReadRef};

use super::step::{Expressions, Step};
use crate::recording::symbols::{DebugFiles, Elf, content};
use crate::system::files::open;

/// The size of an address.
const WORD: u8 = 8;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The tables of a program or library.
pub(super) struct UnwindTables {
    elf: Elf,
    sections: Vec<TableSection>,
    context: UnwindContext<usize>,
    /// Addresses of the linker's stubs, through which functions elsewhere are called.
    stubs: Vec<Range<u64>>,
    /// The file, until its debug file was looked for: that may have tables for more functions.
    path: Option<PathBuf>,
}

/// A section with tables.
struct TableSection {
    kind: Kind,
    bytes: Vec<u8>,
    bases: BaseAddresses,
    index: Index,
}

#[derive(Clone, Copy)]
enum Kind {
    /// `.eh_frame`
    Exceptions,
    /// `.debug_frame`
    Debug,
}

/// Finds the entry of an address.
enum Index {
    /// `.eh_frame_hdr`, which the linker has sorted.
    Header(Vec<u8>),
    /// The address and the offset of each entry, by address.
    Sorted(Vec<(u64, usize)>),
}

impl UnwindTables {
    /// Takes the tables of a file.
    pub(super) fn read<'a, R: ReadRef<'a>>(
        elf: Elf,
        path: Option<PathBuf>,
        file: &object::File<'a, R>,
    ) -> Self {
        let exceptions = TableSection::exceptions(file);
        let debug = TableSection::debug(file);
        let stubs = file.sections().filter_map(|section| {
            let is_stubs = section.name().is_ok_and(|name| name.starts_with(".plt"));
            let start = section.address();
            is_stubs.then(|| start..start.saturating_add(section.size()))
        });
        Self {
            elf,
            stubs: stubs.collect(),
            sections: exceptions.into_iter().chain(debug).collect(),
            context: UnwindContext::new(),
            path,
        }
    }

    /// Returns the step at an offset in the file.
    pub(super) fn step(&mut self, offset: u64, debug_files: &DebugFiles) -> Option<Step> {
        let address = self.elf.address(offset)?;
        if let Some(step) = self.step_in(0, address) {
            return Some(step);
        }
        // A stub is a jump. In static programs it has no table.
        if self.stubs.iter().any(|stubs| stubs.contains(&address)) {
            return Some(Step::of_jump());
        }
        let path = self.path.take()?;
        let debug_file = debug_files.find(&path, &self.elf)?;
        let next = self.sections.len();
        let found = with_file(&debug_file, |file| {
            TableSection::debug(file).into_iter().collect::<Vec<_>>()
        });
        self.sections.extend(found?);
        self.step_in(next, address)
    }

    /// Returns the step at an address, by the sections from number `first` on.
    fn step_in(&mut self, first: usize, address: u64) -> Option<Step> {
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
    fn exceptions<'a, R: ReadRef<'a>>(file: &object::File<'a, R>) -> Option<Self> {
        let bytes = content(file, ".eh_frame")?;
        let at = |name| file.section_by_name(name).map_or(0, |s| s.address());
        let bases = BaseAddresses::default()
            .set_eh_frame(at(".eh_frame"))
            .set_eh_frame_hdr(at(".eh_frame_hdr"))
            .set_text(at(".text"))
            .set_got(at(".got"));
        let header = content(file, ".eh_frame_hdr").filter(|header| {
            let parsed = EhFrameHdr::new(header, LittleEndian).parse(&bases, WORD);
            parsed.is_ok_and(|header| header.table().is_some())
        });
        let index = match header {
            Some(header) => Index::Header(header),
            None => Index::Sorted(sorted(&exceptions(&bytes), &bases)),
        };
        Some(Self {
            kind: Kind::Exceptions,
            bytes,
            bases,
            index,
        })
    }

    fn debug<'a, R: ReadRef<'a>>(file: &object::File<'a, R>) -> Option<Self> {
        let bytes = content(file, ".debug_frame")?;
        let bases = BaseAddresses::default();
        Some(Self {
            index: Index::Sorted(sorted(&debug(&bytes), &bases)),
            kind: Kind::Debug,
            bytes,
            bases,
        })
    }

    /// Returns the step at an address; this section is number `number`.
    fn step(
        &self,
        number: usize,
        address: u64,
        context: &mut UnwindContext<usize>,
    ) -> Option<Step> {
        let offset = self.offset(address)?;
        let at = (number, address, offset);
        match self.kind {
            Kind::Exceptions => step(&exceptions(&self.bytes), &self.bases, at, context),
            Kind::Debug => step(&debug(&self.bytes), &self.bases, at, context),
        }
    }

    /// Returns the offset of the last entry that begins at or before an address.
    fn offset(&self, address: u64) -> Option<usize> {
        match &self.index {
            Index::Header(header) => {
                let header = EhFrameHdr::new(header, LittleEndian);
                let header = header.parse(&self.bases, WORD).ok()?;
                let table = header.table()?;
                let entry = table.lookup(address, &self.bases).ok()?;
                Some(table.pointer_to_offset(entry).ok()?.0)
            }
            Index::Sorted(entries) => {
                let behind = entries.partition_point(|(start, _)| *start <= address);
                let (_, offset) = entries[..behind].last()?;
                Some(*offset)
            }
        }
    }
}

fn exceptions(bytes: &[u8]) -> EhFrame<Bytes<'_>> {
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(WORD);
    section
}

fn debug(bytes: &[u8]) -> DebugFrame<Bytes<'_>> {
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(WORD);
    section
}

fn step<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    (number, address, offset): (usize, u64, usize),
    context: &mut UnwindContext<usize>,
) -> Option<Step> {
    let entry = section.fde_from_offset(bases, offset.into(), S::cie_from_offset);
    let entry = entry.ok().filter(|entry| entry.contains(address))?;
    let row = entry.unwind_info_for_address(section, bases, context, address);
    let encoding = entry.cie().encoding();
    Some(Step::new(
        row.ok()?,
        encoding,
        number,
        entry.is_signal_trampoline(),
    ))
}

/// Returns the entries by address, up to one that can't be read.
fn sorted<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
) -> Vec<(u64, usize)> {
    let mut sorted = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(entry) = entry {
            if let Ok(entry) = entry.parse(S::cie_from_offset) {
                sorted.push((entry.initial_address(), entry.offset()));
            }
        }
    }
    sorted.sort_unstable();
    sorted
}

/// Calls `take` with a file that is read as far as it is asked for.
pub(super) fn with_file<T>(
    path: &Path,
    take: impl FnOnce(&object::File<'_, &ReadCache<File>>) -> T,
) -> Option<T> {
    let cache = ReadCache::new(open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    Some(take(&file))
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The headers of a program or library: what tells one version from another, and where its parts are.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSegment, ReadCache, ReadRef};

use super::sections::MINI_DEBUG;
use crate::system::files;

/// Facts about a program, library or debug file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Elf {
    /// The linker's identifier of this version of the file.
    pub(crate) build_id: Option<Vec<u8>>,
    /// The file has the names of all functions, and not of the exported ones only.
    pub(crate) has_table: bool,
    /// The file has the names of all functions in a symbol table that is compressed.
    pub(super) has_mini_table: bool,
    /// The file has source lines.
    pub(crate) has_lines: bool,
    /// The place of debug information that is not in the file.
    pub(super) split_debug: SplitDebug,
    /// The name of its separate debug file.
    pub(super) debug_link: Option<OsString>,
    /// Parts that are mapped: the offset in the file, the size, the address.
    segments: Vec<(u64, u64, u64)>,
    /// Where stubs for functions elsewhere are: addresses and sizes.
    stubs: Vec<(u64, u64)>,
}

/// Where a part of the debug information is that is not in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SplitDebug {
    #[default]
    None,
    /// Files, one for each source file, may have the debug information of inlined functions.
    PerSourceFile,
    /// A file that several programs share has it.
    Shared,
}

impl Elf {
    /// Reads the headers; `None` if it is not a file in this format.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(files::open(path).ok()?);
        Some(Self::of(&object::File::parse(&cache).ok()?))
    }

    /// Returns the facts about a file that is read already.
    pub(crate) fn of<'a, R: ReadRef<'a>>(file: &object::File<'a, R>) -> Self {
        let has = |name| file.section_by_name(name).is_some();
        let segment = |segment: object::Segment<'a, '_, R>| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        };
        Self {
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            has_table: has(".symtab"),
            has_mini_table: has(MINI_DEBUG),
            has_lines: has(".debug_line"),
            split_debug: if has(".gnu_debugaltlink") {
                SplitDebug::Shared
            } else if has(".debug_addr") {
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

    /// Reads the headers if the file is the one with this build-id.
    pub(crate) fn read_version(path: &Path, build_id: &[u8]) -> Option<Self> {
        Self::read(path).filter(|elf| elf.build_id.as_deref() == Some(build_id))
    }

    /// Returns whether there is a stub at an address, for which the symbol table has no name.
    pub(super) fn has_stub(&self, address: u64) -> bool {
        let inside = |(start, size): &(u64, u64)| address.wrapping_sub(*start) < *size;
        self.stubs.iter().any(inside)
    }

    /// Returns the address that the file gives to a place in it.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, size, address)| {
            let inside = offset.checked_sub(*start)?;
            (inside < *size).then(|| address.wrapping_add(inside))
        })
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of the functions in a sampled file, as they are in pmctl's [notes](super::Notes).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The symbols of a file that samples are in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SymbolTable {
    /// Name of the file, as in the records of mappings.
    pub(crate) file: String,
    /// Functions in the order of their addresses, without overlap.
    pub(crate) symbols: Vec<Symbol>,
    /// The file had no symbol table, so that only exported functions have names; or it is a map of JIT code of which only
    /// the end was read. Always false in recordings of earlier versions.
    #[serde(default)]
    pub(crate) partial: bool,
    /// The file was replaced after it was recorded, so that its symbols were not read.
    #[serde(default)]
    pub(crate) replaced: bool,
    /// Facts that tell the file from other files of its name, if it has no build-id. `None` in recordings of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) facts: Option<FileFacts>,
}

impl SymbolTable {
    /// Returns the function at an offset in the file.
    pub(crate) fn at(&self, offset: u64) -> Option<&Symbol> {
        let next_index = self
            .symbols
            .partition_point(|symbol| symbol.start <= offset);
        let symbol = self.symbols[..next_index].last()?;
        // In a damaged file the symbols may be in any order.
        let offset_in_symbol = offset.checked_sub(symbol.start)?;
        (offset_in_symbol < symbol.length).then_some(symbol)
    }
}

/// A function: its name, and its place in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Symbol {
    /// Offset in the file; for the kernel, the address.
    pub(crate) start: u64,
    /// The length in bytes.
    pub(crate) length: u64,
    pub(crate) name: String,
}

/// Facts that tell a file from other files of the same name. Writing to the file changes the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileFacts {
    pub(crate) inode: u64,
    size: u64,
    /// Time of the last change, in seconds and nanoseconds since 1970.
    modified: (i64, i64),
}

impl FileFacts {
    /// Returns the facts of a file; `None` if there is no such file.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self {
            inode: facts.ino(),
            size: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_in_the_function_that_begins_before_it() {
        let symbol = |start, name: &str| Symbol {
            start,
            length: 0x10,
            name: name.to_owned(),
        };
        let table = SymbolTable {
            file: "x".to_owned(),
            symbols: vec![symbol(0x100, "first"), symbol(0x120, "second")],
            ..SymbolTable::default()
        };
        let name = |offset| table.at(offset).map(|symbol| symbol.name.as_str());
        assert_eq!(name(0xff), None);
        assert_eq!(name(0x100), Some("first"));
        assert_eq!(name(0x10f), Some("first"));
        assert_eq!(name(0x110), None);
        assert_eq!(name(0x12f), Some("second"));
    }
}

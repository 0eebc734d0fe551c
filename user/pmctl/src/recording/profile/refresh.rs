// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds names that a recording lacks, from debug files that were installed after the recording was
//! made.

use std::path::Path;

use ahash::AHashSet;
use anyhow::Result;

use crate::recording::file_text::{path_of_text, text_of_path};
use crate::recording::perfdata::{Recording, SymbolTable};
use crate::recording::places::Places;
use crate::recording::symbols::{DebugFiles, LocatedFile};

/// Looks up again the functions of files that had no symbol table, if their debug files are
/// installed now. The records are read once more only if there is such a file.
pub(super) fn refresh(recording: &mut Recording, debug_files: &DebugFiles) -> Result<()> {
    let nameless_tables = recording.notes.symbols.iter().filter(|table| {
        let lacks_names = table.partial || table.symbols.is_empty() && !table.replaced;
        lacks_names && has_names(recording, table, debug_files)
    });
    let wanted_files: AHashSet<String> = nameless_tables.map(|table| table.file.clone()).collect();
    if wanted_files.is_empty() {
        return Ok(());
    }
    let mut places = Places::for_recording(recording);
    let mut reader = recording.records.reader();
    while let Some(record) = reader.next_record()? {
        places.note_record(record);
    }
    let is_wanted = |file: &Path| wanted_files.contains(&*text_of_path(file));
    for table in places.names(debug_files, is_wanted) {
        replace_table(&mut recording.notes.symbols, table);
    }
    Ok(())
}

/// Replaces the table of a file by the new table of this file.
fn replace_table(tables: &mut [SymbolTable], new: SymbolTable) {
    if let Some(old) = tables.iter_mut().find(|table| table.file == new.file) {
        *old = new;
    }
}

/// Returns whether the file that ran, or a copy of it, is on this machine with the names that a table lacks.
fn has_names(recording: &Recording, table: &SymbolTable, debug_files: &DebugFiles) -> bool {
    let path = &*path_of_text(&table.file);
    let located_file = debug_files.locate(path, recording.version(path));
    located_file.is_ok_and(|LocatedFile { path, elf }| {
        let has_table = elf.has_table && table.partial;
        has_table || !elf.has_table && debug_files.find(&path, &elf).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::{Body, BuildId, Map, Record, Records, Sample, Stamp, Task};
    use crate::recording::symbols::Elf;
    use crate::recording::symbols::testing::SplitProgram;

    /// Returns a recording with a sample in each function of a program, made without its debug file.
    fn recorded(split: &SplitProgram) -> Recording {
        let task = Task::leader(7);
        let start = 0x40_0000;
        let map = Body::Map(Map {
            task,
            start,
            length: 0x10_0000,
            file: split.program.clone(),
            ..Map::default()
        });
        let sample = |offset| {
            Body::Sample(Sample {
                ip: start + offset,
                ..Sample::default()
            })
        };
        let bodies = [map, sample(split.hidden), sample(split.shown)];
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        let records = bodies.map(|body| Record { stamp, body });
        let mut places = Places::default();
        records.iter().for_each(|record| places.note_record(record));
        let mut recording = Recording {
            records: Records::from(&records[..]),
            ..Recording::default()
        };
        recording.notes.symbols = places.names(&split.debug_files(), |_| true);
        let elf = Elf::read(&split.program).expect("it is well formed");
        recording.build_ids = vec![BuildId {
            file: split.program.clone(),
            is_kernel: false,
            id: elf.build_id.expect("it has one"),
        }];
        recording
    }

    fn names(recording: &Recording) -> Vec<&str> {
        let symbols = recording.notes.symbols.iter().flat_map(|t| &t.symbols);
        symbols.map(|symbol| &symbol.name[..]).collect()
    }

    #[test]
    fn a_debug_file_that_is_installed_later_gives_names() {
        let split_program = SplitProgram::new();
        let mut recording = recorded(&split_program);
        let debug_files = split_program.debug_files();
        refresh(&mut recording, &debug_files).expect("it is whole");
        assert_eq!(names(&recording), ["shown"]);
        split_program.put(&split_program.debug, "program.separate");
        refresh(&mut recording, &debug_files).expect("it is whole");
        assert_eq!(names(&recording), ["hidden", "shown"]);
        assert!(!recording.notes.symbols[0].partial);
    }

    #[test]
    fn a_program_that_was_replaced_gives_no_names() {
        let split_program = SplitProgram::new();
        let mut recording = recorded(&split_program);
        split_program.put(&split_program.debug, "program.separate");
        recording.build_ids[0].id[0] ^= 1;
        refresh(&mut recording, &split_program.debug_files()).expect("it is whole");
        assert_eq!(names(&recording), ["shown"]);
    }
}

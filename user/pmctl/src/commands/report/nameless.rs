// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warnings about files whose functions have no names in the report, with advice.

use std::io::{self, Write};
use std::path::Path;

use ahash::AHashMap;

use super::packages;
use super::values::percent_text;
use crate::recording::address_spaces::FileNumber;
use crate::recording::file_text::path_of_text;
use crate::recording::perfdata::{Recording, SymbolTable};
use crate::recording::profile::NamedSample;
use crate::recording::symbols::{Elf, jit};
use crate::system::screen::Colors;
use crate::system::text::printable;

/// The smallest share of all samples, in percent, for which a file is reported.
const MIN_PERCENT: u64 = 1;
/// The largest number of files that are reported.
const MAX_FILES: usize = 5;

/// Samples without the name of a function, by file.
#[derive(Debug, Default)]
pub(crate) struct NamelessSamples {
    /// Path and number of samples of each file.
    files: AHashMap<FileNumber, (String, u64)>,
    /// Number of all samples, with a name or without.
    samples: u64,
}

impl NamelessSamples {
    /// Adds a sample that stands for `samples` samples.
    pub(super) fn add_samples(&mut self, named: &NamedSample<'_>, samples: u64) {
        self.samples = self.samples.saturating_add(samples);
        if named.site.has_symbol() || named.sample.in_kernel() {
            return;
        }
        if let Some(file) = named.site.file_number() {
            let entry = self.files.entry(file);
            let (_, count) = entry.or_insert_with(|| (named.site.path().into_owned(), 0));
            *count = count.saturating_add(samples);
        }
    }

    /// Prints the files with many samples without a name, and advice.
    pub(super) fn write_warnings(
        &self,
        recording: &Recording,
        colors: Colors,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let is_large =
            |samples: u64| samples.saturating_mul(100) >= self.samples.saturating_mul(MIN_PERCENT);
        let files = self.files.values();
        let mut files: Vec<&(String, u64)> = files
            .filter(|(path, samples)| is_large(*samples) && lacks_names(recording, path))
            .collect();
        files.sort_by(|(a_path, a), (b_path, b)| b.cmp(a).then_with(|| a_path.cmp(b_path)));
        let is_generated = |path: &str| jit::process_of(Path::new(path)).is_some();
        let (generated, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(path, _)| is_generated(path));
        let is_absent = |path: &str| recording.is_from_perf && !path_of_text(path).exists();
        let (absent, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(path, _)| is_absent(path));
        let mark = colors.warning;
        if !absent.is_empty() {
            writeln!(
                output,
                "{mark}NO SYMBOLS{mark:#}: {}: not found on this machine, and perf.data has no function names.\n  \
                 Read it on the machine where it was recorded. `pmctl export --to perf-data` there makes\n  \
                 a recording with the names.",
                self.file_list(&absent)
            )?;
        }
        if !files.is_empty() {
            writeln!(
                output,
                "{mark}NO SYMBOLS{mark:#}: {}: without a symbol table, functions are [unknown].",
                self.file_list(&files)
            )?;
            write_advice(recording, &files, output)?;
        }
        if !generated.is_empty() {
            writeln!(
                output,
                "{mark}NO SYMBOLS{mark:#}: code that was compiled at run time (JIT), without its names in {}.\n  \
                 Many programs write this file on request: node --perf-basic-prof,\n  \
                 python3 -X perf, java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit.",
                self.file_list(&generated)
            )?;
        }
        Ok(())
    }

    /// Returns a text with the first [`MAX_FILES`] of these files, and their shares of all samples.
    fn file_list(&self, files: &[&(String, u64)]) -> String {
        let names = files.iter().take(MAX_FILES).map(|(path, samples)| {
            format!(
                "{} ({})",
                printable(path),
                percent_text(*samples, self.samples)
            )
        });
        let names: Vec<String> = names.collect();
        let hidden_files = match files.len().saturating_sub(MAX_FILES) {
            0 => String::new(),
            hidden_files => format!(" and {hidden_files} more"),
        };
        names.join(", ") + &hidden_files
    }
}

/// Prints how to get debug symbols for these files.
fn write_advice(
    recording: &Recording,
    files: &[&(String, u64)],
    output: &mut impl Write,
) -> io::Result<()> {
    let paths = files
        .iter()
        .take(MAX_FILES)
        .map(|(path, _)| path_of_text(path));
    let paths: Vec<_> = paths
        .filter(|path| {
            let id = recording.build_id(path);
            id.is_some_and(|id| Elf::read_version(path, id).is_some())
        })
        .collect();
    let paths: Vec<&Path> = paths.iter().map(|path| &**path).collect();
    let install = packages::install_command(&paths);
    let install = install.map_or(String::new(), |command| format!(" (`{command}`)"));
    let later = match &paths[..] {
        [] => "",
        _ => "\n  This recording gets the names then, too.",
    };
    writeln!(
        output,
        "  Install their debug symbols{install}, or fetch them\n  \
         (`debuginfod-find debuginfo FILE`), or build with -g and don't strip.{later}"
    )
}

/// Returns whether this is a file that had no symbol table.
fn lacks_names(recording: &Recording, path: &str) -> bool {
    let mut tables = recording.notes.symbols.iter();
    let table = tables.find(|table| table.file == path);
    let has_none = |table: &SymbolTable| table.partial || table.symbols.is_empty();
    path.starts_with('/') && table.is_none_or(|table| !table.replaced && has_none(table))
}

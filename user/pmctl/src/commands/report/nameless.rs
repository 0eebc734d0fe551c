// SPDX-License-Identifier: MIT OR Apache-2.0
//! Warnings about files whose functions have no names in the report, with advice.

use std::cmp::Ordering;
use std::io::{self, Write};
use std::path::Path;

use ahash::AHashMap;

use super::packages;
use super::values::percent_text;
use crate::recording::address_spaces::FileNumber;
use crate::recording::file_text::path_of_text;
use crate::recording::perfdata::{Recording, Sample, SymbolTable};
use crate::recording::profile::NamedSample;
use crate::recording::symbols::{Elf, jit, path_on_this_machine};
use crate::system::screen::Colors;
use crate::system::text::printable;

/// The smallest share of the events, in percent, for which a file is reported.
const MIN_PERCENT: u64 = 1;
/// The largest number of files that are reported.
const MAX_FILES: usize = 5;

/// Samples without the name of a function, by file.
#[derive(Debug, Default)]
pub(crate) struct NamelessSamples {
    /// Path of each file, and the sums of its samples' periods.
    files: Vec<(String, PeriodSums)>,
    /// The index of each file in `files`.
    index_of_file: AHashMap<FileNumber, usize>,
    /// The sums over all samples, with a name or without.
    all: PeriodSums,
}

/// Sums of the periods of samples, by the index of their event.
#[derive(Clone, Debug, Default)]
struct PeriodSums(Vec<u64>);

impl PeriodSums {
    fn add(&mut self, event: usize, period: u64) {
        if self.0.len() <= event {
            self.0.resize(event + 1, 0);
        }
        self.0[event] = self.0[event].saturating_add(period);
    }

    /// Returns the largest of the events' shares: the sum of an event divided by the sum of the
    /// same event in `all`.
    fn largest_share(&self, all: &Self) -> Share {
        let sums = self.0.iter().zip(&all.0);
        let shares = sums.map(|(part, whole)| Share {
            part: *part,
            whole: *whole,
        });
        shares.max().unwrap_or_default()
    }
}

/// A part of a sum. A larger fraction is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    part: u64,
    whole: u64,
}

impl Share {
    fn is_large(self) -> bool {
        let minimum = u128::from(self.whole) * u128::from(MIN_PERCENT);
        self.part > 0 && u128::from(self.part) * 100 >= minimum
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        let cross = |part: u64, whole: u64| u128::from(part) * u128::from(whole.max(1));
        cross(self.part, other.whole).cmp(&cross(other.part, self.whole))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl NamelessSamples {
    /// Returns the index of the file that lacks the name of a sample's function; `None` if the name
    /// is known.
    pub(super) fn index(&mut self, named: &NamedSample<'_>) -> Option<usize> {
        if named.site.has_symbol() || named.sample.in_kernel() {
            return None;
        }
        let file = named.site.file_number()?;
        Some(*self.index_of_file.entry(file).or_insert_with(|| {
            let path = named.site.path().into_owned();
            self.files.push((path, PeriodSums::default()));
            self.files.len() - 1
        }))
    }

    /// Adds a sample, whose file has this [`index`](Self::index).
    pub(super) fn add_sample(&mut self, file: Option<usize>, sample: &Sample) {
        self.all.add(sample.event, sample.period);
        if let Some(file) = file {
            self.files[file].1.add(sample.event, sample.period);
        }
    }

    /// Prints the files with many samples without a name, and advice.
    pub(super) fn write_warnings(
        &self,
        recording: &Recording,
        colors: Colors,
        output: &mut impl Write,
    ) -> io::Result<()> {
        let files = self.files.iter();
        let mut files: Vec<(&str, Share)> = files
            .map(|(path, sums)| (&path[..], sums.largest_share(&self.all)))
            .filter(|(path, share)| share.is_large() && lacks_names(recording, path))
            .collect();
        files.sort_by(|(a_path, a), (b_path, b)| b.cmp(a).then_with(|| a_path.cmp(b_path)));
        let is_generated = |path: &str| jit::process_of(Path::new(path)).is_some();
        let (generated, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(path, _)| is_generated(path));
        let is_absent = |name: &str| {
            recording.is_from_perf && !path_on_this_machine(&path_of_text(name)).exists()
        };
        let (absent, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(path, _)| is_absent(path));
        let mark = colors.warning;
        if !absent.is_empty() {
            writeln!(
                output,
                "{mark}NO SYMBOLS{mark:#}: {}: not found on this machine, and perf.data has no function names.\n  \
                 Read it on the machine where it was recorded. `pmctl export --to perf-data` there makes\n  \
                 a recording with the names.",
                file_list(&absent)
            )?;
        }
        if !files.is_empty() {
            writeln!(
                output,
                "{mark}NO SYMBOLS{mark:#}: {}: without a symbol table, functions are [unknown].",
                file_list(&files)
            )?;
            write_advice(recording, &files, output)?;
        }
        if !generated.is_empty() {
            writeln!(
                output,
                "{mark}NO SYMBOLS{mark:#}: code that was compiled at run time (JIT), without its names in {}.\n  \
                 Many programs write this file on request: node --perf-basic-prof,\n  \
                 python3 -X perf, java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit.",
                file_list(&generated)
            )?;
            if generated.iter().any(|(path, _)| is_cut(recording, path)) {
                writeln!(
                    output,
                    "  The file is larger than 64 MB: pmctl reads the last 64 MB."
                )?;
            }
        }
        Ok(())
    }
}

/// Returns a text with the first [`MAX_FILES`] of these files, and their shares.
fn file_list(files: &[(&str, Share)]) -> String {
    let names = files.iter().take(MAX_FILES).map(|(path, share)| {
        let percent = percent_text(share.part, share.whole);
        format!("{} ({percent})", printable(path))
    });
    let names: Vec<String> = names.collect();
    let hidden_files = match files.len().saturating_sub(MAX_FILES) {
        0 => String::new(),
        hidden_files => format!(" and {hidden_files} more"),
    };
    names.join(", ") + &hidden_files
}

/// Prints how to get debug symbols for these files.
fn write_advice(
    recording: &Recording,
    files: &[(&str, Share)],
    output: &mut impl Write,
) -> io::Result<()> {
    let names = files.iter().take(MAX_FILES);
    let names: Vec<_> = names.map(|(name, _)| path_of_text(name)).collect();
    let paths: Vec<&Path> = names
        .iter()
        .filter_map(|name| path_of_recorded(recording, name))
        .collect();
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

/// Returns the path of the file with this name, if the recorded version of the file is on this
/// machine.
fn path_of_recorded<'a>(recording: &Recording, name: &'a Path) -> Option<&'a Path> {
    let path = path_on_this_machine(name);
    Elf::read_version(path, recording.build_id(name)?)?;
    Some(path)
}

fn table_of<'a>(recording: &'a Recording, path: &str) -> Option<&'a SymbolTable> {
    let mut tables = recording.notes.symbols.iter();
    tables.find(|table| table.file == path)
}

/// Returns whether only a part of this file's names was read.
fn is_cut(recording: &Recording, path: &str) -> bool {
    table_of(recording, path).is_some_and(|table| table.partial)
}

/// Returns whether this is a file that had no symbol table.
fn lacks_names(recording: &Recording, path: &str) -> bool {
    let table = table_of(recording, path);
    let has_none = |table: &SymbolTable| table.partial || table.symbols.is_empty();
    path.starts_with('/') && table.is_none_or(|table| !table.replaced && has_none(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::BuildId;

    #[test]
    fn packages_are_found_by_the_path_of_a_later_file() {
        let program = std::env::current_exe().expect("this program has a path");
        let mut name = program.clone().into_os_string();
        name.push(" (inode 12 of 8:1)");
        let elf = Elf::read(&program).expect("it is well formed");
        let recording = Recording {
            build_ids: vec![BuildId {
                file: name.clone().into(),
                is_kernel: false,
                id: elf.build_id.expect("it has one"),
            }],
            ..Recording::default()
        };
        let path = path_of_recorded(&recording, Path::new(&name));
        assert_eq!(path, Some(&*program));
        assert_eq!(path_of_recorded(&recording, &program), None);
    }

    #[test]
    fn shares_are_of_the_periods_of_an_event() {
        let (mut file, mut all) = (PeriodSums::default(), PeriodSums::default());
        for (event, period, is_nameless) in [(0, 900, false), (0, 100, true), (2, 1, false)] {
            all.add(event, period);
            if is_nameless {
                file.add(event, period);
            }
        }
        let share = file.largest_share(&all);
        assert_eq!((share.part, share.whole), (100, 1000));
        assert_eq!(file_list(&[("/a", share)]), "/a (10.00%)");
        // The largest share of an event counts.
        file.add(2, 1);
        all.add(2, 1);
        let share = file.largest_share(&all);
        assert_eq!((share.part, share.whole), (1, 2));
        assert!(share.is_large() && !Share::default().is_large());
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pairs of programs that have different names in two recordings. The programs of a pair are compared as one row, since
//! a program is often compared with its next version.

use std::path::Path;

use ahash::{AHashMap, AHashSet};

use crate::recording::perfdata::Recording;
use crate::system::text::printable;

/// The largest number of bytes of a task's name.
const MAX_COMM_LENGTH: usize = 15;

/// Programs of a recording that have another name in the first recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    /// Pairs of a name in this recording and the name in the first recording.
    names: Vec<(String, String)>,
    /// Unpaired names: the names that only the first recording has, and the names that only this
    /// recording has.
    unpaired: (Vec<String>, Vec<String>),
}

impl Pairs {
    /// Pairs the programs of two recordings: programs with the most functions in common, or else the main programs of
    /// both recordings.
    pub(super) fn find(first: &Recording, other: &Recording) -> Self {
        let (first_files, other_files) = (files(first), files(other));
        let first_names = names_only_in(&first_files, &other_files);
        let other_names = names_only_in(&other_files, &first_files);
        let commands = (recorded_program(first), recorded_program(other));
        let combinations = first_names
            .iter()
            .flat_map(|a| other_names.iter().map(move |b| (*a, *b)));
        let with_rank = |(a, b): (_, _)| {
            let functions = first_files[a].intersection(&other_files[b]).count();
            let are_commands = commands == (Some(a), Some(b));
            ((functions, are_commands), (a, b))
        };
        let mut candidates: Vec<_> = combinations
            .map(with_rank)
            .filter(|(rank, _)| *rank > (0, false))
            .collect();
        candidates.sort_unstable_by(|one, two| two.0.cmp(&one.0).then_with(|| one.1.cmp(&two.1)));
        let (mut paired_first, mut paired_other) = (AHashSet::new(), AHashSet::new());
        let mut names = Vec::new();
        for (_, (a, b)) in candidates {
            if !paired_first.contains(a) && !paired_other.contains(b) {
                paired_first.insert(a);
                paired_other.insert(b);
                names.push((b.to_owned(), a.to_owned()));
            }
        }
        let unpaired = |names: &[&str], paired: &AHashSet<&str>| {
            let names = names.iter().filter(|name| !paired.contains(*name));
            names.map(|name| (*name).to_owned()).collect()
        };
        Self {
            names,
            unpaired: (
                unpaired(&first_names, &paired_first),
                unpaired(&other_names, &paired_other),
            ),
        }
    }

    /// Returns the name that the file has in the first recording.
    pub(super) fn first_file<'a>(&'a self, name: &'a str) -> &'a str {
        let mut names = self.names.iter();
        let pair = names.find(|(other_name, _)| other_name == name);
        pair.map_or(name, |(_, first_name)| first_name)
    }

    /// Returns the name that a task has in the first recording. If a paired program has this name, returns the name of
    /// the program that it is paired with.
    pub(super) fn first_comm<'a>(&'a self, name: &'a str) -> &'a str {
        let mut names = self.names.iter();
        let pair = names.find(|(other_name, _)| truncated_comm(other_name) == name);
        pair.map_or(name, |(_, first_name)| truncated_comm(first_name))
    }

    /// Returns lines that say which programs are compared. `first` and `other` are the names of the recordings.
    pub(super) fn in_words(&self, first: &str, other: &str) -> Vec<String> {
        let pairs = self.names.iter().map(|(other_name, first_name)| {
            let (other_name, first_name) = (printable(other_name), printable(first_name));
            format!("`{other_name}` of {other} is compared with `{first_name}` of {first}.")
        });
        let (first_names, other_names) = &self.unpaired;
        let unpaired_text = (!first_names.is_empty() && !other_names.is_empty()).then(|| {
            let list = |names: &[String]| printable(&names.join("`, `"));
            format!(
                "`{}` is in {first} only, and `{}` in {other} only: `--sort symbol` compares functions, whatever their \
                 program.",
                list(first_names),
                list(other_names)
            )
        });
        pairs.chain(unpaired_text).collect()
    }
}

/// Returns the names of `files` that `others` lacks, sorted.
fn names_only_in<'a>(
    files: &'a AHashMap<String, AHashSet<&str>>,
    others: &AHashMap<String, AHashSet<&str>>,
) -> Vec<&'a str> {
    let names = files.keys().filter(|name| !others.contains_key(*name));
    let mut names: Vec<&str> = names.map(|name| &name[..]).collect();
    names.sort_unstable();
    names
}

/// Returns the programs and libraries with samples, by their names without the folder, and their functions.
fn files(recording: &Recording) -> AHashMap<String, AHashSet<&str>> {
    let mut files: AHashMap<String, AHashSet<&str>> = AHashMap::new();
    for table in &recording.notes.symbols {
        let path = Path::new(&table.file);
        let Some(name) = path.file_name().filter(|_| path.is_absolute()) else {
            continue;
        };
        // The name of JIT code has the PID, which differs in each recording.
        if crate::recording::symbols::jit::process_of(path).is_some() {
            continue;
        }
        let names = table.symbols.iter().map(|symbol| &symbol.name[..]);
        let file = files.entry(name.to_string_lossy().into_owned());
        file.or_default().extend(names);
    }
    files
}

/// Returns the name of the program that a recording is of.
fn recorded_program(recording: &Recording) -> Option<&str> {
    let word = recording.notes.scope.split_whitespace().next()?;
    Path::new(word).file_name()?.to_str()
}

/// Returns the name that the kernel gives to a task of the program `name`: it keeps the first 15 bytes.
fn truncated_comm(name: &str) -> &str {
    let mut length = MAX_COMM_LENGTH.min(name.len());
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    &name[..length]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata::{Symbol, SymbolTable};

    fn recording(scope: &str, files: &[(&str, &[&str])]) -> Recording {
        let table = |(file, names): &(&str, &[&str])| SymbolTable {
            file: (*file).to_owned(),
            symbols: names
                .iter()
                .map(|name| Symbol {
                    name: (*name).to_owned(),
                    ..Symbol::default()
                })
                .collect(),
            ..SymbolTable::default()
        };
        let mut recording = Recording::default();
        recording.notes.scope = scope.to_owned();
        recording.notes.symbols = files.iter().map(table).collect();
        recording
    }

    #[test]
    fn two_versions_of_a_program_are_one() {
        let libc: (&str, &[&str]) = ("/lib/libc.so.6", &["memcpy"]);
        let first = recording("./old", &[("/x/old", &["main", "sort"]), libc]);
        let other = recording("./new 1", &[("/x/new", &["main", "sort2"]), libc]);
        let pairs = Pairs::find(&first, &other);
        assert_eq!(
            (pairs.first_file("new"), pairs.first_file("libc.so.6")),
            ("old", "libc.so.6")
        );
        assert_eq!(
            (pairs.first_comm("new"), pairs.first_comm("sh")),
            ("old", "sh")
        );
        let words = ["`new` of B is compared with `old` of A."];
        assert_eq!(pairs.in_words("A", "B"), words);
    }

    #[test]
    fn programs_with_the_most_common_functions_are_paired_first() {
        let first = recording("", &[("/a1", &["f", "g", "h"]), ("/a2", &["f", "g"])]);
        let other = recording(
            "",
            &[("/b1", &["f"]), ("/b2", &["f", "g"]), ("/b3", &["i"])],
        );
        let pairs = Pairs::find(&first, &other);
        let names = [("b2", "a1"), ("b1", "a2")].map(|(b, a)| (b.to_owned(), a.to_owned()));
        assert_eq!(pairs.names, names);
        assert_eq!(pairs.unpaired, (vec![], vec!["b3".to_owned()]));
    }

    #[test]
    fn hundreds_of_programs_are_paired() {
        const PROGRAMS: usize = 500;
        let names = |prefix| (0..PROGRAMS).map(move |number| format!("/{prefix}{number:03}"));
        let (first_names, other_names): (Vec<String>, Vec<String>) =
            names("a").zip(names("b")).unzip();
        let of_names = |names: &[String]| {
            let files: Vec<(&str, &[&str])> = names
                .iter()
                .map(|name| (&name[..], &["main"][..]))
                .collect();
            recording("", &files)
        };
        let pairs = Pairs::find(&of_names(&first_names), &of_names(&other_names));
        assert_eq!(pairs.names.len(), PROGRAMS);
        assert_eq!(pairs.first_file("b007"), "a007");
    }

    #[test]
    fn programs_without_names_are_a_pair_if_they_are_the_commands() {
        let first = recording("./old", &[("/x/old", &[])]);
        let other = recording("./new", &[("/x/new", &[])]);
        assert_eq!(Pairs::find(&first, &other).first_file("new"), "old");
        let other = recording("sh -c ./new", &[("/x/new", &[])]);
        let pairs = Pairs::find(&first, &other);
        assert_eq!(pairs.first_file("new"), "new");
        let words = pairs.in_words("A", "B");
        assert!(words[0].contains("--sort symbol"), "{words:?}");
    }

    #[test]
    fn the_same_programs_need_no_pairs() {
        let same_recording = recording("./x", &[("/x/x", &["main"]), ("/x/y", &["main"])]);
        let pairs = Pairs::find(&same_recording, &same_recording);
        assert_eq!(pairs, Pairs::default());
        assert_eq!(pairs.in_words("A", "B"), [""; 0]);
        let with_one = recording("./x", &[("/x/x", &["main"])]);
        assert_eq!(
            Pairs::find(&same_recording, &with_one).in_words("A", "B"),
            [""; 0]
        );
    }

    #[test]
    fn long_names_are_cut_as_the_kernel_does_it() {
        let first = recording("", &[("/x/a_program_with_a_name", &["main"])]);
        let other = recording("", &[("/x/another_program_of_it", &["main"])]);
        let pairs = Pairs::find(&first, &other);
        assert_eq!(pairs.first_comm("another_program"), "a_program_with_");
    }
}

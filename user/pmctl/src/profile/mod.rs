// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `script`, `report` and `flamegraph` have in common: a recording, and for each sample what it means.

mod spaces;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) use spaces::{KERNEL, Spaces, UNKNOWN};

use crate::perfdata::{self, Body, Branch, Recording, Sample, Stamp, Symbol, SymbolTable};

/// The recording in a file.
///
/// # Errors
/// In words, with the file's name.
pub(crate) fn open(path: &Path) -> Result<Recording> {
    let bytes = fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    perfdata::read(&bytes).with_context(|| path.display().to_string())
}

/// A sample with its names.
#[derive(Clone, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) stamp: &'a Stamp,
    pub(crate) sample: &'a Sample,
    /// The task's name.
    pub(crate) comm: String,
    /// Where the CPU was.
    pub(crate) site: Site<'a>,
}

/// The names of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Site<'a> {
    /// The file; `None` if there is none at this address.
    pub(crate) file: Option<PathBuf>,
    /// The function; `None` if it is not known.
    pub(crate) symbol: Option<&'a str>,
    /// How far the address is behind the function's beginning.
    pub(crate) offset: u64,
}

impl Site<'_> {
    /// The function, or what stands for one that is not known.
    pub(crate) fn symbol(&self) -> &str {
        self.symbol.unwrap_or(UNKNOWN)
    }

    /// The file, or what stands for none.
    pub(crate) fn file(&self) -> String {
        let file = self.file.as_deref();
        file.map_or_else(|| UNKNOWN.to_owned(), |file| file.display().to_string())
    }

    /// The file without its folder.
    pub(crate) fn dso(&self) -> String {
        let file = self.file.as_deref();
        let name = file.map(|file| file.file_name().unwrap_or(file.as_os_str()));
        name.map_or_else(
            || UNKNOWN.to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    }
}

/// The symbols of a recording.
pub(crate) struct Names<'a> {
    tables: HashMap<&'a str, &'a SymbolTable>,
    spaces: Spaces,
}

impl<'a> Names<'a> {
    /// Before the first record.
    fn new(recording: &'a Recording) -> Self {
        let tables = &recording.notes.symbols;
        Self {
            tables: tables.iter().map(|t| (t.file.as_str(), t)).collect(),
            spaces: Spaces::default(),
        }
    }

    /// The names of an address, for a process.
    pub(crate) fn site(&self, pid: u32, address: u64) -> Site<'a> {
        let Some(place) = self.spaces.find(pid, address) else {
            return Site::default();
        };
        let table = self.tables.get(&*place.file.to_string_lossy());
        let symbol: Option<&'a Symbol> = table.and_then(|table| table.at(place.offset));
        Site {
            file: Some(place.file.to_owned()),
            symbol: symbol.map(|symbol| symbol.name.as_str()),
            offset: symbol.map_or(place.offset, |symbol| place.offset - symbol.start),
        }
    }

    /// The names of both ends of a branch.
    pub(crate) fn ends(&self, pid: u32, branch: &Branch) -> (Site<'a>, Site<'a>) {
        (self.site(pid, branch.from), self.site(pid, branch.to))
    }
}

/// The number of a process or a thread; -1 if it is not known, as perf has it.
pub(crate) fn number(number: u32) -> String {
    match number {
        u32::MAX => "-1".to_owned(),
        known => known.to_string(),
    }
}

/// Goes through the samples, with the names as of the time of each.
pub(crate) fn each_sample<'a>(
    recording: &'a Recording,
    mut take: impl FnMut(&Named<'a>, &Names<'a>) -> Result<()>,
) -> Result<()> {
    let mut names = Names::new(recording);
    for record in &recording.records {
        let Body::Sample(sample) = &record.body else {
            names.spaces.apply(record);
            continue;
        };
        let task = record.stamp.task;
        let named = Named {
            stamp: &record.stamp,
            sample,
            comm: names.spaces.name(task).to_owned(),
            site: names.site(task.pid, sample.ip),
        };
        take(&named, &names)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Recordings of the tests of the command line.
    const RECORDINGS: [&[u8]; 2] = [
        include_bytes!("../../tests/recordings/branches.data"),
        include_bytes!("../../tests/recordings/timebase.data"),
    ];

    #[test]
    fn samples_have_names() {
        let recording = perfdata::read(RECORDINGS[1]).expect("it is whole");
        let mut symbols = Vec::new();
        each_sample(&recording, |named, _| {
            if named.comm == "pmctl_shares" {
                assert_eq!(
                    named.site.dso() == "pmctl_shares",
                    !named.sample.in_kernel()
                );
                symbols.push(named.site.symbol().to_owned());
            }
            Ok(())
        })
        .expect("nothing fails");
        assert!(
            symbols.iter().any(|symbol| symbol == "share_60"),
            "{symbols:?}"
        );
    }

    proptest! {
        #[test]
        fn any_damage_is_survived(
            which in 0..RECORDINGS.len(),
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        ) {
            let mut bytes = RECORDINGS[which].to_vec();
            for (place, value) in places {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Ok(recording) = perfdata::read(&bytes) {
                let walked = each_sample(&recording, |named, names| {
                    for branch in &named.sample.branches {
                        names.ends(named.stamp.task.pid, branch);
                    }
                    Ok(())
                });
                prop_assert!(walked.is_ok());
            }
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The numbers of a suite from file to file.

use std::path::PathBuf;

use perfmon_compare::document::BenchDocument;
use perfmon_compare::figures::mean;

/// The files of a suite, the oldest first; at least one.
pub(super) struct History {
    files: Vec<PathBuf>,
    documents: Vec<BenchDocument>,
}

/// The means of an event of one benchmark, file by file.
#[derive(Debug, PartialEq)]
pub(super) struct Series<'a> {
    /// The name of the benchmark.
    pub(super) benchmark: &'a str,
    /// The mean in each file; `None` for a file without the benchmark or the event.
    pub(super) means: Vec<Option<f64>>,
}

impl History {
    /// Creates a history of `files`, whose contents are `documents`.
    pub(super) fn new(files: &[PathBuf], documents: Vec<BenchDocument>) -> Self {
        assert!(!documents.is_empty() && files.len() == documents.len());
        Self {
            files: files.to_vec(),
            documents,
        }
    }

    /// Returns the newest document.
    pub(super) fn last(&self) -> &BenchDocument {
        &self.documents[self.documents.len() - 1]
    }

    /// Returns the path of the newest file.
    pub(super) fn last_file(&self) -> &str {
        self.files[self.files.len() - 1].to_str().unwrap_or("?")
    }

    /// Returns the names of the files, without folders and `.json`, for axes and headings.
    pub(super) fn labels(&self) -> Vec<String> {
        let stem = |file: &PathBuf| {
            let stem = file.file_stem().unwrap_or(file.as_os_str());
            stem.to_string_lossy().into_owned()
        };
        self.files.iter().map(stem).collect()
    }

    /// Returns the name of the first event other than the time; the name of the time if there is no
    /// other event.
    pub(super) fn first_count(&self) -> &str {
        let last = self.last();
        let indices = 0..last.events.len();
        let count = indices.into_iter().find(|index| !last.is_time(*index));
        &last.events[count.unwrap_or(0)]
    }

    /// Returns the series of an event for each benchmark, in the order of the newest file.
    pub(super) fn series(&self, event: &str) -> Vec<Series<'_>> {
        let commands = self.last().commands.iter();
        let series = |benchmark| {
            let documents = self.documents.iter();
            let means = documents.map(|document| mean_in(document, benchmark, event));
            Series {
                benchmark,
                means: means.collect(),
            }
        };
        commands.map(|entry| series(&entry.command[..])).collect()
    }
}

impl Series<'_> {
    /// Returns the change of each mean from the first one, in percent; `None` where a mean is missing, or if the first one
    /// is 0.
    pub(super) fn changes(&self) -> Vec<Option<f64>> {
        let first = self.means.iter().flatten().next().copied();
        let first = first.filter(|first| *first > 0.0);
        let change = |mean: &Option<f64>| Some(100.0 * ((*mean)? / first? - 1.0));
        self.means.iter().map(change).collect()
    }
}

/// Returns the mean of an event of a benchmark; `None` if the document lacks the benchmark or the event.
fn mean_in(document: &BenchDocument, benchmark: &str, event: &str) -> Option<f64> {
    let mut commands = document.commands.iter();
    let entry = commands.find(|entry| entry.command == benchmark)?;
    Some(mean(&entry.values[document.index(event)?]))
}

#[cfg(test)]
mod tests {
    use perfmon_compare::testing;

    use super::*;

    #[test]
    fn a_series_has_a_gap_where_a_file_lacks_the_benchmark() {
        let mut old = testing::document();
        old.commands.truncate(1);
        let mut new = testing::document();
        new.commands[0].values[1] = vec![1010];
        let files = ["a/v1.json", "a/v2.json", "v3"].map(PathBuf::from);
        let history = History::new(&files, vec![old, testing::document(), new]);
        assert_eq!(history.labels(), ["v1", "v2", "v3"]);
        assert_eq!(history.first_count(), "instructions:u");
        let series = history.series("instructions:u");
        assert_eq!(series[0].means, [Some(1000.0), Some(1000.0), Some(1010.0)]);
        assert_eq!(series[1].means, [None, Some(1020.0), Some(1020.0)]);
        let last_change = series[0].changes()[2].expect("the first one is not 0");
        assert!((last_change - 1.0).abs() < 1e-9, "{last_change}");
        assert_eq!(series[1].changes(), [None, Some(0.0), Some(0.0)]);
    }

    #[test]
    fn there_is_no_change_from_zero() {
        let series = Series {
            benchmark: "a",
            means: vec![Some(0.0), Some(1.0)],
        };
        assert_eq!(series.changes(), [None, None]);
    }
}

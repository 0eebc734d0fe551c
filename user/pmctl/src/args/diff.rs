// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pmctl diff`.

use std::path::PathBuf;

use clap::Args;
use perfmon_compare::condition::Condition;

use super::{DEFAULT_FILE, Key, SortWord};

const DIFF_HELP: &str = "\
Without FILE, perf.data.old (the recording before the last one) is compared with perf.data; with one FILE, that file is.

Each row has its part of the event count in each recording, and how much larger it is than in the first, in percent of \
the whole. p is the probability of a difference at least this large between recordings of the same program. With a fixed \
period (-c) the counts are tested, so a row whose count did not change has no significant difference, even if other rows \
changed. With -F, or if samples were lost, the shares are tested (Fisher's exact test of the samples in the row and outside \
of it). A difference is marked with * if it is significant at the level \
of 5% for the table as a whole (Holm's correction). Rows with such a difference come first, the largest first. \
The test accounts only for the chance of sampling: a program that behaves differently in each run also has significant \
differences.

If both recordings have each instruction, as those of `pmctl vm -- record -c 1`, the counts are exact, and only rows that differ \
are shown, with the difference. --fail-if is for such recordings; CONDITION is EVENT>LIMIT or FUNCTION>LIMIT, as for \
`pmctl bench`.

Programs that only one of two recordings has are compared with each other if they have functions of the same names, or \
are the commands that were recorded; a line says so. So are events whose names differ only in the modifiers of precise \
samples, as `cycles` and `cycles:P`; -e takes either name.

Examples:
  pmctl record -- ./old; pmctl record -- ./new; pmctl diff
  pmctl diff --sort symbol before.data after.data
  pmctl diff --fail-if 'instructions:uP>+0.1%' before.data after.data
  pmctl diff --json before.data after.data | jq '.[0].rows[0]'";

/// Options of `pmctl diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_HELP)]
pub(crate) struct Diff {
    /// Recordings: the first is what the others are compared with
    #[arg(value_name = "FILE", num_args = 0..=3)]
    pub(crate) files: Vec<PathBuf>,

    /// Group samples by these keys, separated by commas, as `pmctl report` does
    #[arg(
        short,
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        default_value = "dso,symbol",
        hide_possible_values = true
    )]
    sort: Vec<SortWord>,

    /// Compare this event only
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,

    /// Show the first N rows of each table
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,

    /// Print JSON: an array with an object for each event
    #[arg(short, long)]
    pub(crate) json: bool,

    /// Exit with 1 if this holds; may be given several times
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Condition>,

    /// Don't use a pager ($PAGER or less) on a terminal
    #[arg(long)]
    pub(crate) no_pager: bool,
}

impl Diff {
    /// Returns the keys by which samples are grouped.
    pub(crate) fn keys(&self) -> Vec<Key> {
        SortWord::keys(&self.sort, &[Key::Dso, Key::Symbol])
    }

    /// Returns the files. The first one is the baseline of the others.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let default_file = PathBuf::from(DEFAULT_FILE);
        match &self.files[..] {
            [] => vec![format!("{DEFAULT_FILE}.old").into(), default_file],
            [one] => vec![one.clone(), default_file],
            several => several.to_vec(),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pmctl export`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::viewing::Input;
use crate::system::text::quoted;

const EXPORT_HELP: &str = "\
Formats, their usual files, and what opens them:
  firefox     firefox.json     https://profiler.firefox.com, samply load
  pprof       pprof.pb.gz      pprof -http=: (all events), Parca, Pyroscope
  chrome      trace.json       https://ui.perfetto.dev, chrome://tracing
  speedscope  speedscope.json  https://www.speedscope.app
  collapsed   collapsed.txt    flamegraph.pl, inferno-flamegraph, speedscope
  perf-data   exported.data    perf report, hotspot, samply import

Functions, inlined functions and source lines are in the file; nothing is looked up or sent when it is opened.

Counts of other events (`pmctl record --timebase EVENT --count EVENTS`) are tracks in firefox and chrome, profiles of \
their own in speedscope, and values of each sample in pprof.

Examples:
  pmctl record -g -- make; pmctl export --to firefox
  pmctl export --to pprof -i make.data -o make.pb.gz
  pmctl export --to collapsed -o - | inferno-flamegraph >make.svg";

/// Options of `pmctl export`.
#[derive(Debug, Args)]
#[command(after_help = EXPORT_HELP)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) input: Input,

    /// Write this format
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Format,

    /// Write to FILE instead of the usual one; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Export the stacks of this event [default: the first; in pprof and speedscope all]
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,

    /// Leave out inlined functions and source lines, which are read from debug information
    #[arg(long)]
    pub(crate) no_inline: bool,
}

impl Export {
    /// Returns the path of the output.
    pub(crate) fn path(&self) -> &Path {
        let default_file = Path::new(self.to.default_file());
        self.output.as_deref().unwrap_or(default_file)
    }
}

/// A file format of another viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Firefox,
    Pprof,
    #[value(alias = "perfetto")]
    Chrome,
    Speedscope,
    #[value(alias = "folded")]
    Collapsed,
    PerfData,
}

impl Format {
    const fn default_file(self) -> &'static str {
        match self {
            Self::Firefox => "firefox.json",
            Self::Pprof => "pprof.pb.gz",
            Self::Chrome => "trace.json",
            Self::Speedscope => "speedscope.json",
            Self::Collapsed => "collapsed.txt",
            Self::PerfData => "exported.data",
        }
    }

    /// Returns how to open a file of this format and this name, as the end of a message.
    pub(crate) fn viewer_advice(self, file: &Path) -> String {
        let file = quoted(&file.to_string_lossy());
        match self {
            Self::Firefox => {
                format!("open it at https://profiler.firefox.com or with `samply load {file}`")
            }
            Self::Pprof => format!("open it with `pprof -http=: {file}`"),
            Self::Chrome => "open it at https://ui.perfetto.dev or chrome://tracing".to_owned(),
            Self::Speedscope => "open it at https://www.speedscope.app".to_owned(),
            Self::Collapsed => {
                format!("draw it with `flamegraph.pl {file}` or `inferno-flamegraph {file}`")
            }
            Self::PerfData => format!("open it with `perf report -i {file}`"),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pmctl annotate`.

use clap::{Args, ValueEnum};

use super::viewing::{Input, PagerOption};

const ANNOTATE_HELP: &str = "\
Each instruction has its part of the function's samples. A sample is taken at the instruction after the one that the \
event happened at, or some instructions later (skid); a precise sample (`record -e cycles:pp`) is of the \
instruction itself.

Instructions are read from the program, those of the kernel from /proc/kcore (root only); source lines from debug \
information and the source files. All must be those of the recording, by the build-id. Without SYMBOL, functions without \
code, as those compiled at run time, are passed over, and a line says so.

Examples:
  pmctl annotate                    the function with the most samples
  pmctl annotate compress_block     this one
  pmctl annotate -M intel --no-source compress_block";

/// Options of `pmctl annotate`.
#[derive(Debug, Args)]
#[command(after_help = ANNOTATE_HELP)]
pub(crate) struct Annotate {
    /// Function to show [default: the one with the most samples]
    #[arg(value_name = "SYMBOL")]
    pub(crate) symbol: Option<String>,

    #[command(flatten)]
    pub(crate) input: Input,

    /// Show the samples of this event [default: the first]
    #[arg(short, long, value_name = "EVENT")]
    pub(crate) event: Option<String>,

    /// Write instructions in this syntax
    #[arg(
        short = 'M',
        long,
        value_name = "SYNTAX",
        default_value = "att",
        alias = "disassembler-style"
    )]
    pub(crate) syntax: Syntax,

    /// Show instructions only
    #[arg(long)]
    pub(crate) no_source: bool,

    #[command(flatten)]
    pub(crate) view: PagerOption,

    /// Accepted from users of perf, without effect: the output is always text
    #[arg(long, hide = true)]
    pub(crate) stdio: bool,
}

/// A syntax of assembly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Syntax {
    #[default]
    Att,
    Intel,
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pmctl top`.

use std::time::Duration;

use clap::Args;

use super::viewing::Rows;
use crate::events::cpus::Cpus;

const TOP_HELP: &str = "\
Each table has the samples since the one before. Events and rights are those of `pmctl record`, of which it is a live \
view. On a terminal it has the whole screen, with the keys of `pmctl report`.

Examples:
  pmctl top                          all programs
  pmctl top -g -p $(pgrep -d, nginx)
  pmctl top --sort cgroup,comm       by container or service
  pmctl top --cgroups                their instructions, cycles and IPC
  pmctl top --cgroups='system.slice/*'
  pmctl top --stdio --iterations 1   a table as text";

/// Options of `pmctl top`.
#[derive(Debug, Args)]
#[command(after_help = TOP_HELP)]
pub(crate) struct Top {
    /// Sample by these events, separated by commas; may be repeated [default: cycles, precise if possible]
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    pub(crate) events: Vec<String>,

    /// Take about HZ samples per second; `max`: as many as the module allows
    #[arg(short = 'F', long, value_name = "HZ", default_value = "999")]
    pub(crate) freq: String,

    /// Take a sample every N events instead
    #[arg(short = 'c', long, value_name = "N", conflicts_with = "freq")]
    pub(crate) period: Option<u64>,

    /// Record call chains, by frame pointers: Enter shows who called a function
    #[arg(short = 'g')]
    pub(crate) chains: bool,

    /// Sample all programs, as without -C, -p and -t
    #[arg(short, long)]
    pub(crate) all_cpus: bool,

    /// Sample all programs on these CPUs, as 0-2,5
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Sample these processes, separated by commas, and the children that they start
    #[arg(short, long, value_name = "PID", conflicts_with_all = ["all_cpus", "cpu"])]
    pub(crate) pid: Option<String>,

    /// Sample these threads, separated by commas, and what they start
    #[arg(short, long, value_name = "TID", conflicts_with_all = ["all_cpus", "cpu", "pid"])]
    pub(crate) tid: Option<String>,

    /// Show a table every SECS seconds, from 0.1 to 3600
    #[arg(short, long, value_name = "SECS", default_value = "2", value_parser = parse_seconds)]
    pub(crate) delay: Duration,

    #[command(flatten)]
    pub(crate) rows: Rows,

    /// Count instructions and cycles in each cgroup instead, or in those whose names have one of these forms, separated by
    /// commas: `*` stands for any text and `?` for one byte, both within a level, `**` for any number of levels
    #[arg(long, value_name = "GLOBS", num_args = 0..=1, require_equals = true, default_missing_value = "**", conflicts_with_all = ["events", "freq", "period", "chains", "cpu", "pid", "tid", "sort"])]
    pub(crate) cgroups: Option<String>,

    /// Print the tables as text
    #[arg(long)]
    pub(crate) stdio: bool,

    /// End after N tables
    #[arg(long, value_name = "N")]
    pub(crate) iterations: Option<u64>,

    /// Print the first N rows of each table, with --stdio
    #[arg(short = 'E', long = "entries", value_name = "N", default_value_t = 20)]
    pub(crate) entries: usize,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .ok()
        .filter(|seconds| (0.1..=3600.0).contains(seconds));
    let seconds = seconds.ok_or("it takes a number of seconds from 0.1 to 3600")?;
    Ok(Duration::from_secs_f64(seconds))
}

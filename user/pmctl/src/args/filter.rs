// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that select samples, with perf's names.

use clap::Args;

use super::stat::{parse_pid, parse_tid};
use crate::events::cpus::Cpus;
use crate::recording::profile::{Filter, TimeSpan};

/// Options that select samples, for the commands that can leave samples out. [`Choice::filter`] returns the [`Filter`].
///
/// These options come last in a command, since clap puts all options after them under their heading.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Choice of samples")]
pub(crate) struct Choice {
    /// Show samples of tasks with these names only, separated by commas
    #[arg(long, alias = "comm", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) comms: Vec<String>,

    /// Show samples of these processes only, separated by commas
    #[arg(long, value_name = "PID", value_delimiter = ',', value_parser = parse_pid)]
    pub(crate) pid: Vec<u32>,

    /// Show samples of these threads only, separated by commas
    #[arg(long, value_name = "TID", value_delimiter = ',', value_parser = parse_tid)]
    pub(crate) tid: Vec<u32>,

    /// Show samples on these CPUs only, as 0-2,5
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = Cpus::parse)]
    pub(crate) cpu: Option<Cpus>,

    /// Show samples from START to STOP only, in seconds as `pmctl script` shows them; one may be left out
    #[arg(long, value_name = "START,STOP", value_parser = parse_span)]
    pub(crate) time: Option<TimeSpan>,

    /// Show samples in these functions only, separated by commas
    #[arg(
        short = 'S',
        long,
        alias = "symbol",
        value_name = "SYMBOLS",
        value_delimiter = ','
    )]
    pub(crate) symbols: Vec<String>,

    /// Show samples in these programs and libraries only, separated by commas
    #[arg(long, alias = "dso", value_name = "DSOS", value_delimiter = ',')]
    pub(crate) dsos: Vec<String>,
}

impl Choice {
    /// Returns the filter that these options describe.
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            comms: self.comms.clone(),
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            cpus: self.cpu.clone(),
            time: self.time,
            symbols: self.symbols.clone(),
            dsos: self.dsos.clone(),
        }
    }
}

/// Parses two times in seconds, separated by a comma. A single time is the start. The error is a message for the user.
fn parse_span(text: &str) -> Result<TimeSpan, String> {
    let (start, stop) = text.split_once(',').unwrap_or((text, ""));
    let number = |text: &str, otherwise| match text {
        "" => Ok(otherwise),
        text => parse_nanoseconds(text).ok_or_else(|| {
            format!("`{text}` is not a time: give seconds, as in `24.083,24.5` or `24.083,`")
        }),
    };
    let span = TimeSpan {
        first: number(start, 0)?,
        last: number(stop, u64::MAX)?,
    };
    if span.first > span.last {
        return Err("the start is later than the stop".to_owned());
    }
    Ok(span)
}

/// Parses a decimal number of seconds into nanoseconds, without rounding.
fn parse_nanoseconds(text: &str) -> Option<u64> {
    const MAX_FRACTION_DIGITS: usize = 9;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.is_empty() || !is_digits(seconds) || !is_digits(fraction) {
        return None;
    }
    let fraction: String = fraction
        .chars()
        .chain("0".repeat(MAX_FRACTION_DIGITS).chars())
        .take(MAX_FRACTION_DIGITS)
        .collect();
    let seconds: u64 = seconds.parse().ok()?;
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        let times = |text| parse_span(text).map(|span| (span.first, span.last));
        assert_eq!(times("24.083599,25"), Ok((24_083_599_000, 25_000_000_000)));
        assert_eq!(times("0.000000001,"), Ok((1, u64::MAX)));
        assert_eq!(times(",3.5"), Ok((0, 3_500_000_000)));
        assert_eq!(times("7"), Ok((7_000_000_000, u64::MAX)));
        for bad in ["x", "1,x", "-1,2", "1e3,", "2,1", "99999999999999999999,"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }
}

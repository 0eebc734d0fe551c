// SPDX-License-Identifier: MIT OR Apache-2.0
//! The summary that is printed at the end of a recording.

use std::io::{self, Write};
use std::time::Duration;

use crate::args::{CommonOptions, DEFAULT_FILE, RecordTarget};
use crate::recording::perfdata::{self, Notes};
use crate::recording::unwind::CutChains;
use crate::system::screen::Colors;
use crate::system::text::{count, quoted, thousands};

/// The numbers of a recording that are shown at its end.
pub(super) struct RecordingSummary {
    /// Name of the file, or of standard output.
    pub(super) name: String,
    pub(super) samples: u64,
    /// The name for a sample, such as `precise sample`.
    pub(super) sample_name: &'static str,
    /// Size in bytes.
    pub(super) size: u64,
    /// Number of samples that were left out because they are of other programs, or with -C of other CPUs.
    pub(super) left_out_samples: u64,
    /// A task executed a program that must not be sampled.
    pub(super) has_left_program: bool,
    pub(super) elapsed: Duration,
    /// The delay of -D, if the recording ended before the delay was over.
    pub(super) delay: Option<Duration>,
    /// Number of online CPUs.
    pub(super) cpus: u32,
    /// The smallest period; `None` with frequencies.
    pub(super) period: Option<u32>,
    /// This is the only file of the recording.
    pub(super) is_only_file: bool,
    /// Samples have call chains.
    pub(super) has_chains: bool,
    /// Call chains that end early, and why.
    pub(super) cut_chains: CutChains,
}

impl RecordingSummary {
    /// Returns a sentence that says how many samples were written, and to which file.
    pub(super) fn result(&self) -> String {
        let samples = count(self.samples, self.sample_name);
        format!("wrote {samples} to {}", self.name)
    }

    /// Returns the command that shows the recording.
    fn report_command(&self) -> String {
        let callers = if self.has_chains { " -g" } else { "" };
        let input = match &self.name[..] {
            DEFAULT_FILE => String::new(),
            name => format!(" -i {}", quoted(name)),
        };
        format!("pmctl report{callers}{input}")
    }
}

/// Prints what was written, what is missing, and the command that shows the recording.
pub(super) fn summarize(
    options: &CommonOptions,
    notes: &Notes,
    summary: &RecordingSummary,
) -> io::Result<()> {
    let mut output = anstream::stderr().lock();
    if options.quiet {
        return perfdata::warn(notes, Colors::new(true), &mut output);
    }
    write!(
        output,
        "pmctl: {} in {:.2} s on {}, {} KiB",
        summary.result(),
        summary.elapsed.as_secs_f64(),
        count(summary.cpus, "CPU"),
        thousands(summary.size.div_ceil(1024)),
    )?;
    let lost: u64 = notes.losses.iter().map(|loss| loss.samples).sum();
    if !notes.counted_all() || notes.cut.is_some() {
        write!(output, "; an unknown number lost")?;
    } else if !notes.is_whole() {
        write!(output, "; {} lost", thousands(lost))?;
    }
    if summary.left_out_samples > 0 {
        let others = thousands(summary.left_out_samples);
        match options.target {
            RecordTarget::Cpus(_) => write!(output, "; {others} of other CPUs left out")?,
            _ => write!(
                output,
                "; {others} of other programs left out (-a keeps them)"
            )?,
        }
    }
    writeln!(output)?;
    perfdata::warn(notes, Colors::new(true), &mut output)?;
    summary.cut_chains.write(Colors::new(true), &mut output)?;
    if let Some(delay) = summary.delay {
        writeln!(
            output,
            "No sample: the recording ended before the delay of {} ms (-D) was over. Choose a shorter delay.",
            delay.as_millis()
        )?;
    }
    match (advised_period(notes, summary), summary.samples) {
        _ if !summary.is_only_file || summary.delay.is_some() || summary.has_left_program => Ok(()),
        (Some(period), 0) => writeln!(output, "No sample: give a smaller period, as -c {period}."),
        (Some(period), _) => writeln!(
            output,
            "Few samples: for more, give a smaller period, as -c {period}."
        ),
        (None, 0) if notes.is_whole() => {
            writeln!(
                output,
                "No sample: the event hardly happened. {}",
                advice_for_rare_event(summary.period)
            )
        }
        _ => Ok(()),
    }?;
    if summary.samples > 0 && !options.is_to_standard_output() {
        let command = summary.report_command();
        writeln!(output, "pmctl: see it with `{command}`")?;
    }
    Ok(())
}

/// Returns a smaller period to advise if the period of the recording made no sample or few samples;
/// `None` if there is no better period.
fn advised_period(notes: &Notes, summary: &RecordingSummary) -> Option<u32> {
    let counted: u64 = notes.totals.iter().sum();
    if counted > 0 && counted == summary.samples {
        // Each event is a sample, so a smaller period makes no more samples.
        return None;
    }
    let largest_count = notes.totals.iter().max().filter(|_| notes.tasks_only);
    let period = match (summary.period?, summary.samples, largest_count) {
        (period, 0, Some(largest_count)) => {
            suggest_period(*largest_count).filter(|new| *new < period)
        }
        (period, samples, _) => smaller_period(period, samples),
    };
    period.filter(|_| notes.is_whole())
}

/// Returns a period with which `events` events make some samples; `None` for too few events.
fn suggest_period(events: u64) -> Option<u32> {
    const GOOD_SAMPLES: u64 = 100;
    let period = u32::try_from(events / GOOD_SAMPLES).unwrap_or(u32::MAX);
    // The period is odd, since few loops are in step with an odd period.
    (period > 0).then_some(period | 1)
}

/// Returns a smaller period to advise if `period` made few samples; `None` if it made enough, or if it is small
/// already.
fn smaller_period(period: u32, samples: u64) -> Option<u32> {
    const FEW_SAMPLES: u64 = 50;
    /// Prime numbers, a factor of ten apart: a larger step could fill the buffers. With a still smaller period most of
    /// the time may go into the samples.
    const SMALLER_PERIODS: [u32; 2] = [100_003, 10_007];
    if samples >= FEW_SAMPLES {
        return None;
    }
    SMALLER_PERIODS
        .into_iter()
        .find(|smaller| *smaller < period)
}

/// Returns what to do about an event that made no sample. `period` is the smallest sampling period;
/// `None` with frequencies.
const fn advice_for_rare_event(period: Option<u32>) -> &'static str {
    match period {
        Some(_) => "Choose another event, or record for longer.",
        // The first period of a frequency is a guess, which a short program may not last for.
        None => {
            "Choose another event, record for longer, or give a larger frequency (-F) or a period (-c)."
        }
    }
}

#[cfg(test)]
impl RecordingSummary {
    /// Returns the summary of one of several files.
    pub(super) fn example() -> Self {
        Self {
            name: "perf.data.1".to_owned(),
            samples: 72,
            sample_name: "precise sample",
            size: 4096,
            left_out_samples: 0,
            has_left_program: false,
            elapsed: Duration::ZERO,
            delay: None,
            cpus: 1,
            period: None,
            is_only_file: false,
            has_chains: false,
            cut_chains: CutChains::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequency_without_samples_calls_for_a_larger_one() {
        let names_rates = |period| advice_for_rare_event(period).contains("(-F) or a period (-c)");
        assert!(names_rates(None));
        assert!(!names_rates(Some(10_007)));
    }

    #[test]
    fn the_result_names_the_kind_of_samples() {
        let result = RecordingSummary::example().result();
        assert_eq!(result, "wrote 72 precise samples to perf.data.1");
    }

    #[test]
    fn call_chains_are_shown_by_another_command() {
        let command = |has_chains, name: &str| {
            let summary = RecordingSummary {
                has_chains,
                name: name.to_owned(),
                ..RecordingSummary::example()
            };
            summary.report_command()
        };
        assert_eq!(command(false, DEFAULT_FILE), "pmctl report");
        assert_eq!(command(true, DEFAULT_FILE), "pmctl report -g");
        assert_eq!(command(true, "a b"), "pmctl report -g -i 'a b'");
    }

    #[test]
    fn few_samples_call_for_a_smaller_period() {
        assert_eq!(smaller_period(1_000_003, 1), Some(100_003));
        assert_eq!(smaller_period(1_000_003, 0), Some(100_003));
        assert_eq!(smaller_period(100_000_007, 3), Some(100_003));
        assert_eq!(smaller_period(100_003, 0), Some(10_007));
        assert_eq!(smaller_period(10_007, 0), None);
        assert_eq!(smaller_period(1_000_003, 50), None);
    }

    #[test]
    fn no_period_is_advised_if_each_event_is_a_sample() {
        let advised = |period, samples, totals: &[u64]| {
            let notes = Notes {
                totals: totals.to_vec(),
                tasks_only: true,
                ..Notes::default()
            };
            let summary = RecordingSummary {
                samples,
                period: Some(period),
                ..RecordingSummary::example()
            };
            advised_period(&notes, &summary)
        };
        assert_eq!(advised(1_000_003, 5, &[5]), None);
        assert_eq!(advised(1_000_003, 12, &[5, 7]), None);
        assert_eq!(advised(1, 5, &[5]), None);
        assert_eq!(advised(1_000_003, 5, &[5_100_000]), Some(100_003));
        assert_eq!(advised(1_000_003, 5, &[]), Some(100_003));
        assert_eq!(advised(1_000_003, 0, &[4595]), Some(45));
    }

    #[test]
    fn the_count_suggests_a_period() {
        assert_eq!(suggest_period(4595), Some(45));
        assert_eq!(suggest_period(990_000), Some(9901));
        assert_eq!(suggest_period(99), None);
    }
}

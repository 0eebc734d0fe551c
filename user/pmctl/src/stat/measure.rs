// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run: from the first start to the last stop.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use perfmon::{Cause, Counter, Error};

use super::{Report, Run};
use crate::child::{Command, Ending, Running, Waiting};
use crate::cli::Cpus;
use crate::exit;
use crate::signals::{Event, Signals};

/// Runs the command, or waits for Ctrl-C without one.
///
/// The counts are those of all CPUs, or of `cpus` only.
pub(super) fn measure(
    command: Option<&Command>,
    (counters, cpus): (&[Option<Counter>], Option<&Cpus>),
    interval: Option<Duration>,
    report: &mut dyn Report,
) -> Result<Run> {
    let signals = Signals::hold()?;
    let before = Times::of_children()?;
    each(counters, Counter::reset)?;
    let waiting = command
        .map(|command| Waiting::fork(command, signals.mask_before()))
        .transpose()?;

    // Reading the clock may take a system call or not; outside of the counters it changes no count.
    let begin = Instant::now();
    let mut ticker = interval.map(|length| Ticker::new(length, begin, (counters, cpus), report));
    each(counters, Counter::start)?;
    let running = waiting.map(Waiting::release).transpose()?;
    let End { ending, wanted } = follow(&signals, running.as_ref(), ticker.as_mut())?;
    each(counters, |counter| match counter.stop() {
        // The counter is stopped; that it has no count is what reading it tells.
        Err(error) if error.cause == Cause::Untrusted => Ok(()),
        result => result,
    })?;
    let elapsed = begin.elapsed();

    if let Some(ticker) = &mut ticker {
        // What is left after the last whole interval.
        ticker.show()?;
    }
    let counts = read(counters, cpus)?;
    let after = Times::of_children()?;
    Ok(Run {
        elapsed,
        user: after.user.saturating_sub(before.user),
        system: after.system.saturating_sub(before.system),
        counts,
        ending,
        last: wanted,
    })
}

/// The end of a run.
struct End {
    /// End of the command; `None` without one.
    ending: Option<Ending>,
    /// A signal asked for it.
    wanted: bool,
}

/// Waits until the command has ended, or without one until a signal asks for the end.
fn follow(
    signals: &Signals,
    running: Option<&Running>,
    mut ticker: Option<&mut Ticker<'_>>,
) -> Result<End> {
    let mut wanted = false;
    loop {
        let limit = ticker.as_ref().map(|ticker| ticker.remaining());
        match (signals.wait(limit)?, running) {
            (Event::Child, Some(running)) => {
                if let Some(ending) = running.ending()? {
                    return Ok(End {
                        ending: Some(ending),
                        wanted,
                    });
                }
            }
            (Event::End { .. }, None) => {
                return Ok(End {
                    ending: None,
                    wanted: true,
                });
            }
            // It is the command that decides: it may well have something to tidy up.
            (
                Event::End {
                    signal,
                    by_terminal,
                },
                Some(running),
            ) => {
                wanted = true;
                // What comes from the terminal, the command got itself.
                if !by_terminal {
                    running.signal(signal);
                }
            }
            _ => {}
        }
        if let Some(ticker) = &mut ticker {
            ticker.show_if_due()?;
        }
    }
}

/// Shows at equal intervals what was counted in each.
struct Ticker<'a> {
    length: Duration,
    begin: Instant,
    next: Instant,
    /// The counts at the end of the interval before.
    before: Vec<Option<u64>>,
    /// The time of that.
    since: Duration,
    counters: &'a [Option<Counter>],
    cpus: Option<&'a Cpus>,
    report: &'a mut dyn Report,
}

impl<'a> Ticker<'a> {
    fn new(
        length: Duration,
        begin: Instant,
        (counters, cpus): (&'a [Option<Counter>], Option<&'a Cpus>),
        report: &'a mut dyn Report,
    ) -> Self {
        Self {
            length,
            begin,
            next: begin + length,
            before: vec![Some(0); counters.len()],
            since: Duration::ZERO,
            counters,
            cpus,
            report,
        }
    }

    fn remaining(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    fn show_if_due(&mut self) -> Result<()> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        // If pmctl was held up for several intervals, they become one: no burst follows.
        while self.next <= now {
            self.next += self.length;
        }
        self.show()
    }

    fn show(&mut self) -> Result<()> {
        let at = self.begin.elapsed();
        let now = read(self.counters, self.cpus)?;
        let difference = |(now, before): (&Option<u64>, &Option<u64>)| Some((*now)? - (*before)?);
        let run = Run {
            elapsed: at - self.since,
            user: Duration::ZERO,
            system: Duration::ZERO,
            last: false,
            counts: now.iter().zip(&self.before).map(difference).collect(),
            ending: None,
        };
        self.before = now;
        self.since = at;
        self.report.interval(at, &run)
    }
}

/// Makes one call for each counter, in their order.
fn each(counters: &[Option<Counter>], call: impl Fn(&Counter) -> Result<(), Error>) -> Result<()> {
    let mut counters = counters.iter().flatten();
    counters.try_for_each(call).map_err(exit::with_help)
}

/// The counts; `None` for one that something else spoiled, and without a counter.
fn read(counters: &[Option<Counter>], cpus: Option<&Cpus>) -> Result<Vec<Option<u64>>> {
    let one = |counter: &Counter| match value(counter, cpus) {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.cause == Cause::Untrusted => Ok(None),
        Err(error) => Err(exit::with_help(error)),
    };
    let or_none = |counter: &Option<Counter>| counter.as_ref().map_or(Ok(None), one);
    counters.iter().map(or_none).collect()
}

/// The count on all CPUs, or on some.
fn value(counter: &Counter, cpus: Option<&Cpus>) -> Result<u64, Error> {
    let Some(cpus) = cpus else {
        return counter.read();
    };
    cpus.ranges().try_fold(0, |sum, range| {
        Ok(sum + counter.read_on(range)?.into_iter().sum::<u64>())
    })
}

/// CPU time of the commands that have ended.
struct Times {
    user: Duration,
    system: Duration,
}

impl Times {
    fn of_children() -> Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("can't ask for CPU times")?;
        Ok(Self {
            user: duration(usage.user_time()),
            system: duration(usage.system_time()),
        })
    }
}

fn duration(time: TimeVal) -> Duration {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec())) + Duration::from_micros(part(time.tv_usec()))
}

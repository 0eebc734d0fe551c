// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run: from the start to the stop.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use nix::sys::time::TimeVal;

use super::source::{self, ColumnCount, CountSource, Counts, Uncounted};
use super::{NumberFormat, Run};
use crate::system::child::{Command, Ending, Running, Waiting};
use crate::system::processes;
use crate::system::signals::{Event, Signals};
use crate::system::stdio::complain;

/// What is done in a run.
#[derive(Default)]
pub(super) struct RunPlan {
    /// The command, if there is one.
    pub(super) command: Option<Command>,
    /// Processes and threads whose end is that of a run without a command.
    pub(super) watched: Vec<u32>,
    /// Shows the counts each time that this is over.
    pub(super) interval: Option<Duration>,
    /// Counts once this is over.
    pub(super) delay: Option<Duration>,
    /// Ends the run once this is over.
    pub(super) timeout: Option<Duration>,
    /// Ends the run after so many intervals.
    pub(super) intervals: Option<u32>,
    /// Writes what is in memory to the disks before.
    pub(super) sync: bool,
}

/// A run whose command waits, and whose counters are ready.
pub(super) struct PreparedRun<'a> {
    before: Times,
    waiting: Option<Waiting<'a>>,
}

/// Forks the command, and makes the counters ready for it.
pub(super) fn begin<'a>(
    plan: &'a RunPlan,
    signals: &Signals,
    source: &mut dyn CountSource,
) -> Result<PreparedRun<'a>> {
    if plan.sync {
        nix::unistd::sync();
    }
    let before = Times::of_children()?;
    let waiting = plan
        .command
        .as_ref()
        .map(|command| Waiting::fork(command, signals.mask_before()))
        .transpose()?;
    source.prepare(waiting.as_ref().map(Waiting::pid))?;
    Ok(PreparedRun { before, waiting })
}

/// Runs the command, or waits for Ctrl-C or the end of what is watched without one.
pub(super) fn measure(
    PreparedRun { before, waiting }: PreparedRun<'_>,
    (plan, signals): (&RunPlan, &Signals),
    source: &mut dyn CountSource,
    report: &mut dyn NumberFormat,
) -> Result<Run> {
    let watched = plan.watched.iter().map(|pid| processes::open_pidfd(*pid));
    let mut watched: Vec<OwnedFd> = watched.flatten().collect();

    // Reading the clock may take a system call or not; outside of the counters it changes no count.
    let begin = Instant::now();
    let ticker = plan
        .interval
        .map(|length| Ticker::new(length, begin, plan.intervals, report));
    let mut timers = Timers {
        start: plan.delay.map(|delay| begin + delay),
        end: None,
        started: plan.delay.is_none(),
        ticker,
    };
    if timers.start.is_none() {
        source.start()?;
    }
    // Each counter runs for the whole of it, however long it took to start them.
    timers.end = plan.timeout.map(|timeout| Instant::now() + timeout);
    let running = waiting.map(Waiting::release).transpose()?;
    let RunEnd { ending, stopped_by } = wait_for_end(
        signals,
        running.as_ref(),
        &mut watched,
        (&mut timers, source),
    )?;
    let elapsed = match &mut timers.ticker {
        // It has stopped the counters.
        Some(ticker) if ticker.left == Some(0) => ticker.since,
        ticker => {
            source.stop()?;
            let elapsed = begin.elapsed();
            // What is left after the last whole interval.
            if let Some(ticker) = ticker {
                ticker.show(source)?;
            }
            elapsed
        }
    };
    let mut counts = source.read(elapsed)?;
    let waited = source::estimate(&mut counts).then_some(Uncounted::Waited);
    let mut uncounted = source.uncounted()?.or(waited);
    if let Some(delay) = plan.delay.filter(|_| !timers.started) {
        counts.fill(None);
        uncounted = Some(Uncounted::NotStarted);
        complain(format_args!(
            "the run ended before the delay of {} ms (-D) was over: nothing was counted",
            delay.as_millis()
        ));
    }
    let after = Times::of_children()?;
    Ok(Run {
        elapsed,
        user: after.user.saturating_sub(before.user),
        system: after.system.saturating_sub(before.system),
        counts,
        uncounted,
        ending,
        stopped_by,
    })
}

/// The end of a run.
struct RunEnd {
    /// End of the command; `None` without one.
    ending: Option<Ending>,
    /// The signal that asked for it.
    stopped_by: Option<Signal>,
}

/// Waits until the command has ended, or without one until what is watched has, or a signal asks for the end.
fn wait_for_end(
    signals: &Signals,
    running: Option<&Running>,
    watched: &mut Vec<OwnedFd>,
    (timers, source): (&mut Timers<'_>, &mut dyn CountSource),
) -> Result<RunEnd> {
    let mut stopped_by = None;
    loop {
        let limit = timers.remaining();
        let other = watched.last().filter(|_| running.is_none());
        match (signals.wait(limit, other.map(AsFd::as_fd))?, running) {
            (Event::Child, Some(running)) => {
                if let Some(ending) = running.ending()? {
                    return Ok(RunEnd {
                        ending: Some(ending),
                        stopped_by,
                    });
                }
            }
            (Event::End { signal, .. }, None) => {
                return Ok(RunEnd {
                    ending: None,
                    stopped_by: Some(signal),
                });
            }
            // The command decides when it ends: it may have something to tidy up.
            (
                Event::End {
                    signal,
                    by_terminal,
                },
                Some(running),
            ) => {
                stopped_by = Some(signal);
                // The terminal sends its signals to the command, too.
                if !by_terminal {
                    running.signal(signal);
                }
            }
            (Event::Other, _) => {
                watched.pop();
                if watched.is_empty() {
                    return Ok(RunEnd {
                        ending: None,
                        stopped_by,
                    });
                }
            }
            _ => {}
        }
        timers.run_due(source)?;
        if timers.is_over() {
            let signal = Signal::SIGTERM;
            stopped_by = Some(signal);
            match running {
                // It ends by it, or decides what to do.
                Some(running) => running.signal(signal),
                None => {
                    return Ok(RunEnd {
                        ending: None,
                        stopped_by,
                    });
                }
            }
        }
    }
}

/// What is due at some time.
struct Timers<'a> {
    /// The time when the counters start; `None` after the start.
    start: Option<Instant>,
    /// The counters have started.
    started: bool,
    /// The time when the run ends; `None` without a limit or after the end.
    end: Option<Instant>,
    ticker: Option<Ticker<'a>>,
}

impl Timers<'_> {
    /// Returns how long nothing is due.
    fn remaining(&self) -> Option<Duration> {
        let ticker = self.ticker.as_ref();
        // Behind the last interval nothing is due any more.
        let tick = ticker
            .filter(|ticker| ticker.left != Some(0))
            .map(|ticker| ticker.next);
        let next = [self.start, self.end, tick].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Returns whether the run is to end, once.
    fn is_over(&mut self) -> bool {
        let ticker = self.ticker.as_mut();
        if let Some(ticker) = ticker.filter(|ticker| ticker.left == Some(0) && !ticker.is_done) {
            ticker.is_done = true;
            return true;
        }
        self.end.take_if(|end| *end <= Instant::now()).is_some()
    }

    /// Does what is due.
    fn run_due(&mut self, source: &mut dyn CountSource) -> Result<()> {
        if self.start.is_some_and(|start| start <= Instant::now()) {
            self.start = None;
            self.started = true;
            source.start()?;
        }
        match &mut self.ticker {
            Some(ticker) => {
                ticker.show_if_due(source)?;
                // Nothing starts behind the last interval.
                self.start.take_if(|_| ticker.left == Some(0));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Shows at equal intervals what was counted in each.
struct Ticker<'a> {
    length: Duration,
    begin: Instant,
    next: Instant,
    /// The counts at the end of the interval before; none before the first.
    before: Counts,
    /// The time of that.
    since: Duration,
    /// Number of intervals that are left; `None` without a limit.
    left: Option<u32>,
    /// The end was told.
    is_done: bool,
    report: &'a mut dyn NumberFormat,
}

impl<'a> Ticker<'a> {
    fn new(
        length: Duration,
        begin: Instant,
        intervals: Option<u32>,
        report: &'a mut dyn NumberFormat,
    ) -> Self {
        Self {
            length,
            begin,
            next: begin + length,
            before: Vec::new(),
            since: Duration::ZERO,
            left: intervals,
            is_done: false,
            report,
        }
    }

    /// Shows an interval that is over. The last one of a limited number stops the counters, so that the intervals are
    /// all that is counted.
    fn show_if_due(&mut self, source: &mut dyn CountSource) -> Result<()> {
        let now = Instant::now();
        if now < self.next || self.left == Some(0) {
            return Ok(());
        }
        // If pmctl was held up for several intervals, they become one: no burst follows.
        while self.next <= now {
            self.next += self.length;
        }
        if self.left == Some(1) {
            source.stop()?;
        }
        self.show(source)
    }

    fn show(&mut self, source: &dyn CountSource) -> Result<()> {
        let at = self.begin.elapsed();
        let now = source.read(at)?;
        let difference = |(index, now): (usize, &Option<ColumnCount>)| {
            let before = self
                .before
                .get(index)
                .map_or(Some(ColumnCount::default()), |before| *before);
            Some((*now)?.since(before?))
        };
        let mut counts = now.iter().enumerate().map(difference).collect();
        let waited = source::estimate(&mut counts).then_some(Uncounted::Waited);
        let run = Run {
            elapsed: at - self.since,
            user: Duration::ZERO,
            system: Duration::ZERO,
            stopped_by: None,
            counts,
            uncounted: source.uncounted()?.or(waited),
            ending: None,
        };
        self.before = now;
        self.since = at;
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.report.interval(at, &run)
    }
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

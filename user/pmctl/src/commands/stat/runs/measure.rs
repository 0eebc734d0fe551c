// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run of the command, from the start of the counters to their stop.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::Signal;
use nix::sys::time::TimeVal;
use perfmon::{Cause, Device};

use super::run::Run;
use crate::commands::stat::formats::number_format::NumberFormat;
use crate::commands::stat::sources::source::{
    self, CountSource, Counts, Reasons, Summands, Uncounted,
};
use crate::events::threads::TaskList;
use crate::system::child::{Command, Ending, RunningCommand, WaitingCommand};
use crate::system::exit;
use crate::system::processes::{self, ThreadEnd};
use crate::system::signals::{BlockedSignals, Event};
use crate::system::stdio::complain;

/// Options of a run.
#[derive(Default)]
pub(in crate::commands::stat) struct RunPlan {
    /// The command, if there is one.
    pub(in crate::commands::stat) command: Option<Command>,
    /// Processes and threads to watch: a run without a command ends when all these tasks have ended.
    pub(in crate::commands::stat) watched: TaskList,
    /// Time between two reports of the counts.
    pub(in crate::commands::stat) interval: Option<Duration>,
    /// Time from the beginning of the run to the start of the counters.
    pub(in crate::commands::stat) delay: Option<Duration>,
    /// Time from the start of the counters to the end of the run.
    pub(in crate::commands::stat) timeout: Option<Duration>,
    /// Number of intervals after which the run ends.
    pub(in crate::commands::stat) intervals: Option<u32>,
    /// Writes modified pages to the disks before the run, with sync(2).
    pub(in crate::commands::stat) sync: bool,
}

/// A run whose command waits, and whose counters are ready.
pub(in crate::commands::stat) struct PreparedRun<'a> {
    times_before: Times,
    waiting: Option<WaitingCommand<'a>>,
}

/// Forks the command, and makes the counters ready for it.
pub(in crate::commands::stat) fn prepare_run<'a>(
    plan: &'a RunPlan,
    signals: &BlockedSignals,
    source: &mut dyn CountSource,
) -> Result<PreparedRun<'a>> {
    if plan.sync {
        nix::unistd::sync();
    }
    let times_before = Times::of_children()?;
    let waiting = plan
        .command
        .as_ref()
        .map(|command| WaitingCommand::fork(command, signals.previous_mask()))
        .transpose()?;
    source.prepare(waiting.as_ref().map(WaitingCommand::pid))?;
    Ok(PreparedRun {
        times_before,
        waiting,
    })
}

/// Runs the command and returns its counts. Without a command, waits for Ctrl-C, the time limit, or the end of the
/// watched tasks.
pub(in crate::commands::stat) fn measure_run(
    PreparedRun {
        times_before,
        waiting,
    }: PreparedRun<'_>,
    (plan, signals): (&RunPlan, &BlockedSignals),
    source: &mut dyn CountSource,
    report: &mut dyn NumberFormat,
) -> Result<Run> {
    let mut watched = open_watched(plan)?;
    // Read before the counters start, since a clock that takes a system call would change the counts.
    let begin = Instant::now();
    let ticker = plan
        .interval
        .map(|length| Ticker::new(length, begin, plan.intervals, report));
    let mut timers = Timers {
        planned_start: plan.delay.map(|delay| begin + delay),
        actual_start: plan.delay.is_none().then_some(begin),
        timeout: plan.timeout,
        end: None,
        ticker,
    };
    if timers.actual_start.is_some() {
        timers.start_counters(source)?;
    }
    let running = waiting.map(WaitingCommand::release).transpose()?;
    let have_all_ended = watched.is_empty() && plan.watched != TaskList::default();
    let RunEnd { ending, stopped_by } = if have_all_ended && running.is_none() {
        RunEnd::default()
    } else {
        let end = wait_for_end(
            signals,
            running.as_ref(),
            &mut watched,
            (&mut timers, source),
        );
        end.inspect_err(|_| {
            // The command runs on, but is no longer counted.
            let _ = source.stop();
            if let Some(running) = &running {
                let _ = running.wait(signals);
            }
        })?
    };
    let end = timers.stop_counters(source)?;
    if let Some(failure) = timers.take_failure() {
        return Err(failure);
    }
    let counted_for = timers
        .actual_start
        .map_or(Duration::ZERO, |started| end - started);
    let (mut counts, mut uncounted) = counts_and_reasons(source, &source.read(counted_for)?)?;
    // A number that has fallen in an interval has no count in the whole run either.
    let columns = counts.iter_mut().zip(&mut uncounted);
    for ((count, reason), level) in columns.zip(timers.levels()) {
        if level.is_some() {
            (*count, *reason) = (None, *level);
        }
    }
    if let Some(delay) = plan.delay.filter(|_| timers.actual_start.is_none()) {
        counts.fill(None);
        uncounted.fill(Some(Uncounted::NotStarted));
        complain(format_args!(
            "the run ended before the delay of {} ms (-D) was over: nothing was counted. Choose a shorter delay.",
            delay.as_millis()
        ));
    }
    let times_after = Times::of_children()?;
    Ok(Run {
        elapsed: end - begin,
        counted_for,
        user: times_after.user.saturating_sub(times_before.user),
        system: times_after.system.saturating_sub(times_before.system),
        counts,
        uncounted,
        ending,
        stopped_by,
    })
}

/// Returns the counts of the source's `summands`, and the reasons for those that are missing.
fn counts_and_reasons(source: &dyn CountSource, summands: &Summands) -> Result<(Counts, Reasons)> {
    let (counts, mut reasons) = source::estimate_counts(summands);
    for (reason, source_reason) in reasons.iter_mut().zip(source.uncounted_reasons()?) {
        *reason = source_reason.or(*reason);
    }
    Ok((counts, reasons))
}

/// A descriptor that becomes readable, or is hung up, when a process or a thread has ended.
type WatchedEnd = Box<dyn AsFd>;

/// Opens descriptors of the processes and threads to watch. Ended tasks have no descriptor.
fn open_watched(plan: &RunPlan) -> Result<Vec<WatchedEnd>> {
    let mut watched: Vec<WatchedEnd> = Vec::new();
    for pid in &plan.watched.pids {
        let descriptor = processes::watch_process(*pid);
        let descriptor = descriptor.with_context(|| format!("can't watch process {pid}"))?;
        watched.extend(descriptor.map(|descriptor| Box::new(descriptor) as WatchedEnd));
    }
    for tid in &plan.watched.tids {
        let end = processes::watch_thread(*tid);
        match end.with_context(|| format!("can't watch thread {tid}"))? {
            ThreadEnd::Over => {}
            ThreadEnd::Descriptor(descriptor) => watched.push(Box::new(descriptor)),
            ThreadEnd::First => {
                watched.extend(open_end_event(*tid)?.map(|event| Box::new(event) as WatchedEnd));
            }
        }
    }
    Ok(watched)
}

/// Opens an event that counts nothing, and is hung up when the thread has ended; `None` if the thread has ended
/// already.
fn open_end_event(tid: u32) -> Result<Option<perfmon::Event>> {
    let device = Device::open().map_err(exit::with_help)?;
    let event = perfmon::Event::dummy().user().pid(tid).disabled();
    match event.open_on(&device) {
        Ok(event) => Ok(Some(event)),
        Err(error) if error.cause == Cause::NoSuchTask => Ok(None),
        Err(error) => Err(exit::with_help(error)),
    }
}

/// The end of a run.
#[derive(Default)]
struct RunEnd {
    /// The way in which the command ended; `None` if no command was run.
    ending: Option<Ending>,
    /// The signal that asked for the end.
    stopped_by: Option<Signal>,
}

/// Waits until the command has ended. Without a command, waits until all watched tasks have ended, a signal asks for
/// the end, or the time limit is reached.
fn wait_for_end(
    signals: &BlockedSignals,
    running: Option<&RunningCommand>,
    watched: &mut Vec<WatchedEnd>,
    (timers, source): (&mut Timers<'_>, &mut dyn CountSource),
) -> Result<RunEnd> {
    let mut stopped_by = None;
    loop {
        let limit = timers.time_to_next();
        let watched_end = watched.last().filter(|_| running.is_none());
        match (
            signals.wait(limit, watched_end.map(|end| end.as_fd()))?,
            running,
        ) {
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
            // Waits for the command to end by itself: it may have to clean up.
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
        timers.handle_due_timers(source)?;
        if running.is_none() && timers.has_failed() {
            return Ok(RunEnd {
                ending: None,
                stopped_by,
            });
        }
        if timers.take_end() {
            let signal = Signal::SIGTERM;
            stopped_by = Some(signal);
            match running {
                // The command may handle the signal, so its end is waited for.
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

/// The times at which the counters start, an interval is shown, and the run ends.
struct Timers<'a> {
    /// The time when the counters are to start; `None` after the start.
    planned_start: Option<Instant>,
    /// The time when the counters started; `None` before the start.
    actual_start: Option<Instant>,
    /// The time from the start of the counters to the end of the run; `None` without a limit.
    timeout: Option<Duration>,
    /// The time when the run ends; `None` without a limit, before the counters start, or after the end.
    end: Option<Instant>,
    ticker: Option<Ticker<'a>>,
}

impl Timers<'_> {
    /// Returns the time until the next timer expires; `None` if none is set.
    fn time_to_next(&self) -> Option<Duration> {
        // Intervals begin with the counters.
        let ticker = self.ticker.as_ref().filter(|_| self.actual_start.is_some());
        // After the last interval there is no further one to wait for.
        let tick = ticker
            .filter(|ticker| ticker.remaining != Some(0))
            .map(|ticker| ticker.next_end);
        let next = [self.planned_start, self.end, tick]
            .into_iter()
            .flatten()
            .min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Returns true when the run has to end, but only once, so that the command gets one signal.
    fn take_end(&mut self) -> bool {
        let ticker = self.ticker.as_mut();
        if let Some(ticker) =
            ticker.filter(|ticker| ticker.remaining == Some(0) && !ticker.is_end_reported)
        {
            ticker.is_end_reported = true;
            return true;
        }
        self.end.take_if(|end| *end <= Instant::now()).is_some()
    }

    /// Returns whether an interval could not be written.
    fn has_failed(&self) -> bool {
        let ticker = self.ticker.as_ref();
        ticker.is_some_and(|ticker| ticker.failure.is_some())
    }

    /// Returns the error of the first interval that could not be written; `None` if all could.
    fn take_failure(&mut self) -> Option<anyhow::Error> {
        self.ticker.as_mut()?.failure.take()
    }

    /// Returns a reason for each column whose number has fallen in an interval; empty without
    /// intervals.
    fn levels(&self) -> &[Option<Uncounted>] {
        let ticker = self.ticker.as_ref();
        ticker.map_or(&[], |ticker| &ticker.levels[..])
    }

    /// Starts the counters. The timeout begins when all counters have started, so that each counter runs for the whole
    /// timeout.
    fn start_counters(&mut self, source: &mut dyn CountSource) -> Result<()> {
        source.start()?;
        self.end = self.timeout.map(|timeout| Instant::now() + timeout);
        Ok(())
    }

    /// Stops the counters and shows the rest of the last interval. Returns the time when the counters stopped.
    fn stop_counters(&mut self, source: &mut dyn CountSource) -> Result<Instant> {
        match (&mut self.ticker, self.actual_start) {
            // The last interval has stopped the counters.
            (Some(ticker), Some(started)) if ticker.remaining == Some(0) => {
                Ok(started + ticker.previous_end)
            }
            (ticker, started) => {
                source.stop()?;
                let end = Instant::now();
                // Shows the rest after the last whole interval. Before the start of the counters there are no intervals.
                if let (Some(ticker), Some(_)) = (ticker, started) {
                    ticker.report_interval(source)?;
                }
                Ok(end)
            }
        }
    }

    /// Starts the counters if the delay is over, and shows an interval if it has ended.
    fn handle_due_timers(&mut self, source: &mut dyn CountSource) -> Result<()> {
        let now = Instant::now();
        if self.planned_start.take_if(|start| *start <= now).is_some() {
            self.actual_start = Some(now);
            if let Some(ticker) = &mut self.ticker {
                ticker.begin_at(now);
            }
            self.start_counters(source)?;
        }
        match &mut self.ticker {
            Some(ticker) if self.actual_start.is_some() => ticker.report_if_due(source),
            _ => Ok(()),
        }
    }
}

/// Shows the counts of each interval.
struct Ticker<'a> {
    length: Duration,
    /// The time when the counters start.
    begin: Instant,
    next_end: Instant,
    /// The counts at the end of the previous interval; empty before the first.
    previous_counts: Summands,
    /// `Uncounted::Level` for each column whose number has fallen in an interval; empty before the first.
    levels: Reasons,
    /// The end of the previous interval, since `begin`.
    previous_end: Duration,
    /// Number of intervals still to be shown; `None` without a limit.
    remaining: Option<u32>,
    /// `Timers::take_end` has reported the end.
    is_end_reported: bool,
    report: &'a mut dyn NumberFormat,
    /// The error of the first interval that could not be written. It is returned after the command's end: the command
    /// still runs, and has to be waited for.
    failure: Option<anyhow::Error>,
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
            next_end: begin + length,
            previous_counts: Vec::new(),
            levels: Vec::new(),
            previous_end: Duration::ZERO,
            remaining: intervals,
            is_end_reported: false,
            report,
            failure: None,
        }
    }

    /// Sets the beginning of the first interval.
    fn begin_at(&mut self, begin: Instant) {
        self.begin = begin;
        self.next_end = begin + self.length;
    }

    /// Shows an interval that is over. If the number of intervals is limited, the last interval
    /// stops the counters, so that nothing is counted after it.
    fn report_if_due(&mut self, source: &mut dyn CountSource) -> Result<()> {
        let now = Instant::now();
        if now < self.next_end || self.remaining == Some(0) {
            return Ok(());
        }
        // If pmctl was held up for several intervals, they become one interval, and no burst of
        // intervals follows.
        while self.next_end <= now {
            self.next_end += self.length;
        }
        if self.remaining == Some(1) {
            source.stop()?;
        }
        self.report_interval(source)
    }

    fn report_interval(&mut self, source: &dyn CountSource) -> Result<()> {
        let interval_end = self.begin.elapsed();
        let counts_now = source.read(interval_end)?;
        let (since_previous, levels) = source::counts_since(&counts_now, &self.previous_counts);
        let (counts, mut uncounted) = counts_and_reasons(source, &since_previous)?;
        self.levels.resize(levels.len(), None);
        for ((uncounted, known_level), level) in
            uncounted.iter_mut().zip(&mut self.levels).zip(levels)
        {
            *uncounted = uncounted.or(level);
            *known_level = known_level.or(level);
        }
        let run = Run {
            elapsed: interval_end - self.previous_end,
            counted_for: interval_end - self.previous_end,
            user: Duration::ZERO,
            system: Duration::ZERO,
            stopped_by: None,
            counts,
            uncounted,
            ending: None,
        };
        self.previous_counts = counts_now;
        self.previous_end = interval_end;
        self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
        // After a failure, no further interval is written.
        if self.failure.is_none() {
            self.failure = self.report.write_interval(interval_end, &run).err();
        }
        Ok(())
    }
}

/// CPU time of the commands that have ended.
struct Times {
    user: Duration,
    system: Duration,
}

impl Times {
    fn of_children() -> Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)
            .context("can't read the CPU times of child processes (getrusage)")?;
        Ok(Self {
            user: to_duration(usage.user_time()),
            system: to_duration(usage.system_time()),
        })
    }
}

fn to_duration(time: TimeVal) -> Duration {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec())) + Duration::from_micros(part(time.tv_usec()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use nix::errno::Errno;
    use nix::sys::signal::kill;
    use nix::unistd::Pid;

    use super::*;
    use crate::commands::stat::column::Column;

    /// A source that can't be read.
    struct Unreadable;

    impl CountSource for Unreadable {
        fn prepare(&mut self, _: Option<u32>) -> Result<()> {
            Ok(())
        }

        fn columns(&self) -> Vec<Column> {
            Vec::new()
        }

        fn start(&mut self) -> Result<()> {
            Ok(())
        }

        fn stop(&mut self) -> Result<()> {
            Ok(())
        }

        fn read(&self, _: Duration) -> Result<Summands> {
            anyhow::bail!("the counter is gone")
        }
    }

    /// A report that no count reaches.
    struct NoReport;

    impl NumberFormat for NoReport {
        fn write_interval(&mut self, _: Duration, _: &Run) -> Result<()> {
            unreachable!("nothing can be read")
        }

        fn write_totals(&mut self, _: &[Run]) -> Result<()> {
            unreachable!("nothing can be read")
        }
    }

    #[test]
    fn a_run_that_fails_waits_for_its_command() {
        let words = ["sleep", "0.2"].map(OsString::from);
        let plan = RunPlan {
            command: Some(Command::find(&words).expect("there is one")),
            interval: Some(Duration::from_millis(1)),
            ..RunPlan::default()
        };
        let signals = BlockedSignals::hold().expect("they can be held");
        let run = prepare_run(&plan, &signals, &mut Unreadable).expect("it can be made");
        let pid = run.waiting.as_ref().expect("there is a command").pid();
        let result = measure_run(run, (&plan, &signals), &mut Unreadable, &mut NoReport);
        let error = result.expect_err("the first interval fails");
        assert_eq!(error.to_string(), "the counter is gone");
        let pid = Pid::from_raw(pid.try_into().expect("it fits"));
        assert_eq!(kill(pid, None), Err(Errno::ESRCH), "it has ended");
    }
}

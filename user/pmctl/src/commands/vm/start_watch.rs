// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watches a machine that has not sent a message yet, and tells a slow machine from a broken one.
//!
//! Time alone can't tell them apart: on a busy host QEMU may get so little of the CPUs that a start takes minutes. So the
//! limits are on the CPU time that QEMU used, and on the time in which it had nothing to do.

use std::fs;
use std::time::{Duration, Instant};

use nix::poll::PollTimeout;

use crate::system::stdio::complain;

/// CPU time within which a machine that was restored from a snapshot must send its first message. It usually takes some
/// hundredths of this time.
const CPU_LIMIT: Duration = Duration::from_secs(10);

/// Time without work after which a restored machine is taken for broken: its kernel hangs with interrupts off, or waits
/// for something that was not restored.
const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// Time after which pmctl prints why the command has not started yet.
const SILENT_TIME: Duration = Duration::from_secs(10);

/// Time between two looks at QEMU.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The work of QEMU's threads since their start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Work {
    /// Time on a CPU, of all threads.
    cpu_time: Duration,
    /// Time in which threads were ready to run, but waited for a CPU.
    wait_time: Duration,
    /// A thread is in uninterruptible sleep (state D) at this moment.
    sleeps_uninterruptibly: bool,
}

/// Watches QEMU from its start to its first message.
pub(super) struct StartWatch {
    process: u32,
    /// The limits apply. A machine that boots has no limits, since there is no other way to start it.
    has_limits: bool,
    start: Instant,
    last_look: Instant,
    last_work: Work,
    /// Time without work up to the last look.
    idle: Duration,
    /// The user was told that the start takes long.
    has_complained: bool,
}

impl StartWatch {
    /// Begins to watch a QEMU that has just been started. `has_limits` is for a machine that was restored.
    pub(super) fn new(process: u32, has_limits: bool) -> Self {
        let now = Instant::now();
        Self {
            process,
            has_limits,
            start: now,
            last_look: now,
            last_work: Work::default(),
            idle: Duration::ZERO,
            has_complained: false,
        }
    }

    /// Returns the time until the next look.
    pub(super) fn time_left(&self) -> PollTimeout {
        let time_left = (self.last_look + LOOK_INTERVAL).saturating_duration_since(Instant::now());
        // Rounded up to milliseconds, the unit of poll(2).
        PollTimeout::try_from(time_left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
    }

    /// Looks at QEMU if [`LOOK_INTERVAL`] has passed, and returns whether its machine is broken. Tells the user once that the
    /// start takes long.
    pub(super) fn check_is_broken(&mut self) -> bool {
        let now = Instant::now();
        if now < self.last_look + LOOK_INTERVAL {
            return false;
        }
        let work = work_of(self.process);
        self.idle = idle_time(self.idle, now - self.last_look, self.last_work, work);
        (self.last_look, self.last_work) = (now, work);
        if self.has_limits && (work.cpu_time >= CPU_LIMIT || self.idle >= IDLE_LIMIT) {
            return true;
        }
        let elapsed = now - self.start;
        if elapsed >= SILENT_TIME && !self.has_complained {
            self.has_complained = true;
            complain(format_args!(
                "the virtual machine has not started the command after {:.0} s, in which it had a CPU for {:.1} s{}",
                elapsed.as_secs_f64(),
                work.cpu_time.as_secs_f64(),
                delay_reason(elapsed, work),
            ));
        }
        false
    }
}

/// Returns the end of the sentence that says why a start takes long.
fn delay_reason(elapsed: Duration, work: Work) -> &'static str {
    if work.sleeps_uninterruptibly {
        ". It waits in uninterruptible sleep (state D), as for a disk; it goes on when the wait ends"
    } else if work.wait_time > elapsed / 2 {
        ". Other programs use the CPUs; it goes on when it gets them"
    } else {
        ""
    }
}

/// Returns for how long QEMU has been idle, after an interval in which its work grew from `before` to `after`.
fn idle_time(idle: Duration, interval: Duration, before: Work, after: Work) -> Duration {
    let busy =
        (after.cpu_time + after.wait_time).saturating_sub(before.cpu_time + before.wait_time);
    // If all times are 0, the kernel does not measure them. A halted machine still works for the ticks of its clock, so QEMU
    // is idle if it is busy for a tenth of the interval or less.
    let is_unknown = after.cpu_time + after.wait_time == Duration::ZERO;
    if is_unknown || after.sleeps_uninterruptibly || busy > interval / 10 {
        Duration::ZERO
    } else {
        // In a longer interval pmctl and QEMU were stopped, for example by Ctrl-Z.
        idle + interval.min(2 * LOOK_INTERVAL)
    }
}

/// Returns the work of all threads of a process. Values that can't be read count as no work.
fn work_of(process: u32) -> Work {
    let mut work = Work::default();
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    for thread in threads.into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
        let [cpu_time, wait_time] = run_times(&read("schedstat"));
        work.cpu_time += cpu_time;
        work.wait_time += wait_time;
        work.sleeps_uninterruptibly |= is_uninterruptible(&read("stat"));
    }
    work
}

/// Parses a file `schedstat`: the time on a CPU and the time of waiting for one, in nanoseconds (Linux,
/// Documentation/scheduler/sched-stats.rst).
fn run_times(text: &str) -> [Duration; 2] {
    let mut times = text.split_whitespace().map(|word| word.parse().ok());
    [(); 2].map(|()| Duration::from_nanos(times.next().flatten().unwrap_or(0)))
}

/// Returns whether the thread of a file `stat` is in uninterruptible sleep (state D), for example while it waits for a disk.
/// The state follows the name, which is in parentheses and may itself contain parentheses.
fn is_uninterruptible(text: &str) -> bool {
    text.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('D'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn work(cpu_ms: u64, wait_ms: u64) -> Work {
        Work {
            cpu_time: Duration::from_millis(cpu_ms),
            wait_time: Duration::from_millis(wait_ms),
            sleeps_uninterruptibly: false,
        }
    }

    #[test]
    fn a_process_that_waits_for_a_cpu_is_not_idle() {
        let starved = idle_time(3 * SECOND, SECOND, work(10, 0), work(12, 990));
        assert_eq!(starved, Duration::ZERO);
    }

    #[test]
    fn a_process_that_waits_for_a_disk_is_not_idle() {
        let after = Work {
            sleeps_uninterruptibly: true,
            ..work(10, 0)
        };
        assert_eq!(
            idle_time(3 * SECOND, SECOND, work(10, 0), after),
            Duration::ZERO
        );
    }

    #[test]
    fn a_time_without_looks_is_not_idle() {
        let stopped = idle_time(Duration::ZERO, 60 * SECOND, work(500, 0), work(500, 0));
        assert_eq!(stopped, 2 * SECOND);
    }

    #[test]
    fn unknown_work_is_not_idle() {
        let unknown = idle_time(3 * SECOND, SECOND, work(0, 0), work(0, 0));
        assert_eq!(unknown, Duration::ZERO);
    }

    #[test]
    fn idle_intervals_add_up() {
        let halted = idle_time(3 * SECOND, SECOND, work(500, 0), work(510, 3));
        assert_eq!(halted, 4 * SECOND);
    }

    #[test]
    fn the_files_of_this_process_are_understood() {
        let here = work_of(std::process::id());
        assert!(here.cpu_time > Duration::ZERO, "{here:?}");
        assert!(!is_uninterruptible("1 (a) D) x) S 0 1"));
        assert!(is_uninterruptible("1 (a) x) D 0 1"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts with [the kernel's own events](crate::events::software) beside them.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::errno::Errno;
use perfmon::spec::EventSpec;
use perfmon::{Encoding, EventSelect, Modes};
use perfmon_core::logic::event_attr::{self as attr, PerfEventAttr};
use zerocopy::IntoBytes;

use super::Column;
use super::scope::Scope;
use super::source::{ColumnCount, CountSource, Counts, Uncounted};
use crate::args::Stat;
use crate::events::modes;
use crate::events::perf_event::{ioctl, open};
use crate::events::software::Software;
use crate::events::threads::TaskList;
use crate::system::exit::Usage;

/// Refuses what is of a part of the machine, or of several runs.
pub(super) fn refuse_the_impossible(
    args: &Stat,
    events: &[Software],
    parts: usize,
) -> Result<(), Usage> {
    let Some(event) = events.first() else {
        return Ok(());
    };
    let refused = [
        (args.no_aggr, "-A"),
        (args.per_core, "--per-core"),
        (args.per_socket, "--per-socket"),
        (args.per_thread, "--per-thread"),
        (parts > 1, "-M"),
    ];
    match refused.iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(Usage(format!(
            "{option}: {} is counted by the kernel, as one number. Leave out one of the two, or count them in another run.",
            event.name
        ))),
        None => Ok(()),
    }
}

fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The kernel's events beside what counts otherwise.
pub(super) struct WithSoftware {
    counts: Box<dyn CountSource>,
    events: Vec<Software>,
    /// The tasks and the CPUs to count, -1 for all; the command, if there are none.
    targets: Vec<(i32, i32)>,
    /// The threads that are counted, if they are asked for.
    asked: Option<TaskList>,
    inherit: bool,
    from_exec: bool,
    /// The descriptors of each event, one for each of its targets.
    open: Vec<Vec<File>>,
}

impl WithSoftware {
    pub(super) fn new(
        args: &Stat,
        events: Vec<Software>,
        (scope, online): (&Scope, &[usize]),
        counts: Box<dyn CountSource>,
    ) -> Self {
        let number = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
        let targets: Vec<(i32, i32)> = match scope {
            // Which threads there are is seen when they are opened; beside cgroups there are none.
            Scope::Command | Scope::Tasks { .. } | Scope::Cgroups { .. } => Vec::new(),
            Scope::Cpus { only, .. } => match only {
                Some(cpus) => cpus.iter().map(|cpu| (-1, signed(cpu))).collect(),
                None => online.iter().map(|cpu| (-1, number(*cpu))).collect(),
            },
        };
        let asked = match scope {
            Scope::Tasks { asked, .. } => Some(asked.clone()),
            Scope::Command | Scope::Cpus { .. } | Scope::Cgroups { .. } => None,
        };
        let wanted = modes::from_options(args.all_user, args.all_kernel);
        let events = events.into_iter().map(|event| event.in_modes(wanted));
        Self {
            counts,
            events: events.collect(),
            from_exec: matches!(scope, Scope::Command) && args.delay().is_none(),
            inherit: !args.no_inherit && !matches!(scope, Scope::Cpus { .. }),
            targets,
            asked,
            open: Vec::new(),
        }
    }

    /// Opens all events for these targets. What was open before is closed.
    fn open_anew(&mut self, targets: &[(i32, i32)]) -> Result<()> {
        self.open.clear();
        for index in 0..self.events.len() {
            let mut opened = self.open(self.events[index], targets);
            let is_forbidden = matches!(opened, Err(Errno::EACCES | Errno::EPERM));
            if is_forbidden && self.events[index].modes == Modes::Both {
                // As perf: what the kernel does for a task is not for everyone.
                for event in &mut self.events {
                    *event = event.in_modes(Modes::User);
                }
                opened = self.open(self.events[index], targets);
            }
            let opened = opened.with_context(|| {
                format!(
                    "the kernel does not count {} here. Count it as root, or leave it out",
                    self.events[index].label()
                )
            })?;
            self.open.push(opened);
        }
        Ok(())
    }

    /// Opens an event for each target.
    fn open(&self, event: Software, targets: &[(i32, i32)]) -> Result<Vec<File>, Errno> {
        let attr = self.attr(event);
        let files = targets
            .iter()
            .map(|(task, cpu)| open(&attr, *task, *cpu).map(File::from))
            // A thread that ended meanwhile has nothing to count.
            .filter(|file| !(targets.len() > 1 && matches!(file, Err(Errno::ESRCH))));
        files.collect()
    }

    /// Returns a `struct perf_event_attr` of the first size.
    fn attr(&self, event: Software) -> Vec<u8> {
        let modes = event.modes;
        let flags = [
            (true, PerfEventAttr::DISABLED),
            (self.inherit, PerfEventAttr::INHERIT),
            (modes == Modes::Kernel, PerfEventAttr::EXCLUDE_USER),
            (modes == Modes::User, PerfEventAttr::EXCLUDE_KERNEL),
            (self.from_exec, PerfEventAttr::ENABLE_ON_EXEC),
        ];
        let flags = flags.iter().filter(|(set, _)| *set);
        let attr = PerfEventAttr {
            type_: attr::PERF_TYPE_SOFTWARE,
            size: PerfEventAttr::SIZE_VER0,
            config: event.number,
            read_format: attr::PERF_FORMAT_TOTAL_TIME_ENABLED
                | attr::PERF_FORMAT_TOTAL_TIME_RUNNING,
            flags: flags.fold(0, |all, (_, flag)| all | flag),
            ..PerfEventAttr::ZERO
        };
        attr.as_bytes()[..attr.size as usize].to_vec()
    }

    fn for_each_file(&self, call: impl Fn(&File) -> nix::Result<i32>) -> Result<()> {
        for file in self.open.iter().flatten() {
            call(file).context("can't start or stop an event of the kernel's")?;
        }
        Ok(())
    }
}

impl CountSource for WithSoftware {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        self.counts.prepare(command)?;
        let task = |tid| (signed(tid), -1);
        match (self.asked.clone(), command) {
            (Some(asked), _) => asked.open_for_all(|threads| {
                let targets = threads.iter().map(|thread| task(thread.tid));
                self.open_anew(&targets.collect::<Vec<_>>())
            }),
            (None, Some(command)) if self.targets.is_empty() => self.open_anew(&[task(command)]),
            (None, _) => self.open_anew(&self.targets.clone()),
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.counts.columns();
        let first = columns.len();
        let events = self.events.iter().zip(first..);
        columns.extend(events.map(|(event, number)| Column {
            place: None,
            number,
            // No counter counts it: only the name is used.
            event: EventSpec {
                encoding: Some(Encoding::Raw(EventSelect::fixed())),
                missing: None,
                ..EventSpec::absent(event.label(), "")
            },
            counter: None,
            unit: event.unit,
        }));
        columns
    }

    fn start(&mut self) -> Result<()> {
        if !self.from_exec {
            // SAFETY: It takes a descriptor, which is open, and no memory.
            self.for_each_file(|file| unsafe { ioctl::enable(file.as_raw_fd(), 0) })?;
        }
        self.counts.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counts.stop()?;
        // SAFETY: It takes a descriptor, which is open, and no memory.
        self.for_each_file(|file| unsafe { ioctl::disable(file.as_raw_fd(), 0) })
    }

    fn read(&self, elapsed: Duration) -> Result<Counts> {
        let mut counts = self.counts.read(elapsed)?;
        if self.uncounted()?.is_some() {
            // The kernel's events leave a task where the driver's do.
            counts.extend(self.open.iter().map(|_| None));
            return Ok(counts);
        }
        for files in &self.open {
            let mut sum = ColumnCount::default();
            for mut file in files {
                let mut bytes = [0; 24];
                file.read_exact(&mut bytes)
                    .context("can't read an event of the kernel's")?;
                let word = |index: usize| {
                    let mut word = [0; 8];
                    word.copy_from_slice(&bytes[index * 8..][..8]);
                    u64::from_ne_bytes(word)
                };
                // Word 1 is how long it was enabled, which is the same: it never waits for a counter.
                let ran = Duration::from_nanos(word(2));
                sum = sum.plus(ColumnCount::whole(word(0), ran));
            }
            counts.push(Some(sum));
        }
        Ok(counts)
    }

    fn uncounted(&self) -> Result<Option<Uncounted>> {
        self.counts.uncounted()
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds [software events](crate::events::software), which the kernel counts itself, to a source of counts.

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

/// Refuses options that split the counts by place, or that need several runs.
pub(super) fn refuse_impossible_options(
    args: &Stat,
    events: &[Software],
    runs_per_count: usize,
) -> Result<(), Usage> {
    let Some(event) = events.first() else {
        return Ok(());
    };
    let refused = [
        (args.no_aggr, "-A"),
        (args.per_core, "--per-core"),
        (args.per_socket, "--per-socket"),
        (args.per_thread, "--per-thread"),
        (runs_per_count > 1, "-M"),
    ];
    match refused.iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(Usage(format!(
            "{option}: the kernel counts {} as a single number. Leave out the option or the event, or count them in \
             two runs.",
            event.name
        ))),
        None => Ok(()),
    }
}

fn to_i32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Software events, and the source that counts the other events.
pub(super) struct WithSoftware {
    counts: Box<dyn CountSource>,
    events: Vec<Software>,
    /// Pairs of a task and a CPU to count, -1 for all. Empty for a command, or for `task_list`.
    targets: Vec<(i32, i32)>,
    /// The processes and threads of -p and -t.
    task_list: Option<TaskList>,
    inherit: bool,
    from_exec: bool,
    /// The descriptors of each event, one for each of its targets.
    open_files: Vec<Vec<File>>,
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
            // Threads are looked up when the events are opened. Cgroups can't be counted with software events.
            Scope::Command | Scope::Tasks { .. } | Scope::Cgroups { .. } => Vec::new(),
            Scope::Cpus { chosen_cpus, .. } => match chosen_cpus {
                Some(cpus) => cpus.iter().map(|cpu| (-1, to_i32(cpu))).collect(),
                None => online.iter().map(|cpu| (-1, number(*cpu))).collect(),
            },
        };
        let task_list = match scope {
            Scope::Tasks { task_list, .. } => Some(task_list.clone()),
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
            task_list,
            open_files: Vec::new(),
        }
    }

    /// Closes the open events, and opens all events for these targets.
    fn reopen(&mut self, targets: &[(i32, i32)]) -> Result<()> {
        self.open_files.clear();
        for index in 0..self.events.len() {
            let mut opened = self.open_event(self.events[index], targets);
            let is_forbidden = matches!(opened, Err(Errno::EACCES | Errno::EPERM));
            if is_forbidden && self.events[index].modes == Modes::Both {
                // Counts user mode only, as perf does for users that may not count the kernel.
                for event in &mut self.events {
                    *event = event.in_modes(Modes::User);
                }
                opened = self.open_event(self.events[index], targets);
            }
            let opened = opened.with_context(|| {
                format!(
                    "the kernel refuses to count {}. Count it as root, or leave it out",
                    self.events[index].label()
                )
            })?;
            self.open_files.push(opened);
        }
        Ok(())
    }

    /// Opens an event for each target.
    fn open_event(&self, event: Software, targets: &[(i32, i32)]) -> Result<Vec<File>, Errno> {
        let attr = self.attr(event);
        let files = targets
            .iter()
            .map(|(task, cpu)| open(&attr, *task, *cpu).map(File::from))
            // Leaves out a thread that has ended meanwhile.
            .filter(|file| !(targets.len() > 1 && matches!(file, Err(Errno::ESRCH))));
        files.collect()
    }

    /// Returns a `struct perf_event_attr` of its first size, `PERF_ATTR_SIZE_VER0`.
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
        for file in self.open_files.iter().flatten() {
            call(file).context("can't start or stop a software event")?;
        }
        Ok(())
    }
}

impl CountSource for WithSoftware {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        self.counts.prepare(command)?;
        let task = |tid| (to_i32(tid), -1);
        match (self.task_list.clone(), command) {
            (Some(task_list), _) => task_list.open_for_all(|threads| {
                let targets = threads.iter().map(|thread| task(thread.tid));
                self.reopen(&targets.collect::<Vec<_>>())
            }),
            (None, Some(command)) if self.targets.is_empty() => self.reopen(&[task(command)]),
            (None, _) => self.reopen(&self.targets.clone()),
        }
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.counts.columns();
        let first = columns.len();
        let events = self.events.iter().zip(first..);
        columns.extend(events.map(|(event, event_index)| Column {
            place: None,
            event_index,
            // The encoding only marks the event as present: no counter counts it.
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
            // SAFETY: PERF_EVENT_IOC_ENABLE accesses no memory of the caller, and `file` keeps the descriptor open.
            self.for_each_file(|file| unsafe { ioctl::enable(file.as_raw_fd(), 0) })?;
        }
        self.counts.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counts.stop()?;
        // SAFETY: PERF_EVENT_IOC_DISABLE accesses no memory of the caller, and `file` keeps the descriptor open.
        self.for_each_file(|file| unsafe { ioctl::disable(file.as_raw_fd(), 0) })
    }

    fn read(&self, elapsed: Duration) -> Result<Counts> {
        let mut counts = self.counts.read(elapsed)?;
        if self.uncounted()?.is_some() {
            // Software events stop counting a task at the same exec as the driver's events, so their counts are missing, too.
            counts.extend(self.open_files.iter().map(|_| None));
            return Ok(counts);
        }
        for files in &self.open_files {
            let mut sum = ColumnCount::default();
            for mut file in files {
                let mut bytes = [0; 24];
                file.read_exact(&mut bytes)
                    .context("can't read a software event")?;
                let word = |index: usize| {
                    let mut word = [0; 8];
                    word.copy_from_slice(&bytes[index * 8..][..8]);
                    u64::from_ne_bytes(word)
                };
                // Word 1 is the enabled time. It equals the running time: a software event never waits for a counter.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds [software events](crate::events::software), which the kernel counts itself, to a source of counts.

use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use nix::errno::Errno;
use perfmon::{Cause, Device, Event, Modes};
use perfmon_core::logic::event_attr::{self as attr, PerfEventAttr};

use super::source::{ColumnCount, CountSource, Reasons, Summands, Uncounted};
use crate::args::Stat;
use crate::commands::stat::column::Column;
use crate::commands::stat::scope::Scope;
use crate::commands::stat::unit::ColumnUnit;
use crate::events::modes;
use crate::events::perf_event::CountingEvent;
use crate::events::software::Software;
use crate::events::threads::TaskList;
use crate::system::exit::{self, Usage};

/// Refuses options that split the counts by place, or that need several runs.
pub(in crate::commands::stat) fn refuse_impossible_options(
    args: &Stat,
    events: &[Software],
    runs_per_count: usize,
) -> Result<(), Usage> {
    let Some(event) = events.first() else {
        return Ok(());
    };
    match args.splitting_option(runs_per_count) {
        Some(option) => Err(Usage(format!(
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

/// Returns the error for an event, named `label`, that could not be opened.
fn open_error(errno: Errno, label: &str) -> anyhow::Error {
    match errno {
        Errno::EMFILE | Errno::ENFILE => exit::no_descriptor(&format!("can't count {label}")),
        Errno::ESRCH => {
            let cause = Cause::NoSuchTask;
            let help = cause.help().unwrap_or_default();
            anyhow!("can't count {label}: {cause}\n{help}")
        }
        errno => Error::from(errno).context(format!(
            "the kernel refuses to count {label}. Count it as root, or leave it out"
        )),
    }
}

/// Software events, and the source that counts the other events.
pub(in crate::commands::stat) struct WithSoftware {
    counts: Box<dyn CountSource>,
    events: Vec<Software>,
    /// Pairs of a task and a CPU to count; -1 stands for all. Empty for a command and with
    /// `task_list`: their tasks are known only when the events are opened.
    targets: Vec<(i32, i32)>,
    /// The processes and threads of -p and -t.
    task_list: Option<TaskList>,
    inherit: bool,
    begins_at_exec: bool,
    /// The descriptors of each event, one for each of its targets.
    open_events: Vec<Vec<CountingEvent>>,
    /// The driver's dummy events, which count nothing, one for each task. When a task executes a setuid program, for
    /// example, the kernel's events and the driver's events leave the task, but only the driver reports that.
    exec_watchers: Vec<Event>,
}

impl WithSoftware {
    pub(in crate::commands::stat) fn new(
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
        let wanted_modes = modes::from_options(args.all_user, args.all_kernel);
        let events = events.into_iter().map(|event| event.in_modes(wanted_modes));
        Self {
            counts,
            events: events.collect(),
            begins_at_exec: matches!(scope, Scope::Command) && args.delay().is_none(),
            inherit: !args.no_inherit && !matches!(scope, Scope::Cpus { .. }),
            targets,
            task_list,
            open_events: Vec::new(),
            exec_watchers: Vec::new(),
        }
    }

    /// Closes the open events, and opens all events for these targets.
    fn reopen(&mut self, targets: &[(i32, i32)]) -> Result<()> {
        self.open_events.clear();
        for index in 0..self.events.len() {
            if self.events[index].missing_reason().is_some() {
                self.open_events.push(Vec::new());
                continue;
            }
            let result = self.open_event(self.events[index], targets);
            let is_forbidden = matches!(result, Err(Errno::EACCES | Errno::EPERM));
            if is_forbidden && self.events[index].in_modes(Modes::User) != self.events[index] {
                // Counts user mode only, as perf does for users that may not count the kernel.
                for event in &mut self.events {
                    *event = event.in_modes(Modes::User);
                }
                return self.reopen(targets);
            }
            let label = self.events[index].label();
            self.open_events
                .push(result.map_err(|errno| open_error(errno, &label))?);
        }
        self.watch_execs(targets)
    }

    /// Opens a dummy event of the driver for each target that is a task.
    fn watch_execs(&mut self, targets: &[(i32, i32)]) -> Result<()> {
        self.exec_watchers.clear();
        let mut tids = targets
            .iter()
            .filter_map(|(task, _)| u32::try_from(*task).ok())
            .peekable();
        if tids.peek().is_none() {
            return Ok(());
        }
        let device = Device::open().map_err(exit::with_help)?;
        for tid in tids {
            let watcher = Event::dummy().user().pid(tid).disabled();
            let watcher = if self.inherit {
                watcher.inherit()
            } else {
                watcher
            };
            match watcher.open_on(&device) {
                Ok(watcher) => self.exec_watchers.push(watcher),
                // One of several threads has ended meanwhile, as in `open_event`.
                Err(error) if error.cause == Cause::NoSuchTask && targets.len() > 1 => {}
                Err(error) => return Err(exit::with_help(error)),
            }
        }
        Ok(())
    }

    /// Opens an event for each target. A thread that ended meanwhile has nothing to count.
    ///
    /// # Errors
    /// The first error other than ESRCH; ESRCH if all threads have ended.
    fn open_event(
        &self,
        event: Software,
        targets: &[(i32, i32)],
    ) -> Result<Vec<CountingEvent>, Errno> {
        let attr = self.attr(event);
        let files = targets
            .iter()
            .map(|(task, cpu)| CountingEvent::open(attr, *task, *cpu))
            .filter(|file| !matches!(file, Err(Errno::ESRCH)));
        let files: Vec<CountingEvent> = files.collect::<Result<_, _>>()?;
        if files.is_empty() {
            return Err(Errno::ESRCH);
        }
        Ok(files)
    }

    /// Returns the structure that opens an event.
    fn attr(&self, event: Software) -> PerfEventAttr {
        let modes = event.modes;
        // A clock has the same count with and without kernel mode, but only users who may count the kernel may include
        // that mode.
        let excludes_kernel = modes == Modes::User || (event.is_clock() && modes == Modes::Both);
        let flags = [
            (self.inherit, PerfEventAttr::INHERIT),
            (modes == Modes::Kernel, PerfEventAttr::EXCLUDE_USER),
            (excludes_kernel, PerfEventAttr::EXCLUDE_KERNEL),
            (self.begins_at_exec, PerfEventAttr::ENABLE_ON_EXEC),
        ];
        let flags = flags.iter().filter(|(set, _)| *set);
        PerfEventAttr {
            type_: attr::PERF_TYPE_SOFTWARE,
            config: event.number,
            flags: flags.fold(0, |all, (_, flag)| all | flag),
            ..PerfEventAttr::ZERO
        }
    }

    /// Returns whether a counted task has executed a program that must not be counted.
    fn has_left_program(&self) -> Result<bool> {
        for watcher in &self.exec_watchers {
            if watcher.tasks_not_followed().map_err(exit::with_help)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn for_each_open(&self, call: fn(&CountingEvent) -> nix::Result<()>) -> Result<()> {
        for event in self.open_events.iter().flatten() {
            call(event).context("can't start or stop an event of the kernel's")?;
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
        let first_index = columns.len();
        let events = self.events.iter().zip(first_index..);
        columns.extend(events.map(|(event, index)| {
            let unit = event.unit.map(ColumnUnit::Known);
            match event.missing_reason() {
                Some(reason) => Column::of_missing(index, &event.label(), reason),
                None => Column::of_linux(index, event.label(), None, unit),
            }
        }));
        columns
    }

    fn start(&mut self) -> Result<()> {
        if !self.begins_at_exec {
            self.for_each_open(CountingEvent::enable)?;
        }
        self.counts.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counts.stop()?;
        self.for_each_open(CountingEvent::disable)
    }

    fn read(&self, elapsed: Duration) -> Result<Summands> {
        let mut counts = self.counts.read(elapsed)?;
        if self.has_left_program()? {
            // Software events stop counting a task at the same exec as the driver's events, so their counts are missing, too.
            counts.extend(self.open_events.iter().map(|_| None));
            return Ok(counts);
        }
        for opened in &self.open_events {
            if opened.is_empty() {
                counts.push(None);
                continue;
            }
            let mut sum = ColumnCount::default();
            for event in opened {
                let reading = event
                    .read()
                    .context("can't read an event of the kernel's")?;
                // The event is not pinned, so it always has a count.
                let reading = reading.context("an event of the kernel's has no count")?;
                let running_time = Duration::from_nanos(reading.running);
                sum = sum.plus(ColumnCount::whole(reading.count, running_time));
            }
            counts.push(Some(vec![sum]));
        }
        Ok(counts)
    }

    fn uncounted_reasons(&self) -> Result<Reasons> {
        let mut reasons = self.counts.uncounted_reasons()?;
        let reason = self.has_left_program()?.then_some(Uncounted::LeftProgram);
        reasons.extend(self.events.iter().map(|_| reason));
        Ok(reasons)
    }
}

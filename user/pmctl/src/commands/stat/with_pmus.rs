// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts with [events of Linux's other PMUs](crate::events::linux_pmu) beside them.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::errno::Errno;
use perfmon_core::logic::event_attr::PerfEventAttr;

use super::Column;
use super::scope::{self, CountedPlace, CpuSplit};
use super::source::{ColumnCount, CountSource, Summands, Uncounted};
use super::unit::ColumnUnit;
use crate::args::Stat;
use crate::events::cpus::Cpus;
use crate::events::linux_pmu::{Encoding, PmuEvent};
use crate::events::perf_event::CountingEvent;
use crate::events::rights;
use crate::system::exit::Usage;

/// Refuses what is no count of CPUs, or of several runs, or of CPUs that such an event is not read on.
pub(super) fn refuse_impossible_options(
    args: &Stat,
    events: &[PmuEvent],
    parts: usize,
) -> Result<(), Usage> {
    let Some(PmuEvent { label, pmu, .. }) = events.first() else {
        return Ok(());
    };
    if !args.has_cpus() {
        let what = match events[0].cpus() {
            Some(_) => "counts for a whole socket or the whole machine, whatever runs there",
            None => "is counted by Linux, which pmctl asks for whole CPUs",
        };
        return Err(Usage(format!(
            "-e {label}: `{pmu}` {what}; a command or a process has no count of its own.\n\
             Count the whole system, also while a command runs: `pmctl stat -a -e {label} -- COMMAND`."
        )));
    }
    if parts > 1 {
        return Err(Usage(format!(
            "-M, -r: {label} is counted once, and the other events take {parts} runs. Leave out one of the two, or count \
             fewer events."
        )));
    }
    for event in events {
        let (Some(only), Some(there)) = (&args.cpu, event.cpus()) else {
            continue;
        };
        if only.in_common(&there).len() == 0 {
            return Err(Usage(format!(
                "-C {only}: {} is read on CPU {there} only, for all others. Write `-C {there}`, or -a.",
                event.label
            )));
        }
    }
    Ok(())
}

/// Events of Linux's PMUs beside what counts otherwise.
pub(super) struct WithPmus {
    counts: Box<dyn CountSource>,
    events: Vec<PmuEvent>,
    parts: Vec<Part>,
    /// An event waits for its turn, rather than that it is always counted or not at all.
    multiplex: bool,
}

/// What a column counts.
struct Part {
    /// The index of its event.
    event: usize,
    place: Option<CountedPlace>,
    /// On which CPUs each encoding is counted.
    targets: Vec<(Encoding, Cpus)>,
    /// Empty before the first run.
    open: Vec<CountingEvent>,
}

impl WithPmus {
    /// Takes the events, which count on the CPUs of `online` that -C has, if it is there.
    pub(super) fn new(
        args: &Stat,
        events: Vec<PmuEvent>,
        online: &[usize],
        counts: Box<dyn CountSource>,
    ) -> Self {
        let wanted = scope::counted_cpus(args, online);
        let split = CpuSplit::of(args);
        let mut parts = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let on = |encoding: &Encoding| match &encoding.cpus {
                Some(there) => there.in_common(&wanted),
                None => wanted.clone(),
            };
            let all: Vec<(Encoding, Cpus)> = event
                .encodings
                .iter()
                .map(|encoding| (encoding.clone(), on(encoding)))
                .collect();
            let part = |place, targets| Part {
                event: index,
                place,
                targets,
                open: Vec::new(),
            };
            let Some(split) = split else {
                parts.push(part(None, all));
                continue;
            };
            let cpus = Cpus::new(all.iter().flat_map(|(_, cpus)| cpus.iter()).collect());
            let cpus: Vec<usize> = cpus.iter().map(|cpu| cpu as usize).collect();
            for (place, cpus) in scope::split_cpus(&cpus, split) {
                let of_place =
                    |(encoding, on): &(Encoding, Cpus)| (encoding.clone(), on.in_common(&cpus));
                parts.push(part(Some(place), all.iter().map(of_place).collect()));
            }
        }
        Self {
            counts,
            events,
            parts,
            multiplex: args.multiplex,
        }
    }

    /// Opens the events of a part.
    fn open(&self, part: &Part) -> Result<Vec<CountingEvent>> {
        let PmuEvent { label, pmu, .. } = &self.events[part.event];
        let mut open = Vec::new();
        for (encoding, cpus) in &part.targets {
            let [config, config1, config2, config3, config4] = encoding.configs;
            let attr = PerfEventAttr {
                type_: encoding.number,
                config,
                config1,
                config2,
                config3,
                config4,
                // It always has a counter, or none and no count.
                flags: if self.multiplex {
                    0
                } else {
                    PerfEventAttr::PINNED
                },
                ..PerfEventAttr::ZERO
            };
            for cpu in cpus.iter() {
                const ALL_TASKS: i32 = -1;
                let number = i32::try_from(cpu).unwrap_or(i32::MAX);
                let event = CountingEvent::open(attr, ALL_TASKS, number);
                open.push(event.map_err(|errno| match errno {
                    Errno::EACCES | Errno::EPERM => anyhow!(rights::of_all_programs("count")),
                    errno => anyhow!(
                        "Linux's PMU `{pmu}` can't count {label} on CPU {cpu}: {}.\n`pmctl list pmus {pmu}` shows its \
                         events and fields.",
                        errno.desc()
                    ),
                })?);
            }
        }
        Ok(open)
    }

    fn for_each_open(&self, call: fn(&CountingEvent) -> nix::Result<()>) -> Result<()> {
        for event in self.parts.iter().flat_map(|part| &part.open) {
            call(event).context("can't start or stop an event of Linux's")?;
        }
        Ok(())
    }

    /// Returns the counts of a part; `None` if Linux had no counter for one.
    fn read_part(part: &Part) -> Result<Option<Vec<ColumnCount>>> {
        let mut counts = Vec::new();
        for event in &part.open {
            let read = event.read().context("can't read an event of Linux's")?;
            let Some(read) = read else {
                return Ok(None);
            };
            counts.push(ColumnCount {
                value: read.count,
                ran: Duration::from_nanos(read.running),
                enabled: Duration::from_nanos(read.enabled),
            });
        }
        Ok(Some(counts))
    }
}

impl CountSource for WithPmus {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        self.counts.prepare(command)?;
        for index in 0..self.parts.len() {
            // Those of the run before are closed first: their counters are needed again.
            self.parts[index].open.clear();
        }
        for index in 0..self.parts.len() {
            self.parts[index].open = self.open(&self.parts[index])?;
        }
        Ok(())
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.counts.columns();
        let first = columns
            .iter()
            .map(|column| column.event_index + 1)
            .max()
            .unwrap_or(0);
        columns.extend(self.parts.iter().map(|part| {
            let event = &self.events[part.event];
            Column::of_linux(
                first + part.event,
                event.label.clone(),
                part.place.clone(),
                event.scale.clone().map(ColumnUnit::Scaled),
            )
        }));
        columns
    }

    fn start(&mut self) -> Result<()> {
        self.for_each_open(CountingEvent::enable)?;
        self.counts.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counts.stop()?;
        self.for_each_open(CountingEvent::disable)
    }

    fn read(&self, elapsed: Duration) -> Result<Summands> {
        let mut counts = self.counts.read(elapsed)?;
        for part in &self.parts {
            counts.push(Self::read_part(part)?);
        }
        Ok(counts)
    }

    fn uncounted(&self) -> Result<Option<Uncounted>> {
        if let Some(reason) = self.counts.uncounted()? {
            return Ok(Some(reason));
        }
        for part in &self.parts {
            if Self::read_part(part)?.is_none() {
                return Ok(Some(Uncounted::NoPmuCounter));
            }
        }
        Ok(None)
    }
}

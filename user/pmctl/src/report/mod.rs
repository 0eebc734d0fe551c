// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl report`: shows which programs and functions the samples are of, as tables.

mod branches;
mod callers;
mod nameless;
mod packages;
mod table;

use std::io::Write;
use std::slice;

use ahash::AHashMap;
use anyhow::Result;

use crate::cli::{Key, Report};
use crate::exit::Usage;
use crate::perfdata::{self, Recording, is_kernel};
use crate::profile::{self, Details, File, Frame, Name, Named, Names, number};
use crate::screen::Screen;
use crate::text::{count, printable, thousands};
use callers::Tree;
use nameless::Nameless;
use table::{Align, Table};

/// Prints a table for each event, or the one of the branches.
pub(crate) fn report(args: &Report, output: &mut Screen) -> Result<()> {
    let recording = profile::open(&args.input.input)?;
    if args.branches && !recording.parts().branches {
        return Err(Usage(
            "--branches: no branches were recorded. `pmctl record -b` does.".to_owned(),
        )
        .into());
    }
    if (args.children || args.graph().is_some()) && !recording.parts().chain {
        return Err(Usage(
            "-g, --children: no call chains were recorded. `pmctl record -g` does.".to_owned(),
        )
        .into());
    }
    let host = &recording.host;
    let name = match &host.name[..] {
        // The kernel's word for a host without a name.
        "" | "(none)" => String::new(),
        name => format!(" on {}", printable(name)),
    };
    write!(
        output,
        "Recorded: {}{name}",
        printable(&recording.notes.scope)
    )?;
    // The end of the file has it.
    if !recording.unfinished {
        let cpus = count(host.cpus_online, "CPU");
        write!(output, " (Linux {}, {cpus})", printable(&host.release))?;
    }
    writeln!(output)?;
    perfdata::warn(&recording.notes, output.colors, output)?;
    if args.branches {
        return branches::write(&recording, args, output);
    }
    let wants_details = args.inline || args.sort.contains(&Key::Srcline);
    let details = wants_details.then(|| Details::new(&recording));
    let (tables, nameless) = shares(&recording, args, details.as_ref())?;
    if let Some(details) = &details {
        details.write_warnings(output.colors, output)?;
    }
    if args.sort.contains(&Key::Symbol) || args.graph().is_some() {
        nameless.write(&recording, output)?;
    }
    for (index, shares) in tables.iter().enumerate() {
        writeln!(output)?;
        write_event(&recording, (index, shares), args, output)?;
    }
    Ok(())
}

/// Event count and samples of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Share {
    /// Of samples in the function itself.
    events: u64,
    samples: u64,
    /// With those of what it calls.
    children: u64,
    callers: Tree,
}

impl Share {
    fn add(&mut self, other: Self) {
        self.events = self.events.saturating_add(other.events);
        self.samples += other.samples;
        self.children = self.children.saturating_add(other.children);
        self.callers.add(other.callers);
    }
}

/// The shares of an event by the texts of the rows.
type Shares = AHashMap<Vec<String>, Share>;

/// Key of a row, as numbers: these are compared for each sample, while texts are made for each row only. Rows with
/// different keys can have the same text, as functions of one name do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct RowId {
    event: usize,
    comm: Option<Name>,
    idle: bool,
    pid: u32,
    tid: u32,
    function: (Option<File>, Option<u64>),
    kernel: bool,
    cpu: u32,
    inlined: Option<u32>,
    line: Option<u32>,
}

impl RowId {
    /// Returns the row of a sample, or of a function in its call chain.
    fn new(keys: &[Key], named: &Named<'_>, frame: &Frame<'_>, names: &Names<'_>) -> Self {
        let mut id = Self {
            event: named.sample.event,
            ..Self::default()
        };
        for key in keys {
            match key {
                Key::Comm => {
                    id.comm = names.name(named.stamp.task);
                    // It has a name without being told one.
                    id.idle = named.stamp.task.pid == 0;
                }
                Key::Pid => id.pid = named.stamp.task.pid,
                Key::Tid => id.tid = named.stamp.task.tid,
                Key::Dso => id.function.0 = frame.site.number(),
                Key::Symbol => {
                    id.function = frame.site.function();
                    id.kernel = is_kernel(frame.address);
                    id.inlined = frame.inlined.as_ref().map(|name| name.number);
                }
                Key::Srcline => id.line = frame.line.as_ref().map(|line| line.number),
                Key::Cpu => id.cpu = named.stamp.cpu,
            }
        }
        id
    }
}

/// Adds up the samples of each event by row.
fn shares(
    recording: &Recording,
    args: &Report,
    details: Option<&Details<'_>>,
) -> Result<(Vec<Shares>, Nameless)> {
    let keys = &args.sort[..];
    let mut nameless = Nameless::default();
    let mut rows: AHashMap<RowId, (Vec<String>, Share)> = AHashMap::new();
    let graph = args.graph();
    let wants_chain = args.children || graph.is_some();
    let has_lines = keys.contains(&Key::Srcline);
    let limit = if wants_chain {
        args.max_stack.max(1)
    } else {
        1
    };
    let mut taken = Vec::new();
    profile::each_sample(recording, |named, names| {
        let events = named.sample.period;
        nameless.take(named);
        let (alone, all);
        let chain = match details {
            Some(details) => {
                all = names.detailed_chain(named, details, (args.inline, limit));
                &all[..]
            }
            None if wants_chain => {
                all = names.chain(named).take(limit).collect();
                &all[..]
            }
            None => {
                alone = Frame::of_sample(named);
                slice::from_ref(&alone)
            }
        };
        // A function has the samples of what was inlined into it, as with perf; but not their lines.
        let own = chain
            .iter()
            .position(|frame| has_lines || frame.inlined.is_none());
        let own = own.unwrap_or(0);
        taken.clear();
        let first = if args.children { 0 } else { own };
        let last = if args.children { chain.len() } else { own + 1 };
        for (index, frame) in chain[..last].iter().enumerate().skip(first) {
            let id = RowId::new(keys, named, frame, names);
            let (_, share) = rows.entry(id).or_insert_with(|| {
                let text = |key: &Key| text(*key, named, frame, names);
                (keys.iter().map(text).collect(), Share::default())
            });
            if index == own {
                share.events = share.events.saturating_add(events);
                share.samples += 1;
            }
            // A function that calls itself has the sample once.
            if taken.contains(&id) {
                continue;
            }
            taken.push(id);
            share.children = share.children.saturating_add(events);
            if let Some(graph) = graph {
                let path = callers::path(graph.order, chain, (index, args.children));
                share.callers.take(path, events);
            }
        }
        Ok(())
    })?;
    let mut tables = vec![Shares::new(); recording.events.len()];
    for (id, (cells, share)) in rows {
        tables[id.event].entry(cells).or_default().add(share);
    }
    Ok((tables, nameless))
}

/// Returns the text of a key for a sample.
fn text(key: Key, named: &Named<'_>, frame: &Frame<'_>, names: &Names<'_>) -> String {
    match key {
        Key::Comm => names.comm(named.stamp.task).to_owned(),
        Key::Pid => number(named.stamp.task.pid),
        Key::Tid => number(named.stamp.task.tid),
        Key::Dso => frame.site.dso().into_owned(),
        Key::Symbol => {
            // As perf has it: which functions are the kernel's is seen at a glance.
            let mode = if is_kernel(frame.address) {
                "[k]"
            } else {
                "[.]"
            };
            format!("{mode} {}", frame.label())
        }
        Key::Srcline => frame.line().to_owned(),
        Key::Cpu => format!("{:03}", named.stamp.cpu),
    }
}

const fn heading(key: Key) -> &'static str {
    match key {
        Key::Comm => "comm",
        Key::Pid => "pid",
        Key::Tid => "tid",
        Key::Dso => "dso",
        Key::Symbol => "symbol",
        Key::Srcline => "srcline",
        Key::Cpu => "cpu",
    }
}

/// Prints the table of an event.
fn write_event(
    recording: &Recording,
    (index, shares): (usize, &Shares),
    args: &Report,
    output: &mut Screen,
) -> Result<()> {
    let events = shares.values().map(|share| share.events);
    let events = events.fold(0, u64::saturating_add);
    let samples: u64 = shares.values().map(|share| share.samples).sum();
    let style = output.colors.heading;
    writeln!(
        output,
        "{style}Samples: {} of event '{}'{style:#}",
        thousands(samples),
        printable(&recording.events[index].name),
    )?;
    writeln!(
        output,
        "Event count: {}{}",
        thousands(events),
        counted(recording, index),
    )?;
    if samples == 0 {
        return Ok(());
    }
    let mut rows: Vec<_> = shares.iter().collect();
    let size = |share: &Share| {
        if args.children {
            share.children
        } else {
            share.events
        }
    };
    rows.sort_by(|(a_row, a), (b_row, b)| size(b).cmp(&size(a)).then_with(|| a_row.cmp(b_row)));

    let mut headings = vec![("overhead", Align::Right), ("samples", Align::Right)];
    if args.children {
        headings.insert(0, ("children", Align::Right));
    }
    headings.extend(args.sort.iter().map(|key| (heading(*key), Align::Left)));
    let mut table = Table::new(&headings);
    let least = args.graph().map_or(0.0, |graph| graph.least);
    let part = |share: &Share| size(share) as f64 / events as f64;
    for (row, share) in shown(&rows, args, |(_, share)| part(share)) {
        let mut cells = vec![percent(share.events, events), thousands(share.samples)];
        if args.children {
            cells.insert(0, percent(share.children, events));
        }
        cells.extend(row.iter().cloned());
        table.row(&cells, output.colors.share(part(share)));
        table.under(share.callers.lines(events, least));
    }
    table.write(args.width, output.colors.heading, output)?;
    Ok(write_rest(rows.len() - table.len(), output)?)
}

/// Returns how often the event was counted, samples or not.
fn counted(recording: &Recording, index: usize) -> String {
    let notes = &recording.notes;
    let what = if notes.tasks_only {
        "counted"
    } else {
        "of all programs on all CPUs"
    };
    let or_more = if notes.counted_all() {
        ""
    } else {
        " or more, see LOST"
    };
    if recording.unfinished {
        return String::new();
    }
    format!("; {what}: {}{or_more}", thousands(notes.totals[index]))
}

/// Returns the rows within the limits; they must be sorted by share.
fn shown<'a, T>(rows: &'a [T], args: &Report, share: impl Fn(&T) -> f64) -> &'a [T] {
    let large = rows.partition_point(|row| share(row) * 100.0 >= args.percent_limit);
    &rows[..large.min(args.limit.unwrap_or(usize::MAX))]
}

/// Prints how many rows are not shown.
fn write_rest(rows: usize, output: &mut impl Write) -> std::io::Result<()> {
    if rows == 0 {
        return Ok(());
    }
    writeln!(output, "  ({} not shown)", count(rows as u64, "row"))
}

/// Returns a part of a whole in percent.
fn percent(part: u64, whole: u64) -> String {
    // Of nothing, nothing.
    format!("{:.2}%", part as f64 / whole.max(1) as f64 * 100.0)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a report: the sums of samples that have the same keys.

use std::io::{self, Write};
use std::{mem, slice};

use ahash::AHashMap;
use anyhow::Result;

use super::accesses::{AccessId, access_text};
use super::callers::{self, Tree};
use super::known_rows::{KnownRow, KnownRows};
use super::mode_mark::mode_mark;
use super::nameless::NamelessSamples;
use crate::args::{Key, Order, Report};
use crate::recording::address_spaces::{FileNumber, NameNumber};
use crate::recording::perfdata::{GuestMode, Recording, Stamp, is_kernel_address};
use crate::recording::profile::{
    self, Filter, Frame, NamedSample, SampleNames, SourceLines, task_number_text, with_lines,
};
use crate::recording::unwind::CutChains;
use crate::system::screen::Colors;

/// Event count and samples of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Events of the samples in the function itself.
    pub(crate) events: u64,
    pub(crate) samples: u64,
    /// Events of the samples in the function and in the functions that it calls.
    pub(crate) children: u64,
    pub(crate) callers: Tree,
}

impl Share {
    /// Adds samples in the function itself.
    fn add_own(&mut self, events: u64, samples: u64) {
        self.events = self.events.saturating_add(events);
        self.samples = self.samples.saturating_add(samples);
    }

    /// Adds samples in the function itself, or in a function that it calls.
    fn add_children(&mut self, events: u64) {
        self.children = self.children.saturating_add(events);
    }
}

/// Returns the sums of the events and of the samples of these rows.
pub(crate) fn totals<'a>(shares: impl IntoIterator<Item = &'a Share>) -> (u64, u64) {
    let mut total = Share::default();
    for share in shares {
        total.add_own(share.events, share.samples);
    }
    (total.events, total.samples)
}

/// Call chains that are cut, and files whose functions have no names.
#[derive(Debug)]
pub(crate) struct ReportGaps {
    nameless: NamelessSamples,
    cut_chains: CutChains,
}

impl ReportGaps {
    /// Writes warnings about missing callers, source lines and names, with advice.
    pub(crate) fn write_warnings(
        &self,
        recording: &Recording,
        (grouping, source_lines): (&Grouping, Option<&SourceLines<'_>>),
        colors: Colors,
        output: &mut impl Write,
    ) -> io::Result<()> {
        self.cut_chains.write(colors, output)?;
        if let Some(source_lines) = source_lines {
            source_lines.write_warnings(colors, output)?;
        }
        if grouping.keys.contains(&Key::Symbol) || grouping.graph.is_some() {
            self.nameless.write_warnings(recording, colors, output)?;
        }
        Ok(())
    }
}

/// The shares of an event by the texts of the rows.
pub(crate) type Shares = AHashMap<Vec<String>, Share>;

/// The key of a row as numbers. Keys are compared for each sample, while texts are made only once for each key.
/// Different keys can have the same texts, for example two functions with the same name. Then they share a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct RowId {
    event: usize,
    comm: Option<NameNumber>,
    is_idle: bool,
    pid: u32,
    tid: u32,
    function: (Option<FileNumber>, Option<u64>),
    is_kernel: bool,
    guest_mode: Option<GuestMode>,
    cpu: u32,
    cgroup: u64,
    /// The memory access; `None` unless a key shows it.
    access: Option<AccessId>,
    inlined: Option<u32>,
    line: Option<u32>,
}

impl RowId {
    /// Returns the row of a sample, or of a function in its call chain.
    fn new(
        keys: &[Key],
        named: &NamedSample<'_>,
        frame: &Frame<'_>,
        names: &SampleNames<'_>,
    ) -> Self {
        let mut id = Self {
            event: named.sample.event,
            ..Self::default()
        };
        for key in keys {
            match key {
                Key::Comm => {
                    id.comm = names.name_number(named.stamp.task);
                    // PID 0 has a name although no record names it, so `name_number` finds none.
                    id.is_idle = named.stamp.task.pid == 0;
                }
                Key::Pid => id.pid = named.stamp.task.pid,
                Key::Tid => id.tid = named.stamp.task.tid,
                Key::Dso => {
                    id.function.0 = frame.site.file_number();
                    id.guest_mode = frame.site.guest_mode;
                }
                Key::Symbol => {
                    id.function = frame.site.function();
                    id.guest_mode = frame.site.guest_mode;
                    id.is_kernel = is_kernel_address(frame.address);
                    id.inlined = frame.inlined.as_ref().map(|name| name.number);
                }
                Key::Srcline => id.line = frame.line.as_ref().map(|line| line.number),
                Key::Cpu => id.cpu = named.stamp.cpu,
                Key::Cgroup => id.cgroup = named.sample.cgroup,
                _ => {
                    debug_assert!(key.shows_memory_access());
                    let access = id.access.get_or_insert_default();
                    access.add_key(*key, named, names);
                    id.guest_mode = named.sample.guest_mode;
                }
            }
        }
        id
    }
}

/// The options that determine the rows of a report.
#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    pub(crate) keys: Vec<Key>,
    /// The row of a function also has the samples of the functions that it calls.
    pub(crate) children: bool,
    /// Rows have their call chains below them, in this order.
    pub(crate) graph: Option<Order>,
    /// Inlined functions are part of call chains.
    pub(crate) inline: bool,
    /// The largest number of functions of a call chain.
    pub(crate) max_stack: usize,
    /// The samples that are reported.
    pub(crate) filter: Filter,
}

impl Grouping {
    /// Returns whether the row of a sample depends only on the facts that [`KnownRows`] compares.
    fn has_known_rows(&self) -> bool {
        let shows_access = self.keys.iter().any(|key| key.shows_memory_access());
        self.filter.is_empty() && !self.has_chains() && !shows_access
    }

    /// Returns the grouping that the options ask for.
    pub(crate) fn from_args(args: &Report) -> Self {
        Self {
            keys: args.rows.keys(),
            children: args.children,
            graph: args.graph().map(|graph| graph.order),
            inline: args.inlined.inline,
            max_stack: args.max_stack,
            filter: args.choice.filter(),
        }
    }

    /// Returns whether rows need the callers of a sample.
    fn has_chains(&self) -> bool {
        self.children || self.graph.is_some()
    }

    /// Returns the functions of a sample: the sampled function, and its callers if rows need them.
    /// With `source_lines`, functions have their source lines, and inlined functions are included.
    fn chain<'a>(
        &self,
        named: &'a NamedSample<'_>,
        names: &'a SampleNames<'_>,
        source_lines: Option<&SourceLines<'_>>,
    ) -> Vec<Frame<'a>> {
        let limit = if self.has_chains() {
            self.max_stack.max(1)
        } else {
            1
        };
        let chain = names.chain(named).take(limit);
        match source_lines {
            Some(lines) => with_lines(chain, lines, self.inline),
            None => chain.collect(),
        }
    }

    /// Returns the index in the chain of the function whose row counts the sample. As in perf, the
    /// samples of inlined functions count for the function that contains them. In rows of source
    /// lines, each line has only its own samples.
    fn own_index(&self, chain: &[Frame<'_>]) -> usize {
        let has_lines = self.keys.contains(&Key::Srcline);
        chain
            .iter()
            .position(|frame| has_lines || frame.inlined.is_none())
            .unwrap_or(0)
    }
}

/// Adds up the samples of each event by row.
pub(crate) fn sum_by_row(
    recording: &Recording,
    grouping: &Grouping,
    source_lines: Option<&SourceLines<'_>>,
) -> Result<(Vec<Shares>, ReportGaps)> {
    let mut nameless = NamelessSamples::default();
    let mut sums = RowSums::new(grouping);
    let is_filtered = !grouping.filter.is_empty();
    let cut_chains = if grouping.has_known_rows() && source_lines.is_none() {
        let mut known_rows = KnownRows::new(&grouping.keys);
        profile::each_unnamed_sample(recording, |stamp, sample, names| {
            let KnownRow { row, nameless_file } =
                known_rows.find_or_insert_with((stamp, sample), names.version(), || {
                    let named = names.named(stamp, sample);
                    let frame = Frame::of_sample(&named);
                    KnownRow {
                        row: sums.row((&named, names), &frame),
                        nameless_file: nameless.index(&named),
                    }
                });
            nameless.add_sample(nameless_file, sample);
            let samples = recording.sample_count(sample);
            let share = &mut sums.shares[row];
            share.add_own(sample.period, samples);
            share.add_children(sample.period);
            Ok(())
        })?;
        CutChains::default()
    } else {
        let add_sample = |named: &NamedSample<'_>, names: &SampleNames<'_>| {
            if is_filtered && !grouping.filter.keeps(named, names) {
                return Ok(());
            }
            let nameless_file = nameless.index(named);
            nameless.add_sample(nameless_file, named.sample);
            let (sampled_function, all);
            let chain = if grouping.has_chains() || source_lines.is_some() {
                all = grouping.chain(named, names, source_lines);
                &all[..]
            } else {
                sampled_function = Frame::of_sample(named);
                slice::from_ref(&sampled_function)
            };
            let samples = recording.sample_count(named.sample);
            sums.add_sample((named, names), chain, samples);
            Ok(())
        };
        if grouping.has_chains() {
            profile::each_sample(recording, add_sample)?
        } else {
            profile::each_sample_without_unwinding(recording, add_sample)?
        }
    };
    let tables = sums.into_tables(recording.events.len());
    Ok((
        tables,
        ReportGaps {
            nameless,
            cut_chains,
        },
    ))
}

/// The sums of the rows.
struct RowSums<'a> {
    grouping: &'a Grouping,
    /// The sums of each row.
    shares: Vec<Share>,
    /// The index of each row in `shares`, by its event and its texts.
    row_of_texts: AHashMap<(usize, Vec<String>), usize>,
    /// The index of each row in `shares`, by its key.
    row_of_id: AHashMap<RowId, usize>,
    /// The rows that already count the sample that is being added, so that a recursive function counts it once.
    counted_rows: Vec<usize>,
}

impl<'a> RowSums<'a> {
    fn new(grouping: &'a Grouping) -> Self {
        Self {
            grouping,
            shares: Vec::new(),
            row_of_texts: AHashMap::new(),
            row_of_id: AHashMap::new(),
            counted_rows: Vec::new(),
        }
    }

    /// Adds a sample to the row of its function and, with [`Grouping::children`], to the rows of its callers. `chain`
    /// is the result of [`Grouping::chain`].
    fn add_sample(
        &mut self,
        (named, names): (&NamedSample<'_>, &SampleNames<'_>),
        chain: &[Frame<'_>],
        samples: u64,
    ) {
        let grouping = self.grouping;
        let events = named.sample.period;
        let own_index = grouping.own_index(chain);
        let (first, end) = if grouping.children {
            (0, chain.len())
        } else {
            (own_index, own_index + 1)
        };
        self.counted_rows.clear();
        for (index, frame) in chain[..end].iter().enumerate().skip(first) {
            let row = self.row((named, names), frame);
            let share = &mut self.shares[row];
            if index == own_index {
                share.add_own(events, samples);
            }
            // Counts the sample only once for a function that calls itself, or another function of the same name.
            if self.counted_rows.contains(&row) {
                continue;
            }
            self.counted_rows.push(row);
            share.add_children(events);
            if let Some(order) = grouping.graph {
                let path = callers::shown_path(order, chain, (index, grouping.children));
                share.callers.add_path(path, events);
            }
        }
    }

    /// Returns the index of the row of a sample, or of a function in its call chain.
    fn row(
        &mut self,
        (named, names): (&NamedSample<'_>, &SampleNames<'_>),
        frame: &Frame<'_>,
    ) -> usize {
        let keys = &self.grouping.keys;
        let id = RowId::new(keys, named, frame, names);
        *self.row_of_id.entry(id).or_insert_with(|| {
            let text = |key: &Key| key_text(*key, named, frame, names);
            let texts = (id.event, keys.iter().map(text).collect());
            *self.row_of_texts.entry(texts).or_insert_with(|| {
                self.shares.push(Share::default());
                self.shares.len() - 1
            })
        })
    }

    /// Returns the rows of each event.
    fn into_tables(mut self, events: usize) -> Vec<Shares> {
        let mut tables = vec![Shares::new(); events];
        for ((event, texts), row) in self.row_of_texts {
            tables[event].insert(texts, mem::take(&mut self.shares[row]));
        }
        tables
    }
}

/// Returns the text of a key for a sample.
fn key_text(
    key: Key,
    named: &NamedSample<'_>,
    frame: &Frame<'_>,
    names: &SampleNames<'_>,
) -> String {
    match key {
        Key::Comm => names.comm(named.stamp.task).to_owned(),
        Key::Pid => task_number_text(named.stamp.task.pid),
        Key::Tid => task_number_text(named.stamp.task.tid),
        Key::Dso => frame.site.dso().into_owned(),
        Key::Symbol => {
            let mode = mode_mark(&frame.site, frame.address);
            format!("{mode} {}", frame.label())
        }
        Key::Srcline => frame.line().to_owned(),
        Key::Cpu if named.stamp.cpu == Stamp::NO_CPU => "---".to_owned(),
        Key::Cpu => format!("{:03}", named.stamp.cpu),
        Key::Cgroup => names.cgroup(named.sample.cgroup).to_owned(),
        _ => {
            debug_assert!(key.shows_memory_access());
            access_text(key, named, names)
        }
    }
}

pub(crate) const fn key_heading(key: Key) -> &'static str {
    match key {
        Key::Comm => "comm",
        Key::Pid => "pid",
        Key::Tid => "tid",
        Key::Dso => "dso",
        Key::Symbol => "symbol",
        Key::Srcline => "srcline",
        Key::Cpu => "cpu",
        Key::Cgroup => "cgroup",
        Key::Mem => "mem",
        Key::Tlb => "tlb",
        Key::Locked => "locked",
        Key::Snoop => "snoop",
        Key::Blocked => "blocked",
        Key::LocalWeight => "local_weight",
        Key::Weight => "weight",
        Key::SymbolDaddr => "symbol_daddr",
        Key::DsoDaddr => "dso_daddr",
    }
}

#[cfg(test)]
mod tests {
    use perfmon_core::logic::perf_event::PERF_CONTEXT_USER;

    use super::*;
    use crate::recording::perfdata::example::example;
    use crate::recording::perfdata::{
        Body, Map, Record, Records, Sample, Symbol, SymbolTable, Task,
    };

    /// Returns the example recording, with only the program's part in the call chain of the kernel's sample.
    fn without_kernel_callers() -> Recording {
        let mut recording = example(true);
        let mut records: Vec<Record> = recording.records.iter().flatten().collect();
        for record in &mut records {
            if let Body::Sample(sample) = &mut record.body {
                if is_kernel_address(sample.ip) {
                    sample.chain = vec![PERF_CONTEXT_USER, 0x40_1234, 0x40_1240, 0x40_1250];
                }
            }
        }
        recording.records = Records::from(&records[..]);
        recording
    }

    #[test]
    fn the_kernels_function_is_one_of_max_stack() {
        let recording = without_kernel_callers();
        let source_lines = SourceLines::new(&recording);
        for (max_stack, functions) in [(1, 1), (2, 2), (3, 3), (9, 4)] {
            for source_lines in [None, Some(&source_lines)] {
                let grouping = Grouping {
                    keys: vec![Key::Comm],
                    children: false,
                    graph: Some(Order::Callee),
                    inline: false,
                    max_stack,
                    filter: Filter::default(),
                };
                let (tables, _) =
                    sum_by_row(&recording, &grouping, source_lines).expect("it is whole");
                let share = tables[1].values().next().expect("it has a sample");
                assert_eq!(share.callers.text_lines(1, 0).len() + 1, functions);
            }
        }
    }

    #[test]
    fn a_precise_sample_has_its_function_with_and_without_callers() {
        let mut recording = example(true);
        let mut records: Vec<Record> = recording.records.iter().flatten().collect();
        records.retain(|record| !matches!(record.body, Body::Comm { .. }));
        for record in &mut records {
            if let Body::Sample(sample) = &mut record.body {
                // The interrupt came in another function.
                sample.ip = 0x40_1240;
                sample.chain = vec![PERF_CONTEXT_USER, 0x40_1250, 0x40_1270];
                sample.user_stack = None;
            }
        }
        recording.records = Records::from(&records[..]);
        let symbol = |start, name: &str| Symbol {
            start,
            length: 0x10,
            name: name.to_owned(),
        };
        recording.notes.symbols = vec![SymbolTable {
            file: "/bin/true".to_owned(),
            symbols: vec![symbol(0x2240, "sampled"), symbol(0x2250, "interrupted")],
            ..SymbolTable::default()
        }];
        for (graph, children) in [(None, false), (Some(Order::Callee), false), (None, true)] {
            let grouping = Grouping {
                keys: vec![Key::Symbol],
                children,
                graph,
                inline: false,
                max_stack: 9,
                filter: Filter::default(),
            };
            let (tables, _) = sum_by_row(&recording, &grouping, None).expect("it is whole");
            for table in tables.iter().filter(|table| !table.is_empty()) {
                let own = |name: &str| table.get(&vec![format!("[.] {name}")]).map(|s| s.events);
                assert_eq!(own("sampled"), Some(1000));
                assert_eq!(own("interrupted"), None);
            }
        }
    }

    #[test]
    fn rows_follow_new_mappings_and_names() {
        let task = Task::leader(7);
        let map = |file: &str| {
            Body::Map(Map {
                task,
                start: 0x1000,
                length: 0x1000,
                file: file.into(),
                ..Map::default()
            })
        };
        let comm = |name: &str| Body::Comm {
            task,
            name: name.to_owned(),
            exec: false,
        };
        let sample = Body::Sample(Sample {
            ip: 0x1000,
            period: 10,
            ..Sample::default()
        });
        let bodies = [
            comm("a"),
            map("/a"),
            sample.clone(),
            sample.clone(),
            map("/b"),
            sample.clone(),
            comm("b"),
            sample,
        ];
        let stamp = Stamp {
            task,
            ..Stamp::default()
        };
        let mut recording = example(false);
        recording.records = Records::from(&bodies.map(|body| Record { stamp, body })[..]);
        let grouping = Grouping {
            keys: vec![Key::Comm, Key::Dso],
            children: false,
            graph: None,
            inline: false,
            max_stack: 1,
            filter: Filter::default(),
        };
        let (tables, _) = sum_by_row(&recording, &grouping, None).expect("it is whole");
        let sums = |comm: &str, dso: &str| {
            let share = &tables[0][&vec![comm.to_owned(), dso.to_owned()]];
            (share.events, share.samples)
        };
        assert_eq!(tables[0].len(), 3);
        assert_eq!(sums("a", "a"), (20, 2));
        assert_eq!(sums("a", "b"), (10, 1));
        assert_eq!(sums("b", "b"), (10, 1));
    }

    #[test]
    fn totals_do_not_overflow() {
        let share = Share {
            events: 1 << 63,
            samples: 1 << 63,
            ..Share::default()
        };
        assert_eq!(totals([&share, &share]), (u64::MAX, u64::MAX));
    }

    #[test]
    fn two_functions_of_one_name_have_a_sample_once() {
        let mut recording = without_kernel_callers();
        // The exec is left out, since it comes after the mapping and would drop it.
        let mut records: Vec<Record> = recording.records.iter().flatten().collect();
        records.retain(|record| !matches!(record.body, Body::Comm { .. }));
        recording.records = Records::from(&records[..]);
        // The callers' addresses 40_1240H and 40_1250H are those after their calls. Their offsets are 1000H more than
        // those from the mapping's beginning, 40_0000H.
        let symbol = |start| Symbol {
            start,
            length: 0x10,
            name: "call_once".to_owned(),
        };
        recording.notes.symbols = vec![SymbolTable {
            file: "/bin/true".to_owned(),
            symbols: vec![symbol(0x2238), symbol(0x2248)],
            ..SymbolTable::default()
        }];
        let grouping = Grouping {
            keys: vec![Key::Symbol],
            children: true,
            graph: Some(Order::Callee),
            inline: false,
            max_stack: 9,
            filter: Filter::default(),
        };
        let (tables, _) = sum_by_row(&recording, &grouping, None).expect("it is whole");
        let share = &tables[1][&vec!["[.] call_once".to_owned()]];
        assert_eq!((share.events, share.children), (0, 1000));
        assert_eq!(
            share.callers.text_lines(1000, 0),
            ["            100.00%  call_once"]
        );
    }
}

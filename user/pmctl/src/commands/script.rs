// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl script`: prints the samples of a recording, one a line.

use std::io::{self, Write};

use anyhow::Result;
use clap::ValueEnum;

use crate::args::{Field, KeyNeed, Script};
use crate::commands::report::{self, NO_SAMPLE_PASSES};
use crate::recording::perfdata::{self, Event, Notes, Recording, SampleParts, Stamp};
use crate::recording::profile::{
    self, Frame, NamedSample, SampleNames, Site, SourceLines, with_lines,
};
use crate::recording::unwind::CutChains;
use crate::system::exit::Usage;
use crate::system::screen::{Colors, Screen};
use crate::system::stdio::complain;
use crate::system::text::{printable, push_decimal, push_hexadecimal, push_left};

/// Prints the samples.
pub(crate) fn script(args: &Script, output: &mut Screen) -> Result<()> {
    let recording = profile::open(&args.input.input)?;
    check_fields(args.fields.named_fields(), &recording)?;
    let fields = shown_fields(args, &recording);
    // As in perf, callers are shown only if a field has addresses or names.
    let is_place = |field: &Field| matches!(field, Field::Ip | Field::Sym | Field::Srcline);
    let has_chains = recording.parts().has_chain && fields.iter().any(is_place);
    let has_lines = fields.contains(&Field::Srcline);
    let fields_of_events = fields_of_events(&fields, &recording.events);
    let has_period = fields.contains(&Field::Period);
    let source_lines = (args.inlined.inline || has_lines).then(|| SourceLines::new(&recording));
    let mut line = String::new();
    let filter = args.choice.filter();
    let is_filtered = !filter.is_empty();
    let mut is_empty = true;
    let cut_chains = profile::each_sample(&recording, |named, names| {
        if is_filtered && !filter.keeps(named, names) {
            return Ok(());
        }
        is_empty = false;
        line.clear();
        for field in &fields_of_events[named.sample.event] {
            if let (Field::Srcline, Some(source_lines)) = (field, &source_lines) {
                if !has_chains {
                    let frames = with_lines(names.chain(named).take(1), source_lines, false);
                    line.extend(frames.iter().map(Frame::line));
                }
                continue;
            }
            push_field(&mut line, *field, named, names, &recording.events);
            line.push(' ');
            if matches!(field, Field::Event) && !has_period {
                push_register_value(&mut line, named, &recording.events);
            }
        }
        line.truncate(line.trim_end().len());
        make_printable(&mut line, 0);
        line.push('\n');
        match &source_lines {
            _ if !has_chains => {}
            None => push_chain(&mut line, names.recorded_chain(named), false),
            Some(source_lines) => {
                let chain = names.recorded_chain(named);
                let frames = with_lines(chain, source_lines, args.inlined.inline);
                push_chain(&mut line, frames.into_iter(), has_lines);
            }
        }
        Ok(output.write_all(line.as_bytes())?)
    })?;
    if is_empty && is_filtered {
        complain(NO_SAMPLE_PASSES);
    }
    write_warnings(&recording.notes, source_lines.as_ref(), &cut_chains, output)
}

/// Returns the fields to print: those of the arguments for which the recording has data.
fn shown_fields(args: &Script, recording: &Recording) -> Vec<Field> {
    let fields = args
        .fields
        .printed_fields(have_one_period(&recording.events));
    let fields = fields.into_iter();
    fields
        .filter(|field| missing_data(*field, recording.parts()).is_none())
        .collect()
}

/// Returns the fields to print for samples of each event: those of `fields`, without the parts of the memory access that its
/// samples lack.
fn fields_of_events(fields: &[Field], events: &[Event]) -> Vec<Vec<Field>> {
    let fields_of_event = |event: &Event| {
        let parts = event.attr.recorded_parts();
        let is_shown = |field: &&Field| {
            access_need(**field).is_none() || missing_data(**field, parts).is_none()
        };
        fields.iter().filter(is_shown).copied().collect()
    };
    events.iter().map(fields_of_event).collect()
}

/// Returns the part of the memory access that a field shows; `None` for fields that show none.
const fn access_need(field: Field) -> Option<KeyNeed> {
    match field {
        Field::Addr => Some(KeyNeed::DataAddress),
        Field::DataSrc => Some(KeyNeed::DataSource),
        Field::Weight => Some(KeyNeed::Weight),
        _ => None,
    }
}

/// If samples with these parts lack the data that a field shows, returns the name of the data, and the options of
/// `pmctl record` that record it.
fn missing_data(field: Field, parts: SampleParts) -> Option<(&'static str, String)> {
    match field {
        Field::Brstack => (!parts.has_branches).then(|| ("branches", "-b".to_owned())),
        field => report::missing_data(access_need(field)?, parts),
    }
}

/// Fails if a field that the user has named is not in the recording.
fn check_fields(named_fields: &[Field], recording: &Recording) -> Result<(), Usage> {
    for field in named_fields {
        if let Some((data, options)) = missing_data(*field, recording.parts()) {
            let name = field.to_possible_value();
            return Err(Usage(format!(
                "-F {}: this recording has no {data} of samples. Record again with `pmctl record {options}`.",
                name.as_ref().map_or("", |name| name.get_name()),
            )));
        }
    }
    Ok(())
}

/// Writes the warnings: below the samples in a pager, otherwise to standard error, since other programs read the lines of
/// standard output.
fn write_warnings(
    notes: &Notes,
    source_lines: Option<&SourceLines<'_>>,
    cut_chains: &CutChains,
    output: &mut Screen,
) -> Result<()> {
    if output.is_paged() {
        if let Some(source_lines) = source_lines {
            source_lines.write_warnings(output.colors, output)?;
        }
        cut_chains.write(output.colors, output)?;
        return Ok(perfdata::warn(notes, output.colors, output)?);
    }
    output.flush()?;
    if let Some(source_lines) = source_lines {
        source_lines.write_warnings(Colors::new(true), &mut anstream::stderr().lock())?;
    }
    let colors = Colors::default();
    cut_chains.write(colors, &mut io::stderr())?;
    Ok(perfdata::warn(notes, colors, &mut io::stderr())?)
}

/// Returns whether all samples of these events have the same period, so that the field of the period says nothing.
fn have_one_period(events: &[Event]) -> bool {
    let mut periods = events.iter().map(|Event { attr, .. }| {
        // The period of a merged sample is the number of samples that it stands for.
        let period = attr.fixed_period();
        period.filter(|_| !attr.samples_each_event())
    });
    let first = periods.next().flatten();
    first.is_some() && periods.all(|period| period == first)
}

/// Appends a field of a sample, padded to its usual width.
fn push_field(
    line: &mut String,
    field: Field,
    named: &NamedSample<'_>,
    names: &SampleNames<'_>,
    events: &[Event],
) {
    let (stamp, sample) = (named.stamp, named.sample);
    match field {
        Field::Comm => push_left(line, names.comm(stamp.task), 15),
        Field::Pid => push_id(line, stamp.task.pid),
        Field::Tid => push_id(line, stamp.task.tid),
        Field::Cpu if stamp.cpu == Stamp::NO_CPU => line.push_str("[---]"),
        Field::Cpu => {
            line.push('[');
            push_zeros(line, stamp.cpu, 3);
            line.push(']');
        }
        Field::Time => {
            push_decimal(line, stamp.time / 1_000_000_000, 5);
            line.push('.');
            push_zeros(line, (stamp.time % 1_000_000_000 / 1000) as u32, 6);
            line.push(':');
        }
        Field::Event => {
            line.push_str(&events[sample.event].name);
            line.push(':');
        }
        Field::Period => match events[sample.event].attr.unit() {
            Some(unit) => line.push_str(&unit.in_words(sample.period)),
            None => push_decimal(line, sample.period, 10),
        },
        Field::Addr => push_hexadecimal(line, sample.access.address, 16),
        Field::DataSrc => {
            push_hexadecimal(line, sample.access.source.0, 16);
            line.push(' ');
            line.push_str(&sample.access.source.to_string());
        }
        Field::Weight => push_decimal(line, sample.access.weight.latency, 16),
        Field::Ip => push_hexadecimal(line, sample.ip, 16),
        Field::Sym => push_site(line, &named.site),
        Field::Dso => {
            line.push('(');
            line.push_str(&named.site.path());
            line.push(')');
        }
        Field::Brstack => push_branches(line, named, names),
        // The caller appends the source line, for which it has the `SourceLines`.
        Field::Srcline => {}
    }
}

/// Appends the value of a sampled register, such as an energy meter. The caller appends it after
/// the event's name if the field `period` is not printed.
fn push_register_value(line: &mut String, named: &NamedSample<'_>, events: &[Event]) {
    if let Some(unit) = events[named.sample.event].attr.unit() {
        line.push_str(&unit.in_words(named.sample.period));
        line.push(' ');
    }
}

/// Appends a PID or TID; -1 if it is not known, as perf does.
fn push_id(line: &mut String, id: u32) {
    match id {
        u32::MAX => push_decimal(line, -1, 7),
        known => push_decimal(line, known, 7),
    }
}

/// Appends a number of at least `width` digits.
fn push_zeros(line: &mut String, number: u32, width: u32) {
    for place in (1..width).rev() {
        if number < 10_u32.pow(place) {
            line.push('0');
        }
    }
    push_decimal(line, number, 0);
}

/// Appends the branches, newest first.
fn push_branches(line: &mut String, named: &NamedSample<'_>, names: &SampleNames<'_>) {
    for branch in &named.sample.branches {
        let (from, to) = names.branch_sites(named, branch);
        for (site, address) in [(from, branch.from), (to, branch.to)] {
            if site.has_symbol() {
                push_site(line, &site);
            } else {
                line.push_str("0x");
                push_hexadecimal(line, address, 0);
            }
            line.push('/');
        }
        line.push_str(match branch.mispredicted {
            Some(true) => "M/",
            Some(false) => "P/",
            None => "-/",
        });
        push_decimal(line, branch.cycles, 0);
        line.push(' ');
    }
}

/// Appends the call chain as perf does: a line for each address, with the source line below it, and an empty line at
/// the end.
fn push_chain<'a>(line: &mut String, frames: impl Iterator<Item = Frame<'a>>, has_lines: bool) {
    for frame in frames {
        line.push('\t');
        push_hexadecimal(line, frame.address, 16);
        line.push(' ');
        let start = line.len();
        if let Some(name) = &frame.inlined {
            line.push_str(&name.text);
            line.push_str(" (inlined)");
        } else {
            push_site(line, &frame.site);
            line.push_str(" (");
            line.push_str(&frame.site.path());
            line.push(')');
        }
        make_printable(line, start);
        line.push('\n');
        if has_lines {
            line.push_str("  ");
            let start = line.len();
            line.push_str(frame.line());
            make_printable(line, start);
            line.push('\n');
        }
    }
    line.push('\n');
}

/// Replaces unprintable characters in the text from `start` on.
fn make_printable(text: &mut String, start: usize) {
    // Tests all bytes without a branch for each, which is fast: nearly all texts are printable.
    let is_printable = |all, byte| all & matches!(byte, b' '..=b'~');
    if !text[start..].bytes().fold(true, is_printable) {
        let rest = printable(&text[start..]);
        text.truncate(start);
        text.push_str(&rest);
    }
}

/// Appends the function and the offset in it.
fn push_site(line: &mut String, site: &Site<'_>) {
    line.push_str(site.symbol());
    if site.has_symbol() {
        line.push_str("+0x");
        push_hexadecimal(line, site.offset, 0);
    }
}

#[cfg(test)]
mod tests {
    use perfmon::Modes;

    use super::*;
    use crate::recording::perfdata::{Attr, EventKind};

    #[test]
    fn merged_samples_have_different_periods() {
        let event = |period, precision| Event {
            name: "instructions:u".to_owned(),
            attr: Attr::sampled(
                EventKind::Hardware(1),
                period,
                Modes::User,
                SampleParts::default(),
            )
            .with_precision(precision),
        };
        assert!(have_one_period(&[event(1000, 2), event(1000, 0)]));
        assert!(have_one_period(&[event(1, 0)]));
        assert!(!have_one_period(&[event(1, 2)]));
        assert!(!have_one_period(&[event(1000, 0), event(2000, 0)]));
    }
}

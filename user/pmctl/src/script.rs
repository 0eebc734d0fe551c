// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl script`: prints the samples of a recording, one a line.

use std::io::{self, Write};

use anyhow::Result;

use crate::cli::{Field, Script};
use crate::perfdata::{self, Event};
use crate::profile::{self, Named, Names, Site};
use crate::screen::{Colors, Screen};
use crate::text::{printable, push_decimal, push_hexadecimal, push_left};

/// Prints the samples.
pub(crate) fn script(args: &Script, output: &mut Screen) -> Result<()> {
    let recording = profile::open(&args.input.input)?;
    let fields: Vec<Field> = args
        .fields
        .iter()
        .copied()
        .filter(|field| *field != Field::Brstack || recording.parts().branches)
        .collect();
    let has_chains = recording.parts().chain;
    let mut line = String::new();
    profile::each_sample(&recording, |named, names| {
        line.clear();
        for field in &fields {
            push_field(&mut line, *field, named, names, &recording.events);
            line.push(' ');
        }
        line.truncate(line.trim_end().len());
        // Without a branch for each byte: nearly all lines are printable.
        let is_printable = |all, byte| all & matches!(byte, b' '..=b'~');
        if !line.bytes().fold(true, is_printable) {
            line = printable(&line);
        }
        line.push('\n');
        if has_chains {
            push_chain(&mut line, named, names);
        }
        Ok(output.write_all(line.as_bytes())?)
    })?;
    if output.is_paged() {
        return Ok(perfdata::warn(&recording.notes, output.colors, output)?);
    }
    // Not among the lines, which are for other programs.
    output.flush()?;
    let colors = Colors::default();
    Ok(perfdata::warn(&recording.notes, colors, &mut io::stderr())?)
}

/// Appends a field of a sample, as wide as it commonly is.
fn push_field(
    line: &mut String,
    field: Field,
    named: &Named<'_>,
    names: &Names<'_>,
    events: &[Event],
) {
    let (stamp, sample) = (named.stamp, named.sample);
    match field {
        Field::Comm => push_left(line, names.comm(stamp.task), 15),
        Field::Pid => push_id(line, stamp.task.pid),
        Field::Tid => push_id(line, stamp.task.tid),
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
        Field::Period => push_decimal(line, sample.period, 10),
        Field::Ip => push_hexadecimal(line, sample.ip, 16),
        Field::Sym => push_site(line, &named.site),
        Field::Dso => {
            line.push('(');
            line.push_str(&named.site.path());
            line.push(')');
        }
        Field::Brstack => push_branches(line, named, names),
    }
}

/// Appends the number of a process or of a thread; -1 if it is not known, as perf does.
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
fn push_branches(line: &mut String, named: &Named<'_>, names: &Names<'_>) {
    for branch in &named.sample.branches {
        let (from, to) = names.ends(named.stamp.task.pid, branch);
        for (site, address) in [(from, branch.from), (to, branch.to)] {
            if site.has_symbol() {
                push_site(line, &site);
            } else {
                line.push_str("0x");
                push_hexadecimal(line, address, 0);
            }
            line.push('/');
        }
        line.push_str(if branch.mispredicted { "M/" } else { "P/" });
        push_decimal(line, branch.cycles, 0);
        line.push(' ');
    }
}

/// Appends the call chain, an address a line, and an empty line: as perf does it.
fn push_chain(line: &mut String, named: &Named<'_>, names: &Names<'_>) {
    for (address, site) in names.chain(named) {
        let mut frame = String::new();
        push_site(&mut frame, &site);
        line.push('\t');
        push_hexadecimal(line, address, 16);
        line.push(' ');
        line.push_str(&printable(&frame));
        line.push_str(" (");
        line.push_str(&printable(&site.path()));
        line.push_str(")\n");
    }
    line.push('\n');
}

/// Appends the function and the offset in it.
fn push_site(line: &mut String, site: &Site<'_>) {
    line.push_str(site.symbol());
    if site.has_symbol() {
        line.push_str("+0x");
        push_hexadecimal(line, site.offset, 0);
    }
}

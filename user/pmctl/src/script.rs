// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl script`: the samples of a recording, one a line.

use std::fmt::Write as _;
use std::io::{self, Write};

use anyhow::Result;

use crate::cli::{Field, Script};
use crate::perfdata::{self, Event};
use crate::profile::{self, Named, Names, Site, number};
use crate::text::printable;

/// Shows the samples.
pub(crate) fn script(args: &Script, output: &mut impl Write) -> Result<()> {
    let recording = profile::open(&args.input.input)?;
    let fields: Vec<Field> = args
        .fields
        .iter()
        .copied()
        .filter(|field| *field != Field::Brstack || recording.has_branches())
        .collect();
    let mut line = String::new();
    profile::each_sample(&recording, |named, names| {
        line.clear();
        for field in &fields {
            write_field(*field, named, names, (&recording.events, &mut line));
            line.push(' ');
        }
        let text = line.trim_end();
        // What is printable is not copied.
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            output.write_all(text.as_bytes())?;
        } else {
            output.write_all(printable(text).as_bytes())?;
        }
        Ok(output.write_all(b"\n")?)
    })?;
    // Behind the lines, and not among them: they are for other programs.
    output.flush()?;
    perfdata::warn(&recording.notes, &mut io::stderr())?;
    Ok(())
}

/// Appends a field of a sample, as wide as it commonly is.
fn write_field(
    field: Field,
    named: &Named<'_>,
    names: &Names<'_>,
    (events, line): (&[Event], &mut String),
) {
    let (stamp, sample) = (named.stamp, named.sample);
    // A text takes everything.
    let _ = match field {
        Field::Comm => write!(line, "{:<15}", names.comm(stamp.task)),
        Field::Pid => write!(line, "{:>7}", number(stamp.task.pid)),
        Field::Tid => write!(line, "{:>7}", number(stamp.task.tid)),
        Field::Cpu => write!(line, "[{:03}]", stamp.cpu),
        Field::Time => {
            let (seconds, rest) = (stamp.time / 1_000_000_000, stamp.time % 1_000_000_000);
            write!(line, "{seconds:>5}.{:06}:", rest / 1000)
        }
        Field::Event => write!(line, "{}:", events[sample.event].name),
        Field::Period => write!(line, "{:>10}", sample.period),
        Field::Ip => write!(line, "{:>16x}", sample.ip),
        Field::Sym => write_place(&named.site, line),
        Field::Dso => write!(line, "({})", named.site.path()),
        Field::Brstack => {
            write_branches(named, names, line);
            Ok(())
        }
    };
}

/// The branches, newest first.
fn write_branches(named: &Named<'_>, names: &Names<'_>, line: &mut String) {
    for branch in &named.sample.branches {
        let (from, to) = names.ends(named.stamp.task.pid, branch);
        for (site, address) in [(from, branch.from), (to, branch.to)] {
            let _ = if site.has_symbol() {
                write_place(&site, line)
            } else {
                write!(line, "{address:#x}")
            };
            line.push('/');
        }
        let prediction = if branch.mispredicted { 'M' } else { 'P' };
        let _ = write!(line, "{prediction}/{} ", branch.cycles);
    }
}

/// The function and how far behind its beginning.
fn write_place(site: &Site<'_>, line: &mut String) -> std::fmt::Result {
    line.push_str(site.symbol());
    if site.has_symbol() {
        write!(line, "+{:#x}", site.offset)
    } else {
        Ok(())
    }
}

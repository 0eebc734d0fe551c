// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl script`: the samples of a recording, one a line.

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
    profile::each_sample(&recording, |named, names| {
        let texts = fields
            .iter()
            .map(|field| text(*field, named, names, &recording.events));
        let line = texts.collect::<Vec<_>>().join(" ");
        Ok(writeln!(output, "{}", printable(line.trim_end()))?)
    })?;
    // Behind the lines, and not among them: they are for other programs.
    output.flush()?;
    perfdata::warn(&recording.notes, &mut io::stderr())?;
    Ok(())
}

/// A field of a sample, as wide as it commonly is.
fn text(field: Field, named: &Named<'_>, names: &Names<'_>, events: &[Event]) -> String {
    let (stamp, sample) = (named.stamp, named.sample);
    match field {
        Field::Comm => format!("{:<15}", named.comm),
        Field::Pid => format!("{:>7}", number(stamp.task.pid)),
        Field::Tid => format!("{:>7}", number(stamp.task.tid)),
        Field::Cpu => format!("[{:03}]", stamp.cpu),
        Field::Time => {
            let (seconds, rest) = (stamp.time / 1_000_000_000, stamp.time % 1_000_000_000);
            format!("{seconds:>5}.{:06}:", rest / 1000)
        }
        Field::Event => format!("{}:", events[sample.event].name),
        Field::Period => format!("{:>10}", sample.period),
        Field::Ip => format!("{:>16x}", sample.ip),
        Field::Sym => place(&named.site),
        Field::Dso => format!("({})", named.site.file()),
        Field::Brstack => {
            let branches = sample.branches.iter().map(|branch| {
                let prediction = if branch.mispredicted { 'M' } else { 'P' };
                let (from, to) = names.ends(stamp.task.pid, branch);
                let [from, to] = [(from, branch.from), (to, branch.to)].map(|(site, address)| {
                    site.symbol
                        .map_or_else(|| format!("{address:#x}"), |_| place(&site))
                });
                format!("{from}/{to}/{prediction}/{}", branch.cycles)
            });
            branches.collect::<Vec<_>>().join(" ")
        }
    }
}

/// The function and how far behind its beginning.
fn place(site: &Site<'_>) -> String {
    match site.symbol {
        Some(symbol) => format!("{symbol}+{:#x}", site.offset),
        None => site.symbol().to_owned(),
    }
}

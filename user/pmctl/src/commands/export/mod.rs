// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl export`: writes a recording in the format of another viewer.

mod chrome;
mod firefox;
mod pprof;
mod profile;
mod speedscope;

use std::io::Write;

use anyhow::Result;

use crate::args::{Export, Format};
use crate::commands::flamegraph;
use crate::recording::perfdata::{self, Recording};
use crate::recording::profile::{self as recordings, SourceLines};
use crate::system::exit::Usage;
use crate::system::screen::{Colors, Screen};
use crate::system::whole_file;
use profile::Profile;

/// Converts the recording, and writes the result to a file or to standard output.
pub(crate) fn export(args: &Export, output: &mut Screen) -> Result<()> {
    if args.to == Format::PerfData {
        refuse_options_without_effect(args)?;
    }
    let recording = recordings::open(&args.input.input)?;
    if args.to == Format::PerfData {
        // Only the user may read a recording, since it may contain parts of stacks.
        whole_file::write_private(args.path(), |file| {
            Ok(perfdata::write_recording(&recording, file).map(drop)?)
        })?;
    } else if args.path().as_os_str() == "-" {
        convert(args, &recording, output)?;
        output.flush()?;
    } else {
        whole_file::write(args.path(), |file| convert(args, &recording, file))?;
    }
    let errors = &mut anstream::stderr().lock();
    perfdata::warn(&recording.notes, Colors::new(true), errors)?;
    if args.path().as_os_str() != "-" {
        let (path, viewer) = (args.path().display(), args.to.viewer_advice(args.path()));
        writeln!(output, "wrote {path}: {viewer}")?;
    }
    Ok(())
}

/// Refuses options that have no effect on `--to perf-data`, which copies the whole recording.
fn refuse_options_without_effect(args: &Export) -> Result<(), Usage> {
    let message = if args.path().as_os_str() == "-" {
        "--to perf-data can't write to standard output. Name a file with -o FILE; `pmctl record -o -` writes a stream."
    } else if args.event.is_some() {
        "-e: perf-data has all events. Leave -e out."
    } else if args.no_inline {
        "--no-inline: perf-data never has inlined functions. Leave --no-inline out."
    } else {
        return Ok(());
    };
    Err(Usage(message.to_owned()))
}

/// Writes a recording in the format of --to.
fn convert(args: &Export, recording: &Recording, mut output: &mut dyn Write) -> Result<()> {
    let event = flamegraph::event_index(recording, args.event.as_deref())?;
    let source_lines = (!args.no_inline).then(|| SourceLines::new(recording));
    if args.to == Format::Collapsed {
        let (stacks, cut_chains) =
            flamegraph::collect_stacks(recording, event, source_lines.as_ref())?;
        cut_chains.write(Colors::new(true), &mut anstream::stderr())?;
        for (stack, count) in stacks {
            writeln!(output, "{stack} {count}")?;
        }
    } else {
        let profile = Profile::new(recording, source_lines.as_ref())?;
        let events: Vec<usize> = match args.event {
            Some(_) => vec![event],
            None => {
                let events = recording.events.iter().enumerate();
                let events = events.filter(|(_, event)| !event.is_level());
                events.map(|(index, _)| index).collect()
            }
        };
        match args.to {
            Format::Pprof => pprof::write(&profile, &events, &mut output)?,
            Format::Speedscope => speedscope::write(&profile, &events, &mut output)?,
            Format::Chrome => chrome::write(&profile, event, &mut output)?,
            Format::Firefox => firefox::write(&profile, event, &mut output)?,
            // The caller has handled `PerfData`, and the code above `Collapsed`.
            Format::Collapsed | Format::PerfData => {}
        }
    }
    if let Some(source_lines) = &source_lines {
        source_lines.write_warnings(Colors::new(true), &mut anstream::stderr().lock())?;
    }
    Ok(())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl flamegraph`: draws a recording as a picture.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;
use inferno::flamegraph::{self, Options};

use crate::args::Flamegraph;
use crate::events::values::unit_in_viewers;
use crate::recording::perfdata::{Event, Recording};
use crate::recording::profile::{self, Frame, SourceLines};
use crate::recording::unwind::CutChains;
use crate::system::exit::Usage;
use crate::system::screen::Colors;
use crate::system::text::{printable, thousands};
use crate::system::whole_file;

/// Draws the picture; with --folded, writes its stacks as text.
pub(crate) fn flamegraph(args: &Flamegraph, output: &mut impl Write) -> Result<()> {
    let recording = profile::open(&args.input.input)?;
    let event = event_index(&recording, args.event.as_deref())?;
    let source_lines = args.inline.then(|| SourceLines::new(&recording));
    let (stacks, cut_chains) = collect_stacks(&recording, event, source_lines.as_ref())?;
    cut_chains.write(Colors::new(true), &mut anstream::stderr().lock())?;
    if let Some(source_lines) = &source_lines {
        source_lines.write_warnings(Colors::new(true), &mut anstream::stderr().lock())?;
    }
    if stacks.is_empty() {
        return Err(Usage(
            "this event has no samples to draw. Choose another event with -e, or record again."
                .to_owned(),
        )
        .into());
    }
    if args.folded {
        return Ok(stacks
            .iter()
            .try_for_each(|(stack, events)| writeln!(output, "{stack} {events}"))?);
    }
    let name = &recording.events[event].name;
    let mut options = Options::default();
    options.title = format!("{}: {name}", recording.notes.scope);
    let (unit, convert) = unit_in_viewers(recording.events[event].attr.unit());
    let unit = if unit == "count" { "events" } else { unit };
    options.count_name = format!("{unit} of {name}");
    if let Some(total) = recording.notes.total(event) {
        options.notes = format!("{} {unit} counted", thousands(convert(total)));
    }
    let path = &args.output;
    if path.as_os_str() == "-" {
        return Ok(draw(&mut options, &stacks, output)?);
    }
    whole_file::write(path, |file| Ok(draw(&mut options, &stacks, file)?))?;
    writeln!(
        output,
        "wrote {}, a picture: open it in a web browser",
        path.display()
    )?;
    Ok(())
}

/// Writes the picture of these stacks.
fn draw(
    options: &mut Options<'_>,
    stacks: &BTreeMap<String, u64>,
    output: impl Write,
) -> io::Result<()> {
    // inferno draws one box for neighbouring stacks with a common level, so stacks are sorted by levels. Sorted as text,
    // `main;foo.part.0` would be between `main;foo` and `main;foo;bar`.
    let mut stacks: Vec<_> = stacks.iter().collect();
    stacks.sort_unstable_by(|(a, _), (b, _)| a.split(';').cmp(b.split(';')));
    // inferno keeps the order of lines only for a chart over time, which it reads from the last line on.
    options.flame_chart = true;
    let lines = stacks.iter().rev();
    let lines: Vec<String> = lines
        .map(|(stack, events)| format!("{stack} {events}"))
        .collect();
    flamegraph::from_lines(options, lines.iter().map(String::as_str), output)
}

/// Returns the index of the event with this name; without a name, the index of the first event that is not a level.
///
/// # Errors
/// No event has this name, or the event is a level, such as a temperature, which can't be divided among functions.
pub(crate) fn event_index(recording: &Recording, name: Option<&str>) -> Result<usize> {
    let index = match name {
        Some(name) => index_of_name(recording, name)?,
        None => {
            let is_no_level = |event: &Event| !event.is_level();
            recording.events.iter().position(is_no_level).unwrap_or(0)
        }
    };
    match recording.events.get(index) {
        Some(event) if event.is_level() => Err(Usage(format!(
            "`{}` is a level, which can't be divided among functions. `pmctl report` shows its range.",
            printable(&event.name)
        ))
        .into()),
        _ => Ok(index),
    }
}

/// Returns the index of the event with this name.
fn index_of_name(recording: &Recording, name: &str) -> Result<usize> {
    let mut names = recording.events.iter().map(|event| &event.name);
    Ok(names.position(|known| known == name).ok_or_else(|| {
        let event_names: Vec<_> = recording.events.iter().map(|e| e.name.as_str()).collect();
        Usage(format!(
            "-e: this event was not recorded. The recording has `{}`.",
            event_names.join("`, `")
        ))
    })?)
}

/// Returns the stacks, and the event count of each, in the unit of [`unit_in_viewers`].
pub(crate) fn collect_stacks(
    recording: &Recording,
    event: usize,
    source_lines: Option<&SourceLines<'_>>,
) -> Result<(BTreeMap<String, u64>, CutChains)> {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    let has_chains = recording.parts().has_chain;
    let cut_chains = profile::each_sample(recording, |named, names| {
        if named.sample.event == event {
            let comm = names.comm(named.stamp.task).to_owned();
            let mut levels = vec![comm];
            let frames = names.stack(named, source_lines);
            if has_chains {
                levels.extend(frames.iter().rev().map(frame_label));
            } else {
                levels.push(named.site.dso().into_owned());
                levels.extend(frames.iter().rev().map(Frame::label));
            }
            let levels = levels.iter().map(|level| without_separators(level));
            let stack = levels.collect::<Vec<_>>().join(";");
            let events = stacks.entry(stack).or_default();
            *events = events.saturating_add(named.sample.period);
        }
        Ok(())
    })?;
    let unit = recording
        .events
        .get(event)
        .and_then(|event| event.attr.unit());
    let (_, convert) = unit_in_viewers(unit);
    for events in stacks.values_mut() {
        *events = convert(*events);
    }
    Ok((stacks, cut_chains))
}

/// Returns a name in which semicolons and line ends, which separate levels and stacks, are replaced.
fn without_separators(name: &str) -> String {
    printable(&name.replace(';', ":"))
}

/// Returns the name of a function in a stack, or that of its file in brackets if the function is not known.
pub(crate) fn frame_label(frame: &Frame<'_>) -> String {
    if frame.inlined.is_some() || frame.site.has_symbol() {
        frame.label()
    } else {
        in_brackets(&frame.site.dso())
    }
}

/// Returns the name of a file in brackets. The names of the kernel and of code without a file have brackets already.
fn in_brackets(dso: &str) -> String {
    if dso.starts_with('[') {
        dso.to_owned()
    } else {
        format!("[{dso}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::perfdata;
    use crate::recording::perfdata::example::{example, value_attr};

    #[test]
    fn a_level_is_not_divided_among_functions() {
        let mut recording = example(false);
        assert_eq!(event_index(&recording, None).expect("it has events"), 0);
        let level = value_attr("temperature");
        recording.events[0].attr = level;
        let (first, second) = (
            recording.events[0].name.clone(),
            recording.events[1].name.clone(),
        );
        assert_eq!(event_index(&recording, None).expect("one is left"), 1);
        assert_eq!(
            event_index(&recording, Some(&second)).expect("it is there"),
            1
        );
        let error = event_index(&recording, Some(&first)).expect_err("it is a level");
        assert!(error.to_string().contains("is a level"), "{error}");
        recording.events[1].attr = level;
        event_index(&recording, None).expect_err("all are levels");
    }

    #[test]
    fn energy_is_in_nanojoules() {
        let mut recording = example(false);
        let sum = |recording: &Recording| {
            let (stacks, _) = collect_stacks(recording, 0, None).expect("nothing fails");
            stacks.values().sum::<u64>()
        };
        let number = sum(&recording);
        recording.events[0].attr = value_attr("energy-pkg");
        assert_eq!(sum(&recording), number * 1_000_000_000 >> 32);
    }

    #[test]
    fn names_have_no_separators() {
        assert_eq!(without_separators("f(int);\n\x1b[31m"), "f(int):??[31m");
    }

    #[test]
    fn a_file_in_the_place_of_a_function_has_brackets_once() {
        for (dso, label) in [
            ("libc.so.6", "[libc.so.6]"),
            ("[perfmon]", "[perfmon]"),
            ("[JIT] tid 7", "[JIT] tid 7"),
        ] {
            assert_eq!(in_brackets(dso), label);
        }
    }

    #[test]
    fn a_function_has_one_box_on_its_caller() {
        let stacks = [("main;foo", 5), ("main;foo.part.0", 3), ("main;foo;bar", 2)];
        let stacks = stacks.map(|(stack, events)| (stack.to_owned(), events));
        let mut picture = Vec::new();
        let drawn = draw(&mut Options::default(), &stacks.into(), &mut picture);
        drawn.expect("a vector takes everything");
        let picture = String::from_utf8(picture).expect("it is text");
        let boxes = |name: &str| picture.matches(&format!("<title>{name} (")).count();
        assert_eq!([boxes("foo"), boxes("foo.part.0"), boxes("bar")], [1; 3]);
        assert!(picture.contains("<title>foo (7 "), "{picture}");
    }

    #[test]
    fn stacks_are_of_one_event() {
        let bytes = include_bytes!("../../tests/recordings/timebase.data");
        let recording = perfdata::read(&bytes[..]).expect("it is whole");
        for index in 0..recording.events.len() {
            let (stacks, _) = collect_stacks(&recording, index, None).expect("nothing fails");
            let event_samples = recording.samples().filter(|(_, s)| s.event == index);
            let events: u64 = event_samples.map(|(_, sample)| sample.period).sum();
            assert_eq!(stacks.values().sum::<u64>(), events);
            assert!(stacks.contains_key("pmctl_shares;pmctl_shares;share_60"));
        }
    }
}

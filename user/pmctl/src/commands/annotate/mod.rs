// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl annotate`: instructions and source lines of a function, with their shares of its samples.

mod assembly;
mod code;
mod functions;
mod listing;
mod rust_sources;

use std::collections::HashSet;
use std::io::{self, Write};

use anyhow::{Result, anyhow};

use crate::args::{Annotate, Syntax};
use crate::commands::flamegraph;
use crate::recording::perfdata::{self, Recording};
use crate::recording::profile::{self, Filter};
use crate::system::exit::Usage;
use crate::system::screen::Screen;
use crate::system::text::{count, printable, thousands};

pub(crate) use functions::{SampledFunction, SampledFunctions};
pub(crate) use listing::{LineContent, Listing};

/// Prints the functions that the arguments name. Without a name, prints the function with the most samples among those
/// whose code can be shown.
pub(crate) fn annotate(args: &Annotate, output: &mut Screen) -> Result<()> {
    let recording = profile::open(&args.input.input)?;
    let event = flamegraph::event_index(&recording, args.event.as_deref())?;
    let functions = SampledFunctions::collect(&recording, event, &Filter::default())?;
    let (chosen_functions, inlined_name) =
        find_functions(&functions, &recording, args.symbol.as_deref())?;
    perfdata::warn(&recording.notes, output.colors, output)?;
    if let Some(name) = inlined_name {
        write_inlined_note(name, &chosen_functions, output)?;
    }
    let read = |function: &_| Listing::new(&recording, function, (args.syntax, !args.no_source));
    let mut shown_index = 0;
    let listings: Vec<_> = if args.symbol.is_none() {
        let first = first_readable(&functions.list, read).map_err(|reason| anyhow!("{reason}"))?;
        if let Some(reason) = &first.skip_reason {
            write_skip_note(&functions, first.index, reason, output)?;
        }
        shown_index = first.index;
        vec![(&functions.list[shown_index], Ok(first.content))]
    } else {
        let functions = chosen_functions.into_iter();
        functions
            .map(|function| (function, read(function)))
            .collect()
    };
    // Fails only if no function with this name has code that can be shown.
    if let [(_, Err(reason)), rest @ ..] = &listings[..] {
        if rest.iter().all(|(_, listing)| listing.is_err()) {
            return Err(anyhow!("{reason}"));
        }
    }
    for (index, (function, listing)) in listings.iter().enumerate() {
        if index > 0 {
            writeln!(output)?;
        }
        let share = functions.share(function);
        write_heading(function, share, &recording.events[event].name, output)?;
        match listing {
            Ok(listing) => write_listing(function, listing, output)?,
            Err(reason) => writeln!(output, "{}", printable(reason))?,
        }
    }
    if args.symbol.is_none() {
        let further_functions = functions.list.iter().skip(shown_index + 1).take(4);
        let further_functions: Vec<String> = further_functions
            .map(|function| printable(&function.name))
            .collect();
        if !further_functions.is_empty() {
            writeln!(output, "\nThe next: {}", further_functions.join(", "))?;
        }
    }
    Ok(())
}

/// Returns the functions with the name of the arguments; without a name, the function with the most samples. If a
/// function of this name was only inlined, returns the functions that contain its code, and the name.
fn find_functions<'a, 'b>(
    functions: &'a SampledFunctions,
    recording: &Recording,
    name: Option<&'b str>,
) -> Result<(Vec<&'a SampledFunction>, Option<&'b str>), Usage> {
    let reason = match functions.find(name) {
        Ok(function) => return Ok((function, None)),
        Err(reason) => reason,
    };
    let containing = name.map(|name| functions.containing_inlined(recording, name));
    let containing = containing.filter(|functions| !functions.is_empty());
    let reason = || match name.filter(|name| is_recorded(recording, name)) {
        Some(name) => format!(
            "no sample of this event is in `{}` itself: it is a caller or a branch of others. \
             `pmctl report --children -g caller` shows what it calls.",
            printable(name)
        ),
        None => reason,
    };
    Ok((containing.ok_or_else(|| Usage(reason()))?, name))
}

/// Writes which functions contain the code of an inlined function.
fn write_inlined_note(
    name: &str,
    containing: &[&SampledFunction],
    output: &mut Screen,
) -> io::Result<()> {
    let names = containing.iter();
    let names: Vec<String> = names.map(|function| printable(&function.name)).collect();
    let (mark, name) = (output.colors.warning, printable(name));
    let names = names.join("` and `");
    writeln!(
        output,
        "{mark}NOTE{mark:#}: `{name}` was inlined: it is a part of `{names}`."
    )
}

/// The result of [`first_readable`]: the first function of a list whose code can be read.
#[derive(Debug, PartialEq, Eq)]
struct FirstReadable<T> {
    index: usize,
    content: T,
    /// The reason why an earlier function was skipped: the error of the first function in the list. `None` if no
    /// function was skipped.
    skip_reason: Option<String>,
}

/// Returns the first function that `read` can read. A file that can't be read is tried once, and not for each of its
/// functions.
///
/// # Errors
/// The reason why the first function can't be read, if none can.
fn first_readable<T>(
    functions: &[SampledFunction],
    read: impl Fn(&SampledFunction) -> Result<T, String>,
) -> Result<FirstReadable<T>, String> {
    let mut skip_reason = None;
    let mut unreadable_files = HashSet::new();
    for (index, function) in functions.iter().enumerate() {
        if unreadable_files.contains(&function.path) {
            continue;
        }
        match read(function) {
            Ok(content) => {
                return Ok(FirstReadable {
                    index,
                    content,
                    skip_reason,
                });
            }
            Err(reason) => {
                unreadable_files.insert(&function.path);
                skip_reason.get_or_insert(reason);
            }
        }
    }
    Err(skip_reason.unwrap_or_default())
}

/// Writes why the function with the most samples is not shown. The function at `index` is shown instead.
fn write_skip_note(
    functions: &SampledFunctions,
    index: usize,
    reason: &str,
    output: &mut Screen,
) -> io::Result<()> {
    let hottest = &functions.list[0];
    let others = match index - 1 {
        0 => String::new(),
        number => format!(" and {} after it", count(number as u64, "function")),
    };
    let mark = output.colors.warning;
    writeln!(
        output,
        "{mark}NOTE{mark:#}: `{}` ({:.2}% of the event){others} can't be shown: {}.",
        printable(&hottest.name),
        functions.share(hottest) * 100.0,
        printable(reason)
    )
}

/// Writes the heading of a function. `share` is the function's share of the event, from 0 to 1.
fn write_heading(
    function: &SampledFunction,
    share: f64,
    event: &str,
    output: &mut Screen,
) -> io::Result<()> {
    let style = output.colors.heading;
    writeln!(
        output,
        "{style}{} ({}){style:#}: {:.2}% of event '{}', {}",
        printable(&function.name),
        printable(&function.dso),
        share * 100.0,
        printable(event),
        count(function.samples, "sample"),
    )
}

/// Returns whether the recording has call chains, and an address in a function of this name.
fn is_recorded(recording: &Recording, name: &str) -> bool {
    let tables = recording.notes.symbols.iter();
    let mut symbols = tables.flat_map(|table| &table.symbols);
    recording.parts().has_chain && symbols.any(|symbol| symbol.name == name)
}

/// Prints a function in the format of `perf annotate`: lines `PERCENT : ADDRESS: INSTRUCTION`, with source lines between
/// them.
fn write_listing(function: &SampledFunction, listing: &Listing, output: &mut Screen) -> Result<()> {
    for note in &listing.notes {
        let mark = output.colors.warning;
        writeln!(output, "{mark}NOTE{mark:#}: {}.", printable(note))?;
    }
    for line in &listing.lines {
        let style = output.colors.style_of_share(line.share);
        let percent = line.percent();
        let text = line.text();
        let mark = match line.content {
            LineContent::Source { .. } => output.colors.heading,
            _ => style,
        };
        writeln!(
            output,
            "{style}{percent:>8}{style:#} : {mark}{text}{mark:#}"
        )?;
    }
    let outside_events = function.events.saturating_sub(listing.shown_events);
    if outside_events > 0 {
        writeln!(
            output,
            "Events of this function at other addresses than these instructions: {}.",
            thousands(outside_events)
        )?;
    }
    Ok(())
}

/// Returns the instructions of a function, for the TUI.
pub(crate) fn read_listing(
    recording: &Recording,
    function: &SampledFunction,
) -> Result<Listing, String> {
    Listing::new(recording, function, (Syntax::default(), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_function_with_code_is_shown() {
        let function = |(name, path): (&str, &str)| SampledFunction {
            name: name.to_owned(),
            path: path.to_owned(),
            ..SampledFunction::default()
        };
        let functions = [
            ("compiled", "[JIT]"),
            ("compiled too", "[JIT]"),
            ("main", "/bin/program"),
        ]
        .map(function);
        let read = |function: &SampledFunction| match &function.path[..] {
            "/bin/program" => Ok(function.name.clone()),
            _ => Err(format!("no code of {}", function.name)),
        };
        let first = |functions, index, skip_reason: Option<&str>| {
            let expected = FirstReadable {
                index,
                content: "main".to_owned(),
                skip_reason: skip_reason.map(str::to_owned),
            };
            assert_eq!(first_readable(functions, read), Ok(expected));
        };
        first(&functions[2..], 0, None);
        first(&functions, 2, Some("no code of compiled"));
        assert_eq!(
            first_readable(&functions[..2], read),
            Err("no code of compiled".to_owned())
        );
    }

    #[test]
    fn a_file_without_code_is_read_once() {
        let functions = vec![SampledFunction::default(); 3];
        let reads = std::cell::Cell::new(0);
        let read = |_: &SampledFunction| {
            reads.set(reads.get() + 1);
            Err::<(), _>("no code".to_owned())
        };
        assert!(first_readable(&functions, read).is_err());
        assert_eq!(reads.get(), 1);
    }
}

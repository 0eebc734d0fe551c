// SPDX-License-Identifier: MIT OR Apache-2.0
//! The instructions behind a row of the table.

use std::collections::HashMap;
use std::rc::Rc;

use super::app::FunctionView;
use crate::args::Key;
use crate::commands::annotate::{self, SampledFunctions};
use crate::recording::perfdata::Recording;
use crate::system::text::{count, printable};

/// The functions of a recording, read when the first is asked for.
#[derive(Default)]
pub(super) struct AnnotatedFunctions {
    recording: Option<Rc<Recording>>,
    events: HashMap<usize, SampledFunctions>,
}

impl AnnotatedFunctions {
    /// Creates those of a recording.
    pub(super) fn of(recording: Rc<Recording>) -> Self {
        Self {
            recording: Some(recording),
            events: HashMap::new(),
        }
    }

    /// Returns the instructions of a row's function, or of the caller that is selected under it.
    ///
    /// # Errors
    /// Why there are none, in words.
    pub(super) fn view(
        &mut self,
        event: usize,
        keys: &[Key],
        cells: &[String],
        callers: &[String],
    ) -> Result<FunctionView, String> {
        let cell = |key| {
            let index = keys.iter().position(|other| *other == key)?;
            cells.get(index).map(String::as_str)
        };
        let symbol = cell(Key::Symbol).ok_or("rows are no functions: use `--sort symbol`")?;
        // Behind the mark of kernel and program.
        let own = symbol.split_once(' ').map_or(symbol, |(_, name)| name);
        let name = callers.last().map_or(own, String::as_str);
        let recording = self.recording.as_deref().ok_or("there is no recording")?;
        let functions = match self.events.entry(event) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let read =
                    SampledFunctions::of(recording, event).map_err(|error| error.to_string())?;
                entry.insert(read)
            }
        };
        let named = functions
            .list
            .iter()
            .filter(|function| function.name == name);
        let dso = cell(Key::Dso).filter(|_| callers.is_empty());
        let mut fitting = named.filter(|function| dso.is_none_or(|dso| dso == function.dso));
        let function = fitting.next().ok_or_else(|| {
            format!(
                "{}: no sample is at one of its instructions",
                printable(name)
            )
        })?;
        let mut listing = annotate::listing(recording, function)?;
        // Where there is room for one line, the first says it.
        let note = listing.notes.drain(..).next();
        let note = note.map_or_else(String::new, |note| format!("  {}", printable(&note)));
        let title = format!(
            "{} ({}): {:.2}%, {}{note}",
            printable(&function.name),
            printable(&function.dso),
            functions.share(function) * 100.0,
            count(function.samples, "sample"),
        );
        Ok(FunctionView::new(title, listing))
    }
}

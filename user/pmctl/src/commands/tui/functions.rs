// SPDX-License-Identifier: MIT OR Apache-2.0
//! Annotates the functions of the rows of a table.

use std::collections::HashMap;
use std::rc::Rc;

use super::app::FunctionView;
use crate::args::Key;
use crate::commands::annotate::{self, SampledFunctions};
use crate::recording::perfdata::Recording;
use crate::recording::profile::Filter;
use crate::system::text::{count, error_text, printable};

/// The functions of a recording, which are collected for each event at its first use.
#[derive(Default)]
pub(super) struct AnnotatedFunctions {
    recording: Option<Rc<Recording>>,
    /// Selects the samples that are shown.
    filter: Filter,
    events: HashMap<usize, SampledFunctions>,
}

impl AnnotatedFunctions {
    /// Creates an instance for the samples of a recording that `filter` selects.
    pub(super) fn new(recording: Rc<Recording>, filter: Filter) -> Self {
        Self {
            recording: Some(recording),
            filter,
            events: HashMap::new(),
        }
    }

    /// Returns the annotated function of a row. If `callers` is not empty, a caller is selected,
    /// and the function is the last of `callers`.
    ///
    /// # Errors
    /// A message why the function can't be annotated.
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
        let symbol = cell(Key::Symbol).ok_or("the rows are not functions: use `--sort symbol`")?;
        // The name follows the mark of kernel or program.
        let row_name = symbol.split_once(' ').map_or(symbol, |(_, name)| name);
        let name = callers.last().map_or(row_name, String::as_str);
        let recording = self
            .recording
            .as_deref()
            .ok_or("there are no samples yet")?;
        let functions = match self.events.entry(event) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let result = SampledFunctions::collect(recording, event, &self.filter)
                    .map_err(|error| error_text(&error))?;
                entry.insert(result)
            }
        };
        let named_functions = functions
            .list
            .iter()
            .filter(|function| function.name == name);
        let dso = cell(Key::Dso).filter(|_| callers.is_empty());
        let mut in_dso =
            named_functions.filter(|function| dso.is_none_or(|dso| dso == function.dso));
        let function = in_dso.next().ok_or_else(|| {
            format!(
                "{}: none of the samples is in this function itself",
                printable(name)
            )
        })?;
        let mut listing = annotate::read_listing(recording, function)?;
        // The title has room for one note.
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of a recording, with the samples at each of their instructions.

use std::collections::BTreeMap;

use ahash::AHashMap;
use anyhow::Result;

use crate::recording::address_spaces::FileNumber;
use crate::recording::file_text::path_of_text;
use crate::recording::perfdata::{Recording, is_kernel_address};
use crate::recording::profile::{self, Filter};
use crate::recording::symbols::{DebugFiles, Lines};
use crate::system::text::printable;

/// A function with samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampledFunction {
    pub(crate) name: String,
    /// The file name of the program or library, without its folder.
    pub(crate) dso: String,
    /// The path of the program or library.
    pub(crate) path: String,
    /// The number of the program or library, if the code is in one.
    pub(super) file_number: Option<FileNumber>,
    /// Offset in the file; for the kernel, the address.
    pub(super) start: u64,
    /// Length in bytes.
    pub(super) length: u64,
    /// Event count of the function's samples.
    pub(crate) events: u64,
    pub(crate) samples: u64,
    /// Event count at each offset in the file; for the kernel, at each address.
    pub(super) events_by_offset: BTreeMap<u64, u64>,
}

/// The functions with samples of an event, those with the largest event count first.
#[derive(Clone, Debug, Default)]
pub(crate) struct SampledFunctions {
    pub(crate) list: Vec<SampledFunction>,
    /// Event count of all samples, including those without a function.
    total_events: u64,
}

impl SampledFunctions {
    /// Collects the functions that have samples of an event. Only samples that `filter` selects are counted.
    pub(crate) fn collect(recording: &Recording, event: usize, filter: &Filter) -> Result<Self> {
        let mut functions: AHashMap<(Option<FileNumber>, u64), SampledFunction> = AHashMap::new();
        let mut total_events: u64 = 0;
        profile::each_sample_without_unwinding(recording, |named, names| {
            if named.sample.event != event || !filter.keeps(named, names) {
                return Ok(());
            }
            let period = named.sample.period;
            total_events = total_events.saturating_add(period);
            let site = &named.site;
            let Some((start, length)) = site.range() else {
                return Ok(());
            };
            let function = functions.entry((site.file_number(), start));
            let function = function.or_insert_with(|| SampledFunction {
                name: site.symbol().to_owned(),
                dso: site.dso().into_owned(),
                path: site.path().into_owned(),
                file_number: site.file_number(),
                start,
                length,
                ..SampledFunction::default()
            });
            function.events = function.events.saturating_add(period);
            let samples = recording.sample_count(named.sample);
            function.samples = function.samples.saturating_add(samples);
            let events = function
                .events_by_offset
                .entry(site.file_offset())
                .or_default();
            *events = events.saturating_add(period);
            Ok(())
        })?;
        let mut list: Vec<SampledFunction> = functions.into_values().collect();
        list.sort_by(|a, b| {
            let order = b.events.cmp(&a.events);
            order.then_with(|| (&a.name, &a.path, a.start).cmp(&(&b.name, &b.path, b.start)))
        });
        Ok(Self { list, total_events })
    }

    /// Returns the share of a function in the event count of all samples.
    pub(crate) fn share(&self, function: &SampledFunction) -> f64 {
        function.events as f64 / self.total_events.max(1) as f64
    }

    /// Returns the functions with this name; without a name, the function with the largest event count.
    ///
    /// # Errors
    /// A message with similar names, if there is no such function.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<Vec<&SampledFunction>, String> {
        let Some(name) = name else {
            let first = self.list.first();
            let not_found = "no sample of this event is in a function with a name.";
            return first.map(|first| vec![first]).ok_or(not_found.to_owned());
        };
        let functions = self.list.iter();
        let matches: Vec<&SampledFunction> =
            functions.filter(|function| function.name == name).collect();
        if !matches.is_empty() {
            return Ok(matches);
        }
        Err(format!(
            "no sample of this event is in a function `{}`.{}",
            printable(name),
            self.similar_names(name)
        ))
    }

    /// Returns the functions that contain sampled code of the inlined function with this name.
    pub(super) fn containing_inlined(
        &self,
        recording: &Recording,
        name: &str,
    ) -> Vec<&SampledFunction> {
        let lines = Lines::new(DebugFiles::of_user());
        let contains_inlined = |function: &&SampledFunction| {
            let path = &*path_of_text(&function.path);
            let key = function.file_number.map_or(u32::MAX, FileNumber::number);
            function.events_by_offset.keys().any(|offset| {
                let levels = lines.at((key, path), || recording.version(path), *offset);
                let mut inlined = levels.iter().filter_map(|level| level.inlined.as_ref());
                inlined.any(|inlined| *inlined.text == *name)
            })
        };
        let user_functions = self
            .list
            .iter()
            .filter(|function| !is_kernel_address(function.start));
        user_functions.filter(contains_inlined).collect()
    }

    /// Returns a sentence with names of functions that are similar to this one; if there are none, advice.
    fn similar_names(&self, name: &str) -> String {
        const MAX_SUGGESTIONS: usize = 5;
        const MIN_LIKENESS: f64 = 0.7;
        let likeness = |function: &&SampledFunction| {
            if last_part(&function.name).contains(name) {
                return 1.0;
            }
            strsim::normalized_damerau_levenshtein(&function.name, name)
        };
        let mut names: Vec<(f64, &str)> = self
            .list
            .iter()
            .map(|function| (likeness(&function), &function.name[..]))
            .filter(|(likeness, _)| *likeness >= MIN_LIKENESS)
            .collect();
        names.sort_by(|a, b| b.0.total_cmp(&a.0));
        names.dedup_by_key(|(_, name)| *name);
        let names: Vec<String> = names
            .iter()
            .take(MAX_SUGGESTIONS)
            .map(|(_, name)| printable(name))
            .collect();
        if names.is_empty() {
            return "\n`pmctl report --sort symbol` lists the functions with samples.".to_owned();
        }
        format!("\nSimilar names: `{}`.", names.join("`, `"))
    }
}

/// Returns the last part of a function's path, without arguments: `tick` of `<crate::Watch as Timer>::tick`.
fn last_part(name: &str) -> &str {
    let path = match name.find('(') {
        Some(end) if end > 0 => &name[..end],
        _ => name,
    };
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_similar_by_the_function_and_not_the_crate() {
        let function = |name: &str| SampledFunction {
            name: name.to_owned(),
            ..SampledFunction::default()
        };
        let names = [
            "<perfmon_main::watch::Watch as Timer>::tick",
            "main_loop(int)",
        ];
        let functions = SampledFunctions {
            list: names.map(function).to_vec(),
            total_events: 0,
        };
        assert_eq!(
            functions.similar_names("main"),
            "\nSimilar names: `main_loop(int)`."
        );
        assert_eq!(last_part("(anonymous namespace)::f"), "f");
        assert_eq!(last_part("std::sort(std::less)"), "sort");
    }
}

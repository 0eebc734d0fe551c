// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: from the text after `-e` to event selects.
//!
//! [`parse`] knows the syntax and no CPU, [`names`] knows the names, and [`resolve()`] puts both together.

mod error;
mod modifiers;
pub(crate) mod names;
mod parse;
mod resolve;

pub(crate) use error::EventError;
pub(crate) use names::Meaning;
pub(crate) use resolve::{Event, default_events};

use resolve::resolve;

use crate::pmu::Pmu;

/// The events that `text` asks for on this PMU.
pub(crate) fn events(text: &str, pmu: &Pmu) -> Result<Vec<Event>, EventError> {
    parse::parse(text)
        .and_then(|specs| specs.iter().map(|spec| resolve(spec, text, pmu)).collect())
        .map_err(|fault| fault.within(text))
}

/// The same, where one that the CPU does not have is told beside the counts of the others; fails if it has none of
/// them.
pub(crate) fn events_or_absent(text: &str, pmu: &Pmu) -> Result<Vec<Event>, EventError> {
    let resolve = |spec: &parse::Spec| match resolve(spec, text, pmu) {
        Err(fault) if fault.absent => Ok(Event::absent(&text[spec.span.clone()])),
        result => result,
    };
    let found: Vec<Event> = parse::parse(text)
        .and_then(|specs| specs.iter().map(resolve).collect())
        .map_err(|fault| fault.within(text))?;
    if found.iter().all(Event::is_absent) {
        return events(text, pmu);
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

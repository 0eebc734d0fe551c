// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events: from the text after `-e` to event selects.
//!
//! [`parse`] knows the syntax and no CPU, [`names`] knows the names, and [`resolve()`] puts both together.

mod error;
mod modifiers;
pub(crate) mod names;
mod parse;
mod resolve;

use error::Fault;

pub(crate) use error::EventError;
pub(crate) use names::Meaning;
pub(crate) use resolve::{Event, default_events};

use resolve::resolve;

use crate::pmu::Pmu;

/// The events that `text` asks for on this PMU, without groups.
pub(crate) fn events(text: &str, pmu: &Pmu) -> Result<Vec<Event>, EventError> {
    let alone = |specs: &Vec<parse::Spec>| match specs.iter().find(|spec| spec.group.is_some()) {
        None => Ok(()),
        Some(spec) => Err(
            Fault::new(spec.span.clone(), "groups are for `pmctl stat` only")
                .help("Write the events without the braces."),
        ),
    };
    parse::parse(text)
        .and_then(|specs| alone(&specs).map(|()| specs))
        .and_then(|specs| specs.iter().map(|spec| resolve(spec, text, pmu)).collect())
        .map_err(|fault| fault.within(text))
}

/// The same with groups, where one that the CPU does not have is told beside the counts of the others; fails if it has none of
/// them.
pub(crate) fn events_or_absent(text: &str, pmu: &Pmu) -> Result<Vec<Event>, EventError> {
    let resolve = |spec: &parse::Spec| match resolve(spec, text, pmu) {
        Err(fault) if fault.absent => {
            let event = Event::absent(&spec.label(text));
            let group = spec.group;
            Ok((Event { group, ..event }, Some(fault)))
        }
        result => result.map(|event| (event, None)),
    };
    let found: Vec<(Event, Option<Fault>)> = parse::parse(text)
        .and_then(|specs| specs.iter().map(resolve).collect())
        .map_err(|fault| fault.within(text))?;
    let (found, faults): (Vec<Event>, Vec<Option<Fault>>) = found.into_iter().unzip();
    if faults.iter().all(Option::is_some) {
        if let Some(fault) = faults.into_iter().flatten().next() {
            return Err(fault.within(text));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

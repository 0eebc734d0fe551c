// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses event names as `perf stat -e` and `pmctl stat -e` take them, and resolves them to encodings for counters.
//!
//! ```text
//! instructions:u                perf's name
//! L1-dcache-load-misses         perf's name of a cache event, if the table of the CPU has it
//! INST_RETIRED.ANY              the vendor's name, if the CPU's model has it
//! r1c0:k                        raw: unit mask 0x01, event 0xc0
//! cpu/event=0xc0,umask=1,name=mine/
//! cpu/UOPS_ISSUED.ANY,cmask=1/  the vendor's name with another umask=, cmask=, inv or edge
//! cpu/mem-loads,ldlat=30/P      perf's loads and stores, where Linux has these names for the CPU
//! cpu/instructions,period=1000/  a name with its own period, or freq=; also instructions/period=1000/
//! cpu_atom/instructions/        an event on one kind of core of a hybrid processor
//! fixed0                        a fixed counter
//! {instructions,cycles}:u       a group
//! ```
//!
//! Modifiers follow the event: `:u` counts in user mode only, `:k` in the kernel only; `:p` to `:ppp` and `:P` ask for
//! precise samples, `:PMC0` and `:FIXED0` for a counter.
//!
//! [`Event::named`](crate::Event::named) is enough to count one event. [`parse`] returns all events and modifiers of a
//! text:
//!
//! ```no_run
//! use perfmon::{Modes, Pmu, spec};
//!
//! let events = spec::parse("instructions:u,r1c0", &Pmu::of_this_cpu())?;
//! assert_eq!(events[0].label, "instructions:u");
//! assert_eq!(events[0].modes, Modes::User);
//! assert_eq!(events[1].encoding.map(|e| e.to_string()), Some("r1c0".to_owned()));
//! # Ok::<(), spec::SpecError>(())
//! ```
//!
//! `parse` knows only the syntax, `names` and `cache_event` the names that do not depend on the
//! CPU, `listed` the names of the CPU's model, and `resolve` combines them. The encodings come from
//! the module and from [`perfmon_events`].

mod cache;
mod cache_event;
mod error;
mod event_spec;
mod listed;
mod meaning;
mod memory_names;
mod modifiers;
mod names;
mod on_counters;
mod parse;
mod precise_text;
mod resolve;
mod unknown;
mod unknown_name;

use error::Fault;
use parse::Spec;
use precise_text::precise_text;
use resolve::resolve;

pub use cache::cache_events;
pub use cache_event::CacheEvent;
pub use error::SpecError;
pub use event_spec::{EventSpec, Precision, SampleRate};
pub use listed::{counters_of_listed, extra_register, is_sampled_only, register_name, select_of};
pub use meaning::Meaning;
pub use names::{NamedEvent, named_events};
pub use on_counters::OnCounters;
/// The lists of events of all CPU models.
pub use perfmon_events as models;

use crate::Pmu;

/// Returns the events that `text` asks for on this PMU.
///
/// # Errors
/// A mistake in the text, or the first event that the CPU lacks.
pub fn parse(text: &str, pmu: &Pmu) -> Result<Vec<EventSpec>, SpecError> {
    parse::parse(text)
        .and_then(|specs| specs.iter().map(|spec| resolve(spec, text, pmu)).collect())
        .map_err(|fault| fault.into_error(text))
}

/// Parses like [`parse`], but rejects groups.
///
/// # Errors
/// As [`parse`]; a group is a mistake, too.
pub fn parse_without_groups(text: &str, pmu: &Pmu) -> Result<Vec<EventSpec>, SpecError> {
    let specs = parse::parse(text).map_err(|fault| fault.into_error(text))?;
    match specs.iter().find(|spec| spec.group.is_some()) {
        None => parse(text, pmu),
        Some(spec) => Err(
            Fault::new(spec.span.clone(), "groups are for counting tasks only")
                .help("Write the events without the braces.")
                .into_error(text),
        ),
    }
}

/// Returns the text of each event of `text`, with the modifiers of its group. Commas between the
/// slashes of an event are part of the event.
///
/// ```
/// let texts = perfmon::spec::split("cycles:u, cpu/event=0xc0,umask=1/u")?;
/// assert_eq!(texts, ["cycles:u", "cpu/event=0xc0,umask=1/u"]);
/// # Ok::<(), perfmon::spec::SpecError>(())
/// ```
///
/// # Errors
/// A mistake in the syntax. Whether the events exist depends on the CPU and is not checked.
pub fn split(text: &str) -> Result<Vec<String>, SpecError> {
    let specs = parse::parse(text).map_err(|fault| fault.into_error(text))?;
    Ok(specs.iter().map(|spec| spec.label(text)).collect())
}

/// Returns the text of each event of `text`, changed to ask for precise samples: with `pp`, and without a counter of
/// the user's choice. Returns no text if `text` is malformed.
#[must_use]
pub fn precise_texts(text: &str) -> Vec<String> {
    let specs = parse::parse(text).unwrap_or_default();
    specs.iter().map(|spec| precise_text(spec, text)).collect()
}

/// Parses like [`parse`], but returns an event that the CPU lacks as [absent](EventSpec::is_absent) instead of failing.
///
/// # Errors
/// A mistake in the text. If the CPU has none of the events, the error of the first event.
pub fn parse_or_absent(text: &str, pmu: &Pmu) -> Result<Vec<EventSpec>, SpecError> {
    let resolve = |spec: &Spec| match resolve(spec, text, pmu) {
        Ok(event) => Ok((event, None)),
        Err(fault) => match fault.missing_reason.clone() {
            Some(reason) => {
                let group = spec.group;
                let event = EventSpec::absent(spec.label(text), reason);
                Ok((EventSpec { group, ..event }, Some(fault)))
            }
            None => Err(fault),
        },
    };
    let events: Vec<(EventSpec, Option<Fault>)> = parse::parse(text)
        .and_then(|specs| specs.iter().map(resolve).collect())
        .map_err(|fault| fault.into_error(text))?;
    let (events, faults): (Vec<EventSpec>, Vec<Option<Fault>>) = events.into_iter().unzip();
    if faults.iter().all(Option::is_some) {
        if let Some(fault) = faults.into_iter().flatten().next() {
            return Err(fault.into_error(text));
        }
    }
    Ok(events)
}

/// Returns the default events (instructions, cycles, branches, branch misses), without those that the CPU lacks.
#[must_use]
pub fn default_events(pmu: &Pmu) -> Vec<EventSpec> {
    default_names()
        .filter_map(|name| parse(name, pmu).ok())
        .flatten()
        .collect()
}

/// Returns the names of the default events, including those that the CPU lacks.
pub fn default_names() -> impl Iterator<Item = &'static str> {
    let names = names::DEFAULT_EVENTS.iter();
    names.filter_map(|meaning| meaning.names().first().copied())
}

#[cfg(test)]
mod tests;

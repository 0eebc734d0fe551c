// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses event names as `perf stat -e` and `pmctl stat -e` take them, and resolves them to encodings for counters.
//!
//! ```text
//! instructions:u                a name of perf's
//! L1-dcache-load-misses         a cache, as far as the table of the CPU has it
//! INST_RETIRED.ANY              a name of the vendor's, as far as the CPU's model has it
//! r1c0:k                        raw: unit mask 0x01, event 0xc0
//! cpu/event=0xc0,umask=1,name=mine/
//! cpu/UOPS_ISSUED.ANY,cmask=1/  a name of the vendor's with another umask=, cmask=, inv or edge
//! cpu/instructions,period=1000/  a name with a period of its own, or freq=; also instructions/period=1000/
//! fixed0                        a fixed counter
//! {instructions,cycles}:u       a group
//! ```
//!
//! Behind it, `:u` counts in user mode only, `:k` in the kernel only; `:p` to `:ppp` and `:P` ask for precise samples,
//! `:PMC0` and `:FIXED0` for a counter.
//!
//! [`Event::named`](crate::Event::named) is enough to count one event. [`parse`] gives all that a text asks for:
//!
//! ```no_run
//! use perfmon::{Modes, Pmu, spec};
//!
//! let events = spec::parse("instructions:u,r1c0", &Pmu::here())?;
//! assert_eq!(events[0].label, "instructions:u");
//! assert_eq!(events[0].modes, Modes::User);
//! assert_eq!(events[1].encoding.map(|e| e.to_string()), Some("r1c0".to_owned()));
//! # Ok::<(), spec::SpecError>(())
//! ```
//!
//! `parse` knows the syntax and no CPU, `names` and `cache` the names of all CPUs, `listed` those of the CPU's model,
//! and `resolve` puts them together. The encodings are those of the module and of [`perfmon_events`].

mod cache;
mod error;
mod listed;
mod modifiers;
mod names;
mod on_counters;
mod parse;
mod resolve;
mod unknown;

use error::Fault;
use parse::Spec;
use resolve::resolve;

pub use cache::{CacheEvent, cache_events};
pub use error::SpecError;
pub use listed::{counters_of_listed, register_name, select_of};
pub use names::{Meaning, NamedEvent, named_events};
pub use on_counters::OnCounters;
/// The lists of events of all CPU models.
pub use perfmon_events as models;

use crate::event::{Builder, Encoding};
use crate::{CounterId, EventSelect, Modes, Pmu};

/// An event that a text asks for, on a PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// Name as it was written, or the one that `name=` gives it.
    pub label: String,
    /// Meaning, if it has a name.
    pub meaning: Option<Meaning>,
    /// The modes that are asked for; both without a modifier.
    pub modes: Modes,
    /// The event as events of tasks and CPUs ask for it; `None` if the CPU lacks it.
    pub encoding: Option<Encoding>,
    /// The select for general counters, if they can count it.
    pub general: Option<EventSelect>,
    /// The general counters that can: bit n for counter n.
    pub general_counters: u64,
    /// The fixed counter that can count it.
    pub fixed: Option<u8>,
    /// The counter that is asked for.
    pub pinned: Option<CounterId>,
    /// Events of a text with the same number are a group.
    pub group: Option<usize>,
    /// Precision of its samples, if `:p` to `:ppp` or `:P` gives one. Counting has no use for it.
    pub precision: Option<Precision>,
    /// The sample rate that `period=` or `freq=` gives. Counting ignores it.
    pub rate: Option<SampleRate>,
    /// The vendor's list limits it to fewer counters than the driver does: it counts right only where the counter is
    /// chosen from [`Self::general_counters`].
    pub needs_choice: bool,
    /// Why the CPU lacks it, in sentences, if it does.
    pub missing: Option<String>,
}

/// The distance that a sample may have from the event's instruction, as perf's modifiers say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `:p` to `:ppp`: 1 to 3, as [`Builder::precise`] takes it.
    Level(u8),
    /// `:P`: as precise as it can be had, which may be not at all.
    Highest,
}

/// The rate at which an event is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleRate {
    /// Each so many events.
    Period(u64),
    /// About so many times in a second.
    Frequency(u64),
}

impl EventSpec {
    /// An event that the CPU lacks, with the reason.
    #[must_use]
    pub fn absent(label: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            meaning: None,
            modes: Modes::default(),
            encoding: None,
            general: None,
            general_counters: 0,
            fixed: None,
            pinned: None,
            group: None,
            precision: None,
            rate: None,
            needs_choice: false,
            missing: Some(reason.into()),
        }
    }

    /// Returns whether the CPU lacks it.
    #[must_use]
    pub const fn is_absent(&self) -> bool {
        self.encoding.is_none()
    }

    /// Returns the select to write to `counter`.
    #[must_use]
    pub fn select_on(&self, counter: CounterId) -> EventSelect {
        let select = match counter {
            CounterId::General(_) => self.general.unwrap_or(EventSelect::fixed()),
            CounterId::Fixed(_) => EventSelect::fixed(),
        };
        select.modes(self.modes)
    }

    /// Returns the event to open, with its modes, its label, and a level of precision; `None` if the CPU lacks it. The
    /// counter that is asked for is no part of it: the driver chooses it.
    #[must_use]
    pub fn builder(&self) -> Option<Builder> {
        let event = Builder::new(self.encoding?)
            .modes(self.modes)
            .label(&self.label);
        Some(match self.precision {
            Some(Precision::Level(level)) => event.precise(level),
            Some(Precision::Highest) | None => event,
        })
    }
}

/// Returns the events that `text` asks for on this PMU.
///
/// # Errors
/// A mistake in the text, or the first event that the CPU lacks.
pub fn parse(text: &str, pmu: &Pmu) -> Result<Vec<EventSpec>, SpecError> {
    parse::parse(text)
        .and_then(|specs| specs.iter().map(|spec| resolve(spec, text, pmu)).collect())
        .map_err(|fault| fault.within(text))
}

/// Returns the events that `text` asks for, in which groups are a mistake.
///
/// # Errors
/// As [`parse`], and the first group.
pub fn parse_without_groups(text: &str, pmu: &Pmu) -> Result<Vec<EventSpec>, SpecError> {
    let specs = parse::parse(text).map_err(|fault| fault.within(text))?;
    match specs.iter().find(|spec| spec.group.is_some()) {
        None => parse(text, pmu),
        Some(spec) => Err(
            Fault::new(spec.span.clone(), "groups are for counting tasks only")
                .help("Write the events without the braces.")
                .within(text),
        ),
    }
}

/// Returns the events that `text` asks for, as [`parse`] does; but an event that the CPU lacks is returned as
/// [absent](EventSpec::is_absent).
///
/// # Errors
/// A mistake in the text. If the CPU has none of the events: the error of the first.
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
    let found: Vec<(EventSpec, Option<Fault>)> = parse::parse(text)
        .and_then(|specs| specs.iter().map(resolve).collect())
        .map_err(|fault| fault.within(text))?;
    let (found, faults): (Vec<EventSpec>, Vec<Option<Fault>>) = found.into_iter().unzip();
    if faults.iter().all(Option::is_some) {
        if let Some(fault) = faults.into_iter().flatten().next() {
            return Err(fault.within(text));
        }
    }
    Ok(found)
}

/// Returns the usual events, as far as the CPU has them: instructions, cycles, branches, and those mispredicted.
#[must_use]
pub fn default_events(pmu: &Pmu) -> Vec<EventSpec> {
    default_names()
        .filter_map(|name| parse(name, pmu).ok())
        .flatten()
        .collect()
}

/// Returns the names of the usual events, also of those that the CPU does not have.
pub fn default_names() -> impl Iterator<Item = &'static str> {
    let names = names::DEFAULT_EVENTS.iter();
    names.filter_map(|meaning| meaning.names().first().copied())
}

#[cfg(test)]
mod tests;

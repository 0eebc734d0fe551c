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
//! `parse` knows only the syntax, `names` and `cache_event` the names that do not depend on the CPU, `listed` the names of the
//! CPU's model, and `resolve` combines them. The encodings are those of the module and of [`perfmon_events`].

mod cache;
mod cache_event;
mod error;
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

use error::Fault;
use parse::Spec;
use precise_text::precise_text;
use resolve::resolve;

pub use cache::cache_events;
pub use cache_event::CacheEvent;
pub use error::SpecError;
pub use listed::{counters_of_listed, extra_register, is_sampled_only, register_name, select_of};
pub use meaning::Meaning;
pub use names::{NamedEvent, named_events};
pub use on_counters::OnCounters;
/// The lists of events of all CPU models.
pub use perfmon_events as models;

use crate::event::{Builder, Encoding};
use crate::{CounterId, EventSelect, Modes, Pmu};

/// An event that a text asks for, on a PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// Name as it was written, or the name of `name=`.
    pub label: String,
    /// The event that perf's name means on all CPUs, if the text has such a name.
    pub meaning: Option<Meaning>,
    /// The modes of the modifiers; both modes without a modifier.
    pub modes: Modes,
    /// The encoding for opening an event of a task or a CPU; `None` if the CPU lacks the event.
    pub encoding: Option<Encoding>,
    /// The `type` of Linux's PMU of the only kind of core that counts the event, if the text asks for one kind of a
    /// hybrid processor, or only one other than the big cores has the name.
    pub core_type: Option<u32>,
    /// The select for general counters, if they can count the event.
    pub general: Option<EventSelect>,
    /// The general counters that can count the event: bit n stands for counter n.
    pub general_counters: u64,
    /// The fixed counter that can count the event.
    pub fixed: Option<u8>,
    /// The counter that the text asks for.
    pub pinned: Option<CounterId>,
    /// The number of the group in the text: events with the same number are a group.
    pub group: Option<usize>,
    /// Precision of the samples, if `:p` to `:ppp` or `:P` gives one. Counting ignores it.
    pub precision: Option<Precision>,
    /// The period or frequency of `period=` or `freq=`. Counting ignores it.
    pub rate: Option<SampleRate>,
    /// The vendor's list limits the event to fewer counters than the driver does: its count is right only if the program
    /// chooses the counter from [`Self::general_counters`].
    pub needs_own_counter_choice: bool,
    /// The reason why the CPU lacks the event, in sentences; `None` if the CPU has it.
    pub missing: Option<String>,
}

/// The required distance of a sample from the instruction of the event, by perf's modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `:p` to `:ppp`: 1 to 3, as [`Builder::precise`] takes it.
    Level(u8),
    /// `:P`: the highest precision that the CPU supports, which may be none.
    Highest,
}

/// The period or the frequency at which an event is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleRate {
    /// Number of events from one sample to the next.
    Period(u64),
    /// Approximate number of samples per second.
    Frequency(u64),
}

impl EventSpec {
    /// Creates an event that the CPU lacks, with the reason.
    #[must_use]
    pub fn absent(label: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            meaning: None,
            modes: Modes::default(),
            encoding: None,
            core_type: None,
            general: None,
            general_counters: 0,
            fixed: None,
            pinned: None,
            group: None,
            precision: None,
            rate: None,
            needs_own_counter_choice: false,
            missing: Some(reason.into()),
        }
    }

    /// Returns whether the CPU lacks the event.
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

    /// Returns whether the event is counted with precise samples only, as Intel's events of slow loads are.
    #[must_use]
    pub fn needs_precise_samples(&self, pmu: &Pmu) -> bool {
        self.encoding
            .is_some_and(|encoding| listed::needs_precise_samples(encoding, pmu))
    }

    /// Returns the configuration for opening the event, with its modes, label and level of precision; `None` if the CPU
    /// lacks the event. [`Self::pinned`] has no effect on it, because the driver chooses the counters of events.
    #[must_use]
    pub fn builder(&self) -> Option<Builder> {
        let event = Builder::new(self.encoding?)
            .modes(self.modes)
            .label(&self.label);
        let event = match self.core_type {
            Some(core_type) => event.core_type(core_type),
            None => event,
        };
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
        .map_err(|fault| fault.into_error(text))
}

/// Parses like [`parse`], but rejects groups.
///
/// # Errors
/// As [`parse`], and the first group.
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

/// Returns the events of `text` as they would be written to have precise samples: with `pp`, and without a counter of the
/// user's choice. Returns no text if `text` is malformed.
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

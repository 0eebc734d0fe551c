// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event that a text asks for, with the options in the text, and the counters that can count the
//! event.

use super::listed;
use super::meaning::Meaning;
use crate::event::{Builder, Encoding};
use crate::{CounterId, EventSelect, Modes, Pmu};

/// An event that a text asks for, on a PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpec {
    /// The name as it was written, or the value of `name=`.
    pub label: String,
    /// The event that perf's name means on all CPUs, if the text has such a name.
    pub meaning: Option<Meaning>,
    /// The modes of the modifiers; both modes without a modifier.
    pub modes: Modes,
    /// The encoding for opening an event of a task or a CPU; `None` if the CPU lacks the event.
    pub encoding: Option<Encoding>,
    /// The `type` of Linux's PMU if only one kind of core of a hybrid processor counts the event: if the text asks for
    /// that kind, or if the big cores lack the event and another kind has it.
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
    /// The precision of the samples (`:p` to `:ppp`, `:P`); `None` if the text gives none. Counting
    /// ignores it.
    pub precision: Option<Precision>,
    /// The period or frequency of `period=` or `freq=`. Counting ignores it.
    pub rate: Option<SampleRate>,
    /// The vendor's list limits the event to fewer counters than the driver does: its count is right only if the program
    /// chooses the counter from [`Self::general_counters`].
    pub needs_own_counter_choice: bool,
    /// The reason why the CPU lacks the event, in sentences; `None` if the CPU has it.
    pub missing: Option<String>,
}

/// The required precision of samples: how far a sample may be from the instruction that caused the
/// event.
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

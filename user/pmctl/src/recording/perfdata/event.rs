// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of a recording.

use super::attr::Attr;
use super::sample_parts::SampleParts;

/// An event that was recorded. Its samples name it by its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// Name that the user wrote.
    pub(crate) name: String,
    pub(crate) attr: Attr,
}

impl Event {
    /// Returns whether the samples have a level, such as a temperature, which can't be divided among functions.
    pub(crate) fn is_level(&self) -> bool {
        self.attr.unit().is_some_and(|unit| !unit.grows())
    }
}

/// Returns the parts that samples of these events have. All events of a recording have the same parts.
pub(super) fn parts(events: &[Event]) -> SampleParts {
    events
        .first()
        .map_or_else(SampleParts::default, |event| event.attr.parts())
}

/// Returns whether the branches of these events are the program's call stack.
pub(super) fn has_call_stack(events: &[Event]) -> bool {
    events.iter().any(|event| event.attr.has_call_stack())
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The columns of counts: events in their places.

use perfmon::spec::EventSpec;
use perfmon::{CounterId, Encoding, EventSelect};

use super::scope::CountedPlace;
use super::unit::ColumnUnit;

/// An event in one place: a thread, CPU, core, socket or cgroup, or all that is counted.
#[derive(Clone)]
pub(crate) struct Column {
    /// The place; `None` for all that is counted.
    pub(super) place: Option<CountedPlace>,
    /// The index of the event among all that are counted.
    pub(super) event_index: usize,
    pub(crate) event: EventSpec,
    /// The counter; `None` if the driver chooses it, or if no counter of the driver counts the event.
    pub(crate) counter: Option<CounterId>,
    /// The unit of the number; `None` for a plain count.
    pub(super) unit: Option<ColumnUnit>,
}

impl Column {
    /// Returns the column of an event that Linux counts.
    pub(super) fn of_linux(
        event_index: usize,
        label: String,
        place: Option<CountedPlace>,
        unit: Option<ColumnUnit>,
    ) -> Self {
        Self {
            place,
            event_index,
            // The encoding only marks the event as present: no counter of the driver counts it.
            event: EventSpec {
                encoding: Some(Encoding::Raw(EventSelect::fixed())),
                missing: None,
                ..EventSpec::absent(label, "")
            },
            counter: None,
            unit,
        }
    }

    /// Returns the column of an event that Linux can't count. `reason` is shown to the user.
    pub(super) fn of_missing(event_index: usize, label: &str, reason: String) -> Self {
        Self {
            place: None,
            event_index,
            event: EventSpec::absent(label, reason),
            counter: None,
            unit: None,
        }
    }

    /// Returns the text to show instead of a missing count: `text_if_present` if the CPU has the
    /// event, otherwise `<not supported>`.
    pub(super) fn text_if_missing(&self, text_if_present: &'static str) -> &'static str {
        if self.event.is_absent() {
            "<not supported>"
        } else {
            text_if_present
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Software events, values, events of Linux's PMUs, and the duration of a count: the events that -e
//! and -M name besides the events of the driver's counters.

use crate::events::linux_pmu::PmuEvent;
use crate::events::software::Software;
use crate::events::values::Value;

/// The events and values that are counted beside events of the driver.
#[derive(Debug, Default)]
pub(in crate::commands::stat) struct OtherEvents {
    pub(in crate::commands::stat) software: Vec<Software>,
    pub(in crate::commands::stat) values: Vec<Value>,
    pub(in crate::commands::stat) pmus: Vec<PmuEvent>,
    /// The duration of the count is one of the events.
    pub(in crate::commands::stat) has_duration: bool,
}

impl OtherEvents {
    /// Returns whether there is no such event or value.
    pub(in crate::commands::stat) fn is_empty(&self) -> bool {
        self.software.is_empty()
            && self.values.is_empty()
            && self.pmus.is_empty()
            && !self.has_duration
    }
}

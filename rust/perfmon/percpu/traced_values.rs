// SPDX-License-Identifier: GPL-2.0-only
//! The values that a trace records on one CPU.

use super::Word;
use crate::logic::values::{MiscEvent, VALUE_COUNT};

/// The values that a trace records on one CPU. All bits zero: no values.
pub(crate) struct TracedValues {
    /// The values that are recorded here, as a mask of [`MiscEvent::bit`].
    recorded_values: Word,
    /// The values that are recorded with the timebase, as a mask.
    follower_values: Word,
    /// The longest time in nanoseconds between two reads of the values' registers; 0 if they need not be read
    /// regularly.
    pub(crate) refresh_ns: Word,
    states: [ValueState; VALUE_COUNT],
}

/// The state of one value.
///
/// Both the overflow handler and the code that it interrupts read the registers and store `last`,
/// which is one word. If the interrupt comes between reading and storing, an older value is stored,
/// and the next read continues from this value.
pub(crate) struct ValueState {
    /// The register's value at its last read, extended to 64 bits.
    pub(crate) last: Word,
    /// The extended value when the trace started.
    pub(crate) start: Word,
    /// The argument of [`Scale::from_byte`](crate::logic::values::Scale::from_byte).
    pub(crate) scale_byte: Word,
}

impl TracedValues {
    /// Sets the values that are recorded, and the values that are recorded with the timebase.
    pub(crate) fn select(&self, recorded: u16, followers: u16) {
        self.recorded_values.set(recorded.into());
        self.follower_values.set(followers.into());
    }

    /// Returns the values that are recorded here, as a mask.
    pub(crate) fn recorded_values(&self) -> u16 {
        self.recorded_values.get() as u16
    }

    /// Returns the values that are recorded here with the timebase, as a mask.
    pub(crate) fn follower_values(&self) -> u16 {
        self.follower_values.get() as u16
    }

    /// Returns the state of one value.
    pub(crate) fn state_of(&self, id: MiscEvent) -> &ValueState {
        &self.states[id.index()]
    }
}

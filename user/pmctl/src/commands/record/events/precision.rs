// SPDX-License-Identifier: MIT OR Apache-2.0
//! Precise samples, which the processor takes itself (`:p` to `:ppp`, `:P`): the options that they don't go with.

use perfmon::spec::{EventSpec, Precision};

use crate::args::EventOptions;
use crate::system::exit::Usage;

/// The `precise_ip` of `:P`. Level 3 exists for instructions only.
pub(super) const HIGHEST_LEVEL: u8 = 2;

/// The note on a recording with `:P` whose samples are not precise.
pub(super) const NOT_PRECISE_NOTE: &str = "`:P`: precise samples can't be had with these options, or on this CPU; they are taken \
                                  by interrupts, some instructions after the event";

/// Returns whether precise samples go with the options. The driver does not take them of cgroups.
pub(super) fn is_possible_with(options: &EventOptions) -> bool {
    options.cgroups.is_empty()
}

/// Refuses options that precise samples don't go with, if an event asks for these by their level.
pub(super) fn check_options<'a>(
    options: &EventOptions,
    mut events: impl Iterator<Item = &'a EventSpec>,
) -> Result<(), Usage> {
    let is_asked = |event: &&EventSpec| matches!(event.precision, Some(Precision::Level(_)));
    match events.find(is_asked) {
        Some(event) if !is_possible_with(options) => Err(Usage(format!(
            "{}: precise samples can't be limited to cgroups. Leave -G out, or write `:P`, which is precise where that \
             is possible.",
            event.label
        ))),
        _ => Ok(()),
    }
}

/// Returns the message for precise samples that the driver has refused; `None` if no event asks for them.
pub(super) fn refusal_message<'a>(
    mut events: impl Iterator<Item = &'a EventSpec>,
) -> Option<String> {
    let event = events.find(|event| event.precision.is_some())?;
    Some(format!(
        "{}: precise samples were refused. Either this CPU has none of this event (PEBS: Intel from Skylake on, not \
         all events), or the period is below 2, below 256 where the kernel is sampled, or above 2147483647 (1, each \
         instruction, is possible only for instructions in `pmctl vm`), or KVM is in use. Leave the `p` out, or write `:P`, which is precise where that is possible.",
        event.label
    ))
}

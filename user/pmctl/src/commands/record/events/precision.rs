// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events whose samples the processor takes itself, `:p` to `:ppp` and `:P`: what they can't be asked for with.

use perfmon::spec::{EventSpec, Precision};

use crate::args::{EventOptions, Rate, RecordTarget};
use crate::system::exit::Usage;

/// The `precise_ip` that `:P` asks for first. 3 is for instructions alone.
pub(super) const HIGHEST_LEVEL: u8 = 2;

/// The remark on a recording in which `:P` has to do without.
pub(super) const NOT_PRECISE_NOTE: &str = "`:P`: precise samples can't be had with these options, or on this CPU; they are taken \
                                  by interrupts, some instructions behind the event";

/// Options that need a sample at each interrupt, and what to do.
type Conflict = (fn(&EventOptions) -> bool, &'static str);
const CONFLICTS: &[Conflict] = &[
    (
        |options| matches!(options.rate, Rate::Frequency(_)),
        "come each so many events. Give -c N in place of -F",
    ),
    (
        |options| options.call_graph.is_some(),
        "have no call chains. Leave -g and --call-graph out",
    ),
    (
        |options| options.branches.is_some(),
        "have no branches. Leave -b and -j out",
    ),
    (
        |options| options.overwrite,
        "are read in the order in which they came. Leave --overwrite out",
    ),
    (
        |options| {
            matches!(
                options.common.target,
                RecordTarget::Cpus(_) | RecordTarget::Machine
            )
        },
        "are of tasks. Give a command, -p or -t in place of -a and -C",
    ),
];

/// Refuses what precise samples can't be had with, if an event asks for them by their level.
pub(super) fn check<'a>(
    options: &EventOptions,
    mut events: impl Iterator<Item = &'a EventSpec>,
) -> Result<(), Usage> {
    let is_asked = |event: &&EventSpec| matches!(event.precision, Some(Precision::Level(_)));
    let Some(event) = events.find(is_asked) else {
        return Ok(());
    };
    match CONFLICTS.iter().find(|(conflicts, _)| conflicts(options)) {
        Some((_, advice)) => Err(Usage(format!(
            "{}: precise samples {advice}, or write `:P`: precise where it can be had.",
            event.label
        ))),
        None => Ok(()),
    }
}

/// Returns what to say if the driver has refused the precise samples of an event.
pub(super) fn refused<'a>(mut events: impl Iterator<Item = &'a EventSpec>) -> Option<String> {
    let event = events.find(|event| event.precision.is_some())?;
    Some(format!(
        "{}: this CPU has no precise samples of it (PEBS, on Intel's from Skylake on; not of all events), the period is \
         below 2, or below 256 where the kernel is sampled, or above 2147483647, or KVM is in use. Leave the `p` out, or write `:P`: precise where it can be had.",
        event.label
    ))
}

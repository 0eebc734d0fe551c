// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that record the memory access of each sample (-d, -W). Among the samples of the
//! driver's events, only precise samples have a memory access, which the processor writes with the
//! sample.

use perfmon::spec::{EventSpec, Precision};

use super::precision::HIGHEST_LEVEL;
use crate::args::EventOptions;
use crate::system::exit::Usage;

/// Returns the given options among -d and -W, as text for messages; `None` if neither was given.
pub(super) const fn given_options(data: bool, weight: bool) -> Option<&'static str> {
    match (data, weight) {
        (false, false) => None,
        (true, false) => Some("-d"),
        (false, true) => Some("-W"),
        (true, true) => Some("-d and -W"),
    }
}

/// Refuses the default event, whose samples have no memory access.
pub(super) fn check_default(options: &EventOptions) -> Result<(), Usage> {
    match given_options(options.data, options.weight) {
        Some(given) if options.events.is_empty() => Err(Usage(format!(
            "{}: name an event of loads or stores, as -e mem_inst_retired.all_loads:pp or, for the latency \
             and the cache of slow loads, -e mem_trans_retired.load_latency_gt_32:pp (`pmctl list mem_` shows more).",
            needs_precision(given)
        ))),
        _ => Ok(()),
    }
}

/// Replaces `:P` by the highest level of precision, and refuses events that are not precise:
/// samples that are taken by interrupts have no memory access. `precise_text` returns the text to
/// type instead of a refused event.
pub(super) fn require_precision(
    options: &EventOptions,
    event: &mut EventSpec,
    precise_text: impl FnOnce() -> String,
) -> Result<(), Usage> {
    let Some(given) = given_options(options.data, options.weight) else {
        return Ok(());
    };
    match event.precision {
        Some(Precision::Level(1..)) => Ok(()),
        Some(Precision::Highest) => {
            event.precision = Some(Precision::Level(HIGHEST_LEVEL));
            Ok(())
        }
        None | Some(Precision::Level(0)) => Err(Usage(format!(
            "{}: -e {}. Precise samples of loads or stores have a memory access, as \
             -e mem_inst_retired.all_loads:pp (`pmctl list mem_` shows more).",
            needs_precision(given),
            precise_text()
        ))),
    }
}

fn needs_precision(given: &str) -> String {
    let verb = if given.contains(' ') { "need" } else { "needs" };
    format!("{given} {verb} precise samples")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_named_in_a_sentence() {
        assert_eq!(needs_precision("-d"), "-d needs precise samples");
        assert_eq!(
            needs_precision("-d and -W"),
            "-d and -W need precise samples"
        );
    }
}

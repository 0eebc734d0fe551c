// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options that record the memory access of each sample (-d, -W). Of the driver's events, only precise samples have
//! one: the processor writes it with the sample.

use perfmon::spec::{EventSpec, Precision};

use super::precision::HIGHEST_LEVEL;
use crate::args::EventOptions;
use crate::recording::perfdata::SampleParts;
use crate::system::exit::Usage;

/// Advice for a refused event.
const REFUSAL_ADVICE: &str = "With -d and -W it takes `:p` to `:ppp`, and a processor whose precise samples have the data address. \
                              Record without them to see if the event can be precise at all.";

/// Returns the options among -d and -W that were given, as they are named in messages; `None` without one.
fn given_options(options: &EventOptions) -> Option<&'static str> {
    match (options.data, options.weight) {
        (false, false) => None,
        (true, false) => Some("-d"),
        (false, true) => Some("-W"),
        (true, true) => Some("-d and -W"),
    }
}

/// Refuses the default event, which is no memory access.
pub(super) fn check_default(options: &EventOptions) -> Result<(), Usage> {
    match given_options(options) {
        Some(given) if options.events.is_empty() => Err(Usage(format!(
            "{}: name an event of loads or stores, as -e mem_inst_retired.all_loads:pp (`pmctl list mem_` \
             shows more).",
            needs_precision(given)
        ))),
        _ => Ok(()),
    }
}

/// Makes `:P` the highest level, since samples by interrupts have no memory access. Refuses events that are not precise.
pub(super) fn require_precision(
    options: &EventOptions,
    event: &mut EventSpec,
) -> Result<(), Usage> {
    let Some(given) = given_options(options) else {
        return Ok(());
    };
    match event.precision {
        Some(Precision::Level(1..)) => Ok(()),
        Some(Precision::Highest) => {
            event.precision = Some(Precision::Level(HIGHEST_LEVEL));
            Ok(())
        }
        None | Some(Precision::Level(0)) => Err(Usage(format!(
            "{}: -e {}. Only then does the processor record the memory access.",
            needs_precision(given),
            precise_label(&event.label)
        ))),
    }
}

fn needs_precision(given: &str) -> String {
    let verb = if given.contains(' ') { "need" } else { "needs" };
    format!("{given} {verb} precise samples")
}

/// Returns the text of an event with perf's modifier for precise samples.
fn precise_label(label: &str) -> String {
    let separator = if label.contains(':') || label.ends_with('/') {
        ""
    } else {
        ":"
    };
    format!("{label}{separator}pp")
}

/// Adds advice to the message for precise samples that the driver has refused, if samples were to have memory accesses.
pub(super) fn with_advice(refusal: String, parts: SampleParts) -> String {
    if parts.has_memory_access() {
        format!("{refusal}\n{REFUSAL_ADVICE}")
    } else {
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_what_to_type() {
        assert_eq!(precise_label("branches"), "branches:pp");
        assert_eq!(precise_label("branches:u"), "branches:upp");
        assert_eq!(precise_label("cpu/event=0xd0/"), "cpu/event=0xd0/pp");
        assert_eq!(needs_precision("-d"), "-d needs precise samples");
        assert_eq!(
            needs_precision("-d and -W"),
            "-d and -W need precise samples"
        );
    }

    #[test]
    fn refusals_without_memory_accesses_stay() {
        let parts = SampleParts::default();
        assert_eq!(with_advice("refused".to_owned(), parts), "refused");
        let with_data = SampleParts {
            has_data_address: true,
            ..parts
        };
        assert!(with_advice("refused".to_owned(), with_data).contains("-d and -W"));
    }
}

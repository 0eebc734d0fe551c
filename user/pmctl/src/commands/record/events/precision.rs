// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks options that don't go with precise samples (`:p` to `:ppp`, `:P`), which the processor takes itself.

use perfmon::spec::{EventSpec, Precision, SampleRate};
use perfmon::{EventSelect, Modes};
use perfmon_core::logic::pebs::PebsFormat;
use perfmon_core::logic::precise::{
    CYCLES, MAX_PERIOD, MIN_INSTRUCTIONS, MIN_PERIOD, MIN_PERIOD_IN_KERNEL,
};

use crate::args::EventOptions;
use crate::recording::perfdata::SampleParts;
use crate::system::exit::Usage;
use crate::system::precise::PreciseSamples;
use crate::system::text::{join_names, thousands};

/// The `precise_ip` of `:P`. Level 3 exists for instructions only.
pub(super) const HIGHEST_LEVEL: u8 = 2;

/// Returns the note on an event with `:P` whose samples are not precise. `options` are the result
/// of [`excluding_options`].
pub(super) fn not_precise_note(
    label: &str,
    modes: Modes,
    rate: SampleRate,
    options: &[&str],
) -> String {
    if is_each_event(rate) {
        return format!(
            "{label}: give a larger period, as -c 10007; with the period 1 each event would be a sample, which is possible \
             only for {}; the samples are taken by interrupts, which miss most events",
            describe_possible_events(options)
        );
    }
    match period_problem(modes, rate) {
        Some(problem) => format!(
            "{label}: {problem}; the samples are taken by interrupts, some instructions after the event"
        ),
        None => format!(
            "{label}: precise samples can't be had with these options, or on this CPU{}; they are taken by interrupts, \
             some instructions after the event",
            short_period_reason(rate)
        ),
    }
}

/// Returns whether the rate asks for a sample of every single event: the period 1.
pub(super) fn is_each_event(rate: SampleRate) -> bool {
    rate == SampleRate::Period(PebsFormat::MERGED_PERIOD)
}

/// Returns those of the given options that can't be combined with the period 1, a sample for each
/// event. These are the options for call chains, branches and the memory access.
pub(super) fn excluding_options(
    (has_chain, has_branches): (bool, bool),
    parts: SampleParts,
) -> Vec<&'static str> {
    let options = [
        (has_chain, "-g"),
        (has_branches, "-b"),
        (parts.has_data_address, "-d"),
        (parts.has_weight, "-W"),
    ];
    let given = options.into_iter().filter(|(is_given, _)| *is_given);
    given.map(|(_, option)| option).collect()
}

/// Describes the events for which a sample of each event is possible, and says that `options` have to be left out.
fn describe_possible_events(options: &[&str]) -> String {
    let without = match options {
        [] => String::new(),
        options => format!(", without {}", join_names(options, "and")),
    };
    format!("instructions in `pmctl vm`{without}")
}

/// Returns a sentence about the period; `None` if precise samples can have this period.
fn period_problem(modes: Modes, rate: SampleRate) -> Option<String> {
    let (min_period, mode) = match modes {
        Modes::User => (MIN_PERIOD, ""),
        Modes::Kernel | Modes::Both => (MIN_PERIOD_IN_KERNEL, " where the kernel is sampled"),
    };
    match rate {
        SampleRate::Period(period) if !(min_period..=MAX_PERIOD).contains(&period) => {
            Some(format!(
                "precise samples can't have the period {}: give one from {} to {}{mode} (-c)",
                thousands(period),
                thousands(min_period),
                thousands(MAX_PERIOD)
            ))
        }
        _ => None,
    }
}

/// Returns the end of a sentence with a further reason for a refusal: the period is too short for instructions on some
/// CPUs. The text is empty for longer periods.
fn short_period_reason(rate: SampleRate) -> String {
    match rate {
        SampleRate::Period(period) if period < MIN_INSTRUCTIONS.into() => format!(
            ", or with a period below {MIN_INSTRUCTIONS} (of instructions, from Golden Cove on)"
        ),
        _ => String::new(),
    }
}

/// Returns whether precise samples can be combined with the options. The driver has no precise
/// samples of cgroups.
pub(super) fn is_possible_with(options: &EventOptions) -> bool {
    options.cgroups.is_empty()
}

/// Refuses options that exclude precise samples, if an event has a level of precision (`:p` to `:ppp`).
pub(super) fn check_options<'a>(
    options: &EventOptions,
    mut events: impl Iterator<Item = &'a EventSpec>,
) -> Result<(), Usage> {
    let has_level = |event: &&EventSpec| matches!(event.precision, Some(Precision::Level(_)));
    match events.find(has_level) {
        Some(event) if !is_possible_with(options) => {
            // With -d or -W, `:P` is no alternative: the event is precise or refused.
            let advice = if options.data || options.weight {
                ""
            } else {
                ", or write `:P`, which is precise where that is possible"
            };
            Err(Usage(format!(
                "{}: precise samples can't be limited to cgroups. Leave -G out{advice}.",
                event.label
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the message for precise samples that the driver has refused; `None` if no event asks for
/// them. `supported` are the precise samples that the driver supports, `options` has the same
/// meaning as for [`not_precise_note`], and `memory_options` are the given ones among -d and -W.
pub(super) fn refusal_message<'a>(
    events: impl Iterator<Item = (&'a EventSpec, SampleRate)>,
    (options, memory_options): (&[&str], Option<&str>),
    supported: impl FnOnce() -> Option<PreciseSamples>,
) -> Option<String> {
    let is_precise = |(event, _): &(&EventSpec, SampleRate)| event.precision.is_some();
    let events: Vec<_> = events.filter(is_precise).collect();
    let (event, rate) = *events.first()?;
    let label = &event.label;
    let supported = supported();
    if let (Some(given), Some(supported)) = (memory_options, supported) {
        if !supported.format.has_access() {
            return Some(format!(
                "{label}: the precise samples of `pmctl vm` have no memory accesses. Leave {given} out."
            ));
        }
    }
    let level_message = supported.and_then(|supported| {
        let mut events = events.iter();
        events.find_map(|(event, _)| level_problem(event, supported, memory_options))
    });
    if level_message.is_some() {
        return level_message;
    }
    let each_event_note = if is_each_event(rate) {
        let place = describe_possible_events(options);
        format!("; the period 1 is possible only for {place}")
    } else {
        String::new()
    };
    Some(match period_problem(event.modes, rate) {
        Some(problem) => format!("{label}: {problem}{each_event_note}."),
        None => format!(
            "{label}: precise samples were refused. Either this CPU has none of this event (PEBS: Intel from Skylake \
             on, not all events){}, or KVM is in use: `pmctl doctor` says which. {}",
            short_period_reason(rate),
            advice_without_precision(memory_options)
        ),
    })
}

/// Returns advice for an event that can't be precise, with `memory_options` as for [`refusal_message`].
fn advice_without_precision(memory_options: Option<&str>) -> String {
    match memory_options {
        // Samples by interrupts have no memory access, so the precision can't be left out.
        Some(given) => {
            format!("Without {given}, `pmctl record` shows whether the event can be precise.")
        }
        None => {
            "Leave the `p` out, or write `:P`, which is precise where that is possible.".to_owned()
        }
    }
}

/// Returns the message for an event that can't be precise in this CPU's format, or not at the
/// requested level; `None` if the event can be precise at that level.
fn level_problem(
    event: &EventSpec,
    supported: PreciseSamples,
    memory_options: Option<&str>,
) -> Option<String> {
    /// The fixed counter of instructions.
    const INSTRUCTIONS: u8 = 0;
    const HIGHEST: Precision = Precision::Level(3);
    const NEEDS_FORMAT_4: &str =
        "need PEBS format 4 (from Ice Lake and Tremont on), and this CPU has format 3";

    let label = &event.label;
    let is_cycles = |select: EventSelect| select.bits() & 0xff == u64::from(CYCLES);
    if !supported.has_cycles && event.general.is_some_and(is_cycles) {
        let advice = match memory_options {
            // Without precision, samples of cycles have no memory access, so the advice is another
            // event.
            Some(_) => "Name an event of loads or stores.".to_owned(),
            None => advice_without_precision(None),
        };
        return Some(format!(
            "{label}: precise samples of cycles {NEEDS_FORMAT_4}. {advice}"
        ));
    }
    if event.precision != Some(HIGHEST) {
        return None;
    }
    let advice = match label.rsplit_once("ppp") {
        Some((name, rest)) => format!("Write `{name}pp{rest}`."),
        None => "Write `pp`.".to_owned(),
    };
    if event.fixed != Some(INSTRUCTIONS) {
        return Some(format!(
            "{label}: only instructions have samples of the level `ppp`. {advice}"
        ));
    }
    let is_supported = supported.format != PebsFormat::Three;
    (!is_supported)
        .then(|| format!("{label}: samples of the level `ppp` {NEEDS_FORMAT_4}. {advice}"))
}

#[cfg(test)]
mod tests {
    use perfmon::spec;

    use super::*;
    use crate::system::pmu::testing;

    #[test]
    fn notes_name_a_period_that_precise_samples_cannot_have() {
        let note = |modes, period| {
            not_precise_note("instructions:P", modes, SampleRate::Period(period), &[])
        };
        let names = |modes, period, words: &str| {
            let note = note(modes, period);
            assert!(note.contains(words), "{note}");
            assert!(note.contains("taken by interrupts"), "{note}");
        };
        names(Modes::User, 1, "with the period 1 each event");
        names(
            Modes::User,
            1 << 31,
            "the period 2,147,483,648: give one from 2 to 2,147,483,647 (-c)",
        );
        names(
            Modes::Both,
            255,
            "the period 255: give one from 256 to 2,147,483,647 where the kernel is sampled",
        );
        names(Modes::User, 255, "these options, or on this CPU");
        let note = not_precise_note("cycles:P", Modes::Both, SampleRate::Frequency(1), &[]);
        assert!(note.contains("these options, or on this CPU"), "{note}");
    }

    #[test]
    fn a_note_on_the_period_1_names_only_options_that_were_given() {
        let no_access = SampleParts::default();
        let access = SampleParts {
            has_data_address: true,
            has_weight: true,
            ..no_access
        };
        for (chain_and_branches, parts, words) in [
            ((false, false), no_access, "in `pmctl vm`; the samples"),
            (
                (true, false),
                no_access,
                "in `pmctl vm`, without -g; the samples",
            ),
            (
                (true, true),
                no_access,
                "in `pmctl vm`, without -g and -b; the samples",
            ),
            (
                (false, false),
                access,
                "in `pmctl vm`, without -d and -W; the samples",
            ),
        ] {
            let options = excluding_options(chain_and_branches, parts);
            let note = not_precise_note("cycles:P", Modes::Both, SampleRate::Period(1), &options);
            assert!(
                note.starts_with("cycles:P: give a larger period, as -c 10007; "),
                "{note}"
            );
            assert!(note.contains(words), "{note}");
        }
    }

    #[test]
    fn a_refusal_names_the_period_if_that_is_the_reason() {
        let message = |text: &str, period| {
            let events =
                spec::parse_without_groups(text, &testing::intel()).expect("it is well formed");
            let events = events
                .iter()
                .map(|event| (event, SampleRate::Period(period)));
            refusal_message(events, (&["-b"], None), || None)
        };
        let refused = |text, period, words: &str| {
            let message = message(text, period).unwrap_or_default();
            assert!(message.contains(words), "{message}");
        };
        refused("instructions:upp", 1, "the period 1: give one from 2");
        refused(
            "instructions:upp",
            1,
            " (-c); the period 1 is possible only for instructions in `pmctl vm`, without -b.",
        );
        refused("instructions:pp", 100, "the period 100: give one from 256");
        refused("instructions:upp", 1000, "precise samples were refused");
        refused("instructions:upp", 127, "a period below 128");
        assert_eq!(message("instructions:u", 1), None);
    }

    #[test]
    fn a_refusal_with_memory_accesses_does_not_advise_against_precision() {
        let message = |text: &str, supported: Option<PebsFormat>| {
            let events =
                spec::parse_without_groups(text, &testing::intel()).expect("it is well formed");
            let events = events
                .iter()
                .map(|event| (event, SampleRate::Period(100_003)));
            let supported = supported.map(|format| PreciseSamples {
                format,
                has_cycles: format != PebsFormat::Three,
            });
            refusal_message(events, (&[], Some("-d and -W")), || supported).unwrap_or_default()
        };
        for (text, supported, words) in [
            (
                "instructions:upp",
                None,
                "Without -d and -W, `pmctl record` shows whether the event can be precise.",
            ),
            (
                "instructions:upp",
                Some(PebsFormat::Five),
                "Without -d and -W, `pmctl record` shows",
            ),
            (
                "cycles:upp",
                Some(PebsFormat::Three),
                "Name an event of loads or stores.",
            ),
            (
                "instructions:upp",
                Some(PebsFormat::Merged),
                "samples of `pmctl vm` have no memory accesses. Leave -d and -W out.",
            ),
        ] {
            let message = message(text, supported);
            assert!(message.contains(words), "{message}");
            assert!(!message.contains("`p` out"), "{message}");
            assert!(!message.contains(":P"), "{message}");
        }
    }

    #[test]
    fn a_refusal_names_the_level_or_the_event_if_that_is_the_reason() {
        let message = |text: &str, format| {
            let events =
                spec::parse_without_groups(text, &testing::intel()).expect("it is well formed");
            let events = events
                .iter()
                .map(|event| (event, SampleRate::Period(100_003)));
            let supported = PreciseSamples {
                format,
                has_cycles: format != PebsFormat::Three,
            };
            refusal_message(events, (&[], None), || Some(supported)).unwrap_or_default()
        };
        let (old, new) = (PebsFormat::Three, PebsFormat::Four);
        for (text, format, reason, advice) in [
            (
                "cycles:uppp",
                new,
                "only instructions",
                "Write `cycles:upp`.",
            ),
            (
                "instructions:upp,r1c4:ppp",
                new,
                "r1c4:ppp: only",
                "Write `r1c4:pp`.",
            ),
            ("r1c4:ppp", old, "only instructions", "Write `r1c4:pp`."),
            (
                "instructions:uppp",
                old,
                "need PEBS format 4",
                "Write `instructions:upp`.",
            ),
            (
                "cycles:upp",
                old,
                "of cycles need PEBS format 4",
                "Leave the `p` out",
            ),
            ("instructions:uppp", new, "precise samples were refused", ""),
            ("cycles:upp", new, "precise samples were refused", ""),
            ("instructions:upp", old, "precise samples were refused", ""),
        ] {
            let message = message(text, format);
            assert!(
                message.contains(reason) && message.contains(advice),
                "{message}"
            );
        }
    }
}

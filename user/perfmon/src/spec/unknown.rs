// SPDX-License-Identifier: MIT OR Apache-2.0
//! Explains names that are in no table.

use super::error::{Advice, Fault};
use super::listed;
use super::memory_names;
use super::modifiers::decode_modifiers;
use super::names;
use super::parse::{SpannedText, Spec, SpecBody};
use super::unknown_name::UnknownName;
use crate::pmu::Pmu;

/// Names that perf accepts as events, but computes from a clock and not from a counter.
const CLOCK_EVENTS: [&str; 3] = ["duration_time", "user_time", "system_time"];

/// Advice on events that the kernel counts.
const WRAP_ADVICE: &str =
    "`pmctl wrap -- perf stat -e EVENTS` counts such events together with those of the CPU.";

/// Returns the fault of a name in libpfm4's form, `EVENT:UMASK`, if the model has the event `EVENT.UMASK`.
pub(super) fn unit_mask_fault(spec: &Spec, pmu: &Pmu) -> Option<Fault> {
    let (SpecBody::Word(word), [unit_mask, ..]) = (&spec.body, &spec.modifiers[..]) else {
        return None;
    };
    let event = listed::find(&format!("{}.{}", word.text, unit_mask.text), pmu)?;
    let span = word.span.start..unit_mask.span.end;
    let fault = Fault::new(span, format!("no event is called `{}`", word.text));
    Some(fault.help(format!(
        "A unit mask is written after a dot: `{}`.",
        event.name
    )))
}

/// The group of the tracepoints that `perf probe` makes. The constant exists because an old CPU
/// model has an event `probe`.
const PROBE_GROUP: &str = "probe";

/// Returns the fault of a name in the form of a tracepoint, such as `sched:sched_switch`. It is recognized by the text
/// after the colon, which is longer than any modifier.
pub(super) fn tracepoint_fault(spec: &Spec, text: &str) -> Option<Fault> {
    let [modifier, ..] = &spec.modifiers[..] else {
        return None;
    };
    let is_probe = matches!(&spec.body, SpecBody::Word(word) if word.text == PROBE_GROUP);
    let is_long = modifier.text.len() >= 5 || modifier.text.contains('*');
    if !(is_long || is_probe) || decode_modifiers(&spec.modifiers).is_ok() {
        return None;
    }
    let name = &text[spec.span.clone()];
    let fault = Fault::new(
        spec.span.clone(),
        format!("`{name}` is not an event of the CPU"),
    );
    Some(fault.help(format!(
        "A tracepoint or a breakpoint is counted by the kernel. {WRAP_ADVICE}"
    )))
}

/// Returns the fault of perf's name of loads or stores if the CPU lacks the event; `None` for other names, and if it has the
/// event.
pub(super) fn memory_name_fault(word: &SpannedText, pmu: &Pmu) -> Option<Fault> {
    let access = memory_names::access_kind(&word.text)?;
    if listed::find(&word.text, pmu).is_some() {
        return None;
    }
    let message = format!("this CPU does not have the event `{}`", word.text);
    let reason = format!(
        "It is perf's name of {access}s that Intel's cores sample precisely, from Sandy Bridge and Gracemont on."
    );
    let help =
        format!("{reason}\n`pmctl list {access}` shows the {access}s that can be counted here.");
    let fault = Fault::new(word.span.clone(), message).help(help);
    Some(fault.with_missing_reason(reason))
}

/// Returns the fault of a name that no table has, with advice.
pub(super) fn unknown_name_fault(word: &SpannedText, pmu: &Pmu) -> Fault {
    let name = &word.text[..];
    let no_cpu_event = || {
        Fault::new(
            word.span.clone(),
            format!("`{name}` is not an event of the CPU"),
        )
    };
    if CLOCK_EVENTS.contains(&name) {
        return no_cpu_event().help(
            "perf computes it from a clock. `pmctl stat` always prints the elapsed and CPU times of the command at the end.",
        );
    }
    if names::is_software(name) {
        return no_cpu_event()
            .help("The kernel counts it. `pmctl stat` counts clocks, faults, switches and migrations, but not in braces; \
                   `pmctl wrap -- perf stat -e EVENTS` counts all such events.");
    }
    let unknown = UnknownName::new(name, pmu);
    Fault::new(word.span.clone(), format!("no event is called `{name}`"))
        .help(Advice::lazy(move || unknown.advice()))
}

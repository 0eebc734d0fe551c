// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's events of a recording.

use perfmon::event::Cgroup;
use perfmon::spec::{self, EventSpec, Precision, SampleRate};
use perfmon::{Device, Modes, Pmu};

use super::limit::accepts_frequency;
use super::memory_access;
use super::precision;
use crate::args::{DEFAULT_PERIOD, DefaultSamples, EventOptions, Frequency, Rate};
use crate::commands::record::sampled::{DEFAULT_EVENT, refuse_unsampled};
use crate::events::modes;
use crate::events::schedule;
use crate::system::exit::Usage;

/// Stands for the frequency of `-F max` until [`SamplingPlan::resolve_max_frequency`] replaces it.
/// No driver accepts this frequency.
pub(super) const MAX_FREQUENCY: SampleRate = SampleRate::Frequency(u64::MAX);

/// Returns the event that is sampled without -e, without its precision.
fn default_event(options: &EventOptions) -> String {
    match (options.default, options.modes) {
        (DefaultSamples::Cycles, _) => DEFAULT_EVENT.to_owned(),
        (_, Modes::Kernel) => "instructions:k".to_owned(),
        // In an emulated machine, only the counts of user mode are the same in each run.
        _ => "instructions:u".to_owned(),
    }
}

/// Returns the event that is sampled without -e, with `:P` if it can be precise.
pub(super) fn default_event_text(options: &EventOptions) -> String {
    let event = default_event(options);
    if !precision::is_possible_with(options) {
        return event;
    }
    let separator = if event.contains(':') { "" } else { ":" };
    format!("{event}{separator}P")
}

/// Returns the period or the frequency of events that don't set one themselves.
pub(super) fn default_rate(options: &EventOptions) -> SampleRate {
    match options.rate {
        Rate::Default => SampleRate::Period(DEFAULT_PERIOD.into()),
        Rate::Period(period) => SampleRate::Period(period.into()),
        Rate::Frequency(Frequency::Hertz(hertz)) => SampleRate::Frequency(hertz.into()),
        Rate::Frequency(Frequency::Max) => MAX_FREQUENCY,
    }
}

/// An event of a recording.
#[derive(Clone, Debug)]
pub(super) struct SampledEvent {
    pub(super) spec: EventSpec,
    pub(super) rate: SampleRate,
    /// The cgroup whose tasks are sampled; `None` for all tasks of the target.
    pub(super) cgroup: Option<Cgroup>,
    /// The event is the default, which the user has not chosen: its samples are precise where that is possible.
    pub(super) is_default: bool,
}

impl SampledEvent {
    /// Returns the value of `precise_ip`.
    pub(super) fn precision(&self) -> u8 {
        match self.spec.precision {
            None => 0,
            Some(Precision::Level(level)) => level,
            Some(Precision::Highest) => precision::HIGHEST_LEVEL,
        }
    }

    /// Returns a function that says whether the driver accepts a frequency; `None` if it refuses the event at any
    /// frequency.
    pub(super) fn frequency_check<'a>(
        &self,
        device: &'a Device,
    ) -> Option<impl Fn(u64) -> bool + use<'a>> {
        // The event is limited to user mode, which all users may sample, and is not precise, since
        // not all events can be precise.
        let event = self.spec.builder()?.disabled().user().precise(0);
        let accepts = move |hertz| accepts_frequency(&event, device, hertz);
        accepts(1).then_some(accepts)
    }
}

/// Returns the driver's events that `texts` ask for. `texts` are the texts of -e, or the text of
/// the default event.
pub(super) fn planned_events(
    texts: &[String],
    options: &EventOptions,
    default_rate: SampleRate,
    pmu: &Pmu,
) -> Result<Vec<SampledEvent>, Usage> {
    let mut events = Vec::new();
    for text in texts {
        refuse_unsampled(text)?;
        let parsed = spec::parse_without_groups(text, pmu);
        let parsed = parsed.map_err(|error| Usage(error.to_string()))?;
        for (index, mut spec) in parsed.into_iter().enumerate() {
            let precise_text = || spec::precise_texts(text).swap_remove(index);
            memory_access::require_precision(options, &mut spec, precise_text)?;
            check_can_be_sampled(&spec)?;
            let rate = spec.rate.unwrap_or(default_rate);
            modes::limit_modes_if_unmodified(&mut spec, options.modes);
            events.push(SampledEvent {
                spec,
                rate,
                cgroup: None,
                is_default: options.events.is_empty(),
            });
        }
    }
    precision::check_options(options, events.iter().map(|event| &event.spec))?;
    Ok(events)
}

/// Refuses an event that the CPU lacks, or that needs a counter of the user's choice.
fn check_can_be_sampled(spec: &EventSpec) -> Result<(), Usage> {
    let label = &spec.label;
    if let Some(counter) = spec.pinned {
        return Err(Usage(format!(
            "{label}: the driver chooses the counters of a recording. Leave {counter} out."
        )));
    }
    if spec.needs_own_counter_choice {
        return Err(Usage(schedule::counter_choice_message(spec)));
    }
    match &spec.missing {
        Some(reason) => Err(Usage(format!("{label}: this CPU lacks it. {reason}"))),
        None => Ok(()),
    }
}

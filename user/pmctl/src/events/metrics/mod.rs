// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds metrics by their names: those of the CPU's model, and those for all CPUs, which use generic events.

mod formulas;
mod pack;

use std::collections::BTreeSet;

use perfmon::spec::models::Model;
use perfmon::spec::models::metrics::{self, Metric};
use perfmon::spec::{self, EventSpec};
use perfmon::{Encoding, Pmu};
use perfmon_core::logic::event_attr::PERF_TYPE_RAW;

use crate::events::linux_pmu::{self, PmuEvent};
use crate::events::schedule;
use crate::system::exit::Usage;
use crate::system::machine::Machine;
use crate::system::text::did_you_mean;

pub(crate) use formulas::{Formulas, MachineFacts};
pub(crate) use pack::{MetricEvents, PackedRuns, pack};

/// Returns all metrics of a PMU, by name.
pub(crate) fn all(pmu: &Pmu) -> Vec<Metric> {
    of_model(pmu.model())
}

/// Returns all metrics of a model; `None` is an unknown model.
pub(crate) fn of_model(model: Option<&'static Model>) -> Vec<Metric> {
    let mut metrics: Vec<Metric> = model.into_iter().flat_map(Model::metrics).collect();
    let model_names: BTreeSet<String> = metrics.iter().map(lower_name).collect();
    metrics.extend(metrics::common().filter(|metric| !model_names.contains(&lower_name(metric))));
    metrics.sort_by_cached_key(lower_name);
    metrics
}

fn lower_name(metric: &Metric) -> String {
    metric.name.to_ascii_lowercase()
}

/// Returns the names of the groups of these metrics.
pub(crate) fn groups(all: &[Metric]) -> BTreeSet<&'static str> {
    all.iter().flat_map(Metric::groups).collect()
}

/// The metrics that a word of -M selects.
pub(crate) struct WantedMetrics {
    pub(crate) metrics: Vec<Metric>,
    /// The word is the name of a group, some of whose metrics may not be countable here.
    pub(crate) is_group: bool,
}

/// Returns the metric with the name `word`, or the metrics of the group with that name.
///
/// # Errors
/// There is no such metric or group: a message with the reason, or with similar names.
pub(crate) fn find(word: &str, all: &[Metric], pmu: &Pmu) -> Result<WantedMetrics, Usage> {
    let is_word = |name: &str| name.eq_ignore_ascii_case(word);
    if let Some(metric) = all.iter().find(|metric| is_word(metric.name)) {
        return Ok(WantedMetrics {
            metrics: vec![*metric],
            is_group: false,
        });
    }
    let group_metrics = all.iter().filter(|metric| metric.groups().any(is_word));
    let group_metrics: Vec<Metric> = group_metrics.copied().collect();
    if !group_metrics.is_empty() {
        return Ok(WantedMetrics {
            metrics: group_metrics,
            is_group: true,
        });
    }
    let mut unsupported = pmu.model().into_iter().flat_map(Model::unsupported_metrics);
    if let Some((name, needed)) = unsupported.find(|(name, _)| is_word(name)) {
        return Err(Usage(format!(
            "-M: {name} needs {needed}, which is not an event of a core, and the driver counts only these.\n\
             `perf stat -M {name}` counts it, where the kernel has a driver for it."
        )));
    }
    let cpu = pmu.model().map_or_else(
        || "this CPU, whose model is unknown,".to_owned(),
        |model| model.name().to_owned(),
    );
    let question = similar_names_question(word, all);
    Err(Usage(format!(
        "-M: {cpu} has no metric or group of metrics called `{word}`.\n{question}`pmctl list metrics --all` shows them."
    )))
}

/// Returns the question whether a name similar to `word` is meant, with a blank after it; empty if there is no such name.
fn similar_names_question(word: &str, all: &[Metric]) -> String {
    let lower_word = word.to_ascii_lowercase();
    let names = all
        .iter()
        .map(|metric| metric.name)
        .chain(groups(all))
        .map(|name| {
            let lower_name = name.to_ascii_lowercase();
            let is_part = lower_word.len() >= 3 && lower_name.contains(&lower_word);
            let likeness = strsim::jaro_winkler(&lower_word, &lower_name);
            (if is_part { 1.0 + likeness } else { likeness }, name)
        });
    let mut names: Vec<(f64, &str)> = names.filter(|(likeness, _)| *likeness > 0.85).collect();
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<&str> = names.iter().take(3).map(|(_, name)| *name).collect();
    did_you_mean(&names).map_or_else(String::new, |question| question + " ")
}

/// An event of a metric.
#[derive(Clone, Debug)]
pub(crate) enum MetricEvent {
    /// An event of the driver.
    Counter(EventSpec),
    /// An event of one of Linux's PMUs.
    Linux(PmuEvent),
}

/// Returns the events of a metric by their names. An error is the reason why one of them can't be counted.
/// `is_for_tasks` says that tasks are counted, for which the driver chooses the counters.
pub(crate) fn events(
    names: &[String],
    (machine, pmu): (&Machine, &Pmu),
    is_for_tasks: bool,
) -> Result<Vec<(String, MetricEvent)>, String> {
    // The metrics of a hybrid processor are those of its big cores.
    let big_cores = pmu.clone().with_core_kinds(Vec::new());
    let event = |name: &String| {
        if linux_pmu::is_pmu_event(name, pmu) {
            let linux_events = linux_pmu::split(std::slice::from_ref(name), machine, pmu);
            let (_, linux_events) = linux_events.map_err(|Usage(reason)| {
                let reason = reason.strip_prefix("-e ").unwrap_or(&reason);
                format!("it needs {reason}")
            })?;
            let event = linux_events.into_iter().next();
            let event = event.ok_or_else(|| format!("it needs {name}, which is not an event"))?;
            if is_for_tasks {
                return Err(format!(
                    "it needs {name}, which is counted for whole CPUs. Add -a."
                ));
            }
            return Ok((name.clone(), MetricEvent::Linux(event)));
        }
        let core_events = spec::parse(name, &big_cores).map_err(|error| {
            let reason = error.absent().unwrap_or(error.message());
            format!("it needs {name}.\n{reason}")
        })?;
        let event = core_events.into_iter().next();
        let event = event.ok_or_else(|| format!("it needs {name}, which is not an event"))?;
        let is_cache = matches!(event.encoding, Some(Encoding::Cache(_)));
        if is_cache && !spec::cache_events(pmu).any(|known| known.to_string() == *name) {
            // QEMU's CPUID reports these events, but it does not emulate them.
            return Err(format!(
                "it needs {name}.\nQEMU's emulation does not count it."
            ));
        }
        if event.needs_own_counter_choice && is_for_tasks {
            return Err(format!(
                "{} Add -a.",
                schedule::counter_choice_message(&event)
            ));
        }
        Ok((name.clone(), MetricEvent::Counter(event)))
    };
    let events = names.iter().map(event).collect::<Result<Vec<_>, _>>()?;
    Ok(limit_to_big_cores(events, pmu))
}

/// Limits all events of a metric to the big cores of a hybrid processor if one of the events exists only there. Then
/// all events are counted on the same cores.
fn limit_to_big_cores(
    mut events: Vec<(String, MetricEvent)>,
    pmu: &Pmu,
) -> Vec<(String, MetricEvent)> {
    let mut kinds = pmu.core_kinds().iter();
    let Some(big_cores) = kinds.find(|kind| kind.perf_type() == PERF_TYPE_RAW) else {
        return events;
    };
    let encoding = |event: &(String, MetricEvent)| match &event.1 {
        MetricEvent::Counter(event) => event.encoding,
        MetricEvent::Linux(_) => None,
    };
    let counts_on_big_cores = |encoding| {
        matches!(
            encoding,
            Some(Encoding::Raw(_) | Encoding::RawWithRegister(..) | Encoding::Cache(_))
        )
    };
    if events.iter().map(encoding).any(counts_on_big_cores) {
        for (_, event) in &mut events {
            if let MetricEvent::Counter(event) = event {
                event.core_type = Some(big_cores.perf_type());
                if !event.label.contains(['/', ':']) {
                    event.label = format!("{}/{}/", big_cores.name(), event.label);
                }
            }
        }
    }
    events
}

#[cfg(test)]
mod tests;

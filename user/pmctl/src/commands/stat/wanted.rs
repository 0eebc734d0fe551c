// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events and metrics that the command line asks for.

use anyhow::Result;
use perfmon::Pmu;
use perfmon::pmu::Vendor;
use perfmon::spec::models::Model;
use perfmon::spec::{self, EventSpec};

use crate::events::{metrics, modes};

use crate::args::Stat;
use crate::system::exit::Usage;
use crate::system::pmu::emulation_warning;
use crate::system::stdio::complain;

/// The reason why an event that needs precise samples is not counted.
const SAMPLED_ONLY_REASON: &str =
    "The processor counts it with precise samples only: `pmctl record` takes these.";

/// Returns the events of `texts`, which are the parts of -e that name the driver's events. If `texts` is empty, returns
/// the default events, unless other events or metrics are counted (`has_other_counts`).
pub(super) fn wanted_events(
    args: &Stat,
    (texts, has_other_counts): (&[String], bool),
    pmu: &Pmu,
) -> Result<Vec<EventSpec>> {
    let mut events = Vec::new();
    for text in texts {
        // Groups are numbered from 0 in each text.
        let first_group = events.len();
        let result = spec::parse_or_absent(text, pmu);
        for event in result.map_err(|error| Usage(error.to_string()))? {
            let group = event.group.map(|group| first_group + group);
            events.push(EventSpec { group, ..event });
        }
    }
    if texts.is_empty() && !has_other_counts && !args.null {
        events = spec::default_events(pmu);
    }
    if args.detailed {
        let (details, missing) = detailed_events(pmu);
        if !missing.is_empty() {
            complain(format_args!("-d: this CPU has no {}", missing.join(", ")));
        }
        events.extend(details);
    }
    for event in events
        .iter_mut()
        .filter(|event| event.needs_precise_samples(pmu))
    {
        *event = EventSpec::absent(&event.label, SAMPLED_ONLY_REASON);
    }
    if let Some(words) = emulation_warning(events.iter(), pmu) {
        complain(words);
    }
    limit_modes(args, &mut events);
    Ok(events)
}

/// Returns the events of -d that the CPU has, and the names of those that it lacks.
fn detailed_events(pmu: &Pmu) -> (Vec<EventSpec>, Vec<&'static str>) {
    let mut events = Vec::new();
    let mut missing_events = Vec::new();
    for name in DETAILED_EVENTS {
        match spec::parse(name, pmu) {
            Ok(parsed_events) => events.extend(parsed_events),
            Err(_) => missing_events.push(name),
        }
    }
    (events, missing_events)
}

/// Limits events without a modifier to the mode of --all-user or --all-kernel.
pub(super) fn limit_modes(args: &Stat, events: &mut [EventSpec]) {
    let wanted_modes = modes::from_options(args.all_user, args.all_kernel);
    for event in events {
        modes::limit_modes_if_unmodified(event, wanted_modes);
    }
}

/// Returns the metrics that -M and --topdown ask for.
///
/// # Errors
/// The CPU has no metrics of --topdown, or none of that level.
pub(super) fn metric_names(args: &Stat, pmu: &Pmu) -> Result<Vec<String>, Usage> {
    let mut words = args.metrics.clone();
    if args.topdown {
        words.push(topdown_group(args.td_level, pmu)?);
    }
    Ok(words)
}

/// Returns the name of the group of metrics for a level of --topdown.
fn topdown_group(level: u8, pmu: &Pmu) -> Result<String, Usage> {
    let prefix = match pmu.vendor() {
        Vendor::Intel => "TopdownL",
        Vendor::Amd => "PipelineL",
    };
    let all_metrics = metrics::all(pmu);
    let groups = metrics::groups(&all_metrics);
    let group = format!("{prefix}{level}");
    if groups.contains(&group[..]) {
        return Ok(group);
    }
    let levels: Vec<&str> = groups
        .iter()
        .filter_map(|name| name.strip_prefix(prefix))
        .collect();
    Err(Usage(if levels.is_empty() {
        format!(
            "--topdown: pmctl has no such metrics for {}.\n\
             `pmctl list metrics` lists the metrics of this CPU.",
            pmu.model()
                .map_or("this CPU, whose model is unknown", Model::name)
        )
    } else {
        format!(
            "--td-level {level}: this CPU has metrics of the levels {}.",
            levels.join(", ")
        )
    }))
}

/// Events of -d.
const DETAILED_EVENTS: [&str; 4] = [
    "L1-dcache-loads",
    "L1-dcache-load-misses",
    "LLC-loads",
    "LLC-load-misses",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;

    #[test]
    fn details_that_the_cpu_lacks_are_named() {
        let (events, missing) = detailed_events(&testing::amd());
        let labels: Vec<&str> = events.iter().map(|event| &event.label[..]).collect();
        assert_eq!(labels, ["L1-dcache-loads", "L1-dcache-load-misses"]);
        assert_eq!(missing, ["LLC-loads", "LLC-load-misses"]);
        let (events, missing) = detailed_events(&testing::intel());
        assert_eq!((events.len(), missing), (0, DETAILED_EVENTS.to_vec()));
    }
    #[test]
    fn topdown_without_metrics_is_refused_in_the_users_words() {
        assert_eq!(topdown_group(1, &testing::amd()).unwrap(), "PipelineL1");
        let error = topdown_group(6, &testing::amd()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--td-level 6: this CPU has metrics of the levels 1, 2."
        );
        let error = topdown_group(1, &testing::intel()).unwrap_err();
        assert!(error.to_string().starts_with("--topdown: "), "{error}");
    }
}

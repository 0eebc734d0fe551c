// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index page, with the pages and the events of the server.

use perfmon::spec::EventSpec;

use super::containers::Containers;
use super::counters::Counters;
use super::names;
use super::open_events::UncountedReason;
use super::request::Limits;
use crate::events::cpus::Cpus;
use crate::system::text::count;

/// The reasons that the page shows. The first text says that the event is not counted, the second text says why.
const UNCOUNTED_REASONS: [(UncountedReason, &str, &str); 2] = [
    (
        UncountedReason::NoFreeCounter,
        "not counted now",
        "no counter is free",
    ),
    (
        UncountedReason::UnsupportedEvent,
        "not counted",
        "the CPU or the driver can't count it",
    ),
];

/// Returns the page as HTML.
pub(super) fn index(
    (counters, containers): (&Counters, Option<&Containers>),
    limits: Limits,
) -> String {
    let events: Vec<String> = counters
        .events()
        .iter()
        .enumerate()
        .map(|(index, event)| {
            let notes = uncounted_notes(|reason| counters.cpus_not_counting(index, reason));
            format!("<li>{}{notes}</li>\n", event_and_metric(event))
        })
        .collect();
    let events = events.concat();
    let cgroups = containers.map_or_else(String::new, |containers| {
        let number = count(containers.cgroup_count() as u64, "cgroup");
        format!(
            "<p>The same events in each of {number}: <code>container_perf_events_total</code>; at most {}.</p>\n",
            containers.max_count()
        )
    });
    let Limits { seconds, hz } = limits;
    format!(
        "<!DOCTYPE html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><title>pmctl serve</title></head>
<body>
<h1>pmctl serve</h1>
<p>Exact counts of this machine's CPUs.</p>
<ul>
<li><a href=\"/metrics\">/metrics</a>: the counters, for Prometheus</li>
<li><a href=\"/debug/pprof/profile?seconds=10\">/debug/pprof/profile?seconds=10&amp;event=cycles&amp;hz=99</a>:
a profile of all programs and the kernel, for pprof, Parca and Pyroscope; at most {seconds} seconds and {hz} samples a
second of each CPU, and one at a time</li>
<li><a href=\"/-/healthy\">/-/healthy</a>, <a href=\"/-/ready\">/-/ready</a>: whether it runs</li>
</ul>
<p>Events and their metrics:</p>
<ul>
{events}</ul>
{cgroups}</body>
</html>
"
    )
}

/// Returns the names of an event and of its metric as HTML. Events that the CPU lacks have no metric.
fn event_and_metric(event: &EventSpec) -> String {
    let label = escape_html(&event.label);
    if event.is_absent() {
        return format!("<code>{label}</code>");
    }
    let name = names::metric_of(event).0;
    format!("<code>{label}</code>: <code>{name}_total</code>")
}

/// Returns notes on an event that is not counted on some CPUs. `cpus_not_counting` returns the CPUs for a reason.
fn uncounted_notes(cpus_not_counting: impl Fn(UncountedReason) -> Cpus) -> String {
    let notes = UNCOUNTED_REASONS
        .iter()
        .map(|(reason, words, reason_words)| {
            let cpus = cpus_not_counting(*reason);
            match cpus.len() {
                0 => String::new(),
                _ => format!("; {words} on CPU {cpus}: {reason_words}"),
            }
        });
    notes.collect()
}

/// Escapes a text for HTML.
fn escape_html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_are_not_counted_have_notes() {
        let notes_for = |which| {
            uncounted_notes(|reason| {
                Cpus::new(if Some(reason) == which {
                    vec![0, 1]
                } else {
                    vec![]
                })
            })
        };
        assert_eq!(notes_for(None), "");
        assert_eq!(
            notes_for(Some(UncountedReason::NoFreeCounter)),
            "; not counted now on CPU 0-1: no counter is free"
        );
        assert!(
            notes_for(Some(UncountedReason::UnsupportedEvent))
                .starts_with("; not counted on CPU 0-1: the CPU")
        );
        // An offline CPU is no reason for a note.
        assert_eq!(notes_for(Some(UncountedReason::OfflineCpu)), "");
    }

    #[test]
    fn an_event_that_the_cpu_lacks_has_no_metric() {
        let event = EventSpec::absent("branch-misses", "The CPU lacks it.");
        assert_eq!(event_and_metric(&event), "<code>branch-misses</code>");
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(
            escape_html("cpu/name=<b>&\"/"),
            "cpu/name=&lt;b&gt;&amp;&quot;/"
        );
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The page that says what there is.

use perfmon::spec::EventSpec;

use super::containers::Containers;
use super::counters::Counters;
use super::names;
use super::open_events::Lack;
use super::request::Limits;
use crate::events::cpus::Cpus;
use crate::system::text::count;

/// For each lack that an event can have on some CPUs: what the page says, and the reason.
const LACK_NOTES: [(Lack, &str, &str); 2] = [
    (Lack::Counter, "not counted now", "no counter is free"),
    (
        Lack::Event,
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
            let notes = notes(|lack| counters.lacking(index, lack));
            format!("<li>{}{notes}</li>\n", named(event))
        })
        .collect();
    let events = events.concat();
    let cgroups = containers.map_or_else(String::new, |containers| {
        let number = count(containers.number() as u64, "cgroup");
        format!(
            "<p>The same events in each of {number}: <code>container_perf_events_total</code>; at most {}.</p>\n",
            containers.most()
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

/// Returns the names of an event and of its metric; what the CPU lacks has no metric.
fn named(event: &EventSpec) -> String {
    let label = escaped(&event.label);
    if event.is_absent() {
        return format!("<code>{label}</code>");
    }
    let name = names::of(event).0;
    format!("<code>{label}</code>: <code>{name}_total</code>")
}

/// Returns what is said of an event, of which `lacking` returns the CPUs that don't count it.
fn notes(lacking: impl Fn(Lack) -> Cpus) -> String {
    let notes = LACK_NOTES.iter().map(|(lack, what, why)| {
        let cpus = lacking(*lack);
        match cpus.len() {
            0 => String::new(),
            _ => format!("; {what} on CPU {cpus}: {why}"),
        }
    });
    notes.collect()
}

/// Returns text as HTML has it.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_marked() {
        let lacking = |which| {
            notes(|lack| {
                Cpus::new(if Some(lack) == which {
                    vec![0, 1]
                } else {
                    vec![]
                })
            })
        };
        assert_eq!(lacking(None), "");
        assert_eq!(
            lacking(Some(Lack::Counter)),
            "; not counted now on CPU 0-1: no counter is free"
        );
        assert!(lacking(Some(Lack::Event)).starts_with("; not counted on CPU 0-1: the CPU"));
        // That a CPU is offline is no fault of an event.
        assert_eq!(lacking(Some(Lack::Cpu)), "");
    }

    #[test]
    fn what_the_cpu_lacks_has_no_metric() {
        let event = EventSpec::absent("branch-misses", "The CPU lacks it.");
        assert_eq!(named(&event), "<code>branch-misses</code>");
    }

    #[test]
    fn a_name_is_no_markup() {
        assert_eq!(
            escaped("cpu/name=<b>&\"/"),
            "cpu/name=&lt;b&gt;&amp;&quot;/"
        );
    }
}

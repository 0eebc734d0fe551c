// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics: the counters, and what the server has done and taken itself.

use std::fmt::Display;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{SysconfVar, sysconf};
use perfmon::Error;

use super::containers::{ContainerCount, Containers, Labels};
use super::counters::Counters;
use super::names;
use super::text::{Form, MetricKind, MetricsText};

/// The end of a request for a profile: the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProfileOutcome {
    /// The profile was sent.
    Complete,
    /// The profile was sent, with samples lost or cut off.
    Incomplete,
    /// The profile could not be made.
    Failed,
    /// The client went away.
    Abandoned,
    /// The server was making another profile.
    Refused,
}

const OUTCOMES: [(ProfileOutcome, &str); 5] = [
    (ProfileOutcome::Complete, "complete"),
    (ProfileOutcome::Incomplete, "incomplete"),
    (ProfileOutcome::Failed, "failed"),
    (ProfileOutcome::Abandoned, "abandoned"),
    (ProfileOutcome::Refused, "refused"),
];

/// Numbers of what the server has done since it started.
#[derive(Debug, Default)]
pub(super) struct ServerTotals {
    pub(super) scrapes: u64,
    /// In the order of [`OUTCOMES`].
    profiles: [u64; OUTCOMES.len()],
    /// Requests that got an answer other than 200.
    pub(super) refused: u64,
    pub(super) connections: u64,
    /// Connections that were closed for others, or because their clients were too slow.
    pub(super) dropped: u64,
}

impl ServerTotals {
    /// Counts a profile.
    pub(super) fn profile(&mut self, outcome: ProfileOutcome) {
        let index = OUTCOMES.iter().position(|(known, _)| *known == outcome);
        self.profiles[index.unwrap_or_default()] += 1;
    }
}

/// Writes all metrics. `open` is how many connections there are.
///
/// # Errors
/// Whatever [`Counters::read`] returns.
pub(super) fn write(
    form: Form,
    (counters, containers): (&mut Counters, Option<&mut Containers>),
    (done, open): (&ServerTotals, usize),
    started: SystemTime,
) -> Result<String, Error> {
    let mut page = MetricsText::new(form);
    write_counters(&mut page, counters)?;
    let (mut missing, mut lost) = (counters.missing(), counters.lost());
    if let Some(containers) = containers {
        write_containers(&mut page, containers)?;
        missing += containers.missing();
        lost += containers.lost();
    }
    page.metric(
        "perfmon_events_missing",
        MetricKind::Gauge,
        "Number of counts, of each event on each CPU and in each cgroup, that can't be had now",
    )
    .sample(&[], missing);
    page.metric(
        "perfmon_counts_lost",
        MetricKind::Counter,
        "Number of times that the counts of a CPU or a cgroup began from 0 again, since something else had changed its counters",
    )
    .sample(&[], lost);
    page.metric(
        "perfmon_scrapes",
        MetricKind::Counter,
        "Number of times that this page was asked for",
    )
    .sample(&[], done.scrapes);
    page.metric(
        "perfmon_profiles",
        MetricKind::Counter,
        "Number of profiles, by how they ended",
    );
    for ((_, result), number) in OUTCOMES.iter().zip(done.profiles) {
        page.sample(&[("result", result)], number);
    }
    page.metric(
        "perfmon_requests_refused",
        MetricKind::Counter,
        "Number of requests that got an error as the answer",
    )
    .sample(&[], done.refused);
    page.metric(
        "perfmon_connections",
        MetricKind::Gauge,
        "Number of connections",
    )
    .sample(&[], open);
    page.metric(
        "perfmon_connections_accepted",
        MetricKind::Counter,
        "Number of connections so far",
    )
    .sample(&[], done.connections);
    page.metric(
        "perfmon_connections_dropped",
        MetricKind::Counter,
        "Number of connections that were closed since their clients were slow",
    )
    .sample(&[], done.dropped);
    page.metric("perfmon_build", MetricKind::Info, "Version of pmctl")
        .sample(&[("version", &env!("CARGO_PKG_VERSION"))], 1);
    write_process(&mut page, started);
    Ok(page.end())
}

/// Writes the counters: all of a name together, as the formats ask for it.
fn write_counters(page: &mut MetricsText, counters: &mut Counters) -> Result<(), Error> {
    let counts = counters.read()?;
    let events = counters.events();
    let names: Vec<_> = events.iter().map(names::of).collect();
    for (index, (name, help)) in names.iter().enumerate() {
        if names[..index].iter().any(|(earlier, _)| earlier == name) {
            continue;
        }
        page.metric(name, MetricKind::Counter, help);
        for count in counts.iter().filter(|count| names[count.event].0 == *name) {
            let label = &events[count.event].label;
            if *name == names::FALLBACK_METRIC {
                page.sample(&[("event", label), ("cpu", &count.cpu)], count.value);
            } else {
                page.sample(&[("cpu", &count.cpu)], count.value);
            }
        }
    }
    Ok(())
}

/// Writes the counters of cgroups, by the name and with the labels of cAdvisor, and how many there are.
fn write_containers(page: &mut MetricsText, containers: &mut Containers) -> Result<(), Error> {
    let names: Vec<String> = containers
        .events()
        .iter()
        .map(|event| event.label.clone())
        .collect();
    page.metric(
        "container_perf_events",
        MetricKind::Counter,
        "Number of events in a cgroup and those in it, on all CPUs, since it was found",
    );
    for ContainerCount {
        labels: Labels { id, names: told },
        event,
        value,
    } in containers.read()?
    {
        let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        let (container, name, pod) = (text(&told.id), text(&told.name), text(&told.pod));
        let runtime = told.runtime.unwrap_or_default();
        let labels: [(&str, &dyn Display); 7] = [
            ("container_id", &container),
            // As cAdvisor has it of all CPUs together.
            ("cpu", &""),
            ("event", &names[event]),
            ("id", id),
            ("name", &name),
            ("pod_uid", &pod),
            ("runtime", &runtime),
        ];
        page.sample(&labels, value);
    }
    page.metric(
        "perfmon_cgroups",
        MetricKind::Gauge,
        "Number of cgroups that are counted",
    )
    .sample(&[], containers.number());
    page.metric(
        "perfmon_cgroups_left_out",
        MetricKind::Gauge,
        "Number of cgroups that are not counted, since there are too many",
    )
    .sample(&[], containers.left_out());
    page.metric(
        "perfmon_cgroups_limit",
        MetricKind::Gauge,
        "Number of cgroups that are counted at most",
    )
    .sample(&[], containers.most());
    Ok(())
}

/// Writes what the server itself takes, by the names that Prometheus' clients have.
fn write_process(page: &mut MetricsText, started: SystemTime) {
    let seconds = |time: TimeVal| Duration::from_micros(time.num_microseconds().unsigned_abs());
    let used =
        |usage: Usage| (seconds(usage.user_time()) + seconds(usage.system_time())).as_secs_f64();
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        page.metric(
            "process_cpu_seconds",
            MetricKind::Counter,
            "CPU time of the server, in seconds",
        )
        .sample(&[], used(usage));
    }
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) {
        page.metric(
            "perfmon_profile_cpu_seconds",
            MetricKind::Counter,
            "CPU time of making profiles, in seconds",
        )
        .sample(&[], used(usage));
    }
    if let Some(bytes) = resident_bytes() {
        page.metric(
            "process_resident_memory_bytes",
            MetricKind::Gauge,
            "Memory of the server, in bytes",
        )
        .sample(&[], bytes);
    }
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    page.metric(
        "process_start_time_seconds",
        MetricKind::Gauge,
        "When the server was started, in seconds since 1970",
    )
    .sample(&[], since.as_secs_f64());
}

/// Returns the resident memory in bytes.
fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    let size = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    pages.checked_mul(u64::try_from(size).ok()?)
}

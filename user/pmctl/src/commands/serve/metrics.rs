// SPDX-License-Identifier: MIT OR Apache-2.0
//! The metrics page: the counters, and numbers about the server itself.

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
use super::text::{MetricKind, MetricsText, TextFormat};

/// The outcome of a request for a profile: the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProfileOutcome {
    /// The profile was sent.
    Complete,
    /// The profile was sent, with samples lost or cut off.
    Incomplete,
    /// The profile could not be made.
    Failed,
    /// The client closed the connection.
    Abandoned,
    /// The server was making another profile.
    Refused,
}

/// The values of the label `result`.
const OUTCOMES: [(ProfileOutcome, &str); 5] = [
    (ProfileOutcome::Complete, "complete"),
    (ProfileOutcome::Incomplete, "incomplete"),
    (ProfileOutcome::Failed, "failed"),
    (ProfileOutcome::Abandoned, "abandoned"),
    (ProfileOutcome::Refused, "refused"),
];

/// Numbers of requests and connections since the server was started.
#[derive(Debug, Default)]
pub(super) struct ServerTotals {
    pub(super) scrapes: u64,
    /// Number of profiles by outcome, in the order of [`OUTCOMES`].
    profiles: [u64; OUTCOMES.len()],
    /// Requests that got an answer other than 200.
    pub(super) refused: u64,
    pub(super) connections: u64,
    /// Connections that were closed to make room for others, or because their clients were too slow.
    pub(super) dropped: u64,
}

impl ServerTotals {
    /// Counts a profile.
    pub(super) fn count_profile(&mut self, outcome: ProfileOutcome) {
        let index = OUTCOMES.iter().position(|(known, _)| *known == outcome);
        self.profiles[index.unwrap_or_default()] += 1;
    }
}

/// Returns the page with all metrics.
///
/// # Errors
/// Reading a counter fails.
pub(super) fn write(
    format: TextFormat,
    (counters, containers): (&mut Counters, Option<&mut Containers>),
    (totals, open_connections): (&ServerTotals, usize),
    started: SystemTime,
) -> Result<String, Error> {
    let mut page = MetricsText::new(format);
    write_counters(&mut page, counters)?;
    let (mut missing, mut lost) = (counters.missing_count(), counters.lost_count());
    if let Some(containers) = containers {
        write_containers(&mut page, containers)?;
        missing += containers.missing_count();
        lost += containers.lost_count();
    }
    write_gaps(&mut page, (missing, lost));
    write_server(&mut page, (totals, open_connections));
    write_process(&mut page, started);
    Ok(page.end())
}

/// Writes how many counts are missing now, and how often counts were lost.
fn write_gaps(page: &mut MetricsText, (missing, lost): (usize, u64)) {
    page.metric(
        "perfmon_events_missing",
        MetricKind::Gauge,
        "Number of counts, of an event on an online CPU or in a cgroup, that can't be read now",
    )
    .sample(&[], missing);
    page.metric(
        "perfmon_counts_lost",
        MetricKind::Counter,
        "Number of times that the counts of a CPU or a cgroup began from 0 again, since another program had changed its counters",
    )
    .sample(&[], lost);
}

/// Writes the numbers about the server: its requests, its profiles, its connections and its version.
fn write_server(page: &mut MetricsText, (totals, open_connections): (&ServerTotals, usize)) {
    page.metric(
        "perfmon_scrapes",
        MetricKind::Counter,
        "Number of requests for this page",
    )
    .sample(&[], totals.scrapes);
    page.metric(
        "perfmon_profiles",
        MetricKind::Counter,
        "Number of profiles, by how they ended",
    );
    for ((_, result), number) in OUTCOMES.iter().zip(totals.profiles) {
        page.sample(&[("result", result)], number);
    }
    page.metric(
        "perfmon_requests_refused",
        MetricKind::Counter,
        "Number of requests that were answered with an error",
    )
    .sample(&[], totals.refused);
    page.metric(
        "perfmon_connections",
        MetricKind::Gauge,
        "Number of open connections",
    )
    .sample(&[], open_connections);
    page.metric(
        "perfmon_connections_accepted",
        MetricKind::Counter,
        "Number of connections so far",
    )
    .sample(&[], totals.connections);
    page.metric(
        "perfmon_connections_dropped",
        MetricKind::Counter,
        "Number of connections that were closed since their clients were slow, or for new ones",
    )
    .sample(&[], totals.dropped);
    page.metric("perfmon_build", MetricKind::Info, "Version of pmctl")
        .sample(&[("version", &env!("CARGO_PKG_VERSION"))], 1);
}

/// Writes the counters, grouped by name, as the formats require.
fn write_counters(page: &mut MetricsText, counters: &mut Counters) -> Result<(), Error> {
    let counts = counters.read()?;
    let events = counters.events();
    let names: Vec<_> = events.iter().map(names::metric_of).collect();
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

/// Writes the counters of cgroups, with cAdvisor's name and labels, and the numbers of cgroups.
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
        labels:
            Labels {
                id,
                names: container_names,
                ..
            },
        event,
        value,
    } in containers.read()?
    {
        let text = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        let container = text(&container_names.id);
        let (name, pod) = (text(&container_names.name), text(&container_names.pod));
        let runtime = container_names.runtime.unwrap_or_default();
        let labels: [(&str, &dyn Display); 7] = [
            ("container_id", &container),
            // cAdvisor writes an empty label for the sum over all CPUs.
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
    .sample(&[], containers.cgroup_count());
    page.metric(
        "perfmon_cgroups_left_out",
        MetricKind::Gauge,
        "Number of cgroups that match a pattern and are not counted",
    )
    .sample(&[], containers.left_out_count());
    page.metric(
        "perfmon_cgroups_limit",
        MetricKind::Gauge,
        "Number of cgroups that are counted at most",
    )
    .sample(&[], containers.max_count());
    Ok(())
}

/// Writes the CPU time and memory of the server, with the names that Prometheus' client libraries use.
fn write_process(page: &mut MetricsText, started: SystemTime) {
    let seconds = |time: TimeVal| Duration::from_micros(time.num_microseconds().unsigned_abs());
    let cpu_seconds =
        |usage: Usage| (seconds(usage.user_time()) + seconds(usage.system_time())).as_secs_f64();
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        page.metric(
            "process_cpu_seconds",
            MetricKind::Counter,
            "CPU time of the server, in seconds",
        )
        .sample(&[], cpu_seconds(usage));
    }
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) {
        page.metric(
            "perfmon_profile_cpu_seconds",
            MetricKind::Counter,
            "CPU time of making profiles, in seconds",
        )
        .sample(&[], cpu_seconds(usage));
    }
    if let Some(bytes) = resident_bytes() {
        page.metric(
            "process_resident_memory_bytes",
            MetricKind::Gauge,
            "Memory of the server, in bytes",
        )
        .sample(&[], bytes);
    }
    let start_time = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    page.metric(
        "process_start_time_seconds",
        MetricKind::Gauge,
        "Time at which the server was started, in seconds since 1970",
    )
    .sample(&[], start_time.as_secs_f64());
}

/// Returns the resident memory of the server in bytes.
fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    let size = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    pages.checked_mul(u64::try_from(size).ok()?)
}

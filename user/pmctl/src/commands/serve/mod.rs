// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl serve`: the counters for Prometheus, and profiles on request.
//!
//! An HTTP [server] answers with [metrics], which are read from the counters of [CPUs](counters) and
//! [cgroups](containers) at each request, and with [profiles](profile), which other processes make. Between requests it
//! is idle.

pub(crate) mod containers;
mod counters;
mod metrics;
mod names;
mod notify;
pub(crate) mod open_events;
mod page;
mod profile;
mod request;
mod server;
mod text;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::SystemTime;

use anyhow::{Context, Result};
use nix::errno::Errno;
use perfmon::spec::{self, EventSpec};
use perfmon::{Device, Pmu};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use containers::{CgroupLimit, Containers};
use counters::Counters;
use metrics::ServerTotals;
use open_events::UncountedReason;
use request::Limits;
use server::Server;

use crate::args::Serve;
use crate::events::cgroups::Pattern;
use crate::events::cpus::Cpus;
use crate::events::schedule;
use crate::system::exit::{self, Usage};
use crate::system::files::allow_many_files;
use crate::system::machine::Machine;
use crate::system::pmu;
use crate::system::stdio::complain;
use crate::system::text::count;

/// Serves until a signal ends it, and returns the exit code.
pub(crate) fn serve(args: &Serve) -> Result<u8> {
    let machine = Machine::here();
    let pmu = pmu::of_machine(&machine);
    let events = requested_events(&args.events, &pmu)?;
    let cpus = counted_cpus(args.cpu.as_ref(), &machine)?;
    // The port is opened before the counters, so that a second server fails without taking counters.
    let listener = listen(args)?;
    let address = listener
        .local_addr()
        .context("can't find out the address of the listening socket")?;
    // Each event takes a descriptor on each CPU. If the limit is still too low, opening the events fails with a message.
    allow_many_files();
    let device = Device::open().map_err(exit::with_help)?;
    let counters = open_counters(&device, events.clone(), &cpus)?;
    let containers = open_containers(args, device, events)?;
    let server = Server {
        listen: address,
        counters: RefCell::new(counters),
        containers: RefCell::new(containers),
        cpus: args.cpu.clone(),
        limits: Limits {
            seconds: args.max_seconds,
            hz: args.max_hz,
        },
        pmu,
        started: SystemTime::now(),
        totals: RefCell::new(ServerTotals::default()),
        profile_end: Cell::new(None),
        connections: RefCell::new(VecDeque::new()),
    };
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = runtime.context("can't create the event loop")?;
    LocalSet::new().block_on(&runtime, async {
        server
            .run(listener, || {
                complain(format_args!(
                    "serving http://{address}/metrics and /debug/pprof/profile"
                ));
                notify::notify_ready();
            })
            .await
    })?;
    Ok(0)
}

/// Opens the counters of the CPUs, and reports which events are counted, and which are left out.
fn open_counters(device: &Device, events: Vec<EventSpec>, cpus: &Cpus) -> Result<Counters> {
    let counters = Counters::open(device.clone(), events, cpus, |event, cpus, error| {
        let (label, cause) = (&event.label, &error.cause);
        match UncountedReason::of(cause) {
            Some(UncountedReason::NoFreeCounter) => complain(format_args!(
                "{label} is left out for now on CPU {cpus}: {cause}. Each request for /metrics tries again to count it."
            )),
            _ => complain(format_args!("{label} is left out on CPU {cpus}: {cause}")),
        }
    })?;
    complain(format_args!(
        "counting {}",
        counted_events_in_words(&counters)
    ));
    Ok(counters)
}

/// Opens the counters of the cgroups of --cgroups, and reports their number; `None` without the option.
fn open_containers(
    args: &Serve,
    device: Device,
    events: Vec<EventSpec>,
) -> Result<Option<Containers>> {
    if args.cgroups.is_empty() {
        return Ok(None);
    }
    let containers = Containers::open(device, events, cgroup_choice(args)?)?;
    let number = count(containers.cgroup_count() as u64, "cgroup");
    let note = match containers.cgroup_count() {
        0 => ": none matches now, and new ones are counted when they appear",
        _ => "",
    };
    complain(format_args!("counting the same events in {number}{note}"));
    Ok(Some(containers))
}

/// Returns the patterns of --cgroups, and the limit of cgroups.
fn cgroup_choice(args: &Serve) -> Result<(Vec<Pattern>, CgroupLimit), Usage> {
    let patterns = args
        .cgroups
        .iter()
        .map(|text| Pattern::list("--cgroups", text));
    let patterns: Vec<Vec<Pattern>> = patterns.collect::<Result<_, _>>()?;
    let limit = CgroupLimit {
        max_count: args.max_cgroups as usize,
        advice: "Raise it with --max-cgroups, or match fewer with --cgroups; the metric perfmon_cgroups_left_out is the \
                 number of the others.",
    };
    Ok((patterns.concat(), limit))
}

/// Returns a text with the counted events and their CPUs. Events on the same CPUs are grouped.
fn counted_events_in_words(counters: &Counters) -> String {
    let mut groups: Vec<(Cpus, Vec<&str>)> = Vec::new();
    for (index, event) in counters.events().iter().enumerate() {
        let cpus = counters.cpus_counting(index);
        match groups.iter_mut().find(|(other, _)| *other == cpus) {
            Some((_, labels)) => labels.push(&event.label),
            None if cpus.len() == 0 => {}
            None => groups.push((cpus, vec![&event.label])),
        }
    }
    let parts = groups.iter();
    let parts: Vec<String> = parts
        .map(|(cpus, labels)| format!("{} on CPU {cpus}", labels.join(", ")))
        .collect();
    parts.join("; ")
}

/// Returns the events of -e, each once, or the default events.
fn requested_events(texts: &[String], pmu: &Pmu) -> Result<Vec<EventSpec>, Usage> {
    if texts.is_empty() && spec::default_events(pmu).is_empty() {
        // There is no PMU, so opening the device fails with advice.
        return Ok(Vec::new());
    }
    // The default events are parsed as one text, which is an error only if the CPU has none of them.
    let default_text = [spec::default_names().collect::<Vec<_>>().join(",")];
    let texts = if texts.is_empty() {
        &default_text
    } else {
        texts
    };
    let mut events: Vec<EventSpec> = Vec::new();
    for text in texts {
        let result = spec::parse_or_absent(text, pmu);
        for event in result.map_err(|error| Usage(error.to_string()))? {
            let label = &event.label;
            if event.group.is_some() {
                return Err(Usage(
                    "-e: braces have no use here, since all events of a CPU are read at one moment. Leave them out."
                        .to_owned(),
                ));
            }
            if let Some(counter) = event.pinned {
                return Err(Usage(format!(
                    "{label}: the driver chooses the counters. Leave {counter} out."
                )));
            }
            if event.needs_own_counter_choice {
                return Err(Usage(schedule::counter_choice_message(&event)));
            }
            if let Some(reason) = &event.missing {
                // The event is kept, so that the index page and the metric perfmon_events_missing include it.
                complain(format_args!("{label} is left out.\n{reason}"));
            }
            add_event(&mut events, event)?;
        }
    }
    Ok(events)
}

/// Adds an event, unless an equal one is there.
fn add_event(events: &mut Vec<EventSpec>, event: EventSpec) -> Result<(), Usage> {
    let label = &event.label;
    let has_same_label = |other: &&EventSpec| other.label == *label;
    if events
        .iter()
        .find(has_same_label)
        .is_some_and(|other| *other != event)
    {
        return Err(Usage(format!(
            "-e: two different events are called {label}, so their counts could not be told apart. Give one of them \
             another name, as in cpu/event=0xc0,name=mine/."
        )));
    }
    let metric = |event: &EventSpec| {
        let name = names::metric_of(event).0;
        (
            name,
            (name == names::FALLBACK_METRIC).then(|| event.label.clone()),
        )
    };
    if !events.iter().any(|other| metric(other) == metric(&event)) {
        events.push(event);
    }
    Ok(())
}

/// Returns the CPUs of -C, or all CPUs that are present, including offline ones.
fn counted_cpus(requested: Option<&Cpus>, machine: &Machine) -> Result<Cpus> {
    const PRESENT_CPUS_FILE: &str = "/sys/devices/system/cpu/present";
    if let Some(cpus) = requested {
        cpus.require_online(&machine.online_cpus()?)?;
        return Ok(cpus.clone());
    }
    let text = machine.text(PRESENT_CPUS_FILE).context(PRESENT_CPUS_FILE)?;
    let text =
        text.with_context(|| format!("{PRESENT_CPUS_FILE} does not exist. Mount /sys (sysfs)."))?;
    Cpus::parse(&text)
        .map_err(|_| anyhow::anyhow!("{PRESENT_CPUS_FILE} has no list of CPUs, but `{text}`"))
}

/// Listens at the address of --listen.
fn listen(args: &Serve) -> Result<TcpListener> {
    let address = args.listen;
    if !address.ip().is_loopback() {
        if !args.allow_remote {
            return Err(Usage(format!(
                "--listen {address}: other machines can reach this address, and `pmctl serve` has neither passwords nor \
                 encryption. Use 127.0.0.1, or add --allow-remote."
            ))
            .into());
        }
        complain(format_args!(
            "warning: anyone who reaches {address} sees the counters and, in profiles, the names of all programs and \
             functions that run"
        ));
    }
    let listener = TcpListener::bind(address).map_err(|error| listen_error(address, &error))?;
    listener
        .set_nonblocking(true)
        .context("can't make the listening socket non-blocking")?;
    Ok(listener)
}

/// Returns the message for an error of listening, with advice.
fn listen_error(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "\nAnother `pmctl serve` or the service pmctl-serve may use it. Choose another port with --listen."
        }
        io::ErrorKind::PermissionDenied => {
            "\nOnly root can use ports below 1024. Choose another port with --listen."
        }
        io::ErrorKind::AddrNotAvailable => {
            "\nThis machine does not have the address: `ip address` lists its addresses."
        }
        _ if error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) => {
            "\nThis kernel has no IPv6. Use 127.0.0.1, or give the port alone."
        }
        _ => "",
    };
    anyhow::anyhow!("can't listen at {address}: {error}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::pmu::testing;

    fn labels(text: &str) -> Result<Vec<String>, Usage> {
        let events = requested_events(&[text.to_owned()], &testing::intel())?;
        Ok(events.into_iter().map(|event| event.label).collect())
    }

    #[test]
    fn each_event_is_counted_once_under_its_own_name() {
        let same = labels("cycles,cycles,cpu-cycles,r1c0,r1c0").expect("they are two events");
        assert_eq!(same, ["cycles", "r1c0"]);
        for text in [
            "cpu/event=0xc0,name=x/,cpu/event=0xc4,name=x/",
            "cycles,cpu/instructions,name=cycles/",
        ] {
            let error = labels(text).expect_err(text);
            assert!(
                error.to_string().contains("two different events"),
                "{error}"
            );
        }
    }
}

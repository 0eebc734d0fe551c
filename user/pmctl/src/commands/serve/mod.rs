// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl serve`: the counters for Prometheus, and profiles on request.
//!
//! A [server] of HTTP answers with the [metrics], which are read of [CPUs](counters) and of [cgroups](containers) when they
//! are asked for, and with [profiles](profile), which other processes make. Between requests it does nothing.

mod containers;
mod counters;
mod metrics;
mod names;
mod notify;
mod open_events;
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

use containers::Containers;
use counters::Counters;
use metrics::ServerTotals;
use open_events::Lack;
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

/// Serves until it is ended by a signal, and returns the exit code.
pub(crate) fn serve(args: &Serve) -> Result<u8> {
    let machine = Machine::here();
    let pmu = pmu::of(&machine);
    let events = events(&args.events, &pmu)?;
    let cpus = cpus(args.cpu.as_ref(), &machine)?;
    // Before the counters: a second server takes none.
    let listener = listen(args)?;
    let address = listener.local_addr().context("can't learn the address")?;
    // Each event takes a descriptor on each CPU. If they are too few, opening the events says so.
    allow_many_files();
    let device = Device::open().map_err(exit::with_help)?;
    let of_cgroups = events.clone();
    let counters = Counters::open(device.clone(), events, &cpus, |event, cpus, error| {
        let (label, cause) = (&event.label, &error.cause);
        match Lack::of(cause) {
            Some(Lack::Counter) => complain(format_args!(
                "{label} is left out for now on CPU {cpus}: {cause}. It is counted as soon as a counter is free: \
                 each request for /metrics tries it."
            )),
            _ => complain(format_args!("{label} is left out on CPU {cpus}: {cause}")),
        }
    })?;
    complain(format_args!("counting {}", counted_events(&counters)));
    let containers = (!args.cgroups.is_empty())
        .then(|| Containers::open(device, of_cgroups, cgroups(args)))
        .transpose()?;
    if let Some(containers) = &containers {
        let number = count(containers.number() as u64, "cgroup");
        complain(format_args!("counting the same in {number}"));
    }
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
        done: RefCell::new(ServerTotals::default()),
        profile: Cell::new(None),
        connections: RefCell::new(VecDeque::new()),
    };
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build();
    let runtime = runtime.context("can't wait for connections")?;
    LocalSet::new().block_on(&runtime, async {
        server
            .run(listener, || {
                complain(format_args!(
                    "serving http://{address}/metrics and /debug/pprof/profile"
                ));
                notify::ready();
            })
            .await
    })?;
    Ok(0)
}

/// Returns the forms of the names of cgroups that are asked for, and how many cgroups at most.
fn cgroups(args: &Serve) -> (Vec<Pattern>, usize) {
    let texts = args.cgroups.iter().flat_map(|text| text.split(','));
    (texts.map(Pattern::new).collect(), args.max_cgroups as usize)
}

/// Returns the events that are counted, with the CPUs: events of the same CPUs together.
fn counted_events(counters: &Counters) -> String {
    let mut together: Vec<(Cpus, Vec<&str>)> = Vec::new();
    for (index, event) in counters.events().iter().enumerate() {
        let cpus = counters.counted_on(index);
        match together.iter_mut().find(|(other, _)| *other == cpus) {
            Some((_, labels)) => labels.push(&event.label),
            None if cpus.len() == 0 => {}
            None => together.push((cpus, vec![&event.label])),
        }
    }
    let parts = together.iter();
    let parts: Vec<String> = parts
        .map(|(cpus, labels)| format!("{} on CPU {cpus}", labels.join(", ")))
        .collect();
    parts.join("; ")
}

/// Returns the events that are asked for, or the usual ones. One that is asked for twice is counted once.
fn events(texts: &[String], pmu: &Pmu) -> Result<Vec<EventSpec>, Usage> {
    if texts.is_empty() && spec::default_events(pmu).is_empty() {
        // There is no PMU: opening the device says what to do.
        return Ok(Vec::new());
    }
    // In one text: where nothing of it is there, it is a mistake.
    let usual = [spec::default_names().collect::<Vec<_>>().join(",")];
    let texts = if texts.is_empty() { &usual } else { texts };
    let mut events: Vec<EventSpec> = Vec::new();
    for text in texts {
        let found = spec::parse_or_absent(text, pmu);
        for event in found.map_err(|error| Usage(error.to_string()))? {
            let label = &event.label;
            if event.group.is_some() {
                return Err(Usage(
                    "-e: all events of a CPU are read at one moment. Leave out the braces."
                        .to_owned(),
                ));
            }
            if let Some(counter) = event.pinned {
                return Err(Usage(format!(
                    "{label}: the driver chooses the counters. Leave {counter} out."
                )));
            }
            if event.needs_choice {
                return Err(Usage(schedule::needs_choice(&event)));
            }
            if let Some(reason) = &event.missing {
                // It stays among the events: the page and the number of missing series tell of it.
                complain(format_args!("{label} is left out.\n{reason}"));
            }
            let name = |event: &EventSpec| {
                let name = names::of(event).0;
                (
                    name,
                    (name == names::FALLBACK_METRIC).then(|| event.label.clone()),
                )
            };
            if !events.iter().any(|other| name(other) == name(&event)) {
                events.push(event);
            }
        }
    }
    Ok(events)
}

/// Returns the CPUs that are counted on: those that are asked for, or all, also those that may come.
fn cpus(wanted: Option<&Cpus>, machine: &Machine) -> Result<Cpus> {
    const PRESENT_CPUS_FILE: &str = "/sys/devices/system/cpu/present";
    if let Some(cpus) = wanted {
        cpus.require_online(&machine.online_cpus()?)?;
        return Ok(cpus.clone());
    }
    let text = machine.text(PRESENT_CPUS_FILE).context(PRESENT_CPUS_FILE)?;
    let text =
        text.with_context(|| format!("{PRESENT_CPUS_FILE} is not there: is /sys mounted?"))?;
    Cpus::parse(&text)
        .map_err(|_| anyhow::anyhow!("{PRESENT_CPUS_FILE} is no list of CPUs: {text}"))
}

/// Listens at the address that is asked for.
fn listen(args: &Serve) -> Result<TcpListener> {
    let address = args.listen;
    if !address.ip().is_loopback() {
        if !args.allow_remote {
            return Err(Usage(format!(
                "--listen {address}: other machines can reach this address, and there is neither a password nor \
                 encryption. Take 127.0.0.1, or add --allow-remote."
            ))
            .into());
        }
        complain(format_args!(
            "warning: whoever reaches {address} sees the counters and, in profiles, the names of all programs and \
             functions that run"
        ));
    }
    let listener = TcpListener::bind(address).map_err(|error| listen_error(address, &error))?;
    listener
        .set_nonblocking(true)
        .context("can't wait for connections")?;
    Ok(listener)
}

/// Returns the error with advice.
fn listen_error(address: SocketAddr, error: &io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "\nAnother `pmctl serve` may have it, or the service pmctl-serve. --listen takes another port."
        }
        io::ErrorKind::PermissionDenied => {
            "\nPorts below 1024 are root's. --listen takes another port."
        }
        io::ErrorKind::AddrNotAvailable => {
            "\nThis machine does not have the address: `ip address` lists those that it has."
        }
        _ if error.raw_os_error() == Some(Errno::EAFNOSUPPORT as i32) => {
            "\nThis kernel has no IPv6: take 127.0.0.1, or the port alone."
        }
        _ => "",
    };
    anyhow::anyhow!("can't listen at {address}: {error}{advice}")
}

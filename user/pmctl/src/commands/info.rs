// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl info`: shows the processor, its counters, and the driver.

use std::io::Write;

use anstyle::Style;
use anyhow::Result;
use perfmon::pmu::BranchRecords;
use perfmon::spec::{self, OnCounters};
use perfmon::{CounterId, Device, Encoding, Pmu};
use perfmon_compare::document;
use raw_cpuid::CpuId;

use crate::commands::list::format_counters;
use crate::events::decode;
use crate::system::core_kinds;
use crate::system::hypervisor::Hypervisor;
use crate::system::machine::Machine;
use crate::system::pmu::{architecture_name, unused_counters_reason};
use crate::system::precise;
use crate::system::processes;
use crate::system::table::{Align, Table};
use crate::system::text::{count, thousands};

/// Writes a table of facts, and a table of events.
pub(crate) fn info(machine: &Machine, output: &mut dyn Write) -> Result<()> {
    let pmu = core_kinds::pmu_with_kinds(machine);
    let device = if machine.is_this_machine() {
        Some(Device::open())
    } else {
        None
    };
    for (name, value) in machine_facts(machine, &pmu, device.as_ref()) {
        writeln!(output, "{name:<12} {value}")?;
    }
    if pmu.capabilities().is_ok() {
        writeln!(output)?;
        write_events(&pmu, output)?;
    }
    Ok(())
}

/// The heading and the text of a line; the heading is empty if the line continues the previous
/// line.
type Fact = (&'static str, String);

/// Returns the processor's brand string.
pub(crate) fn brand(machine: &Machine) -> String {
    document::brand(&CpuId::with_cpuid_reader(machine.cpuid().clone()))
}

/// Returns the facts about the processor, its counters and the driver.
fn machine_facts(
    machine: &Machine,
    pmu: &Pmu,
    device: Option<&Result<Device, perfmon::Error>>,
) -> Vec<Fact> {
    let mut rows = Vec::new();

    let brand = brand(machine);
    let (family, model) = (pmu.processor().family(), pmu.processor().model());
    rows.push(("CPU", format!("{brand} (family {family}, model {model})")));
    for (index, kind) in pmu.core_kinds().iter().enumerate() {
        let heading = if index == 0 { "cores" } else { "" };
        rows.push((heading, core_kinds::describe_counters(kind)));
    }
    if let Some(hypervisor) = Hypervisor::find(machine.cpuid()) {
        rows.push(("run by", hypervisor.name.to_owned()));
    }
    match pmu.capabilities() {
        Err(reason) => rows.push(("PMU", format!("none: {}", reason.reason()))),
        Ok(capabilities) => {
            rows.push(("PMU", architecture_name(capabilities)));
            let general = count(capabilities.general_count, "counter");
            let width = capabilities.general_width;
            rows.push(("general", format!("{general} of {width} bits, PMC0 and up")));
            if let Some(reason) = unused_counters_reason(pmu) {
                rows.push(("", reason.to_owned()));
            }
            let fixed_counters: Vec<String> = pmu
                .fixed_counters()
                .map(|number| decode::counter_name(CounterId::Fixed(number)))
                .collect();
            rows.push((
                "fixed",
                match fixed_counters.len() {
                    0 => "none".to_owned(),
                    _ => format!(
                        "{} of {} bits",
                        fixed_counters.join(" "),
                        capabilities.fixed_width
                    ),
                },
            ));
        }
    }
    if let Some(records) = pmu
        .capabilities()
        .ok()
        .and_then(|capabilities| capabilities.last_branch)
    {
        rows.push(("last branch", branch_records(records)));
    }
    if pmu.capabilities().is_ok() {
        rows.push(("precise", precise_samples(machine, pmu, device)));
    }
    match device {
        None => {}
        Some(Err(error)) => {
            rows.push(("driver", format!("{error}; `pmctl doctor` says what to do")));
        }
        Some(Ok(device)) => rows.extend(driver_facts(device)),
    }
    let users = processes::find_holders(machine, |target| target == perfmon::PATH);
    // This process has the driver open, too.
    let users: Vec<String> = users
        .into_iter()
        .filter(|user| user.pid != std::process::id())
        .map(|user| user.to_string())
        .collect();
    if !users.is_empty() {
        rows.push(("in use by", users.join(", ")));
    }
    rows
}

/// Returns the facts that the driver reports.
fn driver_facts(device: &Device) -> Vec<Fact> {
    let properties = device.properties();
    let kinds = [(properties.general, "general"), (properties.fixed, "fixed")];
    let kinds = kinds.map(|(kind, name)| format!("{} {name} of {} bits", kind.number, kind.width));
    let branches = if properties.last_branch {
        "last branches"
    } else {
        "no last branches"
    };
    let mut rows = vec![(
        "driver",
        format!("{}: {}, {branches}", perfmon::PATH, kinds.join(", ")),
    )];
    if device.info().is_ok_and(|info| info.has_place_holders) {
        rows.push((
            "shared by",
            "place-holder: perf's events wait while perfmon counts".to_owned(),
        ));
    }
    rows.push((
        "TSC",
        match device.timestamp() {
            Ok(stamp) => format!("{} MHz", thousands(stamp.mhz.into())),
            Err(error) => error.cause.to_string(),
        },
    ));
    rows
}

/// Describes the precise samples, or says why there are none.
fn precise_samples(
    machine: &Machine,
    pmu: &Pmu,
    device: Option<&Result<Device, perfmon::Error>>,
) -> String {
    if let Some(reason) = precise::missing_reason(machine.cpuid(), pmu) {
        return format!("none: {reason}");
    }
    match device.map(|device| device.as_ref().map(precise::supported_by)) {
        None => "CPUID reports the debug store that PEBS needs, and not the format".to_owned(),
        Some(Err(_)) => "not known without the driver".to_owned(),
        Some(Ok(Err(error))) => format!("not known: {}", error.cause),
        Some(Ok(Ok(None))) => format!("none: {}", precise::NO_KNOWN_FORMAT),
        Some(Ok(Ok(Some(samples)))) if precise::is_kvm_loaded(machine) => format!(
            "{}; refused while KVM may run virtual machines (kvm_intel is loaded)",
            samples.describe(pmu)
        ),
        Some(Ok(Ok(Some(samples)))) => samples.describe(pmu),
    }
}

/// Describes the branch records that CPUID reports. CPUID does not report the older records of
/// Intel's processors, the stacks, so these are not shown.
fn branch_records(records: BranchRecords) -> String {
    let kind = match records {
        BranchRecords::OldStack(_) | BranchRecords::Stack => "stack",
        BranchRecords::Architectural { .. } => "architectural",
        BranchRecords::Amd { freezes: true, .. } => "AMD",
        BranchRecords::Amd { freezes: false, .. } => "AMD, of programs only",
    };
    format!("{} entries ({kind})", records.depth())
}

/// Writes the events that have the same names on all CPUs, with their encodings and the counters of
/// this CPU that can count them. Cache events are left out if the CPU lacks them.
fn write_events(pmu: &Pmu, output: &mut dyn Write) -> Result<()> {
    let named_events = spec::named_events(pmu.vendor()).map(|event| {
        let mut names = event.names();
        let name = names.next().unwrap_or_default().to_owned();
        (
            name,
            event.counters_on(pmu),
            names.collect::<Vec<_>>().join(", "),
        )
    });
    let caches = spec::cache_events(pmu);
    let caches = caches.map(|event| (event.to_string(), event.counters_on(pmu), String::new()));
    let rows: Vec<(String, Option<OnCounters>, String)> = named_events.chain(caches).collect();
    let headings = ["event", "raw", "counters", "also called"];
    let mut table = Table::new(&headings.map(|text| (text, Align::Left))).without_margin();
    for (name, counters_of_event, others) in rows {
        let (raw, counters) = counters_of_event.map_or(
            (String::new(), "not here".to_owned()),
            |counters_of_event| encoding_cells(&counters_of_event, pmu),
        );
        table.add_row(&[name, raw, counters, others], Style::new());
    }
    Ok(table.write(None, Style::new(), output)?)
}

/// Returns the raw event and the counters of an event, as cells of the table.
fn encoding_cells(counters_of_event: &OnCounters, pmu: &Pmu) -> (String, String) {
    let encoding = counters_of_event
        .select
        .map(|select| Encoding::Raw(select).to_string());
    (
        encoding.unwrap_or_default(),
        format_counters(counters_of_event, pmu),
    )
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl regs`: shows the registers of the PMU.

use std::io::Write;

use anyhow::{Result, bail};
use perfmon::pmu::Vendor;
use perfmon::{Pmu, spec};
use perfmon_core::logic::counter::{CounterId, each_counter};
use perfmon_core::logic::event_limits::extra_registers_of;
use perfmon_core::logic::regs::Registers;

use crate::args::Regs;
use crate::events::decode;
use crate::system::exit::Usage;
use crate::system::machine::Machine;
use crate::system::msr::Msrs;

/// Bits of `IA32_PERF_GLOBAL_CTRL` for general counters.
const GENERAL_ENABLE_BITS: u64 = u32::MAX as u64;

/// Names of the registers, which differ by vendor.
struct RegisterNames {
    /// Name of the global control register.
    control: &'static str,
    /// Name of the global status register.
    status: &'static str,
    /// Name of the event select registers, without the counter's number.
    select: &'static str,
    /// Name of the counters' registers, without the counter's number.
    counter: &'static str,
}

/// Names in the Intel SDM, volume 4.
const INTEL_REGISTERS: RegisterNames = RegisterNames {
    control: "IA32_PERF_GLOBAL_CTRL",
    status: "IA32_PERF_GLOBAL_STATUS",
    select: "IA32_PERFEVTSEL",
    counter: "IA32_PMC",
};

/// Names in the AMD APM, volume 2, appendix A.
const AMD_REGISTERS: RegisterNames = RegisterNames {
    control: "PerfCntrGlobalCtl",
    status: "PerfCntrGlobalStatus",
    select: "PERF_CTL",
    counter: "PERF_CTR",
};

/// Writes every register of the PMU, CPU by CPU.
pub(crate) fn regs(args: &Regs, machine: &Machine, output: &mut dyn Write) -> Result<()> {
    let online = machine.online_cpus()?;
    let cpus = match args.cpu {
        Some(cpu) if !online.contains(&cpu) => {
            return Err(Usage(format!(
                "--cpu: CPU {cpu} is not online; /sys/devices/system/cpu/online lists the online CPUs."
            ))
            .into());
        }
        Some(cpu) => vec![cpu],
        None => online,
    };
    let pmu = Pmu::from_cpuid(machine.cpuid());
    let capabilities = match pmu.capabilities() {
        Ok(capabilities) => capabilities,
        Err(reason) => bail!("there are no registers to read: {}", reason.reason()),
    };
    let registers = Registers::new(&capabilities);
    let names = match pmu.vendor() {
        Vendor::Intel => INTEL_REGISTERS,
        Vendor::Amd => AMD_REGISTERS,
    };
    for cpu in cpus {
        write_cpu(cpu, (&pmu, &registers), &names, output)?;
    }
    Ok(())
}

/// Writes the registers of a CPU, each with its number, its name, its value, and a description of the value.
fn write_cpu(
    cpu: usize,
    (pmu, registers): (&Pmu, &Registers),
    names: &RegisterNames,
    output: &mut dyn Write,
) -> Result<()> {
    let msrs = Msrs::open(cpu)?;
    writeln!(output, "CPU {cpu}")?;
    let mut row = |name: &str, number: u32, describe: &dyn Fn(u64) -> String| -> Result<u64> {
        let value = msrs.read(number)?;
        let description = describe(value);
        let line = format!("  {number:#05x}  {name:<24}{value:#018x}  {description}");
        writeln!(output, "{}", line.trim_end())?;
        Ok(value)
    };
    let no_description = |_| String::new();
    if let Some(global) = registers.global {
        row(names.control, global.control.number(), &enabled_counters)?;
        row(names.status, global.status.number(), &no_description)?;
    }
    for number in 0..pmu.general_counters() {
        let select = registers.select_msr(number).number();
        row(
            &format!("{}{number}", names.select),
            select,
            &|value| match value {
                0 => "off".to_owned(),
                value => decode::describe_select(value),
            },
        )?;
        row(
            &format!("{}{number}", names.counter),
            registers.counter_msr(number).number(),
            &no_description,
        )?;
    }
    if pmu.fixed_bitmap() != 0 {
        row(
            "IA32_FIXED_CTR_CTRL",
            registers.fixed_control.number(),
            &|value| {
                let field = |n| format!("{n}: {}", decode::describe_fixed_field(value, n));
                pmu.fixed_counters()
                    .map(field)
                    .collect::<Vec<_>>()
                    .join("; ")
            },
        )?;
    }
    for number in pmu.fixed_counters() {
        if let Some(counter) = CounterId::fixed(number) {
            let name = format!("IA32_FIXED_CTR{number}");
            row(&name, registers.read_msr(counter).number(), &no_description)?;
        }
    }
    for register in extra_registers_of(pmu.microarchitecture()) {
        let number = register.msr().number();
        // A virtual machine may lack this register.
        if msrs.read(number).is_ok() {
            row(spec::register_name(number), number, &no_description)?;
        }
    }
    Ok(())
}

/// Returns the names of the counters that the global control register enables.
fn enabled_counters(control: u64) -> String {
    let names = each_counter(control).map(|counter| {
        let index = counter.index();
        if counter.bit() & GENERAL_ENABLE_BITS != 0 {
            format!("PMC{index}")
        } else {
            format!("FIXED{}", index - 32)
        }
    });
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        "nothing counts".to_owned()
    } else {
        names.join(" ")
    }
}

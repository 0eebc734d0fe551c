// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stat --explain`: what each counter is told, and what it holds then.

use std::io::Write;

use anyhow::Result;
use perfmon::{Counter, CounterId, Pmu};
use perfmon_core::logic::regs::Registers;

use super::Column;
use crate::events::decode;
use crate::system::machine::Machine;
use crate::system::msr::Msrs;

/// Starts the counters for a moment, and writes what was asked for, what the driver says, and what the
/// registers of each CPU hold.
pub(crate) fn explain(
    output: &mut dyn Write,
    columns: &[Column],
    counters: &[Option<Counter>],
    (machine, pmu): (&Machine, &Pmu),
) -> Result<()> {
    for (column, counter) in columns.iter().zip(counters) {
        let (Some(id), Some(counter)) = (column.counter, counter) else {
            writeln!(output, "{}: this CPU does not have it", column.event.label)?;
            continue;
        };
        writeln!(output, "{} on {id}", column.event.label)?;
        let asked = counter.select().bits();
        writeln!(
            output,
            "  asked for   {asked:#012x}  {}",
            describe_select(id, asked)
        )?;
        counter.start()?;
        let configuration = counter.configuration()?;
        let state = if configuration.running {
            "running"
        } else {
            "stopped"
        };
        let has = configuration.select.bits();
        writeln!(output, "  driver has  {has:#012x}  {state}")?;
        for cpu in machine.online_cpus()? {
            match hardware(id, cpu, pmu) {
                Ok(text) => writeln!(output, "  CPU {cpu:<3}     {text}")?,
                Err(error) => writeln!(output, "  CPU {cpu:<3}     {error:#}")?,
            }
        }
        counter.stop()?;
    }
    Ok(())
}

/// Describes what is asked of a counter; a fixed one has no event.
fn describe_select(id: CounterId, bits: u64) -> String {
    match id {
        CounterId::General(_) => decode::select(bits),
        CounterId::Fixed(_) => decode::modes(bits),
    }
}

/// Describes what a CPU's register for this counter holds.
fn hardware(id: CounterId, cpu: usize, pmu: &Pmu) -> Result<String> {
    let Ok(capabilities) = pmu.capabilities() else {
        anyhow::bail!("its registers are not known")
    };
    let registers = Registers::new(&capabilities);
    let msrs = Msrs::open(cpu)?;
    Ok(match id {
        CounterId::General(number) => {
            let register = registers.select_msr(number).number();
            let value = msrs.read(register)?;
            format!(
                "{value:#012x}  MSR {register:#x}: {}",
                decode::select(value)
            )
        }
        CounterId::Fixed(number) => {
            let register = registers.fixed_control.number();
            let value = msrs.read(register)?;
            let field = decode::fixed_field(value, number);
            format!("{value:#012x}  MSR {register:#x}, field {number}: {field}")
        }
    })
}

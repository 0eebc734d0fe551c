// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stat --explain`: the encoding that each counter gets, and the content of its registers while it counts.

use std::io::Write;

use anyhow::Result;
use perfmon::{Counter, CounterId, Pmu};
use perfmon_core::logic::regs::Registers;

use super::column::Column;
use crate::events::decode;
use crate::system::machine::Machine;
use crate::system::msr::Msrs;
use crate::system::text::error_text;

/// Starts each counter for a moment, and writes the requested encoding, the encoding that the
/// driver reports, and the registers of each CPU.
pub(crate) fn explain(
    output: &mut dyn Write,
    columns: &[Column],
    counters: &[Option<Counter>],
    (machine, pmu): (&Machine, &Pmu),
) -> Result<()> {
    for (column, counter) in columns.iter().zip(counters) {
        let (Some(id), Some(counter)) = (column.counter, counter) else {
            writeln!(
                output,
                "{}: this CPU does not have the event",
                column.event.label
            )?;
            continue;
        };
        writeln!(output, "{} on {id}", column.event.label)?;
        let requested = counter.select().bits();
        writeln!(
            output,
            "  asked for   {requested:#012x}  {}",
            describe_select(id, requested)
        )?;
        counter.start()?;
        let configuration = counter.configuration()?;
        let state = if configuration.running {
            "running"
        } else {
            "stopped"
        };
        let actual = configuration.select.bits();
        writeln!(output, "  driver has  {actual:#012x}  {state}")?;
        for cpu in machine.online_cpus()? {
            match describe_register(id, cpu, pmu) {
                Ok(text) => writeln!(output, "  CPU {cpu:<3}     {text}")?,
                Err(error) => writeln!(output, "  CPU {cpu:<3}     {}", error_text(&error))?,
            }
        }
        counter.stop()?;
    }
    Ok(())
}

/// Describes the control bits of a counter. A fixed counter has no event to choose, only modes.
fn describe_select(id: CounterId, bits: u64) -> String {
    match id {
        CounterId::General(_) => decode::describe_select(bits),
        CounterId::Fixed(_) => decode::describe_modes(bits),
    }
}

/// Describes the content of a CPU's control register for this counter.
fn describe_register(id: CounterId, cpu: usize, pmu: &Pmu) -> Result<String> {
    let capabilities = pmu.capabilities().map_err(|no_pmu| {
        anyhow::anyhow!(
            "the registers of the counters are not known: {}",
            no_pmu.reason()
        )
    })?;
    let registers = Registers::new(&capabilities);
    let msrs = Msrs::open(cpu)?;
    Ok(match id {
        CounterId::General(number) => {
            let register = registers.select_msr(number).number();
            let value = msrs.read(register)?;
            format!(
                "{value:#012x}  MSR {register:#x}: {}",
                decode::describe_select(value)
            )
        }
        CounterId::Fixed(number) => {
            let register = registers.fixed_control.number();
            let value = msrs.read(register)?;
            let field = decode::describe_fixed_field(value, number);
            format!("{value:#012x}  MSR {register:#x}, field {number}: {field}")
        }
    })
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl encode`: what an event is for the hardware.

use std::io::Write;

use anyhow::Result;
use perfmon::{CounterId, Pmu, spec};
use perfmon_core::logic::evtsel::EventSelect;

use crate::cli::Encode;
use crate::decode;
use crate::exit::Usage;
use crate::machine::Machine;

/// The bits of a select that are written as `:u` and `:k`.
const MODES: u64 = EventSelect::USER | EventSelect::KERNEL;

/// Writes the event select of each event and the counters it can use.
pub(crate) fn encode(args: &Encode, machine: &Machine, output: &mut dyn Write) -> Result<()> {
    let pmu = Pmu::from_cpuid(machine.cpuid());
    let events =
        spec::parse_without_groups(&args.events, &pmu).map_err(|error| Usage(error.to_string()))?;
    for event in events {
        writeln!(output, "{}", event.label)?;
        let pinned = |counter| event.pinned.is_none_or(|pinned| pinned == counter);
        if event.general.is_some() && !matches!(event.pinned, Some(CounterId::Fixed(_))) {
            let first = match event.pinned {
                Some(counter @ CounterId::General(_)) => counter,
                _ => CounterId::General(0),
            };
            let counters: Vec<String> = (0..pmu.general())
                .map(CounterId::General)
                .filter(|counter| pinned(*counter))
                .map(decode::counter)
                .collect();
            let bits = event.select_on(first).bits();
            writeln!(output, "  select    {bits:#010x}  {}", decode::select(bits))?;
            writeln!(output, "  raw       r{:x}", bits & !MODES)?;
            let none = "none that the module can use here".to_owned();
            let counters = if counters.is_empty() {
                none
            } else {
                counters.join(" ")
            };
            writeln!(output, "  counters  {counters}")?;
        }
        if let Some(number) = event
            .fixed
            .filter(|number| pinned(CounterId::Fixed(*number)))
        {
            let counter = CounterId::Fixed(number);
            let bits = event.select_on(counter).bits();
            // Of bits 17:16, the kernel is bit 0 and the user bit 1 there.
            let field = bits >> 17 & 1 | bits >> 15 & 2;
            writeln!(
                output,
                "  fixed     {}: {field:#x} in its field of IA32_FIXED_CTR_CTRL",
                decode::counter(counter)
            )?;
        }
    }
    Ok(())
}

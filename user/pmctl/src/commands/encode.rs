// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl encode`: shows the encoding of events in the PMU's registers.

use std::io::Write;

use anyhow::Result;
use perfmon::pmu::CoreKind;
use perfmon::spec::models::{Event, ExtraRegister};
use perfmon::{CounterId, Encoding, Pmu, spec};
use perfmon_core::logic::evtsel::EventSelect;

use crate::args::Encode;
use crate::commands::list;
use crate::events::decode;
use crate::system::exit::Usage;
use crate::system::machine::Machine;

/// The bits of an event select that the modifiers `:u` and `:k` set.
const MODE_BITS: u64 = EventSelect::USER | EventSelect::KERNEL;

/// Writes the event select of each event and the counters it can use.
pub(crate) fn encode(args: &Encode, machine: &Machine, output: &mut dyn Write) -> Result<()> {
    let pmu = list::pmu(args.model.as_deref(), machine)?;
    args.events
        .iter()
        .try_for_each(|text| encode_text(text, &pmu, output))
}

/// Writes the events of one argument.
fn encode_text(text: &str, pmu: &Pmu, output: &mut dyn Write) -> Result<()> {
    let events = match spec::parse_without_groups(text, pmu) {
        Ok(events) => events,
        Err(error) => {
            let known_event = model_event(text, pmu).filter(|_| error.is_absent());
            let event = known_event.ok_or_else(|| Usage(error.to_string()))?;
            return write_uncountable(&event, pmu, output);
        }
    };
    for event in events {
        writeln!(output, "{}", event.label)?;
        let mut kinds = pmu.core_kinds().iter();
        let kind = kinds.find(|kind| event.core_type == Some(kind.perf_type()));
        let pmu = kind.map_or(pmu, CoreKind::pmu);
        if let Some(kind) = kind {
            writeln!(output, "  cores     {}", kind.name())?;
        }
        let is_usable = |counter| event.pinned.is_none_or(|pinned| pinned == counter);
        if event.general.is_some() && !matches!(event.pinned, Some(CounterId::Fixed(_))) {
            let first_counter = match event.pinned {
                Some(counter @ CounterId::General(_)) => counter,
                _ => CounterId::General(0),
            };
            let counters: Vec<String> = (0..pmu.general_counters())
                .filter(|number| event.general_counters >> number & 1 != 0)
                .map(CounterId::General)
                .filter(|counter| is_usable(*counter))
                .map(decode::counter_name)
                .collect();
            let bits = event.select_on(first_counter).bits();
            writeln!(
                output,
                "  select    {bits:#010x}  {}",
                decode::describe_select(bits)
            )?;
            match event.encoding {
                Some(encoding @ Encoding::RawWithRegister(..)) => {
                    writeln!(output, "  raw       {encoding}")?;
                }
                _ => writeln!(output, "  raw       r{:x}", bits & !MODE_BITS)?,
            }
            let extra = event
                .encoding
                .and_then(|encoding| spec::extra_register(encoding, pmu));
            if let Some(extra) = extra {
                write_register(extra, output)?;
            }
            let no_counter = "none that the module can use here".to_owned();
            let counters = if counters.is_empty() {
                no_counter
            } else {
                counters.join(" ")
            };
            writeln!(output, "  counters  {counters}")?;
        }
        if let Some(number) = event
            .fixed
            .filter(|number| is_usable(CounterId::Fixed(*number)))
        {
            let counter = CounterId::Fixed(number);
            let bits = event.select_on(counter).bits();
            // In the counter's field of the control register, bit 0 enables kernel mode and bit 1
            // user mode. In the event select, these are bits 17 and 16.
            let field = bits >> 17 & 1 | bits >> 15 & 2;
            writeln!(
                output,
                "  fixed     {}: {field:#x} in its field of IA32_FIXED_CTR_CTRL",
                decode::counter_name(counter)
            )?;
        }
    }
    Ok(())
}

/// Returns the event of the CPU's model whose name is in `text`, before the modifiers.
fn model_event(text: &str, pmu: &Pmu) -> Option<Event> {
    let name = text.split(':').next().unwrap_or_default().trim();
    pmu.model()?.event(name)
}

/// Writes the registers of an event that the driver can't count here, and the reason.
fn write_uncountable(event: &Event, pmu: &Pmu, output: &mut dyn Write) -> Result<()> {
    writeln!(output, "{}", event.name)?;
    if let Some(select) = spec::select_of(event).filter(|_| event.fixed.is_none()) {
        let bits = select.bits();
        writeln!(
            output,
            "  select    {bits:#010x}  {}",
            decode::describe_select(bits)
        )?;
        writeln!(output, "  raw       {}", Encoding::Raw(select))?;
    }
    if let Some(extra) = event.extra {
        write_register(extra, output)?;
    }
    if let Err(reason) = spec::counters_of_listed(event, pmu) {
        writeln!(output, "  counters  none here: {reason}")?;
    }
    Ok(())
}

/// Prints the name, the number and the value of the register that an event needs besides the event select.
fn write_register(extra: ExtraRegister, output: &mut dyn Write) -> Result<()> {
    let name = spec::register_name(extra.register);
    writeln!(
        output,
        "  register  {name} ({:#x}): {:#x}",
        extra.register, extra.value
    )?;
    Ok(())
}

// SPDX-License-Identifier: GPL-2.0-only
//! Reading the registers of values ([`crate::logic::values`]).
//!
//! Values take no counter and raise no interrupt. An energy register may wrap within a trace, so a timer reads it often
//! enough that no wrap is missed: the timer that watches the CPU, or the slow timer if no counter is active.

use super::common_pmu::common;
use crate::{
    cpu::{msr, timer, ThisCpu},
    logic::{
        cpuid::Capabilities,
        values::{values_in_set, MiscEvent, Quantity, Scale, Sensor},
    },
    percpu::{buffer::Writer, CpuTrace, PerCpu, TIMER_SLOW},
};

/// Returns the set of values in `capabilities` whose registers can be read on this CPU. With `skip_zero_energy`, leaves
/// out energy registers that read as 0, as missing registers do under some hypervisors.
pub(super) fn probe(here: ThisCpu<'_>, capabilities: &Capabilities, skip_zero_energy: bool) -> u16 {
    let can_read = |sensor| msr::read_sensor_safe(here, sensor).is_ok();
    let is_usable = |id: &MiscEvent| {
        let Some(value) = id
            .sensor(capabilities.architecture)
            .and_then(|sensor| msr::read_sensor_safe(here, sensor).ok())
        else {
            return false;
        };
        match id.quantity() {
            Quantity::Energy | Quantity::MemoryEnergy => {
                (!skip_zero_energy || value != 0)
                    && can_read(Sensor::energy_unit(capabilities.architecture))
            }
            Quantity::Temperature => can_read(Sensor::TEMPERATURE_TARGET),
            Quantity::Margin | Quantity::Cycles => true,
        }
    };
    values_in_set(capabilities.values)
        .filter(is_usable)
        .fold(0, |set, id| set | id.bit())
}

/// Begins to record values on this CPU: `recorded` is the set of all recorded values, `followers` the set of values
/// that are recorded with the timebase.
pub(crate) fn begin_recording(here: ThisCpu<'_>, recorded: u16, followers: u16) {
    let values = &here.percpu().trace.values;
    let capabilities = &common().capabilities;
    let (mut unit, mut temperature_target) = (0, 0);
    for id in values_in_set(recorded) {
        match id.quantity() {
            Quantity::Energy | Quantity::MemoryEnergy => {
                unit = msr::read_sensor(here, Sensor::energy_unit(capabilities.architecture));
            }
            Quantity::Temperature => {
                temperature_target = msr::read_sensor(here, Sensor::TEMPERATURE_TARGET)
            }
            Quantity::Margin | Quantity::Cycles => {}
        }
    }
    let mut refresh_ns = 0;
    for id in values_in_set(recorded) {
        let scale = Scale::new(id, capabilities, unit, temperature_target);
        let state = values.state_of(id);
        state.scale_byte.set(scale.to_byte().into());
        state.last.set(0);
        state.start.set(read_extended(here, id));
        refresh_ns = match scale.refresh_ns() {
            Some(ns) if refresh_ns == 0 || ns < refresh_ns => ns,
            _ => refresh_ns,
        };
    }
    values.select(recorded, followers);
    values.refresh_ns.set(refresh_ns);
    start_slow_timer(here);
}

/// Stops recording values on this CPU.
pub(crate) fn end_recording(here: ThisCpu<'_>) {
    let percpu = here.percpu();
    percpu.trace.values.select(0, 0);
    percpu.trace.values.refresh_ns.set(0);
    if percpu.watch.timer_mode.get() == TIMER_SLOW {
        timer::stop(here);
        percpu.watch.timer_mode.set(0);
    }
}

/// Starts the slow timer, if values that wrap are recorded and no timer runs.
pub(super) fn start_slow_timer(here: ThisCpu<'_>) {
    let percpu = here.percpu();
    let ns = slow_timer_period(percpu);
    if ns != 0 && percpu.watch.timer_mode.get() == 0 {
        // The registers are read now, since the timer that has just been stopped may not have
        // ticked, and the new timer may be stopped before its first tick.
        refresh(here);
        percpu.watch.timer_mode.set(TIMER_SLOW);
        timer::start(here, ns);
    }
}

/// Returns the period of the slow timer in nanoseconds; 0 if no value that wraps is recorded.
pub(crate) fn slow_timer_period(percpu: &PerCpu) -> u64 {
    match percpu.trace.values.refresh_ns.get() {
        0 => 0,
        ns => ns.max(timer::period_ns()),
    }
}

/// Reads the registers that wrap. The timer calls this often enough that no wrap is missed.
pub(crate) fn refresh(here: ThisCpu<'_>) {
    let values = &here.percpu().trace.values;
    for id in values_in_set(values.recorded_values()) {
        if matches!(id.quantity(), Quantity::Energy | Quantity::MemoryEnergy) {
            read_extended(here, id);
        }
    }
}

/// Writes VALUE records for the values in `set`, and returns the writer. The buffer must have room for them.
#[cold]
pub(crate) fn write_records(here: ThisCpu<'_>, mut writer: Writer, set: u16) -> Writer {
    for id in values_in_set(set) {
        let now = read_extended(here, id);
        let (start, scale) = start_and_scale(here.percpu(), id);
        if let Some(value) = scale.value(start, now) {
            writer.put(CpuTrace::value_record(id, value));
        }
    }
    writer
}

/// Returns the extended value of a register when the trace started, and its scale.
fn start_and_scale(percpu: &PerCpu, id: MiscEvent) -> (u64, Scale) {
    let state = percpu.trace.values.state_of(id);
    (
        state.start.get(),
        Scale::from_byte(id, state.scale_byte.get() as u8),
    )
}

/// Reads the register of the value `id`. Returns the register's value, extended to 64 bits.
fn read_extended(here: ThisCpu<'_>, id: MiscEvent) -> u64 {
    let architecture = common().capabilities.architecture;
    let Some(sensor) = id.sensor(architecture) else {
        return 0;
    };
    let percpu = here.percpu();
    let state = percpu.trace.values.state_of(id);
    let (_, scale) = start_and_scale(percpu, id);
    // `last` is loaded before the register is read. Otherwise an overflow interrupt between the two
    // reads could store a newer value, and the register would seem to have wrapped.
    let last = state.last.get();
    let now = scale.extend(last, msr::read_sensor(here, sensor));
    state.last.set(now);
    now
}

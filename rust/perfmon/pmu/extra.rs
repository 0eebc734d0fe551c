// SPDX-License-Identifier: GPL-2.0-only
//! The [extra registers](crate::logic::extra_registers) of a CPU, which some of Intel's events need.
//!
//! A register is saved when it is written for the first time since the module claimed the CPU, so
//! that CPUs without such events lose no time.

use crate::{
    cpu::{msr, ThisCpu},
    logic::{
        counter::CounterId,
        extra_registers::{ExtraRegister, ExtraValue},
    },
};

/// The reason why an extra register can't hold a value.
#[derive(Clone, Copy)]
pub(crate) enum RegisterError {
    /// The register is missing, as in virtual machines of KVM.
    Missing,
    /// The processor refuses the value.
    ValueRefused,
}

/// Checks on this CPU that an extra register exists and can hold the value. The register has its old value afterwards.
///
/// # Errors
///
/// The reason why the register can't hold the value.
pub(crate) fn check(here: ThisCpu<'_>, extra: ExtraValue) -> Result<(), RegisterError> {
    let register = extra.register.msr();
    let old_value = msr::read_safe(here, register).map_err(|_| RegisterError::Missing)?;
    msr::write_safe(here, register, extra.value).map_err(|_| RegisterError::ValueRefused)?;
    // Some hypervisors ignore writes to registers that are missing.
    let holds_value = matches!(msr::read_safe(here, register), Ok(now) if now == extra.value);
    let is_restored = msr::write_safe(here, register, old_value).is_ok();
    if holds_value && is_restored {
        Ok(())
    } else {
        Err(RegisterError::Missing)
    }
}

/// Writes the value that the event on `counter` needs to an extra register. Returns whether the register has changed:
/// an earlier reading of the counter is then out of date. Marks the counter as tampered with if the register is missing
/// or refuses the value.
#[cold]
pub(crate) fn set_register(here: ThisCpu<'_>, counter: CounterId, extra: ExtraValue) -> bool {
    let percpu = here.percpu();
    let state = &percpu.extra;
    let index = extra.register.index();
    let (value, saved, bit) = (
        &state.values[index],
        &state.saved_values[index],
        extra.register.bit(),
    );
    state.counters.insert(counter.bit());
    let is_saved = state.written_registers.get() & bit != 0;
    if is_saved && value.get() == extra.value {
        return false;
    }
    let register = extra.register.msr();
    if !is_saved {
        match msr::read_safe(here, register) {
            Ok(old_value) => {
                saved.set(old_value);
                value.set(old_value);
                state.written_registers.insert(bit);
            }
            Err(_) => {
                percpu.mark_tampered(counter.bit());
                return false;
            }
        }
    }
    if msr::write_safe(here, register, extra.value).is_err() {
        percpu.mark_tampered(counter.bit());
        return false;
    }
    value.set(extra.value);
    true
}

/// Restores the extra registers that the module has written since it claimed this CPU.
pub(super) fn restore(here: ThisCpu<'_>) {
    let state = &here.percpu().extra;
    let written_registers = state.written_registers.get();
    if written_registers == 0 {
        return;
    }
    for register in ExtraRegister::ALL {
        if written_registers & register.bit() != 0 {
            msr::write(
                here,
                register.msr(),
                state.saved_values[register.index()].get(),
            );
        }
    }
    state.written_registers.set(0);
    state.counters.set(0);
}

/// Repairs the extra registers that other software has changed. If there was such a register, marks
/// that the active counters of all events with extra registers may have missed events.
pub(super) fn repair(here: ThisCpu<'_>, active_counters: u64) {
    let percpu = here.percpu();
    let state = &percpu.extra;
    let written_registers = state.written_registers.get();
    if written_registers == 0 {
        return;
    }
    for register in ExtraRegister::ALL {
        let value = state.values[register.index()].get();
        if written_registers & register.bit() != 0 && msr::read(here, register.msr()) != value {
            msr::write(here, register.msr(), value);
            percpu.mark_lost(active_counters & state.counters.get());
        }
    }
}

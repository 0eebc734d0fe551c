// SPDX-License-Identifier: GPL-2.0-only
//! The probe of the CPU at load, and the checks of the module parameters.

use crate::{
    cpu::{self, msr, ThisCpu},
    logic::{
        core_kinds::MAX_CORE_KINDS,
        cpuid::{Architecture, Capabilities, NoPmu},
        extend64::Width,
        regs::Registers,
    },
    ownership::{perf_type, Reservation, OWNERSHIP},
    percpu, pmu,
};
use kernel::prelude::*;

/// Returns the capabilities of the current CPU's PMU.
///
/// # Errors
///
/// ENODEV if the CPU has no PMU that the module supports; the log says why.
pub(super) fn detect_capabilities() -> Result<Capabilities> {
    let pinned = cpu::pin();
    let here = pinned.here();
    let capabilities =
        pmu::probe(here).and_then(|capabilities| check_registers(here, capabilities));
    capabilities.map_err(|reason| {
        let cpu = pmu::processor(here);
        pr_err!(
            "no PMU: {} family {} model {:#x}{}: {}\n",
            core::str::from_utf8(&cpu.vendor_id).unwrap_or("unknown vendor"),
            cpu.family(),
            cpu.model(),
            if cpu.is_virtual() {
                " under a hypervisor"
            } else {
                ""
            },
            reason.reason()
        );
        ENODEV
    })
}

/// Checks that AMD's legacy counters exist, if `capabilities` describe a PMU with legacy counters.
/// CPUID has no bit for these counters: every AMD processor has them, but not every virtual
/// machine.
fn check_registers(here: ThisCpu<'_>, capabilities: Capabilities) -> Result<Capabilities, NoPmu> {
    /// A value that no counter holds by chance.
    const PATTERN: u64 = 0x5a5a_a5a5;

    if capabilities.architecture != Architecture::AmdLegacy {
        return Ok(capabilities);
    }
    let counter = Registers::new(&capabilities).counter_msr(0);
    msr::read_safe(here, counter).map_err(|_| NoPmu::Registers)?;
    // If Linux perf has reserved the counters, they exist.
    let Ok(_reservation) =
        Reservation::new(Registers::new(&capabilities), capabilities.general_count)
    else {
        return Ok(capabilities);
    };
    let old_value = msr::read(here, counter);
    msr::write(here, counter, PATTERN);
    let kept_pattern = msr::read(here, counter) == PATTERN;
    msr::write(here, counter, old_value);
    if kept_pattern {
        Ok(capabilities)
    } else {
        Err(NoPmu::Registers)
    }
}

/// Leaves a general counter to the place-holders, if the kernel can't reserve the registers that Linux perf uses or if
/// the user wants place-holders (`is_wanted`). Returns the capabilities without that counter, and its number.
///
/// # Errors
///
/// EINVAL if Linux perf's NMI handler does not tolerate other counters beside the place-holder's, or if the CPUs have
/// only one general counter.
pub(super) fn leave_place_holder(
    common: Capabilities,
    is_wanted: bool,
) -> Result<(Capabilities, Option<u8>)> {
    if !is_wanted && Reservation::excludes_perf(&common) {
        return Ok((common, None));
    }
    // AMD's handler warns of an overflow of a counter that perf does not use.
    if common.architecture != Architecture::Intel {
        pr_err!("placeholder=1 works only with Intel's counters: load the module without it\n");
        return Err(EINVAL);
    }
    let Some((remaining, counter)) = common.without_last() else {
        pr_err!(
            "not loaded: these CPUs have only one general counter, and {}\n",
            if is_wanted {
                "placeholder=1 takes it: load the module without placeholder=1"
            } else {
                "the event that keeps Linux perf off takes it: this machine is not supported"
            }
        );
        return Err(EINVAL);
    };
    pr_info!(
        "one general counter of each CPU is taken by an event that keeps Linux perf off the others ({})\n",
        if is_wanted {
            "placeholder=1"
        } else {
            "the kernel can't reserve these counters"
        }
    );
    Ok((remaining, Some(counter)))
}

/// Returns the types of Linux perf's PMUs for each kind of core, if there are several kinds. Must be called without the
/// ownership lock, since perf takes mutexes.
pub(super) fn perf_types() -> [Option<u32>; MAX_CORE_KINDS] {
    let mut types = [None; MAX_CORE_KINDS];
    if !OWNERSHIP.lock().cpus().kinds().are_several() {
        return types;
    }
    for cpu in cpu::possible_cpus() {
        let type_of_kind = &mut types[percpu::of_cpu(cpu).core_kind().number()];
        if type_of_kind.is_none() && OWNERSHIP.lock().cpus().is_counted(cpu) {
            *type_of_kind = perf_type(cpu);
        }
    }
    types
}

/// Checks that all counters can overflow after 2^`bits` events.
///
/// # Errors
///
/// EINVAL if a counter can't overflow after so many events; the kernel log has the range of `bits`.
pub(super) fn check_load_distance(bits: u32, common: &Capabilities) -> Result {
    /// The smallest allowed load distance: with fewer bits, the machine would do little else than serve overflows.
    const MIN_BITS: u32 = 8;

    if bits == 0 {
        return Ok(());
    }
    let mut widest = Width::new(common.general_width, common.full_width_writes);
    if common.fixed != 0 {
        let fixed = Width::new(common.fixed_width, common.full_width_writes);
        widest = widest.with_load_distance(fixed.load_distance.trailing_zeros());
    }
    let max_bits = widest.load_distance.trailing_zeros();
    if !(MIN_BITS..=max_bits).contains(&bits) {
        pr_err!("period_bits={bits} is out of range: on these CPUs it must be 0, or {MIN_BITS} to {max_bits}\n");
        return Err(EINVAL);
    }
    pr_info!("for tests, counters overflow after 2^{bits} events\n");
    Ok(())
}

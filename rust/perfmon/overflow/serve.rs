// SPDX-License-Identifier: GPL-2.0-only
//! Serving the overflows of one NMI: acknowledge, extend and reload each counter, unmask the interrupt.
//!
//! The usual NMI walks through [`handle_pmi`] and [`handle_overflows`] alone, inlined into each other. Everything
//! rare is behind one word ([`PerCpu::slow_path`](crate::percpu::PerCpu::slow_path)), in [`finish_slow`].

use super::{event_sample, pebs, suspend::suspend, trace_sample::TraceSample};
use crate::{
    cpu::{msr, timestamp, Regs, ThisCpu},
    logic::{counter::each, pmu::Pmu, regs::GlobalMsrs, throttle::is_soon},
    percpu::{SLOW_BRANCHES, SLOW_KERNEL, SLOW_PEBS},
    pmu::{lbr, Lvtpc},
    sys::time::jiffies,
};

/// Serves the overflows of this CPU's counters, in an NMI that came at `regs`. Returns how many interrupts it stands
/// for.
#[inline(always)]
pub(super) fn handle_pmi(here: ThisCpu<'_>, pmu: &Pmu, regs: Regs<'_>) -> u32 {
    let begin = timestamp();
    let percpu = here.percpu();
    percpu.budget.begin(&pmu.limits, begin);
    let active = percpu.active_mask.get();
    let mut found = 0;
    if let Some(global) = &pmu.registers.global {
        pmu.repair_in_nmi(here, active, regs);
        found = acknowledge(here, global, active);
    }
    if found == 0 {
        // There is no status register, or something else has cleared it. The counters still show overflows.
        found = pmu.overflowed(here, active);
        if found == 0 {
            return finish_slow(here, pmu, regs, begin, 0);
        }
    }
    percpu.pending.served();
    let served = handle_overflows(here, pmu, found, regs, begin);
    if percpu.slow_path.get() != 0 || has_overflow(here, pmu, active) {
        return finish_slow(here, pmu, regs, begin, served);
    }
    Lvtpc::NMI.write(here);
    charge(here, pmu, begin);
    served
}

/// Returns which of the counters `active` have overflowed according to the status register, and clears them there.
#[inline(always)]
fn acknowledge(here: ThisCpu<'_>, global: &GlobalMsrs, active: u64) -> u64 {
    let found = msr::read(here, global.status) & active;
    if found != 0 {
        // Before the counters are read: a later overflow sets the bit again.
        msr::write(here, global.clear, found);
    }
    found
}

/// Returns whether the status register shows an overflow. LVTPC is unmasked only when it shows none, since silicon
/// may set it late.
#[inline(always)]
fn has_overflow(here: ThisCpu<'_>, pmu: &Pmu, counters: u64) -> bool {
    match &pmu.registers.global {
        Some(global) => msr::read(here, global.status) & counters != 0,
        None => false,
    }
}

/// Extends or records counters that have overflowed, as of the time `now`, and reloads them. Returns how many they
/// are.
#[inline(always)]
fn handle_overflows(here: ThisCpu<'_>, pmu: &Pmu, found: u64, regs: Regs<'_>, now: u64) -> u32 {
    let percpu = here.percpu();
    let mut trace = TraceSample::new(&percpu.trace, regs, now);
    let mut served: u32 = 0;
    let mut soon = false;
    for counter in each(found) {
        let value = percpu.value(counter);
        let msrs = pmu.msrs(counter);
        let control = msr::read(here, msrs.control);
        if !value.is_control_intact(control) {
            percpu.mark_tampered(counter.bit());
        }
        let total = value.update_in_nmi(here, msrs.read);
        let sampled = percpu.sampled(counter);
        let events = match sampled.due(total) {
            Err(left) => sampled.load_for(left),
            Ok(_) if sampled.is_event() => event_sample::take(here, counter, total, regs, now),
            Ok(due) => trace.add(counter, sampled, due),
        };
        // A sample may have brought the total up to date again.
        value.load(here, msrs.write, events, value.total());
        soon |= is_soon(counter, control, events);
        served = served.wrapping_add(1);
    }
    trace.finish(here, pmu);
    percpu.budget.set_next_soon(soon);
    served
}

/// Charges an NMI that began at `begin`. Suspends sampling if such NMIs take too much of the CPU's time.
#[inline(always)]
fn charge(here: ThisCpu<'_>, pmu: &Pmu, begin: u64) {
    if here.percpu().budget.charge(&pmu.limits, begin, timestamp()) {
        suspend(here);
    }
}

/// Does what is rarely needed after overflows have been served.
#[cold]
#[inline(never)]
fn finish_slow(here: ThisCpu<'_>, pmu: &Pmu, regs: Regs<'_>, begin: u64, mut served: u32) -> u32 {
    let percpu = here.percpu();
    if percpu.slow_path.get() & SLOW_BRANCHES != 0 {
        lbr::unfreeze(here, pmu);
    }
    let mut drained = drain_overflows(here, pmu, regs);
    if percpu.slow_path.get() & SLOW_PEBS != 0 {
        served += pebs::serve(here, pmu);
    }
    // On Intel, delivering a PMI masks LVTPC (SDM volume 3A, section 12.5.1). On AMD, KVM may have left it masked.
    Lvtpc::NMI.write(here);
    // Counters of user mode can't overflow in here.
    if percpu.slow_path.get() & SLOW_KERNEL != 0 {
        // Overflows between the last look and the unmasking have raised no interrupt.
        drained += drain_overflows(here, pmu, regs);
        if percpu.has_place_holder.get() != 0 {
            drained += serve_acknowledged(here, pmu, regs);
        }
    }
    percpu.correct_pages();
    charge(here, pmu, begin);
    if served + drained == 0 {
        return percpu.pending.consume(jiffies()).into();
    }
    pmu.vendor.expect_after_nmi(percpu, drained != 0);
    served + drained
}

/// Serves the overflows that Linux perf has acknowledged. Beside the place-holder its handler comes after this one, and
/// acknowledges whatever overflows until it disables the counters. The interrupt comes all the same, but the status
/// register does not show for which counter. Returns how many there were.
fn serve_acknowledged(here: ThisCpu<'_>, pmu: &Pmu, regs: Regs<'_>) -> u32 {
    let percpu = here.percpu();
    let of_kernel = percpu.active_mask.get() & percpu.slow_path.get() & SLOW_KERNEL;
    match pmu.overflowed(here, of_kernel) {
        0 => 0,
        found => handle_overflows(here, pmu, found, regs, timestamp()),
    }
}

/// Serves overflows until there is none. Returns how many there were.
fn drain_overflows(here: ThisCpu<'_>, pmu: &Pmu, regs: Regs<'_>) -> u32 {
    /// The round in which samples are suspended: the counters must be counting the handler itself.
    const SUSPEND_ROUND: u32 = 8;
    /// The most rounds. There can't be as many overflows meanwhile: the status register must be stuck.
    const MAX_ROUNDS: u32 = 64;

    let mut served = 0;
    for round in 0..MAX_ROUNDS {
        if round == SUSPEND_ROUND {
            suspend(here);
        }
        // Serving may stop counters.
        let active = here.percpu().active_mask.get();
        let found = match &pmu.registers.global {
            Some(global) => acknowledge(here, global, active),
            None => pmu.overflowed(here, active),
        };
        if found == 0 {
            break;
        }
        served += handle_overflows(here, pmu, found, regs, timestamp());
    }
    served
}

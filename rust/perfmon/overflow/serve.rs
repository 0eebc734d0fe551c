// SPDX-License-Identifier: GPL-2.0-only
//! Serving the overflows of one NMI: acknowledges overflows, extends and reloads their counters, and unmasks the
//! interrupt.
//!
//! The fast path is [`handle_pmi`] with [`handle_overflows`] inlined. Rare work is in [`finish_slow`], which is
//! called if the word [`PerCpu::slow_path`](crate::percpu::PerCpu::slow_path) is not 0.

use super::{event_sample, pebs, suspend::suspend, trace_sample::TraceSample};
use crate::{
    cpu::{msr, timestamp, Regs, ThisCpu},
    logic::{counter::each_counter, pmu::Pmu, regs::GlobalMsrs, throttle::overflows_soon},
    percpu::{SLOW_BRANCHES, SLOW_KERNEL, SLOW_PEBS},
    pmu::{lbr, Lvtpc},
    sys::time::jiffies,
};

/// Serves the overflows of this CPU's counters, in an NMI that has interrupted `regs`. Returns the number of PMIs
/// that the NMI stands for.
#[inline(always)]
pub(super) fn handle_pmi(here: ThisCpu<'_>, pmu: &Pmu, regs: Regs<'_>) -> u32 {
    let begin = timestamp();
    let percpu = here.percpu();
    percpu.budget.begin_handler(&pmu.throttle_limits, begin);
    let active_counters = percpu.active_mask.get();
    let mut overflowed_counters = 0;
    if let Some(global) = &pmu.registers.global {
        pmu.repair_in_nmi(here, active_counters, regs);
        overflowed_counters = acknowledge(here, global, active_counters);
    }
    if overflowed_counters == 0 {
        // There is no status register, or other software has cleared it. The values of the counters also show
        // overflows.
        overflowed_counters = pmu.overflowed_counters(here, active_counters);
        if overflowed_counters == 0 {
            return finish_slow(here, pmu, regs, begin, 0);
        }
    }
    percpu.pending_pmi.end_expectation();
    let served_count = handle_overflows(here, pmu, overflowed_counters, regs, begin);
    if percpu.slow_path.get() != 0 || has_overflow(here, pmu, active_counters) {
        return finish_slow(here, pmu, regs, begin, served_count);
    }
    Lvtpc::NMI.write(here);
    spend_budget(here, pmu, begin);
    served_count
}

/// Returns the counters of `active_counters` whose overflow bits are set in the status register, and clears these bits.
#[inline(always)]
fn acknowledge(here: ThisCpu<'_>, global: &GlobalMsrs, active_counters: u64) -> u64 {
    /// The status bit that an interrupt sets while DEBUGCTL has `FREEZE_PERFMON_ON_PMI`, which only
    /// other software sets. No counter counts until the status bit is cleared (Intel SDM, volume
    /// 3B, section 18.4.7).
    const COUNTERS_FROZEN: u64 = 1 << 59;

    let status = msr::read(here, global.status);
    // The PMI that froze the counters may come from a full buffer, or from a counter that was
    // stopped meanwhile.
    let served = status & (active_counters | COUNTERS_FROZEN);
    if served != 0 {
        // The bits are cleared before the counters are read, so that a later overflow sets its bit again.
        msr::write(here, global.clear, served);
    }
    served & active_counters
}

/// Returns whether the status register shows an overflow of one of `counters`. If it shows an
/// overflow, the caller must serve it before it unmasks LVTPC: processors may set bits of the
/// status register late.
#[inline(always)]
fn has_overflow(here: ThisCpu<'_>, pmu: &Pmu, counters: u64) -> bool {
    match &pmu.registers.global {
        Some(global) => msr::read(here, global.status) & counters != 0,
        None => false,
    }
}

/// Updates the totals of the counters in the mask `overflowed_counters`, takes the samples that are due, and reloads
/// the counters. `now` is the time of the samples. Returns the number of counters.
#[inline(always)]
fn handle_overflows(
    here: ThisCpu<'_>,
    pmu: &Pmu,
    overflowed_counters: u64,
    regs: Regs<'_>,
    now: u64,
) -> u32 {
    let percpu = here.percpu();
    let mut trace = TraceSample::new(&percpu.trace, regs, now);
    let mut served_count: u32 = 0;
    let mut overflow_is_imminent = false;
    for counter in each_counter(overflowed_counters) {
        let value = percpu.value(counter);
        let msrs = pmu.msrs(counter);
        let control = msr::read(here, msrs.control);
        if !value.is_control_intact(control) {
            percpu.mark_tampered(counter.bit());
        }
        let total = value.update_in_nmi(here, msrs.read);
        let sampled = percpu.sampled_counter(counter);
        let events = match sampled.due_sample(total) {
            Err(events_left) => sampled.events_to_load(events_left),
            Ok(_) if sampled.is_of_event() => {
                event_sample::take_sample(here, counter, total, regs, now)
            }
            Ok(due) => trace.add(counter, sampled, due),
        };
        // Taking a sample may have updated the total, so it is read again.
        value.load(here, msrs.write, events, value.total());
        overflow_is_imminent |= overflows_soon(counter, control, events);
        served_count = served_count.wrapping_add(1);
    }
    trace.finish(here, pmu);
    percpu.budget.set_overflow_imminent(overflow_is_imminent);
    served_count
}

/// Subtracts the time of an NMI that began at `begin` from the budget. Suspends sampling if the
/// budget is overdrawn.
#[inline(always)]
fn spend_budget(here: ThisCpu<'_>, pmu: &Pmu, begin: u64) {
    if here
        .percpu()
        .budget
        .spend(&pmu.throttle_limits, begin, timestamp())
    {
        suspend(here);
    }
}

/// Does the rare work after `served_count` overflows have been served: unfreezes branch records, reads PEBS records,
/// serves overflows that came in the meantime, and corrects user pages. Returns the number of PMIs that the NMI stands
/// for.
#[cold]
#[inline(never)]
fn finish_slow(
    here: ThisCpu<'_>,
    pmu: &Pmu,
    regs: Regs<'_>,
    begin: u64,
    mut served_count: u32,
) -> u32 {
    let percpu = here.percpu();
    if percpu.slow_path.get() & SLOW_BRANCHES != 0 {
        if percpu.pebs.counters_with_interrupt_per_record.get() != 0 {
            // These samples may have branches, so they are taken before new branches overwrite the records.
            served_count += pebs::serve(here, pmu, regs);
        }
        lbr::unfreeze(here, pmu);
    }
    let mut drained_count = drain_overflows(here, pmu, regs);
    if percpu.slow_path.get() & SLOW_PEBS != 0 {
        served_count += pebs::serve(here, pmu, regs);
    }
    // On Intel, delivering a PMI masks LVTPC (SDM volume 3A, section 12.5.1). On AMD, KVM may have left it masked.
    Lvtpc::NMI.write(here);
    // Only counters that count in kernel mode may overflow while this handler runs.
    if percpu.slow_path.get() & SLOW_KERNEL != 0 {
        // An overflow between the last read of the status and the unmasking has raised no interrupt.
        drained_count += drain_overflows(here, pmu, regs);
        if percpu.has_place_holder.get() != 0 {
            drained_count += serve_overflows_acknowledged_by_perf(here, pmu, regs);
        }
    }
    if drained_count != 0 && percpu.slow_path.get() & SLOW_BRANCHES != 0 {
        // These overflows have frozen the branch records again.
        lbr::unfreeze(here, pmu);
    }
    percpu.correct_pages();
    spend_budget(here, pmu, begin);
    if served_count + drained_count == 0 {
        return percpu.pending_pmi.consume(jiffies()).into();
    }
    pmu.vendor.expect_late_pmis(percpu, drained_count != 0);
    served_count + drained_count
}

/// Serves overflows that Linux perf has acknowledged. With a place-holder, perf's handler runs
/// after the module's handler, and acknowledges all overflows until it disables the counters. An
/// overflow that perf has acknowledged raises its interrupt, but the status register does not show
/// the counter. Returns the number of overflows.
fn serve_overflows_acknowledged_by_perf(here: ThisCpu<'_>, pmu: &Pmu, regs: Regs<'_>) -> u32 {
    let percpu = here.percpu();
    let kernel_counters = percpu.active_mask.get() & percpu.slow_path.get() & SLOW_KERNEL;
    match pmu.overflowed_counters(here, kernel_counters) {
        0 => 0,
        overflowed_counters => handle_overflows(here, pmu, overflowed_counters, regs, timestamp()),
    }
}

/// Serves overflows until no counter has overflowed, in a limited number of rounds. Returns the
/// number of overflows.
fn drain_overflows(here: ThisCpu<'_>, pmu: &Pmu, regs: Regs<'_>) -> u32 {
    /// The round in which sampling is suspended: after so many rounds, the counters probably
    /// overflow because they count the handler itself.
    const SAMPLING_SUSPENSION_ROUND: u32 = 8;
    /// The largest number of rounds. More rounds with overflows are possible only if the status register is stuck.
    const MAX_ROUNDS: u32 = 64;

    let mut served_count = 0;
    for round in 0..MAX_ROUNDS {
        if round == SAMPLING_SUSPENSION_ROUND {
            suspend(here);
        }
        // The mask is read in each round, since serving an overflow may stop counters.
        let active_counters = here.percpu().active_mask.get();
        let overflowed_counters = match &pmu.registers.global {
            Some(global) => acknowledge(here, global, active_counters),
            None => pmu.overflowed_counters(here, active_counters),
        };
        if overflowed_counters == 0 {
            break;
        }
        served_count += handle_overflows(here, pmu, overflowed_counters, regs, timestamp());
    }
    served_count
}

// SPDX-License-Identifier: GPL-2.0-only
//! A trial at load: a counter counts instructions of the kernel past an overflow, whose interrupt has to arrive.
//!
//! Without a local APIC, or under a hypervisor that counts nothing or raises no interrupt, the module would load and
//! silently count wrong.
//!
//! The trial also measures a time that the overflow handler can't measure: the time to enter and
//! leave its interrupt. This takes about 1 us on a processor, and many times as long under a
//! hypervisor. The budget of samples ([`percpu`](crate::percpu)) includes this time.

use crate::{
    cpu::{irqs_off, timestamp, ThisCpu},
    logic::{counter::CounterId, evtsel::EventSelect, pmu::Pmu},
    ownership::{cancel_reservation, reserve_quietly, OWNERSHIP},
    percpu::set_measured_entry_cost,
    pmu::{self, Lvtpc},
};
use core::hint;
use kernel::prelude::*;

/// The event select of "instructions retired", which is the same on each processor that has
/// counters.
const INSTRUCTIONS: EventSelect = EventSelect::new(0xc0, 0x00);

/// The number of events from the start of the counter to its overflow.
const PERIOD: u64 = 1000;

/// The number of events within which the interrupt must arrive.
const DEADLINE_EVENTS: u64 = 200 * PERIOD;

/// The number of polling rounds after which the trial fails. Together they execute more than
/// [`DEADLINE_EVENTS`] instructions.
const MAX_POLLS: u32 = 100_000;

/// Makes the trial on the current CPU. Skips it if Linux perf uses the counters, which shows that they work, or if
/// the counters can't be reserved.
///
/// # Errors
///
/// ENODEV if a counter does not count, or its overflow raises no interrupt; the log has the reason.
pub(super) fn run() -> Result {
    let Ok(ownership) = reserve_quietly(OWNERSHIP.lock()) else {
        return Ok(());
    };
    let result = try_on_this_cpu(irqs_off().here(), pmu::common());
    cancel_reservation(ownership);
    result.map_err(|reason| {
        pr_err!(
            "the counters can't be used: {reason}. In a virtual machine, enable its virtual PMU\n"
        );
        ENODEV
    })
}

/// Counts past an overflow on this CPU, if the CPU is used for counting.
fn try_on_this_cpu(here: ThisCpu<'_>, pmu: &Pmu) -> Result<(), &'static str> {
    if here.percpu().brought_up.get() == 0 {
        return Ok(());
    }
    count_past_overflow(here, pmu)
}

/// Counts past an overflow.
///
/// # Errors
///
/// The reason for the log: the part of the PMU that does not work.
fn count_past_overflow(here: ThisCpu<'_>, pmu: &Pmu) -> Result<(), &'static str> {
    let percpu = here.percpu();
    let counter = CounterId::FIRST;
    let value = percpu.value(counter);

    if !Lvtpc::read(here).is_unmasked_nmi() {
        return Err("this CPU has no local APIC that could deliver the interrupts of counters");
    }
    pmu.program(here, counter, INSTRUCTIONS.with_modes(false, true));
    value.load(here, pmu.msrs(counter).write, PERIOD, value.total());
    let load_id_before = value.load_id();
    pmu.start(here, counter);
    for _ in 0..MAX_POLLS {
        if value.load_id() != load_id_before || value.total() > DEADLINE_EVENTS {
            break;
        }
        pmu.update(here, counter);
        hint::spin_loop();
    }
    let interrupt_arrived = value.load_id() != load_id_before;
    pmu.stop(here, counter);
    if interrupt_arrived {
        set_measured_entry_cost(measure_entry_cost(here, pmu, counter));
        percpu.budget.start(&pmu.throttle_limits);
    }
    pmu.restore(here, counter.bit());
    let is_intact = percpu.tampered.get() & counter.bit() == 0;
    percpu.tampered.remove(counter.bit());
    match (interrupt_arrived, is_intact, value.total()) {
        (_, false, _) => Err("the registers of a counter do not hold what is written to them"),
        (true, ..) => Ok(()),
        (false, true, 0) => Err("a counter did not count instructions"),
        (false, true, _) => Err("the overflow of a counter raised no interrupt (NMI)"),
    }
}

/// Returns the cycles of the time-stamp counter that entering and leaving an interrupt takes: the
/// lower quartile of several interrupts, since a hypervisor may take the CPU away during some of
/// them; 0 if an interrupt does not come. `counter` is programmed, and stopped.
fn measure_entry_cost(here: ThisCpu<'_>, pmu: &Pmu, counter: CounterId) -> u64 {
    const ROUNDS: usize = 15;
    let mut cycles = [0; ROUNDS];
    for cycles in &mut cycles {
        *cycles = entry_cost_of_one(here, pmu, counter);
        if *cycles == 0 {
            return 0;
        }
    }
    cycles.sort_unstable();
    cycles[ROUNDS / 4]
}

/// Returns the cost of entering and leaving one interrupt, including a few cycles of the loop that
/// waits for the interrupt; 0 if no interrupt came.
fn entry_cost_of_one(here: ThisCpu<'_>, pmu: &Pmu, counter: CounterId) -> u64 {
    let percpu = here.percpu();
    let value = percpu.value(counter);
    value.load(here, pmu.msrs(counter).write, PERIOD, value.total());
    let load_id_before = value.load_id();
    let mut cost = 0;
    percpu.budget.await_handler();
    pmu.start(here, counter);
    let mut before = timestamp();
    for _ in 0..MAX_POLLS {
        let now = timestamp();
        if value.load_id() != load_id_before {
            let (begin, end) = percpu.budget.last_handler();
            // The interrupt came between the last two times, or just before this test.
            cost = if begin < now {
                now.wrapping_sub(before)
            } else {
                timestamp().wrapping_sub(now)
            }
            .saturating_sub(end.wrapping_sub(begin));
            break;
        }
        before = now;
    }
    pmu.stop(here, counter);
    cost
}

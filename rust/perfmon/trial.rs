// SPDX-License-Identifier: GPL-2.0-only
//! A trial at load: a counter counts some of the kernel's instructions past an overflow, and the overflow's
//! interrupt has to arrive. There may be no local APIC, or a hypervisor that counts nothing, or that raises no
//! interrupt: then nothing here would work, and it would look as if nothing happened.

use crate::{
    arbiter::{Arbiter, Reservation},
    cpu::{undisturbed, ThisCpu},
    dirty,
    logic::{counter::CounterId, evtsel::EventSelect},
    pmu::{self, Lvtpc, Model},
};
use core::hint;
use kernel::prelude::*;

/// Instructions retired, on each processor that has counters.
const INSTRUCTIONS: EventSelect = EventSelect::new(0xc0, 0x00);

/// Events to the overflow.
const PERIOD: u64 = 1000;

/// By then its interrupt must have arrived.
const ENOUGH: u64 = 200 * PERIOD;

/// So often it is looked, which executes more instructions than that.
const ROUNDS: u32 = 100_000;

/// Makes the trial, on the current CPU. If Linux perf has the counters, they work.
///
/// # Errors
///
/// ENODEV if something is missing; the log says what.
pub(crate) fn run(arbiter: &Arbiter) -> Result {
    let model = pmu::model();
    let Ok(_reservation) = Reservation::new(model) else {
        return Ok(());
    };
    dirty::clean(&arbiter.counted);
    undisturbed(|here| {
        if here.slot().counted.get() == 0 {
            return Ok(());
        }
        model.take(here);
        let result = count(here, model);
        model.leave(here);
        result
    })
    .map_err(|reason| {
        pr_err!("the counters can't be used: {reason}\n");
        ENODEV
    })
}

/// Counts past an overflow, or tells what is missing.
fn count(here: &ThisCpu, model: &Model) -> Result<(), &'static str> {
    let slot = here.slot();
    let counter = CounterId::FIRST;
    let value = slot.count(counter);

    if !Lvtpc::read(here).is_open() {
        return Err("this CPU has no local APIC that could deliver their interrupts");
    }
    model.program(here, counter, INSTRUCTIONS.with_modes(false, true));
    value.load(here, model.lines(counter).write, PERIOD, value.total());
    let load = value.load_id();
    model.start(here, counter);
    for _ in 0..ROUNDS {
        if value.load_id() != load || value.total() > ENOUGH {
            break;
        }
        model.update(here, counter);
        hint::spin_loop();
    }
    let arrived = value.load_id() != load;
    model.stop(here, counter);
    model.give_back(here, counter.bit());
    let intact = slot.tampered.get() & counter.bit() == 0;
    slot.tampered.remove(counter.bit());
    match (arrived, intact, value.total()) {
        (_, false, _) => Err("they don't hold what is written to them"),
        (true, ..) => Ok(()),
        (false, true, 0) => Err("they count nothing"),
        (false, true, _) => Err("their overflow raises no interrupt (NMI)"),
    }
}

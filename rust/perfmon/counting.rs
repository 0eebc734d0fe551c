// SPDX-License-Identifier: GPL-2.0-only
//! The counting interface: what its calls mean, on all CPUs.
//!
//! Each call makes its checks in the order that linux/perfmon.h gives; the first three are the
//! dispatcher's ([`crate::ioctl`]).

use crate::{
    abi,
    arbiter::{Arbiter, Counter, ARBITER},
    cpu::{self, on_each, on_each_within},
    error::errno,
    logic::{
        counter::{bits, each, CounterId},
        counter_state::{Action, CounterCall, CounterState, NotSetUp},
        evtsel::EventSelect,
    },
    pmu, policy,
    session::{Session, SessionId},
};
use core::ops::Range;
use kernel::{bindings, cpu::nr_cpu_ids, prelude::*};

/// `PMIOSETUP`
pub(crate) fn setup(session: &Session, request: abi::pmc) -> Result {
    set_up(session, request.pmc_num, request.pmc_val.into())
}

/// `PMIOSETUP2`
pub(crate) fn setup2(session: &Session, request: abi::pmc2) -> Result {
    if u64::from(request.pmc2_flags) | request.pmc2_extra | request.reserved != 0 {
        return Err(EINVAL);
    }
    set_up(session, request.pmc2_num, request.pmc2_select)
}

/// What the two have in common.
fn set_up(session: &Session, number: c_int, select: u64) -> Result {
    let model = pmu::model();
    let select = EventSelect::from_abi(select, model.capabilities.select_bits)?;
    let id = CounterId::from_number(number, &model.capabilities)?;
    policy::allow_counting()?;
    if select.is_kernel() {
        policy::allow_kernel()?;
    }
    let mut arbiter = ARBITER.lock();
    let before = arbiter.get(id).map(|counter| counter.state);
    let (state, _) = CounterState::after(before, CounterCall::Setup)?;
    id.check_select(select)?;
    arbiter.check_event(select)?;
    if arbiter.trace.counters() & id.bit() != 0 {
        return Err(EBUSY);
    }

    arbiter.reserve()?;
    on_each(&arbiter.counted, |here| {
        model.program(here, id, select);
        here.slot().readable.insert(id.bit());
    });
    for slot in arbiter.absent() {
        slot.count(id).reset();
        slot.tampered.remove(id.bit());
    }
    arbiter.insert(
        id,
        Counter {
            owner: session.id(),
            select,
            state,
        },
    );
    if arbiter.is_intact(id) {
        Ok(())
    } else {
        // It can't count, so it is not set up.
        free(&mut arbiter, id.bit());
        Err(EIO)
    }
}

/// `PMIOGET`
pub(crate) fn get(_session: &Session, request: &mut abi::pmc) -> Result {
    request.pmc_val = configuration(request.pmc_num)? as u32;
    Ok(())
}

/// `PMIOGET2`
pub(crate) fn get2(_session: &Session, request: &mut abi::pmc2) -> Result {
    if u64::from(request.pmc2_flags) | request.pmc2_extra | request.reserved != 0 {
        return Err(EINVAL);
    }
    request.pmc2_select = configuration(request.pmc2_num)?;
    Ok(())
}

/// What a counter counts, and whether it runs.
fn configuration(number: c_int) -> Result<u64> {
    let id = CounterId::from_number(number, &pmu::model().capabilities)?;
    let arbiter = ARBITER.lock();
    let counter = arbiter.get(id).ok_or(NotSetUp)?;
    Ok(counter
        .select
        .to_abi(counter.state == CounterState::Running))
}

/// `PMIOSTART`
pub(crate) fn start(_session: &Session, number: c_int) -> Result {
    change(number, CounterCall::Start)
}

/// `PMIOSTOP`
pub(crate) fn stop(_session: &Session, number: c_int) -> Result {
    change(number, CounterCall::Stop)
}

/// `PMIORESET`
pub(crate) fn reset(_session: &Session, number: c_int) -> Result {
    change(number, CounterCall::Reset)
}

/// What the three have in common.
fn change(number: c_int, call: CounterCall) -> Result {
    let model = pmu::model();
    let id = CounterId::from_number(number, &model.capabilities)?;
    policy::allow_counting()?;
    let mut arbiter = ARBITER.lock();
    let mut counter = *arbiter.get(id).ok_or(NotSetUp)?;
    let (state, action) = CounterState::after(Some(counter.state), call)?;
    if call != CounterCall::Stop && !arbiter.is_intact(id) {
        return Err(EIO);
    }

    match action {
        Action::Nothing | Action::Program => {}
        Action::Enable => on_each(&arbiter.counted, |here| model.start(here, id)),
        Action::Disable => on_each(&arbiter.counted, |here| model.stop(here, id)),
        Action::Zero => {
            on_each(&arbiter.counted, |here| {
                if state == CounterState::Running {
                    model.update(here, id);
                }
                here.slot().count(id).reset();
            });
            for slot in arbiter.absent() {
                slot.count(id).reset();
            }
        }
    }
    counter.state = state;
    arbiter.insert(id, counter);
    if arbiter.is_intact(id) {
        Ok(())
    } else {
        Err(EIO)
    }
}

/// `PMIOREAD`
#[inline(always)]
pub(crate) fn read(session: &Session, request: &mut abi::pmc_data) -> Result {
    let value = match value_alone(session, request.pmcd_num) {
        Some(value) => value,
        None => value(session, request.pmcd_num)?,
    };
    request.pmcd_value = value as i64;
    request.reserved = 0;
    Ok(())
}

/// The value of a counter, where all of it is on the current CPU. `None`, and nothing done, if it is
/// not, or if there is a reason to refuse: then [`value`] does all that is right.
///
/// It goes without the arbiter's lock. What changes a counter runs on the counter's CPU: in a task that
/// can't be preempted, or called with interrupts off. So it comes before this or after it, and only the
/// overflow handler in between, which [`Count::update`](crate::count::Count::update) knows of. A second
/// CPU tells the first that it is not alone before it begins to count.
#[inline(always)]
fn value_alone(session: &Session, number: c_int) -> Option<u64> {
    let id = CounterId::possible(number)?;
    session.opener().allow_counting().ok()?;
    cpu::undisturbed(|here| {
        let slot = here.slot();
        if slot.alone.get() == 0 || slot.readable.get() & id.bit() == 0 {
            return None;
        }
        let count = slot.count(id);
        if slot.active.get() & id.bit() != 0 {
            if count.update(here, count.register()?).is_err() {
                slot.spoil(id.bit());
                return None;
            }
        }
        Some(count.value())
    })
}

/// The value of a counter, on all CPUs together.
#[inline(never)]
fn value(session: &Session, number: c_int) -> Result<u64> {
    let id = CounterId::from_number(number, &pmu::model().capabilities)?;
    session.opener().allow_counting()?;
    let arbiter = ARBITER.lock();
    let counter = arbiter.get(id).ok_or(NotSetUp)?;
    update(&arbiter, id, counter, &(0..nr_cpu_ids()));
    if !arbiter.is_intact(id) {
        return Err(EIO);
    }
    Ok(arbiter.known.iter().fold(0, |sum: u64, cpu| {
        sum.wrapping_add(cpu::slot(cpu).count(id).value())
    }))
}

/// `PMIOREADCPU`
pub(crate) fn read_cpu(_session: &Session, request: &mut abi::pmc_cpu_data) -> Result {
    if request.reserved != 0 {
        return Err(EINVAL);
    }
    let id = CounterId::from_number(request.pmcc_num, &pmu::model().capabilities)?;
    policy::allow_counting()?;
    let arbiter = ARBITER.lock();
    let counter = arbiter.get(id).ok_or(NotSetUp)?;
    let (first, wanted) = (request.pmcc_first_cpu, request.pmcc_count);
    if first >= nr_cpu_ids() || wanted == 0 || wanted > abi::PMC_CPU_MAX {
        return Err(EINVAL);
    }
    let cpus = first..(first + wanted).min(nr_cpu_ids());
    if arbiter.unfit.within(&cpus).next().is_some() {
        return Err(errno(bindings::EOPNOTSUPP));
    }
    update(&arbiter, id, counter, &cpus);
    if !arbiter.is_intact(id) {
        return Err(EIO);
    }
    request.pmcc_count = cpus.end - cpus.start;
    request.pmcc_value = [0; abi::PMC_CPU_MAX as usize];
    for cpu in arbiter.known.within(&cpus) {
        let value = cpu::slot(cpu).count(id).value();
        request.pmcc_value[(cpu.as_u32() - first) as usize] = value as i64;
    }
    Ok(())
}

/// `PMIOTSTAMP`
pub(crate) fn tstamp(_session: &Session) -> Result<abi::pmc_tstamp> {
    // SAFETY: Written at boot only.
    let khz = unsafe { bindings::tsc_khz };
    if khz == 0 {
        return Err(ENOTTY);
    }
    Ok(abi::pmc_tstamp {
        pmct_rate: (khz / 1000) as c_int,
        reserved: 0,
        pmct_value: cpu::timestamp() as i64,
    })
}

/// Stops and frees the counters of a session.
pub(crate) fn release(arbiter: &mut Arbiter, session: SessionId) {
    let owned = (arbiter.all()).filter(|(_, counter)| counter.owner == session);
    let counters = bits(owned.map(|(id, _)| id));
    if counters != 0 {
        free(arbiter, counters);
    }
}

/// Stops and frees counters. With the last one, Linux perf gets all.
fn free(arbiter: &mut Arbiter, counters: u64) {
    let model = pmu::model();
    on_each(&arbiter.counted, |here| model.give_back(here, counters));
    for id in each(counters) {
        arbiter.remove(id);
    }
    arbiter.leave_if_unused();
}

/// Brings the values of a counter up to date on the CPUs in `cpus`.
fn update(arbiter: &Arbiter, id: CounterId, counter: &Counter, cpus: &Range<u32>) {
    // A counter that does not run is up to date.
    if counter.state == CounterState::Running {
        let model = pmu::model();
        on_each_within(&arbiter.counted, cpus, |here| model.update(here, id));
    }
}

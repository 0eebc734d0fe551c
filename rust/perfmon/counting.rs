// SPDX-License-Identifier: GPL-2.0-only
//! The counting interface: what its calls mean, on all CPUs.
//!
//! Each call makes its checks in the order that linux/perfmon.h gives; the first three are the
//! dispatcher's ([`crate::ioctl`]).

use crate::{
    abi,
    arbiter::{Arbiter, Counter, ARBITER},
    cpu::{self, on_each, Callbacks, Hotplug, ThisCpu},
    logic::{
        counter::{each, CounterId},
        cpuid::Capabilities,
        evtsel::EventSelect,
        state::{Action, Call, NotSetUp, State},
    },
    msr::Tampered,
    pmu::{self, Model},
    policy,
    session::{Session, SessionId},
};
use kernel::{
    bindings,
    cpu::CpuId,
    prelude::*,
    sync::atomic::{Atomic, Relaxed},
};

/// `PMIOSETUP`
pub(crate) fn setup(session: &Session, request: abi::pmc) -> Result {
    let select = EventSelect::from_request(request.pmc_val)?;
    let mut arbiter = ARBITER.lock();
    let id = CounterId::from_number(request.pmc_num, &arbiter.model.capabilities)?;
    policy::allow_counting()?;
    if select.is_kernel() {
        policy::allow_kernel()?;
    }
    let before = arbiter.get(session.id(), id).map(|counter| counter.state);
    if before.is_none() && arbiter.all().any(|(other, _)| other == id) {
        return Err(EBUSY);
    }
    id.accept(select)?;
    let (state, _) = State::after(before, Call::Setup)?;

    let model = arbiter.model;
    if arbiter.reserve()? {
        on_each(&arbiter.counted, |here| model.take(here));
    }
    let intact = all_intact(&arbiter, |here| model.program(here, id, select));
    for cpu in arbiter.known.iter() {
        cpu::slot(cpu).counts[id.index()].reset();
    }
    arbiter.insert(
        id,
        Counter {
            owner: session.id(),
            select,
            msr: model.registers.read(id),
            state,
            intact,
        },
    );
    if intact {
        Ok(())
    } else {
        // It can't count, so it is not set up.
        on_each(&arbiter.counted, |here| model.give_back(here, id.bit()));
        arbiter.remove(id);
        Err(EIO)
    }
}

/// `PMIOGET`
pub(crate) fn get(session: &Session, mut request: abi::pmc) -> Result<abi::pmc> {
    let arbiter = ARBITER.lock();
    let id = CounterId::from_number(request.pmc_num, &arbiter.model.capabilities)?;
    let counter = arbiter.get(session.id(), id).ok_or(NotSetUp)?;
    request.pmc_val = counter.select.to_request(counter.state == State::Running);
    Ok(request)
}

/// `PMIOSTART`
pub(crate) fn start(session: &Session, number: c_int) -> Result {
    change(session, number, Call::Start)
}

/// `PMIOSTOP`
pub(crate) fn stop(session: &Session, number: c_int) -> Result {
    change(session, number, Call::Stop)
}

/// `PMIORESET`
pub(crate) fn reset(session: &Session, number: c_int) -> Result {
    change(session, number, Call::Reset)
}

/// What the three have in common.
fn change(session: &Session, number: c_int, call: Call) -> Result {
    let mut arbiter = ARBITER.lock();
    let id = CounterId::from_number(number, &arbiter.model.capabilities)?;
    policy::allow_counting()?;
    let mut counter = *arbiter.get(session.id(), id).ok_or(NotSetUp)?;
    let (state, action) = State::after(Some(counter.state), call)?;
    if !counter.intact && call != Call::Stop {
        return Err(EIO);
    }

    let (model, select) = (arbiter.model, counter.select);
    match action {
        Action::Nothing | Action::Program => {}
        Action::Enable => on_each(&arbiter.counted, |here| model.start(here, id, select)),
        Action::Disable => {
            counter.intact &= all_intact(&arbiter, |here| model.stop(here, id, select));
        }
        Action::Zero => {
            update(&arbiter, id, state);
            for cpu in arbiter.known.iter() {
                cpu::slot(cpu).counts[id.index()].reset();
            }
        }
    }
    counter.state = state;
    arbiter.insert(id, counter);
    if counter.intact {
        Ok(())
    } else {
        Err(EIO)
    }
}

/// `PMIOREAD`
pub(crate) fn read(session: &Session, request: abi::pmc_data) -> Result<abi::pmc_data> {
    let arbiter = ARBITER.lock();
    let id = CounterId::from_number(request.pmcd_num, &arbiter.model.capabilities)?;
    policy::allow_counting()?;
    let counter = arbiter.get(session.id(), id).ok_or(NotSetUp)?;
    if !counter.intact {
        return Err(EIO);
    }
    Ok(abi::pmc_data {
        pmcd_num: request.pmcd_num,
        reserved: 0,
        pmcd_value: value(&arbiter, id, counter) as i64,
    })
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

/// `IOCTL_PERFMON_GET_PROPERTIES`
pub(crate) fn properties(_session: &Session) -> Result<abi::perfmon_properties> {
    let c = ARBITER.lock().model.capabilities;
    let (general, fixed) = (u16::from(c.general), c.fixed.count_ones() as u16);
    Ok(abi::perfmon_properties {
        api_version: abi::PERFMON_API_VERSION as u16,
        pm_version: u16::from(c.version),
        max_num_events: general + fixed,
        reserved: 0,
        max_num_fixed_events: fixed,
        max_fixed_counter_width: u16::from(c.fixed_width),
        max_num_programmable_events: general,
        max_programmable_counter_width: u16::from(c.general_width),
        max_num_misc_events: 0,
        max_misc_counter_width: 0,
        flags: 0,
    })
}

/// Stops and frees the counters of a session.
pub(crate) fn release(arbiter: &mut Arbiter, session: SessionId) {
    let bits = (arbiter
        .all()
        .filter(|(_, counter)| counter.owner == session))
    .fold(0, |bits, (id, _)| bits | id.bit());
    if bits == 0 {
        return;
    }
    let model = arbiter.model;
    on_each(&arbiter.counted, |here| model.give_back(here, bits));
    for id in each(bits) {
        arbiter.remove(id);
    }
}

/// The value of a counter, on all CPUs together.
#[inline]
fn value(arbiter: &Arbiter, id: CounterId, counter: &Counter) -> u64 {
    if let Some(here) = arbiter.known.pin_if_only() {
        // The common end of what follows, on a machine with one CPU.
        let count = &here.slot().counts[id.index()];
        if counter.state == State::Running {
            count.update(&here, counter.msr);
        }
        return count.value();
    }
    update(arbiter, id, counter.state);
    arbiter.known.iter().fold(0, |sum: u64, cpu| {
        sum.wrapping_add(cpu::slot(cpu).counts[id.index()].value())
    })
}

/// Brings the values of a counter up to date.
fn update(arbiter: &Arbiter, id: CounterId, state: State) {
    // What does not run is up to date.
    if state == State::Running {
        let model = &arbiter.model;
        on_each(&arbiter.counted, |here| model.update(here, id));
    }
}

/// Does something on all CPUs, and tells whether the registers held everywhere what they should.
fn all_intact(arbiter: &Arbiter, f: impl Fn(&ThisCpu) -> Result<(), Tampered> + Sync) -> bool {
    let intact = Atomic::new(true);
    on_each(&arbiter.counted, |here| {
        if let Err(tampered) = f(here) {
            tampered.report(here);
            intact.store(false, Relaxed);
        }
    });
    intact.load(Relaxed)
}

/// Looks at the machine and gets ready to count on its CPUs.
///
/// # Errors
///
/// ENODEV if there is nothing to count with; the log says what was found.
///
/// # Safety
///
/// To be called once in the module's life, before anything else of this file and of
/// [`crate::arbiter`] is used.
pub(crate) unsafe fn begin(unarbitrated: bool) -> Result<Hotplug<Machine>> {
    // SAFETY: By the requirement this is the first use, and the only initialization.
    unsafe { ARBITER.init() };
    let capabilities = pmu::find(unarbitrated)?;
    ARBITER.lock().model = Model::new(capabilities);
    let cpus = Hotplug::register()?;
    ARBITER.lock().complete = true;
    Ok(cpus)
}

/// What happens to the counters when CPUs come and go.
pub(crate) struct Machine;

impl Callbacks for Machine {
    fn online(cpu: CpuId, here: &ThisCpu) {
        let mut arbiter = ARBITER.lock();
        match pmu::probe(here) {
            Ok(found) => join(&mut arbiter, cpu, here, found),
            Err(reason) => pr_warn!(
                "nothing is counted on CPU {}: {}\n",
                cpu.as_u32(),
                reason.reason()
            ),
        }
    }

    fn offline(cpu: CpuId, here: &ThisCpu) {
        let mut arbiter = ARBITER.lock();
        if !arbiter.counted.remove(cpu) {
            return;
        }
        here.slot().counted.set(0);
        let model = arbiter.model;
        for (id, counter) in arbiter.all_mut() {
            if counter.state == State::Running {
                if let Err(tampered) = model.stop(here, id, counter.select) {
                    tampered.report(here);
                    counter.intact = false;
                }
            }
            model.give_back(here, id.bit());
        }
    }
}

/// Begins to count on a CPU.
fn join(arbiter: &mut Arbiter, cpu: CpuId, here: &ThisCpu, found: Capabilities) {
    if !arbiter.complete {
        arbiter.model = Model::new(arbiter.model.capabilities.common(found));
    } else if !found.cover(arbiter.model.capabilities) {
        pr_warn!(
            "nothing is counted on CPU {}: it has fewer counters than the others\n",
            cpu.as_u32()
        );
        return;
    }
    let model = arbiter.model;
    if arbiter.is_reserved() {
        model.take(here);
        for (id, counter) in arbiter.all() {
            model.resume(here, id, counter.select);
            if counter.state == State::Running {
                model.start(here, id, counter.select);
            }
        }
    }
    arbiter.known.add(cpu);
    arbiter.counted.add(cpu);
    here.slot().counted.set(1);
}

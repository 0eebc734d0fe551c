// SPDX-License-Identifier: GPL-2.0-only
//! The calls of the counting interface, which counts on all CPUs.
//!
//! Each call makes its checks in the order that linux/perfmon.h gives. The dispatcher ([`crate::ioctl`]) makes the
//! first three checks, this file makes the others.

use crate::{
    abi,
    cpu::{self, ThisCpu},
    logic::{
        core_kinds::CoreKind,
        counter::{has_fixed, mask_of, CounterId, InvalidCounter},
        counter_state::{Action, CounterCall, CounterState, NotSetUp},
        event_counters::EventCounters,
        evtsel::EventSelect,
    },
    ownership::{
        policy::{check_may_count_cpu, check_may_count_kernel},
        with_reserved, Client, CountingSetup, Ownership, SessionId, OWNERSHIP,
    },
    percpu, pmu,
    sys::error::{errno, of_uncounted},
};
use core::ops::Range;
use kernel::{
    bindings,
    cpu::{nr_cpu_ids, CpuId},
    pr_notice_once,
    prelude::*,
};

/// Serves `PMIOSETUP`.
pub(crate) fn setup(client: &Client, request: abi::pmc) -> Result {
    set_up(client, request.pmc_num, request.pmc_val.into(), None)
}

/// Serves `PMIOSETUP2`.
pub(crate) fn setup2(client: &Client, request: abi::pmc2) -> Result {
    if has_reserved_bits(&request) {
        return Err(EINVAL);
    }
    let kind = pmu::common().kinds.kind_of_type(request.pmc2_type)?;
    set_up(client, request.pmc2_num, request.pmc2_select, kind)
}

/// Returns whether a member that must be 0 is not 0.
fn has_reserved_bits(request: &abi::pmc2) -> bool {
    u64::from(request.pmc2_flags | request.reserved) | request.pmc2_extra != 0
}

/// Sets a counter up on the CPUs of a kind (`None`: on all CPUs), for `PMIOSETUP` and `PMIOSETUP2`.
fn set_up(client: &Client, number: c_int, select: u64, kind: Option<CoreKind>) -> Result {
    let pmu = pmu::common();
    let capabilities = pmu.kinds.capabilities_of(kind, &pmu.capabilities);
    let select = EventSelect::from_abi(select, capabilities.select_bits)?;
    let id = CounterId::from_number(number, capabilities.counters())
        .inspect_err(|_| log_missing_counter(number))?;
    check_may_count_cpu()?;
    if select.is_kernel() {
        check_may_count_kernel()?;
    }
    let session = client.session();
    with_reserved(
        |ownership| check_setup(ownership, id, select, kind),
        |ownership| program_counter(ownership, id, session, select, kind),
    )
}

/// Logs, once, why a counter that only some kinds of cores have can't be set up on all CPUs.
#[cold]
fn log_missing_counter(number: c_int) {
    if CounterId::from_number(number, pmu::common().all_counters()).is_ok() {
        pr_notice_once!(
            "counter {number:#x} can't be set up on all CPUs: some kinds of cores lack it. PMIOSETUP2 sets it up on \
             the others, by the type of their kind\n"
        );
    }
}

/// Checks whether a counter can be set up with this event select. Does not check whether Linux perf
/// uses the counter: [`with_reserved`] checks that when it reserves the counters, after this check.
fn check_setup(
    ownership: &Ownership,
    id: CounterId,
    select: EventSelect,
    kind: Option<CoreKind>,
) -> Result {
    let old_state = ownership.counting_setup(id).map(|counting| counting.state);
    CounterState::after(old_state, CounterCall::Setup)?;
    select.check_counter(id)?;
    ownership.check_event(select, kind)?;
    if let Some(kind) = kind {
        check_counter_of_kind(id, select, kind)?;
    }
    if ownership.is_owned_by_trace_or_events(id) {
        return Err(EBUSY);
    }
    ownership.check_exclusive(None)
}

/// Checks that a counter of the CPUs of a kind can count the event with this select. A fixed-function counter counts its
/// own event, and gets a select with modes only.
///
/// # Errors
///
/// EINVAL if no counter can count the event, or only other counters can. EOPNOTSUPP if the event
/// needs an extra register, or if several cores or two counters count it together.
fn check_counter_of_kind(id: CounterId, select: EventSelect, kind: CoreKind) -> Result {
    if has_fixed(id.bit()) {
        return Ok(());
    }
    let pmu = pmu::common();
    let capabilities = pmu.kinds.capabilities(kind, &pmu.capabilities);
    let counters = EventCounters::without_extra_register(select, &capabilities);
    if counters.map_err(of_uncounted)?.general & id.bit() == 0 {
        return Err(InvalidCounter::Event.into());
    }
    Ok(())
}

/// Programs a counter on the CPUs of a kind (`None`: on all CPUs), for a session, after [`check_setup`].
fn program_counter(
    ownership: &mut Ownership,
    id: CounterId,
    session: SessionId,
    select: EventSelect,
    kind: Option<CoreKind>,
) -> Result {
    let counting = CountingSetup {
        session,
        select,
        kind,
        state: CounterState::Stopped,
    };
    ownership.on_each(|here| {
        let percpu = here.percpu();
        if counting.counts_on(percpu) {
            here.pmu().program(here, id, select);
            percpu.setup_mask.insert(id.bit() & !percpu.tampered.get());
        } else {
            // The counter may have been set up here before.
            here.pmu().restore(here, id.bit());
            percpu.tampered.remove(id.bit());
        }
    });
    for percpu in ownership.uncounted_percpus() {
        percpu.value(id).reset();
        percpu.tampered.remove(id.bit());
    }
    ownership.begin_counting(id, counting);
    if ownership.are_untampered(id.bit()) {
        Ok(())
    } else {
        // A counter that can't count is not set up.
        free_counters(ownership, id.bit());
        Err(EIO)
    }
}

/// Serves `PMIOGET`.
pub(crate) fn get(_client: &Client, request: &mut abi::pmc) -> Result {
    let counting = setup_of(request.pmc_num)?;
    request.pmc_val = select_of(&counting) as u32;
    Ok(())
}

/// Serves `PMIOGET2`.
pub(crate) fn get2(_client: &Client, request: &mut abi::pmc2) -> Result {
    if has_reserved_bits(request) {
        return Err(EINVAL);
    }
    let counting = setup_of(request.pmc2_num)?;
    request.pmc2_select = select_of(&counting);
    let type_of = |kind| pmu::common().kinds.type_of(kind);
    request.pmc2_type = counting.kind.and_then(type_of).unwrap_or(0);
    Ok(())
}

/// Returns the setup of a counter.
fn setup_of(number: c_int) -> Result<CountingSetup> {
    let id = CounterId::from_number(number, pmu::common().all_counters())?;
    let ownership = OWNERSHIP.lock();
    let counting = ownership.counting_setup(id).ok_or(NotSetUp)?;
    Ok(*counting)
}

/// Returns an event select in the form of `PMIOSETUP2`, with a bit that is set if the counter runs.
fn select_of(counting: &CountingSetup) -> u64 {
    let is_running = counting.state == CounterState::Running;
    counting.select.to_abi(is_running)
}

/// Serves `PMIOSTART`.
#[inline(always)]
pub(crate) fn start(client: &Client, number: c_int) -> Result {
    change_state(client, number, CounterCall::Start)
}

/// Serves `PMIOSTOP`.
#[inline(always)]
pub(crate) fn stop(client: &Client, number: c_int) -> Result {
    change_state(client, number, CounterCall::Stop)
}

/// Serves `PMIORESET`.
#[inline(always)]
pub(crate) fn reset(client: &Client, number: c_int) -> Result {
    change_state(client, number, CounterCall::Reset)
}

/// Changes the state of a counter, for `PMIOSTART`, `PMIOSTOP` and `PMIORESET`.
///
/// If the change fails, checks whether the CPUs have the counter, and returns EINVAL instead of the error if they lack
/// it. A change that succeeds needs no such check, since a counter that is set up exists.
#[inline(always)]
fn change_state(client: &Client, number: c_int, call: CounterCall) -> Result {
    let id = CounterId::from_abi_number(number).ok_or(EINVAL)?;
    change_state_if_allowed(client, id, call).map_err(|error| {
        if pmu::common().all_counters() & id.bit() == 0 {
            EINVAL
        } else {
            error
        }
    })
}

/// Changes the state of a counter, without the check of [`change_state`] that the CPUs have the counter.
#[inline(always)]
fn change_state_if_allowed(client: &Client, id: CounterId, call: CounterCall) -> Result {
    client.opener().check_may_count_cpu()?;
    let mut ownership = OWNERSHIP.lock();
    match change_state_here(&mut ownership, id, call) {
        Some(result) => result,
        None => change_state_on_each(&mut ownership, id, call),
    }
}

/// Changes the state of a counter that is set up on the current CPU alone and was not tampered with. Otherwise does
/// nothing and returns `None`: the caller then calls [`change_state_on_each`].
///
/// `single_cpu` means that no other CPU was ever used for counting. Then a counter in the `setup_mask` of this CPU is
/// set up on no other CPU, and is intact as long as the mask has it. The caller holds the ownership lock, as
/// `ownership` shows, so no CPU is added meanwhile.
///
/// Looks up the counter's setup last and changes it at once: a value that is kept across a function call needs a
/// register that has to be saved and restored.
#[inline(always)]
fn change_state_here(
    ownership: &mut Ownership,
    id: CounterId,
    call: CounterCall,
) -> Option<Result> {
    let irqs_off = cpu::irqs_off();
    let here = irqs_off.here();
    let percpu = here.percpu();
    if percpu.single_cpu.get() == 0 || percpu.setup_mask.get() & id.bit() == 0 {
        return None;
    }
    let counting = *ownership.counting_setup(id)?;
    let (state, action) = CounterState::after(Some(counting.state), call).ok()?;
    ownership.set_counting_setup(id, CountingSetup { state, ..counting });
    run_action(here, id, action);
    Some(if percpu.setup_mask.get() & id.bit() != 0 {
        Ok(())
    } else {
        Err(EIO)
    })
}

/// Changes the state of a counter on all CPUs.
#[inline(never)]
fn change_state_on_each(ownership: &mut Ownership, id: CounterId, call: CounterCall) -> Result {
    let counting = *ownership.counting_setup(id).ok_or(NotSetUp)?;
    let (state, action) = CounterState::after(Some(counting.state), call)?;
    if call != CounterCall::Stop && !ownership.are_untampered(id.bit()) {
        return Err(EIO);
    }
    if action != Action::Nothing {
        ownership.on_each_counting(&counting, &(0..nr_cpu_ids()), |here| {
            run_action(here, id, action);
        });
    }
    if action == Action::Zero {
        for percpu in ownership.uncounted_percpus() {
            percpu.value(id).reset();
        }
    }
    ownership.set_counting_setup(id, CountingSetup { state, ..counting });
    if ownership.are_untampered(id.bit()) {
        Ok(())
    } else {
        Err(EIO)
    }
}

/// Executes the action of a call on the current CPU.
#[inline(always)]
fn run_action(here: ThisCpu<'_>, id: CounterId, action: Action) {
    match action {
        Action::Nothing | Action::Program => {}
        Action::Enable => here.pmu().start(here, id),
        Action::Disable => here.pmu().stop(here, id),
        Action::Zero => {
            let percpu = here.percpu();
            if percpu.active_mask.get() & id.bit() != 0 {
                here.pmu().update(here, id);
            }
            percpu.value(id).reset();
        }
    }
}

/// Serves `PMIOREAD`.
#[inline(always)]
pub(crate) fn read(client: &Client, request: &mut abi::pmc_data) -> Result {
    if !read_here(client, request) {
        request.pmcd_value = sum_values(client, request.pmcd_num)? as i64;
    }
    request.reserved = 0;
    Ok(())
}

/// Reads a counter that is set up on the current CPU alone. Returns false, and stores no value, if other CPUs may have
/// the counter, if the call has to be refused, or if the counter was tampered with: the caller then calls
/// [`sum_values`].
///
/// Takes no lock. The code that changes the values of a CPU in use runs on that CPU, in a task that can't be preempted
/// or with interrupts off, so it runs before or after this function. Only the overflow handler can interrupt this
/// function, and [`CounterValue::update`](crate::percpu::value::CounterValue::update) allows for that. Before a second
/// CPU begins to count, `single_cpu` of the first CPU is cleared.
///
/// Checks the counter's number last and writes the value at once: a value that is kept across a function call needs a
/// register that has to be saved and restored.
#[inline(always)]
fn read_here(client: &Client, request: &mut abi::pmc_data) -> bool {
    if client.opener().check_may_count_cpu().is_err() {
        return false;
    }
    let irqs_off = cpu::irqs_off();
    let here = irqs_off.here();
    let percpu = here.percpu();
    let Some(id) = CounterId::from_abi_number(request.pmcd_num) else {
        return false;
    };
    if percpu.single_cpu.get() == 0 || percpu.setup_mask.get() & id.bit() == 0 {
        return false;
    }
    let value = percpu.value(id);
    if percpu.active_mask.get() & id.bit() != 0 {
        let Some(register) = value.register() else {
            return false;
        };
        if value.update(here, register).is_err() {
            percpu.mark_tampered(id.bit());
            return false;
        }
    }
    request.pmcd_value = value.value() as i64;
    true
}

/// Returns the sum of a counter's values on the CPUs that it counts on.
#[inline(never)]
fn sum_values(client: &Client, number: c_int) -> Result<u64> {
    let id = CounterId::from_number(number, pmu::common().all_counters())?;
    client.opener().check_may_count_cpu()?;
    let ownership = OWNERSHIP.lock();
    let counting = ownership.counting_setup(id).ok_or(NotSetUp)?;
    update_values(&ownership, id, counting, &(0..nr_cpu_ids()));
    if !ownership.are_untampered(id.bit()) {
        return Err(EIO);
    }
    let percpus = ownership.cpus().ever_used().iter().map(percpu::of_cpu);
    let counting_percpus = percpus.filter(|percpu| counting.counts_on(percpu));
    Ok(counting_percpus.fold(0, |sum: u64, percpu| {
        sum.wrapping_add(percpu.value(id).value())
    }))
}

/// Serves `PMIOREADCPU`.
pub(crate) fn read_cpu(_client: &Client, request: &mut abi::pmc_cpu_data) -> Result {
    if request.reserved != 0 {
        return Err(EINVAL);
    }
    let id = CounterId::from_number(request.pmcc_num, pmu::common().all_counters())?;
    check_may_count_cpu()?;
    let ownership = OWNERSHIP.lock();
    let counting = ownership.counting_setup(id).ok_or(NotSetUp)?;
    let (first, cpu_count) = (request.pmcc_first_cpu, request.pmcc_count);
    if first >= nr_cpu_ids() || cpu_count == 0 || cpu_count > abi::PMC_CPU_MAX {
        return Err(EINVAL);
    }
    let range = first..(first + cpu_count).min(nr_cpu_ids());
    let cpus = ownership.cpus();
    let is_of_other_kind = |cpu: CpuId| !counting.counts_on(percpu::of_cpu(cpu));
    if cpus.incapable().in_range(&range).next().is_some()
        || cpus.ever_used().in_range(&range).any(is_of_other_kind)
    {
        return Err(errno(bindings::EOPNOTSUPP));
    }
    update_values(&ownership, id, counting, &range);
    if !ownership.are_untampered(id.bit()) {
        return Err(EIO);
    }
    request.pmcc_count = range.end - range.start;
    request.pmcc_value = [0; abi::PMC_CPU_MAX as usize];
    for cpu in cpus.ever_used().in_range(&range) {
        let value = percpu::of_cpu(cpu).value(id).value();
        request.pmcc_value[(cpu.as_u32() - first) as usize] = value as i64;
    }
    Ok(())
}

/// Serves `PMIOTSTAMP`.
pub(crate) fn tstamp(_client: &Client) -> Result<abi::pmc_tstamp> {
    let khz = cpu::tsc_khz();
    if khz == 0 {
        return Err(ENOTTY);
    }
    Ok(abi::pmc_tstamp {
        pmct_rate: (khz / 1000) as c_int,
        reserved: 0,
        pmct_value: cpu::timestamp() as i64,
    })
}

/// Stops and frees the counters of a client whose session ends.
pub(crate) fn release_session_counters(client: &Client) {
    let mut ownership = OWNERSHIP.lock();
    let session = client.session();
    let own_setups =
        (ownership.counting_setups()).filter(|(_, counting)| counting.session == session);
    let counters = mask_of(own_setups.map(|(id, _)| id));
    if counters != 0 {
        free_counters(&mut ownership, counters);
    }
}

/// Stops and frees counters.
fn free_counters(ownership: &mut Ownership, counters: u64) {
    ownership.on_each(|here| here.pmu().restore(here, counters));
    ownership.release_counters(counters);
}

/// Brings the values of a counter up to date on the CPUs whose numbers are in `range`.
fn update_values(
    ownership: &Ownership,
    id: CounterId,
    counting: &CountingSetup,
    range: &Range<u32>,
) {
    // The values of a stopped counter are up to date.
    if counting.state == CounterState::Running {
        ownership.on_each_counting(counting, range, |here| {
            here.pmu().update(here, id);
        });
    }
}

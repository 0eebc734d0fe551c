// SPDX-License-Identifier: GPL-2.0-only
//! The owners of the counters: Linux perf or the module, and within the module a counting session, the trace, or
//! events.
//!
//! [`OWNERSHIP`] is the one lock for everything that descriptors share. Tasks and hotplug callbacks take it, and hold
//! it while they call other CPUs. It is a spinlock: its holder is not preempted, so no program ever waits for a
//! holder that does not get to run. (The holder of an `rt_mutex` inherits the priorities of real-time tasks only, so
//! normal programs could wait for a preempted task of `SCHED_IDLE`.) Nothing sleeps under the lock, and no memory is
//! allocated. The lock is never taken with interrupts off, so a CPU that waits for it answers the calls of its
//! holder.
//!
//! Before counters can be used, the CPUs are cleaned of perf's dirty counters. That sleeps, so it is done before the
//! lock is taken ([`lock_reserved`]).

mod branches;
mod claimant;
mod client;
mod cpus;
mod dirty;
mod extra;
mod memory;
mod perf_type;
mod place_holder;
pub(crate) mod policy;
mod refusal;
mod reservation;
mod sharing;

pub(crate) use self::{
    claimant::get_owner,
    client::{Client, SessionId},
    cpus::has_incapable_cpu,
    dirty::{clean_dirty_counters_here, DirtyCounterCleaner},
    memory::Charge,
    perf_type::perf_type,
    place_holder::{wait_for_place_holder_end, PlaceHolders, PLACE_HOLDERS},
    refusal::Refusal,
    reservation::Reservation,
    sharing::EventPlace,
};

use self::{
    branches::BranchUser, claimant::Claimant, cpus::CpuSets, place_holder::PlaceHolderHold,
};
use crate::{
    cpu,
    cpu::ThisCpu,
    logic::{
        core_kinds::MAX_CORE_KINDS,
        counter::{bits, each, CounterId, MAX_COUNTERS},
        counter_state::CounterState,
        event_limits::needs_merged_counters,
        evtsel::EventSelect,
        extra_registers::{ExtraRegister, RegisterUsers},
        msr::{Msr, MsrCell},
        sharing::CounterUsers,
        trace_events,
    },
    percpu::{self, PerCpu},
    pmu,
    sys::error::errno,
};
use core::{mem, ops::Range};
use kernel::{
    bindings,
    cpu::CpuId,
    pr_notice_once,
    prelude::*,
    sync::{global_lock, GlobalGuard},
};

/// The guard of the lock [`OWNERSHIP`].
pub(crate) type OwnershipGuard = GlobalGuard<OWNERSHIP>;

global_lock! {
    // SAFETY: The lock must be initialized before its first use: `cpus::init` initializes it first of all. The other
    // users come later: the rest of that function, callbacks of hotplug and of power management, descriptors, and the
    // kernel threads that these start. The timer and the NMI handler, which are registered earlier, do not lock it.
    pub(crate) unsafe(uninit) static OWNERSHIP: SpinLock<Ownership> = Ownership::new();
}

/// The owner of a counter within the module.
#[derive(Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "the owners of all counters are in one static array"
)]
enum Owner {
    /// A session that has set the counter up to count.
    Session(CountingSetup),
    /// The trace that is running.
    Trace,
    /// Events, which share the counter.
    Events(CounterUsers),
}

/// A counter that a session has set up to count.
#[derive(Clone, Copy)]
pub(crate) struct CountingSetup {
    pub(crate) session: SessionId,
    pub(crate) select: EventSelect,
    pub(crate) state: CounterState,
}

/// The means that keeps Linux perf off the counters, until it is dropped.
enum PerfExclusion {
    /// The module has reserved the registers.
    Registers(#[allow(dead_code, reason = "ends when dropped")] Reservation),
    /// Place-holder events of perf occupy the counters.
    PlaceHolders(#[allow(dead_code, reason = "ends when dropped")] PlaceHolderHold),
}

/// The counters of the machine and their owners, the CPUs, and the sessions.
///
/// # Invariants
///
/// - If a counter has an owner, the CPUs are `claimed`.
/// - If the CPUs are `claimed`, `perf_exclusion` is held, and Linux perf has no dirty counter on a CPU that is used for
///   counting.
pub(crate) struct Ownership {
    cpus: CpuSets,
    /// The owner of each counter, by [`CounterId::index`].
    owners: [Option<Owner>; MAX_COUNTERS],
    /// The program that asked for each counter that has an owner, by [`CounterId::index`].
    claimants: [Option<Claimant>; MAX_COUNTERS],
    /// The number of exclusive groups of tasks' events, and of CPUs' events.
    exclusive_groups: [u32; 2],
    /// The user of the branch records, if there is one.
    branch_user: Option<BranchUser>,
    /// The events that use each extra register, by kind of core and [`ExtraRegister::index`].
    register_users: [[Option<RegisterUsers>; ExtraRegister::COUNT]; MAX_CORE_KINDS],
    /// The exclusion of Linux perf, held from before the first counter has an owner until no counter has one.
    perf_exclusion: Option<PerfExclusion>,
    /// The number of callers that are cleaning the CPUs, with the counters reserved.
    cleaners: u32,
    /// Every CPU that is used for counting has been claimed ([`Pmu::claim`](crate::logic::pmu::Pmu::claim)).
    claimed: bool,
    /// The log already says why the counters can't be used.
    refusal_logged: bool,
    /// The session that is open for writing, if there is one.
    writer: Option<SessionId>,
    /// The number of the session that was opened last.
    last_session_number: u64,
}

impl Ownership {
    const fn new() -> Self {
        Self {
            cpus: CpuSets::new(),
            owners: [None; MAX_COUNTERS],
            claimants: [const { None }; MAX_COUNTERS],
            exclusive_groups: [0; 2],
            branch_user: None,
            register_users: [[None; ExtraRegister::COUNT]; MAX_CORE_KINDS],
            perf_exclusion: None,
            cleaners: 0,
            claimed: false,
            refusal_logged: false,
            writer: None,
            last_session_number: 0,
        }
    }

    /// Returns the sets of CPUs.
    pub(crate) fn cpus(&self) -> &CpuSets {
        &self.cpus
    }

    /// Returns the sets of CPUs, to change them. Before the caller releases the lock, it brings up the CPUs that it
    /// adds, and tears down the CPUs that it removes.
    pub(crate) fn cpus_mut(&mut self) -> &mut CpuSets {
        &mut self.cpus
    }

    /// Runs `f` on each CPU that is used for counting ([`cpu::on_each`]).
    #[inline(always)]
    pub(crate) fn on_each(&self, f: impl Fn(ThisCpu<'_>) + Sync) {
        cpu::on_each(self.cpus.in_use(), f);
    }

    /// Runs `f` on each CPU that is used for counting and whose number is in `range`.
    pub(crate) fn on_each_in_range(&self, range: &Range<u32>, f: impl Fn(ThisCpu<'_>) + Sync) {
        cpu::on_each_in_range(self.cpus.in_use(), range, f);
    }

    /// Opens a session, and returns its ID.
    ///
    /// # Errors
    ///
    /// EBUSY if `is_writer`, and another session is a writer.
    fn open_session(&mut self, is_writer: bool) -> Result<SessionId> {
        if is_writer && self.writer.is_some() {
            return Err(EBUSY);
        }
        self.last_session_number += 1;
        let session = SessionId(self.last_session_number);
        if is_writer {
            self.writer = Some(session);
        }
        Ok(session)
    }

    /// Closes a session, which owns no counter any more.
    fn close_session(&mut self, session: SessionId) {
        if self.writer == Some(session) {
            self.writer = None;
        }
    }

    /// Returns a counter's setup if a session has set the counter up to count. Only the session that is open for
    /// writing can have set counters up.
    #[inline]
    pub(crate) fn counting_setup(&self, id: CounterId) -> Option<&CountingSetup> {
        match &self.owners[id.index()] {
            Some(Owner::Session(counting)) => Some(counting),
            Some(Owner::Trace | Owner::Events(_)) | None => None,
        }
    }

    /// Returns all counters that a session has set up to count.
    pub(crate) fn counting_setups(&self) -> impl Iterator<Item = (CounterId, &CountingSetup)> {
        each(u64::MAX).filter_map(|id| Some((id, self.counting_setup(id)?)))
    }

    /// Returns whether the trace or events own the counter.
    pub(crate) fn is_owned_by_trace_or_events(&self, id: CounterId) -> bool {
        matches!(
            self.owners[id.index()],
            Some(Owner::Trace | Owner::Events(_))
        )
    }

    /// Returns the counters without an owner, as a mask, also those that only some kinds of cores have.
    pub(crate) fn free_counters(&self) -> u64 {
        let counters = each(pmu::common().all_counters());
        bits(counters.filter(|id| self.owners[id.index()].is_none()))
    }

    /// Returns the counters without an owner that all CPUs have, as a mask.
    pub(crate) fn free_common_counters(&self) -> u64 {
        self.free_counters() & pmu::common().capabilities.counters()
    }

    /// Makes a session the owner of a counter that the caller has set up.
    pub(crate) fn begin_counting(&mut self, id: CounterId, counting: CountingSetup) {
        self.claimants[id.index()] = Some(Claimant::current());
        self.set_counting_setup(id, counting);
    }

    /// Replaces the setup of a counter that a session owns.
    #[inline]
    pub(crate) fn set_counting_setup(&mut self, id: CounterId, counting: CountingSetup) {
        self.owners[id.index()] = Some(Owner::Session(counting));
    }

    /// Makes the trace the owner of counters.
    pub(crate) fn give_to_trace(&mut self, counters: u64) {
        for id in each(counters) {
            self.claimants[id.index()] = Some(Claimant::current());
            self.owners[id.index()] = Some(Owner::Trace);
        }
    }

    /// Takes counters from their owner, after the caller has restored their registers on all CPUs. If no counter has an
    /// owner any more, gives all counters to Linux perf.
    pub(crate) fn release_counters(&mut self, counters: u64) {
        for id in each(counters) {
            self.owners[id.index()] = None;
            self.claimants[id.index()] = None;
        }
        self.release_if_unused();
    }

    /// Returns whether the counters are reserved against Linux perf.
    pub(crate) fn is_reserved(&self) -> bool {
        self.perf_exclusion.is_some()
    }

    /// Returns whether the CPUs that are used for counting have been claimed. If so, CPUs that come online are
    /// claimed, too.
    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed
    }

    /// Returns whether the last attempt to reserve the counters was refused.
    pub(crate) fn was_refused(&self) -> bool {
        self.refusal_logged
    }

    /// Reserves the registers against Linux perf, unless they are reserved, for a caller that then cleans the CPUs.
    ///
    /// # Errors
    ///
    /// [`Refusal::Reserved`] with a register that Linux perf uses.
    fn begin_cleaning(&mut self) -> Result<(), Refusal> {
        if self.perf_exclusion.is_none() {
            let reservation = Reservation::of(pmu::common());
            self.perf_exclusion = Some(PerfExclusion::Registers(
                reservation.map_err(Refusal::Reserved)?,
            ));
        }
        self.refusal_logged = false;
        self.cleaners += 1;
        Ok(())
    }

    /// Does the same as [`Self::begin_cleaning`] with place-holders, which all CPUs have already.
    fn begin_cleaning_with_place_holders(&mut self, held: PlaceHolderHold) {
        self.perf_exclusion = Some(PerfExclusion::PlaceHolders(held));
        self.refusal_logged = false;
        self.cleaners += 1;
    }

    /// Returns the control register of a counter with which Linux perf counts, on any CPU that is used for counting.
    fn counting_msr(&self) -> Option<Msr> {
        let counting_msr = MsrCell::default();
        if self.is_reserved() {
            return None;
        }
        self.on_each(|here| {
            if let Some(msr) = pmu::common().counting_msr(here) {
                counting_msr.set(msr);
            }
        });
        counting_msr.get()
    }

    /// Undoes [`Self::begin_cleaning`], when the caller has cleaned the CPUs.
    fn end_cleaning(&mut self) {
        self.cleaners -= 1;
    }

    /// Claims all CPUs, unless they are claimed. The caller has cleaned them since the counters were reserved.
    fn claim(&mut self) {
        if !self.claimed {
            let pmu = pmu::common();
            self.on_each(|here| pmu.claim(here));
            // INVARIANT: All CPUs have just been claimed.
            self.claimed = true;
        }
    }

    /// Gives all counters to Linux perf, unless a counter has an owner.
    pub(crate) fn release_if_unused(&mut self) {
        if self.owners.iter().any(Option::is_some) {
            return;
        }
        // INVARIANT: No counter has an owner.
        if mem::take(&mut self.claimed) {
            self.on_each(|here| here.pmu().release(here));
        }
        // Callers that are cleaning the CPUs still need the reservation, to claim the CPUs afterwards.
        if self.cleaners == 0 {
            self.perf_exclusion = None;
        }
    }

    /// Returns the data of the CPUs that were used for counting once, but are not used now. The holder of the lock may
    /// write the data.
    pub(crate) fn uncounted_percpus(&self) -> impl Iterator<Item = &'static PerCpu> + '_ {
        self.cpus
            .ever_used()
            .iter()
            .filter(|&cpu| !self.cpus.in_use().contains(cpu))
            .map(percpu::of_cpu)
    }

    /// Returns whether no CPU has found one of these counters tampered with.
    pub(crate) fn are_untampered(&self, counters: u64) -> bool {
        let mut cpus = self.cpus.ever_used().iter();
        cpus.all(|cpu| percpu::of_cpu(cpu).tampered.get() & counters == 0)
    }

    /// Checks that all CPUs have an architectural event. If a CPU lacks it, logs that CPU, once.
    ///
    /// # Errors
    ///
    /// EINVAL if a CPU lacks the event. EOPNOTSUPP if the CPUs are of several kinds, which count different events with
    /// this event select, or if the event needs two counters.
    pub(crate) fn check_event(&self, select: EventSelect) -> Result {
        let pmu = pmu::common();
        if needs_merged_counters(select, pmu.capabilities.microarchitecture) {
            return Err(errno(bindings::EOPNOTSUPP));
        }
        let Some(event) = trace_events::missing_event(select, &pmu.capabilities) else {
            let is_same_on_all_cpus = !pmu.kinds.are_several()
                || select.is_modes_only()
                || trace_events::is_architectural(select, &pmu.capabilities);
            return if is_same_on_all_cpus {
                Ok(())
            } else {
                Err(errno(bindings::EOPNOTSUPP))
            };
        };
        let lacks_event = |cpu: &CpuId| percpu::of_cpu(*cpu).arch_events.get() >> event & 1 == 0;
        if let Some(cpu) = self.cpus.ever_used().iter().find(lacks_event) {
            pr_notice_once!(
                "event {:#04x} with unit mask {:#04x} can't be counted: CPU {} lacks it, as its CPUID says\n",
                select.event(),
                select.unit_mask(),
                cpu.as_u32()
            );
        }
        Err(EINVAL)
    }
}

/// Takes the lock, with the counters reserved and the CPUs claimed, so that the caller can give counters to an owner.
/// A caller that fails afterwards calls [`cancel_reservation`].
///
/// `check` is called under the lock before anything is reserved. If reserving has to release the lock, `check` is
/// called once more, so that its result still holds when this returns.
///
/// # Errors
///
/// The errors of `check`. EBUSY if Linux perf uses a counter, or a real-time program keeps a CPU from being cleaned:
/// the log names the register or the CPU. ENOMEM if there is no memory.
#[inline(always)]
pub(crate) fn lock_reserved(check: impl Fn(&Ownership) -> Result) -> Result<OwnershipGuard> {
    let ownership = OWNERSHIP.lock();
    check(&ownership)?;
    if ownership.is_claimed() {
        return Ok(ownership);
    }
    let ownership = reserve(ownership)?;
    match check(&ownership) {
        Ok(()) => Ok(ownership),
        Err(error) => {
            cancel_reservation(ownership);
            Err(error)
        }
    }
}

/// Gives all counters to Linux perf, unless a counter has an owner, for a caller that has reserved them and failed.
/// Perf can use them when this returns. Sleeps.
pub(crate) fn cancel_reservation(mut ownership: OwnershipGuard) {
    ownership.release_if_unused();
    drop(ownership);
    place_holder::wait_for_place_holder_end();
}

/// Calls `f` under the lock, which [`lock_reserved`] takes. Cancels the reservation if `f` fails.
///
/// # Errors
///
/// The errors of [`lock_reserved`] and of `f`.
pub(crate) fn with_reserved<R>(
    check: impl Fn(&Ownership) -> Result,
    f: impl FnOnce(&mut Ownership) -> Result<R>,
) -> Result<R> {
    let mut ownership = lock_reserved(check)?;
    let result = f(&mut ownership);
    if result.is_err() {
        cancel_reservation(ownership);
    }
    result
}

/// Reserves the counters, cleans the CPUs, and claims them. Releases the lock meanwhile.
///
/// Each caller cleans the CPUs itself instead of waiting for another caller, which may not get to run. Cleaning twice
/// does no harm.
///
/// # Errors
///
/// EBUSY or ENOMEM, as from [`lock_reserved`].
#[cold]
#[inline(never)]
fn reserve(ownership: OwnershipGuard) -> Result<OwnershipGuard> {
    reserve_quietly(ownership).map_err(|refusal| {
        let was_logged = mem::replace(&mut OWNERSHIP.lock().refusal_logged, true);
        if !was_logged {
            refusal.log();
        }
        refusal.error()
    })
}

/// Does what [`reserve`] does, without logging why the counters can't be used.
///
/// # Errors
///
/// The user of the counters, or [`Refusal::Other`] if the CPUs can't be cleaned.
pub(crate) fn reserve_quietly(mut ownership: OwnershipGuard) -> Result<OwnershipGuard, Refusal> {
    match pmu::common().place_holder {
        None => {
            let result = ownership.begin_cleaning();
            drop(ownership);
            result?;
        }
        Some(counter) => {
            drop(ownership);
            place_holder::begin_cleaning(counter)?;
        }
    }
    let clean_result = dirty::clean_dirty_counters();
    let mut ownership = OWNERSHIP.lock();
    ownership.end_cleaning();
    match clean_result {
        Ok(()) => {
            ownership.claim();
            Ok(ownership)
        }
        Err(error) => {
            cancel_reservation(ownership);
            Err(Refusal::Other(error))
        }
    }
}

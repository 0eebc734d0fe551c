// SPDX-License-Identifier: GPL-2.0-only
//! The owners of the counters: Linux perf or the module, and within the module counting, the trace or events.
//!
//! [`OWNERSHIP`] is the one lock for everything that descriptors share. Tasks and hotplug callbacks take it, and hold it
//! while they call other CPUs. It is a spinlock: its holder is not preempted, so no program waits for a task that does
//! not get to run, whatever its priority. (An `rt_mutex` would not do: its holder inherits the priorities of real-time
//! tasks only, and the usual programs wait as long as a task of `SCHED_IDLE` likes.) So nothing sleeps under it, and no
//! memory is allocated. It is never taken with interrupts off: a CPU that waits for it answers the calls of its holder.
//!
//! Before counters can be used, the CPUs are cleaned, which sleeps: so that is done before the lock is taken
//! ([`lock_reserved`]).

mod branches;
mod claimant;
mod client;
mod cpus;
mod dirty;
mod memory;
mod place_holder;
pub(crate) mod policy;
mod refusal;
mod reservation;
mod sharing;

pub(crate) use self::{
    claimant::get_owner,
    client::{Client, SessionId},
    cpus::has_incapable_cpu,
    dirty::{clean_here, DirtyCounterCleaner},
    memory::Charge,
    place_holder::{wait_for_release, PlaceHolders, PLACE_HOLDERS},
    refusal::Refusal,
    reservation::Reservation,
};

use self::{branches::BranchUser, claimant::Claimant, cpus::Cpus, place_holder::PlaceHolderHold};
use crate::{
    cpu,
    cpu::ThisCpu,
    logic::{
        counter::{bits, each, CounterId, MAX_COUNTERS},
        counter_state::CounterState,
        evtsel::EventSelect,
        msr::{Msr, MsrCell},
        sharing::CounterUsers,
        trace_events,
    },
    percpu::{self, PerCpu},
    pmu,
};
use core::{mem, ops::Range};
use kernel::{
    cpu::CpuId,
    pr_notice_once,
    prelude::*,
    sync::{global_lock, GlobalGuard},
};

/// The ownership, locked.
pub(crate) type Guard = GlobalGuard<OWNERSHIP>;

global_lock! {
    // SAFETY: `cpus::init` initializes it before anything that uses it exists.
    pub(crate) unsafe(uninit) static OWNERSHIP: SpinLock<Ownership> = Ownership::new();
}

/// The owner of a counter, besides Linux perf.
#[derive(Clone, Copy)]
enum Owner {
    /// A session has set the counter up to count.
    Session(Counting),
    /// A trace that runs.
    Trace,
    /// Events.
    Events(CounterUsers),
}

/// A counter that a session has set up to count.
#[derive(Clone, Copy)]
pub(crate) struct Counting {
    pub(crate) session: SessionId,
    pub(crate) select: EventSelect,
    pub(crate) state: CounterState,
}

/// What keeps Linux perf off the counters, until it is dropped.
enum PerfExclusion {
    /// The registers are reserved.
    Registers(#[allow(dead_code, reason = "ends when dropped")] Reservation),
    /// perf's own events.
    PlaceHolders(#[allow(dead_code, reason = "ends when dropped")] PlaceHolderHold),
}

/// The counters of the machine and their owners, the CPUs, and the sessions.
///
/// # Invariants
///
/// - If a counter has an owner, the CPUs are `claimed`.
/// - If they are, `reservation` is held, and Linux perf has no dirty counter on a CPU that is counted on.
pub(crate) struct Ownership {
    cpus: Cpus,
    /// The owner of each counter, by [`CounterId::index`].
    owners: [Option<Owner>; MAX_COUNTERS],
    /// The programs that asked for the counters that have an owner, by [`CounterId::index`].
    claimants: [Option<Claimant>; MAX_COUNTERS],
    /// The exclusive groups of events of tasks, and of CPUs.
    exclusive: [u32; 2],
    /// The user whose filter the branch records have.
    branches: Option<BranchUser>,
    /// Keeps Linux perf away, from before the first owner to the last.
    reservation: Option<PerfExclusion>,
    /// The number of callers that clean the CPUs now, with the counters reserved.
    cleaners: u32,
    /// Every CPU that is counted on has been claimed ([`Pmu::claim`](crate::logic::pmu::Pmu::claim)).
    claimed: bool,
    /// The log already says that the counters are not to be had.
    refusal_logged: bool,
    writer: Option<SessionId>,
    last_session: u64,
}

impl Ownership {
    const fn new() -> Self {
        Self {
            cpus: Cpus::new(),
            owners: [None; MAX_COUNTERS],
            claimants: [const { None }; MAX_COUNTERS],
            exclusive: [0; 2],
            branches: None,
            reservation: None,
            cleaners: 0,
            claimed: false,
            refusal_logged: false,
            writer: None,
            last_session: 0,
        }
    }

    /// Returns the CPUs.
    pub(crate) fn cpus(&self) -> &Cpus {
        &self.cpus
    }

    /// Returns the CPUs, to change them. The caller brings up the CPUs that it adds, and tears down those that it
    /// removes, before it releases the lock.
    pub(crate) fn cpus_mut(&mut self) -> &mut Cpus {
        &mut self.cpus
    }

    /// Runs `f` on each CPU that is counted on ([`cpu::on_each`]).
    #[inline(always)]
    pub(crate) fn on_each(&self, f: impl Fn(ThisCpu<'_>) + Sync) {
        cpu::on_each(self.cpus.online(), f);
    }

    /// Runs `f` on each of these CPUs whose number is in `range`.
    pub(crate) fn on_each_in_range(&self, range: &Range<u32>, f: impl Fn(ThisCpu<'_>) + Sync) {
        cpu::on_each_in_range(self.cpus.online(), range, f);
    }

    /// Names a new session.
    ///
    /// # Errors
    ///
    /// EBUSY if it is a writer and there is a writer already.
    fn open_session(&mut self, writer: bool) -> Result<SessionId> {
        if writer && self.writer.is_some() {
            return Err(EBUSY);
        }
        self.last_session += 1;
        let session = SessionId(self.last_session);
        if writer {
            self.writer = Some(session);
        }
        Ok(session)
    }

    /// Ends a session, which owns no counter any more.
    fn close_session(&mut self, session: SessionId) {
        if self.writer == Some(session) {
            self.writer = None;
        }
    }

    /// Returns the counter if it was set up to count. Since there is one writer, it is the caller's.
    #[inline]
    pub(crate) fn counting(&self, id: CounterId) -> Option<&Counting> {
        match &self.owners[id.index()] {
            Some(Owner::Session(counting)) => Some(counting),
            Some(Owner::Trace | Owner::Events(_)) | None => None,
        }
    }

    /// Returns all counters that were set up to count.
    pub(crate) fn all_counting(&self) -> impl Iterator<Item = (CounterId, &Counting)> {
        each(u64::MAX).filter_map(|id| Some((id, self.counting(id)?)))
    }

    /// Returns whether something else than a session owns the counter.
    pub(crate) fn has_other_owner(&self, id: CounterId) -> bool {
        matches!(
            self.owners[id.index()],
            Some(Owner::Trace | Owner::Events(_))
        )
    }

    /// Returns the counters without an owner, as a mask.
    pub(crate) fn free_counters(&self) -> u64 {
        let counters = each(pmu::common().capabilities.counters());
        bits(counters.filter(|id| self.owners[id.index()].is_none()))
    }

    /// Makes a session the owner of a counter that the caller has set up.
    pub(crate) fn begin_counting(&mut self, id: CounterId, counting: Counting) {
        self.claimants[id.index()] = Some(Claimant::current());
        self.set_counting(id, counting);
    }

    /// Replaces what a session has set up.
    #[inline]
    pub(crate) fn set_counting(&mut self, id: CounterId, counting: Counting) {
        self.owners[id.index()] = Some(Owner::Session(counting));
    }

    /// Makes the trace the owner of counters.
    pub(crate) fn set_traced(&mut self, counters: u64) {
        for id in each(counters) {
            self.claimants[id.index()] = Some(Claimant::current());
            self.owners[id.index()] = Some(Owner::Trace);
        }
    }

    /// Takes counters from their owner, whose registers have been restored on all CPUs. With the last one, Linux
    /// perf gets all.
    pub(crate) fn release_counters(&mut self, counters: u64) {
        for id in each(counters) {
            self.owners[id.index()] = None;
            self.claimants[id.index()] = None;
        }
        self.release_if_unused();
    }

    /// Returns whether the counters are reserved against Linux perf.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reservation.is_some()
    }

    /// Returns whether the CPUs that are counted on have been claimed. If so, CPUs that come online are claimed, too.
    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed
    }

    /// Returns whether the last attempt to reserve the counters was refused.
    pub(crate) fn was_refused(&self) -> bool {
        self.refusal_logged
    }

    /// Reserves the registers against Linux perf, unless that has been done, for a caller that cleans the CPUs then.
    ///
    /// # Errors
    ///
    /// A register that Linux perf uses.
    fn begin_cleaning(&mut self) -> Result<(), Refusal> {
        if self.reservation.is_none() {
            let reservation = Reservation::new(&pmu::common().capabilities);
            self.reservation = Some(PerfExclusion::Registers(
                reservation.map_err(Refusal::Reserved)?,
            ));
        }
        self.refusal_logged = false;
        self.cleaners += 1;
        Ok(())
    }

    /// Does the same as [`Self::begin_cleaning`], with place-holders, which all CPUs already have.
    fn begin_cleaning_with_place_holders(&mut self, held: PlaceHolderHold) {
        self.reservation = Some(PerfExclusion::PlaceHolders(held));
        self.refusal_logged = false;
        self.cleaners += 1;
    }

    /// Returns the control register of a counter with which Linux perf counts on a CPU that is counted on.
    fn counting_msr(&self) -> Option<Msr> {
        let found = MsrCell::default();
        if self.is_reserved() {
            return None;
        }
        self.on_each(|here| {
            if let Some(msr) = pmu::common().counting_msr(here) {
                found.set(msr);
            }
        });
        found.get()
    }

    /// Ends [`Self::begin_cleaning`].
    fn end_cleaning(&mut self) {
        self.cleaners -= 1;
    }

    /// Claims all CPUs, which have been cleaned since the reservation, unless that has been done.
    fn claim(&mut self) {
        if !self.claimed {
            let pmu = pmu::common();
            self.on_each(|here| pmu.claim(here));
            // INVARIANT: All CPUs have just been claimed.
            self.claimed = true;
        }
    }

    /// Gives all counters to Linux perf, unless one has an owner.
    pub(crate) fn release_if_unused(&mut self) {
        if self.owners.iter().any(Option::is_some) {
            return;
        }
        // INVARIANT: No counter has an owner.
        if mem::take(&mut self.claimed) {
            self.on_each(|here| here.pmu().release(here));
        }
        // The callers that clean go on to claim the CPUs.
        if self.cleaners == 0 {
            self.reservation = None;
        }
    }

    /// Returns the data of the CPUs that have values and are not counted on now. The holder of the lock may write
    /// them.
    pub(crate) fn uncounted_percpus(&self) -> impl Iterator<Item = &'static PerCpu> + '_ {
        self.cpus
            .seen()
            .iter()
            .filter(|&cpu| !self.cpus.online().contains(cpu))
            .map(percpu::of_cpu)
    }

    /// Returns whether no CPU has found the registers of these counters to hold something else than was written.
    pub(crate) fn is_intact(&self, counters: u64) -> bool {
        let mut cpus = self.cpus.seen().iter();
        cpus.all(|cpu| percpu::of_cpu(cpu).tampered.get() & counters == 0)
    }

    /// Refuses an architectural event that a CPU says it does not have. The log says which CPU, once.
    ///
    /// # Errors
    ///
    /// EINVAL.
    pub(crate) fn check_event(&self, select: EventSelect) -> Result {
        let Some(event) = trace_events::missing_event(select, &pmu::common().capabilities) else {
            return Ok(());
        };
        let lacks = |cpu: &CpuId| percpu::of_cpu(*cpu).arch_events.get() >> event & 1 == 0;
        if let Some(cpu) = self.cpus.seen().iter().find(lacks) {
            pr_notice_once!(
                "event {:#04x} with unit mask {:#04x} can't be counted: CPU {} says that it lacks it\n",
                select.event(),
                select.unit_mask(),
                cpu.as_u32()
            );
        }
        Err(EINVAL)
    }
}

/// Takes the lock with the counters reserved and the CPUs claimed, so that the caller can give counters to an owner.
/// A caller that fails afterwards calls [`cancel_reservation`].
///
/// `check` is called under the lock before anything is reserved. If reserving had to release the lock, `check` is called
/// again, so that its answer is true when this returns.
///
/// # Errors
///
/// The errors of `check`. EBUSY if Linux perf uses a counter, or if a real-time program keeps a CPU from being cleaned; both
/// are in the log. ENOMEM.
#[inline(always)]
pub(crate) fn lock_reserved(check: impl Fn(&Ownership) -> Result) -> Result<Guard> {
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

/// Gives all counters to Linux perf, unless one has an owner, for a caller that has reserved them and failed. They have
/// been given when this returns. Sleeps.
pub(crate) fn cancel_reservation(mut ownership: Guard) {
    ownership.release_if_unused();
    drop(ownership);
    place_holder::wait_for_release();
}

/// Calls `f` under [`lock_reserved`].
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

/// Reserves the counters, has the CPUs cleaned, and claims them. The lock is released meanwhile.
///
/// Each caller cleans for itself and waits for no other, which may not get to run: cleaning once more does no harm.
///
/// # Errors
///
/// As [`lock_reserved`].
#[cold]
#[inline(never)]
fn reserve(ownership: Guard) -> Result<Guard> {
    reserve_quietly(ownership).map_err(|refusal| {
        let logged = mem::replace(&mut OWNERSHIP.lock().refusal_logged, true);
        if !logged {
            refusal.log();
        }
        refusal.error()
    })
}

/// As [`reserve`], without a message.
///
/// # Errors
///
/// The user that has the counters, or the error with which the CPUs can't be cleaned.
pub(crate) fn reserve_quietly(mut ownership: Guard) -> Result<Guard, Refusal> {
    match pmu::common().place_holder {
        None => {
            let begun = ownership.begin_cleaning();
            drop(ownership);
            begun?;
        }
        Some(counter) => {
            drop(ownership);
            place_holder::begin_cleaning(counter)?;
        }
    }
    let cleaned = dirty::clean();
    let mut ownership = OWNERSHIP.lock();
    ownership.end_cleaning();
    match cleaned {
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

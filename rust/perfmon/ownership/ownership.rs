// SPDX-License-Identifier: GPL-2.0-only
//! The one lock for everything that descriptors share, and the state that it protects: the owners
//! of the counters, the exclusion of Linux perf, the sets of CPUs, and the session that writes.

use super::{
    claimant::Claimant,
    cpus::CpuSets,
    owner::{BranchUser, CountingSetup, Owner, SessionId},
    perf_exclusion::{PerfExclusion, PlaceHolderHold},
    refusal::Refusal,
    reservation::Reservation,
};
use crate::{
    cpu,
    cpu::ThisCpu,
    logic::{
        architectural_events,
        core_kinds::{CoreKind, MAX_CORE_KINDS},
        counter::{each_counter, mask_of, CounterId, MAX_COUNTERS},
        event_limits::needs_merged_counters,
        evtsel::EventSelect,
        extra_registers::{ExtraRegister, RegisterUsers},
        msr::{Msr, MsrCell},
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

/// The counters of the machine and their owners, the CPUs, and the sessions.
///
/// # Invariants
///
/// - If a counter has an owner, the CPUs are `claimed`.
/// - If the CPUs are `claimed`, `perf_exclusion` is held, and Linux perf has no dirty counter on a CPU that is used for
///   counting.
pub(crate) struct Ownership {
    pub(super) cpus: CpuSets,
    /// The owner of each counter, by [`CounterId::index`].
    pub(super) owners: [Option<Owner>; MAX_COUNTERS],
    /// The program that asked for each counter that has an owner, by [`CounterId::index`].
    pub(super) claimants: [Option<Claimant>; MAX_COUNTERS],
    /// The number of exclusive groups of tasks' events, and of CPUs' events.
    pub(super) exclusive_groups: [u32; 2],
    /// The user of the branch records, if there is one.
    pub(super) branch_user: Option<BranchUser>,
    /// The events that use each extra register, by kind of core and [`ExtraRegister::index`].
    pub(super) register_users: [[Option<RegisterUsers>; ExtraRegister::COUNT]; MAX_CORE_KINDS],
    /// The exclusion of Linux perf, held from before the first counter has an owner until no counter has one.
    perf_exclusion: Option<PerfExclusion>,
    /// The number of callers that are cleaning the CPUs, with the counters reserved.
    cleaners: u32,
    /// Every CPU that is used for counting has been claimed ([`Pmu::claim`](crate::logic::pmu::Pmu::claim)).
    claimed: bool,
    /// The last attempt to reserve the counters failed, because others use them.
    pub(super) was_refused: bool,
    /// The log already says why the counters can't be used.
    pub(super) refusal_logged: bool,
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
            was_refused: false,
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

    /// Runs `f` on each CPU that is used for counting, if the CPU's number is in `range` and a
    /// counter counts on the CPU. Interrupts no other CPU.
    pub(crate) fn on_each_counting(
        &self,
        counting: &CountingSetup,
        range: &Range<u32>,
        f: impl Fn(ThisCpu<'_>) + Sync,
    ) {
        let counts_on = |cpu: CpuId| counting.counts_on(percpu::of_cpu(cpu));
        let cpu_filter =
            |cpu: u32| range.contains(&cpu) && CpuId::from_u32(cpu).is_some_and(counts_on);
        cpu::on_each_of(self.cpus.in_use(), cpu_filter, f);
    }

    /// Opens a session, and returns its ID.
    ///
    /// # Errors
    ///
    /// EBUSY if `is_writer`, and another session is a writer.
    pub(super) fn open_session(&mut self, is_writer: bool) -> Result<SessionId> {
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
    pub(super) fn close_session(&mut self, session: SessionId) {
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
        each_counter(u64::MAX).filter_map(|id| Some((id, self.counting_setup(id)?)))
    }

    /// Returns whether the trace or events own the counter.
    pub(crate) fn is_owned_by_trace_or_events(&self, id: CounterId) -> bool {
        matches!(
            self.owners[id.index()],
            Some(Owner::Trace | Owner::Events(_))
        )
    }

    /// Returns the counters without an owner, as a mask, including counters that only some kinds of
    /// cores have.
    pub(crate) fn free_counters(&self) -> u64 {
        let counters = each_counter(pmu::common().all_counters());
        mask_of(counters.filter(|id| self.owners[id.index()].is_none()))
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
        for id in each_counter(counters) {
            self.claimants[id.index()] = Some(Claimant::current());
            self.owners[id.index()] = Some(Owner::Trace);
        }
    }

    /// Takes counters from their owner, after the caller has restored their registers on all CPUs. If no counter has an
    /// owner any more, gives all counters to Linux perf.
    pub(crate) fn release_counters(&mut self, counters: u64) {
        for id in each_counter(counters) {
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

    /// Notes that the registers were reserved, or that each CPU has its place-holder.
    fn end_refusal(&mut self) {
        self.was_refused = false;
        self.refusal_logged = false;
    }

    /// Reserves the registers against Linux perf, unless they are reserved, for a caller that then cleans the CPUs.
    ///
    /// # Errors
    ///
    /// [`Refusal::Reserved`] with a register that Linux perf uses.
    pub(super) fn begin_cleaning(&mut self) -> Result<(), Refusal> {
        if self.perf_exclusion.is_none() {
            let reservation = Reservation::of(pmu::common());
            self.perf_exclusion = Some(PerfExclusion::Registers(
                reservation.map_err(Refusal::Reserved)?,
            ));
        }
        self.end_refusal();
        self.cleaners += 1;
        Ok(())
    }

    /// Reserves the counters by `hold`, for a caller that then cleans the CPUs. All CPUs must have place-holders
    /// already.
    pub(super) fn begin_cleaning_with_place_holders(&mut self, hold: PlaceHolderHold) {
        self.perf_exclusion = Some(PerfExclusion::PlaceHolders(hold));
        self.end_refusal();
        self.cleaners += 1;
    }

    /// Returns the control register of a counter with which Linux perf counts, on any CPU that is used for counting, or
    /// will be used for it when the system wakes up; `None` if perf does not count, or the counters are reserved for the module.
    pub(super) fn control_msr_in_use_by_perf(&self) -> Option<Msr> {
        let control_msr = MsrCell::default();
        if self.is_reserved() {
            return None;
        }
        for cpus in self.cpus.counted() {
            cpu::on_each(cpus, |here| {
                if let Some(msr) = pmu::common().control_msr_in_use(here) {
                    control_msr.set(msr);
                }
            });
        }
        control_msr.get()
    }

    /// Undoes [`Self::begin_cleaning`], when the caller has cleaned the CPUs.
    pub(super) fn end_cleaning(&mut self) {
        self.cleaners -= 1;
    }

    /// Claims all CPUs, unless they are claimed. The caller must have cleaned them since the counters were reserved.
    pub(super) fn claim(&mut self) {
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

    /// Checks that all CPUs of a kind (`None`: all CPUs) can count the event with this select. If a CPU lacks an
    /// architectural event, logs that CPU, once.
    ///
    /// # Errors
    ///
    /// EINVAL if a CPU lacks the event. EOPNOTSUPP if the CPUs are of several kinds, which count different events with
    /// this event select, or if the event needs two counters.
    pub(crate) fn check_event(&self, select: EventSelect, kind: Option<CoreKind>) -> Result {
        let pmu = pmu::common();
        let capabilities = pmu.kinds.capabilities_of(kind, &pmu.capabilities);
        if needs_merged_counters(select, capabilities.microarchitecture) {
            return Err(errno(bindings::EOPNOTSUPP));
        }
        let Some(event) = architectural_events::missing_event(select, &capabilities) else {
            let is_same_on_all_cpus = kind.is_some()
                || !pmu.kinds.are_several()
                || select.is_modes_only()
                || architectural_events::is_architectural(select, &pmu.capabilities);
            return if is_same_on_all_cpus {
                Ok(())
            } else {
                Err(errno(bindings::EOPNOTSUPP))
            };
        };
        let lacks_event = |cpu: &CpuId| {
            let percpu = percpu::of_cpu(*cpu);
            kind.is_none_or(|kind| kind == percpu.core_kind())
                && percpu.arch_events.get() >> event & 1 == 0
        };
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

// SPDX-License-Identifier: GPL-2.0-only
//! Who owns which counter: Linux perf or we, and of us which descriptor.
//!
//! Everything that is shared between descriptors is in [`Arbiter`], behind one lock. It is the only
//! lock of the module; it is taken in tasks only, and held while other CPUs are called. Hotplug
//! callbacks take it inside of the kernel's `cpu_hotplug_lock`, so nothing that needs that one may be
//! called under it. Nor is memory allocated or freed under it: a CPU that goes offline would wait for
//! that, and with it all who wait for `cpu_hotplug_lock`.

mod reservation;

pub(crate) use self::reservation::Reservation;

use crate::{
    cpu::{self, on_each, CpuSet, Slot},
    dirty,
    logic::{
        counter::{each, CounterId, MAX_COUNTERS},
        counter_state::CounterState,
        cpuid::Capabilities,
        events,
        evtsel::EventSelect,
    },
    pmu,
    session::SessionId,
    trace::Trace,
};
use kernel::{cpu::CpuId, pr_notice_once, prelude::*, sync::global_lock};

global_lock! {
    // SAFETY: Initialized by the module's `init` before anything that uses it exists.
    pub(crate) unsafe(uninit) static ARBITER: Mutex<Arbiter> = Arbiter::new();
}

/// A counter that somebody has set up.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) owner: SessionId,
    pub(crate) select: EventSelect,
    pub(crate) state: CounterState,
}

/// The counters of the machine, and their owners.
///
/// # Invariants
///
/// If a counter is set up or a trace runs, `reservation` is held and every CPU of `counted` has been
/// taken ([`pmu::Model::take`]). They have no counter in common.
pub(crate) struct Arbiter {
    /// What the CPUs found so far have in common.
    pub(crate) common: Capabilities,
    /// The CPUs that are counted on: online, and able to.
    pub(crate) counted: CpuSet,
    /// Those that ever were: the CPUs with values to add up.
    pub(crate) known: CpuSet,
    /// Those that are online and can't be counted on.
    pub(crate) unfit: CpuSet,
    /// Those that would be counted on if the system were awake.
    pub(crate) paused: CpuSet,
    /// By [`CounterId::index`].
    counters: [Option<Counter>; MAX_COUNTERS],
    /// The trace, which may have other counters.
    pub(crate) trace: Trace,
    /// What keeps Linux perf away, from the first setup to the last release.
    reservation: Option<Reservation>,
    /// Whether the log already says that the counters are not to be had.
    refusal_told: bool,
    writer: Option<SessionId>,
    last_session: u64,
}

impl Arbiter {
    const fn new() -> Self {
        Self {
            common: Capabilities::NONE,
            counted: CpuSet::new(),
            known: CpuSet::new(),
            unfit: CpuSet::new(),
            paused: CpuSet::new(),
            counters: [None; MAX_COUNTERS],
            trace: Trace::new(),
            reservation: None,
            refusal_told: false,
            writer: None,
            last_session: 0,
        }
    }

    /// Moves all CPUs from `counted` to `paused`.
    pub(crate) fn pause(&mut self) {
        self.paused.append(&mut self.counted);
    }

    /// Moves them back.
    pub(crate) fn resume(&mut self) {
        self.counted.append(&mut self.paused);
    }

    /// The slots of the CPUs that have values and are not counted on now: those that the holder of the
    /// lock may write.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &'static Slot> + '_ {
        self.known
            .iter()
            .filter(|&cpu| !self.counted.contains(cpu))
            .map(cpu::slot)
    }

    /// Names a new session, and if it is a writer makes it the only one.
    ///
    /// # Errors
    ///
    /// EBUSY if there is a writer already.
    pub(crate) fn admit(&mut self, writer: bool) -> Result<SessionId> {
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

    /// Lets another session be the writer. The counters and the trace of this one have been removed.
    pub(crate) fn dismiss(&mut self, session: SessionId) {
        if self.writer == Some(session) {
            self.writer = None;
        }
    }

    /// The counter, if it has been set up. Since there is one writer, a writer that asks is the owner.
    #[inline]
    pub(crate) fn get(&self, id: CounterId) -> Option<&Counter> {
        self.counters[id.index()].as_ref()
    }

    /// All counters that are set up.
    pub(crate) fn all(&self) -> impl Iterator<Item = (CounterId, &Counter)> {
        each(u64::MAX)
            .zip(&self.counters)
            .filter_map(|(id, counter)| Some((id, counter.as_ref()?)))
    }

    /// Whether Linux perf has been asked for the counters, and gave them.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reservation.is_some()
    }

    /// Asks Linux perf for the counters and takes all CPUs, unless they are ours already. The other way is
    /// [`Self::leave_if_unused`].
    ///
    /// # Errors
    ///
    /// EBUSY if somebody else has one of them. The log then says who, once.
    pub(crate) fn reserve(&mut self) -> Result {
        if self.is_reserved() {
            return Ok(());
        }
        let model = pmu::model();
        match Reservation::new(model) {
            Ok(reservation) => {
                self.reservation = Some(reservation);
                self.refusal_told = false;
                dirty::clean(&self.counted);
                on_each(&self.counted, |here| model.take(here));
                Ok(())
            }
            Err(msr) => {
                if !self.refusal_told {
                    self.refusal_told = true;
                    pr_notice!(
                        "the counters are in use by Linux perf (MSR {:#x} is reserved): by an event \
                         of a program, or by the NMI watchdog, which `sysctl kernel.nmi_watchdog=0` \
                         stops\n",
                        msr.number()
                    );
                }
                Err(EBUSY)
            }
        }
    }

    /// Enters a counter that has been set up.
    pub(crate) fn insert(&mut self, id: CounterId, counter: Counter) {
        self.counters[id.index()] = Some(counter);
    }

    /// Removes a counter.
    pub(crate) fn remove(&mut self, id: CounterId) {
        self.counters[id.index()] = None;
    }

    /// Gives all counters to Linux perf, unless one is in use. The registers of all have been given back.
    pub(crate) fn leave_if_unused(&mut self) {
        if self.all().next().is_none() && self.trace.counters() == 0 {
            on_each(&self.counted, |here| pmu::model().leave(here));
            self.reservation = None;
        }
    }

    /// Whether the counter's registers held on all CPUs what was written to them, whenever that was
    /// looked at.
    pub(crate) fn is_intact(&self, id: CounterId) -> bool {
        (self.known.iter()).all(|cpu| cpu::slot(cpu).tampered.get() & id.bit() == 0)
    }

    /// Refuses an architectural event that a CPU says it does not have. The log says which CPU, once.
    pub(crate) fn check_event(&self, select: EventSelect) -> Result {
        let Some(event) = events::missing_event(select, &pmu::model().capabilities) else {
            return Ok(());
        };
        let lacks = |cpu: &CpuId| cpu::slot(*cpu).arch_events.get() >> event & 1 == 0;
        if let Some(cpu) = self.known.iter().find(lacks) {
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

// SPDX-License-Identifier: GPL-2.0-only
//! Who owns which counter: Linux perf or we, and of us which descriptor.
//!
//! Everything that is shared between descriptors is in [`Arbiter`], behind one lock. It is the only
//! lock of the module; it is taken in tasks only, and held while other CPUs are called. Hotplug
//! callbacks take it inside of the kernel's `cpu_hotplug_lock`, so nothing that needs that one may be
//! called under it.

use crate::{
    cpu::CpuSet,
    ffi,
    logic::{
        counter::{each, CounterId, MAX_COUNTERS},
        evtsel::EventSelect,
        regs::{Msr, Registers},
        state::State,
    },
    pmu::Model,
    session::SessionId,
};
use kernel::{prelude::*, sync::global_lock};

global_lock! {
    // SAFETY: Initialized by the module's `init` before anything that uses it exists.
    pub(crate) unsafe(uninit) static ARBITER: Mutex<Arbiter> = Arbiter::new();
}

/// A counter that somebody has set up.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) owner: SessionId,
    pub(crate) select: EventSelect,
    /// Where it is read.
    pub(crate) msr: Msr,
    pub(crate) state: State,
    /// Whether its registers held what was written to them, whenever that was looked at.
    pub(crate) intact: bool,
}

/// The counters of the machine, and their owners.
///
/// # Invariants
///
/// If a counter is set up, `reservation` is held and every CPU of `counted` has been taken
/// ([`Model::take`]).
pub(crate) struct Arbiter {
    /// What all CPUs that are counted on have in common.
    pub(crate) model: Model,
    /// Whether `model` is settled. Until then every CPU that joins may lessen it.
    pub(crate) complete: bool,
    /// The CPUs that are counted on: online, and able to.
    pub(crate) counted: CpuSet,
    /// Those that ever were: the CPUs with values to add up.
    pub(crate) known: CpuSet,
    /// By [`CounterId::index`].
    counters: [Option<Counter>; MAX_COUNTERS],
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
            model: Model::NOTHING,
            complete: false,
            counted: CpuSet::new(),
            known: CpuSet::new(),
            counters: [None; MAX_COUNTERS],
            reservation: None,
            refusal_told: false,
            writer: None,
            last_session: 0,
        }
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

    /// Forgets a session. Its counters have been removed.
    pub(crate) fn dismiss(&mut self, session: SessionId) {
        if self.writer == Some(session) {
            self.writer = None;
        }
    }

    /// The counter, if this session has set it up.
    #[inline]
    pub(crate) fn get(&self, session: SessionId, id: CounterId) -> Option<&Counter> {
        self.counters[id.index()]
            .as_ref()
            .filter(|counter| counter.owner == session)
    }

    /// All counters that are set up.
    pub(crate) fn all(&self) -> impl Iterator<Item = (CounterId, &Counter)> {
        each(u64::MAX)
            .zip(&self.counters)
            .filter_map(|(id, counter)| Some((id, counter.as_ref()?)))
    }

    /// As [`Self::all`], to be changed.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = (CounterId, &mut Counter)> {
        each(u64::MAX)
            .zip(&mut self.counters)
            .filter_map(|(id, c)| Some((id, c.as_mut()?)))
    }

    /// Whether Linux perf has been asked for the counters, and gave them.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reservation.is_some()
    }

    /// Asks Linux perf for the counters, unless they are ours already; true if they were not.
    ///
    /// # Errors
    ///
    /// EBUSY if somebody else has one of them. The log then says who, once.
    pub(crate) fn reserve(&mut self) -> Result<bool> {
        if self.is_reserved() {
            return Ok(false);
        }
        match Reservation::new(&self.model) {
            Ok(reservation) => {
                self.reservation = Some(reservation);
                self.refusal_told = false;
                Ok(true)
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

    /// Removes a counter whose registers have been given back on every CPU. With the last one, Linux
    /// perf gets the counters.
    pub(crate) fn remove(&mut self, id: CounterId) {
        self.counters[id.index()] = None;
        if self.all().next().is_none() {
            self.reservation = None;
        }
    }
}

/// The reservation of all general counters, by which Linux perf keeps off.
///
/// perf takes all of them with its first hardware event, or none, so we do the same. It knows no
/// reservation of the fixed-function counters: whoever has the general ones has those too.
///
/// # Invariants
///
/// The first `counters` counters and `selects` event selects of `registers` are reserved for us.
struct Reservation {
    registers: Registers,
    counters: u8,
    selects: u8,
}

impl Reservation {
    /// Takes all, or else says which register is not free.
    fn new(model: &Model) -> Result<Self, Msr> {
        // INVARIANT: Nothing is reserved yet, and what is, is counted at once. On an error, dropping
        // `this` gives back as many.
        let mut this = Self {
            registers: model.registers,
            counters: 0,
            selects: 0,
        };
        for n in 0..model.capabilities.general {
            let (counter, select) = (this.registers.general(n), this.registers.select(n));
            // SAFETY: Always callable.
            if !unsafe { ffi::perfmon_reserve_counter(counter.number()) } {
                return Err(counter);
            }
            this.counters += 1;
            // SAFETY: Always callable.
            if !unsafe { ffi::perfmon_reserve_select(select.number()) } {
                return Err(select);
            }
            this.selects += 1;
        }
        Ok(this)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        for n in 0..self.selects {
            // SAFETY: By the type invariant it is ours.
            unsafe { ffi::perfmon_release_select(self.registers.select(n).number()) };
        }
        for n in 0..self.counters {
            // SAFETY: By the type invariant it is ours.
            unsafe { ffi::perfmon_release_counter(self.registers.general(n).number()) };
        }
    }
}

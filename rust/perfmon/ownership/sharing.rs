// SPDX-License-Identifier: GPL-2.0-only
//! Counters that events own: the tasks' pool, whose events share a counter in time, and the counters of CPUs' events,
//! of which each CPU has one.

use super::{Claimant, Owner, Ownership};
use crate::{
    logic::{
        counter::{bits, each, CounterId},
        evtsel::EventSelect,
    },
    sys::error::errno,
};
use kernel::{bindings, cpu::CpuId, prelude::*};

/// Which events share a counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Events of tasks.
    Tasks,
    /// Events of CPUs.
    Cpus,
}

/// A counter that events share.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    pub(super) sharing: Sharing,
    /// The number of events, not 0.
    pub(super) users: u32,
    /// The event select with which a CPU starts it.
    select: EventSelect,
}

impl Ownership {
    /// Returns the counter if events share it.
    fn shared(&self, id: CounterId) -> Option<&Shared> {
        match &self.owners[id.index()] {
            Some(Owner::Shared(shared)) => Some(shared),
            Some(Owner::Session(_) | Owner::Trace) | None => None,
        }
    }

    /// Returns the counters that events share, each with the event select that it begins with.
    pub(crate) fn all_shared(&self) -> impl Iterator<Item = (CounterId, EventSelect)> + '_ {
        each(u64::MAX).filter_map(|id| Some((id, self.shared(id)?.select)))
    }

    /// Returns the counters that such events share, as a mask.
    pub(crate) fn pool(&self, sharing: Sharing) -> u64 {
        let of = |id: &CounterId| {
            self.shared(*id)
                .is_some_and(|shared| shared.sharing == sharing)
        };
        bits(each(u64::MAX).filter(of))
    }

    /// Lets an event count a CPU.
    ///
    /// # Errors
    ///
    /// ENODEV if the CPU is offline, EOPNOTSUPP if it is online and can't be counted on.
    pub(crate) fn check_cpu(&self, cpu: CpuId) -> Result {
        if self.cpus.incapable().contains(cpu) {
            Err(errno(bindings::EOPNOTSUPP))
        } else if self.cpus.is_counted(cpu) {
            Ok(())
        } else {
            Err(ENODEV)
        }
    }

    /// Adds an event to a counter that such events share, or that has no owner. The first one starts it on all CPUs,
    /// which are claimed.
    ///
    /// # Errors
    ///
    /// EIO if the counter does not hold what is written. Nothing has changed then.
    pub(crate) fn share(&mut self, sharing: Sharing, id: CounterId, select: EventSelect) -> Result {
        if let Some(Owner::Shared(shared)) = &mut self.owners[id.index()] {
            shared.users += 1;
            return Ok(());
        }
        self.on_each(|here| {
            here.pmu().program(here, id, select);
            here.pmu().start(here, id);
            if sharing == Sharing::Tasks {
                here.percpu().shared.insert(id.bit());
            }
        });
        for percpu in self.absent() {
            percpu.tampered.remove(id.bit());
        }
        self.claimants[id.index()] = Some(Claimant::current());
        self.owners[id.index()] = Some(Owner::Shared(Shared {
            sharing,
            users: 1,
            select,
        }));
        if self.is_intact(id.bit()) {
            Ok(())
        } else {
            self.unshare(id);
            Err(EIO)
        }
    }

    /// Removes an event from a counter that events share. After the last one its registers are restored.
    pub(crate) fn unshare(&mut self, id: CounterId) {
        let Some(Owner::Shared(shared)) = &mut self.owners[id.index()] else {
            return;
        };
        shared.users -= 1;
        if shared.users == 0 {
            self.on_each(|here| {
                here.percpu().shared.remove(id.bit());
                here.pmu().restore(here, id.bit());
            });
            self.release_counters(id.bit());
        }
    }

    /// Makes a group the only user of the counters while it counts, until [`Self::end_exclusive`]. Groups of other tasks
    /// or CPUs count at other times or elsewhere.
    ///
    /// # Errors
    ///
    /// EBUSY if there is a session, a trace, or an event of the other kind.
    pub(crate) fn begin_exclusive(&mut self, sharing: Sharing) -> Result {
        let alone = self.owners.iter().flatten().all(|owner| match owner {
            Owner::Session(_) | Owner::Trace => false,
            Owner::Shared(shared) => shared.sharing == sharing,
        });
        if !alone {
            return Err(EBUSY);
        }
        self.exclusive[sharing as usize] += 1;
        Ok(())
    }

    /// Ends [`Self::begin_exclusive`].
    pub(crate) fn end_exclusive(&mut self, sharing: Sharing) {
        self.exclusive[sharing as usize] -= 1;
    }

    /// Lets a session or a trace have counters, or events: unless an exclusive group of another kind counts.
    ///
    /// # Errors
    ///
    /// EBUSY.
    pub(crate) fn check_exclusive(&self, events: Option<Sharing>) -> Result {
        let [tasks, cpus] = self.exclusive;
        let others = match events {
            None => tasks + cpus,
            Some(Sharing::Tasks) => cpus,
            Some(Sharing::Cpus) => tasks,
        };
        if others == 0 {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs that counters count on.

use crate::{cpu::CpuSet, logic::cpuid::Capabilities};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use kernel::cpu::CpuId;

/// The number of CPUs that are online and can't be counted on, for callers that do not hold the lock.
///
/// ATOMICS: sequentially consistent. A CPU is added before it runs a program.
static INCAPABLE: AtomicU32 = AtomicU32::new(0);

/// Returns whether a CPU is online that can't be counted on.
pub(crate) fn has_incapable_cpu() -> bool {
    INCAPABLE.load(SeqCst) != 0
}

/// The CPUs. [`crate::cpus`] changes them as CPUs come and go.
pub(crate) struct Cpus {
    /// The capabilities that all CPUs seen so far have in common.
    common: Capabilities,
    /// The CPUs that are counted on: online and capable, while the system is awake.
    online: CpuSet,
    /// The CPUs that were ever counted on, whose values add up.
    seen: CpuSet,
    /// The CPUs that are online and can't be counted on.
    incapable: CpuSet,
    /// The CPUs that will be counted on when the system wakes up.
    paused: CpuSet,
    /// The system goes to sleep, sleeps, or wakes up.
    asleep: bool,
}

impl Cpus {
    pub(super) const fn new() -> Self {
        Self {
            common: Capabilities::NONE,
            online: CpuSet::new(),
            seen: CpuSet::new(),
            incapable: CpuSet::new(),
            paused: CpuSet::new(),
            asleep: false,
        }
    }

    /// Returns the capabilities that all CPUs seen so far have in common.
    pub(crate) fn common(&self) -> &Capabilities {
        &self.common
    }

    /// Sets the capabilities that all CPUs have in common.
    pub(crate) fn set_common(&mut self, common: Capabilities) {
        self.common = common;
    }

    /// Returns the CPUs that are counted on.
    #[inline(always)]
    pub(crate) fn online(&self) -> &CpuSet {
        &self.online
    }

    /// Returns whether a CPU is counted on, or will be when the system wakes up.
    pub(crate) fn is_counted(&self, cpu: CpuId) -> bool {
        self.online.contains(cpu) || self.paused.contains(cpu)
    }

    /// Returns the CPUs that were ever counted on.
    pub(crate) fn seen(&self) -> &CpuSet {
        &self.seen
    }

    /// Returns the CPUs that are online and can't be counted on.
    pub(crate) fn incapable(&self) -> &CpuSet {
        &self.incapable
    }

    /// Adds a CPU that has come online: now, or when the system has woken up. Returns true if now.
    pub(crate) fn add(&mut self, cpu: CpuId) -> bool {
        self.seen.add(cpu);
        let set = if self.asleep {
            &mut self.paused
        } else {
            &mut self.online
        };
        set.add(cpu);
        !self.asleep
    }

    /// Does not count on a CPU that has come online.
    pub(crate) fn refuse(&mut self, cpu: CpuId) {
        self.incapable.add(cpu);
        INCAPABLE.fetch_add(1, SeqCst);
    }

    /// Removes a CPU that goes offline. Returns whether it was counted on.
    pub(crate) fn remove(&mut self, cpu: CpuId) -> bool {
        self.paused.remove(cpu);
        if self.incapable.remove(cpu) {
            INCAPABLE.fetch_sub(1, SeqCst);
        }
        self.online.remove(cpu)
    }

    /// Counts on no CPU any more, until [`Self::resume`].
    pub(crate) fn pause(&mut self) {
        self.asleep = true;
        self.paused.append(&mut self.online);
    }

    /// Counts again on the CPUs that [`Self::pause`] has stopped, except those gone offline since, and on those that came
    /// online meanwhile.
    pub(crate) fn resume(&mut self) {
        self.asleep = false;
        self.online.append(&mut self.paused);
    }
}

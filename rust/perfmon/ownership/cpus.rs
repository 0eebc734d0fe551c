// SPDX-License-Identifier: GPL-2.0-only
//! The sets of CPUs: the CPUs that are used for counting, and the CPUs that can't be used for
//! counting.

use crate::{
    cpu::CpuSet,
    logic::{core_kinds::CoreKinds, cpuid::Capabilities},
};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use kernel::cpu::CpuId;

/// The number of CPUs that are online but can't be used for counting, for callers that do not hold the lock.
///
/// ATOMICS: sequentially consistent. The number includes a CPU before that CPU runs a program.
static INCAPABLE_CPU_COUNT: AtomicU32 = AtomicU32::new(0);

/// Returns whether there is a CPU that is online but can't be used for counting.
pub(crate) fn has_incapable_cpu() -> bool {
    INCAPABLE_CPU_COUNT.load(SeqCst) != 0
}

/// The sets of CPUs. [`crate::cpus`] changes them when CPUs go online or offline, and when the system sleeps.
pub(crate) struct CpuSets {
    /// The capabilities that all CPUs seen so far have in common.
    common_capabilities: Capabilities,
    /// The kinds of the CPUs that were online when the module was loaded.
    kinds: CoreKinds,
    /// The CPUs that are used for counting: online, capable, and the system is awake.
    in_use: CpuSet,
    /// The CPUs that were ever used for counting, over which values are summed.
    ever_used: CpuSet,
    /// The CPUs that are online but can't be used for counting.
    incapable: CpuSet,
    /// The CPUs that will be used for counting when the system wakes up.
    paused: CpuSet,
    /// The system is going to sleep, asleep, or waking up.
    asleep: bool,
}

impl CpuSets {
    pub(super) const fn new() -> Self {
        Self {
            common_capabilities: Capabilities::NONE,
            kinds: CoreKinds::NONE,
            in_use: CpuSet::new(),
            ever_used: CpuSet::new(),
            incapable: CpuSet::new(),
            paused: CpuSet::new(),
            asleep: false,
        }
    }

    /// Returns the capabilities that all CPUs seen so far have in common.
    pub(crate) fn common_capabilities(&self) -> &Capabilities {
        &self.common_capabilities
    }

    /// Sets the capabilities that all CPUs have in common.
    pub(crate) fn set_common_capabilities(&mut self, capabilities: Capabilities) {
        self.common_capabilities = capabilities;
    }

    /// Returns the kinds of the CPUs that were online when the module was loaded.
    pub(crate) fn kinds(&self) -> &CoreKinds {
        &self.kinds
    }

    /// Returns the kinds, to add to them while the module is being loaded.
    pub(crate) fn kinds_mut(&mut self) -> &mut CoreKinds {
        &mut self.kinds
    }

    /// Returns the CPUs that are used for counting.
    #[inline(always)]
    pub(crate) fn in_use(&self) -> &CpuSet {
        &self.in_use
    }

    /// Returns the CPUs that are used for counting, and the CPUs that will be used for counting
    /// when the system wakes up.
    pub(crate) fn counted(&self) -> [&CpuSet; 2] {
        [&self.in_use, &self.paused]
    }

    /// Returns whether a CPU is used for counting, or will be used for it when the system wakes up.
    pub(crate) fn is_counted(&self, cpu: CpuId) -> bool {
        self.in_use.contains(cpu) || self.paused.contains(cpu)
    }

    /// Returns the CPUs that were ever used for counting.
    pub(crate) fn ever_used(&self) -> &CpuSet {
        &self.ever_used
    }

    /// Returns the CPUs that are online but can't be used for counting.
    pub(crate) fn incapable(&self) -> &CpuSet {
        &self.incapable
    }

    /// Adds a CPU that has come online. Returns true if the CPU is used for counting at once, false if it is used only
    /// when the system has woken up.
    pub(crate) fn add(&mut self, cpu: CpuId) -> bool {
        self.ever_used.add(cpu);
        let set = if self.asleep {
            &mut self.paused
        } else {
            &mut self.in_use
        };
        set.add(cpu);
        !self.asleep
    }

    /// Notes that a CPU that has come online can't be used for counting.
    pub(crate) fn add_incapable(&mut self, cpu: CpuId) {
        self.incapable.add(cpu);
        INCAPABLE_CPU_COUNT.fetch_add(1, SeqCst);
    }

    /// Removes a CPU that goes offline. Returns whether it was used for counting.
    pub(crate) fn remove(&mut self, cpu: CpuId) -> bool {
        self.paused.remove(cpu);
        if self.incapable.remove(cpu) {
            INCAPABLE_CPU_COUNT.fetch_sub(1, SeqCst);
        }
        self.in_use.remove(cpu)
    }

    /// Pauses all CPUs that are used for counting, until [`Self::resume`], for the system's sleep.
    pub(crate) fn pause(&mut self) {
        self.asleep = true;
        self.paused.append(&mut self.in_use);
    }

    /// Undoes [`Self::pause`]: counts again on the CPUs that were used before and are still online,
    /// and also on capable CPUs that came online meanwhile.
    pub(crate) fn resume(&mut self) {
        self.asleep = false;
        self.in_use.append(&mut self.paused);
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! A cgroup with events: an entry of the table of cgroups ([`super::table::CGROUPS`]).

use super::{
    context::Context,
    entry::{Entry, Links},
    rcu,
    slot::Slots,
};
use crate::{
    cpu::{possible_cpus, ThisCpu},
    percpu::Word,
    sys::{
        cgroup::{Cgroup, TaskCgroups},
        ffi,
    },
};
use core::{
    ptr::{self, NonNull},
    sync::atomic::AtomicU32,
};
use kernel::{cpu::CpuId, prelude::*, sync::Arc};

/// A cgroup with events.
///
/// # Invariants
///
/// A value is in the table until it is removed. RCU frees the value after its removal, when all
/// CPUs have unloaded its contexts.
pub(super) struct CountedCgroup {
    /// The address of `_cgroup`, which a look-up compares without another access.
    address: NonNull<ffi::cgroup>,
    /// The reference that keeps the cgroup alive.
    _cgroup: Arc<Cgroup>,
    /// The number of events of the cgroup. Used under the table's lock.
    pub(super) event_count: AtomicU32,
    /// The contexts, by the number of their CPU.
    contexts: KVec<CgroupContext>,
    links: Links<Self>,
    rcu: rcu::Head,
}

/// The context of a cgroup on one CPU.
pub(super) struct CgroupContext {
    pub(super) context: KBox<Context>,
    pub(super) cgroup: NonNull<ffi::cgroup>,
    /// The level of the cgroup.
    pub(super) level: u64,
    /// Not 0 after the entry of the cgroup was removed from the table: then the context is to be unloaded.
    ///
    /// ATOMICS: relaxed. After the word was set, all CPUs are called, and see it.
    is_removed: Word,
    /// The address of the next [`CgroupContext`] in the CPU's list of loaded contexts; valid only
    /// while this context is loaded.
    pub(super) next: Word,
}

impl CountedCgroup {
    /// Returns the entry of a cgroup with one event, and a context without slots for each CPU.
    ///
    /// # Errors
    ///
    /// ENOMEM if there is no memory.
    pub(super) fn new(cgroup: &Arc<Cgroup>) -> Result<KBox<Self>> {
        let address = NonNull::new(cgroup.as_ptr()).ok_or(EINVAL)?;
        let mut contexts = KVec::new();
        for cpu in possible_cpus() {
            // The numbers of possible CPUs may have gaps.
            while contexts.len() <= cpu.as_u32() as usize {
                // `attach` allocates the memory for slots.
                let slots = Slots::new(0, GFP_KERNEL_ACCOUNT)?;
                let cgroup_context = CgroupContext {
                    context: Context::new(ptr::null(), slots, GFP_KERNEL_ACCOUNT)?,
                    cgroup: address,
                    level: cgroup.level(),
                    is_removed: Word::zero(),
                    next: Word::zero(),
                };
                contexts.push(cgroup_context, GFP_KERNEL_ACCOUNT)?;
            }
        }
        let new = Self {
            address,
            _cgroup: cgroup.clone(),
            event_count: AtomicU32::new(1),
            contexts,
            links: Links::new(),
            rcu: rcu::Head::new(),
        };
        Ok(KBox::new(new, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the cgroup's context on a CPU.
    pub(super) fn context_on(&self, cpu: CpuId) -> Option<&CgroupContext> {
        self.contexts.get(cpu.as_u32() as usize)
    }

    /// Returns the cgroup's context on this CPU.
    #[inline(always)]
    pub(super) fn context_here(&self, here: ThisCpu<'_>) -> Option<&CgroupContext> {
        self.contexts.get(here.percpu().cpu_number.get() as usize)
    }

    /// Marks the contexts as removed, so that CPUs unload them. The caller must have taken the entry out of the table,
    /// and must call the CPUs afterwards.
    pub(super) fn set_removed(&self) {
        for cgroup_context in self.contexts.iter() {
            cgroup_context.is_removed.set(1);
        }
    }
}

impl CgroupContext {
    /// Returns whether the context counts a task with these cgroups: the counted cgroup is one of
    /// these cgroups, and its entry is in the table.
    #[inline(always)]
    pub(super) fn counts(&self, cgroups: &TaskCgroups<'_>) -> bool {
        // A context of a removed entry counts nothing, even if the cgroup has a new entry now.
        self.is_removed.get() == 0 && cgroups.at_level(self.level) == Some(self.cgroup)
    }
}

impl Entry for CountedCgroup {
    type Key = ffi::cgroup;

    #[inline(always)]
    fn key(&self) -> *const ffi::cgroup {
        self.address.as_ptr()
    }

    #[inline(always)]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

// SAFETY: `HasHead` requires a `Head` at `OFFSET` that only `rcu::free` uses: it is the field `rcu`, which nothing else
// accesses.
unsafe impl rcu::HasHead for CountedCgroup {
    const OFFSET: usize = core::mem::offset_of!(Self, rcu);
}

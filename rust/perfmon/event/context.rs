// SPDX-License-Identifier: GPL-2.0-only
//! A context: the events of one task, of one CPU, or of a cgroup on one CPU.
//!
//! A task's context is loaded on a CPU while the task runs there. The holder of a context may use its slots
//! ([`HeldContext`]):
//!
//! ```text
//!              the CPU that loads it            a task that changes it
//!   FREE -----------------------------> CPU n   FREE --------------> LOCKED
//!    ^                                    |      ^                     |
//!    '------------------------------------'      '---------------------'
//! ```
//!
//! The CPU that has loaded a context holds it: only code on that CPU uses the slots, with interrupts off.
//! [`Context::with_slots`] calls that CPU, or locks a context that is not loaded. The lock is held for moments, with
//! interrupts off, so the context switch may wait for it. A context that lost its last slot, or whose task exits, is
//! `GONE` for ever.
//!
//! The context of a task is in the table ([`super::table`]), and RCU frees it.

use super::{
    entry::{Entry, Links},
    rcu,
    slot::Slots,
};
use crate::{
    cpu::{irqs_off, on_cpu, ThisCpu},
    percpu::PerCpu,
};
use core::{
    cell::UnsafeCell,
    hint,
    ops::{Deref, DerefMut},
    ptr,
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use kernel::{
    alloc::{AllocError, Flags},
    bindings,
    prelude::*,
};

/// Value of [`Context::holder`]: the context has no holder.
const FREE: u32 = u32::MAX;
/// Value of [`Context::holder`]: a task has locked the context.
const LOCKED: u32 = u32::MAX - 1;
/// Value of [`Context::holder`]: the context has ended, and will never have a holder again.
const GONE: u32 = u32::MAX - 2;

/// The exclusive right of a context's holder to use its slots.
///
/// # Invariants
///
/// Until the value is dropped, the context is loaded on this CPU and interrupts are off, or the
/// caller has locked it. No second value for the same context exists in that time.
pub(super) struct HeldContext<'a>(&'a Context);

impl<'a> HeldContext<'a> {
    /// Returns the context of the task that runs on this CPU, if it is loaded.
    #[inline(always)]
    pub(super) fn of_task(here: ThisCpu<'a>) -> Option<Self> {
        // INVARIANT: `task_context` is the context that is loaded on this CPU; in this folder a `ThisCpu` exists only
        // while interrupts are off.
        Context::loaded_task_context(here.percpu()).map(Self)
    }

    /// Returns the context of this CPU's events, if it is loaded. The context is loaded while the
    /// CPU is used for counting.
    pub(super) fn of_cpu(here: ThisCpu<'a>) -> Option<Self> {
        let percpu = here.percpu();
        // SAFETY: `from_address` requires a context that is alive, or 0: `cpu_context` is 0 or the address of a CPU's
        // context, which is not freed before the module's exit.
        let context = unsafe { Context::from_address(percpu.cpu_context.get()) }?;
        let is_loaded = context.holder.load(Relaxed) == here.id().as_u32();
        // INVARIANT: The context is loaded on this CPU; in this folder a `ThisCpu` exists only while interrupts are
        // off.
        is_loaded.then_some(Self(context))
    }

    /// Returns a context that the caller holds.
    ///
    /// # Safety
    ///
    /// The context must be loaded on this CPU, where interrupts are off until the result is dropped, and nothing else
    /// may use it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn assume(context: &'a Context) -> Self {
        // INVARIANT: The caller promises that the context is loaded here, that interrupts are off, and that nothing
        // else uses it.
        Self(context)
    }

    /// Unloads the context, whose windows the caller has closed.
    #[inline(always)]
    pub(super) fn unload(self) {
        self.0.holder.store(FREE, Release);
    }
}

impl Deref for HeldContext<'_> {
    type Target = Slots;

    #[inline(always)]
    fn deref(&self) -> &Slots {
        // SAFETY: A `&` requires that there is no `&mut` to the slots: by the invariant of `HeldContext` nothing else
        // uses them, and `self` is borrowed shared.
        unsafe { &*self.0.slots.get() }
    }
}

impl DerefMut for HeldContext<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Slots {
        // SAFETY: A `&mut` requires that there is no other reference to the slots: by the invariant of `HeldContext`
        // nothing else uses them, and `self` is borrowed exclusively.
        unsafe { &mut *self.0.slots.get() }
    }
}

/// The events of one task, of one CPU, or of a cgroup on one CPU.
pub(super) struct Context {
    /// The task; null if the events belong to a CPU or a cgroup.
    task: *const bindings::task_struct,
    /// The number of the CPU that has loaded the context, [`FREE`], [`LOCKED`] or [`GONE`].
    ///
    /// ATOMICS: a holder takes the context with acquire order, and gives it up with release order, so that it sees what
    /// the previous holder has written to the slots.
    holder: AtomicU32,
    /// The slots, which only the holder uses.
    slots: UnsafeCell<Slots>,
    links: Links<Context>,
    rcu: rcu::Head,
}

// SAFETY: `Send` requires that any task may use and drop the value: each `Slot` is `Send`; the addresses of tasks, here
// and in `Slots`, are only compared; the links are atomic; and only `rcu::free` uses `rcu`.
unsafe impl Send for Context {}
// SAFETY: `Sync` requires that several tasks may use the value at once: only the holder uses the slots, and `holder`
// allows one holder at a time. The other fields are atomic or constant, except `rcu`, which only `rcu::free` uses.
unsafe impl Sync for Context {}

// SAFETY: `HasHead` requires a `Head` at `OFFSET` that only `rcu::free` uses: it is the field `rcu`, which nothing else
// accesses.
unsafe impl rcu::HasHead for Context {
    const OFFSET: usize = core::mem::offset_of!(Self, rcu);
}

impl Entry for Context {
    type Key = bindings::task_struct;

    #[inline(always)]
    fn key(&self) -> *const bindings::task_struct {
        self.task
    }

    #[inline(always)]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Context {
    /// Returns a new context for a task; for a CPU or a cgroup if `task` is null.
    ///
    /// # Errors
    ///
    /// `AllocError` if there is no memory.
    pub(super) fn new(
        task: *const bindings::task_struct,
        mut slots: Slots,
        flags: Flags,
    ) -> Result<KBox<Self>, AllocError> {
        slots.task = task.cast_mut();
        KBox::new(
            Self {
                task,
                holder: AtomicU32::new(FREE),
                slots: UnsafeCell::new(slots),
                links: Links::new(),
                rcu: rcu::Head::new(),
            },
            flags,
        )
    }

    /// Returns the context at an address that [`Self::address`] returned; `None` if the address is 0.
    ///
    /// # Safety
    ///
    /// The context must be alive for `'a`.
    #[inline(always)]
    pub(super) unsafe fn from_address<'a>(address: u64) -> Option<&'a Self> {
        // SAFETY: `as_ref` requires a pointer that is null or valid: the address is 0, or was exposed by
        // `Self::address` from a context that the caller keeps alive for `'a`.
        unsafe { ptr::with_exposed_provenance::<Self>(address as usize).as_ref() }
    }

    /// Returns the context of the task that runs on this CPU, if it is loaded.
    #[inline(always)]
    pub(super) fn loaded_task_context(percpu: &PerCpu) -> Option<&Self> {
        // SAFETY: `from_address` requires a context that is alive, or 0: this CPU sets
        // `task_context` to 0 before the context is given to RCU. RCU frees the context only after
        // the caller has left this CPU, and the caller can't leave the CPU while it borrows
        // `percpu`.
        unsafe { Self::from_address(percpu.task_context.get()) }
    }

    /// Returns the address of the context as a number.
    #[inline(always)]
    pub(super) fn address(&self) -> u64 {
        ptr::from_ref(self).expose_provenance() as u64
    }

    /// Returns whether the context has ended: it can't be loaded or locked any more.
    pub(super) fn is_gone(&self) -> bool {
        self.holder.load(Acquire) == GONE
    }

    /// Loads the context on this CPU, where its task begins to run. Returns `None` if the context is gone.
    #[inline(always)]
    pub(super) fn load(&self, here: ThisCpu<'_>) -> Option<HeldContext<'_>> {
        // INVARIANT: `try_load` has loaded the context on this CPU; in this folder a `ThisCpu` exists only while
        // interrupts are off.
        self.try_load(here).then_some(HeldContext(self))
    }

    /// Loads the context on this CPU, without giving access to the slots. Returns false if the
    /// context is gone or loaded already.
    #[inline(always)]
    pub(super) fn try_load(&self, here: ThisCpu<'_>) -> bool {
        let cpu = here.percpu().cpu_number.get() as u32;
        loop {
            match self.holder.compare_exchange(FREE, cpu, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(LOCKED) => hint::spin_loop(),
                Err(_) => return false,
            }
        }
    }

    /// Returns the slots of a context that is not shared yet.
    pub(super) fn slots_mut(&mut self) -> &mut Slots {
        self.slots.get_mut()
    }

    /// Calls `f` with the slots. If a CPU has loaded the context, `f` runs on that CPU and gets its `ThisCpu`;
    /// otherwise `f` runs here and gets `None`. Returns `None` if the context is gone.
    ///
    /// If `f` leaves a task's context without slots, the context is gone: then the second result is true, and the
    /// caller removes the context from the table.
    ///
    /// To be called by tasks, with interrupts on; preemption may be off. The caller must keep the context alive (RCU).
    pub(super) fn with_slots<R: Send>(
        &self,
        mut f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) -> R + Send,
    ) -> Option<(R, bool)> {
        loop {
            let irqs_off = irqs_off();
            let cpu = match self.try_with_slots(irqs_off.here(), &mut f) {
                Ok(result) => return result,
                Err(cpu) => cpu,
            };
            drop(irqs_off);
            let mut result = None;
            if cpu != LOCKED {
                on_cpu(cpu, |here| {
                    // The CPU may have unloaded the context meanwhile.
                    if self.holder.load(Acquire) == cpu {
                        result = Some(self.with_loaded_slots(here, &mut f));
                    }
                });
            }
            if result.is_some() {
                return result;
            }
            hint::spin_loop();
        }
    }

    /// Does what [`Self::with_slots`] does, for the context of the task that runs here or of this CPU, which no other CPU can
    /// have loaded. Must be called with interrupts off.
    pub(super) fn with_current_slots<R>(
        &self,
        here: ThisCpu<'_>,
        mut f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) -> R,
    ) -> Option<(R, bool)> {
        loop {
            if let Ok(result) = self.try_with_slots(here, &mut f) {
                return result;
            }
            hint::spin_loop();
        }
    }

    /// Does what [`Self::with_slots`] does, unless the context is locked or loaded on another CPU. Must be called with
    /// interrupts off.
    ///
    /// # Errors
    ///
    /// The present [`holder`](Self::holder): [`LOCKED`], or the number of the CPU that has loaded the context.
    fn try_with_slots<R>(
        &self,
        here: ThisCpu<'_>,
        mut f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) -> R,
    ) -> Result<Option<(R, bool)>, u32> {
        match self.holder.compare_exchange(FREE, LOCKED, Acquire, Relaxed) {
            Ok(_) => {
                // INVARIANT: The exchange has locked the context.
                let mut slots = HeldContext(self);
                let result = f(None, &mut slots);
                let is_emptied = slots.is_empty() && !self.task.is_null();
                self.holder
                    .store(if is_emptied { GONE } else { FREE }, Release);
                Ok(Some((result, is_emptied)))
            }
            Err(GONE) => Ok(None),
            Err(cpu) if cpu == here.id().as_u32() => Ok(Some(self.with_loaded_slots(here, f))),
            Err(holder) => Err(holder),
        }
    }

    /// Does what [`Self::with_slots`] does, for a context that is loaded on this CPU. Must be called with interrupts
    /// off.
    fn with_loaded_slots<R>(
        &self,
        here: ThisCpu<'_>,
        mut f: impl FnMut(Option<ThisCpu<'_>>, &mut Slots) -> R,
    ) -> (R, bool) {
        // INVARIANT: The context is loaded on this CPU; in this folder a `ThisCpu` exists only
        // while interrupts are off.
        let mut slots = HeldContext(self);
        let result = f(Some(here), &mut slots);
        let is_emptied = slots.is_empty() && !self.task.is_null();
        if is_emptied {
            here.percpu().task_context.publish(0);
            self.holder.store(GONE, Release);
        }
        (result, is_emptied)
    }
}

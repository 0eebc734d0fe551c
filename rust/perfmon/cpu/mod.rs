// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs: staying on one, calling others, their hotplug, and the memory kept for each.
//!
//! Nothing here depends on the PMU; [`msr`] executes the accesses that `logic` describes. A [`ThisCpu`] proves that
//! its holder can't leave the CPU it runs on. [`crate::percpu`] gives the per-CPU memory its type.

mod call;
mod hotplug;
pub(crate) mod msr;
mod power;
mod processor;
mod set;
pub(crate) mod timer;
pub(crate) mod topology;

pub(crate) use self::{
    call::{on_cpu, on_each, on_each_in_range, on_each_online},
    hotplug::{Hotplug, HotplugCallbacks},
    power::{PowerCallbacks, PowerNotifier},
    processor::{cpuid, cr3, timestamp, tsc_khz, Cycles, Regs, CR3_ADDRESS_SPACE_MASK},
    set::CpuSet,
};

use crate::sys::ffi;
use core::{marker::PhantomData, ptr::NonNull};
use kernel::{
    cpu::{nr_cpu_ids, CpuId},
    error::to_result,
    ffi::c_void,
    prelude::*,
    types::NotThreadSafe,
};

/// The memory of all CPUs: one area of the same size for each possible CPU.
///
/// # Invariants
///
/// While a value of this type exists, the C side holds the areas. There is at most one value.
pub(crate) struct PercpuAreas(());

impl PercpuAreas {
    /// Allocates areas for a `T`, all bytes zero.
    ///
    /// # Safety
    ///
    /// To be called once in the module's life. The result outlives every other use of this folder.
    pub(crate) unsafe fn new<T>() -> Result<Self> {
        // SAFETY: This is the only call, so it leaks no earlier areas.
        to_result(unsafe { ffi::perfmon_percpu_alloc(size_of::<T>(), align_of::<T>()) })?;
        // INVARIANT: The areas have just been allocated.
        Ok(Self(()))
    }
}

impl Drop for PercpuAreas {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated the areas, and its caller drops the result after every other use of them.
        unsafe { ffi::perfmon_percpu_free() };
    }
}

/// Returns the area of a CPU, for reading.
pub(crate) fn percpu_area(cpu: CpuId) -> NonNull<c_void> {
    // SAFETY: A `CpuId` is below the number of CPU ids, and so the areas have an element for it.
    let area = unsafe { ffi::perfmon_percpu_of(cpu.as_u32()) };
    // SAFETY: The address of an element of per-CPU memory is not null.
    unsafe { NonNull::new_unchecked(area) }
}

/// The current CPU. A value of this type proves that its holder can't leave the CPU for the lifetime `'a`.
///
/// # Invariants
///
/// `area` is the current CPU's, and the holder stays on this CPU for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct ThisCpu<'a> {
    area: NonNull<c_void>,
    _bound: PhantomData<&'a ()>,
    _not_send: NotThreadSafe,
}

impl<'a> ThisCpu<'a> {
    /// Makes a token from the current CPU's `area`.
    ///
    /// # Safety
    ///
    /// `area` must be what the C side gave as the current CPU's, and the caller must not leave the CPU for
    /// `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_area(area: *mut c_void) -> Self {
        // INVARIANT: The caller says that the area is the current CPU's, and stays on the CPU for `'a`.
        Self {
            // SAFETY: The caller passes the address of per-CPU memory, which is not null.
            area: unsafe { NonNull::new_unchecked(area) },
            _bound: PhantomData,
            _not_send: NotThreadSafe,
        }
    }

    /// Makes a token for a caller that can't leave its CPU.
    ///
    /// # Safety
    ///
    /// The caller must not leave the CPU for `'a`.
    #[inline]
    pub(crate) unsafe fn assume() -> Self {
        // SAFETY: The caller stays on the CPU, so the area that C finds is and remains this CPU's.
        unsafe { Self::from_area(ffi::perfmon_percpu_here()) }
    }

    /// Returns the memory kept for this CPU.
    #[inline(always)]
    pub(crate) fn area(self) -> NonNull<c_void> {
        self.area
    }

    /// Returns the CPU's number.
    pub(crate) fn id(self) -> CpuId {
        CpuId::current()
    }
}

/// Keeps the current task on its CPU, with preemption disabled, until this value is dropped.
pub(crate) struct Pinned(ThisCpu<'static>);

impl Pinned {
    /// Returns the CPU.
    pub(crate) fn here(&self) -> ThisCpu<'_> {
        self.0
    }
}

/// Disables preemption.
pub(crate) fn pin() -> Pinned {
    // SAFETY: Preemption is off until the value is dropped, and the tokens of `Pinned::here` don't outlive the value.
    Pinned(unsafe { ThisCpu::from_area(ffi::perfmon_pin()) })
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: `pin` disabled preemption.
        unsafe { ffi::perfmon_unpin() };
    }
}

/// Keeps interrupts off until this value is dropped, so that only NMIs can interrupt the task.
pub(crate) struct IrqsOff(ThisCpu<'static>);

impl IrqsOff {
    /// Returns the CPU.
    #[inline(always)]
    pub(crate) fn here(&self) -> ThisCpu<'_> {
        self.0
    }
}

/// Disables interrupts. For tasks with interrupts on: dropping the result enables them, so it is not nested.
///
/// `kernel::interrupt` is not used: finding the per-CPU area in a second C call would make PMIOREAD slower.
#[inline(always)]
pub(crate) fn irqs_off() -> IrqsOff {
    // SAFETY: Interrupts, and with them preemption, are off until the value is dropped: it is not nested, so no other
    // value enables them. The tokens of `IrqsOff::here` don't outlive the value.
    IrqsOff(unsafe { ThisCpu::from_area(ffi::perfmon_irqs_off()) })
}

impl Drop for IrqsOff {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: `irqs_off` disabled interrupts.
        unsafe { ffi::perfmon_irqs_on() };
    }
}

/// Returns the numbers of all possible CPUs, lowest first.
pub(crate) fn possible_cpus() -> impl Iterator<Item = CpuId> {
    // SAFETY: Each number is below the number of CPU ids.
    (0..nr_cpu_ids()).map(|n| unsafe { CpuId::from_u32_unchecked(n) })
}

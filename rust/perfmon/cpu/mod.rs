// SPDX-License-Identifier: GPL-2.0-only
//! The CPUs: staying on a CPU, calling other CPUs, hotplug, and per-CPU memory.
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
    call::{on_cpu, on_each, on_each_of, on_each_online},
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
    /// To be called once in the module's life. The result must outlive every other use of this folder's functions.
    pub(crate) unsafe fn new<T>() -> Result<Self> {
        // SAFETY: perfmon_percpu_alloc() overwrites the pointer to earlier areas, so it must not be called while there
        // are any: the caller calls `new` once.
        to_result(unsafe { ffi::perfmon_percpu_alloc(size_of::<T>(), align_of::<T>()) })?;
        // INVARIANT: The areas have just been allocated.
        Ok(Self(()))
    }
}

impl Drop for PercpuAreas {
    fn drop(&mut self) {
        // SAFETY: perfmon_percpu_free() requires areas that no code uses: `new` has allocated them, and its caller
        // promises that every other use ends before this value is dropped.
        unsafe { ffi::perfmon_percpu_free() };
    }
}

/// Returns the area of a CPU, for reading.
pub(crate) fn percpu_area(cpu: CpuId) -> NonNull<c_void> {
    // SAFETY: perfmon_percpu_of() requires the number of a possible CPU and allocated areas. A `CpuId` is below the
    // number of CPU ids, and `PercpuAreas::new` requires that the areas outlive every other use of this folder's
    // functions.
    let area = unsafe { ffi::perfmon_percpu_of(cpu.as_u32()) };
    // SAFETY: `new_unchecked` requires a pointer that is not null, as the address of a CPU's allocated area is.
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
    /// `area` must be the current CPU's area, as the C side returns it, and the caller must not leave the CPU for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_area(area: *mut c_void) -> Self {
        // INVARIANT: The caller promises that the area is the current CPU's, and stays on the CPU for `'a`.
        Self {
            // SAFETY: `new_unchecked` requires a pointer that is not null: the caller passes the address of an
            // allocated area.
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
        // SAFETY: Both functions require that the caller does not leave the CPU while the result lives, which this
        // function's caller promises. The area that perfmon_percpu_here() returns is the current CPU's.
        unsafe { Self::from_area(ffi::perfmon_percpu_here()) }
    }

    /// Returns the memory kept for this CPU.
    #[inline(always)]
    pub(crate) fn percpu_area(self) -> NonNull<c_void> {
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
    /// Returns the token of the CPU.
    pub(crate) fn here(&self) -> ThisCpu<'_> {
        self.0
    }
}

/// Disables preemption until the result is dropped.
pub(crate) fn pin() -> Pinned {
    // SAFETY: `from_area` requires the current CPU's area, which perfmon_pin() returns, and a caller that does not
    // leave the CPU: preemption is off until the `Pinned` is dropped, and the tokens of `Pinned::here` don't outlive
    // it.
    Pinned(unsafe { ThisCpu::from_area(ffi::perfmon_pin()) })
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: perfmon_unpin() must follow a perfmon_pin(), which `pin` called once for this value.
        unsafe { ffi::perfmon_unpin() };
    }
}

/// Keeps interrupts off until this value is dropped, so that only NMIs can interrupt the task.
pub(crate) struct IrqsOff(ThisCpu<'static>);

impl IrqsOff {
    /// Returns the token of the CPU.
    #[inline(always)]
    pub(crate) fn here(&self) -> ThisCpu<'_> {
        self.0
    }
}

/// Disables interrupts until the result is dropped. Must be called with interrupts on, since dropping the result
/// enables them.
///
/// `kernel::interrupt` is not used: finding the per-CPU area in a second C call would make PMIOREAD slower.
#[inline(always)]
pub(crate) fn irqs_off() -> IrqsOff {
    // SAFETY: `from_area` requires the current CPU's area, which perfmon_irqs_off() returns, and a caller that does not
    // leave the CPU: interrupts are off until the `IrqsOff` is dropped, since no other `IrqsOff` exists that could
    // enable them. The tokens of `IrqsOff::here` don't outlive the value.
    IrqsOff(unsafe { ThisCpu::from_area(ffi::perfmon_irqs_off()) })
}

impl Drop for IrqsOff {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: perfmon_irqs_on() must follow a perfmon_irqs_off(), which `irqs_off` called once for this value.
        unsafe { ffi::perfmon_irqs_on() };
    }
}

/// Returns the numbers of all possible CPUs, lowest first.
pub(crate) fn possible_cpus() -> impl Iterator<Item = CpuId> {
    // SAFETY: `from_u32_unchecked` requires a number below the number of CPU ids, which ends the range.
    (0..nr_cpu_ids()).map(|n| unsafe { CpuId::from_u32_unchecked(n) })
}

// SPDX-License-Identifier: GPL-2.0-only
//! Words of per-CPU memory.

use crate::logic::{counter::CounterId, pmu::Pmu};
use core::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// A word that is written on one CPU, and read by interrupts of this CPU or by other CPUs.
///
/// ATOMICS: accesses are relaxed, unless they say otherwise. A task and the overflow handler that interrupts it run on the
/// same CPU, which keeps its own order. Between CPUs the ownership lock and calls from one CPU to another are full
/// barriers. `kernel::sync::atomic` is not used because each of its accesses is a function call, which would
/// double the cost of reading a counter.
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// Returns 0.
    pub(crate) const fn zero() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Stores the value for other CPUs, which see with it what was written before.
    ///
    /// ATOMICS: release; pairs with [`Self::acquire`].
    #[inline(always)]
    pub(crate) fn publish(&self, value: u64) {
        self.0.store(value, Release);
    }

    /// Loads the value that another CPU has published.
    ///
    /// ATOMICS: acquire; pairs with [`Self::publish`].
    pub(crate) fn acquire(&self) -> u64 {
        self.0.load(Acquire)
    }

    /// Adds one.
    #[inline(always)]
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Takes one away.
    pub(crate) fn decrement(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// Sets the bits of `mask`.
    #[inline(always)]
    pub(crate) fn insert(&self, mask: u64) {
        self.0.fetch_or(mask, Relaxed);
    }

    /// Clears the bits of `mask`.
    #[inline(always)]
    pub(crate) fn remove(&self, mask: u64) {
        self.0.fetch_and(!mask, Relaxed);
    }

    /// Makes the bits of `mask` those of `value`.
    pub(crate) fn change(&self, mask: u64, value: u64) {
        self.insert(mask & value);
        self.remove(mask & !value);
    }

    /// Stores `new` if the word still holds `old`. Returns whether it did.
    #[inline(always)]
    pub(crate) fn replace(&self, old: u64, new: u64) -> bool {
        self.0.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }
}

/// A counter, or none. All bits zero is none.
pub(crate) struct CounterCell(Word);

impl CounterCell {
    /// Returns the counter.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<CounterId> {
        CounterId::from_index((self.0.get() as u8).checked_sub(1)?)
    }

    /// Sets the counter.
    pub(crate) fn set(&self, counter: Option<CounterId>) {
        self.0
            .set(counter.map_or(0, |counter| counter.index() as u64 + 1));
    }
}

/// The PMU of a CPU, or none. All bits zero is none.
///
/// ATOMICS: relaxed, as a [`Word`] of the same memory.
///
/// # Invariants
///
/// The pointer is null, or points to a `Pmu` that is never freed nor changed.
pub(crate) struct PmuCell(AtomicPtr<Pmu>);

impl PmuCell {
    /// Returns the PMU.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static Pmu> {
        // SAFETY: By the type invariant the pointer is null or valid for ever.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Sets the PMU.
    pub(crate) fn set(&self, pmu: Option<&'static Pmu>) {
        let pmu = pmu.map_or(ptr::null(), ptr::from_ref);
        // INVARIANT: A `&'static Pmu` is valid for ever, and only shared references are made of it.
        self.0.store(pmu.cast_mut(), Relaxed);
    }
}

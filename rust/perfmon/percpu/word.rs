// SPDX-License-Identifier: GPL-2.0-only
//! Words of the per-CPU data.

use crate::logic::{counter::CounterId, pmu::Pmu};
use core::{
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// A word that one CPU writes, and that interrupts of that CPU and other CPUs read.
///
/// ATOMICS: relaxed, except for [`Self::publish`] and [`Self::acquire`]. A task and the overflow handler that
/// interrupts it run on the same CPU, which sees its own accesses in order. Between CPUs, the ownership lock and
/// calls from one CPU to another are full barriers. `kernel::sync::atomic` is not used, because each of its accesses
/// is a function call, which would double the cost of reading a counter.
#[repr(transparent)]
pub(crate) struct Word(AtomicU64);

impl Word {
    /// Returns a word with the value 0.
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

    /// Stores the value. A CPU that [acquires](Self::acquire) it sees all earlier writes of this CPU, too.
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

    /// Subtracts one.
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

    /// Gives the bits of `mask` the values that they have in `value`.
    pub(crate) fn set_masked(&self, mask: u64, value: u64) {
        self.insert(mask & value);
        self.remove(mask & !value);
    }

    /// Stores `new` if the word still holds `old`. Returns whether `new` was stored.
    #[inline(always)]
    pub(crate) fn replace(&self, old: u64, new: u64) -> bool {
        self.0.compare_exchange(old, new, Relaxed, Relaxed).is_ok()
    }
}

/// An optional [`CounterId`]. All bits zero: no counter.
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

/// An optional reference to the PMU of a CPU. All bits zero: no PMU.
///
/// ATOMICS: relaxed, as [`Word`], since the PMU that the pointer points to is never changed.
///
/// # Invariants
///
/// The pointer is null, or points to a `Pmu` that is never freed or changed.
pub(crate) struct PmuCell(AtomicPtr<Pmu>);

impl PmuCell {
    /// Returns the PMU.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&'static Pmu> {
        // SAFETY: `as_ref` requires a pointer that is null or valid, and a value that is not
        // changed: by the invariant of `PmuCell` the PMU is never freed or changed.
        unsafe { self.0.load(Relaxed).as_ref() }
    }

    /// Sets the PMU.
    pub(crate) fn set(&self, pmu: Option<&'static Pmu>) {
        let pmu = pmu.map_or(ptr::null(), ptr::from_ref);
        // INVARIANT: A `&'static Pmu` is valid for ever, and only shared references are made of it.
        self.0.store(pmu.cast_mut(), Relaxed);
    }
}

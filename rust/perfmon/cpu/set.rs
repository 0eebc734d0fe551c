// SPDX-License-Identifier: GPL-2.0-only
//! Sets of CPUs.

use core::ops::Range;
use kernel::{bindings, cpu::CpuId, cpumask::Cpumask};

/// The number of 64-bit words in a CPU mask.
const MASK_WORDS: usize = bindings::NR_CPUS.div_ceil(u64::BITS) as usize;

/// A set of CPUs.
///
/// The mask is a part of the value: a `CpumaskVar` may need an allocation, which a constant can't make. With 8192 CPUs
/// the mask takes a kilobyte, so a set is never put on a stack.
pub(crate) struct CpuSet {
    mask: bindings::cpumask,
    /// The CPU in the set, if there is exactly one.
    only_cpu: Option<CpuId>,
}

impl CpuSet {
    /// The empty set.
    pub(crate) const fn new() -> Self {
        Self {
            mask: bindings::cpumask {
                bits: [0; MASK_WORDS],
            },
            only_cpu: None,
        }
    }

    /// Returns the set as the kernel's `struct cpumask`.
    pub(crate) fn as_raw(&self) -> *const bindings::cpumask {
        &self.mask
    }

    fn mask(&self) -> &Cpumask {
        // SAFETY: `from_raw` requires a mask that is valid and unchanged while the result lives: the pointer comes from
        // a shared reference with the lifetime of the result.
        unsafe { Cpumask::from_raw(&self.mask) }
    }

    fn mask_mut(&mut self) -> &mut Cpumask {
        // SAFETY: `from_raw_mut` requires a mask that is valid and that nothing else uses while the result lives: the
        // pointer comes from a mutable reference with the lifetime of the result.
        unsafe { Cpumask::from_raw_mut(&mut self.mask) }
    }

    /// Returns the CPU in the set, if there is exactly one.
    #[inline(always)]
    pub(crate) fn only_cpu(&self) -> Option<CpuId> {
        self.only_cpu
    }

    /// Returns whether a CPU is in the set. Does not use `Cpumask::test`, which costs a function call for each CPU.
    #[inline]
    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        let n = cpu.as_u32();
        let word = self.mask.bits[(n / u64::BITS) as usize];
        word >> (n % u64::BITS) & 1 != 0
    }

    /// Adds a CPU.
    pub(crate) fn add(&mut self, cpu: CpuId) {
        self.mask_mut().set(cpu);
        self.update_only_cpu();
    }

    /// Removes a CPU. Returns whether the CPU was in the set.
    pub(crate) fn remove(&mut self, cpu: CpuId) -> bool {
        let removed = self.contains(cpu);
        self.mask_mut().clear(cpu);
        self.update_only_cpu();
        removed
    }

    fn update_only_cpu(&mut self) {
        self.only_cpu = if self.mask().weight() == 1 {
            self.iter().next()
        } else {
            None
        };
    }

    /// Moves all CPUs of another set into this set.
    pub(crate) fn append(&mut self, other: &mut Self) {
        for cpu in super::possible_cpus() {
            if other.remove(cpu) {
                self.add(cpu);
            }
        }
    }

    /// Returns the CPUs in the set, lowest first.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        super::possible_cpus().filter(|&cpu| self.contains(cpu))
    }

    /// Returns the CPUs in the set whose numbers are in `range`, lowest first.
    pub(crate) fn in_range<'a>(
        &'a self,
        range: &'a Range<u32>,
    ) -> impl Iterator<Item = CpuId> + 'a {
        self.iter().filter(|cpu| range.contains(&cpu.as_u32()))
    }
}

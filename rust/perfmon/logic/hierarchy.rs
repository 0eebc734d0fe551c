// SPDX-License-Identifier: GPL-2.0-only
//! The hierarchies of cgroups, and the levels in them.

/// A hierarchy of cgroups. A task has one cgroup in each hierarchy.
#[derive(Clone, Copy)]
pub enum Hierarchy {
    /// The hierarchy of version 2.
    Version2,
    /// The hierarchy of version 1 that has perf's controller. Some machines have no such hierarchy.
    Version1,
}

/// A value for each hierarchy.
pub struct PerHierarchy<T> {
    /// The value for [`Hierarchy::Version2`].
    pub version_2: T,
    /// The value for [`Hierarchy::Version1`].
    pub version_1: T,
}

impl<T> PerHierarchy<T> {
    /// Returns the value for a hierarchy.
    pub const fn get(&self, hierarchy: Hierarchy) -> &T {
        match hierarchy {
            Hierarchy::Version2 => &self.version_2,
            Hierarchy::Version1 => &self.version_1,
        }
    }

    /// Returns the values for all hierarchies.
    pub const fn all(&self) -> [&T; 2] {
        [&self.version_2, &self.version_1]
    }
}

/// The deepest level of a cgroup that can have events; the root has level 0. A switch between two cgroups exchanges the
/// contexts of all their levels with interrupts off. The limit bounds the time of this exchange, since a user may nest
/// cgroups as deeply as memory allows.
pub const MAX_LEVEL: u64 = 32;

/// Some levels of a task's cgroups, the deepest first.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    /// The levels that [`Iterator::next`] has not returned yet, as a mask.
    mask: u64,
}

impl Levels {
    /// Returns the levels of the mask `levels` that are not deeper than `deepest`.
    #[inline(always)]
    #[must_use]
    pub const fn up_to(deepest: u64, levels: u64) -> Self {
        let shift = if deepest < MAX_LEVEL {
            MAX_LEVEL - deepest
        } else {
            0
        };
        Self {
            mask: levels & (ALL_LEVELS >> shift),
        }
    }

    /// Returns the deepest of the levels that [`Iterator::next`] has not returned; 0 if there is none.
    #[inline(always)]
    #[must_use]
    pub const fn deepest(&self) -> u64 {
        (self.mask | 1).ilog2() as u64
    }
}

/// The levels from 0 to [`MAX_LEVEL`], as a mask.
const ALL_LEVELS: u64 = (2 << MAX_LEVEL) - 1;

impl Iterator for Levels {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        let level = self.mask.checked_ilog2()?;
        self.mask &= !(1 << level);
        Some(level.into())
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(perfmon_hierarchy))]
mod tests {
    use super::*;

    #[test]
    fn levels_of_a_mask_are_returned_the_deepest_first() {
        let masks = [
            0,
            1,
            2,
            0b1010,
            1 << MAX_LEVEL,
            1 << MAX_LEVEL | 1,
            ALL_LEVELS,
        ];
        for deepest in [0, 1, 2, 3, 31, 32, 33, 63, 64, 1000] {
            for mask in masks {
                let has_level = |level: &u64| mask >> level & 1 != 0;
                let expected = (0..=deepest.min(MAX_LEVEL)).rev().filter(has_level);
                let levels = Levels::up_to(deepest, mask);
                assert_eq!(levels.deepest(), expected.clone().next().unwrap_or(0));
                assert!(levels.eq(expected));
            }
        }
    }
}

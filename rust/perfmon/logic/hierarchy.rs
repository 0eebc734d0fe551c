// SPDX-License-Identifier: GPL-2.0-only
//! The hierarchies of cgroups.

/// A hierarchy of cgroups. A task has one cgroup in each.
#[derive(Clone, Copy)]
pub enum Hierarchy {
    /// The hierarchy of version 2.
    Version2,
    /// The hierarchy of version 1 that has perf's controller. There may be none.
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
    pub const fn of(&self, hierarchy: Hierarchy) -> &T {
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

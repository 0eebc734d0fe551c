// SPDX-License-Identifier: MIT OR Apache-2.0
//! The differences between the module's core and Linux's.

/// The core that is compared, and the differences found so far.
pub(super) struct CoreDifferences<'a> {
    pub(super) name: &'a str,
    pub(super) messages: &'a mut Vec<String>,
}

impl CoreDifferences<'_> {
    /// Adds a message if the module and Linux differ in a property.
    pub(super) fn compare<T: std::fmt::Debug + PartialEq>(
        &mut self,
        property: &str,
        ours: &T,
        linux: &T,
    ) {
        if ours != linux {
            self.messages.push(format!(
                "{}, {property}: {ours:x?} here, {linux:x?} in Linux",
                self.name
            ));
        }
    }
}

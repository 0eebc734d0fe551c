// SPDX-License-Identifier: MIT OR Apache-2.0
//! The differences between the module's core and Linux's.

/// The core that is compared, and the differences found so far.
pub(super) struct CoreDifferences<'a> {
    pub(super) name: &'a str,
    pub(super) messages: &'a mut Vec<String>,
}

impl CoreDifferences<'_> {
    pub(super) fn compare<T: std::fmt::Debug + PartialEq>(
        &mut self,
        what: &str,
        ours: &T,
        linux: &T,
    ) {
        if ours != linux {
            self.messages.push(format!(
                "{}, {what}: {ours:x?} here, {linux:x?} in Linux",
                self.name
            ));
        }
    }
}

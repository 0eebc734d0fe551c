// SPDX-License-Identifier: MIT OR Apache-2.0
//! The name of an event.

use std::fmt;
use std::sync::Arc;

use super::Encoding;

/// An event's encoding and name: the name that the caller used, or else the encoding's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLabel {
    encoding: Encoding,
    /// The caller's name. The type is not `Arc<str>`, whose pointer has two words, because labels
    /// are parts of errors, and errors should be small.
    text: Option<Arc<String>>,
}

impl EventLabel {
    /// Creates a label with the encoding's own name.
    pub(crate) fn new(encoding: Encoding) -> Self {
        let text = None;
        Self { encoding, text }
    }

    /// Returns the label with `text` as the name.
    pub(super) fn with_name(self, text: &str) -> Self {
        Self {
            text: Some(Arc::new(text.to_owned())),
            ..self
        }
    }

    /// Returns the encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns whether the caller named the event `name`.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.text.as_ref().is_some_and(|text| **text == name)
    }
}

impl fmt::Display for EventLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => self.encoding.fmt(f),
        }
    }
}

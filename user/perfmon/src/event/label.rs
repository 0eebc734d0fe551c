// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an event is called.

use std::fmt;
use std::sync::Arc;

use super::Encoding;

/// An event with its name: the one that it was asked for by, or else that of its encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLabel {
    encoding: Encoding,
    text: Option<Arc<str>>,
}

impl EventLabel {
    /// The name that the encoding has.
    pub(super) fn new(encoding: Encoding) -> Self {
        let text = None;
        Self { encoding, text }
    }

    /// The same event, called `text`.
    pub(super) fn called(self, text: &str) -> Self {
        Self {
            text: Some(text.into()),
            ..self
        }
    }

    /// Returns the encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns whether it is called `name`.
    pub(super) fn is(&self, name: &str) -> bool {
        self.text.as_deref() == Some(name)
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

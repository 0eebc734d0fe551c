// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in the text after `-e`, shown with a caret under the mistake.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// A mistake in a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The byte range of the mistake in the text.
    pub(super) span: Range<usize>,
    /// Description of the mistake.
    pub(super) message: String,
    pub(super) help: Option<Advice>,
    /// The reason why this CPU lacks the event, if the text itself is correct.
    pub(super) missing_reason: Option<String>,
}

/// Advice on what to write instead of a mistake. The text is made when it is read for the first time.
#[derive(Clone, Debug)]
pub(super) struct Advice(Arc<LazyLock<String, MakeText>>);

type MakeText = Box<dyn FnOnce() -> String + Send + Sync>;

impl Advice {
    /// Creates advice whose text takes long to make: many callers try words that need not be events, and drop the error.
    pub(super) fn lazy(make_text: impl FnOnce() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make_text))))
    }

    fn text(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Advice {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Advice {}

impl<T: Into<String>> From<T> for Advice {
    fn from(text: T) -> Self {
        let text = text.into();
        Self::lazy(|| text)
    }
}

impl Fault {
    /// Creates a fault without advice.
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            help: None,
            missing_reason: None,
        }
    }

    /// Adds advice to the fault.
    pub(super) fn help(self, help: impl Into<Advice>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }

    /// Marks the event as missing on this CPU, for this reason.
    pub(super) fn with_missing_reason(self, reason: impl Into<String>) -> Self {
        Self {
            missing_reason: Some(reason.into()),
            ..self
        }
    }

    /// Converts the fault to an error that shows the fault's place in the whole text.
    pub(super) fn into_error(self, text: &str) -> SpecError {
        SpecError {
            spec: text.to_owned(),
            fault: self,
        }
    }
}

/// A mistake in a text that names events, or an event that the CPU lacks. Its display form has several lines: the
/// message, the text with a caret under the mistake, and advice.
///
/// ```
/// use perfmon::{Pmu, spec};
///
/// let error = spec::parse("r1c0,instrucions:u", &Pmu::of_this_cpu()).unwrap_err();
/// assert_eq!(error.message(), "no event is called `instrucions`");
/// assert_eq!(error.help(), Some("Did you mean `instructions`?"));
/// assert_eq!(error.span(), 5..16);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The text that was parsed.
    spec: String,
    fault: Fault,
}

impl SpecError {
    /// Returns the description of the mistake, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.fault.message
    }

    /// Returns advice on what to write instead.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.fault.help.as_ref().map(Advice::text)
    }

    /// Returns the byte range of the mistake in the text.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.fault.span.clone()
    }

    /// Returns the reason why the CPU lacks the event, in sentences; `None` if the text is wrong.
    #[must_use]
    pub fn absent(&self) -> Option<&str> {
        self.fault.missing_reason.as_deref()
    }

    /// Returns whether the text is correct, but the CPU lacks the event.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.fault.missing_reason.is_some()
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault {
            span,
            message,
            help,
            ..
        } = &self.fault;
        // Replaces tabs and line breaks: the caret's column counts characters, and they would move
        // the caret to a wrong place.
        let printable_text: String = self
            .spec
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let column = self.spec[..span.start].chars().count();
        let carets = self.spec[span.clone()].chars().count().max(1);
        writeln!(f, "{message}")?;
        writeln!(f, "  {printable_text}")?;
        // Uses `repeat`, because the width in a format is limited to 65535.
        write!(f, "  {}{}", " ".repeat(column), "^".repeat(carets))?;
        match help {
            Some(help) => write!(f, "\n{}", help.text()),
            None => Ok(()),
        }
    }
}

impl std::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_under_the_place() {
        let error = Fault::new(3..5, "wrong")
            .help("do right")
            .into_error("ab\tcd,e");
        assert_eq!(error.to_string(), "wrong\n  ab cd,e\n     ^^\ndo right");
    }

    #[test]
    fn a_long_text_has_its_caret() {
        let text = "a".repeat(70_000);
        let error = Fault::new(69_999..70_000, "wrong").into_error(&text);
        let lines = error.to_string();
        let caret = lines.lines().last().map(str::len);
        assert_eq!(caret, Some("  ".len() + text.len()));
    }

    #[test]
    fn an_end_that_is_missing_gets_one_caret() {
        let error = Fault::new(2..2, "something is missing").into_error("é");
        assert_eq!(error.to_string(), "something is missing\n  é\n   ^");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mistake in the text after `-e`, shown where it is.

use std::fmt;
use std::ops::Range;

/// A mistake in a part of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The bytes of the text that are wrong.
    pub(crate) span: Range<usize>,
    /// Description of the mistake.
    pub(crate) message: String,
    /// Advice on what to write instead.
    pub(crate) help: Option<String>,
    /// The text is right, but this CPU lacks the event.
    pub(crate) absent: bool,
}

impl Fault {
    /// A fault without advice.
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            help: None,
            absent: false,
        }
    }

    /// The same with advice.
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..self
        }
    }

    /// The same of a CPU that does not have the event.
    pub(crate) fn absent(self) -> Self {
        Self {
            absent: true,
            ..self
        }
    }

    /// The fault with the text that it is in.
    pub(crate) fn within(self, text: &str) -> EventError {
        EventError {
            text: text.to_owned(),
            fault: self,
        }
    }
}

/// A fault and the text that it is in.
#[derive(Debug)]
pub(crate) struct EventError {
    text: String,
    fault: Fault,
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault {
            span,
            message,
            help,
            ..
        } = &self.fault;
        // The caret counts characters; a tab or a line's end in the text would move it.
        let shown: String = self
            .text
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let before = self.text[..span.start].chars().count();
        let carets = self.text[span.clone()].chars().count().max(1);
        writeln!(f, "{message}")?;
        writeln!(f, "  {shown}")?;
        write!(f, "  {:before$}{:^<carets$}", "", "")?;
        match help {
            Some(help) => write!(f, "\n{help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for EventError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_is_under_the_place() {
        let error = Fault::new(3..5, "wrong")
            .help("do right")
            .within("ab\tcd,e");
        assert_eq!(error.to_string(), "wrong\n  ab cd,e\n     ^^\ndo right");
    }

    #[test]
    fn an_end_that_is_missing_gets_one_caret() {
        let error = Fault::new(2..2, "something is missing").within("é");
        assert_eq!(error.to_string(), "something is missing\n  é\n   ^");
    }
}

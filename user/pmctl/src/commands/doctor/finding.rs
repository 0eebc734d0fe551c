// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of a check.

/// Result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) text: String,
    pub(super) fix: Option<String>,
}

/// The consequence of a finding: whether counting works in spite of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The check found no obstacle.
    Good,
    /// The finding is of interest, and does not prevent counting.
    Note,
    /// The finding prevents counting.
    Bad,
    /// The check could not be made.
    Unknown,
}

impl Verdict {
    /// Returns the word in front of the finding.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Bad => "FAIL",
            Self::Unknown => "?",
        }
    }
}

impl Finding {
    fn new(verdict: Verdict, text: impl Into<String>) -> Self {
        Self {
            verdict,
            text: text.into(),
            fix: None,
        }
    }

    pub(super) fn good(text: impl Into<String>) -> Self {
        Self::new(Verdict::Good, text)
    }

    pub(super) fn note(text: impl Into<String>) -> Self {
        Self::new(Verdict::Note, text)
    }

    pub(super) fn bad(text: impl Into<String>) -> Self {
        Self::new(Verdict::Bad, text)
    }

    pub(super) fn unknown(text: impl Into<String>) -> Self {
        Self::new(Verdict::Unknown, text)
    }

    /// Adds advice on what to do.
    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self {
            fix: Some(fix.into()),
            ..self
        }
    }
}

/// Returns the finding, which `Ok` and `Err` have. `Err` has the finding of a check that ended
/// early because a file can't be read.
pub(super) fn finding_or_early(finding: Result<Finding, Finding>) -> Finding {
    finding.unwrap_or_else(|early| early)
}

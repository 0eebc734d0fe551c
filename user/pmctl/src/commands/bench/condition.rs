// SPDX-License-Identifier: MIT OR Apache-2.0
//! Judging measurements by a condition of --fail-if.

use super::figures::{Interval, change, interval_of_mean};
use crate::args::{Condition, Limit};

impl Condition {
    /// Returns whether it is about a change.
    pub(crate) fn is_relative(&self) -> bool {
        matches!(self.limit, Limit::Change(_))
    }

    /// Returns whether the whole interval lies beyond the limit. A change needs a reference.
    pub(crate) fn holds(&self, reference: Option<&[u64]>, values: &[u64]) -> bool {
        let (Interval { low, high }, limit) = match (self.limit, reference) {
            (Limit::Change(limit), Some(reference)) => (change(reference, values).interval, limit),
            (Limit::Change(_), None) => return false,
            (Limit::Mean(limit), _) => (interval_of_mean(values), limit),
        };
        if self.above {
            low > limit
        } else {
            high < limit
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Condition {
        text.parse().expect("it is well formed")
    }

    #[test]
    fn it_holds_when_chance_does_not_explain_it() {
        let (before, after) = ([1000; 4], [1011; 4]);
        assert!(condition("x>+1%").holds(Some(&before), &after));
        assert!(!condition("x>+1.1%").holds(Some(&before), &after));
        assert!(condition("x<-1%").holds(Some(&after), &before));
        assert!(condition("x>1010").holds(None, &after));
        assert!(!condition("x>1010").holds(None, &before));
        // The mean is 5 % more, and so might it be 5 % less.
        assert!(!condition("x>+1%").holds(Some(&[900, 1100, 1000]), &[950, 1150, 1050]));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions of --fail-if.

use std::str::FromStr;

use super::figures::{Interval, change, interval_of_mean};
use super::{NS, TIME};

/// `EVENT>LIMIT` or `EVENT<LIMIT`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    /// As it was written.
    pub(super) text: String,
    pub(super) event: String,
    above: bool,
    limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// Of the change, as a part: 0.01 for 1 %.
    Change(f64),
    /// Of the mean.
    Mean(f64),
}

impl Condition {
    /// Returns whether it is about a change.
    pub(super) fn is_relative(&self) -> bool {
        matches!(self.limit, Limit::Change(_))
    }

    /// Returns whether the whole interval lies beyond the limit. A change needs a reference.
    pub(super) fn holds(&self, reference: Option<&[u64]>, values: &[u64]) -> bool {
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

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "it takes EVENT>LIMIT or EVENT<LIMIT, as in 'instructions:u>+1%' or 'time>0.5'"
                .to_owned()
        };
        let place = text.rfind(['<', '>']).ok_or_else(wrong)?;
        let (event, limit) = (text[..place].trim(), text[place + 1..].trim());
        let (number, is_relative) = match limit.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (limit, false),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        if event.is_empty() || !number.is_finite() {
            return Err(wrong());
        }
        if !is_relative && limit.starts_with(['+', '-']) {
            return Err(format!(
                "a limit with a sign is a change: is {limit}% meant? Without a sign it is one of the mean"
            ));
        }
        let limit = match (is_relative, event) {
            (true, _) => Limit::Change(number / 100.0),
            (false, TIME) => Limit::Mean(number * NS),
            (false, _) => Limit::Mean(number),
        };
        Ok(Self {
            text: text.to_owned(),
            event: event.to_owned(),
            above: text[place..].starts_with('>'),
            limit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Condition {
        text.parse().expect("it is well formed")
    }

    #[test]
    fn changes_are_in_percent_and_times_in_seconds() {
        assert_eq!(condition("instructions:u>+1%").limit, Limit::Change(0.01));
        assert_eq!(condition("cycles < -2.5 %").limit, Limit::Change(-0.025));
        assert_eq!(condition("cycles < -2.5 %").event, "cycles");
        assert_eq!(condition("cycles>5000").limit, Limit::Mean(5000.0));
        assert_eq!(condition("time>0.5").limit, Limit::Mean(5e8));
        assert!(condition("cpu/event=0xc0/u>1%").above);
    }

    #[test]
    fn what_is_none_is_refused() {
        for wrong in [
            "",
            "cycles",
            ">1%",
            "cycles>",
            "cycles>x%",
            "cycles>+5",
            "cycles>inf%",
        ] {
            assert!(wrong.parse::<Condition>().is_err(), "{wrong}");
        }
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

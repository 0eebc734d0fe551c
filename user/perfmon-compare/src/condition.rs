// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions of --fail-if.

use std::str::FromStr;

use crate::figures::{Interval, change, interval_of_mean};

/// The name of the duration of a run, beside the names of events. Its values are nanoseconds.
pub const TIME: &str = "time";

/// Nanoseconds in a second.
pub const NS: f64 = 1e9;

/// A condition `EVENT>LIMIT` or `EVENT<LIMIT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The condition as the user wrote it.
    pub text: String,
    /// The event, or [`TIME`].
    pub event: String,
    /// The condition holds above the limit (`>`); if unset, below the limit (`<`).
    pub above: bool,
    /// The limit.
    pub limit: Limit,
}

/// A limit of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// A limit of the change, as a fraction: 0.01 for 1 %.
    Change(f64),
    /// A limit of the mean: a count, or nanoseconds for the time.
    Mean(f64),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let syntax_message = || {
            "it takes EVENT>LIMIT or EVENT<LIMIT, as in 'instructions:u>+1%' or 'time>0.5'"
                .to_owned()
        };
        let operator = text.rfind(['<', '>']).ok_or_else(syntax_message)?;
        let (event, limit) = (text[..operator].trim(), text[operator + 1..].trim());
        let (number_text, is_relative) = match limit.strip_suffix('%') {
            Some(number_text) => (number_text.trim_end(), true),
            None => (limit, false),
        };
        let number: f64 = number_text.parse().map_err(|_| syntax_message())?;
        if event.is_empty() || !number.is_finite() {
            return Err(syntax_message());
        }
        if !is_relative && limit.starts_with(['+', '-']) {
            return Err(format!(
                "a limit with a sign is a change and needs a percent sign: {limit}%. For a limit of the mean, leave out the sign"
            ));
        }
        let limit = match (is_relative, event) {
            (true, _) => Limit::Change(fraction_of_percent(number_text, number)),
            (false, TIME) => Limit::Mean(number * NS),
            (false, _) => Limit::Mean(number),
        };
        Ok(Self {
            text: text.to_owned(),
            event: event.to_owned(),
            above: text[operator..].starts_with('>'),
            limit,
        })
    }
}

/// Returns a percentage as a fraction. The fraction is rounded only once, like a change: a limit of
/// 0.7 % equals a change of 7.0 / 1000.0. The quotient 0.7 / 100.0 would be rounded twice, and
/// would be less.
fn fraction_of_percent(text: &str, number: f64) -> f64 {
    // Parsing fails if the number already has an exponent.
    format!("{text}e-2").parse().unwrap_or(number / 100.0)
}

impl Condition {
    /// Returns whether the condition limits a change, not a mean.
    #[must_use]
    pub fn is_relative(&self) -> bool {
        matches!(self.limit, Limit::Change(_))
    }

    /// Returns whether the whole confidence interval lies beyond the limit. A limit of a change never holds without a
    /// reference.
    #[must_use]
    pub fn is_met(&self, reference: Option<&[u64]>, values: &[u64]) -> bool {
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
    fn a_condition_holds_only_if_the_whole_interval_is_beyond_the_limit() {
        let (before, after) = ([1000; 4], [1011; 4]);
        assert!(condition("x>+1%").is_met(Some(&before), &after));
        assert!(!condition("x>+1.1%").is_met(Some(&before), &after));
        assert!(condition("x<-1%").is_met(Some(&after), &before));
        assert!(condition("x>1010").is_met(None, &after));
        assert!(!condition("x>1010").is_met(None, &before));
        for (after, limit) in [(1007, "x>+0.7%"), (1028, "x>2.8%"), (1001, "x>1e-1%")] {
            assert!(
                !condition(limit).is_met(Some(&before), &[after; 4]),
                "{limit}"
            );
        }
        // The mean grows by 5 %, but the interval includes 0.
        assert!(!condition("x>+1%").is_met(Some(&[900, 1100, 1000]), &[950, 1150, 1050]));
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
    fn a_malformed_condition_is_refused() {
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
}

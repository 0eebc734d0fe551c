// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conditions of --fail-if.

use std::str::FromStr;

/// The name of the duration of a run, beside the names of events. Its values are nanoseconds.
pub(crate) const TIME: &str = "time";

/// Nanoseconds in a second.
pub(crate) const NS: f64 = 1e9;

/// `EVENT>LIMIT` or `EVENT<LIMIT`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    /// The condition as the user wrote it.
    pub(crate) text: String,
    pub(crate) event: String,
    pub(crate) above: bool,
    pub(crate) limit: Limit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    /// A limit of the change, as a part: 0.01 for 1 %.
    Change(f64),
    /// A limit of the mean: a count, or nanoseconds for the time.
    Mean(f64),
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
}

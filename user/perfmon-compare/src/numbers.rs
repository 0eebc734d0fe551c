// SPDX-License-Identifier: MIT OR Apache-2.0
//! Formatting of numbers and changes.

use crate::condition::{NS, TIME};
use crate::figures::{Change, change, deviation, is_exact, mean, mean_count};

/// Returns a number with a comma between thousands.
#[must_use]
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a mean, with the unit of a time.
#[must_use]
pub fn format_mean(is_time: bool, values: &[u64]) -> String {
    let mean = mean(values);
    if is_time {
        return format_duration(mean / NS);
    }
    if mean < 100.0 && !is_exact(values) {
        return format!("{mean:.1}");
    }
    let counts = values.iter().copied().map(Some);
    thousands(mean_count(counts).unwrap_or(0))
}

/// Formats the spread of the runs: the standard deviation as a percentage of the mean, or `exact`.
#[must_use]
pub fn format_spread(values: &[u64]) -> String {
    if is_exact(values) {
        return "exact".to_owned();
    }
    if values.len() < 2 {
        return "1 run".to_owned();
    }
    let mean = mean(values);
    let part = if mean > 0.0 {
        deviation(values) / mean
    } else {
        0.0
    };
    format!("\u{b1} {}", percent(part))
}

/// Formats a change in percent.
#[must_use]
pub fn format_change(change: Change) -> String {
    if change.part.is_infinite() {
        return "from 0".to_owned();
    }
    if change.part == 0.0 && !is_wide(change) {
        return "none".to_owned();
    }
    signed(change.part)
}

/// Formats the interval of a change; an empty text if its ends are equal.
#[must_use]
pub fn format_interval(change: Change) -> String {
    if !is_wide(change) {
        return String::new();
    }
    let text = format!(
        "{} to {}",
        signed(change.interval.low),
        signed(change.interval.high)
    );
    if change.is_significant() {
        text
    } else {
        format!("{text}, may be none")
    }
}

fn is_wide(change: Change) -> bool {
    change.interval.low < change.interval.high
}

/// Returns the end of a sentence about a command: its mean, or both means and their change.
#[must_use]
pub fn describe_change(event: &str, before: Option<&[u64]>, values: &[u64]) -> String {
    let mean_now = format_mean(event == TIME, values);
    let Some(before) = before else {
        return format!("{event} is {mean_now}");
    };
    let change = change(before, values);
    let interval = match format_interval(change) {
        none if none.is_empty() => none,
        interval => format!(" ({interval})"),
    };
    format!(
        "{event} went from {} to {mean_now}, {}{interval}",
        format_mean(event == TIME, before),
        format_change(change),
    )
}

/// Formats a fraction in percent, with its sign. An infinite fraction is shown as ∞.
fn signed(part: f64) -> String {
    let sign = if part < 0.0 { "-" } else { "+" };
    if part.is_infinite() {
        return format!("{sign}\u{221e}");
    }
    format!("{sign}{}", percent(part.abs()))
}

/// Formats a fraction in percent, with three significant digits.
fn percent(part: f64) -> String {
    /// If the number is below one of these limits, each such limit adds one digit after the decimal
    /// point.
    const DIGIT_LIMITS: [f64; 9] = [100.0, 10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6];
    let number = 100.0 * part;
    let below = DIGIT_LIMITS
        .iter()
        .filter(|limit| number < **limit && number > 0.0);
    let digits = below.count();
    format!("{number:.digits$}%")
}

/// Formats seconds in s, ms or µs.
fn format_duration(seconds: f64) -> String {
    let (number, unit) = match seconds {
        long if long >= 1.0 => (long, "s"),
        middle if middle >= 1e-3 => (middle * 1e3, "ms"),
        short => (short * 1e6, "\u{b5}s"),
    };
    format!("{number:.2} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_are_between_thousands() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1000), "1,000");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn percentages_have_three_significant_digits() {
        let texts = [0.5, 0.0123, 0.000_001_234, 12.0, 0.0].map(percent);
        assert_eq!(texts, ["50.0%", "1.23%", "0.000123%", "1200%", "0%"]);
        assert_eq!(signed(-0.0123), "-1.23%");
    }

    #[test]
    fn times_have_units() {
        assert_eq!(format_duration(1.5), "1.50 s");
        assert_eq!(format_duration(0.0123), "12.30 ms");
        assert_eq!(format_duration(0.000_045), "45.00 \u{b5}s");
    }

    #[test]
    fn a_sentence_has_the_change() {
        let words = describe_change("instructions:u", Some(&[1000; 3]), &[1020; 3]);
        assert_eq!(words, "instructions:u went from 1,000 to 1,020, +2.00%");
        let words = describe_change("cycles", Some(&[900, 1100]), &[950, 1050]);
        assert!(words.ends_with("may be none)"), "{words}");
        assert_eq!(describe_change(TIME, None, &[2_000_000]), "time is 2.00 ms");
        assert_eq!(
            describe_change("x", Some(&[0]), &[5]),
            "x went from 0.0 to 5.0, from 0"
        );
    }

    #[test]
    fn an_interval_with_an_infinite_end_is_shown() {
        let change_of = |before: &[u64], after: &[u64]| {
            let change = change(before, after);
            (format_change(change), format_interval(change))
        };
        let (part, interval) = change_of(&[0, 0, 3], &[1, 1, 1]);
        assert_eq!(
            (&part[..], &interval[..]),
            ("+0%", "-66.7% to +\u{221e}, may be none")
        );
        let (part, interval) = change_of(&[0, 0], &[0, 5]);
        assert_eq!(
            (&part[..], &interval[..]),
            ("from 0", "+0% to +\u{221e}, may be none")
        );
        let (part, interval) = change_of(&[0, 0], &[5, 5]);
        assert_eq!((&part[..], &interval[..]), ("from 0", ""));
    }
}

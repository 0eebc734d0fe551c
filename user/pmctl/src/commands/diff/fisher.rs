// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests whether a difference is significant: Fisher's exact test for shares, and the binomial test for counts.

/// The level of significance of a whole table.
pub(super) const SIGNIFICANCE_LEVEL: f64 = 0.05;

/// Returns the logarithm of n!.
fn ln_factorial(n: u64) -> f64 {
    const MAX_SUMMED_FACTORIAL: u64 = 16;
    if n < MAX_SUMMED_FACTORIAL {
        return (2..=n).map(|k| (k as f64).ln()).sum();
    }
    // Stirling's series. The omitted terms are below 1e-11 for n >= 16.
    let x = n as f64;
    let tail = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    x * x.ln() - x + 0.5 * (std::f64::consts::TAU * x).ln() + tail
}

/// Returns the logarithm of the number of ways to choose `k` of `n`.
fn ln_choose(n: u64, k: u64) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// Returns the number of low bits by which a test shortens numbers of samples; `largest` is the
/// largest of these numbers. The time of a test grows with the square root of the numbers, and
/// their sums must not overflow. Shorter numbers give a difference a larger p-value: the test may
/// miss a small difference, but never reports a false one.
fn excess_bits(largest: u64) -> u32 {
    const TESTED_BITS: u32 = 32;
    (u64::BITS - largest.leading_zeros()).saturating_sub(TESTED_BITS)
}

/// Returns the two-sided p-value of Fisher's exact test. The tested row has `a.0` of the `a.1` samples of recording A,
/// and `b.0` of the `b.1` samples of recording B.
pub(super) fn p_value(a: (u64, u64), b: (u64, u64)) -> f64 {
    let [a, b] = [a, b].map(|(row, total)| {
        let shift = excess_bits(total);
        (row >> shift, total >> shift)
    });
    let row_samples = a.0 + b.0;
    let total = a.1 + b.1;
    if row_samples == 0 || row_samples == total || a.1 == 0 || b.1 == 0 {
        return 1.0;
    }
    // The probability of the table with k samples of A in the row, among all tables with these sums.
    let ln_probability = |k: u64| {
        ln_choose(a.1, k) + ln_choose(b.1, row_samples - k) - ln_choose(total, row_samples)
    };
    let least = row_samples.saturating_sub(b.1);
    let most = row_samples.min(a.1);
    let expected = u128::from(row_samples) * u128::from(a.1) / u128::from(total);
    let mode = u64::try_from(expected).map_or(most, |expected| expected.clamp(least, most));
    two_sided_p_value(ln_probability, (least, mode, most), a.0)
}

/// Returns the two-sided p-value of the exact binomial test of two counts. Recording A has `a.0`
/// samples with a period of `a.1` events, and recording B has `b.0` samples with a period of `b.1`
/// events. The null hypothesis is that A and B have the same number of events; the periods then
/// determine the probability that a sample is of A.
pub(super) fn p_value_of_counts(a: (u64, u64), b: (u64, u64)) -> f64 {
    let shift = excess_bits(a.0.max(b.0));
    let [a, b] = [a, b].map(|(samples, period)| (samples >> shift, period));
    let samples = a.0 + b.0;
    if samples == 0 || a.1 == 0 || b.1 == 0 {
        return 1.0;
    }
    let probability_of_a = b.1 as f64 / (a.1 as f64 + b.1 as f64);
    let ln_probability = |k: u64| {
        ln_choose(samples, k)
            + k as f64 * probability_of_a.ln()
            + (samples - k) as f64 * (1.0 - probability_of_a).ln()
    };
    let expected = u128::from(samples) * u128::from(b.1) / (u128::from(a.1) + u128::from(b.1));
    let mode = u64::try_from(expected).map_or(samples, |expected| expected.min(samples));
    two_sided_p_value(ln_probability, (0, mode, samples), a.0)
}

/// Returns the total probability of all outcomes that are at most as probable as the observed one. Outcomes are the
/// numbers from `least` to `most`. `ln` returns the logarithm of an outcome's probability. The probability must fall on
/// both sides of the most probable outcome.
fn two_sided_p_value(
    ln: impl Fn(u64) -> f64,
    (least, mode, most): (u64, u64, u64),
    observed: u64,
) -> f64 {
    // The margin keeps tables that are as probable as the observed one, in spite of rounding.
    let limit = ln(observed) + 1e-9;
    // On each side of the mode there is a bound beyond which outcomes are at most as probable as the observed one.
    let left_end = partition_point(least, mode + 1, |k| ln(k) <= limit);
    let right_end = partition_point(mode + 1, most + 1, |k| ln(k) > limit);
    // Terms below e^-40 of the observed one change no digit of the sum.
    let terms = |ks: &mut dyn Iterator<Item = u64>| -> f64 {
        let logarithms = ks.map(&ln).take_while(|ln| *ln > limit - 40.0);
        logarithms.map(f64::exp).sum()
    };
    let sum = terms(&mut (least..left_end).rev()) + terms(&mut (right_end..=most));
    sum.min(1.0)
}

/// Returns the first number from `start` to `end`, exclusive, for which the condition does not hold; `end` if it holds
/// for all. The condition must not hold again for a larger number.
fn partition_point(mut start: u64, mut end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

/// Returns which p-values are significant by Holm's method, at [`SIGNIFICANCE_LEVEL`] for all of them together.
pub(super) fn are_significant(p_values: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut result = vec![false; p_values.len()];
    for (rank, index) in order.into_iter().enumerate() {
        if p_values[index] > SIGNIFICANCE_LEVEL / (p_values.len() - rank) as f64 {
            break;
        }
        result[index] = true;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs()
    }

    /// The expected values are those of R's `fisher.test`.
    #[test]
    fn p_values_are_those_of_r() {
        assert!(near(p_value((1, 10), (11, 14)), 0.002_759_456_185));
        assert!(near(p_value((3, 4), (1, 4)), 0.485_714_285_7));
        assert!(near(p_value((0, 5), (5, 5)), 0.007_936_507_937));
        assert!((p_value((5, 10), (5, 10)) - 1.0).abs() < 1e-9);
        assert!((p_value((0, 10), (0, 10)) - 1.0).abs() < 1e-9);
    }

    /// The expected values are those of R's `binom.test`.
    #[test]
    fn p_values_of_counts_are_those_of_r() {
        assert!(near(p_value_of_counts((10, 1), (2, 1)), 0.038_574_218_75));
        // The same number of events in both: B has half the samples, with twice the period.
        assert!((p_value_of_counts((100, 1000), (50, 2000)) - 1.0).abs() < 1e-9);
        assert!(near(p_value_of_counts((0, 1), (5, 1)), 0.0625));
        assert!((p_value_of_counts((0, 1), (0, 1)) - 1.0).abs() < 1e-9);
        assert!((p_value_of_counts((7, 1), (7, 1)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn p_value_of_many_samples_matches_the_normal_distribution() {
        // z = 3: two-sided 0.0027.
        let p = p_value((500_000, 1_000_000), (502_121, 1_000_000));
        assert!((p - 0.0027).abs() < 0.0001, "{p}");
        assert!(p_value((100_000, 1_000_000), (200_000, 1_000_000)) < 1e-100);
    }

    #[test]
    fn any_numbers_of_samples_can_be_tested() {
        const MAX: u64 = u64::MAX;
        assert!(p_value((MAX / 2, MAX), (MAX / 2, MAX)) > 0.99);
        assert!(p_value((MAX / 2, MAX), (MAX / 3, MAX)) < 1e-100);
        assert!(p_value((MAX / 2, MAX), (5, 10)) > 0.99);
        assert!(p_value_of_counts((MAX, 1), (MAX, 1)) > 0.99);
        assert!(p_value_of_counts((MAX, 1), (MAX / 2, 1)) < 1e-100);
        assert!(p_value_of_counts((MAX, MAX), (MAX, MAX)) > 0.99);
    }

    #[test]
    fn equal_programs_are_rarely_significant() {
        // All outcomes of a small experiment with its true probability.
        let (n, share) = (12, 0.3_f64);
        let weight = |k: u64| {
            let (inside, outside) = (k as f64, (n - k) as f64);
            ln_choose(n, k).exp() * share.powf(inside) * (1.0 - share).powf(outside)
        };
        let outcomes = (0..=n).flat_map(|a| (0..=n).map(move |b| (a, b)));
        let wrong_outcomes =
            outcomes.filter(|(a, b)| p_value((*a, n), (*b, n)) <= SIGNIFICANCE_LEVEL);
        let wrong_probability: f64 = wrong_outcomes.map(|(a, b)| weight(a) * weight(b)).sum();
        assert!(
            wrong_probability <= SIGNIFICANCE_LEVEL,
            "{wrong_probability}"
        );
    }

    #[test]
    fn more_rows_need_smaller_p_values() {
        assert_eq!(are_significant(&[0.04]), [true]);
        assert_eq!(are_significant(&[0.04, 0.5]), [false, false]);
        assert_eq!(are_significant(&[0.04, 0.02]), [true, true]);
        assert_eq!(are_significant(&[0.03, 0.9, 0.001]), [false, false, true]);
        assert_eq!(are_significant(&[]), [false; 0]);
    }
}

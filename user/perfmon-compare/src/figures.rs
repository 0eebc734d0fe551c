// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of the runs of a command: mean, deviation, and the change with its interval (bootstrap).

/// The number of resamples of an interval. A resample is the mean or the change of runs that are
/// drawn at random.
const RESAMPLES: usize = 10_000;

/// The number of resamples cut off at each end of an interval: 2.5 %, which leaves 95 %.
const TAIL_RESAMPLES: usize = RESAMPLES / 40;

/// A 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A change of the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The change as a fraction of the mean before: 0.01 is 1 % more. It is infinite if the mean before is 0.
    pub part: f64,
    /// The confidence interval of `part`. The two ends of the interval are equal if all earlier
    /// runs have the same value, and all later runs have the same value.
    pub interval: Interval,
}

impl Change {
    /// Returns whether the change is significant: its interval does not include 0.
    #[must_use]
    pub fn is_significant(self) -> bool {
        self.interval.low > 0.0 || self.interval.high < 0.0
    }
}

/// Returns the mean; 0 without values.
#[must_use]
pub fn mean(values: &[u64]) -> f64 {
    let sum: u128 = values.iter().copied().map(u128::from).sum();
    sum as f64 / values.len().max(1) as f64
}

/// Returns the mean, rounded; `None` without values, or if a value is missing.
#[must_use]
pub fn mean_count(counts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let counts: Vec<u64> = counts.into_iter().collect::<Option<_>>()?;
    let sum: u128 = counts.iter().copied().map(u128::from).sum();
    let n = counts.len() as u128;
    // The mean of 64-bit numbers fits into 64 bits.
    u64::try_from((sum + n / 2).checked_div(n)?).ok()
}

/// Returns the standard deviation; 0 for fewer than two values.
#[must_use]
pub fn deviation(values: &[u64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    let squares = values.iter().map(|value| (*value as f64 - mean).powi(2));
    (squares.sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

/// Returns whether there are several runs, and all have the same value.
#[must_use]
pub fn is_exact(values: &[u64]) -> bool {
    values.len() > 1 && values.iter().all(|value| *value == values[0])
}

/// The smallest number of runs of a varying count from which an interval says something. That of one run has no width, and
/// two runs are equal or close by chance.
pub const LEAST_RUNS: usize = 3;

/// Returns the index of the first side whose runs are too few for a verdict; `None` if all sides have enough.
///
/// A side needs [`LEAST_RUNS`] runs unless it is [exact](is_exact). If `repeats` is true, a program that does the same has
/// the same count in each run: then one run is enough, as long as no side shows that the program varies.
#[must_use]
pub fn side_with_too_few_runs(sides: &[&[u64]], repeats: bool) -> Option<usize> {
    let varies = sides.iter().any(|runs| runs.len() > 1 && !is_exact(runs));
    let has_enough = |runs: &&[u64]| {
        let is_repeated = repeats && !varies && runs.len() == 1;
        runs.len() >= LEAST_RUNS || is_exact(runs) || is_repeated
    };
    sides.iter().position(|runs| !has_enough(runs))
}

/// Returns the change of the mean, with its confidence interval.
#[must_use]
pub fn change(before: &[u64], after: &[u64]) -> Change {
    let ratio = |before: f64, after: f64| match (before == 0.0, after == 0.0) {
        (true, true) => 0.0,
        (true, false) => f64::INFINITY,
        _ => (after - before) / before,
    };
    let mut random = fastrand::Rng::with_seed(0);
    Change {
        part: ratio(mean(before), mean(after)),
        interval: interval(|| {
            let before = resampled_mean(before, &mut random);
            ratio(before, resampled_mean(after, &mut random))
        }),
    }
}

/// Returns the interval of the mean.
#[must_use]
pub fn interval_of_mean(values: &[u64]) -> Interval {
    let mut random = fastrand::Rng::with_seed(0);
    interval(|| resampled_mean(values, &mut random))
}

/// Returns the interval that contains 95 % of the resamples.
fn interval(mut resample: impl FnMut() -> f64) -> Interval {
    let mut resamples: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    resamples.sort_by(f64::total_cmp);
    Interval {
        low: resamples[TAIL_RESAMPLES],
        high: resamples[RESAMPLES - 1 - TAIL_RESAMPLES],
    }
}

/// Returns the mean of a resample: of `values.len()` values, each drawn at random from `values`.
fn resampled_mean(values: &[u64], random: &mut fastrand::Rng) -> f64 {
    let sum: u128 = values
        .iter()
        .filter_map(|_| random.choice(values))
        .map(|value| u128::from(*value))
        .sum();
    sum as f64 / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_same(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn whole_means_are_exact_and_rounded() {
        assert_eq!(mean_count([Some(u64::MAX)]), Some(u64::MAX));
        assert_eq!(mean_count([Some(1), Some(2)]), Some(2));
        assert_eq!(mean_count([Some(1), Some(1), Some(2)]), Some(1));
        assert_eq!(mean_count([Some(1), None]), None);
        assert_eq!(mean_count([]), None);
    }

    #[test]
    fn equal_runs_are_exact_and_their_change_is_sure() {
        let (before, after) = ([1000; 5], [1001; 3]);
        assert!(is_exact(&before) && !is_exact(&[7]) && !is_exact(&[7, 8]));
        let change = change(&before, &after);
        assert!(are_same(change.part, 0.001));
        assert!(are_same(change.interval.low, change.interval.high));
        assert!(change.is_significant());
    }

    #[test]
    fn few_runs_are_enough_only_if_they_are_exact() {
        let too_few = side_with_too_few_runs;
        assert_eq!(too_few(&[&[1000], &[1015]], false), Some(0));
        assert_eq!(too_few(&[&[1000, 1001], &[1015; 3]], false), Some(0));
        assert_eq!(too_few(&[&[1000; 2], &[1015]], false), Some(1));
        assert_eq!(
            too_few(&[&[1000, 1001, 1002], &[1015, 1016, 1017]], false),
            None
        );
        assert_eq!(too_few(&[&[1000; 2], &[1015; 2]], false), None);
        assert_eq!(too_few(&[&[1000], &[1015]], true), None);
        assert_eq!(too_few(&[&[1000], &[1015, 1016, 1017]], true), Some(0));
        assert_eq!(too_few(&[&[1000, 1001], &[1015]], true), Some(0));
    }

    #[test]
    fn a_change_within_the_noise_is_not_sure() {
        let before = [100, 110, 90, 105, 95];
        let after = [103, 92, 108, 97, 101];
        let noise = change(&before, &after);
        assert!(
            !noise.is_significant()
                && noise.interval.low < noise.part
                && noise.part < noise.interval.high
        );
        let doubled_values = before.map(|value| 2 * value);
        let growth = change(&before, &doubled_values);
        assert!(growth.is_significant() && are_same(growth.part, 1.0));
        // The same runs give the same interval.
        assert_eq!(growth, change(&before, &doubled_values));
    }

    #[test]
    fn the_interval_is_about_two_standard_errors_to_each_side() {
        // Deviation 10, so the standard error of 100 runs is 1.
        let values: Vec<u64> = (0..100).map(|index| 1000 + 20 * (index % 2) - 10).collect();
        assert!((deviation(&values) - 10.05).abs() < 0.01);
        let Interval { low, high } = interval_of_mean(&values);
        assert!(
            (low - 998.0).abs() < 0.4 && (high - 1002.0).abs() < 0.4,
            "{low} {high}"
        );
    }

    #[test]
    fn a_change_from_zero_is_infinite() {
        assert!(are_same(change(&[0, 0], &[0, 0]).part, 0.0));
        assert!(change(&[0, 0], &[1, 1]).part.is_infinite());
        assert!(are_same(change(&[1, 1], &[0, 0]).part, -1.0));
        assert!(are_same(mean(&[]), 0.0) && are_same(deviation(&[5]), 0.0));
    }
}

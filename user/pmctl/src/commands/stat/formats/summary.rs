// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mean and standard error of several runs.

/// The mean of some values, and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::commands::stat) struct Summary {
    pub(in crate::commands::stat) mean: f64,
    /// The standard error of the mean, in percent of the mean; 0 for a single value.
    pub(in crate::commands::stat) error_percent: f64,
}

impl Summary {
    /// Returns the summary of all runs; `None` if there is no run or one of them has no value.
    pub(in crate::commands::stat) fn from_values(
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = if values.len() > 1 {
            (squares / (n - 1.0) / n).sqrt()
        } else {
            0.0
        };
        let error_percent = if mean > 0.0 {
            100.0 * error / mean
        } else {
            0.0
        };
        Some(Self {
            mean,
            error_percent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_mean() {
        // The mean is 10, the variance 16 / 3, and the square of the standard error a quarter of the variance.
        let values = [8.0, 8.0, 12.0, 12.0].map(Some);
        let summary = Summary::from_values(values).expect("there are values");
        assert!((summary.mean - 10.0).abs() < 1e-12);
        assert!((summary.error_percent - 10.0 * (4.0f64 / 3.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn a_single_value_and_zeros_have_no_error() {
        assert_eq!(
            Summary::from_values([Some(7.0)]),
            Some(Summary {
                mean: 7.0,
                error_percent: 0.0
            })
        );
        assert_eq!(
            Summary::from_values([Some(0.0); 3]),
            Some(Summary {
                mean: 0.0,
                error_percent: 0.0
            })
        );
    }

    #[test]
    fn there_is_no_mean_if_a_run_lacks_its_value() {
        assert_eq!(Summary::from_values([Some(1.0), None]), None);
        assert_eq!(Summary::from_values([]), None);
    }
}

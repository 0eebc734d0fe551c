// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ratios of two counts, such as instructions per cycle (IPC). Only whole runs have ratios: when a run has ended, all
//! counters have run equally long. During a run the counters are read one after the other, so the two counts of an
//! interval belong to different times.

use perfmon::spec::Meaning;

use crate::commands::stat::column::Column;

/// A ratio that is shown beside the count of its numerator.
struct Formula {
    numerator: Meaning,
    denominator: Meaning,
    unit: &'static str,
    is_percent: bool,
    /// The limits for high and very high values, as in perf.
    limits: Option<(f64, f64)>,
}

const FORMULAS: &[Formula] = &[
    Formula {
        numerator: Meaning::Instructions,
        denominator: Meaning::Cycles,
        unit: "insn per cycle",
        is_percent: false,
        limits: None,
    },
    Formula {
        numerator: Meaning::BranchMisses,
        denominator: Meaning::Branches,
        unit: "of all branches",
        is_percent: true,
        limits: Some((5.0, 20.0)),
    },
    Formula {
        numerator: Meaning::CacheMisses,
        denominator: Meaning::CacheReferences,
        unit: "of all cache refs",
        is_percent: true,
        limits: Some((5.0, 20.0)),
    },
];

/// A ratio, with its unit and limits.
#[derive(Debug, PartialEq)]
pub(in crate::commands::stat) struct Ratio {
    pub(in crate::commands::stat) value: f64,
    /// The unit in perf's words, with a `%` in front for a percentage.
    pub(in crate::commands::stat) unit: String,
    /// The limits for high and very high values.
    pub(in crate::commands::stat) limits: Option<(f64, f64)>,
}

/// Returns the ratio of column `index` to the column of the formula's denominator, which must have the same modes, kind
/// of core and place. `None` if there is no such column, if a count is missing, or if the denominator is 0.
pub(in crate::commands::stat) fn ratio(
    columns: &[Column],
    counts: &[Option<f64>],
    index: usize,
) -> Option<Ratio> {
    let event = &columns[index].event;
    let formula = FORMULAS
        .iter()
        .find(|formula| Some(formula.numerator) == event.meaning)?;
    let denominator_index = columns.iter().position(|column| {
        column.event.meaning == Some(formula.denominator)
            && column.event.modes == event.modes
            && column.event.core_type == event.core_type
            && column.place == columns[index].place
    })?;
    let (numerator, denominator) = (counts[index]?, counts[denominator_index]?);
    if denominator == 0.0 {
        return None;
    }
    let value = numerator / denominator;
    Some(if formula.is_percent {
        Ratio {
            value: 100.0 * value,
            unit: format!("% {}", formula.unit),
            limits: formula.limits,
        }
    } else {
        Ratio {
            value,
            unit: formula.unit.to_owned(),
            limits: formula.limits,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stat::testing::columns;

    #[test]
    fn a_ratio_needs_both_counts_in_the_same_modes() {
        let cycle_columns = columns("instructions:u,cycles:u,cycles:k");
        let counts = [Some(30.0), Some(20.0), Some(1.0)];
        let ipc = ratio(&cycle_columns, &counts, 0).expect("there are cycles");
        assert_eq!(
            ipc,
            Ratio {
                value: 1.5,
                unit: "insn per cycle".to_owned(),
                limits: None
            }
        );
        assert_eq!(ratio(&cycle_columns, &counts, 1), None);
        assert_eq!(
            ratio(
                &columns("instructions:u,cycles:k"),
                &[Some(1.0), Some(1.0)],
                0
            ),
            None
        );
    }

    #[test]
    fn a_ratio_needs_both_counts_on_the_same_kind_of_core() {
        let mut columns = columns("instructions,cycles,cycles");
        columns[0].event.core_type = Some(10);
        let counts = [Some(30.0), Some(20.0), Some(10.0)];
        assert_eq!(ratio(&columns, &counts, 0), None);
        columns[2].event.core_type = Some(10);
        let ipc = ratio(&columns, &counts, 0).expect("there are cycles");
        assert!((ipc.value - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn shares_are_in_percent() {
        let columns = columns("branches,branch-misses");
        let share = ratio(&columns, &[Some(200.0), Some(5.0)], 1).expect("there are branches");
        assert_eq!(
            share,
            Ratio {
                value: 2.5,
                unit: "% of all branches".to_owned(),
                limits: Some((5.0, 20.0))
            }
        );
    }

    #[test]
    fn zero_and_missing_counts_have_no_ratio() {
        let columns = columns("instructions,cycles");
        assert_eq!(ratio(&columns, &[Some(1.0), Some(0.0)], 0), None);
        assert_eq!(ratio(&columns, &[Some(1.0), None], 0), None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics: values that are computed from the counts of several events.

mod common;
mod formula;

use super::Model;
use super::tables::{METRICS, STARTS, TEXTS, UNSUPPORTED_METRICS};

pub use common::common;
pub use formula::{Formula, Mistake, Operator};

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// The name as perf has it.
    pub name: &'static str,
    /// The metric's groups, separated by `;`.
    groups: &'static str,
    /// The factor by which the formula's value is multiplied for display.
    pub factor: f64,
    /// The unit of the displayed number.
    pub unit: &'static str,
    /// The formula, for [`Formula::parse`]. The formula's names are names of other metrics and of
    /// events. In addition, `duration_time` is the elapsed time in seconds, and `running_time` the
    /// time during which the events counted.
    pub formula: &'static str,
    /// A formula that is not 0 if the value is high, or low, enough to deserve attention; empty if there is none.
    pub threshold: &'static str,
}

/// A [`Metric`] as it is stored: each field is the number of a text.
pub(super) struct PackedMetric {
    pub(super) name: u16,
    pub(super) groups: u16,
    pub(super) factor: u16,
    pub(super) unit: u16,
    pub(super) formula: u16,
    pub(super) threshold: u16,
}

impl Metric {
    /// Returns the metric's groups.
    pub fn groups(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.groups.split(';').filter(|group| !group.is_empty())
    }
}

fn stored_text(number: u16) -> &'static str {
    let [start, end] = [0, 1].map(|next| STARTS[usize::from(number) + next] as usize);
    &TEXTS[start..end]
}

fn unpack_metric(packed: &PackedMetric) -> Metric {
    Metric {
        name: stored_text(packed.name),
        groups: stored_text(packed.groups),
        factor: stored_text(packed.factor).parse().unwrap_or(1.0),
        unit: stored_text(packed.unit),
        formula: stored_text(packed.formula),
        threshold: stored_text(packed.threshold),
    }
}

impl Model {
    /// Returns the metrics over the events of the model, sorted by name without regard to case.
    pub fn metrics(&self) -> impl Iterator<Item = Metric> + use<> {
        METRICS[self.metrics.0..self.metrics.1]
            .iter()
            .map(unpack_metric)
    }

    /// Returns the metric with this name; case does not matter.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<Metric> {
        let packed_metrics = &METRICS[self.metrics.0..self.metrics.1];
        let lower_case = name.to_ascii_lowercase();
        packed_metrics
            .binary_search_by(|packed| {
                let name = stored_text(packed.name).bytes();
                name.map(|byte| byte.to_ascii_lowercase())
                    .cmp(lower_case.bytes())
            })
            .ok()
            .map(|index| unpack_metric(&packed_metrics[index]))
    }

    /// Returns the metrics of perf that need more than core events, each with the first name in its
    /// formula that is not a core event.
    pub fn unsupported_metrics(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        UNSUPPORTED_METRICS[self.unsupported_metrics.0..self.unsupported_metrics.1]
            .iter()
            .map(|[name, needed]| (stored_text(*name), stored_text(*needed)))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses and evaluates the formulas of metrics, which can use other metrics.

use std::collections::HashMap;

use anyhow::{Context, Result};
use perfmon::spec::models::Model;
use perfmon::spec::models::metrics::{self, Formula, Metric};

use crate::system::machine::Machine;

/// Names in formulas that are times, and not events.
const TIMES: [&str; 2] = ["duration_time", "running_time"];

/// Facts about the machine that formulas use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineFacts {
    /// Simultaneous multithreading is on.
    pub(crate) is_smt: bool,
    /// Number of online CPUs.
    pub(crate) online: usize,
}

impl MachineFacts {
    /// Reads the facts of a machine.
    pub(crate) fn of(machine: &Machine) -> Self {
        let active = machine.text("/sys/devices/system/cpu/smt/active");
        Self {
            is_smt: matches!(active, Ok(Some(text)) if text == "1"),
            online: machine.online_cpus().map_or(1, |cpus| cpus.len()),
        }
    }

    /// Returns the value of a fact by its name in formulas.
    fn value(self, name: &str) -> Option<f64> {
        match name {
            "#SMT_on" => Some(f64::from(u8::from(self.is_smt))),
            // Each count is that of a hyperthread. Without SMT, it is also the count of the whole
            // core.
            "#core_wide" => Some(f64::from(u8::from(!self.is_smt))),
            "#num_cpus_online" => Some(self.online as f64),
            _ => None,
        }
    }
}

/// The formulas that were parsed so far, by the metrics' names in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Formulas {
    facts: MachineFacts,
    parsed: HashMap<String, Formula>,
}

/// Values of metrics that were computed so far, by their names.
type KnownValues = HashMap<String, f64>;

impl Formulas {
    pub(crate) fn new(facts: MachineFacts) -> Self {
        Self {
            facts,
            parsed: HashMap::new(),
        }
    }

    pub(crate) fn machine_facts(&self) -> MachineFacts {
        self.facts
    }

    /// Parses the formulas of a metric and of all metrics that it uses. Returns the events that they need.
    ///
    /// # Errors
    /// A formula is malformed, which can't happen with the formulas of pmctl's tables.
    pub(crate) fn add(
        &mut self,
        metric: &Metric,
        model: Option<&'static Model>,
    ) -> Result<Vec<String>> {
        let mut events = Vec::new();
        self.append_events(metric, model, &mut Vec::new(), &mut events)?;
        Ok(events)
    }

    /// Appends the events of a metric and of the metrics that it uses, each metric once.
    fn append_events(
        &mut self,
        metric: &Metric,
        model: Option<&'static Model>,
        visited: &mut Vec<String>,
        events: &mut Vec<String>,
    ) -> Result<()> {
        let name = metric.name.to_ascii_lowercase();
        if visited.contains(&name) {
            return Ok(());
        }
        visited.push(name.clone());
        let formula = match self.parsed.get(&name) {
            Some(formula) => formula.clone(),
            None => {
                let formula = self.parse(metric.formula).context(metric.name)?;
                self.parsed.insert(name, formula.clone());
                formula
            }
        };
        let mut names = Vec::new();
        formula.names(&mut |name| names.push(name.to_owned()));
        for name in names {
            match metric_by_name(&name, model) {
                Some(used) => self.append_events(&used, model, visited, events)?,
                None if TIMES.contains(&&*name) || events.contains(&name) => {}
                None => events.push(name),
            }
        }
        Ok(())
    }

    /// Parses a formula, and replaces the facts in it by their values.
    fn parse(&self, text: &str) -> Result<Formula> {
        let formula = Formula::parse(text)?;
        Ok(formula.with_facts(&|name| self.facts.value(name)))
    }

    /// Returns the value of a metric as it is shown; `None` if it can't be computed, for example because of a division
    /// by 0. `value_of` returns counts of events and times by their names.
    pub(crate) fn value(
        &self,
        metric: &Metric,
        value_of: &dyn Fn(&str) -> Option<f64>,
    ) -> Option<f64> {
        let value = self.evaluate(metric.name, value_of, &mut KnownValues::new()) * metric.factor;
        value.is_finite().then_some(value)
    }

    /// Returns whether the value of a metric is beyond its threshold; `None` if the metric has no threshold, or if a
    /// needed count is missing.
    pub(crate) fn is_notable(
        &self,
        metric: &Metric,
        value_of: &dyn Fn(&str) -> Option<f64>,
    ) -> Option<bool> {
        if metric.threshold.is_empty() {
            return None;
        }
        let threshold = self.parse(metric.threshold).ok()?;
        let mut known_values = KnownValues::new();
        let value = threshold.value(&mut |name| self.evaluate(name, value_of, &mut known_values));
        (!value.is_nan()).then_some(value != 0.0)
    }

    /// Returns the value of a metric, or the count of an event; NaN if it is not known.
    fn evaluate(
        &self,
        name: &str,
        value_of: &dyn Fn(&str) -> Option<f64>,
        known: &mut KnownValues,
    ) -> f64 {
        let Some(formula) = self.parsed.get(&name.to_ascii_lowercase()) else {
            return value_of(name).unwrap_or(f64::NAN);
        };
        if let Some(value) = known.get(name) {
            return *value;
        }
        let value = formula.value(&mut |name| self.evaluate(name, value_of, known));
        known.insert(name.to_owned(), value);
        value
    }
}

/// Returns the metric of this name: that of the model, or else the one for all CPUs.
fn metric_by_name(name: &str, model: Option<&'static Model>) -> Option<Metric> {
    let of_model = model.and_then(|model| model.metric(name));
    of_model.or_else(|| metrics::common().find(|metric| metric.name == name))
}

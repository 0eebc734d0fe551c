// SPDX-License-Identifier: MIT OR Apache-2.0
//! The formulas of metrics and of those that they use, read once.

use std::collections::HashMap;

use anyhow::{Context, Result};
use perfmon::spec::models::Model;
use perfmon::spec::models::metrics::{self, Formula, Metric};

use crate::system::machine::Machine;

/// Names in formulas that are times, and no events.
const TIMES: [&str; 2] = ["duration_time", "running_time"];

/// Facts about the machine that formulas ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MachineFacts {
    pub(crate) is_smt: bool,
    pub(crate) online: usize,
}

impl MachineFacts {
    /// Reads them.
    pub(crate) fn of(machine: &Machine) -> Self {
        let active = machine.text("/sys/devices/system/cpu/smt/active");
        Self {
            is_smt: matches!(active, Ok(Some(text)) if text == "1"),
            online: machine.online_cpus().map_or(1, |cpus| cpus.len()),
        }
    }

    fn value(self, name: &str) -> Option<f64> {
        match name {
            "#SMT_on" => Some(f64::from(u8::from(self.is_smt))),
            // Each thread has counts of its own; they are those of its core if it is alone there.
            "#core_wide" => Some(f64::from(u8::from(!self.is_smt))),
            "#num_cpus_online" => Some(self.online as f64),
            _ => None,
        }
    }
}

/// The formulas of metrics, by their names in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Formulas {
    facts: MachineFacts,
    read: HashMap<String, Formula>,
}

/// The values of names, as far as they are known.
type KnownValues = HashMap<String, f64>;

impl Formulas {
    pub(crate) fn new(facts: MachineFacts) -> Self {
        Self {
            facts,
            read: HashMap::new(),
        }
    }

    pub(crate) fn machine_facts(&self) -> MachineFacts {
        self.facts
    }

    /// Reads the formula of a metric and of all that it uses. Returns the events, in their order.
    ///
    /// # Errors
    /// If a formula is wrong, which none of the tables is.
    pub(crate) fn add(
        &mut self,
        metric: &Metric,
        model: Option<&'static Model>,
    ) -> Result<Vec<String>> {
        let mut events = Vec::new();
        self.visit(metric, model, &mut Vec::new(), &mut events)?;
        Ok(events)
    }

    fn visit(
        &mut self,
        metric: &Metric,
        model: Option<&'static Model>,
        seen: &mut Vec<String>,
        events: &mut Vec<String>,
    ) -> Result<()> {
        let name = metric.name.to_ascii_lowercase();
        if seen.contains(&name) {
            return Ok(());
        }
        seen.push(name.clone());
        let formula = match self.read.get(&name) {
            Some(formula) => formula.clone(),
            None => {
                let formula = self.parse(metric.formula).context(metric.name)?;
                self.read.insert(name, formula.clone());
                formula
            }
        };
        let mut names = Vec::new();
        formula.names(&mut |name| names.push(name.to_owned()));
        for name in names {
            match by_name(&name, model) {
                Some(used) => self.visit(&used, model, seen, events)?,
                None if TIMES.contains(&&*name) || events.contains(&name) => {}
                None => events.push(name),
            }
        }
        Ok(())
    }

    fn parse(&self, text: &str) -> Result<Formula> {
        let formula = Formula::parse(text)?;
        Ok(formula.with_facts(&|name| self.facts.value(name)))
    }

    /// Returns the value of a metric as it is shown; `None` if it has none. `of` gives the counts of events and the times
    /// by their names.
    pub(crate) fn value(&self, metric: &Metric, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        let value = self.evaluate(metric.name, of, &mut KnownValues::new()) * metric.factor;
        value.is_finite().then_some(value)
    }

    /// Returns whether the value of a metric is worth a look; `None` if that is not known from these counts.
    pub(crate) fn is_notable(
        &self,
        metric: &Metric,
        of: &dyn Fn(&str) -> Option<f64>,
    ) -> Option<bool> {
        if metric.threshold.is_empty() {
            return None;
        }
        let threshold = self.parse(metric.threshold).ok()?;
        let mut known = KnownValues::new();
        let value = threshold.value(&mut |name| self.evaluate(name, of, &mut known));
        (!value.is_nan()).then_some(value != 0.0)
    }

    fn evaluate(
        &self,
        name: &str,
        of: &dyn Fn(&str) -> Option<f64>,
        known: &mut KnownValues,
    ) -> f64 {
        let Some(formula) = self.read.get(&name.to_ascii_lowercase()) else {
            return of(name).unwrap_or(f64::NAN);
        };
        if let Some(value) = known.get(name) {
            return *value;
        }
        let value = formula.value(&mut |name| self.evaluate(name, of, known));
        known.insert(name.to_owned(), value);
        value
    }
}

/// Returns the metric of this name that formulas of this model use.
fn by_name(name: &str, model: Option<&'static Model>) -> Option<Metric> {
    let of_model = model.and_then(|model| model.metric(name));
    of_model.or_else(|| metrics::common().find(|metric| metric.name == name))
}

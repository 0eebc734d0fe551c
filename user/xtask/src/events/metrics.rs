// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translates the formulas of perf's metrics to formulas of `perfmon_events::metrics`, if they need
//! only core events.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use perfmon_events::metrics::Formula;
use serde_json::Value;

use super::json::Kind;

/// Formulas for perf's names of the fields of Intel's register `PERF_METRICS`, which the driver does not support. The
/// formulas use events that count the same slots on general counters. The first formula whose events exist is taken.
const TOP_DOWN: [(&str, &[&str]); 11] = [
    ("TOPDOWN.SLOTS", &["TOPDOWN.SLOTS_P"]),
    ("slots", &["TOPDOWN.SLOTS_P"]),
    ("topdown-retiring", &["UOPS_RETIRED.SLOTS"]),
    ("topdown-be-bound", &["TOPDOWN.BACKEND_BOUND_SLOTS"]),
    (
        "topdown-fe-bound",
        &["IDQ_BUBBLES.CORE", "IDQ_UOPS_NOT_DELIVERED.CORE"],
    ),
    // A core lacks an event of these slots, or only one counter can count it. So the number is
    // computed: all slots minus the slots of the other three fields.
    (
        "topdown-bad-spec",
        &[
            "max(TOPDOWN.SLOTS_P - IDQ_BUBBLES.CORE - TOPDOWN.BACKEND_BOUND_SLOTS - UOPS_RETIRED.SLOTS, 0)",
            "max(TOPDOWN.SLOTS_P - IDQ_UOPS_NOT_DELIVERED.CORE - TOPDOWN.BACKEND_BOUND_SLOTS - UOPS_RETIRED.SLOTS, 0)",
        ],
    ),
    ("topdown-heavy-ops", &["UOPS_RETIRED.HEAVY"]),
    ("topdown-br-mispredict", &["TOPDOWN.BR_MISPREDICT_SLOTS"]),
    ("topdown-mem-bound", &["TOPDOWN.MEMORY_BOUND_SLOTS"]),
    (
        "topdown-fetch-lat",
        &[
            "IDQ_BUBBLES.FETCH_LATENCY",
            "(6 * IDQ_BUBBLES.CYCLES_0_UOPS_DELIV.CORE)",
        ],
    ),
    ("cpu-cycles", &["cycles"]),
];

/// The event that counts all slots.
const ALL_SLOTS: &str = "TOPDOWN.SLOTS_P";

/// Names that are not in the vendor's list, but exist on all CPUs.
const COMMON_NAMES: [&str; 3] = ["instructions", "cycles", "duration_time"];

/// PMUs of Linux whose events pmctl lets Linux count for metrics. `power` is left out, because
/// perf's formulas expect another unit than the unit of its events.
const LINUX_PMUS: [&str; 3] = ["msr", "cstate_core", "cstate_pkg"];

/// The clock of a CPU, which is the time-stamp counter. The sum of the clocks of several CPUs is
/// not elapsed time. A formula with a residency is right even for sums, because the residencies are
/// summed over the same CPUs. All other formulas with the clock would be right for one CPU only,
/// and are left out.
const TSC: &str = "@msr/tsc/@";

/// The start of a residency's name.
const RESIDENCY: &str = "@cstate_";

/// Facts that formulas may ask for.
const FACTS: [&str; 3] = ["#SMT_on", "#core_wide", "#num_cpus_online"];

/// A metric as perf has it.
pub(super) struct Metric {
    name: String,
    groups: String,
    formula: String,
    scale: String,
    threshold: String,
    /// The kind of core that the metric is for; `None` for all kinds.
    kind: Option<Kind>,
}

/// Reads the metrics of a folder.
pub(super) fn read(folder: &Path) -> Result<Vec<Metric>> {
    let mut metrics = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("can't read {}", folder.display()))? {
        let path = entry?.path();
        let text =
            fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
        let Ok(Value::Array(items)) = serde_json::from_str(&text) else {
            continue;
        };
        for item in &items {
            let field = |key| item.get(key).and_then(Value::as_str).unwrap_or_default();
            if field("MetricExpr").is_empty() || field("MetricName").is_empty() {
                continue;
            }
            let kind = match field("Unit") {
                "" => None,
                "cpu_core" => Some(Kind::Core),
                "cpu_atom" => Some(Kind::Atom),
                "cpu_lowpower" => Some(Kind::LowPower),
                // Skips a metric of a unit outside of cores.
                _ => continue,
            };
            metrics.push(Metric {
                name: field("MetricName").to_owned(),
                groups: field("MetricGroup").to_owned(),
                formula: field("MetricExpr").to_owned(),
                scale: field("ScaleUnit").to_owned(),
                threshold: field("MetricThreshold").to_owned(),
                kind,
            });
        }
    }
    Ok(metrics)
}

/// A translated formula, as text and parsed; or the error: the first name in the formula that is
/// not a core event.
type Translation = Result<(String, Formula), String>;

/// Returns the lines of the metrics of a kind of core that has these events.
pub(super) fn metric_lines(
    metrics: &[Metric],
    kind: Kind,
    events: &BTreeSet<String>,
) -> Result<String> {
    let metrics_of_kind = metrics
        .iter()
        .filter(|metric| metric.kind.is_none_or(|own| own == kind));
    let metrics_of_kind: BTreeMap<String, &Metric> = metrics_of_kind
        .map(|metric| (metric.name.to_ascii_lowercase(), metric))
        .collect();
    let names = FormulaNames {
        kind,
        events,
        metrics: &metrics_of_kind,
    };
    let mut translations: BTreeMap<&str, Translation> = BTreeMap::new();
    for (name, metric) in &metrics_of_kind {
        let formula = names
            .translate_formula(&metric.formula)
            .with_context(|| metric.name.clone())?;
        translations.insert(name, formula);
    }
    leave_out_dependents(&mut translations);
    let mut lines = String::new();
    for (name, formula) in &translations {
        let metric = metrics_of_kind[*name];
        ensure!(
            !metric.name.contains(char::is_whitespace),
            "{} has a blank in its name",
            metric.name
        );
        match formula {
            Err(missing) => lines += &format!("{}\t-\t{missing}\n", metric.name),
            Ok((text, _)) => {
                // The threshold may need further events, which may be missing.
                let threshold = match names.translate_formula(&metric.threshold) {
                    Ok(Ok((text, formula))) if has_all_metrics(&formula, &translations) => text,
                    _ => String::new(),
                };
                let (factor, unit) = split_scale(&metric.scale)?;
                lines += &format!(
                    "{}\t{}\t{factor}\t{unit}\t{text}\t{threshold}\n",
                    metric.name, metric.groups
                );
            }
        }
    }
    Ok(lines)
}

/// Leaves out metrics that need a metric that is left out.
fn leave_out_dependents(translations: &mut BTreeMap<&str, Translation>) {
    loop {
        let mut dependents: Vec<(String, String)> = Vec::new();
        for (name, formula) in translations.iter() {
            let Ok((_, formula)) = formula else { continue };
            formula.names(&mut |used| {
                if let Some(Err(needed)) = translations.get(&*used.to_ascii_lowercase()) {
                    dependents.push(((*name).to_owned(), needed.clone()));
                }
            });
        }
        if dependents.is_empty() {
            return;
        }
        for (name, needed) in dependents {
            if let Some(formula) = translations.get_mut(&*name) {
                *formula = Err(needed);
            }
        }
    }
}

/// Returns whether all metrics that the formula needs are still there.
fn has_all_metrics(formula: &Formula, translations: &BTreeMap<&str, Translation>) -> bool {
    let mut has_all = true;
    formula.names(&mut |name| {
        has_all &= !matches!(translations.get(&*name.to_ascii_lowercase()), Some(Err(_)));
    });
    has_all
}

/// Splits `100%` or `1e3per_1k_instr` into factor and unit.
fn split_scale(text: &str) -> Result<(String, String)> {
    if text.is_empty() {
        return Ok(("1".to_owned(), String::new()));
    }
    // The factor is the longest prefix that is a number.
    let factor_ends = (1..=text.len())
        .rev()
        .filter(|end| text.is_char_boundary(*end));
    for end in factor_ends {
        let (number, unit) = text.split_at(end);
        if number.parse::<f64>().is_ok() {
            return Ok((number.to_owned(), unit.trim().to_owned()));
        }
    }
    bail!("a unit has no factor: {text}")
}

/// The names that formulas may use.
struct FormulaNames<'a> {
    kind: Kind,
    events: &'a BTreeSet<String>,
    metrics: &'a BTreeMap<String, &'a Metric>,
}

impl FormulaNames<'_> {
    /// Translates a formula of perf.
    fn translate_formula(&self, perf_formula: &str) -> Result<Translation> {
        let mut text = String::new();
        let mut rest = perf_formula;
        while let Some(first) = rest.chars().next() {
            let length = symbol_length(rest);
            if length == 0 {
                text.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let (symbol, after) = rest.split_at(length);
            rest = after;
            match self.translate_symbol(symbol, after) {
                Ok(ours) => text += &ours,
                Err(missing) => return Ok(Err(missing)),
            }
        }
        if text.contains(TSC) && !text.contains(RESIDENCY) {
            return Ok(Err(TSC.replace('@', "")));
        }
        let text = with_all_slots(&text);
        let formula = Formula::parse(&text).with_context(|| format!("{perf_formula}\n{text}"))?;
        Ok(Ok((text, formula)))
    }

    /// Translates a symbol of perf; `after` is the text after it. The error is the missing event or function that the symbol
    /// needs.
    fn translate_symbol(&self, perf_symbol: &str, after: &str) -> Result<String, String> {
        let symbol = perf_symbol.replace('\\', "");
        let is_word = ["if", "else", "%"].contains(&&*symbol) || symbol.parse::<f64>().is_ok();
        let is_function = after.trim_start().starts_with('(');
        if is_word || FACTS.contains(&&*symbol) {
            return Ok(symbol);
        }
        if is_function && !symbol.contains('@') {
            return match &*symbol {
                "min" | "max" | "d_ratio" => Ok(symbol),
                _ => Err(format!("{symbol}()")),
            };
        }
        let (text, modifier) = match symbol.split_once('@') {
            None => symbol.split_once(':').unwrap_or((&symbol, "")),
            Some((unit, rest)) => match rest.rsplit_once('@') {
                Some((text, modifier)) if self.counts_unit(unit) => (text, modifier),
                Some((text, "")) if LINUX_PMUS.contains(&unit) && !text.contains(',') => {
                    return Ok(format!("@{unit}/{text}/@"));
                }
                _ => return Err(symbol.replace('@', "/")),
            },
        };
        if !["", "u", "k"].contains(&modifier) {
            return Err(format!("{text}:{modifier}"));
        }
        let with_modifier = |name: String| match modifier {
            "" => name,
            _ => format!("{name}:{modifier}"),
        };
        let (name, fields) = text.split_once(',').unwrap_or((text, ""));
        if let Some(ours) = self.top_down_formula(name) {
            return Ok(ours.to_owned());
        }
        let lower_name = name.to_ascii_lowercase();
        if self.metrics.contains_key(&lower_name) && fields.is_empty() {
            return Ok(quote_name(name.to_owned()));
        }
        if COMMON_NAMES.contains(&name) {
            return Ok(with_modifier(name.to_owned()));
        }
        if !self.events.contains(&lower_name) {
            return Err(name.to_owned());
        }
        Ok(if fields.is_empty() {
            quote_name(with_modifier(name.to_owned()))
        } else {
            format!("@{}@", with_modifier(format!("cpu/{name},{fields}/")))
        })
    }

    /// Returns whether a PMU of perf is the PMU of this model's cores.
    fn counts_unit(&self, unit: &str) -> bool {
        match unit {
            "cpu" => true,
            "cpu_core" => self.kind == Kind::Core,
            "cpu_atom" => self.kind == Kind::Atom,
            "cpu_lowpower" => self.kind == Kind::LowPower,
            _ => false,
        }
    }

    /// Returns the formula that stands for a top-down event of this name, by events that the model has.
    fn top_down_formula(&self, name: &str) -> Option<&'static str> {
        let (_, choices) = TOP_DOWN.iter().find(|(known, _)| *known == name)?;
        let mut choices = choices.iter().copied();
        choices.find(|choice| self.has_all_events_of(choice))
    }

    /// Returns whether all events of a formula exist.
    fn has_all_events_of(&self, text: &str) -> bool {
        let mut has_all = true;
        if let Ok(formula) = Formula::parse(text) {
            formula.names(&mut |name| {
                has_all &= COMMON_NAMES.contains(&name)
                    || self.events.contains(&name.to_ascii_lowercase());
            });
        }
        has_all
    }
}

/// Returns a name as a formula needs it: between two `@` unless it is a plain word.
fn quote_name(name: String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:".contains(&byte);
    let starts_with_letter = name.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
    if starts_with_letter && name.bytes().all(is_plain) {
        name
    } else {
        format!("@{name}@")
    }
}

/// Replaces the sum of the four parts of all slots by the event that counts all slots. (The part of
/// bad speculation is itself computed from all slots and the other three parts.)
fn with_all_slots(text: &str) -> String {
    let sum_of_parts = |frontend: &str| {
        let bad_speculation = format!(
            "max(TOPDOWN.SLOTS_P - {frontend} - TOPDOWN.BACKEND_BOUND_SLOTS - UOPS_RETIRED.SLOTS, 0)"
        );
        format!(
            "({frontend} + {bad_speculation} + UOPS_RETIRED.SLOTS + TOPDOWN.BACKEND_BOUND_SLOTS)"
        )
    };
    ["IDQ_BUBBLES.CORE", "IDQ_UOPS_NOT_DELIVERED.CORE"]
        .iter()
        .fold(text.to_owned(), |text, frontend| {
            text.replace(&sum_of_parts(frontend), ALL_SLOTS)
        })
}

/// Returns the length of the symbol at the start: letters, digits, and escaped characters.
fn symbol_length(text: &str) -> usize {
    let mut length = 0;
    let bytes = text.as_bytes();
    while let Some(byte) = bytes.get(length) {
        match byte {
            b'\\' => length += 2,
            b'#' if length == 0 => length += 1,
            b'e' if bytes[..length].iter().all(u8::is_ascii_digit)
                && length > 0
                && bytes.get(length + 1) == Some(&b'-') =>
            {
                // 1e-3
                length += 2;
            }
            byte if byte.is_ascii_alphanumeric() || b"_.:@?".contains(byte) => length += 1,
            _ => break,
        }
    }
    length.min(text.len())
}

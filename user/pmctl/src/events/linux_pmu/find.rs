// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses events in perf's form, `PMU/EVENT,FIELD=VALUE/`, to the numbers of `perf_event_open(2)`.

use perfmon::spec::{self, SampleRate};
use perfmon::{Modes, Pmu};
use perfmon_core::logic::event_attr::PERF_TYPE_SOFTWARE;

use super::format::{Configs, Field};
use super::sysfs::{EXCLUDED_PMUS, LinuxPmu, NamedEvent, is_core_pmu, read_all, read_sampled};
use crate::events::cpus::Cpus;
use crate::events::modes;
use crate::events::software::{self, Software};
use crate::events::words::grouped_words;
use crate::system::exit::Usage;
use crate::system::machine::Machine;
use crate::system::text::did_you_mean;

/// An event of one or several PMUs of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PmuEvent {
    /// The event as it was written.
    pub(crate) word: String,
    /// The event's name in the report.
    pub(crate) label: String,
    /// The name of the PMU as it was written. The name `uncore_imc` stands for `uncore_imc_0` and `uncore_imc_1`, whose counts
    /// are added up.
    pub(crate) pmu: String,
    /// The encoding on each of the PMUs.
    pub(crate) encodings: Vec<Encoding>,
    /// The factor and the unit of the count; `None` for a plain count.
    pub(crate) scale: Option<Scale>,
    /// The modes in which the event is sampled. A count is always of both modes.
    pub(crate) modes: Modes,
    /// The event's own rate of samples, if `period` or `freq` sets one.
    pub(crate) rate: Option<SampleRate>,
}

impl PmuEvent {
    /// Creates the event of Linux's PMU `software` that samples a software event.
    pub(crate) fn of_software(event: Software) -> Self {
        Self {
            word: event.label(),
            label: event.label(),
            pmu: "software".to_owned(),
            encodings: vec![Encoding {
                number: PERF_TYPE_SOFTWARE,
                configs: [event.number, 0, 0, 0, 0],
                cpus: None,
                mode_filter: None,
            }],
            scale: None,
            modes: event.modes,
            rate: None,
        }
    }

    /// Limits the event to these modes if it has no modifier. Returns whether it has no modifier.
    pub(crate) fn limit_modes_if_unmodified(&mut self, modes: Modes) -> bool {
        let is_unmodified = self.modes == Modes::Both;
        if is_unmodified {
            self.modes = modes;
            self.label = modes::with_modifier(&self.label, modes);
        }
        is_unmodified
    }

    /// Returns the CPUs on which the event is read. Each of them counts for its whole socket or
    /// die. `None` if each CPU counts only for itself.
    pub(crate) fn cpus(&self) -> Option<Cpus> {
        let cpus = self.encodings.iter().map(|one| one.cpus.as_ref());
        let all: Vec<&Cpus> = cpus.collect::<Option<_>>()?;
        Some(Cpus::new(all.into_iter().flat_map(Cpus::iter).collect()))
    }

    /// Limits an event to these CPUs, if each CPU counts for itself.
    pub(crate) fn limit_to_cpus(mut self, cpus: &Cpus) -> Self {
        if self.cpus().is_none() {
            for encoding in &mut self.encodings {
                encoding.cpus.get_or_insert_with(|| cpus.clone());
            }
            if let Some(name) = self.label.strip_suffix('/') {
                // perf names such an event in the same way.
                self.label = format!("{name},cpu={cpus}/");
            }
        }
        self
    }
}

/// An event as `perf_event_open(2)` takes it: the PMU's `type`, and the words `config`, `config1` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    pub(crate) number: u32,
    pub(crate) configs: Configs,
    /// The CPUs on which the event is read; `None` if each CPU counts only for itself.
    pub(crate) cpus: Option<Cpus>,
    /// The bit that lets Linux drop the samples of other modes, if the PMU itself can't distinguish
    /// modes.
    mode_filter: Option<Field>,
}

impl Encoding {
    /// Returns the words `config`, `config1` and so on for samples of these modes.
    pub(crate) fn sampled_configs(&self, modes: Modes) -> Configs {
        let mut configs = self.configs;
        if let (Some(filter), true) = (&self.mode_filter, modes != Modes::Both) {
            filter.write(1, &mut configs);
        }
        configs
    }
}

/// The use of an event. It decides which parts the text of the event may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Count,
    Sample,
}

/// A factor and the unit of the product.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) factor: f64,
    pub(crate) unit: String,
}

impl Scale {
    /// Converts a count to the unit.
    pub(crate) fn convert(&self, count: u64) -> f64 {
        count as f64 * self.factor
    }

    /// Returns whether the factor is a whole number.
    pub(crate) fn is_whole(&self) -> bool {
        self.factor.fract() == 0.0
    }
}

/// Splits the texts of -e into other events (first) and events of Linux's PMUs (second).
///
/// # Errors
/// Fails if Linux has no PMU of that name here, or the PMU has no such event.
pub(crate) fn split(
    texts: &[String],
    machine: &Machine,
    cores: &Pmu,
) -> Result<(Vec<String>, Vec<PmuEvent>), Usage> {
    separate_pmu_events(Purpose::Count, texts, machine, cores)
}

/// Splits the texts of -e as [`split`] does, for samples: an event may have modes (`u`, `k`) and a rate (`period`,
/// `freq`), and the text between its slashes may be empty.
///
/// # Errors
/// Fails as [`split`] does.
pub(crate) fn split_sampled(
    texts: &[String],
    machine: &Machine,
    cores: &Pmu,
) -> Result<(Vec<String>, Vec<PmuEvent>), Usage> {
    separate_pmu_events(Purpose::Sample, texts, machine, cores)
}

fn separate_pmu_events(
    purpose: Purpose,
    texts: &[String],
    machine: &Machine,
    cores: &Pmu,
) -> Result<(Vec<String>, Vec<PmuEvent>), Usage> {
    let mut pmu_events: Vec<PmuEvent> = Vec::new();
    let mut rest = Vec::new();
    let mut pmus = None;
    for text in texts {
        let mut other_words = Vec::new();
        for (word, is_grouped) in grouped_words(text) {
            let Some(name) = pmu_name(word) else {
                other_words.push(word);
                continue;
            };
            let pmus = pmus.get_or_insert_with(|| match purpose {
                Purpose::Count => read_all(machine),
                Purpose::Sample => read_sampled(machine),
            });
            if !pmus.iter().any(|pmu| pmu.is_called(name)) && is_core_event(name, cores) {
                other_words.push(word);
                continue;
            }
            if is_grouped {
                return Err(Usage(format!(
                    "-e {}: an event of one of Linux's PMUs can't be in a group. Write it without the braces.",
                    word.trim_matches(['{', '}', ' '])
                )));
            }
            let event = find(purpose, word, pmus)?;
            if !pmu_events.contains(&event) {
                pmu_events.push(event);
            }
        }
        if !other_words.is_empty() {
            rest.push(other_words.join(","));
        }
    }
    Ok((rest, pmu_events))
}

/// Returns whether a word has the form of an event of Linux's PMUs. The PMU need not exist.
pub(crate) fn is_pmu_event(word: &str, cores: &Pmu) -> bool {
    pmu_name(word).is_some_and(|name| !is_core_event(name, cores))
}

/// Returns the text in front of the first slash, unless it names a PMU of cores.
fn pmu_name(word: &str) -> Option<&str> {
    let (name, _) = word.trim().trim_start_matches('{').split_once('/')?;
    (!is_core_pmu(name)).then_some(name)
}

/// Returns whether this is the name of an event of cores. Such an event may have slashes, too: `instructions/period=9/`.
fn is_core_event(name: &str, cores: &Pmu) -> bool {
    name.is_empty() || name.contains('.') || spec::parse_or_absent(name, cores).is_ok()
}

/// Returns the event that a word names.
fn find(purpose: Purpose, word: &str, pmus: &[LinuxPmu]) -> Result<PmuEvent, Usage> {
    let word = word.trim();
    let usage_error = |reason: String| Usage(format!("-e {word}: {reason}"));
    let (name, after_name) = word.split_once('/').unwrap_or((word, ""));
    let Some((terms, modifier)) = after_name.split_once('/') else {
        return Err(usage_error(
            "the second slash is missing.\nFor example: msr/tsc/".to_owned(),
        ));
    };
    let modes = parse_modes(purpose, name, modifier).map_err(usage_error)?;
    let software = software::find(name).filter(|_| purpose == Purpose::Sample);
    let software = software.map(|event| format!("config={},{terms}", event.number));
    let (name, terms) = match &software {
        Some(terms) => ("software", terms.trim_end_matches(',')),
        None => (name, terms),
    };
    let members: Vec<&LinuxPmu> = pmus.iter().filter(|p| p.is_called(name)).collect();
    if members.is_empty() && EXCLUDED_PMUS.contains(&name) {
        let verb = match purpose {
            Purpose::Count => "count",
            Purpose::Sample => "sample",
        };
        return Err(usage_error(format!(
            "the events of Linux's PMU `{name}` are perf's: pmctl can't {verb} them."
        )));
    }
    if members.is_empty() {
        return Err(usage_error(no_such_pmu(name, pmus)));
    }
    let resolved = members.iter().map(|pmu| resolve(purpose, pmu, terms));
    let mut resolved: Vec<ResolvedTerms> =
        resolved.collect::<Result<_, _>>().map_err(usage_error)?;
    let encodings = members.iter().zip(&resolved).map(|(pmu, one)| Encoding {
        number: pmu.number,
        configs: one.configs,
        cpus: pmu.cpus.clone(),
        mode_filter: pmu.fields.get(MODE_FILTER).cloned(),
    });
    let encodings = encodings.collect();
    let first = resolved.swap_remove(0);
    Ok(PmuEvent {
        word: word.to_owned(),
        label: first.name.unwrap_or_else(|| word.to_owned()),
        pmu: name.to_owned(),
        encodings,
        scale: first.scale,
        modes,
        rate: first.rate,
    })
}

/// The field of AMD's `ibs_op` and `ibs_fetch` for [`Encoding::mode_filter`].
const MODE_FILTER: &str = "swfilt";

/// Returns the modes that a modifier stands for; an error says why it is refused.
fn parse_modes(purpose: Purpose, pmu: &str, modifier: &str) -> Result<Modes, String> {
    match (purpose, modifier.trim_start_matches(':')) {
        (_, "") | (Purpose::Sample, "uk" | "ku") => Ok(Modes::Both),
        (Purpose::Count, _) => Err(format!(
            "`{pmu}` counts all modes together, user and kernel. Leave out `{modifier}`."
        )),
        (Purpose::Sample, "u") => Ok(Modes::User),
        (Purpose::Sample, "k") => Ok(Modes::Kernel),
        (Purpose::Sample, _) => Err(format!(
            "`{modifier}`: samples of Linux's PMUs take the modes `u` and `k`, and are as precise as the PMU is. Leave \
             the rest out."
        )),
    }
}

/// Returns the message that there is no PMU of this name, with similar names.
fn no_such_pmu(name: &str, pmus: &[LinuxPmu]) -> String {
    let mut kinds: Vec<&str> = pmus.iter().map(LinuxPmu::kind).collect();
    kinds.dedup();
    let question = similar_names_question(name, kinds.into_iter());
    format!(
        "Linux has no PMU `{name}` here.\n{question}`pmctl list pmus` lists the PMUs that it has; some take a module of Linux's \
         (intel_uncore, rapl, amd_uncore)."
    )
}

/// The text between the slashes, resolved for a PMU.
#[derive(Default)]
struct ResolvedTerms {
    configs: Configs,
    scale: Option<Scale>,
    /// The name that the user gave to the event (`name=`).
    name: Option<String>,
    rate: Option<SampleRate>,
}

/// Resolves `terms`, the text between the slashes, for a PMU. An error is the reason in words.
fn resolve(purpose: Purpose, pmu: &LinuxPmu, terms: &str) -> Result<ResolvedTerms, String> {
    let is_sampled = purpose == Purpose::Sample;
    let mut resolved = ResolvedTerms::default();
    let mut named_event: Option<&str> = None;
    for term in terms.split(',').map(str::trim) {
        let (key, value) = match term.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (term, None),
        };
        if let (Some(event), None) = (pmu.events.get(key), value) {
            if let Some(other) = named_event.replace(key) {
                return Err(format!(
                    "`{other}` and `{key}` are two events. Write each with slashes of its own."
                ));
            }
            resolved.add_event(pmu, (key, event))?;
            continue;
        }
        match (key, value) {
            ("", None) if is_sampled && terms.trim().is_empty() => {}
            ("", None) => return Err("a field is missing between the slashes.".to_owned()),
            ("name", Some(value)) => resolved.name = Some(value.to_owned()),
            ("period" | "freq", Some(value)) if is_sampled && !pmu.fields.contains_key(key) => {
                resolved.rate = Some(parse_rate(key, value)?);
            }
            _ => write_field(pmu, (key, value), &mut resolved.configs)?,
        }
    }
    // A level may also be written by its number.
    let is_same = |event: &NamedEvent| {
        let mut configs = Configs::default();
        write_terms_of(pmu, event, &mut configs).is_ok() && configs == resolved.configs
    };
    let mut events = pmu.events.iter();
    match events.find(|(_, event)| event.is_level && is_same(event)) {
        Some((name, _)) => Err(level_message(name)),
        None => Ok(resolved),
    }
}

/// Returns the message that an event is a level.
fn level_message(name: &str) -> String {
    format!("`{name}` is a level, and no number that grows: there is nothing to count.")
}

/// Returns the rate that `period` or `freq` sets.
fn parse_rate(key: &str, value: &str) -> Result<SampleRate, String> {
    /// The smallest number that Linux does not accept.
    const LIMIT: u64 = 1 << 63;
    match value.parse() {
        Ok(number @ 1..LIMIT) if key == "freq" => Ok(SampleRate::Frequency(number)),
        Ok(number @ 1..LIMIT) => Ok(SampleRate::Period(number)),
        _ => Err(format!("`{key}={value}`: it takes a number of 1 or more.")),
    }
}

impl ResolvedTerms {
    /// Adds the terms, the scale and the unit that sysfs has for a named event.
    fn add_event(
        &mut self,
        pmu: &LinuxPmu,
        (name, event): (&str, &NamedEvent),
    ) -> Result<(), String> {
        if event.is_level {
            return Err(level_message(name));
        }
        write_terms_of(pmu, event, &mut self.configs)?;
        if event.scale.is_some() || !event.unit.is_empty() {
            self.scale = Some(Scale {
                factor: event.scale.unwrap_or(1.0),
                unit: event.unit.clone(),
            });
        }
        Ok(())
    }
}

/// Writes the values of the fields that sysfs has for a named event.
fn write_terms_of(pmu: &LinuxPmu, event: &NamedEvent, configs: &mut Configs) -> Result<(), String> {
    for term in event.terms.split(',') {
        let (key, value) = match term.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (term, None),
        };
        write_field(pmu, (key, value), configs)?;
    }
    Ok(())
}

/// Writes the value of a field; without a value, writes 1.
fn write_field(
    pmu: &LinuxPmu,
    (key, value): (&str, Option<&str>),
    configs: &mut Configs,
) -> Result<(), String> {
    let whole = Field::whole(key);
    let Some(field) = pmu.fields.get(key).or(whole.as_ref()) else {
        return Err(no_such_term(pmu, (key, value)));
    };
    let value = value.unwrap_or("1");
    let number = match value
        .strip_prefix("0x")
        .or_else(|| value.strip_prefix("0X"))
    {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    let number = number.map_err(|_| format!("`{key}={value}`: `{value}` is not a number."))?;
    if number > field.max() {
        return Err(format!(
            "`{key}={value}`: the field takes {:#x} at most.",
            field.max()
        ));
    }
    field.write(number, configs);
    Ok(())
}

/// Returns the message that a PMU has no such field or event, with similar names.
fn no_such_term(pmu: &LinuxPmu, (key, value): (&str, Option<&str>)) -> String {
    let fields = pmu.fields.keys().map(String::as_str);
    let (what, question) = match value {
        Some(_) => ("field", similar_names_question(key, fields)),
        None => {
            let events = pmu.events.keys().map(String::as_str);
            (
                "event and no field",
                similar_names_question(key, events.chain(fields)),
            )
        }
    };
    format!(
        "Linux's PMU `{0}` has no {what} `{key}`.\n{question}`pmctl list pmus {0}` shows what it has.",
        pmu.name
    )
}

/// Returns the question whether a name similar to `word` is meant, with a blank after it; empty if no name is similar.
fn similar_names_question<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> String {
    let likeness = |name: &str| {
        let is_part = word.len() >= 3 && name.contains(word);
        // Jaro-Winkler rates short names with two swapped letters too low.
        let is_slip = strsim::osa_distance(word, name) == 1;
        strsim::jaro_winkler(word, name) + if is_part || is_slip { 1.0 } else { 0.0 }
    };
    let mut names: Vec<(f64, &str)> = names.map(|name| (likeness(name), name)).collect();
    names.retain(|(likeness, _)| *likeness > 0.8);
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<&str> = names.iter().take(3).map(|(_, name)| *name).collect();
    did_you_mean(&names).map_or_else(String::new, |question| question + " ")
}

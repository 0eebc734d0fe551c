// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events that have names: generic ones, cache events, and those of the vendor's list.

use std::collections::HashMap;

use perfmon::pmu::CoreKind;
use perfmon::spec::models::{Event, Model};
use perfmon::spec::{self, OnCounters};
use perfmon::{Encoding, EventSelect, Pmu};

use crate::events::errata::{self, Erratum};
use crate::system::glob::contains_or_matches;

/// An event with its names.
pub(super) struct NamedEvent {
    pub(super) name: String,
    pub(super) other_names: Vec<&'static str>,
    /// The counters that can count the event, or the reason why none can.
    pub(super) counters: Result<OnCounters, String>,
    /// The event in the vendor's list.
    pub(super) vendor_event: Option<Event>,
    /// The kinds of cores of a hybrid processor that count the event, by the names of Linux's PMUs.
    pub(super) kinds: Vec<&'static str>,
    /// An erratum that makes the event's counts wrong.
    pub(super) erratum: Option<&'static Erratum>,
}

/// Returns the named events of a PMU and of all kinds of cores of a hybrid processor, each once.
pub(super) fn all_named_events(pmu: &Pmu) -> Vec<NamedEvent> {
    let mut events = events_of_kind(pmu);
    let mut indices: HashMap<String, usize> = events
        .iter()
        .enumerate()
        .map(|(index, event)| (event.name.to_ascii_lowercase(), index))
        .collect();
    for kind in pmu.core_kinds() {
        for mut kind_event in events_of_kind(kind.pmu()) {
            let is_counted = kind_event.counters.is_ok();
            kind_event.kinds.extend(is_counted.then_some(kind.name()));
            match indices.get(&kind_event.name.to_ascii_lowercase()) {
                None => {
                    indices.insert(kind_event.name.to_ascii_lowercase(), events.len());
                    events.push(kind_event);
                }
                Some(index) if is_counted && events[*index].counters.is_err() => {
                    events[*index] = kind_event;
                }
                Some(index) => events[*index].kinds.append(&mut kind_event.kinds),
            }
        }
    }
    events
}

/// Returns the named events of a PMU: generic ones, cache events, and those of the model's list.
fn events_of_kind(pmu: &Pmu) -> Vec<NamedEvent> {
    let model = pmu.model();
    let common_events = spec::named_events(pmu.vendor()).map(|event| {
        let mut names = event.names();
        let name = names.next().unwrap_or_default();
        let other_names: Vec<&str> = names.collect();
        NamedEvent {
            name: name.to_owned(),
            counters: event
                .counters_on(pmu)
                .ok_or_else(|| "This CPU does not have it.".to_owned()),
            vendor_event: model.and_then(|model| {
                std::iter::once(name)
                    .chain(other_names.clone())
                    .find_map(|name| model.event(name))
            }),
            other_names,
            kinds: Vec::new(),
            erratum: None,
        }
    });
    let caches = spec::cache_events(pmu).map(|event| NamedEvent {
        name: event.to_string(),
        other_names: Vec::new(),
        counters: event.counters_on(pmu).ok_or_else(String::new),
        vendor_event: None,
        kinds: Vec::new(),
        erratum: None,
    });
    let mut named_events: Vec<NamedEvent> = common_events.chain(caches).collect();
    let is_common = |name: &str| {
        spec::named_events(pmu.vendor())
            .any(|event| event.names().any(|known| known.eq_ignore_ascii_case(name)))
    };
    named_events.extend(
        model
            .into_iter()
            .flat_map(Model::events)
            .filter(|event| !is_common(&event.name))
            .map(|event| NamedEvent {
                name: event.name.clone(),
                other_names: Vec::new(),
                counters: spec::counters_of_listed(&event, pmu),
                vendor_event: Some(event),
                kinds: Vec::new(),
                erratum: None,
            }),
    );
    for event in &mut named_events {
        let number = event.event_number();
        event.erratum = errata::find(pmu)
            .filter(|erratum| number.is_some_and(|number| erratum.affects_event(number)));
    }
    named_events
}

impl NamedEvent {
    /// Returns whether one of the event's names contains `glob` or, if `glob` is a pattern, matches
    /// it.
    pub(super) fn matches(&self, glob: &str) -> bool {
        self.all_names()
            .any(|name| contains_or_matches(&glob.to_ascii_lowercase(), &name.to_ascii_lowercase()))
    }

    pub(super) fn all_names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.other_names.iter().copied())
    }

    /// Returns whether the event can be counted, and its name is not outdated.
    pub(super) fn is_countable_and_not_outdated(&self) -> bool {
        self.counters.is_ok() && !(self.is_deprecated() && self.other_names.is_empty())
    }

    /// Returns the PMU that the event's counters belong to: the PMU of the first kind of core that counts the event.
    pub(super) fn pmu<'a>(&self, pmu: &'a Pmu) -> &'a Pmu {
        let mut kinds = pmu.core_kinds().iter();
        let kind = kinds.find(|kind| self.kinds.first() == Some(&kind.name()));
        kind.map_or(pmu, CoreKind::pmu)
    }

    pub(super) fn is_deprecated(&self) -> bool {
        self.vendor_event
            .as_ref()
            .is_some_and(|event| event.deprecated)
    }

    /// Returns the other names and the erratum.
    pub(super) fn note(&self) -> String {
        let erratum = self
            .erratum
            .map(|erratum| format!("(erratum {})", erratum.name));
        let names = self.other_names.iter().map(|name| (*name).to_owned());
        names.chain(erratum).collect::<Vec<_>>().join(", ")
    }

    /// Returns the low 8 bits of the event number. Event numbers of Intel's processors have only these bits.
    fn event_number(&self) -> Option<u16> {
        self.select().map(|select| (select.bits() & 0xff) as u16)
    }

    /// Returns the event select as a raw event, without modes, with the value of the extra register, and with `pp` if the
    /// event can only be sampled precisely.
    pub(super) fn raw_event(&self) -> Option<String> {
        let extra = self.vendor_event.as_ref().and_then(|event| event.extra);
        let select = self.select()?;
        let encoding = match extra {
            Some(extra) => Encoding::RawWithRegister(select, extra.value),
            None => Encoding::Raw(select),
        };
        let is_sampled_only = self
            .vendor_event
            .as_ref()
            .is_some_and(spec::is_sampled_only);
        let modifier = if is_sampled_only { "pp" } else { "" };
        Some(format!("{encoding}{modifier}"))
    }

    /// Returns the event select.
    fn select(&self) -> Option<EventSelect> {
        match &self.counters {
            Ok(counters) => counters.select,
            Err(_) => self
                .vendor_event
                .as_ref()
                .filter(|event| event.fixed.is_none())
                .and_then(spec::select_of),
        }
    }
}

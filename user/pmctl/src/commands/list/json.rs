// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entries as JSON.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::descriptions::Descriptions;
use super::entries::ListEntries;
use super::named_event::NamedEvent;
use super::{metrics, pmus};

/// Writes the entries as JSON.
pub(super) fn write_json(
    entries: &ListEntries,
    descriptions: &Descriptions,
    output: &mut dyn Write,
) -> Result<()> {
    let events = entries.events.iter();
    let events = events.map(|event| EventJson::new(event, descriptions));
    let metrics = entries.metrics.iter().map(metrics::MetricJson::new);
    let rows: Vec<AnyRow<'_>> = events
        .map(AnyRow::Event)
        .chain(entries.pmu_events.iter().map(AnyRow::Pmu))
        .chain(metrics.map(AnyRow::Metric))
        .collect();
    serde_json::to_writer_pretty(&mut *output, &rows)?;
    Ok(writeln!(output)?)
}

/// An event or a metric in JSON.
#[derive(Serialize)]
#[serde(untagged)]
enum AnyRow<'a> {
    Event(EventJson<'a>),
    Pmu(&'a pmus::ListedPmuEvent),
    Metric(metrics::MetricJson<'a>),
}

/// An event in JSON. Keys without a value are left out.
#[derive(Serialize)]
struct EventJson<'a> {
    name: &'a str,
    /// Further names of the event.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    also: &'a [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    /// The numbers of the general counters that can count the event.
    counters: Vec<u8>,
    /// The number of the fixed counter that can count the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<u8>,
    /// The kinds of cores of a hybrid processor that count the event.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    kinds: &'a [&'static str],
    /// The MSR that the event needs besides the event select.
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    register_value: Option<u64>,
    /// The period that the vendor proposes for samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deprecated: bool,
    /// The name of the erratum that makes the counts wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    errata: Option<&'static str>,
    /// The reason why the event can't be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_here: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

impl<'a> EventJson<'a> {
    fn new(event: &'a NamedEvent, descriptions: &'a Descriptions) -> Self {
        let (vendor_event, counters) = (event.vendor_event.as_ref(), event.counters.as_ref().ok());
        let general = counters.map_or(0, |counters| counters.general);
        Self {
            name: &event.name,
            also: &event.other_names,
            raw: event.raw_event(),
            counters: (0..64)
                .filter(|number| general >> number & 1 != 0)
                .collect(),
            fixed: counters
                .and_then(|counters| counters.fixed)
                .or(vendor_event.and_then(|event| event.fixed)),
            kinds: &event.kinds,
            register: vendor_event
                .and_then(|event| event.extra)
                .map(|extra| extra.register),
            register_value: vendor_event
                .and_then(|event| event.extra)
                .map(|extra| extra.value),
            period: vendor_event.and_then(|event| event.period),
            deprecated: vendor_event.is_some_and(|event| event.deprecated),
            errata: event.erratum.map(|erratum| erratum.name),
            not_here: event.counters.as_ref().err().map(String::as_str),
            description: descriptions.find(event.all_names()),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entries that are listed: events and metrics, of one kind or of all.

use anyhow::Result;
use perfmon::Pmu;

use super::named_event::{NamedEvent, all_named_events};
use super::{metrics, pmus};
use crate::args::List;
use crate::system::machine::Machine;

/// The entries that are listed.
pub(super) struct ListEntries {
    /// The events of the processor.
    pub(super) events: Vec<NamedEvent>,
    /// The events of Linux's other PMUs.
    pub(super) pmu_events: Vec<pmus::ListedPmuEvent>,
    pub(super) metrics: Vec<metrics::ListedMetric>,
}

impl ListEntries {
    /// Returns the entries of this kind whose names match the pattern.
    pub(super) fn matching(
        args: &List,
        (kind, glob): (ListKind, Option<&str>),
        (pmu, machine): (&Pmu, &Machine),
    ) -> Result<Self> {
        let has_metrics = match kind {
            ListKind::Events | ListKind::Pmus => false,
            // --raw prints names for -e, which takes no metrics.
            ListKind::All => !args.raw,
            ListKind::Metrics | ListKind::Groups => true,
        };
        let metrics = if has_metrics {
            metrics::matching_metrics(glob, pmu, machine)?
        } else {
            Vec::new()
        };
        let events = match kind {
            ListKind::Metrics | ListKind::Pmus => Vec::new(),
            _ => all_named_events(pmu),
        };
        let is_matching = |event: &NamedEvent| glob.is_none_or(|glob| event.matches(glob));
        // Linux shows the other PMUs of this machine, and --model may name the model of another
        // machine.
        let pmu_events = match (kind, &args.model) {
            (ListKind::All | ListKind::Pmus, None) => pmus::matching_events(glob, machine),
            _ => Vec::new(),
        };
        Ok(Self {
            events: events.into_iter().filter(is_matching).collect(),
            pmu_events,
            metrics,
        })
    }

    /// Removes the entries that only --all shows: outdated events, and events and metrics that can't be counted.
    pub(super) fn remove_hidden(&mut self) {
        self.events
            .retain(NamedEvent::is_countable_and_not_outdated);
        self.metrics.retain(metrics::ListedMetric::is_countable);
    }

    pub(super) fn count(&self) -> usize {
        self.events.len() + self.pmu_events.len() + self.metrics.len()
    }
}

/// The kind of entries that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    All,
    Events,
    Metrics,
    Groups,
    Pmus,
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Advice on a name that is in no table: the known names that resemble it, or the CPUs that have the event.

use perfmon_events::Model;

use super::names;
use crate::pmu::{Pmu, Vendor};

/// A name that no table of a PMU has.
#[derive(Clone, Debug)]
pub(super) struct UnknownName {
    name: String,
    vendor: Vendor,
    model: Option<&'static Model>,
}

impl UnknownName {
    pub(super) fn new(name: &str, pmu: &Pmu) -> Self {
        Self {
            name: name.to_owned(),
            vendor: pmu.vendor(),
            model: pmu.model(),
        }
    }

    /// Returns advice on what to write instead. Compares the name with all names that are known.
    pub(super) fn advice(&self) -> String {
        self.other_vendors_advice()
            .or_else(|| self.other_models_advice())
            .unwrap_or_else(|| self.similar_names_advice())
    }

    /// Returns advice on a name of the other vendor's events.
    fn other_vendors_advice(&self) -> Option<String> {
        let other_vendor = match self.vendor {
            Vendor::Intel => Vendor::Amd,
            Vendor::Amd => Vendor::Intel,
        };
        let foreign = names::find(other_vendor, &self.name)?;
        Some(match names::find_meaning(self.vendor, foreign.meaning()) {
            Some(event) => format!(
                "It is a name of {other_vendor:?}'s; this CPU's name for the same event is `{}`.",
                event.name()
            ),
            None => {
                format!("It is an event of {other_vendor:?}'s CPUs; this CPU has no such event.")
            }
        })
    }

    /// Returns advice on a name that only other CPU models have.
    fn other_models_advice(&self) -> Option<String> {
        const MAX_MODELS_SHOWN: usize = 3;
        let other_models: Vec<&str> = perfmon_events::models()
            .iter()
            .filter(|model| model.event(&self.name).is_some())
            .map(Model::name)
            .collect();
        let not_shown = other_models.len().saturating_sub(MAX_MODELS_SHOWN);
        let shown_models = other_models[..other_models.len() - not_shown].join(", ");
        let this_model = self.model.map_or("an unknown model", Model::name);
        match (other_models.len(), not_shown) {
            (0, _) => None,
            (_, 0) => Some(format!(
                "It is an event of {shown_models}; this CPU is {this_model}."
            )),
            _ => Some(format!(
                "It is an event of {shown_models} and {not_shown} more models; this CPU is {this_model}."
            )),
        }
    }

    /// Returns a question with the names that resemble this one, or advice on how to find a name.
    fn similar_names_advice(&self) -> String {
        let listed_names = self
            .model
            .into_iter()
            .flat_map(Model::events)
            .map(|event| event.name);
        match &names::nearest_names(self.vendor, &self.name, listed_names)[..] {
            [] if self.name.starts_with(['r', 'R']) => "A raw encoding is `r` and the hexadecimal digits of unit mask and event: \
                `r1c0` is unit mask 0x01, event 0xc0."
                .to_owned(),
            [] => "`pmctl list` shows the names; an event without a name is given by number: `rUUEE` or \
                `cpu/event=..,umask=../`."
                .to_owned(),
            [one] => format!("Did you mean `{one}`?"),
            [others @ .., last] => format!("Did you mean `{}` or `{last}`?", others.join("`, `")),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of a recording: events, tasks, and the parts of samples (call chains, stacks, registers, branches).

use std::mem;

use anyhow::Result;
use perfmon::event::{Builder, Cgroup};
use perfmon::pmu::CoreKind;
use perfmon::spec::{EventSpec, Precision, SampleRate};
use perfmon::{Device, Encoding, Modes, Pmu};

use super::callers::with_callers;
use super::lacking::LackingCpus;
use super::limit::{above_limit_message, highest_accepted, no_limit_message};
use super::linux_event::{self, LinuxEvent, SampleForm};
use super::linux_refusal;
use super::memory_access;
use super::precision;
use super::sampled_event::{
    MAX_FREQUENCY, SampledEvent, default_event_text, default_rate, planned_events,
};
use crate::args::{CallGraph, EventOptions, Rate};
use crate::commands::record::branches::WantedBranches;
use crate::commands::record::sampled::{MIXED_BRANCHES, event_kind};
use crate::events::cgroups::too_few_events;
use crate::events::cpus::Cpus;
use crate::events::linux_pmu::{self, PmuEvent};
use crate::events::modes;
use crate::events::software;
use crate::recording::perfdata::{self, Attr, BranchKinds, SampleParts};
use crate::recording::procfs::MappingKinds;
use crate::system::exit::{self, Usage};
use crate::system::machine::Machine;
use crate::system::pmu::emulation_warning;

/// A condition, and the method of the builder that is called if the condition holds.
type OptionalCall = (bool, fn(Builder) -> Builder);

/// The way in which tasks are sampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplingManner {
    /// Tasks that the sampled tasks create are sampled, too.
    pub(super) inherit: bool,
    /// Sampling begins with the command's exec, and not when the events are enabled.
    pub(super) begins_at_exec: bool,
}

/// The events of a recording.
#[derive(Debug)]
pub(super) struct SamplingPlan {
    /// The driver's events.
    pub(super) events: Vec<SampledEvent>,
    /// The events of Linux's PMUs, whose indices follow those of the driver's.
    pub(super) linux_events: Vec<LinuxEvent>,
    parts: SampleParts,
    call_graph: Option<CallGraph>,
    /// The kinds of branches that are recorded; `None` without branches.
    branches: Option<BranchKinds>,
    /// The rings overwrite the oldest samples, and keep the newest.
    overwrite: bool,
    pub(super) manner: SamplingManner,
    /// Notes on the differences between this plan and the user's request.
    pub(super) degraded: Vec<String>,
}

impl SamplingPlan {
    /// Makes a plan from the options.
    pub(super) fn new(options: &EventOptions, machine: &Machine, pmu: &Pmu) -> Result<Self, Usage> {
        let (texts, mut linux_events) = linux_pmu::split_sampled(&options.events, machine, pmu)?;
        let (mut texts, software) = software::split(&texts);
        linux_events.extend(software.into_iter().map(PmuEvent::of_software));
        linux_event::check_options(options, &linux_events)?;
        memory_access::check_default(options)?;
        if options.events.is_empty() {
            texts.push(default_event_text(options));
        }
        let default_rate = default_rate(options);
        let events = planned_events(&texts, options, default_rate, pmu)?;
        let branches = options.branch_kinds();
        let differs_in_modes = |event: &SampledEvent| event.spec.modes != events[0].spec.modes;
        if branches.is_some() && events.iter().any(differs_in_modes) {
            return Err(Usage(MIXED_BRANCHES.to_owned()));
        }
        Ok(Self {
            degraded: emulation_warning(events.iter().map(|planned| &planned.spec), pmu)
                .into_iter()
                .collect(),
            events,
            linux_events: linux_events
                .into_iter()
                .map(|mut event| {
                    event.limit_modes_if_unmodified(options.modes);
                    let rate = event.rate.unwrap_or(match options.rate {
                        Rate::Default if linux_event::counts_occurrences(&event) => {
                            SampleRate::Period(1)
                        }
                        _ => default_rate,
                    });
                    LinuxEvent { event, rate }
                })
                .collect(),
            parts: SampleParts {
                has_data_address: options.data,
                has_chain: options.call_graph.is_some(),
                has_branches: branches.is_some(),
                has_user_stack: matches!(options.call_graph, Some(CallGraph::Dwarf { .. })),
                has_weight: options.weight,
                has_data_source: options.data,
                has_cgroup: options.all_cgroups,
            },
            call_graph: options.call_graph,
            branches,
            overwrite: options.overwrite,
            manner: SamplingManner {
                inherit: options.inherit,
                begins_at_exec: options.delay.is_none(),
            },
        })
    }

    /// Directs the events to cgroups: the first event to the first cgroup, and so on, or all events to a single cgroup. With an
    /// empty or a missing name, an event is sampled in all cgroups.
    ///
    /// # Errors
    /// There is no such cgroup, or there are more cgroups than events.
    pub(super) fn set_cgroups(&mut self, names: &[String]) -> Result<()> {
        let events = self.events.len();
        if names.len() > events.max(1) {
            return Err(too_few_events(&names.join(","), events, "").into());
        }
        for (index, event) in self.events.iter_mut().enumerate() {
            let name = if names.len() == 1 {
                names.first()
            } else {
                names.get(index)
            };
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                continue;
            };
            let cgroup = Cgroup::named(name);
            event.cgroup = Some(cgroup.map_err(|error| {
                exit::error_with_advice(&format!("-G: {}", error.attempt), &error)
            })?);
            event.spec.label = format!("{} ({name})", event.spec.label);
        }
        Ok(())
    }

    /// Returns whether cgroups are sampled.
    pub(super) fn has_cgroups(&self) -> bool {
        self.events.iter().any(|event| event.cgroup.is_some())
    }

    /// Replaces `-F max` by the module's limit, or for events of Linux's PMUs by Linux's.
    pub(super) fn resolve_max_frequency(&mut self, device: &Device) -> Result<(), Usage> {
        let is_highest = |planned: &&mut SampledEvent| planned.rate == MAX_FREQUENCY;
        let mut unresolved = self.events.iter_mut().filter(is_highest);
        // The limit is the same for all events.
        if let Some(accepts) = unresolved.find_map(|planned| planned.frequency_check(device)) {
            let limit = highest_accepted(accepts).ok_or_else(|| Usage(no_limit_message()))?;
            for planned in self.events.iter_mut().filter(is_highest) {
                planned.rate = SampleRate::Frequency(limit);
            }
        }
        for planned in &mut self.linux_events {
            if planned.rate == MAX_FREQUENCY {
                let limit = linux_refusal::max_frequency().ok_or_else(|| {
                    Usage(format!(
                        "-F max: {} does not tell how many samples Linux takes. Give a number, as -F 9999.",
                        linux_refusal::MAX_FREQUENCY_FILE
                    ))
                })?;
                planned.rate = SampleRate::Frequency(limit);
            }
        }
        Ok(())
    }

    /// Returns the message for a frequency above the module's limit; `None` if no event has such a
    /// frequency.
    pub(super) fn above_limit_error(&self, device: &Device) -> Option<Usage> {
        self.events.iter().find_map(|planned| {
            let SampleRate::Frequency(hertz) = planned.rate else {
                return None;
            };
            let limit = highest_accepted(planned.frequency_check(device)?)?;
            (hertz > limit).then(|| Usage(above_limit_message(hertz, limit)))
        })
    }

    /// Describes the events for the file.
    pub(super) fn describe(&self) -> Vec<perfdata::Event> {
        let describe = |event: &SampledEvent| {
            let SampledEvent { spec, rate, .. } = event;
            let attr = |number| {
                let attr = Attr::sampled(event_kind(spec), number, spec.modes, self.parts)
                    .with_stack(self.stack_bytes().unwrap_or(0))
                    .with_precision(event.precision())
                    .with_configs([spec.encoding.map_or(0, Encoding::register_value), 0]);
                self.branches
                    .map_or(attr, |kinds| attr.with_branches(kinds))
            };
            perfdata::Event {
                name: spec.label.clone(),
                attr: match rate {
                    SampleRate::Period(period) => attr(*period),
                    SampleRate::Frequency(hertz) => attr(*hertz).with_frequency(),
                },
            }
        };
        let form = self.form();
        let linux_events = self.linux_events.iter();
        let linux_events = linux_events.filter_map(|event| event.describe(form));
        self.events
            .iter()
            .map(describe)
            .chain(linux_events)
            .collect()
    }

    /// Returns the number of all events: the driver's and Linux's together.
    pub(super) fn event_count(&self) -> usize {
        self.events.len() + self.linux_events.len()
    }

    /// Returns the parts of samples in the form that events of Linux's PMUs need.
    pub(super) fn form(&self) -> SampleForm {
        SampleForm {
            parts: self.parts,
            call_graph: self.call_graph,
            stack_bytes: self.stack_bytes().unwrap_or(0),
        }
    }

    /// Returns how many bytes of the program's stack samples have; `None` without stacks.
    const fn stack_bytes(&self) -> Option<u32> {
        match self.call_graph {
            Some(CallGraph::Dwarf { stack, .. }) => Some(stack),
            _ => None,
        }
    }

    /// Returns whether the rings overwrite the oldest samples, and keep the newest.
    pub(super) const fn overwrites(&self) -> bool {
        self.overwrite
    }

    /// Returns the parts that samples record.
    pub(super) const fn parts(&self) -> SampleParts {
        self.parts
    }

    /// Returns the kinds of mappings that give addresses their names.
    pub(super) const fn mapping_kinds(&self) -> MappingKinds {
        if self.parts.has_data_address {
            MappingKinds::CodeAndData
        } else {
            MappingKinds::Code
        }
    }

    /// Returns the branches that samples have; `None` without branches.
    pub(super) fn branches(&self) -> Option<WantedBranches> {
        let described = self.describe();
        let mut attrs = described.iter().map(|event| &event.attr);
        self.branches.map(|_| WantedBranches {
            is_call_stack: matches!(self.call_graph, Some(CallGraph::LastBranches(_))),
            has_kernel: attrs.any(Attr::has_kernel_branches),
        })
    }

    /// Returns an event to open: for its cgroup, or without a cgroup for the tasks that `set_target` sets. `None` if
    /// the event has no encoding.
    pub(super) fn builder(
        &self,
        index: usize,
        set_target: impl FnOnce(Builder) -> Builder,
    ) -> Option<Builder> {
        let builder = self.builder_without_tasks(index)?;
        Some(match &self.events[index].cgroup {
            Some(cgroup) => builder.cgroup(cgroup),
            None => set_target(builder),
        })
    }

    fn builder_without_tasks(&self, index: usize) -> Option<Builder> {
        let SampledEvent { spec, rate, .. } = &self.events[index];
        let builder = spec.builder()?.disabled();
        let builder = builder.precise(self.events[index].precision());
        let builder = match *rate {
            SampleRate::Period(period) => builder.period(period),
            SampleRate::Frequency(hertz) => builder.frequency(hertz),
        };
        let builder = match self.call_graph {
            Some(graph) => with_callers(builder, graph),
            None => builder,
        };
        let builder = match self.branches {
            Some(kinds) => {
                let attr = Attr::sampled(event_kind(spec), 0, spec.modes, self.parts);
                builder.branches(attr.with_branches(kinds).branches())
            }
            None => builder,
        };
        let calls: [OptionalCall; 5] = [
            (self.parts.has_data_address, Builder::data_addresses),
            (self.parts.has_weight, Builder::weights),
            (self.parts.has_data_source, Builder::data_sources),
            (self.parts.has_cgroup, Builder::cgroup_ids),
            (self.overwrite, Builder::overwrite),
        ];
        let calls = calls.iter().filter(|(is_wanted, _)| *is_wanted);
        Some(calls.fold(builder, |builder, (_, call)| call(builder)))
    }

    /// Limits events without a mode to user mode, since this user may not sample the kernel. Returns whether there was
    /// such an event.
    pub(super) fn limit_to_user_mode(&mut self) -> bool {
        let mut changed = false;
        for SampledEvent { spec, .. } in &mut self.events {
            changed |= modes::limit_modes_if_unmodified(spec, Modes::User);
        }
        for LinuxEvent { event, .. } in &mut self.linux_events {
            changed |= event.limit_modes_if_unmodified(Modes::User);
        }
        if changed {
            self.degraded.push(
                "this user may not sample the kernel (kernel.perf_event_paranoid): samples are of user mode only"
                    .to_owned(),
            );
        }
        changed
    }

    /// Adds a note for each event that is not sampled on all of `cpus`, unless the user has named a kind of core.
    pub(super) fn note_lacking_cpus(&mut self, lacking: &LackingCpus, cpus: &[u32]) {
        let names_kind = |label: &str| CoreKind::NAMES.iter().any(|kind| label.starts_with(kind));
        for (index, lacking) in lacking {
            if names_kind(&self.events[*index].spec.label) {
                continue;
            }
            let sampled = cpus.iter().filter(|cpu| !lacking.contains(cpu));
            let sampled = Cpus::new(sampled.copied().collect());
            self.degraded.push(format!(
                "{} is sampled on CPUs {sampled} only: the other CPUs' kind of core lacks the event",
                self.events[*index].spec.label
            ));
        }
    }

    /// Turns precise samples off for those events with `:P` whose index `is_wanted` accepts. These events are then
    /// sampled by interrupts. Returns whether there was such an event.
    pub(super) fn turn_off_precision(&mut self, is_wanted: impl Fn(usize) -> bool) -> bool {
        let is_highest = |(index, event): &(usize, &mut SampledEvent)| {
            event.spec.precision == Some(Precision::Highest) && is_wanted(*index)
        };
        let mut changed = false;
        let options = self.excluding_options();
        let events = self.events.iter_mut().enumerate().filter(is_highest);
        for (_, event) in events {
            event.spec.precision = None;
            changed = true;
            let SampledEvent { spec, rate, .. } = event;
            // A period of 1 asks for a sample of each event, which only precise samples can give.
            if !event.is_default || precision::is_each_event(*rate) {
                let note = precision::not_precise_note(&spec.label, spec.modes, *rate, &options);
                self.degraded.push(note);
            }
            if event.is_default {
                let name = spec.label.split(':').next().unwrap_or_default();
                spec.label = modes::with_modifier(name, spec.modes);
            }
        }
        changed
    }

    /// Returns those of the given options that can't be combined with the period 1, a sample for
    /// each event.
    pub(super) fn excluding_options(&self) -> Vec<&'static str> {
        // --call-graph=lbr records branches as the call chain.
        let is_chain = matches!(self.call_graph, Some(CallGraph::LastBranches(_)));
        precision::excluding_options(
            (
                self.call_graph.is_some(),
                self.branches.is_some() && !is_chain,
            ),
            self.parts,
        )
    }

    /// Returns the given options among -d and -W, as text for messages; `None` if neither was
    /// given.
    pub(super) const fn memory_options(&self) -> Option<&'static str> {
        memory_access::given_options(self.parts.has_data_address, self.parts.has_weight)
    }

    /// Leaves the data source out of samples: some processors don't record it for slow loads, though they record the
    /// address and the latency. Returns whether samples were to have a data source.
    pub(super) fn leave_out_data_source(&mut self) -> bool {
        let had_source = mem::replace(&mut self.parts.has_data_source, false);
        if had_source {
            self.degraded.push(
                "no data source (cache level): this processor records it for slow loads only with a second \
                 event (perf's mem-loads-aux), which the driver does not support"
                    .to_owned(),
            );
        }
        had_source
    }

    /// Returns whether an event has precise samples, which the processor takes itself.
    pub(super) fn is_precise(&self) -> bool {
        self.events.iter().any(|event| event.precision() != 0)
    }

    /// Returns the driver's events with their rates.
    pub(super) fn rates(&self) -> impl Iterator<Item = (&EventSpec, SampleRate)> {
        self.events.iter().map(|event| (&event.spec, event.rate))
    }

    /// Returns whether an event has a sample for each instruction. The virtual PMU merges such
    /// samples.
    pub(super) fn is_merged(&self) -> bool {
        let is_merged =
            |event: &SampledEvent| event.precision() != 0 && precision::is_each_event(event.rate);
        self.events.iter().any(is_merged)
    }

    /// Returns the word for a sample of these events, in the singular. Precise samples are those that the processor
    /// takes itself.
    pub(super) fn sample_name(&self) -> &'static str {
        let is_precise = |event: &SampledEvent| event.precision() != 0;
        if !self.linux_events.is_empty() || !self.events.iter().all(is_precise) {
            "sample"
        } else if self.is_merged() {
            "merged sample"
        } else {
            "precise sample"
        }
    }

    /// Returns whether there may be samples of the kernel.
    pub(super) fn samples_kernel(&self) -> bool {
        let events = self.events.iter().map(|event| event.spec.modes);
        let linux_events = self.linux_events.iter().map(|event| event.event.modes);
        events.chain(linux_events).any(|modes| modes != Modes::User)
    }

    /// Returns the smallest period; `None` if an event has a frequency.
    pub(super) fn smallest_period(&self) -> Option<u32> {
        let rates = self.events.iter().map(|event| event.rate);
        let linux_rates = self.linux_events.iter().map(|event| event.rate);
        let periods = rates.chain(linux_rates).map(|rate| match rate {
            SampleRate::Period(period) => u32::try_from(period).ok(),
            SampleRate::Frequency(_) => None,
        });
        periods.min().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_data_is_left_out_once_with_a_note() {
        let mut plan = SamplingPlan {
            events: Vec::new(),
            linux_events: Vec::new(),
            parts: SampleParts {
                has_data_address: true,
                has_weight: true,
                has_data_source: true,
                ..SampleParts::default()
            },
            call_graph: None,
            branches: None,
            overwrite: false,
            manner: SamplingManner {
                inherit: true,
                begins_at_exec: true,
            },
            degraded: Vec::new(),
        };
        assert!(plan.leave_out_data_source());
        assert!(!plan.leave_out_data_source());
        let parts = plan.parts();
        assert!(parts.has_data_address && parts.has_weight && !parts.has_data_source);
        assert_eq!(plan.memory_options(), Some("-d and -W"));
        assert_eq!(plan.degraded.len(), 1);
    }
}

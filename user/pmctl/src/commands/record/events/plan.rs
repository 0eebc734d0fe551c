// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plan of a recording: events, tasks, and the parts of samples (call chains, stacks, registers, branches).

use std::mem;

use anyhow::Result;
use perfmon::event::{Builder, Cgroup};
use perfmon::pmu::CoreKind;
use perfmon::spec::{self, EventSpec, Precision, SampleRate};
use perfmon::{Device, Encoding, Modes, Pmu};

use super::lacking::LackingCpus;
use super::limit::{above_limit_message, accepts_frequency, highest_accepted, no_limit_message};
use super::linux_event::{self, LinuxEvent, SampleForm};
use super::linux_refusal;
use super::memory_access;
use super::precision;
use crate::args::{
    CallGraph, Callers, DefaultSamples, EventOptions, Frequency, KernelCallers, Rate, RecordTarget,
};
use crate::commands::record::branches::WantedBranches;
use crate::commands::record::perf_ring::ALL_TASKS;
use crate::commands::record::sampled::{
    DEFAULT_EVENT, MIXED_BRANCHES, event_kind, refuse_unsampled,
};
use crate::events::cgroups::too_few_events;
use crate::events::cpus::Cpus;
use crate::events::linux_pmu::{self, PmuEvent};
use crate::events::modes;
use crate::events::schedule;
use crate::events::software;
use crate::events::threads::Thread;
use crate::recording::perfdata::{self, Attr, BranchKinds, SampleParts, UserStack};
use crate::recording::procfs::MappingKinds;
use crate::system::exit::{self, Usage};
use crate::system::machine::Machine;
use crate::system::pmu::emulation_warning;

/// Stands for the frequency of `-F max` until [`SamplingPlan::resolve_max_frequency`] replaces it. No driver accepts it.
const MAX_FREQUENCY: SampleRate = SampleRate::Frequency(u64::MAX);

/// A condition, and the call that it makes necessary.
type OptionalCall = (bool, fn(Builder) -> Builder);

/// Returns the event that is sampled without -e, without its precision.
fn default_event(options: &EventOptions) -> String {
    match (options.default, options.modes) {
        (DefaultSamples::Cycles, _) => DEFAULT_EVENT.to_owned(),
        (_, Modes::Kernel) => "instructions:k".to_owned(),
        // In an emulated machine only user mode repeats.
        _ => "instructions:u".to_owned(),
    }
}

/// Returns the event that is sampled without -e, with `:P` if it can be precise.
fn default_event_text(options: &EventOptions) -> String {
    let event = default_event(options);
    if !precision::is_possible_with(options) {
        return event;
    }
    let separator = if event.contains(':') { "" } else { ":" };
    format!("{event}{separator}P")
}

/// Returns the period or the frequency of events without one of their own.
fn default_rate(options: &EventOptions) -> SampleRate {
    match options.rate {
        Rate::Period(period) => SampleRate::Period(period.into()),
        Rate::Frequency(Frequency::Hertz(hertz)) => SampleRate::Frequency(hertz.into()),
        Rate::Frequency(Frequency::Max) => MAX_FREQUENCY,
    }
}

/// An event of a recording.
#[derive(Clone, Debug)]
pub(super) struct SampledEvent {
    pub(super) spec: EventSpec,
    rate: SampleRate,
    /// The cgroup whose tasks are sampled; `None` for all tasks of the target.
    cgroup: Option<Cgroup>,
    /// The user has not chosen the event: its samples are precise where that is possible.
    is_default: bool,
}

impl SampledEvent {
    /// Returns the value of `precise_ip`.
    fn precision(&self) -> u8 {
        match self.spec.precision {
            None => 0,
            Some(Precision::Level(level)) => level,
            Some(Precision::Highest) => precision::HIGHEST_LEVEL,
        }
    }

    /// Returns a function that says whether the driver accepts a frequency; `None` if it refuses the event at any
    /// frequency.
    fn frequency_check<'a>(&self, device: &'a Device) -> Option<impl Fn(u64) -> bool + use<'a>> {
        // In user mode, which all users may sample, and not precise, which not all events can be.
        let event = self.spec.builder()?.disabled().user().precise(0);
        let accepts = move |hertz| accepts_frequency(&event, device, hertz);
        accepts(1).then_some(accepts)
    }
}

/// Returns the driver's events that the texts of -e, or the default event's, ask for.
fn planned_events(
    texts: &[String],
    options: &EventOptions,
    default_rate: SampleRate,
    pmu: &Pmu,
) -> Result<Vec<SampledEvent>, Usage> {
    let mut events = Vec::new();
    for text in texts {
        refuse_unsampled(text)?;
        let parsed = spec::parse_without_groups(text, pmu);
        let parsed = parsed.map_err(|error| Usage(error.to_string()))?;
        for (index, mut spec) in parsed.into_iter().enumerate() {
            let precise_text = || spec::precise_texts(text).swap_remove(index);
            memory_access::require_precision(options, &mut spec, precise_text)?;
            check_can_be_sampled(&spec)?;
            let rate = spec.rate.unwrap_or(default_rate);
            modes::limit_unmodified(&mut spec, options.modes);
            events.push(SampledEvent {
                spec,
                rate,
                cgroup: None,
                is_default: options.events.is_empty(),
            });
        }
    }
    precision::check_options(options, events.iter().map(|event| &event.spec))?;
    Ok(events)
}

/// Refuses an event that the CPU lacks, or that needs a counter of the user's choice.
fn check_can_be_sampled(spec: &EventSpec) -> Result<(), Usage> {
    let label = &spec.label;
    if let Some(counter) = spec.pinned {
        return Err(Usage(format!(
            "{label}: the driver chooses the counters of a recording. Leave {counter} out."
        )));
    }
    if spec.needs_own_counter_choice {
        return Err(Usage(schedule::counter_choice_message(spec)));
    }
    match &spec.missing {
        Some(reason) => Err(Usage(format!("{label}: this CPU lacks it. {reason}"))),
        None => Ok(()),
    }
}

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
    /// The kinds of branches.
    branches: Option<BranchKinds>,
    /// The rings overwrite the oldest samples, and keep the newest.
    overwrite: bool,
    pub(super) manner: SamplingManner,
    /// Notes on differences to what the user asked for.
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
                    event.limit_unmodified(options.modes);
                    let rate = event.rate.unwrap_or(default_rate);
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

    /// Returns the message for a frequency above the module's limit; `None` if no event has one.
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

    /// Returns the number of events, the driver's and Linux's.
    pub(super) fn event_count(&self) -> usize {
        self.events.len() + self.linux_events.len()
    }

    /// Returns the parts of samples, as the events of Linux's PMUs need them.
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

    /// Returns the parts of samples.
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

    /// Returns an event to open, of these tasks or of its cgroup; `None` if it has no encoding.
    pub(super) fn builder(
        &self,
        index: usize,
        of_tasks: impl FnOnce(Builder) -> Builder,
    ) -> Option<Builder> {
        let builder = self.builder_without_tasks(index)?;
        Some(match &self.events[index].cgroup {
            Some(cgroup) => builder.cgroup(cgroup),
            None => of_tasks(builder),
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
            changed |= modes::limit_unmodified(spec, Modes::User);
        }
        for LinuxEvent { event, .. } in &mut self.linux_events {
            changed |= event.limit_unmodified(Modes::User);
        }
        if changed {
            self.degraded.push(
                "this user may not sample the kernel (kernel.perf_event_paranoid): samples are of user mode only"
                    .to_owned(),
            );
        }
        changed
    }

    /// Takes note of the events that are not sampled on all of `cpus`, for the user, unless the user has named a kind of core.
    pub(super) fn note_lacking_cpus(&mut self, lacking: &LackingCpus, cpus: &[u32]) {
        let names_kind = |label: &str| CoreKind::NAMES.iter().any(|kind| label.starts_with(kind));
        for (index, lacking) in lacking {
            if names_kind(&self.events[*index].spec.label) {
                continue;
            }
            let sampled = cpus.iter().filter(|cpu| !lacking.contains(cpu));
            let sampled = Cpus::new(sampled.copied().collect());
            self.degraded.push(format!(
                "{} is sampled on CPUs {sampled} only: the kind of core of the others does not have it",
                self.events[*index].spec.label
            ));
        }
    }

    /// Turns precise samples off for events with `:P` whose index is `wanted`. They are then sampled by interrupts.
    /// Returns whether there was such an event.
    pub(super) fn turn_off_precision(&mut self, wanted: impl Fn(usize) -> bool) -> bool {
        let is_highest = |(index, event): &(usize, &mut SampledEvent)| {
            event.spec.precision == Some(Precision::Highest) && wanted(*index)
        };
        let mut changed = false;
        let options = self.excluding_options();
        let events = self.events.iter_mut().enumerate().filter(is_highest);
        for (_, event) in events {
            event.spec.precision = None;
            changed = true;
            let SampledEvent { spec, rate, .. } = event;
            // A period of 1 asks for each event, which only precise samples can be.
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

    /// Returns the options of the user that a sample for each event does not go with.
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

    /// Returns the options among -d and -W that were given; `None` without one.
    pub(super) const fn memory_options(&self) -> Option<&'static str> {
        memory_access::given_options(self.parts.has_data_address, self.parts.has_weight)
    }

    /// Leaves out where the data came from, which some processors don't record for slow loads, while they record the
    /// address and the latency. Returns whether samples were to have it.
    pub(super) fn leave_out_data_source(&mut self) -> bool {
        let had_source = mem::replace(&mut self.parts.has_data_source, false);
        if had_source {
            self.degraded.push(
                "no source of the data: this processor tells it only beside another event"
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

    /// Returns whether an event has a sample for each instruction, which the virtual PMU merges.
    pub(super) fn is_merged(&self) -> bool {
        let is_merged =
            |event: &SampledEvent| event.precision() != 0 && precision::is_each_event(event.rate);
        self.events.iter().any(is_merged)
    }

    /// Returns what samples are called, in the singular. Precise samples are those that the processor takes itself.
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

/// Returns the event with the parts of samples that its call graph needs.
fn with_callers(builder: Builder, graph: CallGraph) -> Builder {
    let builder = builder.callchain();
    let with_kernel_part = |builder: Builder, kernel| match kernel {
        KernelCallers::Recorded => builder,
        KernelCallers::LeftOut => builder.no_kernel_callchain(),
    };
    match graph {
        CallGraph::FramePointers(Callers::All) => builder,
        CallGraph::FramePointers(Callers::Programs) => builder.no_kernel_callchain(),
        CallGraph::FramePointers(Callers::Kernel) => builder.no_user_callchain(),
        // The program's part of the chain is unwound from its stack.
        CallGraph::Dwarf { stack, kernel } => with_kernel_part(builder, kernel)
            .user_stack(stack, UserStack::MASK)
            .no_user_callchain(),
        CallGraph::LastBranches(kernel) => with_kernel_part(builder, kernel),
    }
}

/// The tasks of a recording.
#[derive(Clone, Debug)]
pub(super) enum SampledTasks {
    /// The command and the tasks that it creates, on each of these CPUs.
    Command { pid: u32, cpus: Vec<u32> },
    /// Threads and the tasks that they create, on each of these CPUs.
    Threads { tids: Vec<u32>, cpus: Vec<u32> },
    /// All tasks of the CPUs `sampled`. On the CPUs `others` the tasks may make mappings.
    Cpus { sampled: Vec<u32>, others: Vec<u32> },
}

impl SampledTasks {
    /// Returns the tasks of the command line; `command` is the process of the command.
    pub(super) fn new(
        target: &RecordTarget,
        (command, threads): (Option<u32>, &[Thread]),
        online: &[u32],
    ) -> Self {
        let cpus = online.to_vec();
        match target {
            RecordTarget::Cpus(chosen) => {
                let sampled: Vec<u32> = chosen.iter().collect();
                let is_other = |cpu: &u32| !sampled.contains(cpu);
                let others = cpus.into_iter().filter(is_other).collect();
                Self::Cpus { sampled, others }
            }
            RecordTarget::Machine => Self::Cpus {
                sampled: cpus,
                others: Vec::new(),
            },
            RecordTarget::Tasks(_) => Self::Threads {
                tids: threads.iter().map(|thread| thread.tid).collect(),
                cpus,
            },
            RecordTarget::Command => Self::Command {
                pid: command.unwrap_or(0),
                cpus,
            },
        }
    }

    /// Returns the CPUs that are sampled.
    pub(super) fn cpus(&self) -> &[u32] {
        match self {
            Self::Command { cpus, .. }
            | Self::Threads { cpus, .. }
            | Self::Cpus { sampled: cpus, .. } => cpus,
        }
    }

    /// Returns the CPUs that are not sampled, but on which the tasks may make mappings.
    pub(super) fn other_cpus(&self) -> &[u32] {
        match self {
            Self::Command { .. } | Self::Threads { .. } => &[],
            Self::Cpus { others, .. } => others,
        }
    }

    /// Returns the TIDs of the threads; empty for all tasks.
    pub(super) fn tids(&self) -> &[u32] {
        match self {
            Self::Command { pid, .. } => std::slice::from_ref(pid),
            Self::Threads { tids, .. } => tids,
            Self::Cpus { .. } => &[],
        }
    }

    /// Returns the numbers by which `perf_event_open(2)` knows the tasks: the TIDs, or [`ALL_TASKS`].
    pub(super) fn numbers(&self) -> Vec<i32> {
        match self.tids() {
            [] => vec![ALL_TASKS],
            tids => tids
                .iter()
                .map(|tid| i32::try_from(*tid).unwrap_or(i32::MAX))
                .collect(),
        }
    }

    /// Returns whether these are only some tasks of the machine.
    pub(super) const fn are_selected(&self) -> bool {
        !matches!(self, Self::Cpus { .. })
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of Linux's PMUs that are sampled beside the driver's, through `perf_event_open(2)`.

use perfmon::spec::SampleRate;
use perfmon_core::logic::event_attr::{
    PERF_FORMAT_LOST, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PerfEventAttr,
};

use crate::args::{CallGraph, Callers, EventOptions, KernelCallers};
use crate::events::linux_pmu::{Encoding, PmuEvent};
use crate::recording::perfdata::{self, Attr, EventKind, SampleParts};
use crate::system::exit::Usage;

/// An event of Linux's PMUs, and its rate.
#[derive(Clone, Debug)]
pub(super) struct LinuxEvent {
    pub(super) event: PmuEvent,
    pub(super) rate: SampleRate,
}

/// The parts that the samples of all events of a recording have.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampleForm {
    pub(super) parts: SampleParts,
    pub(super) call_graph: Option<CallGraph>,
    /// Bytes of the program's stack; 0 without stacks.
    pub(super) stack_bytes: u32,
}

/// The tasks that an event samples, and the time when it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activation {
    /// Tasks that the sampled tasks create are sampled, too.
    pub(super) inherit: bool,
    /// Sampling begins with the task's exec.
    pub(super) on_exec: bool,
}

/// Number of words that read(2) returns with [`READ_FORMAT`]: the count, the times enabled and running, and the number
/// of lost samples.
pub(super) const READ_WORDS: usize = 4;
const READ_FORMAT: u64 =
    PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_LOST;

impl LinuxEvent {
    /// Describes the event for the file. For an event of several PMUs, the file has the numbers of the first PMU.
    pub(super) fn describe(&self, form: SampleForm) -> Option<perfdata::Event> {
        Some(perfdata::Event {
            name: self.event.label.clone(),
            attr: self.attr(self.event.encodings.first()?, form),
        })
    }

    fn attr(&self, encoding: &Encoding, form: SampleForm) -> Attr {
        let [config, config1, config2, ..] = encoding.sampled_configs(self.event.modes);
        let kind = EventKind::Other(encoding.number, config);
        let attr = |number| {
            Attr::sampled(kind, number, self.event.modes, form.parts)
                .with_configs([config1, config2])
                .with_stack(form.stack_bytes)
        };
        match self.rate {
            SampleRate::Period(period) => attr(period),
            SampleRate::Frequency(hertz) => attr(hertz).with_frequency(),
        }
    }

    /// Returns the structure that opens the event on one of its PMUs.
    pub(super) fn attr_to_open(
        &self,
        encoding: &Encoding,
        form: SampleForm,
        activation: Activation,
    ) -> PerfEventAttr {
        let [.., config3, config4] = encoding.sampled_configs(self.event.modes);
        let flags = [
            (true, PerfEventAttr::DISABLED),
            (activation.inherit, PerfEventAttr::INHERIT),
            (activation.on_exec, PerfEventAttr::ENABLE_ON_EXEC),
            (
                leaves_out_kernel_callers(form.call_graph),
                PerfEventAttr::EXCLUDE_CALLCHAIN_KERNEL,
            ),
            (
                leaves_out_user_callers(form.call_graph),
                PerfEventAttr::EXCLUDE_CALLCHAIN_USER,
            ),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        let attr = self.attr(encoding, form).to_abi();
        PerfEventAttr {
            size: PerfEventAttr::SIZE,
            read_format: READ_FORMAT,
            flags: flags.fold(attr.flags, |all, (_, flag)| all | flag),
            config3,
            config4,
            ..attr
        }
    }
}

fn leaves_out_kernel_callers(call_graph: Option<CallGraph>) -> bool {
    matches!(
        call_graph,
        Some(
            CallGraph::FramePointers(Callers::Programs)
                | CallGraph::Dwarf {
                    kernel: KernelCallers::LeftOut,
                    ..
                }
        )
    )
}

fn leaves_out_user_callers(call_graph: Option<CallGraph>) -> bool {
    matches!(
        call_graph,
        Some(CallGraph::FramePointers(Callers::Kernel) | CallGraph::Dwarf { .. })
    )
}

/// A function that returns whether options don't go with events of Linux's PMUs, and the text with the reason and
/// advice.
type Conflict = (fn(&EventOptions) -> bool, &'static str);
const CONFLICTS: [Conflict; 3] = [
    (
        |options| options.branch_kinds().is_some(),
        "its samples have no branches, which the CPU's own counters record. Leave -b, -j and --call-graph=lbr out, or use \
         --call-graph=dwarf",
    ),
    (
        |options| !options.cgroups.is_empty(),
        "it can't be limited to cgroups. Give -a --all-cgroups in place of -G; `pmctl report --sort cgroup` parts them",
    ),
    (
        |options| options.overwrite,
        "it can't be taken into a ring that is overwritten. Leave --overwrite out",
    ),
];

/// Refuses options that events of Linux's PMUs don't go with, if there is such an event.
pub(super) fn check_options(options: &EventOptions, events: &[PmuEvent]) -> Result<(), Usage> {
    let Some(PmuEvent { label, pmu, .. }) = events.first() else {
        return Ok(());
    };
    match CONFLICTS.iter().find(|(conflicts, _)| conflicts(options)) {
        Some((_, advice)) => Err(Usage(format!(
            "{label}: Linux's PMU `{pmu}` samples this event: {advice}."
        ))),
        None => Ok(()),
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of Linux's PMUs that are sampled beside the driver's, through `perf_event_open(2)`.

use perfmon::spec::SampleRate;
use perfmon_core::logic::event_attr::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK, PERF_FORMAT_LOST,
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_SAMPLE_PERIOD,
    PERF_TYPE_SOFTWARE, PerfEventAttr,
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

/// The largest size of the stack in bytes for samples that get their period later. It keeps these
/// samples within the largest size of a record.
const MAX_STACK_WITH_PERIOD: u32 = 48 << 10;

impl LinuxEvent {
    /// Returns the period that Linux must not write to the samples of this event; `None` if Linux
    /// writes the period. For an event with `PERF_SAMPLE_PERIOD` and a fixed period, Linux would
    /// ignore the period, and make a sample of each occurrence.
    pub(super) fn unwritten_period(&self) -> Option<u64> {
        let SampleRate::Period(period) = self.rate else {
            return None;
        };
        (counts_occurrences(&self.event) && period > 1).then_some(period)
    }

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
        let mut attr = self.attr(encoding, form).to_abi();
        if self.unwritten_period().is_some() {
            attr.sample_type &= !PERF_SAMPLE_PERIOD;
            attr.sample_stack_user = attr.sample_stack_user.min(MAX_STACK_WITH_PERIOD);
        }
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

/// Returns whether this is a software event other than the clocks, which have timers: the kernel counts its occurrences,
/// such as page faults.
pub(super) fn counts_occurrences(event: &PmuEvent) -> bool {
    const CLOCKS: [u64; 2] = [PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_TASK_CLOCK];
    event.encodings.iter().any(|encoding| {
        encoding.number == PERF_TYPE_SOFTWARE && !CLOCKS.contains(&encoding.configs[0])
    })
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

/// A function that returns true if the options exclude events of Linux's PMUs, and the text with
/// the reason and advice.
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

/// Refuses options that exclude events of Linux's PMUs, if there is such an event.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::software;

    #[test]
    fn a_software_event_with_a_period_has_no_period_in_its_samples() {
        let form = SampleForm {
            parts: SampleParts {
                has_user_stack: true,
                ..SampleParts::default()
            },
            call_graph: None,
            stack_bytes: 65_528,
        };
        let activation = Activation {
            inherit: false,
            on_exec: false,
        };
        let attr = |name, rate| {
            let software = software::find(name).expect("it exists");
            let event = LinuxEvent {
                event: PmuEvent::of_software(software),
                rate,
            };
            let opened = event.attr_to_open(&event.event.encodings[0], form, activation);
            // The file has the period of each sample.
            let described = event.describe(form).expect("it has an encoding").attr;
            assert_ne!(described.fields & PERF_SAMPLE_PERIOD, 0);
            (
                event.unwritten_period(),
                opened.sample_type & PERF_SAMPLE_PERIOD != 0,
                opened.sample_stack_user,
            )
        };
        for (name, rate, expected) in [
            (
                "page-faults",
                SampleRate::Period(10),
                (Some(10), false, 49_152),
            ),
            ("cs:k", SampleRate::Period(3), (Some(3), false, 49_152)),
            ("page-faults", SampleRate::Period(1), (None, true, 65_528)),
            ("cs", SampleRate::Frequency(99), (None, true, 65_528)),
            ("cpu-clock", SampleRate::Period(1000), (None, true, 65_528)),
        ] {
            assert_eq!(attr(name, rate), expected, "{name}");
        }
    }
}

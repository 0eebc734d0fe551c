// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reason why Linux refuses to sample an event of its PMUs, found by trial, since most reasons have the same errno.

use std::fs;

use nix::errno::Errno;
use perfmon::Modes;
use perfmon::spec::SampleRate;
use perfmon_core::logic::event_attr::PerfEventAttr;
use zerocopy::IntoBytes;

use super::linux_event::LinuxEvent;
use crate::commands::record::perf_ring::ALL_TASKS;
use crate::events::perf_event;
use crate::events::rights::{OWN_COMMAND_ADVICE, perf_event_paranoid};

/// An event that Linux refuses, with the arguments of `perf_event_open(2)`.
#[derive(Clone, Copy)]
pub(super) struct RefusedCall<'a> {
    pub(super) event: &'a LinuxEvent,
    pub(super) attr: PerfEventAttr,
    pub(super) task: i32,
    pub(super) cpu: u32,
}

impl RefusedCall<'_> {
    /// Returns a message with the reason, and what to do.
    pub(super) fn message(&self, errno: Errno) -> String {
        let LinuxEvent { event, rate } = self.event;
        let (label, pmu) = (&event.label, &event.pmu);
        if let (&SampleRate::Frequency(hertz), Some(limit)) = (rate, max_frequency()) {
            if hertz > limit {
                return format!(
                    "{label}: Linux takes at most {limit} samples a second, and not {hertz}. Give a smaller -F, or allow more \
                     with `sysctl kernel.perf_event_max_sample_rate={hertz}`."
                );
            }
        }
        let counting_attr = PerfEventAttr {
            sample_period: 0,
            sample_type: 0,
            flags: self.attr.flags & !PerfEventAttr::FREQ,
            ..self.attr
        };
        let any_mode_attr = PerfEventAttr {
            flags: self.attr.flags & !(PerfEventAttr::EXCLUDE_USER | PerfEventAttr::EXCLUDE_KERNEL),
            ..self.attr
        };
        if event.modes != Modes::Both && self.can_open(any_mode_attr, self.task) {
            return format!(
                "{label}: Linux's PMU `{pmu}` can't tell the modes apart. Leave out `u` and `k`, --all-user and \
                 --all-kernel; the kernel is for root, or with CAP_PERFMON."
            );
        }
        if self.task != ALL_TASKS && self.can_open(self.attr, ALL_TASKS) {
            return format!(
                "{label}: Linux's PMU `{pmu}` samples whole CPUs, and no single task. Sample the whole system, also while a \
                 command runs: `pmctl record -a -e {} -- COMMAND`.",
                event.word
            );
        }
        if self.can_open(counting_attr, self.task) || self.can_open(counting_attr, ALL_TASKS) {
            return format!(
                "{label}: Linux's PMU `{pmu}` can count but not sample. Count it instead: `pmctl stat -a -e {} -- \
                 COMMAND`.",
                event.word
            );
        }
        format!(
            "Linux's PMU `{pmu}` can't sample {label} on CPU {}: {}.\nIt may be the field or the period: `pmctl list pmus \
             {pmu}` shows its events and fields.",
            self.cpu,
            errno.desc()
        )
    }

    /// Returns whether Linux opens an event with these attributes for this task.
    fn can_open(&self, attr: PerfEventAttr, task: i32) -> bool {
        // Only events of tasks can be inherited, or be enabled on exec.
        let flags = match task {
            ALL_TASKS => attr.flags & !(PerfEventAttr::INHERIT | PerfEventAttr::ENABLE_ON_EXEC),
            _ => attr.flags,
        };
        let mut attr = PerfEventAttr { flags, ..attr };
        let cpu = i32::try_from(self.cpu).unwrap_or(i32::MAX);
        perf_event::open(attr.as_mut_bytes(), task, cpu).is_ok()
    }
}

/// The file with the highest frequency that Linux accepts for its events.
pub(super) const MAX_FREQUENCY_FILE: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// Returns the highest frequency that Linux accepts; `None` if it can't be read.
pub(super) fn max_frequency() -> Option<u64> {
    let text = fs::read_to_string(MAX_FREQUENCY_FILE);
    text.ok()?.trim().parse().ok()
}

/// Returns the message for a user without the right to sample the event through Linux.
pub(super) fn forbidden_message(event: &LinuxEvent, is_of_tasks: bool) -> String {
    let LinuxEvent { event, .. } = event;
    let (needed_level, advice) = match (is_of_tasks, event.modes) {
        (false, _) => (0, format!("\n{OWN_COMMAND_ADVICE}")),
        (true, Modes::User) => (2, String::new()),
        (true, _) => (1, String::new()),
    };
    format!(
        "{}: Linux samples this event, and its policy forbids it to this user (kernel.perf_event_paranoid is {}). Run it as \
         root or with CAP_PERFMON, or allow it to all users with `sysctl kernel.perf_event_paranoid={needed_level}`.{advice}",
        event.label,
        perf_event_paranoid()
    )
}

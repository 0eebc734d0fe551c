// SPDX-License-Identifier: MIT OR Apache-2.0
//! The facts that the checks look at.

use perfmon::{Cause, Pmu};

use super::finding::Finding;
use super::trial::{Trial, Trials};
use crate::system::hypervisor::Hypervisor;
use crate::system::machine::Machine;
use crate::system::text::error_text;

pub(super) const DEVICE_NODE: &str = "/dev/perfmon";
pub(super) const NMI_WATCHDOG_FILE: &str = "/proc/sys/kernel/nmi_watchdog";

/// Facts that the checks look at.
pub(super) struct CheckedFacts<'a> {
    pub(super) machine: &'a Machine,
    pub(super) pmu: Pmu,
    pub(super) hypervisor: Option<Hypervisor>,
    pub(super) trials: Trials,
}

impl CheckedFacts<'_> {
    /// Returns the reason why the whole system can't be counted; `None` if it can be counted.
    pub(super) fn system_failure_cause(&self) -> Option<Cause> {
        let error = self.trials.counter.error();
        error.map(|error| error.cause.clone())
    }

    /// Returns whether a trial has counted. If so, the NMI watchdog holds no counter, even if the
    /// watchdog is on: the watchdog of a kernel with `CONFIG_HARDLOCKUP_DETECTOR_BUDDY` needs no
    /// counter.
    pub(super) fn can_count(&self) -> bool {
        matches!(self.trials.counter, Trial::Succeeded(_)) || self.trials.event.has_counted()
    }

    /// Returns whether the NMI watchdog is on while counting fails.
    pub(super) fn is_blocked_by_watchdog(&self) -> bool {
        let text = self.machine.text(NMI_WATCHDOG_FILE);
        !self.can_count() && matches!(text, Ok(Some(text)) if text == "1")
    }

    /// Returns the finding for an obstacle to counting the whole system: a note if programs can be counted, otherwise a
    /// failure.
    pub(super) fn bad_for_system(&self, text: impl Into<String>) -> Finding {
        if self.trials.event.has_counted() {
            Finding::note(text)
        } else {
            Finding::bad(text)
        }
    }

    /// Returns the content of a file; `None` if the file does not exist. `Err` is the finding if the file can't be read.
    pub(super) fn read_text(&self, name: &str) -> Result<Option<String>, Finding> {
        self.machine
            .text(name)
            .map_err(|error| Finding::unknown(format!("can't read {name}: {}", error_text(&error))))
    }

    /// Returns whether the kernel has loaded a module.
    pub(super) fn is_module_loaded(&self, module: &str) -> Result<bool, Finding> {
        let modules = self.read_text("/proc/modules")?.unwrap_or_default();
        Ok(modules
            .lines()
            .any(|line| line.split(' ').next() == Some(module)))
    }
}

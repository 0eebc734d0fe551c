// SPDX-License-Identifier: GPL-2.0-only
//! The tracepoints that follow tasks, registered while there are events of tasks: otherwise they cost nothing.

use super::{life, switch};
use crate::sys::{ffi, tracepoint::Probe};
use kernel::prelude::*;

/// The functions that the kernel calls.
pub(super) struct Hooks {
    /// In the order in which they are registered: a task can't begin unseen when its parent is counted.
    probes: [Probe; 4],
    /// The events of tasks. The functions are registered if it is not 0.
    users: u32,
}

impl Hooks {
    /// Finds the tracepoints.
    ///
    /// # Errors
    ///
    /// ENOENT if this kernel lacks one.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: Each function has the arguments that its tracepoint passes (include/trace/events of the kernel).
        let probes = unsafe {
            [
                Probe::new(c"sched_process_exit", life::on_exit as *mut _)?,
                Probe::new(c"sched_process_exec", life::on_exec as *mut _)?,
                Probe::new(c"task_newtask", life::on_new_task as *mut _)?,
                Probe::new(c"sched_switch", switch::on_switch as *mut _)?,
            ]
        };
        Ok(Self { probes, users: 0 })
    }

    /// Adds an event of a task. Sleeps.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn begin(&mut self) -> Result {
        if self.users == 0 {
            for (n, probe) in self.probes.iter().enumerate() {
                if let Err(error) = probe.register() {
                    self.probes.iter().take(n).for_each(Probe::unregister);
                    return Err(error);
                }
            }
        }
        self.users += 1;
        Ok(())
    }

    /// Removes an event of a task, which no context has any more. Returns whether it was the last one: no function
    /// is called any more then.
    pub(super) fn end(&mut self) {
        self.users -= 1;
        if self.users == 0 {
            self.probes.iter().for_each(Probe::unregister);
        }
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        // For contexts and events that wait to be freed, too.
        // SAFETY: The function has no preconditions but a task that may sleep.
        unsafe { ffi::perfmon_tracepoints_sync() };
    }
}

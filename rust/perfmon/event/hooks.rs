// SPDX-License-Identifier: GPL-2.0-only
//! The tracepoints that follow tasks, registered while there are events of tasks: otherwise they cost nothing.

use super::{life, switch, EVENTS};
use crate::sys::{ffi, tracepoint::Probe};
use core::sync::atomic::Ordering::SeqCst;
use kernel::prelude::*;

/// The functions that the kernel calls.
pub(super) struct Hooks {
    /// In the order in which they are registered: a task can't begin unseen when its parent is counted.
    probes: [Probe; 5],
    /// The events of tasks.
    users: u32,
    /// The functions are called: while there are events, and for a second after that.
    registered: bool,
    /// A program may use RDPMC without a page of ours, and is among [`switch::WATCHERS`] while the functions are called.
    rdpmc_is_left: bool,
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
                Probe::new(c"task_rename", life::on_rename as *mut _)?,
                Probe::new(c"sched_process_exec", life::on_exec as *mut _)?,
                Probe::new(c"task_newtask", life::on_new_task as *mut _)?,
                Probe::new(c"sched_switch", switch::on_switch as *mut _)?,
            ]
        };
        Ok(Self {
            probes,
            users: 0,
            registered: false,
            rdpmc_is_left: false,
        })
    }

    /// Adds an event of a task. Sleeps.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub(super) fn begin(&mut self) -> Result {
        if !self.registered {
            for (n, probe) in self.probes.iter().enumerate() {
                if let Err(error) = probe.register() {
                    self.probes.iter().take(n).for_each(Probe::unregister);
                    return Err(error);
                }
            }
            self.registered = true;
            // After `life::on_new_task` has been registered, which takes the right from new tasks.
            // SAFETY: The function has no preconditions.
            self.rdpmc_is_left = unsafe { ffi::perfmon_rdpmc_is_left() };
            if self.rdpmc_is_left {
                switch::WATCHERS.fetch_add(1, SeqCst);
            }
        }
        self.users += 1;
        Ok(())
    }

    /// Removes an event of a task, which no context has any more.
    ///
    /// After the last one the functions stay registered for a second: to register them again soon would take long,
    /// since the kernel waits for all CPUs.
    pub(super) fn end(&mut self) {
        /// # Safety
        ///
        /// To be called by a task that may sleep, as long as the module is loaded.
        unsafe extern "C" fn later() {
            if let Some(hooks) = &mut EVENTS.lock().hooks {
                hooks.unregister_if_unused();
            }
        }

        self.users -= 1;
        if self.users == 0 {
            // SAFETY: `cancel` comes before the function goes.
            unsafe { ffi::perfmon_later(Some(later)) };
        }
    }

    /// Unregisters the functions, unless there is an event.
    pub(super) fn unregister_if_unused(&mut self) {
        if self.users == 0 && self.registered {
            self.probes.iter().for_each(Probe::unregister);
            self.registered = false;
            if core::mem::take(&mut self.rdpmc_is_left) {
                switch::WATCHERS.fetch_sub(1, SeqCst);
            }
        }
    }
}

/// Waits until nothing will look for unused hooks later. The caller does not hold [`EVENTS`].
pub(super) fn cancel() {
    // SAFETY: The function has no preconditions but a task that may sleep.
    unsafe { ffi::perfmon_later_cancel() };
}

impl Drop for Hooks {
    fn drop(&mut self) {
        self.unregister_if_unused();
    }
}

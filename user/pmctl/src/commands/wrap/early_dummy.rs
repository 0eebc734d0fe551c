// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's dummy events that a program opens before its first event of the driver.
//!
//! Dummies write records of tasks and mappings, to a ring to which other events write their samples. Events of the
//! driver and of the kernel can't share a ring. So when the program opens an event of the driver, dummies of the driver
//! replace the kernel's. A program that opens only software events or tracepoints keeps the kernel's dummies. If the
//! program has enabled a dummy, its replacement is enabled, too. The replacement has another ID, since the driver and the
//! kernel number their events independently.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use perfmon::sys::{Driver, EventCall, EventOpen};
use perfmon_core::logic::perf_event::PERF_FLAG_FD_CLOEXEC;

use super::listener::{Listener, Request};
use super::target::{ThreadId, Tid, is_kernel_event};
use crate::events::perf_event;

/// A dummy event to be opened.
#[derive(Debug)]
pub(super) struct DummyCall {
    /// The program's `struct perf_event_attr`.
    pub(super) attributes: Vec<u8>,
    pub(super) pid: i32,
    pub(super) cpu: i32,
    pub(super) close_on_exec: bool,
}

impl DummyCall {
    /// Opens the kernel's dummy.
    ///
    /// # Errors
    /// The errors of `perf_event_open(2)`.
    pub(super) fn open_in_kernel(&self) -> Result<OwnedFd, Errno> {
        perf_event::open(&mut self.attributes.clone(), self.pid, self.cpu)
    }

    fn open_in_driver(&mut self, driver: &dyn Driver) -> Result<OwnedFd, Errno> {
        driver.open_event(&mut EventOpen {
            attr: &mut self.attributes,
            pid: self.pid,
            cpu: self.cpu,
            group: None,
            flags: PERF_FLAG_FD_CLOEXEC,
        })
    }
}

/// A dummy of the kernel in a program.
#[derive(Debug)]
struct EarlyDummy {
    call: DummyCall,
    /// The first thread of the program's process.
    process: ThreadId,
    /// The descriptor's number in the program.
    number: i32,
    /// The kernel's ID of the event.
    id: u64,
}

impl EarlyDummy {
    /// Returns a copy of the kernel's event; `None` if the program has closed it, and perhaps opened another file with its
    /// number.
    fn find_in(&self, caller: Tid) -> Option<OwnedFd> {
        let copy = caller.copy_descriptor(self.number).ok()?;
        let is_same = is_kernel_event(&copy) && perf_event::id(copy.as_fd()) == Ok(self.id);
        is_same.then_some(copy)
    }
}

/// The dummies of the kernel that can still be replaced.
#[derive(Debug, Default)]
pub(super) struct EarlyDummies(Vec<EarlyDummy>);

impl EarlyDummies {
    /// The largest number of dummies in the list: a program has one for each CPU or thread.
    const MAX: usize = 1 << 14;

    /// Adds a dummy that `caller` has received as descriptor `number`.
    pub(super) fn add(&mut self, call: DummyCall, event: &OwnedFd, (caller, number): (Tid, i32)) {
        if self.0.len() >= Self::MAX {
            self.remove_ended();
        }
        let id = perf_event::id(event.as_fd());
        if let (Ok(id), Some(process), true) = (id, caller.process(), self.0.len() < Self::MAX) {
            self.0.push(EarlyDummy {
                call,
                process,
                number,
                id,
            });
        }
    }

    /// Removes the dummies of processes that have ended.
    fn remove_ended(&mut self) {
        let mut processes_alive = HashMap::new();
        self.0.retain(|dummy| {
            let is_alive = || dummy.process.is_alive();
            *processes_alive
                .entry(dummy.process)
                .or_insert_with(is_alive)
        });
    }

    /// Replaces the dummies of the caller's process by dummies of the driver. If the process has
    /// mapped a ring of the kernel, the dummies of the process stay. A dummy that the driver does
    /// not open stays, too. The dummies of other processes are replaced when those processes open
    /// events.
    pub(super) fn replace(&mut self, driver: &dyn Driver, listener: &Listener, request: &Request) {
        if self.0.is_empty() {
            return;
        }
        let caller = Tid(request.thread);
        let process = caller.process();
        let (own_dummies, other_dummies) = std::mem::take(&mut self.0)
            .into_iter()
            .partition::<Vec<_>, _>(|dummy| Some(dummy.process) == process);
        self.0 = other_dummies;
        if own_dummies.is_empty() || caller.maps_kernel_event() {
            return;
        }
        for mut dummy in own_dummies {
            let Some(kernel_event) = dummy.find_in(caller) else {
                continue;
            };
            if let Ok(event) = dummy.call.open_in_driver(driver) {
                if perf_event::has_been_enabled(kernel_event.as_fd()) {
                    // If this fails, the program can still enable the event.
                    let _ = driver.call_event(event.as_fd(), EventCall::Enable { group: false });
                }
                // If this fails, the program keeps the kernel's event.
                let _ = listener.replace_descriptor(
                    request,
                    (event.as_fd(), dummy.number),
                    dummy.call.close_on_exec,
                );
            }
        }
    }
}

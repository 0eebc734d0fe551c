// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl wrap`: runs a program whose calls of `perf_event_open(2)` get events of the driver.
//!
//! A seccomp filter hands the calls of the program, its threads and children to pmctl, which makes
//! the same call to the module and puts the descriptor into the program. Calls for events that the
//! driver does not count are left to the kernel.
//!
//! pmctl opens the events with its own rights, so these must be the same as the program's rights.
//! It refuses to run with rights that its caller does not have. Calls of a task whose rights have
//! changed are left to the kernel, which checks the rights of the task. pmctl can't see whether a
//! task is in a Landlock domain, which forbids events of tasks outside of it. So events of tasks
//! that are not the caller's are left to the kernel, too, unless the caller has `CAP_PERFMON`, for
//! which the kernel allows them without another check. The filter is not a sandbox: the memory that
//! a call refers to can change between pmctl's read and the kernel's.

mod answer;
mod bpf;
mod early_dummy;
mod filter;
mod listener;
mod opened;
mod receiver;
mod sampled;
mod target;

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::libc;
use nix::unistd::geteuid;
use perfmon::event::Owners;
use perfmon::sys::{Access, Driver, EventCall, Node};
use perfmon::{Device, Pmu};

use crate::args::Wrap;
use crate::system::busy_counters::has_other_owner;
use crate::system::child::{Command, Ending, RunningCommand, WaitingCommand};
use crate::system::exit;
use crate::system::signals::{BlockedSignals, Event};
use crate::system::stdio::complain;

use answer::{AnswerContext, CallAnswer, answer_open_call};
use early_dummy::EarlyDummies;
use filter::FilteredCall;
use listener::{Listener, Request};
use opened::OpenedEvents;
use receiver::CallQueue;
use sampled::{SampleSource, SampledEvents};
use target::Tid;

/// Runs the program, and returns its exit code.
pub(crate) fn wrap(args: &Wrap) -> Result<u8> {
    refuse_rights_of_file()?;
    let command = Command::find(&args.command)?.with_preparation(filter::install);
    // Fails with advice if the driver is missing or of another version.
    let device = Device::open().map_err(exit::with_help)?;
    let node = Node::open(Path::new(perfmon::PATH), Access::Read).context(perfmon::PATH)?;

    let signals = BlockedSignals::hold()?;
    let mut waiting = WaitingCommand::fork(&command, signals.previous_mask())?;
    let listener = Arc::new(take_listener(&mut waiting)?);
    let mut calls = CallQueue::start(&listener)?;
    let running = waiting.release()?;
    let mut server = CallServer {
        driver: &node,
        listener,
        verbose: args.verbose,
        allows_turns: !args.exact,
        opened_events: OpenedEvents::default(),
        early_dummies: EarlyDummies::default(),
        pmu: Pmu::of_this_cpu().with_counters_of(&device),
        device,
        first_event_with_maps: None,
        uncounted_events: BTreeSet::new(),
        has_tried_bpf: false,
        sampled_events: SampledEvents::default(),
        refused_events: 0,
        owners: None,
    };
    let ending = match server.serve_until_exit(&mut calls, &signals, &running) {
        Ok(ending) => ending,
        Err(error) => {
            // The command runs on. Without the listener, its calls fail instead of waiting for an answer.
            drop((calls, server));
            let _ = running.wait(&signals);
            return Err(error);
        }
    };
    server.report_at_end(calls.interrupted_calls());
    if ending.exit_code() != 0 {
        server.report_at_failure();
    }
    if let Some(words) = ending.in_words() {
        complain(words);
    }
    Ok(ending.exit_code())
}

/// Fails if pmctl has rights from its file, since the program would use them, too.
fn refuse_rights_of_file() -> Result<()> {
    // SAFETY: getauxval(3) takes a number, and accesses no memory of the caller.
    if unsafe { libc::getauxval(libc::AT_SECURE) } == 0 {
        return Ok(());
    }
    bail!(
        "pmctl is setuid, setgid or has capabilities of its file: every program would count with these rights.\n\
         Use a copy of pmctl without them (`cp $(command -v pmctl) .; ./pmctl wrap ...`), or give them to the \
         program: as root, `setpriv` does it."
    )
}

/// Takes the listener of the filter out of the forked process.
fn take_listener(waiting: &mut WaitingCommand<'_>) -> Result<Listener> {
    let number = waiting.preparation_result().map_err(|errno| match errno {
        Errno::EBUSY => anyhow::anyhow!(
            "another process intercepts the system calls of this program already: another `pmctl wrap`, or a \
             container.\n\
             Leave out one `pmctl wrap`, or start it outside of the container."
        ),
        Errno::EINVAL | Errno::ENOSYS => anyhow::anyhow!(
            "the kernel can't hand system calls to pmctl: it needs CONFIG_SECCOMP_FILTER."
        ),
        errno => anyhow::Error::from(errno).context("can't filter the system calls of the command"),
    })?;
    let pid = i32::try_from(waiting.pid()).context("the command's PID is out of range")?;
    let descriptor = Tid(pid).copy_descriptor(number).context(
        "can't take a descriptor of the command: does /proc/sys/kernel/yama/ptrace_scope forbid it?",
    )?;
    Listener::new(descriptor).context(
        "the kernel's seccomp notifications are newer than this pmctl: install a newer pmctl",
    )
}

/// The server that answers the calls.
struct CallServer<'a> {
    driver: &'a dyn Driver,
    listener: Arc<Listener>,
    /// Each call and its answer are printed.
    verbose: bool,
    /// The program's events may take turns on the counters.
    allows_turns: bool,
    opened_events: OpenedEvents,
    /// The kernel's dummy events that the program opened before its first event of the driver.
    early_dummies: EarlyDummies,
    device: Device,
    pmu: Pmu,
    /// Name of the first sampled event that asks for records of mappings.
    first_event_with_maps: Option<String>,
    /// Names of the events that this PMU does not count.
    uncounted_events: BTreeSet<String>,
    /// A call has tried to attach a BPF program to an event of the driver.
    has_tried_bpf: bool,
    sampled_events: SampledEvents,
    /// Number of events that the driver had no counter for.
    refused_events: u64,
    /// The programs that had the counters when the first event was refused.
    owners: Option<Owners>,
}

impl CallServer<'_> {
    /// Answers calls until the command has ended.
    fn serve_until_exit(
        &mut self,
        calls: &mut CallQueue,
        signals: &BlockedSignals,
        running: &RunningCommand,
    ) -> Result<Ending> {
        let mut calls_are_over = false;
        loop {
            let other = (!calls_are_over).then(|| calls.as_fd());
            match signals.wait(None, other)? {
                Event::Other => match calls.next()? {
                    Some(request) => {
                        self.answer_call(&request)
                            .context("can't answer a system call")?;
                        calls.stay_with_caller(Tid(request.thread));
                    }
                    None => calls_are_over = true,
                },
                Event::Child => {
                    if let Some(ending) = running.ending()? {
                        return Ok(ending);
                    }
                }
                Event::End {
                    signal,
                    by_terminal,
                } => {
                    // The terminal sends its signals to the command, too.
                    if !by_terminal {
                        running.signal(signal);
                    }
                }
                Event::Nothing | Event::Switch | Event::Resized => {}
            }
        }
    }

    /// Answers one call.
    fn answer_call(&mut self, request: &Request) -> Result<(), Errno> {
        match request.call {
            FilteredCall::Open => self.open_event(request),
            FilteredCall::SetAll { enabled } => {
                self.set_all_events(request, enabled);
                // The thread may have events of the kernel, too.
                self.listener.leave_to_kernel(request)
            }
            FilteredCall::SetBpf | FilteredCall::LinkBpf => {
                self.has_tried_bpf |= bpf::attaches_to_driver_event(request);
                // The driver or the kernel refuses the call: an event of the driver can't have a
                // BPF program.
                self.listener.leave_to_kernel(request)
            }
        }
    }

    /// Answers a call of `perf_event_open(2)`.
    fn open_event(&mut self, request: &Request) -> Result<(), Errno> {
        let context = AnswerContext {
            driver: self.driver,
            pmu: &self.pmu,
            allows_turns: self.allows_turns,
        };
        let answer = answer_open_call(context, &self.listener, request);
        if self.verbose {
            report_call(request, &answer);
        }
        let caller = Tid(request.thread);
        let sampled_name = || answer::sampled_event_name(caller, request.arguments[0]);
        match answer {
            CallAnswer::Event {
                event,
                close_on_exec,
                wants_maps,
            } => {
                self.sampled_events
                    .add(caller, SampleSource::Driver, sampled_name);
                self.early_dummies
                    .replace(self.driver, &self.listener, request);
                if wants_maps && self.first_event_with_maps.is_none() {
                    self.first_event_with_maps =
                        Some(answer::event_in_words(caller, request.arguments[0]));
                }
                self.opened_events.add(self.driver, caller, &event);
                self.listener
                    .send_descriptor(request, event.as_fd(), close_on_exec)
                    .map(drop)
            }
            CallAnswer::EarlyDummy { event, call } => {
                let sent =
                    self.listener
                        .send_descriptor(request, event.as_fd(), call.close_on_exec)?;
                if let Some(number) = sent {
                    self.early_dummies.add(call, &event, (caller, number));
                }
                Ok(())
            }
            CallAnswer::Kernel(_) => {
                self.sampled_events
                    .add(caller, SampleSource::Kernel, sampled_name);
                self.listener.leave_to_kernel(request)
            }
            CallAnswer::NotCounted { errno } => {
                let name = answer::event_in_words(caller, request.arguments[0]);
                self.uncounted_events.insert(name);
                self.listener.fail(request, errno)
            }
            CallAnswer::Error { errno, cause } => {
                if cause == Errno::EBUSY {
                    self.refused_events += 1;
                    self.owners.get_or_insert_with(|| self.device.owners());
                }
                self.listener.fail(request, errno)
            }
            CallAnswer::CallerDied => Ok(()),
        }
    }

    /// Enables or disables all events of the driver that the calling thread has opened.
    fn set_all_events(&self, request: &Request, enabled: bool) {
        let caller = Tid(request.thread);
        let events = self.opened_events.events_of(self.driver, caller);
        // If the caller has died, the descriptors may be those of a later thread with its TID.
        if !self.listener.is_waiting(request) {
            return;
        }
        for event in &events {
            let call = if enabled {
                EventCall::Enable { group: false }
            } else {
                EventCall::Disable { group: false }
            };
            // Ignores errors, as the kernel does: no call could return them.
            let _ = self.driver.call_event(event.as_fd(), call);
        }
        if self.verbose {
            complain(format_args!(
                "{}: prctl(PR_TASK_PERF_EVENTS_{}): {} of the driver's",
                thread_in_words(caller),
                if enabled { "ENABLE" } else { "DISABLE" },
                crate::system::text::count(events.len() as u64, "event"),
            ));
        }
    }

    /// Reports a possible reason why the program has failed.
    fn report_at_failure(&self) {
        if let Some(message) = self.sampled_events.message() {
            complain(message);
        }
    }

    /// Reports, at the end, limitations that the program could not notice.
    fn report_at_end(&self, interrupted_calls: u64) {
        let records_mappings = || self.device.info().is_ok_and(|info| info.has_mappings);
        if let Some(event) = self
            .first_event_with_maps
            .as_ref()
            .filter(|_| !records_mappings())
        {
            complain(format_args!(
                "this kernel has no kprobes, so the driver can't record mappings with its samples: functions of programs \
                 that were executed meanwhile have no names.\n\
                 `pmctl record -e {event} -- COMMAND` has the same samples with names, in a file that `perf report` reads."
            ));
        }
        if let Some(owners) = &self.owners {
            let events = crate::system::text::count(self.refused_events, "event");
            let advice = busy_advice(self.allows_turns, has_other_owner(owners));
            complain(format_args!(
                "no counter was free for {events}, so the program could not open them: {owners}.\n{advice}"
            ));
        }
        if !self.uncounted_events.is_empty() {
            let events: Vec<&str> = self.uncounted_events.iter().map(String::as_str).collect();
            complain(format_args!(
                "QEMU's emulation counts instructions, clocks, branches, loads and stores only, and not {}.\n\
                 Programs that need other events, as rr needs conditional branches, don't work in this virtual machine.",
                events.join(", ")
            ));
        }
        if self.has_tried_bpf {
            complain(
                "the program could not attach a BPF program to an event of the driver's: the kernel runs BPF programs \
                 at its own events only.\n\
                 Run BPF tools without `pmctl wrap`.",
            );
        }
        if interrupted_calls > 0 {
            let calls = crate::system::text::count(interrupted_calls, "call");
            // Only root may run the thread that receives calls before all programs.
            let root_advice = if geteuid().is_root() {
                ""
            } else {
                "; as root, pmctl answers faster"
            };
            complain(format_args!(
                "signals interrupted {calls} about events before pmctl could take them: such a call fails with EINTR \
                 if the signal's handler has no SA_RESTART.\n\
                 Let the program call again at EINTR, or block signals meanwhile{root_advice}."
            ));
        }
    }
}

/// Returns advice on events for which no counter was free. With `has_others`, other programs have counters, too.
/// Otherwise the program's other events have all counters.
const fn busy_advice(allows_turns: bool, has_others: bool) -> &'static str {
    match (allows_turns, has_others) {
        (true, true) => {
            "Events that are sampled or of control groups have a counter of their own all the time, and others take \
             turns on the counters of their task or CPU. Count fewer events at once, or end the programs that \
             have the other counters."
        }
        (true, false) => {
            "All counters are in use by the program's own events. Those that are sampled or of control groups have a \
             counter of their own all the time, and others take turns on the counters of their task or CPU. Count \
             fewer events at once."
        }
        (false, true) => {
            "With --exact each event has a counter of its own all the time. Count fewer events at once, end the \
             programs that have the other counters, or leave --exact out: then events take turns."
        }
        (false, false) => {
            "All counters are in use by the program's own events: with --exact each event has a counter of its own all \
             the time. Count fewer events at once, or leave --exact out: then events take turns."
        }
    }
}

/// Returns the name and the TID of a thread, for messages.
fn thread_in_words(thread: Tid) -> String {
    let name = thread.name();
    format!("{} ({})", crate::system::text::printable(&name), thread.0)
}

/// Prints a call and its answer, for --verbose.
fn report_call(request: &Request, answer: &CallAnswer) {
    let [_, pid, cpu, group, flags, _] = request.arguments;
    let caller = Tid(request.thread);
    let event = answer::event_in_words(caller, request.arguments[0]);
    let answer = match answer {
        CallAnswer::Event { .. } => "an event of the driver's".to_owned(),
        CallAnswer::EarlyDummy { .. } => {
            "a dummy of the kernel's, until there is an event of the driver's".to_owned()
        }
        CallAnswer::Kernel(reason) => format!("left to the kernel: {reason}"),
        CallAnswer::NotCounted { errno } => format!("{errno}: this PMU does not count it"),
        CallAnswer::Error { errno, cause } if errno == cause => errno.to_string(),
        CallAnswer::Error { errno, cause } => format!("{errno} (the driver: {cause})"),
        CallAnswer::CallerDied => "the caller has died".to_owned(),
    };
    complain(format_args!(
        "{}: perf_event_open({event}, pid {}, cpu {}, group {}, flags {flags:#x}): {answer}",
        thread_in_words(caller),
        answer::int_argument(pid),
        answer::int_argument(cpu),
        answer::int_argument(group),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_are_to_end_only_if_they_have_counters() {
        for allows_turns in [true, false] {
            assert!(busy_advice(allows_turns, true).contains("end the programs"));
            let own = busy_advice(allows_turns, false);
            assert!(
                own.starts_with("All counters are in use by the program's own events"),
                "{own}"
            );
            assert!(!own.contains("end the"), "{own}");
        }
    }
}

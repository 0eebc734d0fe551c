// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pmctl wrap`: runs a program whose calls of `perf_event_open(2)` get events of the driver's.
//!
//! A seccomp filter hands the calls of the program, its threads and children to pmctl, which makes the same call to
//! the module and puts the descriptor into the program. What the driver does not count goes on to the kernel.
//!
//! pmctl opens the events with its own rights. So it takes part only if they are the program's: it refuses to run
//! with rights that its caller does not have, and leaves the calls of a task whose rights have changed to the kernel,
//! which judges by those of the task. A Landlock domain, which takes the events of tasks outside of it, can't be seen:
//! so events of tasks that are not the caller's are left to the kernel, too, unless the caller has `CAP_PERFMON`,
//! with which the kernel asks for no more. It is no sandbox: the memory that a call refers to can change between pmctl's
//! reading and the kernel's.

mod answer;
mod filter;
mod listener;
mod target;

use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::libc;
use perfmon::Device;
use perfmon::event::Owners;
use perfmon::sys::{Access, Driver, Node};

use crate::child::{Command, Ending, Running, Waiting};
use crate::cli::Wrap;
use crate::exit;
use crate::signals::{Event, Signals};
use crate::stdio::complain;

use answer::{Answer, answer};
use listener::{Listener, Request};
use target::Target;

/// Runs the program, and gives its exit code.
pub(crate) fn wrap(args: &Wrap) -> Result<u8> {
    refuse_more_rights()?;
    let command = Command::find(&args.command)?.prepared(filter::install);
    // It knows whether the driver is there and of this version, and says what to do.
    let device = Device::open().map_err(exit::with_help)?;
    let node = Node::open(Path::new(perfmon::PATH), Access::Read).context(perfmon::PATH)?;

    let signals = Signals::hold()?;
    let mut waiting = Waiting::fork(&command, signals.mask_before())?;
    let listener = listener(&mut waiting)?;
    let running = waiting.release()?;
    let mut server = Server {
        driver: &node,
        listener,
        verbose: args.verbose,
        others: false,
        device,
        nameless: None,
        refused: 0,
        owners: None,
    };
    let ending = server.follow(&signals, &running)?;
    server.conclude();
    if let Some(words) = ending.in_words() {
        complain(words);
    }
    Ok(ending.exit_code())
}

/// Fails if pmctl has rights from its file, that the program would then use.
fn refuse_more_rights() -> Result<()> {
    // SAFETY: The call takes a number and no memory.
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
fn listener(waiting: &mut Waiting<'_>) -> Result<Listener> {
    let number = waiting.prepared().map_err(|errno| match errno {
        Errno::EBUSY => anyhow::anyhow!(
            "the system calls of this program are listened to already: by another `pmctl wrap`, or by a container.\n\
             Leave out one `pmctl wrap`, or start it outside of the container."
        ),
        Errno::EINVAL | Errno::ENOSYS => anyhow::anyhow!(
            "the kernel can't hand system calls to pmctl: it needs CONFIG_SECCOMP_FILTER."
        ),
        errno => anyhow::Error::from(errno).context("can't filter the system calls of the command"),
    })?;
    let pid = i32::try_from(waiting.pid()).context("no number of a process")?;
    let descriptor = Target(pid).descriptor(number).context(
        "can't take a descriptor of the command: does /proc/sys/kernel/yama/ptrace_scope forbid it?",
    )?;
    Listener::new(descriptor).context("the kernel's seccomp is newer than pmctl")
}

/// What answers the calls.
struct Server<'a> {
    driver: &'a dyn Driver,
    listener: Listener,
    verbose: bool,
    /// The program has got events.
    others: bool,
    device: Device,
    /// The first event whose samples come without records of what programs map.
    nameless: Option<String>,
    /// How many events the driver had no counter for.
    refused: u64,
    /// Who had the counters when the first of them was refused.
    owners: Option<Owners>,
}

impl Server<'_> {
    /// Answers calls until the command has ended.
    fn follow(&mut self, signals: &Signals, running: &Running) -> Result<Ending> {
        loop {
            match signals.wait(None, Some(self.listener.as_fd()))? {
                Event::Other => self.serve()?,
                Event::Child => {
                    if let Some(ending) = running.ending()? {
                        return Ok(ending);
                    }
                }
                Event::End {
                    signal,
                    by_terminal,
                } => {
                    // What comes from the terminal, the command got itself.
                    if !by_terminal {
                        running.signal(signal);
                    }
                }
                Event::Nothing | Event::Switch | Event::Resized => {}
            }
        }
    }

    /// Answers one call.
    fn serve(&mut self) -> Result<()> {
        let received = self.listener.receive();
        let Some(request) = received.context("can't receive system calls")? else {
            return Ok(());
        };
        let answer = answer((self.driver, self.others), &self.listener, &request);
        if self.verbose {
            report(&request, &answer);
        }
        match answer {
            Answer::Event {
                event,
                close_on_exec,
                lacks_maps,
            } => {
                self.others = true;
                if lacks_maps && self.nameless.is_none() {
                    let caller = Target(request.thread);
                    self.nameless = Some(answer::event_in_words(caller, request.arguments[0]));
                }
                self.listener.give(&request, event.as_fd(), close_on_exec)
            }
            Answer::Kernel(_) => self.listener.leave_to_kernel(&request),
            Answer::Error { told, cause } => {
                if cause == Errno::EBUSY {
                    self.refused += 1;
                    self.owners.get_or_insert_with(|| self.device.owners());
                }
                self.listener.fail(&request, told)
            }
            Answer::Gone => Ok(()),
        }
        .context("can't answer a system call")
    }

    /// Says at the end what the program could not know.
    fn conclude(&self) {
        if let Some(event) = &self.nameless {
            complain(format_args!(
                "the driver's events don't tell what programs map: functions of programs that were executed meanwhile have \
                 no names.\n\
                 `pmctl record -e {event} -- COMMAND` has the same samples with names, in a file that `perf report` reads."
            ));
        }
        if let Some(owners) = &self.owners {
            let events = crate::text::count(self.refused, "event");
            complain(format_args!(
                "no counter was free for {events}, which the program took for missing: {owners}.\n\
                 The driver gives each event a counter of its own all the time. Count fewer events at once, or end \
                 what has the other counters."
            ));
        }
    }
}

/// Shows a call and its answer.
fn report(request: &Request, answer: &Answer) {
    let [_, pid, cpu, group, flags, _] = request.arguments;
    let caller = Target(request.thread);
    let event = answer::event_in_words(caller, request.arguments[0]);
    let answer = match answer {
        Answer::Event { .. } => "an event of the driver's".to_owned(),
        Answer::Kernel(reason) => format!("left to the kernel: {reason}"),
        Answer::Error { told, cause } if told == cause => told.to_string(),
        Answer::Error { told, cause } => format!("{told} (the driver: {cause})"),
        Answer::Gone => "the caller has died".to_owned(),
    };
    complain(format_args!(
        "{} ({}): perf_event_open({event}, pid {}, cpu {}, group {}, flags {flags:#x}): {answer}",
        crate::text::printable(&caller.name()),
        caller.0,
        answer::number(pid),
        answer::number(cpu),
        answer::number(group),
    ));
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages about missing rights to count or sample, with advice.

use std::fs;

use nix::unistd::{Uid, geteuid};
use perfmon::{Cause, Error};

use crate::system::exit;
use crate::system::files::read_lossy;
use crate::system::text::printable;
use crate::system::users::UserName;

/// The advice to a user without the right to count or sample all programs.
pub(crate) const OWN_COMMAND_ADVICE: &str = "Your own command: leave out -a and -C.";

/// A forbidden action: the verb `count` or `sample`, and pmctl's command for it.
type ForbiddenAction = (&'static str, &'static str);

const COUNT: ForbiddenAction = ("count", "stat");
const SAMPLE: ForbiddenAction = ("sample", "record");

/// Adds advice to an error of counting. `tid` is the thread that could not be counted, unless it is pmctl's own command.
pub(crate) fn with_counting_advice(error: Error, tid: Option<u32>) -> anyhow::Error {
    with_advice(error, tid, COUNT)
}

/// Adds advice to an error of sampling. `tid` has the same meaning as for [`with_counting_advice`].
pub(crate) fn with_sampling_advice(error: Error, tid: Option<u32>) -> anyhow::Error {
    with_advice(error, tid, SAMPLE)
}

/// Adds advice to an error of this action.
fn with_advice(error: Error, tid: Option<u32>, action: ForbiddenAction) -> anyhow::Error {
    if error.cause != Cause::Forbidden {
        return exit::with_help(error);
    }
    match tid.map(OwnedTask::read) {
        Some(Some(task)) => anyhow::anyhow!("{error}\n{}", task.advice(geteuid(), action)),
        Some(None) => exit::with_help(error),
        None => anyhow::anyhow!(
            "{error}\nTo {} in the kernel (`:k`), run it as root or with CAP_PERFMON, or allow it to all users with \
             `sysctl kernel.perf_event_paranoid=1`. User mode (`:u`) of your own programs needs none of it.",
            action.0
        ),
    }
}

/// Adds advice to an error of counting `event` on CPUs, for all programs.
pub(crate) fn with_cpu_counting_advice(error: &Error, event: &str) -> anyhow::Error {
    if error.cause == Cause::Forbidden {
        return anyhow::anyhow!("{}", all_programs_advice("count"));
    }
    exit::error_with_advice(&format!("can't count {event}"), error)
}

/// Returns advice on the rights that a user needs to count or sample all programs.
pub(crate) fn all_programs_advice(verb: &str) -> String {
    format!(
        "{}\n{OWN_COMMAND_ADVICE}",
        needed_rights(verb, "all programs")
    )
}

/// Returns the error of a user who may not count or sample cgroups, whose tasks may belong to any user.
pub(crate) fn cgroups_forbidden(verb: &str) -> anyhow::Error {
    anyhow::anyhow!(needed_rights(verb, "a cgroup"))
}

/// Returns advice on the rights that are needed for tasks of all users.
fn needed_rights(verb: &str, what: &str) -> String {
    format!(
        "to {verb} {what}, run it as root or with CAP_PERFMON, or, from Linux 7.3 on, allow it to all users with \
         `sysctl kernel.perf_event_paranoid=0` (now it is {}).",
        perf_event_paranoid()
    )
}

/// Returns the value of `kernel.perf_event_paranoid`.
pub(crate) fn perf_event_paranoid() -> String {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    level.unwrap_or_default().trim().to_owned()
}

/// An existing task, and its users.
#[derive(Debug, PartialEq, Eq)]
struct OwnedTask {
    tid: u32,
    name: String,
    /// The real user.
    real: Uid,
    /// The effective user.
    effective: Uid,
}

impl OwnedTask {
    fn read(tid: u32) -> Option<Self> {
        let status = read_lossy(format!("/proc/{tid}/status")).ok()?;
        Self::parse(tid, &status)
    }

    /// Parses the content of /proc/PID/status.
    fn parse(tid: u32, status: &str) -> Option<Self> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let mut uids = field("Uid:")?
            .split_whitespace()
            .map(|uid| uid.parse().ok());
        let mut uid = || uids.next().flatten().map(Uid::from_raw);
        Some(Self {
            tid,
            name: printable(field("Name:")?.trim()),
            real: uid()?,
            effective: uid()?,
        })
    }

    /// Returns advice for a `user` without the right to count or sample the task.
    fn advice(&self, user: Uid, (verb, command): ForbiddenAction) -> String {
        let Self {
            tid,
            name,
            real,
            effective,
        } = self;
        let root = format!("Run it as root (`sudo pmctl {command} -p {tid}`) or with CAP_PERFMON.");
        if *effective != user || *real != user {
            return format!(
                "Process {tid} ({name}) is {}'s, and pmctl is run by {}, who may {verb} processes of their own.\n{root}",
                UserName(*effective),
                UserName(user),
            );
        }
        format!(
            "Process {tid} ({name}) is {}'s own. The kernel forbids it all the same: for the kernel's part (`:k`), for a \
             process that runs a setuid program or one with capabilities, or by the policy \
             (/proc/sys/kernel/perf_event_paranoid is {}).\n{root}",
            UserName(user),
            perf_event_paranoid(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tsshd\nUmask:\t0022\nUid:\t0\t4000000\t0\t0\nGid:\t0\n";

    #[test]
    fn the_owner_is_named() {
        let task = OwnedTask::parse(12, STATUS).expect("it is well formed");
        assert_eq!(
            (task.real.as_raw(), task.effective.as_raw()),
            (0, 4_000_000)
        );
        let advice = task.advice(Uid::from_raw(4_000_001), COUNT);
        assert!(
            advice.starts_with(
                "Process 12 (sshd) is user 4000000's, and pmctl is run by user 4000001,"
            ),
            "{advice}"
        );
        assert!(advice.contains("sudo pmctl stat -p 12"), "{advice}");
        let advice = task.advice(Uid::from_raw(4_000_001), SAMPLE);
        assert!(
            advice.contains("who may sample processes of their own")
                && advice.contains("sudo pmctl record -p 12"),
            "{advice}"
        );
        assert_eq!(OwnedTask::parse(12, "Name:\tx\n"), None);
    }

    #[test]
    fn an_own_process_has_another_reason() {
        let own_user = Uid::from_raw(4_000_000);
        let task = OwnedTask {
            real: own_user,
            ..OwnedTask::parse(12, STATUS).expect("it is well formed")
        };
        assert!(task.advice(own_user, COUNT).contains("setuid"));
    }
}

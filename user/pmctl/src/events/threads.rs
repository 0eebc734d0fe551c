// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the threads that are counted or sampled.

use std::fs;

use anyhow::Result;

use crate::system::exit::Usage;
use crate::system::files::read_lossy;
use crate::system::stdio::complain;

/// A thread that is counted or sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    pub(crate) tid: u32,
    /// Name and number of the thread, as perf shows them.
    pub(crate) name: String,
}

impl Thread {
    fn new(tid: u32) -> Self {
        // The name of a thread need not be UTF-8.
        let comm = read_lossy(format!("/proc/{tid}/comm")).unwrap_or_default();
        let name = format!("{}-{tid}", crate::system::text::printable(comm.trim_end()));
        Self { tid, name }
    }
}

/// The processes and the threads of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskList {
    pub(crate) pids: Vec<u32>,
    pub(crate) tids: Vec<u32>,
}

impl TaskList {
    /// Returns the threads that exist now.
    pub(crate) fn threads(&self) -> Result<Vec<Thread>, Usage> {
        threads(&self.pids, &self.tids)
    }

    /// Opens events for all threads with `open`, and repeats that until no thread was created during a round, since a thread
    /// whose creator is not counted yet would be missed. The events of the previous round are closed before the next.
    pub(crate) fn open_for_all<T>(
        &self,
        mut open: impl FnMut(Vec<Thread>) -> Result<T>,
    ) -> Result<T> {
        /// The largest number of rounds, since a program may create threads all the time.
        const MAX_ROUNDS: usize = 10;
        let mut threads = self.threads()?;
        for _ in 0..MAX_ROUNDS {
            let open_events = open(threads.clone())?;
            // If the process has ended, no more threads are created.
            let Ok(current_threads) = self.threads() else {
                return Ok(open_events);
            };
            let is_known = |thread: &Thread| threads.iter().any(|known| known.tid == thread.tid);
            if current_threads.iter().all(is_known) {
                return Ok(open_events);
            }
            drop(open_events);
            threads = current_threads;
        }
        let open_events = open(threads)?;
        complain(
            "threads were created so fast while pmctl began to count that some of them may not be counted.\n\
             Start pmctl when all threads exist, or let pmctl start the program, which counts all threads.",
        );
        Ok(open_events)
    }
}

/// Returns the threads of these processes, and the threads `tids`.
fn threads(pids: &[u32], tids: &[u32]) -> Result<Vec<Thread>, Usage> {
    refuse_missing(pids, PROCESSES)?;
    refuse_missing(tids, THREADS)?;
    let mut listed_threads = Vec::new();
    for pid in pids {
        let folder = fs::read_dir(format!("/proc/{pid}/task"));
        let folder = folder.map_err(|_| missing_tasks(&[*pid], &[], PROCESSES))?;
        for entry in folder {
            let name = match entry {
                Ok(entry) => entry.file_name(),
                // The process has ended.
                Err(_) => break,
            };
            listed_threads.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
    }
    listed_threads.extend(tids);
    listed_threads.sort_unstable();
    listed_threads.dedup();
    Ok(listed_threads.into_iter().map(Thread::new).collect())
}

/// A kind of task: the option that names it, its noun, and a file that each task of the kind has in /proc/NUMBER.
type TaskKind = (&'static str, &'static str, &'static str);

const PROCESSES: TaskKind = ("-p", "process", "task");
const THREADS: TaskKind = ("-t", "thread", "comm");

/// Fails if one of these tasks does not exist. As in perf, none of them is counted then: the sum would be of fewer tasks
/// than the user has named.
fn refuse_missing(numbers: &[u32], kind: TaskKind) -> Result<(), Usage> {
    let exists = |number: &u32| fs::metadata(format!("/proc/{number}/{}", kind.2)).is_ok();
    let (present, missing): (Vec<u32>, Vec<u32>) = numbers.iter().copied().partition(exists);
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing_tasks(&missing, &present, kind))
    }
}

/// Returns the message about tasks that don't exist. `present` has the tasks of the command line that exist.
fn missing_tasks(missing: &[u32], present: &[u32], (option, noun, _): TaskKind) -> Usage {
    let list = |numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        numbers.join(",")
    };
    let them = if missing.len() == 1 { "it" } else { "them" };
    let missing: Vec<String> = missing
        .iter()
        .map(|number| format!("no {noun} {number}"))
        .collect();
    let advice = match present {
        [] => "; `ps -eL` lists them.".to_owned(),
        present => format!(". Leave {them} out: `{option} {}`.", list(present)),
    };
    Usage(format!(
        "{option}: there is {}{advice}",
        missing.join(", and ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;

    #[test]
    fn events_are_opened_for_all_threads() {
        let this = TaskList {
            pids: vec![std::process::id()],
            tids: Vec::new(),
        };
        let end = Arc::new(Barrier::new(2));
        let mut new = None;
        let mut rounds = Vec::new();
        let result = this.open_for_all(|threads| {
            rounds.push(threads.len());
            new.get_or_insert_with(|| {
                let end = Arc::clone(&end);
                let (sender, begun) = mpsc::channel();
                let thread = thread::spawn(move || {
                    sender.send(nix::unistd::gettid()).expect("the test waits");
                    end.wait();
                });
                (thread, begun.recv().expect("it has begun"))
            });
            Ok(threads)
        });
        let (thread, tid) = new.expect("it was opened once");
        end.wait();
        thread.join().expect("it does not panic");
        let result = result.expect("the process runs");
        assert!(rounds.len() > 1, "{rounds:?}");
        assert!(
            result
                .iter()
                .any(|thread| thread.tid == tid.as_raw().unsigned_abs())
        );
    }

    #[test]
    fn a_name_need_not_be_utf_8() {
        let thread = thread::spawn(|| {
            // SAFETY: PR_SET_NAME reads a string up to its NUL, and the literal ends with one.
            unsafe { nix::libc::prctl(nix::libc::PR_SET_NAME, c"a\xffb".as_ptr()) };
            Thread::new(nix::unistd::gettid().as_raw().unsigned_abs()).name
        });
        let name = thread.join().expect("it does not panic");
        assert!(name.starts_with("a\u{fffd}b-"), "{name}");
    }

    #[test]
    fn the_threads_of_a_process_are_found_once() {
        let pid = std::process::id();
        let listed_threads = threads(&[pid], &[pid]).expect("it runs");
        assert_eq!(
            listed_threads
                .iter()
                .filter(|thread| thread.tid == pid)
                .count(),
            1
        );
        assert!(
            listed_threads[0]
                .name
                .ends_with(&format!("-{}", listed_threads[0].tid))
        );
        for (pids, tids, expected) in [
            (
                &[0][..],
                &[][..],
                "-p: there is no process 0; `ps -eL` lists them.".to_owned(),
            ),
            (
                &[],
                &[0],
                "-t: there is no thread 0; `ps -eL` lists them.".to_owned(),
            ),
            (
                &[pid, 0],
                &[],
                format!("-p: there is no process 0. Leave it out: `-p {pid}`."),
            ),
            (
                &[0, pid, u32::MAX],
                &[],
                format!(
                    "-p: there is no process 0, and no process 4294967295. Leave them out: `-p {pid}`."
                ),
            ),
        ] {
            let error = threads(pids, tids).expect_err("0 is no task");
            assert_eq!(error.to_string(), expected);
        }
    }
}

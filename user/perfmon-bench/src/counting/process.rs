// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts each benchmark in processes of its own, so that a count is called exact only if two
//! processes have the same count.
//!
//! The count of a function can depend on its process: on the keys of hash maps, on earlier uses of
//! the heap, on random addresses. So each process counts only one benchmark. All processes have the
//! same arguments, an environment of the same size, and no random addresses.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};

use nix::sys::personality::{self, Persona};
use nix::unistd::dup2_stdin;

use crate::options::CHILD_OPTION;

/// The counts of a process: for each event, the count of each pass.
pub(crate) type Counts = Vec<Vec<u64>>;

/// Number of processes that count a benchmark if the counts of the first two differ.
const MAX_PROCESSES: usize = 6;

/// The environment variables that benchmarks inherit from this process.
const INHERITED_VARIABLES: [&str; 6] = [
    "CARGO_MANIFEST_DIR",
    "HOME",
    "LD_LIBRARY_PATH",
    "PATH",
    "RUST_BACKTRACE",
    "TMPDIR",
];

/// The size of the environment is a multiple of this number of bytes. A page is a multiple of all alignments of the stack
/// that matter.
const ENVIRONMENT_UNIT: usize = 4096;

/// Counts a benchmark in two processes, or in more processes if the counts of an event are equal in
/// all passes of a process but differ between the processes. For each event, returns one count of
/// each process if the passes of each process have equal counts, and otherwise the counts of all
/// passes.
pub(crate) fn count_in_processes(
    mut count: impl FnMut() -> Result<Counts, String>,
) -> Result<Counts, String> {
    let mut processes = vec![count()?, count()?];
    let has_stable_passes = |processes: &[Counts], event: usize| {
        processes.iter().all(|process| is_stable(&process[event]))
    };
    let differs_by_process = |event: usize| {
        has_stable_passes(&processes, event) && processes[0][event] != processes[1][event]
    };
    if (0..processes[0].len()).any(differs_by_process) {
        while processes.len() < MAX_PROCESSES {
            processes.push(count()?);
        }
    }
    let mut merged = vec![Vec::new(); processes[0].len()];
    for (event, runs) in merged.iter_mut().enumerate() {
        // If the passes of each process have equal counts, one pass stands for its process.
        let passes = if has_stable_passes(&processes, event) {
            1
        } else {
            usize::MAX
        };
        for process in &processes {
            runs.extend(process[event].iter().take(passes));
        }
    }
    Ok(merged)
}

/// Returns whether the counts of an event in all passes of a process are equal.
fn is_stable(passes: &[u64]) -> bool {
    passes.iter().all(|count| *count == passes[0])
}

/// Starts processes of this program, each of which counts one benchmark.
pub(crate) struct Processes {
    events: Vec<String>,
    environment: Vec<(OsString, OsString)>,
}

impl Processes {
    /// Prepares to count these events. `variables` are further environment variables, each NAME or NAME=VALUE.
    pub(crate) fn new(events: &[String], variables: &[String]) -> Result<Self, String> {
        Ok(Self {
            events: events.to_owned(),
            environment: environment(&chosen_variables(variables)?, |name| env::var_os(name)),
        })
    }

    /// Counts the benchmark of this name in a new process.
    pub(crate) fn count(&self, name: &str) -> Result<Counts, String> {
        let (mut ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        // The path and the name of the program are on the stack of the new process, so they are the same in each folder.
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("bench")
            .args(["--bench", CHILD_OPTION, "--exact", "--", name])
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(OwnedFd::from(theirs))
            .stdout(standard_error());
        let child = command.spawn();
        // Closes this process's copy of the other end of the connection, which the new process has.
        drop(command);
        let mut child = child.map_err(|error| format!("can't start /proc/self/exe: {error}"))?;
        let events = serde_json::to_vec(&self.events).unwrap_or_default();
        // Writing fails if the process has ended early. The error is ignored, since the missing
        // answer is reported below.
        let _ = ours.write_all(&events);
        let _ = ours.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let result = ours.read_to_end(&mut answer);
        let status = child.wait().map_err(|error| error.to_string())?;
        result.map_err(|error| error.to_string())?;
        read_answer(&answer, status)
    }
}

/// Turns off random addresses for the processes that this process starts. Returns a warning if that
/// is forbidden, as in some containers.
pub(crate) fn turn_off_random_addresses() -> Option<String> {
    let persona = personality::get().map(|persona| persona | Persona::ADDR_NO_RANDOMIZE);
    let error = persona.and_then(personality::set).err()?;
    Some(format!(
        "addresses are random here, so counts may vary from process to process: personality(2): {error}"
    ))
}

/// Returns a copy of standard error. Benchmarks get it as their standard output, because an export
/// may be on the standard output.
fn standard_error() -> Stdio {
    let stderr = io::stderr();
    let copy = stderr.as_fd().try_clone_to_owned();
    copy.map_or_else(|_| Stdio::inherit(), Stdio::from)
}

fn read_answer(answer: &[u8], status: ExitStatus) -> Result<Counts, String> {
    match serde_json::from_slice(answer) {
        Ok(result) => result,
        Err(_) => Err(format!(
            "its process ended before the benchmark was counted: {status}"
        )),
    }
}

/// Returns variables that the user has named, with their values.
pub(crate) fn chosen_variables(names: &[String]) -> Result<Vec<(OsString, OsString)>, String> {
    let variable = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.into(), value.into())),
        None => match env::var_os(text) {
            Some(value) => Ok((text.into(), value)),
            None => Err(format!("--env {text}: the variable is not set.")),
        },
    };
    names.iter().map(variable).collect()
}

/// Returns the environment of benchmarks. The size of the environment does not depend on the values
/// of its variables, because the size determines addresses on the stack.
fn environment(
    chosen: &[(OsString, OsString)],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<(OsString, OsString)> {
    let mut environment = chosen.to_vec();
    for (index, name) in INHERITED_VARIABLES.into_iter().enumerate() {
        if chosen.iter().any(|(other, _)| other == name) {
            continue;
        }
        environment.push(match variable(name) {
            Some(value) => (name.into(), value),
            // The array of pointers to the variables takes room, too. So a variable without meaning
            // takes the place of each unset variable.
            None => (
                format!("PERFMON_BENCH_UNSET_{index}").into(),
                OsString::new(),
            ),
        });
    }
    let padding_name = OsString::from("PERFMON_BENCH_PADDING");
    let length = |name: &OsString, value: &OsString| {
        name.as_bytes().len() + "=\0".len() + value.as_bytes().len()
    };
    let lengths = environment.iter().map(|(name, value)| length(name, value));
    let used = lengths.sum::<usize>() + length(&padding_name, &OsString::new());
    let padding = "-".repeat(used.next_multiple_of(ENVIRONMENT_UNIT) - used);
    environment.push((padding_name, padding.into()));
    environment
}

/// The connection to the parent process, which has started this process to count a benchmark.
pub(crate) struct Parent {
    stream: UnixStream,
    /// The names of the events.
    pub(crate) events: Vec<String>,
}

impl Parent {
    /// Takes the connection from the standard input, which is empty afterwards.
    pub(crate) fn connect() -> Result<Self, String> {
        let connect = || {
            let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
            dup2_stdin(File::open("/dev/null")?)?;
            let mut request = Vec::new();
            stream.read_to_end(&mut request)?;
            let events = serde_json::from_slice(&request)?;
            Ok::<_, io::Error>(Self { stream, events })
        };
        connect().map_err(|error| {
            format!("{CHILD_OPTION} is for processes that this program starts itself: {error}")
        })
    }

    /// Sends the counts, or the reason why there are none.
    pub(crate) fn answer(mut self, result: &Result<Counts, String>) -> Result<(), String> {
        let answer = serde_json::to_vec(result).map_err(|error| error.to_string())?;
        let result = self.stream.write_all(&answer);
        result.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// Merges the counts of processes, and returns them with the number of processes.
    fn merge(counts: impl Fn(u64) -> Counts) -> (u64, Counts) {
        let mut processes = 0;
        let merged = count_in_processes(|| {
            processes += 1;
            Ok(counts(processes))
        });
        (processes, merged.expect("nothing fails"))
    }

    #[test]
    fn counts_are_exact_if_two_processes_have_them() {
        assert_eq!(
            merge(|_| vec![vec![5, 5], vec![1, 1]]),
            (2, vec![vec![5, 5], vec![1, 1]])
        );
    }

    #[test]
    fn if_processes_differ_six_of_them_count_one_pass_each() {
        let (processes, merged) = merge(|process| vec![vec![5 + process; 2], vec![1, 1]]);
        assert_eq!(processes, 6);
        assert_eq!(merged, [vec![6, 7, 8, 9, 10, 11], vec![1; 6]]);
    }

    #[test]
    fn an_event_whose_passes_differ_has_no_effect_on_the_others() {
        let (processes, merged) = merge(|process| vec![vec![process; 2], vec![7, 8]]);
        assert_eq!(processes, 6);
        assert_eq!(merged, [vec![1, 2, 3, 4, 5, 6], [7, 8].repeat(6)]);
    }

    #[test]
    fn if_passes_differ_all_of_them_count() {
        let (processes, merged) = merge(|process| vec![vec![5, 6 + process]]);
        assert_eq!((processes, merged), (2, vec![vec![5, 7, 5, 8]]));
    }

    #[test]
    fn the_environment_always_takes_the_same_room() {
        let room = |variables: &[(OsString, OsString)]| {
            let bytes = variables
                .iter()
                .map(|(name, value)| name.len() + value.len() + 2);
            (variables.len(), bytes.sum::<usize>())
        };
        let here = environment(&[], |name| Some(format!("/a/value/of/{name}").into()));
        let elsewhere = environment(&[], |name| (name == "PATH").then(|| "/bin".into()));
        assert_eq!(
            room(&here),
            (INHERITED_VARIABLES.len() + 1, ENVIRONMENT_UNIT)
        );
        assert_eq!(room(&elsewhere), room(&here));
        assert!(elsewhere.contains(&("PATH".into(), "/bin".into())));
        let chosen = [("HOME".into(), "/x".into()), ("MORE".into(), "1".into())];
        let chosen = environment(&chosen, |_| Some("/y".into()));
        assert_eq!(
            room(&chosen),
            (INHERITED_VARIABLES.len() + 2, ENVIRONMENT_UNIT)
        );
        let homes = chosen.iter().filter(|(name, _)| name == "HOME");
        assert_eq!(homes.map(|(_, value)| value).collect::<Vec<_>>(), ["/x"]);
    }

    #[test]
    fn a_chosen_variable_has_a_value_or_is_set() {
        let variables = |text: &str| chosen_variables(&[text.to_owned()]);
        assert_eq!(
            variables("SIZE=a=b"),
            Ok(vec![("SIZE".into(), "a=b".into())])
        );
        let path = variables("PATH").expect("cargo sets it");
        assert_eq!(Some(&path[0].1), env::var_os("PATH").as_ref());
        let error = variables("PERFMON_BENCH_NONE").expect_err("no test sets it");
        assert!(error.contains("is not set"), "{error}");
    }

    #[test]
    fn a_process_without_an_answer_is_an_error() {
        let panicked = ExitStatus::from_raw(101 << 8);
        let error = read_answer(b"", panicked).expect_err("it has not answered");
        assert!(error.ends_with("exit status: 101"), "{error}");
        assert_eq!(
            read_answer(br#"{"Ok": [[5]]}"#, panicked),
            Ok(vec![vec![5]])
        );
        let answer = br#"{"Err": "no counter"}"#;
        assert_eq!(read_answer(answer, panicked), Err("no counter".to_owned()));
    }
}

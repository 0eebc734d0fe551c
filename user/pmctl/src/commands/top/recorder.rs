// SPDX-License-Identifier: MIT OR Apache-2.0
//! The recorder of `pmctl top`, which is a child process: `pmctl record -o -`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use perfmon::sys::parse_tasks_not_followed;

use crate::args::{Key, KeyNeed, Top};
use crate::events::rights::OWN_COMMAND_ADVICE;
use crate::system::child::own_program;
use crate::system::exit::{self, Failed};

/// The largest number of bytes of a block, which is the result of one read.
const READ_SIZE: usize = 1 << 16;
/// The largest number of blocks of output in the queue.
const MAX_WAITING_BLOCKS: usize = 1 << 10;

/// The result of a wait for the recorder's output.
pub(super) enum RecorderOutput {
    Bytes(Vec<u8>),
    /// No output came in time.
    Nothing,
    /// The recorder has closed its output.
    End,
}

/// The recorder's process and its output.
pub(super) struct RecorderProcess {
    child: Child,
    blocks: Receiver<Vec<u8>>,
    has_ended: bool,
}

impl RecorderProcess {
    /// Starts the recorder with the options of `pmctl top`.
    pub(super) fn start(args: &Top) -> Result<Self> {
        let mut command = Command::new(own_program());
        command.args(arguments(args));
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Kills the recorder with pmctl. Without samples it writes nothing, and would not notice that its reader has gone.
        // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only
        // async-signal-safe code may run: this closure makes one system call, prctl(2), and
        // allocates nothing.
        unsafe { command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?)) };
        let mut child = command
            .spawn()
            .context("can't start pmctl as the recorder")?;
        let mut output = child.stdout.take().context("the recorder has no output")?;
        let (sender, blocks) = sync_channel(MAX_WAITING_BLOCKS);
        let recorder = Self {
            child,
            blocks,
            has_ended: false,
        };
        // Blocks signals in the new thread: the main thread handles them, since it may have to restore the terminal.
        let previous_mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let previous_mask = previous_mask.context("can't block signals")?;
        thread::spawn(move || {
            let mut block = vec![0; READ_SIZE];
            while let Ok(number) = output.read(&mut block) {
                if number == 0 || sender.send(block[..number].to_vec()).is_err() {
                    break;
                }
            }
        });
        previous_mask
            .thread_set_mask()
            .context("can't restore signals")?;
        Ok(recorder)
    }

    /// Waits for the recorder's first bytes until the time `until`; `None` means without a limit.
    /// Returns no bytes if none have come by this time.
    ///
    /// # Errors
    /// The recorder's message, if it refuses to record.
    pub(super) fn wait_for_first_bytes(&mut self, until: Option<Instant>) -> Result<Vec<u8>> {
        let first = match until {
            Some(until) => self.wait(until),
            None => self
                .blocks
                .recv()
                .map_or(RecorderOutput::End, RecorderOutput::Bytes),
        };
        match first {
            RecorderOutput::Bytes(bytes) => Ok(bytes),
            RecorderOutput::Nothing => Ok(Vec::new()),
            RecorderOutput::End => {
                self.has_ended = true;
                self.wait_for_end()?;
                Err(anyhow!("the recorder ended before it wrote anything"))
            }
        }
    }

    /// Waits for output until a time.
    pub(super) fn wait(&mut self, until: Instant) -> RecorderOutput {
        if self.has_ended {
            return RecorderOutput::Nothing;
        }
        let limit = until.saturating_duration_since(Instant::now());
        match self.blocks.recv_timeout(limit) {
            Ok(bytes) => RecorderOutput::Bytes(bytes),
            Err(RecvTimeoutError::Timeout) => RecorderOutput::Nothing,
            Err(RecvTimeoutError::Disconnected) => {
                self.has_ended = true;
                RecorderOutput::End
            }
        }
    }

    /// Returns whether a sampled task has executed a program that must not be sampled. The driver says so in fdinfo of the
    /// recorder's events.
    pub(super) fn has_left_program(&self) -> bool {
        let events = fs::read_dir(format!("/proc/{}/fdinfo", self.child.id()));
        let mut events = events.into_iter().flatten().flatten();
        events.any(|event| {
            fs::read_to_string(event.path()).is_ok_and(|facts| parse_tasks_not_followed(&facts) > 0)
        })
    }

    /// Waits for the recorder's end.
    ///
    /// # Errors
    /// The recorder's message, if it has failed; its exit code is [`exit::USAGE`] if an option was wrong.
    pub(super) fn wait_for_end(&mut self) -> Result<()> {
        let mut words = String::new();
        if let Some(errors) = &mut self.child.stderr {
            errors
                .read_to_string(&mut words)
                .context("can't read from the recorder")?;
        }
        let status = self.child.wait().context("can't wait for the recorder")?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        match code {
            Some(0) => Ok(()),
            Some(code) => {
                let words = words.trim_end();
                let words = words.strip_prefix("pmctl: ").unwrap_or(words);
                // Other codes are those of `pmctl record`, which runs commands.
                let code = if code == exit::USAGE {
                    exit::USAGE
                } else {
                    exit::FAILURE
                };
                Err(Failed::new(code, &with_advice_for_top(words)).into())
            }
            None => Err(anyhow!("the recorder was killed: {status}")),
        }
    }
}

impl Drop for RecorderProcess {
    fn drop(&mut self) {
        // Nothing reads the recorder's output from now on. After SIGTERM it would end in order: it would write all
        // samples and symbols to a pipe that may be full, and might never end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the recorder's message with advice for `pmctl top`, which samples all programs without any option.
fn with_advice_for_top(words: &str) -> String {
    words.replace(
        OWN_COMMAND_ADVICE,
        "One process of your own: `pmctl top -p PID`.",
    )
}

/// Returns the recorder's command line.
fn arguments(args: &Top) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["record", "-q", "-o", "-"].map(OsString::from).into();
    let mut push = |option: &str, value: String| words.extend([option.into(), value.into()]);
    for events in &args.events {
        push("-e", events.clone());
    }
    match args.period {
        Some(period) => push("-c", period.to_string()),
        None => push("-F", args.freq.clone()),
    }
    match (&args.cpu, &args.pid, &args.tid) {
        (Some(cpus), ..) => push("-C", cpus.to_string()),
        (_, Some(pid), _) => push("-p", pid.clone()),
        (_, _, Some(tid)) => push("-t", tid.clone()),
        _ => words.push("-a".into()),
    }
    if args.chains {
        words.push("-g".into());
    }
    // The options are a set, since several keys can need the same option, which may be given only once.
    let needs = args.rows.keys().into_iter().filter_map(Key::need);
    let options: BTreeSet<&str> = needs.map(KeyNeed::option).collect();
    words.extend(options.into_iter().map(OsString::from));
    words
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::{Args, FromArgMatches};

    use super::*;

    fn recorder(script: &str) -> RecorderProcess {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        RecorderProcess::spawn(command).expect("there is a shell")
    }

    #[test]
    fn a_slow_recorder_is_not_waited_for() {
        let mut slow = recorder("exec sleep 1000");
        let until = Instant::now() + Duration::from_millis(50);
        assert!(
            slow.wait_for_first_bytes(Some(until))
                .expect("it has not failed")
                .is_empty()
        );
        let start = Instant::now();
        drop(slow);
        assert!(start.elapsed() < Duration::from_secs(100), "it was ended");
    }

    #[test]
    fn a_recorder_whose_output_waits_is_ended() {
        let recorder = recorder("trap '' TERM; exec yes");
        // The queue gets full in this time.
        thread::sleep(Duration::from_millis(300));
        let (sender, end) = sync_channel(1);
        thread::spawn(move || {
            drop(recorder);
            sender.send(())
        });
        assert!(
            end.recv_timeout(Duration::from_secs(100)).is_ok(),
            "it was waited for"
        );
    }

    #[test]
    fn the_recorders_message_and_first_bytes_are_returned() {
        let mut quick_recorder = recorder("printf first; exec sleep 1000");
        assert_eq!(
            quick_recorder
                .wait_for_first_bytes(None)
                .expect("it records"),
            b"first"
        );
        for limit in [None, Some(Instant::now() + Duration::from_secs(100))] {
            let mut failing_recorder = recorder("echo pmctl: no counter >&2; exit 125");
            let error = failing_recorder
                .wait_for_first_bytes(limit)
                .expect_err("it refuses");
            assert_eq!(error.to_string(), "no counter");
        }
    }

    #[test]
    fn an_event_that_left_a_task_is_recognized() {
        let has_left_task = |facts| parse_tasks_not_followed(facts) > 0;
        assert!(has_left_task("pos:\t0\nenabled:\t1\nleft:\t2\n"));
        assert!(!has_left_task("pos:\t0\nenabled:\t1\nleft:\t0\n"));
        assert!(!has_left_task("pos:\t0\nflags:\t02\n"));
        assert!(!recorder("exec sleep 1000").has_left_program());
    }

    #[test]
    fn an_option_that_several_keys_need_is_given_once() {
        let options = |keys: &str| {
            let line = ["top", "-e", "branches:pp", "--sort", keys];
            let matches = Top::augment_args(clap::Command::new("top")).get_matches_from(line);
            let args = Top::from_arg_matches(&matches).expect("it is well formed");
            let words = arguments(&args).into_iter();
            let words = words.skip_while(|word| word != "-a").skip(1);
            words
                .map(|word| word.into_string().expect("it is ASCII"))
                .collect::<Vec<_>>()
        };
        assert_eq!(options("mem,tlb,symbol_daddr"), ["-d"]);
        assert_eq!(
            options("weight,cgroup,mem,local_weight"),
            ["--all-cgroups", "-W", "-d"]
        );
        assert!(options("comm,symbol").is_empty());
    }

    #[test]
    fn exit_codes_are_those_of_top() {
        let code = |script: &str| {
            let error = recorder(script).wait_for_end().expect_err("it fails");
            error.downcast_ref::<Failed>().map(|failed| failed.code)
        };
        assert_eq!(code("exit 125"), Some(1));
        assert_eq!(code("exit 2"), Some(2));
    }

    #[test]
    fn advice_is_for_top() {
        let words = with_advice_for_top(&format!("It needs root.\n{OWN_COMMAND_ADVICE}"));
        assert!(words.starts_with("It needs root.\n"), "{words}");
        assert!(words.ends_with("`pmctl top -p PID`."), "{words}");
    }
}

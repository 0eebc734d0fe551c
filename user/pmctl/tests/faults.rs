// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults that need no PMU: outputs that are full, closed or have no reader, files that are damaged or have no end, and
//! signals at any moment. selftests/pmctl/faults.sh has the faults of counting and recording.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe2};

const RECORDINGS: [&str; 4] = ["callers", "branches", "lost", "timebase"];
/// Commands that print.
const PRINTING: [&str; 22] = [
    "report -i tests/recordings/callers.data",
    "report --branches -i tests/recordings/branches.data",
    "report -i /dev/stdin <tests/recordings/lost.data",
    "script -i tests/recordings/branches.data",
    "flamegraph -o - -i tests/recordings/branches.data",
    "flamegraph --folded -i tests/recordings/branches.data",
    "diff tests/recordings/callers.data tests/recordings/callers.data",
    "diff --json tests/recordings/callers.data tests/recordings/callers.data",
    "export --to firefox -o - -i tests/recordings/branches.data",
    "export --to chrome -o - -i tests/recordings/branches.data",
    "export --to collapsed -o - -i tests/recordings/branches.data",
    "export --to speedscope -o - -i tests/recordings/branches.data",
    "export --to pprof -o - -i tests/recordings/branches.data",
    "list --model skylake",
    "list --model skylake --json",
    "list --model skylake metrics",
    "info --replay tests/trees/ready",
    "doctor --replay tests/trees/ready",
    "encode cycles --model skylake",
    "help stat",
    "stat --help",
    "--version",
];
/// Commands that write counts, where a fault means that there are none.
const COUNTING: [&str; 3] = [
    "stat --report tests/recordings/counts.json -o -",
    "stat --report tests/recordings/intervals.json -o - -x,",
    "stat --report tests/recordings/counts.json -o - --json",
];

/// Returns the shell's command for `line`, in which `pmctl` is the program under test.
fn shell_command(line: &str) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_pmctl")).parent();
    let path = format!("{}:/usr/bin:/bin", folder.expect("it has one").display());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PATH", path);
    shell
}

/// Runs a command line of the shell, and returns its exit code.
fn run_in_shell(text: &str) -> Option<i32> {
    let status = shell_command(text).status();
    status.expect("there is a shell").code()
}

#[test]
fn output_without_a_reader_ends_a_command_as_it_ends_others() {
    for command in PRINTING.iter().chain(&COUNTING) {
        let mut shell = shell_command(&format!("exec pmctl {command}"));
        // No child of another test inherits the reading end.
        let (read, write) = pipe2(OFlag::O_CLOEXEC).expect("a pipe can be made");
        drop(read);
        let (stdout, stderr) = (Stdio::from(write), Stdio::piped());
        let child = shell.stdout(stdout).stderr(stderr).spawn();
        let child = child.expect("there is a shell");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGPIPE),
            "{command}: {output:?}"
        );
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(
            !words.contains("ipe") && !words.contains("panic"),
            "{command}: {words}"
        );
    }
}

#[test]
fn output_that_is_full_or_closed_is_an_error() {
    let printing = PRINTING.map(|command| (command, 1));
    for (command, code) in printing
        .into_iter()
        .chain(COUNTING.map(|command| (command, 125)))
    {
        for (output, reason) in [
            (">/dev/full", "No space left"),
            (">&-", "standard output is closed"),
        ] {
            let output = shell_command(&format!("pmctl {command} {output}"))
                .output()
                .expect("there is a shell");
            let words = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{command}: {words}");
            assert!(
                words.contains("pmctl: ") && words.contains(reason),
                "{command}: {words}"
            );
        }
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for (line, code) in [
        ("pmctl nonsense 2>/dev/full", 2),
        ("pmctl encode x 2>/dev/full", 2),
        ("pmctl stat -- nonexistent-program 2>/dev/full", 127),
        ("pmctl record -- nonexistent-program 2>/dev/full", 127),
        ("pmctl --help >/dev/full 2>/dev/null", 1),
        ("pmctl --help >&- 2>/dev/null", 1),
        (
            "pmctl info --replay tests/trees/ready >/dev/full 2>/dev/null",
            1,
        ),
        ("pmctl info --replay tests/trees/ready >&- 2>/dev/null", 1),
        (
            "pmctl script -i tests/recordings/lost.data >/dev/full 2>/dev/null",
            1,
        ),
        (
            "pmctl script -i tests/recordings/lost.data 2>/dev/full >/dev/null",
            1,
        ),
        ("pmctl info --replay tests/trees/ready >/dev/null 2>&-", 0),
    ] {
        assert_eq!(run_in_shell(line), Some(code), "{line}");
    }
}

#[test]
fn a_file_that_may_not_grow_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let out = folder.path().join("out");
    let line = format!(
        "ulimit -f 0; pmctl script -i tests/recordings/lost.data >{} 2>/dev/null",
        out.display()
    );
    // SIGXFSZ would have ended pmctl with 128 + 25.
    assert_eq!(run_in_shell(&line), Some(1));
}

/// Runs pmctl with limits of a gigabyte of memory and of 300 seconds.
fn run_limited(arguments: &str) -> Output {
    let limits = "ulimit -v 1048576; exec timeout 300";
    shell_command(&format!("{limits} pmctl {arguments}"))
        .output()
        .expect("there is a shell")
}

#[test]
fn files_without_an_end_are_refused() {
    for (arguments, code) in [
        ("report -i /dev/zero", 1),
        ("diff tests/recordings/lost.data /dev/zero", 1),
        ("annotate -i /dev/zero", 1),
        ("stat --report /dev/zero", 125),
    ] {
        let output = run_limited(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {output:?}");
        assert!(
            output.stderr.starts_with(b"pmctl: "),
            "{arguments}: {output:?}"
        );
    }
}

#[test]
fn a_recording_that_is_cut_off_says_so() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("cut.data");
    for name in RECORDINGS {
        let whole_file = fs::read(format!("tests/recordings/{name}.data")).expect("it is there");
        for part in 1..10 {
            fs::write(&path, &whole_file[..whole_file.len() * part / 10]).expect("there is room");
            let output = run_limited(&format!("script -i {}", path.display()));
            let words = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{words}");
            assert!(
                output.stdout.is_empty() && words.contains("the file is cut off"),
                "{words}"
            );
        }
    }
}

/// A generator of pseudo-random numbers; equal seeds give equal numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

#[test]
fn damaged_recordings_are_shown_or_refused() {
    /// Number of times that each recording is damaged.
    const ROUNDS: u64 = 60;
    let commands = [
        "report --stdio -i",
        "report --branches -i",
        "script -i",
        "annotate -i",
        "flamegraph -o - -i",
        "diff tests/recordings/callers.data",
        "export --to firefox -o - -i",
        "export --to pprof -o - -i",
        "export --to chrome -o - -i",
        "export --to speedscope -o - -i",
        "export --to collapsed -o - -i",
        "export --to perf-data -o /dev/null -i",
    ];
    let folder = tempfile::tempdir().expect("a folder can be made");
    let check_damaged = |name: &str| {
        let path = folder.path().join(name);
        let whole_file = fs::read(format!("tests/recordings/{name}.data")).expect("it is there");
        for seed in 0..ROUNDS {
            let random = &mut Random(seed);
            let mut bytes = whole_file.clone();
            for _ in 0..[1, 1, 4, 200][random.below(4)] {
                let place = random.below(bytes.len());
                bytes[place] = [0, 1, 0x80, 0xff][random.below(4)];
            }
            fs::write(&path, bytes).expect("there is room");
            let index = usize::try_from(seed).expect("it is small") % commands.len();
            let arguments = format!("{} {}", commands[index], path.display());
            let output = run_limited(&arguments);
            let words = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code();
            assert!(
                matches!(code, Some(0..=2)),
                "{seed}: {arguments}: {code:?} {words}"
            );
            assert!(
                code == Some(0) || words.contains("pmctl: "),
                "{seed}: {arguments}: {words}"
            );
        }
    };
    thread::scope(|scope| {
        for name in RECORDINGS {
            scope.spawn(move || check_damaged(name));
        }
    });
}

#[test]
fn a_signal_leaves_no_part_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("out");
    let start = |format: &str| -> Child {
        Command::new(env!("CARGO_BIN_EXE_pmctl"))
            .args([
                "export",
                "--to",
                format,
                "-i",
                "tests/recordings/branches.data",
                "-o",
            ])
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it was built")
    };
    assert!(start("speedscope").wait().expect("it ends").success());
    let whole_file = fs::read(&path).expect("it is there");
    let mut killed_count = 0;
    // On a busy host the signals may come after the end of the export: then there are more rounds.
    for round in 0..6000 {
        if round >= 60 && killed_count > 5 {
            break;
        }
        fs::write(&path, "before").expect("there is room");
        let signal = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP][round % 3];
        let mut child = start("speedscope");
        // The export takes a few milliseconds, so the signals arrive at various points of it.
        thread::sleep(Duration::from_micros(
            30 * u64::try_from(round % 60).expect("it is small"),
        ));
        let pid = i32::try_from(child.id()).expect("an ID of a process");
        // The child has not been waited for, so no other process has got its ID.
        kill(Pid::from_raw(pid), signal).expect("it is ours");
        let status = child.wait().expect("it was started");
        let content = fs::read(&path).expect("it is there");
        match status.signal() {
            Some(number) => {
                killed_count += 1;
                assert_eq!(number, signal as i32);
                assert!(
                    content == b"before" || content == whole_file,
                    "{} bytes",
                    content.len()
                );
            }
            None => assert!(status.success() && content == whole_file, "{status}"),
        }
        let names: Vec<_> = folder.path().read_dir().expect("it is ours").collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
    assert!(killed_count > 5, "{killed_count}");
}

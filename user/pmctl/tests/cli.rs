// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers of the command line where there is no PMU: help, mistakes, and recordings of other machines.
//! Counting itself is tested in the virtual machine, by selftests/pmctl/.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use assert_cmd::Command;
use nix::sys::signal::{SigHandler, Signal, signal};

#[test]
fn commands_have_the_recorded_output() {
    trycmd::TestCases::new()
        .case("tests/cmd/*.trycmd")
        // The width of help.
        .env("COLUMNS", "80");
}

fn pmctl(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("pmctl")
        .expect("it was built")
        .args(arguments)
        .assert()
}

#[test]
fn a_usage_error_exits_with_2() {
    for arguments in [
        &["stat"][..],
        &["stat", "-r", "x", "true"],
        &["stat", "-I", "0", "true"],
        &["report", "--percent-limit", "nan"],
        &["no"],
    ] {
        pmctl(arguments).code(2);
    }
}

/// A program that ignores SIGCHLD passes that on to pmctl, and the kernel would then reap pmctl's children itself.
#[test]
fn children_are_waited_for_if_the_caller_ignores_sigchld() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_pmctl"));
    command.args(["top", "--stdio", "--iterations", "1"]);
    let ignore = || {
        // SAFETY: A handler must be safe to run at any time. `SigIgn` is no handler: no code of this process runs.
        unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }?;
        Ok(())
    };
    // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only
    // async-signal-safe code may run: this closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(ignore) };
    let output = command.output().expect("it was built");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!errors.contains("can't wait"), "{errors}");
}

#[test]
fn a_picture_goes_to_standard_output() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let recording = std::fs::canonicalize("tests/recordings/timebase.data").expect("it is there");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_pmctl"))
        .args(["flamegraph", "-o", "-", "-i"])
        .arg(recording)
        .current_dir(folder.path())
        .output()
        .expect("it was built");
    assert!(output.status.success());
    let picture = String::from_utf8(output.stdout).expect("it is text");
    assert!(picture.starts_with("<?xml"), "{picture}");
    assert!(
        picture.trim_end().ends_with("</svg>"),
        "the text ends with the picture: {picture}"
    );
    let mut files = folder.path().read_dir().expect("it is ours");
    assert!(files.next().is_none(), "no file is called `-`");
}

/// The picture is made by `pmctl bench --suite tests/suites/v?.json -e instructions:u --export svg`.
#[test]
fn the_plot_of_a_suite_is_the_documentations() {
    let names = ["v1", "v2", "v3"].map(|name| format!("tests/suites/{name}.json"));
    let mut arguments = vec!["bench", "--suite"];
    arguments.extend(names.iter().map(String::as_str));
    arguments.extend(["-e", "instructions:u", "--export", "svg"]);
    let output = pmctl(&arguments).code(0).get_output().stdout.clone();
    let picture = std::fs::read("../../Documentation/pictures/suite.svg").expect("it is there");
    assert_eq!(
        String::from_utf8_lossy(&output),
        String::from_utf8_lossy(&picture)
    );
}

/// Changes the bytes of a recording, and returns whether `pmctl diff` calls it complete.
fn is_complete(recording: &str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
    let mut bytes = std::fs::read(format!("tests/recordings/{recording}")).expect("it is there");
    change(&mut bytes);
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("perf.data");
    std::fs::write(&path, bytes).expect("there is room");
    let name = path.to_str().expect("it is text");
    let output = pmctl(&["diff", "--json", name, name]).success();
    let tables: serde_json::Value =
        serde_json::from_slice(&output.get_output().stdout).expect("it is JSON");
    tables[0]["recordings"][0]["complete"] == true
}

#[test]
fn a_recording_that_lacks_samples_is_not_complete() {
    /// The bytes of the header with the bits of the features, which are written when the recording ends.
    const FEATURES: std::ops::Range<usize> = 72..104;
    assert!(is_complete("timebase.data", |_| {}));
    assert!(
        !is_complete("timebase.data", |bytes| bytes[FEATURES].fill(0)),
        "pmctl was killed"
    );
    assert!(is_complete("of-perf.data", |_| {}));
    let lose = |bytes: &mut Vec<u8>| {
        let word = |bytes: &[u8], at: usize| {
            usize::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
        };
        let mut record = word(bytes, 40);
        // Makes PERF_RECORD_LOST of the PERF_RECORD_EXIT: an ID, and the number of lost records.
        while bytes[record] != 4 {
            record += word(bytes, record) >> 48;
        }
        bytes[record] = 2;
        bytes[record + 16..record + 24].copy_from_slice(&5000_u64.to_le_bytes());
    };
    assert!(!is_complete("of-perf.data", lose), "perf lost records");
}

#[test]
fn an_exported_recording_stays_private() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let mode = |format: &str, file: &str| {
        let path = folder.path().join(file);
        let name = path.to_str().expect("it is text");
        let input = "tests/recordings/timebase.data";
        pmctl(&["export", "--to", format, "-i", input, "-o", name]).success();
        let metadata = std::fs::metadata(&path).expect("it was written");
        metadata.permissions().mode() & 0o777
    };
    // Has the mode that the umask gives to new files.
    std::fs::write(folder.path().join("other"), "").expect("there is room");
    let other_metadata = std::fs::metadata(folder.path().join("other")).expect("it is there");
    assert_eq!(mode("perf-data", "x.data"), 0o600);
    assert_eq!(mode("perf-data", "other"), 0o600);
    assert_eq!(
        mode("firefox", "x.json"),
        other_metadata.permissions().mode() & 0o777
    );
}

/// Haswell has an erratum, and some of its events can't be counted. Notes on standard error say
/// both.
#[test]
fn notes_on_a_list_come_after_its_tables() {
    let output = std::process::Command::new("sh")
        .args(["-c", "exec \"$0\" list --model haswell 2>&1"])
        .arg(env!("CARGO_BIN_EXE_pmctl"))
        .output()
        .expect("it was built");
    let text = String::from_utf8(output.stdout).expect("it is text");
    let is_note = |line: &&str| line.starts_with("pmctl: ");
    let tables = text.lines().take_while(|line| !is_note(line)).count();
    let notes = text.lines().filter(is_note).count();
    assert!(tables > 100 && notes == 2, "{text}");
    assert_eq!(tables + notes, text.lines().count(), "{text}");
}

#[test]
fn lines_are_not_written_one_by_one() {
    // Each write(2) to this socket is a packet of its own.
    let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().expect("a pair can be made");
    let mut pmctl = std::process::Command::new(env!("CARGO_BIN_EXE_pmctl"))
        .args(["script", "-i", "tests/recordings/lost.data"])
        .stdout(std::process::Stdio::from(std::os::fd::OwnedFd::from(
            theirs,
        )))
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it was built");
    assert!(pmctl.wait().expect("it ends").success());
    drop(pmctl);
    ours.set_nonblocking(true).expect("it is ours");
    let mut bytes = vec![0; 1 << 17];
    let packets = std::iter::from_fn(|| ours.recv(&mut bytes).ok()).take_while(|size| *size > 0);
    assert!(packets.count() <= 2);
}

/// Runs a command line of the shell with standard output at a terminal, and returns what the terminal gets. setsid(1)
/// runs it with the arguments `setsid`: with `-c` the terminal becomes the controlling one.
fn run_at_terminal(setsid: &[&str], line: &str) -> String {
    let pair = nix::pty::openpty(None, None).expect("a terminal can be made");
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_pmctl")).parent();
    let path = format!("{}:/usr/bin:/bin", folder.expect("it has one").display());
    let mut child = std::process::Command::new("setsid")
        .args(setsid)
        .args(["-w", "sh", "-c", line])
        .env("PATH", path)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("LESS")
        .stdin(pair.slave.try_clone().expect("it is open"))
        .stdout(pair.slave)
        .spawn()
        .expect("there is setsid");
    let mut bytes = Vec::new();
    // Reading a terminal without a writer fails with EIO.
    let _ = std::fs::File::from(pair.master).read_to_end(&mut bytes);
    assert!(child.wait().expect("it ends").success(), "{line}");
    String::from_utf8(bytes).expect("it is text")
}

#[test]
fn a_report_has_colors_and_a_pager_on_a_terminal_only() {
    const REPORT: &str = "pmctl report --stdio -i tests/recordings/lost.data";
    const RED: &str = "\x1b[31m";
    let paged_text = run_at_terminal(&["-c"], &format!("PAGER='sed s/^/paged:/' {REPORT}"));
    assert!(
        paged_text.contains("paged:Recorded") && paged_text.contains(RED),
        "{paged_text}"
    );
    let plain_text = run_at_terminal(
        &["-c"],
        &format!("PAGER='sed s/^/paged:/' {REPORT} --no-pager"),
    );
    assert!(
        !plain_text.contains("paged:") && plain_text.contains(RED),
        "{plain_text}"
    );
    let unpaged_text = run_at_terminal(&["-c"], &format!("PAGER= NO_COLOR=1 {REPORT}"));
    assert!(
        unpaged_text.contains("share_60") && !unpaged_text.contains('\x1b'),
        "{unpaged_text}"
    );
    let options = run_at_terminal(&["-c"], &format!("PAGER='echo LESS=$LESS; cat' {REPORT}"));
    assert!(options.contains("LESS=FRSX"), "{options}");
    // Without a controlling terminal the pager could read no keys, so there is none.
    let console = run_at_terminal(&[], &format!("PAGER='sed s/^/paged:/' {REPORT}"));
    assert!(
        !console.contains("paged:") && console.contains(RED),
        "{console}"
    );
    for dumb in ["TERM=dumb", "TERM="] {
        let text = run_at_terminal(&["-c"], &format!("{dumb} PAGER='sed s/^/paged:/' {REPORT}"));
        assert!(text.starts_with("Recorded"), "{text}");
    }
    // The user leaves the pager early.
    run_at_terminal(
        &["-c"],
        "PAGER='head -n 1' pmctl script -i tests/recordings/lost.data",
    );
    // The pager gets the warnings about losses, after the text.
    let script = run_at_terminal(
        &["-c"],
        "PAGER=cat\\ -A pmctl script -i tests/recordings/lost.data 2>/dev/null",
    );
    assert!(script.contains("LOST"), "{script}");

    let piped_output = std::process::Command::new(env!("CARGO_BIN_EXE_pmctl"))
        .args(["report", "-i", "tests/recordings/lost.data"])
        .env("PAGER", "sed s/^/paged:/")
        .env("TERM", "xterm")
        .output();
    let piped_output =
        String::from_utf8(piped_output.expect("it was built").stdout).expect("it is text");
    assert!(piped_output.starts_with("Recorded"), "{piped_output}");
    assert!(!piped_output.contains('\x1b'), "{piped_output}");
}

#[test]
fn counts_have_colors_on_a_terminal_only() {
    // Half of the branches are missed.
    const COUNTS: &str =
        "sed 's/instructions/branches/g; s/cycles/branch-misses/g' tests/recordings/counts.json";
    let stat = |environment: &str, behind: &str| {
        let pmctl = format!("{environment} pmctl stat --report /dev/stdin 2>&1 {behind}");
        run_at_terminal(&["-c"], &format!("{COUNTS} | {pmctl}"))
    };
    let colored_text = stat("", "");
    assert!(colored_text.contains("\x1b[31m   50.00"), "{colored_text}");
    for plain in [stat("NO_COLOR=1", ""), stat("", "| cat")] {
        assert!(plain.contains("of all branches"), "{plain}");
        assert!(!plain.contains('\x1b'), "{plain}");
    }
}

/// Returns the completions of `typed` that bash offers after `pmctl stat -e` on a Skylake.
fn complete_event(typed: &str) -> Vec<String> {
    let script = r#"
        . completions/pmctl
        pmctl() { [ "$*" = "list --raw" ] && "$PMCTL" list --model skylake --raw; }
        COMP_WORDS=(pmctl stat -e "$1") COMP_CWORD=3
        _pmctl pmctl "$1" -e
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = std::process::Command::new("bash")
        .args(["-c", script, "bash", typed])
        .env("PMCTL", env!("CARGO_BIN_EXE_pmctl"))
        .output()
        .expect("there is bash");
    let text = String::from_utf8(output.stdout).expect("it is text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_names_of_metrics() {
    let script = r#"
        . completions/pmctl
        pmctl() { [ "$*" = "list metrics --raw" ] && "$PMCTL" list --model skylake metrics --raw; }
        COMP_WORDS=(pmctl stat -M "$1") COMP_CWORD=3
        _pmctl pmctl "$1" -M
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = std::process::Command::new("bash")
        .args(["-c", script, "bash", "insn_per_cycle,TopdownL"])
        .env("PMCTL", env!("CARGO_BIN_EXE_pmctl"))
        .output()
        .expect("there is bash");
    let text = String::from_utf8(output.stdout).expect("it is text");
    assert!(
        text.lines().any(|line| line == "insn_per_cycle,TopdownL2"),
        "{text}"
    );
}

#[test]
fn bash_completes_names_of_events() {
    assert_eq!(complete_event("instr"), ["instructions"]);
    assert_eq!(
        complete_event("cycles,uops_issued.a"),
        ["cycles,uops_issued.any"]
    );
    assert_eq!(
        complete_event("INST_RETIRED.PREC"),
        ["INST_RETIRED.PREC_DIST"]
    );
    assert!(complete_event("").len() > 200);
}

/// The C library's functions for names load modules of the machine's own C library. A statically
/// linked pmctl would crash where this library has another version.
#[test]
fn no_function_loads_modules_of_the_c_library() {
    use object::{Object, ObjectSymbol};

    let program = std::fs::read(env!("CARGO_BIN_EXE_pmctl")).expect("it was built");
    let program = object::File::parse(&*program).expect("it is an ELF file");
    let symbols = program.symbols().chain(program.dynamic_symbols());
    let names: Vec<&str> = symbols.filter_map(|symbol| symbol.name().ok()).collect();
    assert!(names.contains(&"main"), "it has its symbols");
    let loaders = [
        "getaddrinfo",
        "getgrgid_r",
        "getgrnam_r",
        "getgrouplist",
        "getnameinfo",
        "getpwnam_r",
        "getpwuid_r",
    ];
    let found: Vec<_> = loaders.iter().filter(|name| names.contains(name)).collect();
    assert!(found.is_empty(), "{found:?}");
}

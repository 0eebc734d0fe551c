// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks and generators of the source tree: `cargo xtask CHORE`.

mod arrows;
mod bindings;
mod comments;
mod cores;
mod event_names;
mod events;
mod files;
mod pmctl;
mod words;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask CHORE [--check]

  check LINUX   run all chores below except subjects, with --check, and tell what is wrong
  arrows        check which part of the module uses which, and that files don't use each other in a circle
  bindings      make the Rust bindings of C headers: rust/perfmon/abi/perfmon.rs, rust/perfmon/sys/ffi.rs
  cores LINUX   compare what the module knows of each core with what Linux knows
  event-names   make the list of event names for the C library, user/libperfmon/event_names.h
  events LINUX  make the tables of events from those of Linux's perf
  pmctl         make pmctl's manual page, its completions for shells and its page for users of perf
  subjects      check the subjects of commits, read from standard input
  words         check the words of the comments and of the documentation

  --check       only tell whether the files are up to date: exit code 1 if not

LINUX is a folder with the needed parts of Linux's source, and with its version in the file `version`.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["check", linux] => check_all(&top(), Path::new(linux)),
        ["arrows"] => arrows::check(&top()),
        ["words"] => words::check(&top()),
        ["subjects"] => words::check_subjects(),
        ["bindings"] => bindings::write(&top()),
        ["bindings", "--check"] => bindings::check(&top()),
        ["event-names"] => event_names::write(&top()),
        ["event-names", "--check"] => event_names::check(&top()),
        ["cores", linux] => cores::check(Path::new(linux)),
        ["events", linux] => events::write(&top(), Path::new(linux)),
        ["events", linux, "--check"] => events::check(&top(), Path::new(linux)),
        ["pmctl"] => pmctl::write(&top()),
        ["pmctl", "--check"] => pmctl::check(&top()),
        ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all checks, even after one has failed, so that one run reports everything that is wrong.
fn check_all(top: &Path, linux: &Path) -> anyhow::Result<()> {
    let checks = [
        ("arrows", arrows::check(top)),
        ("words", words::check(top)),
        ("bindings", bindings::check(top)),
        ("pmctl", pmctl::check(top)),
        ("event-names", event_names::check(top)),
        ("events", events::check(top, linux)),
        ("cores", cores::check(linux)),
    ];
    let mut failed_checks = Vec::new();
    for (name, result) in checks {
        if let Err(error) = result {
            eprintln!("xtask: {name}: {error:#}");
            failed_checks.push(name);
        }
    }
    anyhow::ensure!(
        failed_checks.is_empty(),
        "failed: {}",
        failed_checks.join(", ")
    );
    Ok(())
}

/// Returns the top folder of the source tree, which is two above this crate's.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("user/xtask is two folders below the top")
        .to_path_buf()
}

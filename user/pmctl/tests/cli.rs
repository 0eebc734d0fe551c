// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command line answers where there is no PMU: help, mistakes, and recordings of other machines.
//! Counting itself is tested in the virtual machine, by selftests/pmctl/.

use assert_cmd::Command;

#[test]
fn sessions() {
    trycmd::TestCases::new()
        .case("tests/cmd/*.trycmd")
        // How wide help is.
        .env("COLUMNS", "100");
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
        &["stat", "-r", "0", "true"],
        &["stat", "-I", "0", "true"],
        &["no"],
    ] {
        pmctl(arguments).code(2);
    }
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let mut pmctl = std::process::Command::new(env!("CARGO_BIN_EXE_pmctl"))
        .args(["info", "--replay", "tests/trees/ready"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it was built");
    drop(pmctl.stdout.take());
    assert!(pmctl.wait().expect("it ends").success());
}

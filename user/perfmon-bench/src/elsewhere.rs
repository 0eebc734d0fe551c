// SPDX-License-Identifier: MIT OR Apache-2.0
//! The same program in the virtual machine of `pmctl vm`, where there is no driver here.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use perfmon::{Cause, Device, Error};

/// The variable that is set in the virtual machine.
const IS_THERE: &str = "PERFMON_BENCH_IN_VM";

/// Makes sure that there is a driver, and else runs this program in the virtual machine, and does not return. What it
/// writes to `folder` is written here, too.
///
/// # Errors
/// Why nothing can be counted.
pub(crate) fn go_where_events_are(folder: Option<&Path>) -> Result<(), String> {
    match Device::open() {
        Ok(_) => Ok(()),
        Err(error) if error.cause == Cause::Absent && env::var_os(IS_THERE).is_none() => {
            Err(in_vm(&error, folder))
        }
        Err(error) => Err(told(&error)),
    }
}

/// Returns an error with its advice.
pub(crate) fn told(error: &Error) -> String {
    match error.cause.help() {
        Some(help) => format!("{error}.\n{help}"),
        None => error.to_string(),
    }
}

/// Runs this program in the virtual machine; returns only if that fails.
fn in_vm(absent: &Error, folder: Option<&Path>) -> String {
    let mut command = Command::new("pmctl");
    command.args(arguments(folder));
    match env::current_exe() {
        Ok(program) => command.arg(program),
        Err(error) => return format!("can't tell where this program is: {error}"),
    };
    command.args(env::args_os().skip(1));
    let error = command.exec();
    if error.kind() == ErrorKind::NotFound {
        return format!(
            "{absent}, and pmctl is not on the path, whose virtual machine would have one.\nLoad the module, \
             `modprobe perfmon`; or install pmctl and its machine, and try `pmctl vm -- stat -- true`."
        );
    }
    format!("can't run pmctl: {error}")
}

/// Returns what comes before the program.
fn arguments(folder: Option<&Path>) -> Vec<OsString> {
    let mut arguments = vec!["vm".into(), "--env".into(), format!("{IS_THERE}=1").into()];
    if let Some(folder) = folder {
        arguments.extend(["--write".into(), folder.into()]);
    }
    arguments.extend(["--run".into(), "--".into()]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baselines_are_written_here() {
        let words = arguments(Some(Path::new("target/perfmon/x")));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let line = words.join(" ");
        assert_eq!(
            line,
            "vm --env PERFMON_BENCH_IN_VM=1 --write target/perfmon/x --run --"
        );
    }
}

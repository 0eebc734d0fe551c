// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the program in the virtual machine of `pmctl vm` if there is no driver here.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use perfmon::{Cause, Device, Error};

/// The environment variable that is set in the virtual machine.
const IN_VM_VARIABLE: &str = "PERFMON_BENCH_IN_VM";

/// Does nothing if there is a driver. Otherwise replaces this process by a run of the program in the virtual machine, where
/// `folder` can be written.
///
/// # Errors
/// The reason why nothing can be counted, with advice.
pub(crate) fn ensure_driver(folder: Option<&Path>) -> Result<(), String> {
    match Device::open() {
        Ok(_) => Ok(()),
        Err(error) if error.cause == Cause::Absent && env::var_os(IN_VM_VARIABLE).is_none() => {
            Err(exec_in_vm(&error, folder))
        }
        Err(error) => Err(with_help(&error)),
    }
}

/// Returns the message of an error, with the advice if there is any.
pub(crate) fn with_help(error: &Error) -> String {
    match error.cause.help() {
        Some(help) => format!("{error}.\n{help}"),
        None => error.to_string(),
    }
}

/// Replaces this process by a run of the program in the virtual machine; returns the message if that fails.
fn exec_in_vm(device_error: &Error, folder: Option<&Path>) -> String {
    let mut command = Command::new("pmctl");
    command.args(arguments(folder));
    match env::current_exe() {
        Ok(program) => command.arg(program),
        Err(error) => return format!("can't find the path of this program: {error}"),
    };
    command.args(env::args_os().skip(1));
    let error = command.exec();
    if error.kind() == ErrorKind::NotFound {
        return format!(
            "{device_error}, and pmctl, whose virtual machine has one, is not in PATH.\nLoad the module, \
             `modprobe perfmon`; or install pmctl and its machine, and try `pmctl vm -- stat -- true`."
        );
    }
    format!("can't run pmctl: {error}")
}

/// Returns the arguments of pmctl before the program.
fn arguments(folder: Option<&Path>) -> Vec<OsString> {
    let mut arguments = vec![
        "vm".into(),
        "--env".into(),
        format!("{IN_VM_VARIABLE}=1").into(),
    ];
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
    fn the_folder_of_baselines_can_be_written() {
        let words = arguments(Some(Path::new("target/perfmon/x")));
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let line = words.join(" ");
        assert_eq!(
            line,
            "vm --env PERFMON_BENCH_IN_VM=1 --write target/perfmon/x --run --"
        );
    }
}

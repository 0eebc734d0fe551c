// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the program in the virtual machine of `pmctl vm` if there is no driver here.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use perfmon::{Cause, Device, Error};

/// The environment variable that is set in the virtual machine.
const IN_VM_VARIABLE: &str = "PERFMON_BENCH_IN_VM";

/// A folder in which a run in the virtual machine can change files.
pub(crate) struct WritableFolder {
    pub(crate) path: PathBuf,
    /// An environment variable in which the program finds the path.
    pub(crate) variable: Option<&'static str>,
}

/// Does nothing if there is a driver. Otherwise replaces this process by a run of the program in the virtual machine, where
/// the result of `folder` can be written.
///
/// # Errors
/// The reason why nothing can be counted, with advice; the error of `folder`.
pub(crate) fn ensure_driver(
    folder: impl FnOnce() -> Result<Option<WritableFolder>, String>,
) -> Result<(), String> {
    match Device::open() {
        Ok(_) => Ok(()),
        Err(error) if error.cause == Cause::Absent && env::var_os(IN_VM_VARIABLE).is_none() => {
            Err(exec_in_vm(&error, folder()?.as_ref()))
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
fn exec_in_vm(device_error: &Error, folder: Option<&WritableFolder>) -> String {
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
fn arguments(folder: Option<&WritableFolder>) -> Vec<OsString> {
    let mut arguments = vec![
        "vm".into(),
        "--env".into(),
        format!("{IN_VM_VARIABLE}=1").into(),
    ];
    if let Some(folder) = folder {
        arguments.extend(["--write".into(), folder.path.clone().into()]);
        if let Some(name) = folder.variable {
            let mut setting = OsString::from(name);
            setting.push("=");
            setting.push(&folder.path);
            arguments.extend(["--env".into(), setting]);
        }
    }
    arguments.extend(["--run".into(), "--".into()]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_results_can_be_written() {
        let line = |variable| {
            let folder = WritableFolder {
                path: "target/x".into(),
                variable,
            };
            let words = arguments(Some(&folder));
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        };
        assert_eq!(
            line(None),
            "vm --env PERFMON_BENCH_IN_VM=1 --write target/x --run --"
        );
        assert_eq!(
            line(Some("X_HOME")),
            "vm --env PERFMON_BENCH_IN_VM=1 --write target/x --env X_HOME=target/x --run --"
        );
    }
}

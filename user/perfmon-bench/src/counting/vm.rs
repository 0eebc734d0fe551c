// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the program in the virtual machine of `pmctl vm` if there is no driver here.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use perfmon::{Cause, Device, Error};

use super::process::chosen_variables;

/// The environment variable with further options of `pmctl vm`, such as `--memory 4096`.
const OPTIONS_VARIABLE: &str = "PERFMON_BENCH_VM";

/// Variables that cargo and the user set for a bench target. The target finds its files, libraries
/// and options by them.
const PASSED_VARIABLES: [&str; 3] = ["CARGO_MANIFEST_DIR", "LD_LIBRARY_PATH", "RUST_BACKTRACE"];

/// The environment variable that is set in the virtual machine.
const IN_VM_VARIABLE: &str = "PERFMON_BENCH_IN_VM";

/// A folder in which a run in the virtual machine can change files.
pub(crate) struct WritableFolder {
    pub(crate) path: PathBuf,
    /// An environment variable in which the program finds the path.
    pub(crate) variable: Option<&'static str>,
}

/// Does nothing if there is a driver. Otherwise replaces this process by a run of the program in
/// the virtual machine, where it can change files in the folders that `folders` returns.
/// `variables` are the variables of `--env`.
///
/// # Errors
/// The reason why nothing can be counted, with advice; or the error of `folders`.
pub(crate) fn ensure_driver(
    variables: &[String],
    folders: impl FnOnce() -> Result<Vec<WritableFolder>, String>,
) -> Result<(), String> {
    match Device::open() {
        Ok(_) => Ok(()),
        Err(error) if error.cause == Cause::Absent && env::var_os(IN_VM_VARIABLE).is_none() => {
            let mut settings = chosen_variables(variables)?;
            settings.extend(passed_variables(|name| env::var_os(name)));
            let options = env::var(OPTIONS_VARIABLE).unwrap_or_default();
            let arguments = arguments(&folders()?, &settings, &options);
            Err(exec_in_vm(&error, arguments))
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
fn exec_in_vm(device_error: &Error, arguments: Vec<OsString>) -> String {
    let mut command = Command::new("pmctl");
    command.args(arguments);
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

/// Returns the variables of this process that the program has in the virtual machine, too.
fn passed_variables(variable: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    let variables = PASSED_VARIABLES
        .iter()
        .filter_map(|name| Some((name.into(), variable(name)?)));
    variables.collect()
}

/// Returns the arguments of pmctl before the program. `options` are further options of `pmctl vm`, separated by blanks.
fn arguments(
    folders: &[WritableFolder],
    settings: &[(OsString, OsString)],
    options: &str,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["vm".into()];
    let mut set = |name: &OsStr, value: &OsStr| {
        let mut setting = name.to_owned();
        setting.push("=");
        setting.push(value);
        arguments.extend(["--env".into(), setting]);
    };
    set(IN_VM_VARIABLE.as_ref(), "1".as_ref());
    for (name, value) in settings {
        set(name, value);
    }
    for WritableFolder { path, variable } in folders {
        if let Some(name) = variable {
            set(name.as_ref(), path.as_ref());
        }
    }
    for folder in folders {
        arguments.extend(["--write".into(), folder.path.clone().into()]);
    }
    arguments.extend(options.split_whitespace().map(OsString::from));
    arguments.extend(["--run".into(), "--".into()]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(variable: Option<&'static str>, settings: &[(&str, &str)], options: &str) -> String {
        let folder = WritableFolder {
            path: "target/x".into(),
            variable,
        };
        let settings = settings
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let words = arguments(&[folder], &settings.collect::<Vec<_>>(), options);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn the_folder_of_results_can_be_written() {
        assert_eq!(
            line(None, &[], ""),
            "vm --env PERFMON_BENCH_IN_VM=1 --write target/x --run --"
        );
        assert_eq!(
            line(Some("X_HOME"), &[], ""),
            "vm --env PERFMON_BENCH_IN_VM=1 --env X_HOME=target/x --write target/x --run --"
        );
    }

    #[test]
    fn cargos_variables_and_the_users_options_are_passed() {
        assert_eq!(
            line(None, &[("RUST_BACKTRACE", "1")], "--memory 4096"),
            "vm --env PERFMON_BENCH_IN_VM=1 --env RUST_BACKTRACE=1 --write target/x --memory 4096 --run --"
        );
        let passed = passed_variables(|name| (name != "LD_LIBRARY_PATH").then(|| "x".into()));
        let names: Vec<_> = passed.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["CARGO_MANIFEST_DIR", "RUST_BACKTRACE"]);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The environment of a command in the guest. The size of the environment moves the stack, which changes counts, so most
//! variables have fixed values.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use anyhow::Result;

use super::task::TOOLS_DIRECTORY;
use crate::args::Vm;
use crate::system::exit::Usage;

/// Variables that always have the caller's values.
const CALLER_VARIABLES: [&str; 4] = ["HOME", "NO_COLOR", "PATH", "USER"];
/// Variables that have the caller's values if a stream is a terminal.
const CALLER_TERMINAL_VARIABLES: [&str; 2] = ["COLORTERM", "TERM"];
/// Variables with fixed values. Without PYTHONHASHSEED, Python's hashes are random, and counts of Python programs vary.
const FIXED_VARIABLES: [(&str, &str); 2] = [("LANG", "C.UTF-8"), ("PYTHONHASHSEED", "0")];

/// Returns the variables of a command, sorted by name.
pub(super) fn variables(args: &Vm, has_terminal: bool) -> Result<Vec<(OsString, OsString)>> {
    let mut variables: Vec<(OsString, OsString)> = Vec::new();
    let mut set = |name: &OsStr, value: OsString| {
        variables.retain(|(other, _)| other != name);
        variables.push((name.to_owned(), value));
    };
    if args.env_all {
        env::vars_os().for_each(|(name, value)| set(&name, value));
    } else {
        let caller_names = CALLER_VARIABLES
            .iter()
            .chain(CALLER_TERMINAL_VARIABLES.iter().filter(|_| has_terminal));
        for name in caller_names {
            if let Some(value) = env::var_os(name) {
                set(OsStr::new(name), value);
            }
        }
        for (name, value) in FIXED_VARIABLES {
            set(OsStr::new(name), value.into());
        }
    }
    for word in &args.env {
        let (name, value) = parse_variable(word)?;
        set(&name, value);
    }
    add_tools_directory(&mut variables);
    variables.sort();
    Ok(variables)
}

/// Appends the directory of the guest's pmctl to PATH.
fn add_tools_directory(variables: &mut Vec<(OsString, OsString)>) {
    let path = variables.iter_mut().find(|(name, _)| name == "PATH");
    match path {
        Some((_, path)) => path.push(format!(":{TOOLS_DIRECTORY}")),
        None => variables.push((
            "PATH".into(),
            format!("/usr/bin:/bin:{TOOLS_DIRECTORY}").into(),
        )),
    }
}

/// Parses NAME=VALUE, or NAME of a variable of the caller, into name and value.
fn parse_variable(word: &OsStr) -> Result<(OsString, OsString)> {
    let bytes = word.as_bytes();
    let Some(end) = bytes.iter().position(|byte| *byte == b'=') else {
        let Some(value) = env::var_os(word) else {
            let message = format!(
                "--env: the variable {} is not set here. Write NAME=VALUE to set it.",
                word.to_string_lossy()
            );
            return Err(Usage(message).into());
        };
        return Ok((word.to_owned(), value));
    };
    let part = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    if end == 0 {
        return Err(Usage(format!(
            "--env: `{}` lacks the name of a variable. Write NAME=VALUE.",
            word.to_string_lossy()
        ))
        .into());
    }
    Ok((part(&bytes[..end]), part(&bytes[end + 1..])))
}

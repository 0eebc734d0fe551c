// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the counts go, and in which form.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result};

use super::run::Run;
use super::{Report, Subject, csv, human, json};
use crate::cli::{Json, Stat};
use crate::screen::Colors;
use crate::stdio;

/// Shows nothing.
pub(super) struct Quiet;

impl Report for Quiet {
    fn interval(&mut self, _: Duration, _: &Run) -> Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &[Run]) -> Result<()> {
        Ok(())
    }
}

/// Returns the form that the options ask for.
pub(super) fn report<'a>(
    args: &Stat,
    subject: &'a Subject,
    output: Box<dyn Write>,
) -> Box<dyn Report + 'a> {
    if args.quiet {
        return Box::new(Quiet);
    }
    match (args.field_separator, args.json) {
        (Some(separator), _) => Box::new(csv::Csv::new(subject, output, separator)),
        (None, Some(Json::Perf)) => Box::new(json::Perf::new(subject, output)),
        (None, Some(Json::V1)) => Box::new(json::V1::new(subject, output)),
        (None, None) => Box::new(human::Human::new(subject, output, colors(args))),
    }
}

/// Returns the colours: some if the counts go to a terminal, unless `NO_COLOR` or `CLICOLOR` says otherwise.
fn colors(args: &Stat) -> Colors {
    let choice = match &args.output {
        None => AutoStream::choice(&io::stderr()),
        Some(path) if path.as_os_str() == "-" => AutoStream::choice(&io::stdout()),
        Some(_) => ColorChoice::Never,
    };
    Colors::new(choice != ColorChoice::Never)
}

/// Opens what the counts are written to.
pub(super) fn output(args: &Stat) -> Result<Box<dyn Write>> {
    let (output, name): (Box<dyn Write>, _) = match &args.output {
        None => {
            stdio::require_error()?;
            (Box::new(io::stderr()), "standard error".to_owned())
        }
        Some(path) if path.as_os_str() == "-" => {
            stdio::require_output()?;
            (Box::new(io::stdout()), "standard output".to_owned())
        }
        Some(path) => {
            let name = path.display().to_string();
            let file = File::create(path).with_context(|| format!("can't write {name}"))?;
            (Box::new(file), name)
        }
    };
    Ok(Box::new(stdio::Named { output, name }))
}

/// The command as one line.
pub(super) fn shown(args: &Stat) -> String {
    args.command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

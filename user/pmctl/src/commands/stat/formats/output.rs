// SPDX-License-Identifier: MIT OR Apache-2.0
//! The destination of the counts, and the form of the output.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result};

use super::lines::WithTotals;
use super::number_format::NumberFormat;
use super::v1::V1;
use super::{csv, human, json};
use crate::args::{Json, Stat};
use crate::commands::stat::runs::run::Run;
use crate::commands::stat::subject::Subject;
use crate::system::files::NewFile;
use crate::system::screen::Colors;
use crate::system::stdio;
use crate::system::whole_file::WholeFile;

/// A form that shows nothing.
pub(in crate::commands::stat) struct NoOutput;

impl NumberFormat for NoOutput {
    fn write_interval(&mut self, _: Duration, _: &Run) -> Result<()> {
        Ok(())
    }

    fn write_totals(&mut self, _: &[Run]) -> Result<()> {
        Ok(())
    }
}

/// Returns the form of the output that the options ask for.
pub(in crate::commands::stat) fn number_format<'a>(
    args: &Stat,
    subject: &'a Subject,
    output: Box<dyn Write>,
) -> Box<dyn NumberFormat + 'a> {
    if args.quiet {
        return Box::new(NoOutput);
    }
    match (args.field_separator, args.json) {
        (Some(separator), _) => Box::new(WithTotals::new(
            csv::Csv::new(subject, output, separator)
                .with_variation(args.repeat.is_some_and(|runs| runs > 1)),
            args.summary,
        )),
        (None, Some(Json::Perf)) => Box::new(WithTotals::new(
            json::PerfJson::new(subject, output),
            args.summary,
        )),
        (None, Some(Json::V1)) => Box::new(V1::new(subject, output)),
        (None, None) => {
            let look = human::Look {
                colors: colors(args),
                has_commas: !args.no_big_num,
                clears_screen: args.interval_clear,
            };
            Box::new(human::Human::new(subject, output, look))
        }
    }
}

/// A form that shows the counts, and also writes them to the file of --record.
struct ShownAndRecorded<'a> {
    shown_format: Box<dyn NumberFormat + 'a>,
    file_format: V1<'a, WholeFile>,
    /// The error of an interval that could not be shown. The counts are still recorded.
    failure: Option<anyhow::Error>,
}

impl NumberFormat for ShownAndRecorded<'_> {
    fn write_interval(&mut self, interval_end: Duration, run: &Run) -> Result<()> {
        self.file_format.write_interval(interval_end, run)?;
        if self.failure.is_none() {
            self.failure = self.shown_format.write_interval(interval_end, run).err();
        }
        Ok(())
    }

    fn write_totals(&mut self, runs: &[Run]) -> Result<()> {
        let result = self.file_format.write_totals(runs);
        let result = result.and_then(|()| Ok(self.file_format.output.finish()?));
        // The counts are shown after they were recorded, since standard output may be closed, and
        // also if they could not be recorded.
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.shown_format.write_totals(runs),
        }?;
        result
    }
}

/// Opens the file of --record, if there is one.
pub(in crate::commands::stat) fn open_recording(args: &Stat) -> Result<Option<WholeFile>> {
    let path = args.record.as_deref();
    path.map(WholeFile::create_private).transpose()
}

/// Returns the form of the output that the options ask for. If `record` is given, the form also writes this file of
/// --record.
pub(in crate::commands::stat) fn with_recording<'a>(
    args: &Stat,
    subject: &'a Subject,
    output: Box<dyn Write>,
    record: Option<WholeFile>,
) -> Box<dyn NumberFormat + 'a> {
    let shown_format = number_format(args, subject, output);
    match record {
        None => shown_format,
        Some(record) => Box::new(ShownAndRecorded {
            shown_format,
            file_format: V1::new(subject, record),
            failure: None,
        }),
    }
}

/// Returns the colours: on if the counts go to a terminal, unless `NO_COLOR` or `CLICOLOR` turns them off.
fn colors(args: &Stat) -> Colors {
    let choice = match &args.output {
        None if args.log_fd.is_some() => ColorChoice::Never,
        None => AutoStream::choice(&io::stderr()),
        Some(path) if path.as_os_str() == "-" => AutoStream::choice(&io::stdout()),
        Some(_) => ColorChoice::Never,
    };
    Colors::new(choice != ColorChoice::Never)
}

/// A file that the counts are written to.
struct CountsFile {
    file: File,
    /// The guard that removes a new file if no counts are written to it.
    _new: NewFile,
}

impl Write for CountsFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Opens the destination of the counts: standard error, the file of -o, or the descriptor of
/// --log-fd.
pub(in crate::commands::stat) fn open_output(args: &Stat) -> Result<Box<dyn Write>> {
    let (output, name): (Box<dyn Write>, _) = match (&args.output, args.log_fd) {
        (None, Some(number)) => {
            let file = stdio::duplicate_inherited(number)
                .with_context(|| format!("--log-fd {number}: can't write there"))?;
            (Box::new(file), format!("descriptor {number}"))
        }
        (None, None) => {
            stdio::require_error()?;
            (Box::new(io::stderr()), "standard error".to_owned())
        }
        (Some(path), _) if path.as_os_str() == "-" => {
            stdio::require_output()?;
            (Box::new(io::stdout()), "standard output".to_owned())
        }
        (Some(path), _) => {
            let name = path.display().to_string();
            let mut options = File::options();
            options.create(true).append(args.append);
            options.write(true).truncate(!args.append);
            let (file, new) =
                NewFile::open(path, &options).with_context(|| format!("can't write {name}"))?;
            (Box::new(CountsFile { file, _new: new }), name)
        }
    };
    Ok(Box::new(stdio::NamedOutput { output, name }))
}

/// Returns the command as one line.
pub(in crate::commands::stat) fn command_line(args: &Stat) -> String {
    args.command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stat::testing::{run, subject};

    /// An output that is full.
    struct Full;

    impl NumberFormat for Full {
        fn write_interval(&mut self, _: Duration, _: &Run) -> Result<()> {
            anyhow::bail!("it is full")
        }

        fn write_totals(&mut self, _: &[Run]) -> Result<()> {
            anyhow::bail!("it is full")
        }
    }

    #[test]
    fn counts_that_cannot_be_shown_are_recorded() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("counts");
        let subject = subject("instructions");
        for has_interval in [false, true] {
            let file = WholeFile::create_private(&path).expect("there is room");
            let mut format = ShownAndRecorded {
                shown_format: Box::new(Full),
                file_format: V1::new(&subject, file),
                failure: None,
            };
            if has_interval {
                let interval = format.write_interval(Duration::from_secs(1), &run(&[Some(2)]));
                interval.expect("the run goes on");
            }
            let error = format
                .write_totals(&[run(&[Some(7)])])
                .expect_err("it is full");
            assert_eq!(error.to_string(), "it is full");
            let text = std::fs::read_to_string(&path).expect("it was recorded");
            assert!(text.contains(r#""counts":[7]"#), "{text}");
            std::fs::remove_file(&path).expect("it is there");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts benchmarks, and compares the counts with a baseline.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use perfmon::Event;
use perfmon_compare::comparison::{Baseline, Comparison};
use perfmon_compare::document::{BenchDocument, BenchEntry, brand};
use perfmon_compare::verdict::{Outcome, Verdict};
use raw_cpuid::CpuId;

use super::baseline::BaselineFile;
use super::meter::Meter;
use super::process::{Counts, Parent, Processes, count_in_processes, turn_off_random_addresses};
use super::report;
use super::vm::{WritableFolder, ensure_driver, with_help};
use super::whole_file;
use crate::bencher::{Bencher, Task};
use crate::options::Options;
use crate::suite::{Bench, EXIT_NOT_COUNTED, Suite, check_result, print_error, print_to_stdout};

impl Suite {
    /// Counts each benchmark; prints and saves the counts, and checks the conditions.
    pub(crate) fn compare(&mut self, options: &Options) -> Result<ExitCode, String> {
        if self.benches.is_empty() {
            return Err("no benchmark matches the name. --list shows all names.".to_owned());
        }
        let baseline = options.baseline.as_deref().map(|name| {
            let file = self.baseline_file(name);
            let is_known = |name: &str| self.benches.iter().any(|bench| bench.name == name);
            Ok::<_, String>((file.read(name, is_known)?, file.path))
        });
        let baseline = baseline.transpose()?;
        self.refuse_impossible_conditions(options)?;
        let new_baseline = options.save_baseline.as_deref();
        let file = new_baseline.map(|name| self.baseline_file(name));
        let export = options.export.as_ref();
        let export = export.and_then(|export| Some((export.format, export.file.as_deref()?)));
        let baseline_output = file.as_ref().map(|file| ("--save-baseline", &*file.path));
        let export_output = export.map(|(_, file)| ("--export", file));
        let mut folders = Vec::new();
        for (option, file) in baseline_output.into_iter().chain(export_output) {
            let path = make_folder_of(file).map_err(|error| format!("{option}: {error}"))?;
            folders.push(WritableFolder {
                path,
                variable: None,
            });
        }
        folders.dedup_by(|one, other| one.path == other.path);
        ensure_driver(&options.env, || Ok(folders))?;
        let machine = brand(&CpuId::new());
        if let (Some(file), Some(name)) = (&file, new_baseline) {
            // Checks this before anything is counted, since the counts would be lost otherwise.
            file.kept_entries(name, (&machine, &options.events()), |name| {
                self.is_kept(name, options, &[])
            })?;
        }

        let (entries, failed) = self.count(options)?;
        let measured = BenchDocument::new(machine, options.events(), entries);
        let names = measured.commands.iter();
        let names: Vec<&str> = names.map(|entry| &entry.command[..]).collect();
        // Uses an empty baseline if there is none: otherwise all benchmarks would be compared with
        // the first benchmark.
        let baseline = match baseline {
            Some((document, file)) => Baseline::of_names((&file, document), &names),
            None => Baseline::empty(&measured),
        };
        let comparison = Comparison {
            measured: &measured,
            baseline: Some(&baseline),
        };
        let mut text = Vec::new();
        let result = report::write(&comparison, options, &self.target.name, &mut text);
        result.map_err(|error| error.to_string())?;
        if let Some((format, file)) = export {
            let mut text = Vec::new();
            let result = report::export(&comparison, format, &mut text);
            let result = result.and_then(|()| whole_file::write(file, &text));
            result.map_err(|error| format!("--export: can't write {}: {error}", file.display()))?;
        }
        // Printing fails if standard output is closed. The error is reported after the counts are
        // saved.
        let print_result = print_to_stdout(&String::from_utf8_lossy(&text));
        self.print_uncompared_names(&comparison, options, &failed);
        let code = self.check_conditions(&comparison, options);
        if let (Some(file), Some(name)) = (file, new_baseline) {
            let overwrites_baseline = is_same_file(&file.path, &baseline.file);
            if code != ExitCode::SUCCESS && overwrites_baseline {
                print_error(
                    &self.target.name,
                    "--save-baseline: the file is also the --baseline and was not changed, because a condition holds or can't be checked",
                );
            } else {
                file.save(name, measured, |name| self.is_kept(name, options, &failed))?;
            }
        }
        print_result?;
        if failed.is_empty() {
            return Ok(code);
        }
        let message = format!("these benchmarks were not counted: {}", failed.join(", "));
        if code == ExitCode::SUCCESS {
            return Err(message);
        }
        // Keeps the exit code of a condition that holds or that can't be checked.
        print_error(&self.target.name, &message);
        Ok(code)
    }

    fn baseline_file(&self, name: &str) -> BaselineFile {
        BaselineFile::named(name, &self.folder, &self.target)
    }

    /// Returns whether the saved counts of a benchmark are kept: because counting it failed, or because the command line
    /// does not select it.
    fn is_kept(&self, name: &str, options: &Options, failed: &[String]) -> bool {
        let is_left_out =
            options.selects_some() && self.benches.iter().all(|bench| bench.name != name);
        is_left_out || failed.iter().any(|failed| failed == name)
    }

    /// Fails if a condition names an event that is not counted, or needs a baseline and there is
    /// none.
    fn refuse_impossible_conditions(&self, options: &Options) -> Result<(), String> {
        let events = options.events();
        for condition in &options.fail_if {
            let text = &condition.text;
            if !events.contains(&condition.event) {
                return Err(format!(
                    "--fail-if '{text}': `{}` is not counted, only {}. Add it with -e.",
                    condition.event,
                    events.join(", ")
                ));
            }
            if condition.is_relative() && options.baseline.is_none() {
                return Err(format!(
                    "--fail-if '{text}': there is no baseline to compare {} with. Give --baseline NAME.",
                    self.target.name
                ));
            }
        }
        Ok(())
    }

    /// Counts each benchmark in processes of its own. Returns the counts, and the names of the benchmarks that can't be
    /// counted, for example because they panic.
    fn count(&self, options: &Options) -> Result<(Vec<BenchEntry>, Vec<String>), String> {
        // Reports an error that all benchmarks would have, such as an unknown event, only once.
        let opened = meter(&options.events())?.open();
        opened.map_err(|error| with_help(&error))?;
        let processes = Processes::new(&options.events(), &options.env)?;
        if let Some(warning) = turn_off_random_addresses() {
            print_error(&self.target.name, &warning);
        }
        let (mut entries, mut failed) = (Vec::new(), Vec::new());
        let progress = Progress::new();
        for bench in &self.benches {
            progress.show_name(&bench.name);
            match count_in_processes(|| processes.count(&bench.name)) {
                Ok(values) => entries.push(BenchEntry {
                    command: bench.name.clone(),
                    values,
                }),
                Err(error) => {
                    progress.clear();
                    print_error(&self.target.name, &format!("{}: {error}", bench.name));
                    failed.push(bench.name.clone());
                }
            }
        }
        if entries.is_empty() {
            return Err("no benchmark was counted.".to_owned());
        }
        Ok((entries, failed))
    }

    /// Counts the selected benchmark, and sends the counts to the process that has started this
    /// process.
    pub(crate) fn count_for_parent(&mut self) -> Result<ExitCode, String> {
        let parent = Parent::connect()?;
        let result = match &mut self.benches[..] {
            [bench] => count_here(bench, &parent.events),
            _ => Err("there is no benchmark of this name".to_owned()),
        };
        parent.answer(&result)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the names of the benchmarks that the baseline lacks, and of the benchmarks that only
    /// the baseline has.
    fn print_uncompared_names(
        &self,
        comparison: &Comparison<'_>,
        options: &Options,
        failed: &[String],
    ) {
        let (Some(name), Some(baseline)) = (&options.baseline, comparison.baseline) else {
            return;
        };
        if baseline.document.commands.is_empty() {
            print_error(
                &self.target.name,
                &format!(
                    "not compared, because the baseline {name} has no benchmarks of this target. --save-baseline {name} adds them"
                ),
            );
            return;
        }
        let print_names = |text: &str, names: Vec<&str>| {
            if !names.is_empty() {
                print_error(&self.target.name, &format!("{text}: {}", names.join(", ")));
            }
        };
        let new = comparison.new_commands().collect();
        print_names(
            &format!("not compared, because the baseline {name} lacks them"),
            new,
        );
        // If arguments select benchmarks, the other benchmarks are missing on purpose.
        let missing = baseline.missing(comparison.measured);
        let is_gone =
            |name: &&str| !options.selects_some() && failed.iter().all(|other| other != name);
        let missing = missing.filter(is_gone).collect();
        print_names(
            &format!("the baseline {name} has benchmarks that are no longer there"),
            missing,
        );
    }

    /// Prints the conditions that hold, and returns the exit code.
    fn check_conditions(&self, comparison: &Comparison<'_>, options: &Options) -> ExitCode {
        if let Some(warning) = comparison.machine_warning() {
            print_error(&self.target.name, &warning);
        }
        let measured = comparison.measured;
        let index = |name: &str| measured.index(name);
        let verdict = Verdict::of(comparison, &options.fail_if, index);
        for sentence in verdict.holds.iter().chain(&verdict.unknown) {
            print_error(&self.target.name, sentence);
        }
        match verdict.outcome() {
            Outcome::Passed => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::FAILURE,
            Outcome::Unknown => ExitCode::from(EXIT_NOT_COUNTED),
        }
    }
}

/// Returns a meter of these events.
fn meter(events: &[String]) -> Result<Meter, String> {
    let events = events.iter().map(|name| Event::named(name));
    let events = events.collect::<Result<_, _>>();
    events.map(Meter::new).map_err(|error| with_help(&error))
}

/// Counts a benchmark in this process.
fn count_here(bench: &mut Bench, events: &[String]) -> Result<Counts, String> {
    let mut meter = meter(events)?;
    let mut values = vec![Vec::new(); events.len()];
    let mut result = None;
    (bench.run)(Bencher {
        task: Task::Count(&mut meter, &mut values),
        result: &mut result,
    });
    check_result(result)?;
    Ok(values)
}

/// Makes the folder of a file, and returns its path.
fn make_folder_of(file: &Path) -> Result<PathBuf, String> {
    let folder = whole_file::folder_of(file);
    let result = fs::create_dir_all(folder);
    result.map_err(|error| format!("can't make {}: {error}", folder.display()))?;
    Ok(folder.to_owned())
}

/// A line with the name of the running benchmark, shown on a terminal.
struct Progress {
    is_shown: bool,
}

impl Progress {
    fn new() -> Self {
        Self {
            is_shown: io::stderr().is_terminal(),
        }
    }

    fn show_name(&self, name: &str) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K{name} ");
        }
    }

    fn clear(&self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns whether both paths lead to the same existing file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmarks of a target: listed, tried, or counted and compared.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use perfmon::Event;
use perfmon_compare::comparison::{Baseline, Comparison};
use perfmon_compare::document::{BenchDocument, BenchEntry, brand};
use perfmon_compare::errors::without_error_numbers;
use perfmon_compare::verdict::Verdict;
use raw_cpuid::CpuId;

use crate::baseline::{self, BaselineFile, Target};
use crate::bencher::{Bencher, Task};
use crate::meter::Meter;
use crate::options::Options;
use crate::report;
use crate::vm::{WritableFolder, ensure_driver, with_help};

/// Exit code if nothing could be counted or compared, the same as that of `pmctl bench`.
const EXIT_NOT_COUNTED: u8 = 125;

/// A benchmark.
struct Bench {
    name: String,
    run: Box<dyn FnMut(Bencher<'_>)>,
}

/// The benchmarks of a target, which [`main!`](crate::main!) adds and runs.
#[derive(Default)]
pub struct Suite {
    target: Target,
    /// The folder of baselines.
    folder: PathBuf,
    /// The names of the groups that have begun and not ended.
    groups: Vec<&'static str>,
    benches: Vec<Bench>,
}

impl Suite {
    /// Creates a suite without benchmarks, of a bench target with this name. `tmpdir` is `CARGO_TARGET_TMPDIR`, which cargo
    /// sets for bench targets.
    #[must_use]
    pub fn new(package: &str, name: &str, tmpdir: Option<&str>) -> Self {
        let target = Target {
            package: package.to_owned(),
            name: name.to_owned(),
        };
        Self {
            folder: baseline::folder(&target, tmpdir),
            target,
            ..Self::default()
        }
    }

    /// Begins a group, whose name is put before the names of its benchmarks.
    pub fn begin_group(&mut self, name: &'static str) {
        self.groups.push(name);
    }

    /// Ends the group that was begun last.
    pub fn end_group(&mut self) {
        self.groups.pop();
    }

    /// Adds a benchmark.
    pub fn add(&mut self, name: &str, run: impl FnMut(Bencher<'_>) + 'static) {
        let parts = self.groups.iter().copied().chain([name]);
        self.benches.push(Bench {
            name: parts.collect::<Vec<_>>().join("/"),
            run: Box::new(run),
        });
    }

    /// Executes the command line, and returns the exit code.
    #[must_use]
    pub fn run(mut self) -> ExitCode {
        let options = Options::parse();
        let is_selected = |bench: &Bench| options.selects(&bench.name) && !options.ignored;
        self.benches.retain(is_selected);
        let result = match () {
            () if options.list => self.list(),
            () if options.test || !options.bench => self.try_each(),
            () => self.compare(&options),
        };
        result.unwrap_or_else(|error| {
            print_error(&self.target.name, &error);
            ExitCode::from(EXIT_NOT_COUNTED)
        })
    }

    fn list(&self) -> Result<ExitCode, String> {
        let names = self.benches.iter();
        let lines = names.map(|bench| format!("{}: benchmark\n", bench.name));
        print_to_stdout(&lines.collect::<Vec<_>>().concat())
    }

    /// Calls each benchmark once.
    fn try_each(&mut self) -> Result<ExitCode, String> {
        for bench in &mut self.benches {
            let mut result = None;
            (bench.run)(Bencher {
                task: Task::Try,
                result: &mut result,
            });
            check_result(&bench.name, result)?;
            print_to_stdout(&format!("test {} ... ok\n", bench.name))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Counts each benchmark; prints and saves the counts, and checks the conditions.
    fn compare(&mut self, options: &Options) -> Result<ExitCode, String> {
        if self.benches.is_empty() {
            return Err("no benchmark matches the name. --list shows all names.".to_owned());
        }
        let baseline = options.baseline.as_deref().map(|name| {
            let file = self.baseline_file(name);
            Ok::<_, String>((file.read(name)?, file.path))
        });
        let baseline = baseline.transpose()?;
        self.refuse_impossible_conditions(options)?;
        let new_baseline = options.save_baseline.as_deref();
        let file = new_baseline.map(|name| self.baseline_file(name));
        let machine = brand(&CpuId::new());
        if let (Some(file), Some(name)) = (&file, new_baseline) {
            // Before anything is counted, as otherwise the counts would be lost.
            file.others(name, (&machine, &options.events), |name| {
                self.is_kept(name, options)
            })?;
        }
        let folder = file.as_ref().and_then(|file| file.path.parent());
        let folder = folder.map(make_folder).transpose()?;
        let folder = folder.map(|path| WritableFolder {
            path: path.to_owned(),
            variable: None,
        });
        ensure_driver(|| Ok(folder))?;

        let measured = BenchDocument::new(machine, options.events.clone(), self.count(options)?);
        let names = measured.commands.iter();
        let names: Vec<&str> = names.map(|entry| &entry.command[..]).collect();
        // Without a baseline an empty one is used, as otherwise benchmarks would be compared with the first of them.
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
        // Standard output may be closed. That is reported after the counts are saved.
        let printed = print_to_stdout(&String::from_utf8_lossy(&text));
        self.name_what_was_not_compared(&comparison, options);
        let code = self.check_conditions(&comparison, options);
        if let (Some(file), Some(name)) = (file, new_baseline) {
            let overwrites_baseline = is_same_file(&file.path, &baseline.file);
            if code != ExitCode::SUCCESS && overwrites_baseline {
                print_error(
                    &self.target.name,
                    "--save-baseline: the file is also the --baseline and was not changed, because a condition holds or can't be checked",
                );
            } else {
                let counts = (&measured.machine[..], &measured.events[..]);
                let others = file.others(name, counts, |name| self.is_kept(name, options))?;
                file.save(measured, others)?;
            }
        }
        printed.map(|_| code)
    }

    fn baseline_file(&self, name: &str) -> BaselineFile {
        BaselineFile::named(name, &self.folder, &self.target)
    }

    /// Returns whether a saved benchmark keeps its counts: only some benchmarks are counted, and it is none of them.
    fn is_kept(&self, name: &str, options: &Options) -> bool {
        options.selects_some() && self.benches.iter().all(|bench| bench.name != name)
    }

    /// Fails if a condition is about an event that is not counted, or needs a baseline that is not given.
    fn refuse_impossible_conditions(&self, options: &Options) -> Result<(), String> {
        for condition in &options.fail_if {
            let text = &condition.text;
            if !options.events.contains(&condition.event) {
                return Err(format!(
                    "--fail-if '{text}': `{}` is not counted, only {}. Add it with -e.",
                    condition.event,
                    options.events.join(", ")
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

    /// Counts each benchmark.
    fn count(&mut self, options: &Options) -> Result<Vec<BenchEntry>, String> {
        let events = options
            .events
            .iter()
            .map(|name| Event::named(name)?.this_thread().open());
        let events = events.collect::<Result<_, _>>();
        let meter = events.and_then(Meter::new);
        let mut meter = meter.map_err(|error| with_help(&error))?;
        let mut entries = Vec::new();
        let progress = Progress::new();
        for bench in &mut self.benches {
            progress.show_name(&bench.name);
            let mut values = vec![Vec::new(); options.events.len()];
            let mut result = None;
            (bench.run)(Bencher {
                task: Task::Count(&mut meter, &mut values),
                result: &mut result,
            });
            check_result(&bench.name, result)?;
            entries.push(BenchEntry {
                command: bench.name.clone(),
                values,
            });
        }
        Ok(entries)
    }

    /// Names the benchmarks that the baseline lacks, and those that only the baseline has.
    fn name_what_was_not_compared(&self, comparison: &Comparison<'_>, options: &Options) {
        let (Some(name), Some(baseline)) = (&options.baseline, comparison.baseline) else {
            return;
        };
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
        // Arguments that select benchmarks leave out the others.
        let missing = baseline.missing(comparison.measured);
        let missing = missing.filter(|_| !options.selects_some()).collect();
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
        let is_user_mode = |event: usize| measured.events[event].ends_with(":u");
        let index = |name: &str| measured.index(name);
        let Verdict { holds, unknown } =
            Verdict::of(comparison, &options.fail_if, index, is_user_mode);
        for sentence in holds.iter().chain(&unknown) {
            print_error(&self.target.name, sentence);
        }
        match unknown {
            Some(_) => ExitCode::from(EXIT_NOT_COUNTED),
            None if holds.is_empty() => ExitCode::SUCCESS,
            None => ExitCode::FAILURE,
        }
    }
}

/// Makes the folder of a file whose path has this parent. The parent of a name without a slash is empty: the file is in
/// the current directory.
fn make_folder(parent: &Path) -> Result<&Path, String> {
    let folder = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let result = fs::create_dir_all(folder);
    result.map_err(|error| format!("--save-baseline: can't make {}: {error}", folder.display()))?;
    Ok(folder)
}

/// Fails if counting a benchmark failed, or if the benchmark has not used its bencher.
fn check_result(name: &str, result: Option<Result<(), perfmon::Error>>) -> Result<(), String> {
    match result {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(format!("{name}: {}", with_help(&error))),
        None => Err(format!(
            "{name}: the benchmark has not called `Bencher::bench`, so nothing was counted."
        )),
    }
}

fn print_error(name: &str, text: &str) {
    let _ = writeln!(io::stderr(), "{name}: {}", without_error_numbers(text));
}

fn print_to_stdout(text: &str) -> Result<ExitCode, String> {
    let mut output = io::stdout().lock();
    let result = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    result.map_err(|error| format!("can't write: {error}"))?;
    Ok(ExitCode::SUCCESS)
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
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Returns whether both paths lead to the same existing file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

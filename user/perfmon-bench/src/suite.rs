// SPDX-License-Identifier: MIT OR Apache-2.0
//! The benchmarks of a target: listed, tried, or counted and compared.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use perfmon_compare::errors::without_error_numbers;

use crate::bencher::{Bencher, Task};
use crate::counting::{self, Error, Target, with_help};
use crate::function::Function;
use crate::options::Options;

/// The exit code if nothing could be counted or compared, as for `pmctl bench`.
pub(crate) const EXIT_NOT_COUNTED: u8 = 125;

/// A benchmark.
pub(crate) struct Bench {
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnMut(Bencher<'_>)>,
}

/// The benchmarks of a target, which [`main!`](crate::main!) adds and runs.
#[derive(Default)]
pub struct Suite {
    pub(crate) target: Target,
    /// The folder of baselines.
    pub(crate) folder: PathBuf,
    /// The names of the groups that have begun and not ended.
    groups: Vec<&'static str>,
    pub(crate) benches: Vec<Bench>,
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
            folder: counting::folder(&target, tmpdir),
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

    /// Adds a function that `main!` lists.
    #[doc(hidden)]
    pub fn add_function<Kind>(
        &mut self,
        path: &str,
        mut function: impl Function<(), Kind> + 'static,
    ) {
        self.add(&without_blanks(path), move |bencher| {
            function.count(bencher, &());
        });
    }

    /// Adds a function that `main!` lists with this argument.
    #[doc(hidden)]
    pub fn add_function_with<A: 'static, Kind>(
        &mut self,
        name: &str,
        argument: A,
        mut function: impl Function<(A,), Kind> + 'static,
    ) {
        let arguments = (argument,);
        self.add(&without_blanks(name), move |bencher| {
            function.count(bencher, &arguments);
        });
    }

    /// Executes the command line, and returns the exit code.
    #[must_use]
    pub fn run(mut self) -> ExitCode {
        let options = Options::parse();
        let same_name = self.first_repeated_name();
        let is_selected = |bench: &Bench| options.selects(&bench.name) && !options.ignored;
        self.benches.retain(is_selected);
        let result = match () {
            () if same_name.is_some() => Err(format!(
                "several benchmarks are called {}. Give them different names, or put them into groups.",
                same_name.unwrap_or_default()
            )),
            () if options.child => self.count_for_parent(),
            () if options.list => self.list(),
            () if options.test || !options.bench => self.try_each(),
            () => self.compare(&options),
        };
        result.unwrap_or_else(|error| {
            print_error(&self.target.name, &error);
            ExitCode::from(EXIT_NOT_COUNTED)
        })
    }

    /// Returns the first name that several benchmarks have.
    fn first_repeated_name(&self) -> Option<String> {
        let mut names = HashSet::new();
        let mut benches = self.benches.iter();
        let repeated = benches.find(|bench| !names.insert(&bench.name));
        repeated.map(|bench| bench.name.clone())
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
            check_result(result).map_err(|error| format!("{}: {error}", bench.name))?;
            print_to_stdout(&format!("test {} ... ok\n", bench.name))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the text of a path without blanks. Some versions of the compiler add blanks.
fn without_blanks(path: &str) -> String {
    path.replace(" :: ", "::")
}

/// Fails if counting a benchmark failed, or if the benchmark has not used its bencher.
pub(crate) fn check_result(result: Option<Result<(), Error>>) -> Result<(), String> {
    match result {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(with_help(&error)),
        None => Err("it has not called `Bencher::bench`, so nothing was counted.".to_owned()),
    }
}

pub(crate) fn print_error(name: &str, text: &str) {
    let _ = writeln!(io::stderr(), "{name}: {}", without_error_numbers(text));
}

pub(crate) fn print_to_stdout(text: &str) -> Result<ExitCode, String> {
    let mut output = io::stdout().lock();
    let result = output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush());
    result.map_err(|error| format!("can't write: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counter of criterion's measurement.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use perfmon::event::{Reading, UserPage};
use perfmon::{Error, Event};

use super::vm::{WritableFolder, ensure_driver, with_help};

/// Number of pairs of readings with nothing in between. The smallest of their counts is subtracted from other counts.
const EMPTY_PASSES: usize = 8;

/// Reads an event of the calling thread.
#[derive(Debug)]
pub(crate) struct PassCounter {
    label: String,
    page: UserPage<'static>,
    /// The smallest count between two readings in a row.
    overhead: u64,
}

impl PassCounter {
    /// Opens the event of this name. Without the driver, the whole program is replaced by a run of itself in the virtual
    /// machine of `pmctl vm`.
    pub(crate) fn open(name: &str) -> Result<Self, String> {
        ensure_driver(&[], || {
            make_results_folder(results_folder(|name| env::var_os(name))).map(|folder| vec![folder])
        })?;
        Self::open_here(name).map_err(|error| with_help(&error))
    }

    fn open_here(name: &str) -> Result<Self, Error> {
        let event = Event::named(name)?.this_thread().open()?;
        // Leaks the event, because it counts as long as the program runs.
        let event: &'static Event = Box::leak(Box::new(event));
        let mut counter = Self {
            label: event.label().to_string(),
            page: event.user_page()?,
            overhead: 0,
        };
        let mut overhead = u64::MAX;
        for _ in 0..EMPTY_PASSES {
            let begin = counter.page.read_with_times()?;
            overhead = overhead.min(counter.page.read_with_times()?.value - begin.value);
        }
        counter.overhead = overhead;
        Ok(counter)
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn read(&self) -> Reading {
        or_panic(self.page.read_with_times())
    }

    /// Returns the count since a reading.
    pub(crate) fn count_since(&self, begin: &Reading) -> u64 {
        let count = self.page.count_between(begin, &self.read());
        or_panic(count).saturating_sub(self.overhead)
    }
}

/// Panics if there is an error: criterion's interface can't return errors, and a wrong number must
/// not be shown.
fn or_panic<T>(result: Result<T, Error>) -> T {
    result.unwrap_or_else(|error| panic!("{}", with_help(&error)))
}

/// The variable of the folder in which criterion keeps its results.
const HOME_VARIABLE: &str = "CRITERION_HOME";

/// Returns the folder in which criterion keeps its results. The program in the virtual machine can't find it, since it
/// lacks the variables of cargo.
fn results_folder(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    if let Some(folder) = variable(HOME_VARIABLE) {
        return folder.into();
    }
    let target = match variable("CARGO_TARGET_DIR") {
        Some(folder) => Some(folder.into()),
        None => variable("CARGO").and_then(target_folder),
    };
    target
        .unwrap_or_else(|| PathBuf::from("target"))
        .join("criterion")
}

/// Returns the target folder of the package in the current directory, as `cargo metadata` reports it.
fn target_folder(cargo: OsString) -> Option<PathBuf> {
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--no-deps"]);
    let output = command.output().ok()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    metadata["target_directory"].as_str().map(PathBuf::from)
}

/// Makes the folder, which must exist before the virtual machine starts.
fn make_results_folder(path: PathBuf) -> Result<WritableFolder, String> {
    let result = fs::create_dir_all(&path);
    result.map_err(|error| format!("can't make {}: {error}", path.display()))?;
    Ok(WritableFolder {
        path,
        variable: Some(HOME_VARIABLE),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_folder_of_results_is_that_of_criterion() {
        let folder = |variables: &[(&str, &str)]| {
            results_folder(|name| {
                let entry = variables.iter().find(|(known, _)| *known == name);
                entry.map(|(_, value)| value.into())
            })
        };
        let home = ("CRITERION_HOME", "/home");
        let target = ("CARGO_TARGET_DIR", "/target");
        assert_eq!(folder(&[home, target]), Path::new("/home"));
        assert_eq!(folder(&[target]), Path::new("/target/criterion"));
        assert_eq!(folder(&[]), Path::new("target/criterion"));
        let cargo = env::var("CARGO").expect("cargo runs the test");
        let of_cargo = folder(&[("CARGO", &cargo)]);
        assert!(of_cargo.is_absolute() && of_cargo.ends_with("criterion"));
    }

    #[test]
    fn the_folder_of_results_is_made() {
        let parent = tempfile::tempdir().expect("a folder can be made");
        let path = parent.path().join("a/criterion");
        let folder = make_results_folder(path.clone()).expect("it can be made");
        assert_eq!(
            (&folder.path, folder.variable),
            (&path, Some("CRITERION_HOME"))
        );
        assert!(path.is_dir());
        let file = parent.path().join("file");
        fs::write(&file, "").expect("it can be written");
        assert!(make_results_folder(file.join("criterion")).is_err());
    }
}

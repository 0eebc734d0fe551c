// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of baselines.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use perfmon_compare::document::{self, BenchDocument};

/// Returns the folder of a bench target's baselines. `tmpdir` is `CARGO_TARGET_TMPDIR`, a folder in the target folder.
pub(crate) fn folder(name: &str, tmpdir: Option<&str>) -> PathBuf {
    let target = tmpdir.and_then(|tmpdir| Path::new(tmpdir).parent());
    let target = target.map_or_else(|| PathBuf::from("target"), Path::to_owned);
    target.join("perfmon").join(name)
}

/// Reads a baseline.
pub(crate) fn read(file: &Path, name: &str) -> Result<BenchDocument, String> {
    let path = file.display();
    let text = fs::read_to_string(file).map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!(
            "--baseline {name}: there is no file {path}.\nCreate it first, with --save-baseline {name}."
        ),
        _ => format!("--baseline {name}: can't read {path}: {error}"),
    })?;
    let document: BenchDocument = serde_json::from_str(&text)
        .map_err(|_| format!("--baseline {name}: {path} is not a file of --save-baseline"))?;
    document
        .into_checked()
        .map_err(|error| format!("--baseline {name}: {path} can't be used: {error}"))
}

/// Returns the counts of some benchmarks, with those of the others in the file, which stay as they are.
pub(crate) fn with_others(
    mut measured: BenchDocument,
    file: &Path,
    name: &str,
) -> Result<BenchDocument, String> {
    // A file that is missing, or is no baseline, has nothing to keep.
    let Ok(old) = read(file, name) else {
        return Ok(measured);
    };
    if old.machine != measured.machine || old.events != measured.events {
        return Err(format!(
            "--save-baseline: {} was not changed, because it has counts of another processor or of other events. \
             Run all benchmarks, without a name, to replace it.",
            file.display()
        ));
    }
    let is_counted = |name: &str| measured.commands.iter().any(|new| new.command == name);
    let others = old.commands.into_iter();
    let others: Vec<_> = others.filter(|entry| !is_counted(&entry.command)).collect();
    measured.commands.extend(others);
    Ok(measured)
}

/// Writes a baseline. If it fails, the old file is unchanged.
pub(crate) fn write(file: &Path, measured: &BenchDocument) -> Result<(), String> {
    let write_error = |error| format!("--save-baseline: can't write {}: {error}", file.display());
    let mut text = Vec::new();
    document::write(measured, &mut text).map_err(write_error)?;
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(write_error)?;
    }
    let new_file = file.with_extension("json.new");
    fs::write(&new_file, text).map_err(write_error)?;
    fs::rename(&new_file, file).map_err(write_error)
}

#[cfg(test)]
mod tests {
    use perfmon_compare::document::BenchEntry;

    use super::*;

    fn measured() -> BenchDocument {
        let entry = BenchEntry {
            command: "sum".to_owned(),
            values: vec![vec![5, 5]],
        };
        BenchDocument::new(
            "a processor".to_owned(),
            vec!["instructions:u".to_owned()],
            vec![entry],
        )
    }

    #[test]
    fn a_written_baseline_is_read_again() {
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("new/main.json");
        write(&file, &measured()).expect("the folder is made");
        assert_eq!(read(&file, "main"), Ok(measured()));
        let names = fs::read_dir(folder.path().join("new")).expect("it is there");
        assert_eq!(names.count(), 1);
    }

    #[test]
    fn benchmarks_that_are_not_counted_keep_their_counts() {
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("main.json");
        let part = |name: &str, count| {
            let mut document = measured();
            name.clone_into(&mut document.commands[0].command);
            document.commands[0].values = vec![vec![count]];
            document
        };
        let counts = |document: &BenchDocument| {
            let commands = document.commands.iter();
            let counts = commands.map(|entry| (entry.command.clone(), entry.values[0][0]));
            counts.collect::<Vec<_>>()
        };
        let alone = with_others(part("sort", 7), &file, "main").expect("there is no file");
        assert_eq!(counts(&alone), [("sort".to_owned(), 7)]);
        write(&file, &measured()).expect("there is room");
        let both = with_others(part("sort", 7), &file, "main").expect("they are of one processor");
        assert_eq!(
            counts(&both),
            [("sort".to_owned(), 7), ("sum".to_owned(), 5)]
        );
        let again = with_others(part("sum", 9), &file, "main").expect("they are of one processor");
        assert_eq!(counts(&again), [("sum".to_owned(), 9)]);
        let mut other = measured();
        "another".clone_into(&mut other.machine);
        let error = with_others(other, &file, "main").expect_err("they can't be in one file");
        assert!(error.contains("Run all benchmarks"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_baseline_is_an_error() {
        let folder = tempfile::tempdir().expect("there is room");
        let file = folder.path().join("main.json");
        let error = read(&file, "main").expect_err("it is not there");
        assert!(error.contains("with --save-baseline main"), "{error}");
        fs::write(&file, "[]").expect("there is room");
        let error = read(&file, "main").expect_err("it is no baseline");
        assert!(
            error.ends_with("is not a file of --save-baseline"),
            "{error}"
        );
        let empty = r#"{"schema": "pmctl-bench-v1", "machine": "", "events": [], "commands": []}"#;
        fs::write(&file, empty).expect("there is room");
        let error = read(&file, "main").expect_err("it is empty");
        assert!(error.ends_with("it has no commands"), "{error}");
    }

    #[test]
    fn the_folder_is_cargos_target() {
        let in_target = folder("sorting", Some("/a/target/tmp"));
        assert_eq!(in_target, Path::new("/a/target/perfmon/sorting"));
        assert_eq!(folder("x", None), Path::new("target/perfmon/x"));
    }
}

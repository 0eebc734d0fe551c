// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of baselines.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use perfmon_compare::document::{self, BenchDocument, BenchEntry};

use super::whole_file;

/// A bench target of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) package: String,
    pub(crate) name: String,
}

/// The file of a baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaselineFile {
    pub(crate) path: PathBuf,
    /// The part of an entry's name before the name of the benchmark. The prefix is empty if all
    /// entries are of one target.
    prefix: String,
}

/// Returns the folder of a bench target's baselines. `tmpdir` is `CARGO_TARGET_TMPDIR`, a folder in the target folder.
pub(crate) fn folder(target: &Target, tmpdir: Option<&str>) -> PathBuf {
    let parent = tmpdir.and_then(|tmpdir| Path::new(tmpdir).parent());
    let parent = parent.map_or_else(|| PathBuf::from("target"), Path::to_owned);
    parent
        .join("perfmon")
        .join(&target.package)
        .join(&target.name)
}

impl BaselineFile {
    /// Returns the file of the baseline `name`:
    /// - A name means a file in `folder`, which has only entries of this target.
    /// - A path means any file. The file may have entries of several targets, since cargo passes
    ///   the path to each target.
    pub(crate) fn named(name: &str, folder: &Path, target: &Target) -> Self {
        if name.contains('/') || Path::new(name).extension().is_some_and(|end| end == "json") {
            Self {
                path: PathBuf::from(name),
                prefix: format!("{}::{}::", target.package, target.name),
            }
        } else {
            Self {
                path: folder.join(format!("{name}.json")),
                prefix: String::new(),
            }
        }
    }

    /// Reads the baseline `name`, with the names of this target's benchmarks; `is_known` returns whether this target has a
    /// benchmark. There are no entries if the file has only those of other targets.
    pub(crate) fn read(
        &self,
        name: &str,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<BenchDocument, String> {
        let path = self.path.display();
        let document = self.read_entries("--baseline", name)?;
        let mut document = document.ok_or_else(|| {
            format!(
                "--baseline {name}: there is no file {path}.\nCreate it first, with --save-baseline {name}."
            )
        })?;
        if document.commands.iter().any(|entry| self.is_own(entry)) {
            document.commands.retain(|entry| self.is_own(entry));
            for entry in &mut document.commands {
                entry.command.drain(..self.prefix.len());
            }
        } else {
            // The file may be a copy of a baseline in a target's folder, whose entries have no prefix.
            let has_no_prefix = |name: &str| is_known(name) || !may_have_prefix(name);
            document
                .commands
                .retain(|entry| has_no_prefix(&entry.command));
        }
        Ok(document)
    }

    /// Returns the entries of the file that are kept when counts of this target are saved: the
    /// entries of other targets, and the entries of benchmarks for which `is_kept` returns true.
    ///
    /// # Errors
    /// The kept entries have counts of another processor or of other events, or the file is not a baseline.
    pub(crate) fn kept_entries(
        &self,
        name: &str,
        (machine, events): (&str, &[String]),
        is_kept: impl Fn(&str) -> bool,
    ) -> Result<Vec<BenchEntry>, String> {
        let Some(mut old) = self.read_entries("--save-baseline", name)? else {
            return Ok(Vec::new());
        };
        let is_kept_entry = |entry: &BenchEntry| match entry.command.strip_prefix(&self.prefix) {
            Some(name) => is_kept(name),
            None => true,
        };
        old.commands.retain(is_kept_entry);
        if !old.commands.is_empty() && (old.machine != machine || old.events != events) {
            return Err(format!(
                "--save-baseline: {} was not changed, because it has counts of another processor or of other events. \
                 Remove it and run all benchmarks, without a name, to replace it.",
                self.path.display()
            ));
        }
        Ok(old.commands)
    }

    /// Writes the measured counts and the entries of [`kept_entries`](Self::kept_entries). If it fails, the old file is
    /// unchanged. Another process that saves to a file in the same folder waits meanwhile, so that none loses the entries
    /// of the other.
    pub(crate) fn save(
        &self,
        name: &str,
        mut measured: BenchDocument,
        is_kept: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let path = self.path.display();
        let write_error = |error| format!("--save-baseline: can't write {path}: {error}");
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(write_error)?;
        }
        let _lock = whole_file::lock_folder(&self.path);
        let kept = self.kept_entries(name, (&measured.machine, &measured.events), is_kept)?;
        for entry in &mut measured.commands {
            entry.command.insert_str(0, &self.prefix);
        }
        measured.commands.extend(kept);
        let mut text = Vec::new();
        document::write(&measured, &mut text).map_err(write_error)?;
        whole_file::write(&self.path, &text).map_err(write_error)
    }

    fn is_own(&self, entry: &BenchEntry) -> bool {
        entry.command.starts_with(&self.prefix)
    }

    /// Reads the file; `None` if it does not exist. Errors name `option` and its argument `name`.
    fn read_entries(&self, option: &str, name: &str) -> Result<Option<BenchDocument>, String> {
        let path = self.path.display();
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{option} {name}: can't read {path}: {error}")),
        };
        let document: BenchDocument = serde_json::from_str(&text)
            .map_err(|_| format!("{option} {name}: {path} is not a file of --save-baseline"))?;
        let document = document
            .into_checked()
            .map_err(|error| format!("{option} {name}: {path} can't be used: {error}"))?;
        Ok(Some(document))
    }
}

/// Returns whether an entry's name may begin with the prefix of a target, as in `package::bench::name`. The path of a
/// function in two modules looks the same.
fn may_have_prefix(name: &str) -> bool {
    name.splitn(3, "::").count() == 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str) -> Target {
        Target {
            package: "program".to_owned(),
            name: name.to_owned(),
        }
    }

    fn document(counts: &[(&str, u64)]) -> BenchDocument {
        let entry = |(name, count): &(&str, u64)| BenchEntry {
            command: (*name).to_owned(),
            values: vec![vec![*count; 2]],
        };
        BenchDocument::new(
            "a processor".to_owned(),
            vec!["instructions:u".to_owned()],
            counts.iter().map(entry).collect(),
        )
    }

    /// Saves these counts. `is_kept` is passed to [`BaselineFile::kept_entries`].
    fn save(
        file: &BaselineFile,
        measured: BenchDocument,
        is_kept: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        file.save("main", measured, is_kept)
    }

    fn counts(file: &BaselineFile) -> Vec<(String, u64)> {
        let document = file.read("main", |_| false).expect("it was saved");
        let entries = document.commands.into_iter();
        entries
            .map(|entry| (entry.command, entry.values[0][0]))
            .collect()
    }

    fn expected(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
        let owned = |(name, count): &(&str, u64)| ((*name).to_owned(), *count);
        counts.iter().map(owned).collect()
    }

    #[test]
    fn a_saved_baseline_is_read_again() {
        let parent = tempfile::tempdir().expect("there is room");
        let file = BaselineFile::named("main", &parent.path().join("new"), &target("spin"));
        save(&file, document(&[("sum", 5)]), |_| false).expect("the folder is made");
        assert_eq!(file.read("main", |_| false), Ok(document(&[("sum", 5)])));
        let names = fs::read_dir(parent.path().join("new")).expect("it is there");
        assert_eq!(names.count(), 1);
    }

    #[test]
    fn kept_entries_stay_and_others_go() {
        let parent = tempfile::tempdir().expect("there is room");
        let file = BaselineFile::named("main", parent.path(), &target("spin"));
        save(&file, document(&[("sum", 5), ("old", 6)]), |_| true).expect("there is no file");
        save(&file, document(&[("sort", 7)]), |name| name != "sort").expect("of one processor");
        assert_eq!(
            counts(&file),
            expected(&[("sort", 7), ("sum", 5), ("old", 6)])
        );
        save(&file, document(&[("sum", 9)]), |name| name == "sort").expect("of one processor");
        assert_eq!(counts(&file), expected(&[("sum", 9), ("sort", 7)]));
        let mut other = document(&[("sum", 8)]);
        "another".clone_into(&mut other.machine);
        let error = save(&file, other.clone(), |_| true).expect_err("two processors in one file");
        assert!(error.contains("run all benchmarks"), "{error}");
        save(&file, other, |_| false).expect("nothing is kept");
        assert_eq!(counts(&file), expected(&[("sum", 8)]));
    }

    #[test]
    fn targets_share_a_file_that_is_named_by_its_path() {
        let parent = tempfile::tempdir().expect("there is room");
        let path = parent.path().join("all.json").display().to_string();
        let file = |name| BaselineFile::named(&path, Path::new("unused"), &target(name));
        let (spin, sort) = (file("spin"), file("sort"));
        save(&spin, document(&[("sum", 5), ("old", 6)]), |_| false).expect("there is no file");
        save(&sort, document(&[("sum", 7)]), |_| false).expect("spin's counts stay");
        assert_eq!(counts(&spin), expected(&[("sum", 5), ("old", 6)]));
        assert_eq!(counts(&sort), expected(&[("sum", 7)]));
        save(&spin, document(&[("sum", 9)]), |_| false).expect("sort's counts stay");
        assert_eq!(counts(&spin), expected(&[("sum", 9)]));
        assert_eq!(counts(&sort), expected(&[("sum", 7)]));
        // A new target does not miss the benchmarks of the others.
        assert_eq!(counts(&file("new")), []);
        let mut other = document(&[("sum", 8)]);
        "another".clone_into(&mut other.machine);
        let error = save(&spin, other, |_| false).expect_err("two processors in one file");
        assert!(error.contains("Remove it"), "{error}");
    }

    #[test]
    fn targets_that_save_at_once_lose_no_counts() {
        let parent = tempfile::tempdir().expect("there is room");
        let path = parent.path().join("all.json").display().to_string();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let file = |name| BaselineFile::named(&path, Path::new("unused"), &target(name));
        std::thread::scope(|scope| {
            for name in names {
                scope.spawn(move || save(&file(name), document(&[("sum", 5)]), |_| false));
            }
        });
        for name in names {
            assert_eq!(counts(&file(name)), expected(&[("sum", 5)]), "{name}");
        }
    }

    #[test]
    fn a_copy_of_a_baseline_is_read_by_its_path() {
        let parent = tempfile::tempdir().expect("there is room");
        let file = BaselineFile::named("main", parent.path(), &target("spin"));
        save(&file, document(&[("sum", 5)]), |_| false).expect("there is no file");
        let path = file.path.display().to_string();
        let copy = BaselineFile::named(&path, Path::new("unused"), &target("spin"));
        assert_eq!(counts(&copy), expected(&[("sum", 5)]));
        save(&file, document(&[("a::b::c", 6)]), |_| false).expect("nothing is kept");
        let read = copy.read("main", |name| name == "a::b::c");
        assert_eq!(read.map(|document| document.commands.len()), Ok(1));
    }

    #[test]
    fn a_file_that_is_no_baseline_is_an_error() {
        let parent = tempfile::tempdir().expect("there is room");
        let file = BaselineFile::named("main", parent.path(), &target("spin"));
        let error = file.read("main", |_| false).expect_err("it is not there");
        assert!(error.contains("with --save-baseline main"), "{error}");
        fs::write(&file.path, "[]").expect("there is room");
        let error = file.read("main", |_| false).expect_err("it is no baseline");
        assert!(
            error.ends_with("is not a file of --save-baseline"),
            "{error}"
        );
        let error = save(&file, document(&[("sum", 5)]), |_| false).expect_err("it may be of use");
        assert!(
            error.ends_with("is not a file of --save-baseline"),
            "{error}"
        );
        let folder = BaselineFile::named("main", parent.path(), &target("spin"));
        fs::remove_file(&folder.path).expect("it was written");
        fs::create_dir(&folder.path).expect("there is room");
        let error = folder.read("main", |_| false).expect_err("it is no file");
        assert!(error.contains("can't read"), "{error}");
        fs::remove_dir(&folder.path).expect("it is empty");
        let empty = r#"{"schema": "pmctl-bench-v1", "machine": "", "events": [], "commands": []}"#;
        fs::write(&file.path, empty).expect("there is room");
        let error = file.read("main", |_| false).expect_err("it is empty");
        assert!(error.ends_with("it has no commands"), "{error}");
    }

    #[test]
    fn the_folder_is_in_cargos_target_folder_and_of_one_target() {
        let target = target("sorting");
        let in_target = folder(&target, Some("/a/target/tmp"));
        assert_eq!(in_target, Path::new("/a/target/perfmon/program/sorting"));
        assert_eq!(
            folder(&target, None),
            Path::new("target/perfmon/program/sorting")
        );
    }

    #[test]
    fn a_baseline_is_a_name_or_a_path() {
        let folder = Path::new("target/perfmon/program/sorting");
        let path = |name| {
            let file = BaselineFile::named(name, folder, &target("sorting"));
            file.path.display().to_string()
        };
        assert_eq!(path("main"), "target/perfmon/program/sorting/main.json");
        assert_eq!(path("v1.2"), "target/perfmon/program/sorting/v1.2.json");
        assert_eq!(path("main.json"), "main.json");
        assert_eq!(path("/tmp/main"), "/tmp/main");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cgroups that there are.

use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::errno::Errno;

use super::Pattern;

/// A cgroup that was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FoundCgroup {
    pub(crate) name: PathBuf,
    /// The number of its directory: another cgroup that gets the same name has another one.
    pub(crate) number: u64,
}

/// The cgroups that were found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundCgroups {
    /// In the order of their names, each behind the one that it is in.
    pub(crate) cgroups: Vec<FoundCgroup>,
    /// There are more cgroups than the limit of those that are looked at.
    pub(crate) is_cut: bool,
}

impl FoundCgroup {
    /// Returns whether it still is there, and not another one of the same name.
    pub(crate) fn is_there(&self, mount: &Path) -> bool {
        let now = fs::metadata(mount.join(&self.name));
        now.is_ok_and(|now| now.ino() == self.number)
    }
}

/// Returns the cgroups below `mount` whose names have one of these forms. What is removed meanwhile is left out. Looks only
/// where there may be some, and at no more than `most` cgroups: users may have any number of them.
///
/// # Errors
/// Those of reading a directory.
pub(crate) fn search(mount: &Path, patterns: &[Pattern], most: usize) -> Result<FoundCgroups> {
    let mut found = FoundCgroups::default();
    let root = FoundCgroup {
        name: PathBuf::new(),
        number: fs::metadata(mount)
            .with_context(|| format!("can't look at {}", mount.display()))?
            .ino(),
    };
    let mut number = 1;
    // The one to look at next is the last.
    let mut waiting = vec![root];
    while let Some(cgroup) = waiting.pop() {
        let may_have = |pattern: &Pattern| pattern.may_match_below(&cgroup.name);
        if !found.is_cut && patterns.iter().any(may_have) {
            let mut below = children(mount, &cgroup.name)?;
            below.sort_unstable_by(|a, b| b.name.cmp(&a.name));
            found.is_cut = number + below.len() > most;
            // The first of them stay.
            below.drain(..(number + below.len()).saturating_sub(most));
            number += below.len();
            waiting.append(&mut below);
        }
        if patterns.iter().any(|pattern| pattern.matches(&cgroup.name)) {
            found.cgroups.push(cgroup);
        }
    }
    Ok(found)
}

/// Returns the cgroups directly in another one.
fn children(mount: &Path, name: &Path) -> Result<Vec<FoundCgroup>> {
    let path = mount.join(name);
    let entries = match fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("can't read {}", path.display())),
    };
    let is_cgroup = |entry: &&fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let cgroups = entries.iter().filter(is_cgroup).map(|entry| FoundCgroup {
        name: name.join(entry.file_name()),
        number: entry.ino(),
    });
    Ok(cgroups.collect())
}

/// Returns whether an error says that a cgroup has been removed.
fn is_gone(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::ENOENT | Errno::ENODEV))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these folders in it, and files beside them.
    fn tree(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for name in names {
            fs::create_dir_all(folder.path().join(name)).expect("there is room");
            fs::write(folder.path().join(name).join("cgroup.procs"), "").expect("there is room");
        }
        folder
    }

    fn names(folder: &Path, patterns: &[&str], most: usize) -> (Vec<String>, bool) {
        let patterns: Vec<Pattern> = patterns.iter().map(|text| Pattern::new(text)).collect();
        let found = search(folder, &patterns, most).expect("it can be read");
        let names = found
            .cgroups
            .iter()
            .map(|cgroup| super::super::display_name(&cgroup.name));
        (names.collect(), found.is_cut)
    }

    #[test]
    fn cgroups_are_found_in_order_and_each_once() {
        let folder = tree(&["b/y", "b/x/1", "a", "c/x"]);
        let found = |patterns: &[&str]| names(folder.path(), patterns, 100).0;
        let all = ["/", "a", "b", "b/x", "b/x/1", "b/y", "c", "c/x"];
        assert_eq!(found(&["**"]), all);
        assert_eq!(found(&["*"]), ["a", "b", "c"]);
        assert_eq!(
            found(&["b/**", "b/x", "*/x"]),
            ["b", "b/x", "b/x/1", "b/y", "c/x"]
        );
        assert_eq!(found(&["nothing", "b/nothing*"]), [""; 0]);
        assert_eq!(found(&["/"]), ["/"]);
    }

    #[test]
    fn no_more_than_the_limit_are_looked_at() {
        let folder = tree(&["a", "b/1", "b/2", "b/3", "c"]);
        let found = |most| names(folder.path(), &["**"], most);
        let all = ["/", "a", "b", "b/1", "b/2", "b/3", "c"];
        assert_eq!(found(7), (all.map(str::to_owned).to_vec(), false));
        let some = ["/", "a", "b", "b/1", "b/2", "c"];
        assert_eq!(found(6), (some.map(str::to_owned).to_vec(), true));
        assert_eq!(found(1), (vec!["/".to_owned()], true));
        // What no form can have is not looked at.
        assert!(!names(folder.path(), &["*"], 4).1);
    }

    #[test]
    fn another_one_of_the_same_name_has_another_number() {
        let folder = tree(&["a", "b"]);
        let search = || search(folder.path(), &[Pattern::new("*")], 9).expect("it can be read");
        let numbers = || {
            let found = search();
            found
                .cgroups
                .into_iter()
                .map(|cgroup| cgroup.number)
                .collect::<Vec<_>>()
        };
        let [a, b] = numbers()[..] else {
            panic!("there are two")
        };
        assert_ne!(a, b);
        let before = search().cgroups;
        assert!(before.iter().all(|cgroup| cgroup.is_there(folder.path())));
        fs::rename(folder.path().join("a"), folder.path().join("c")).expect("it is ours");
        fs::rename(folder.path().join("b"), folder.path().join("a")).expect("it is ours");
        assert_eq!(numbers(), [b, a]);
        assert!(before.iter().all(|cgroup| !cgroup.is_there(folder.path())));
    }
}

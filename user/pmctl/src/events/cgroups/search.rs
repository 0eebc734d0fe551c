// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches cgroups whose names match patterns.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::errno::Errno;

use super::Pattern;

/// A cgroup that a search has found: its name and its identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FoundCgroup {
    pub(crate) name: PathBuf,
    /// Inode of the directory, which differs for another cgroup with the same name.
    pub(crate) inode: u64,
}

/// Limits of a search, since users may create any number of cgroups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchLimit {
    /// The largest number of cgroups that are searched.
    pub(crate) cgroups: usize,
    /// The largest number of levels of a name. Deeper cgroups are not found.
    pub(crate) levels: usize,
}

/// The result of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundCgroups {
    /// The cgroups that match, in the order of their names. A cgroup comes after its parent.
    pub(crate) cgroups: Vec<FoundCgroup>,
    /// The search was not complete, since there are more cgroups than the limit's number.
    pub(crate) is_incomplete: bool,
}

impl FoundCgroup {
    /// Returns the number of levels below the mount point.
    pub(crate) fn levels(&self) -> usize {
        self.name.iter().count()
    }

    /// Returns whether the cgroup still exists. A newer cgroup with the same name is another one.
    pub(crate) fn still_exists(&self, mount: &Path) -> bool {
        let metadata = fs::metadata(mount.join(&self.name));
        metadata.is_ok_and(|metadata| metadata.ino() == self.inode)
    }
}

/// Returns the cgroups below `mount` whose names match one of the patterns. Searches only cgroups
/// that may contain matches, within `limit`. Leaves out cgroups that are removed during the search,
/// cgroups in a directory that its owner has made unreadable, and cgroups with too long a path: a
/// user who may make cgroups must not hide the cgroups of other users.
///
/// # Errors
/// The root's directory can't be read.
pub(crate) fn search(
    mount: &Path,
    patterns: &[Pattern],
    limit: SearchLimit,
) -> Result<FoundCgroups> {
    let mut found_cgroups = FoundCgroups::default();
    let root = FoundCgroup {
        name: PathBuf::new(),
        inode: fs::metadata(mount)
            .with_context(|| format!("can't read {}", mount.display()))?
            .ino(),
    };
    let mut searched_count = 1;
    // The search goes level by level, so that many cgroups below one can't use up the limit before others of its level are
    // found.
    let mut pending = VecDeque::from([root]);
    while let Some(cgroup) = pending.pop_front() {
        let may_match_below = |pattern: &Pattern| pattern.may_match_below(&cgroup.name);
        let is_deepest_level = cgroup.levels() >= limit.levels;
        if !found_cgroups.is_incomplete && !is_deepest_level && patterns.iter().any(may_match_below)
        {
            let mut child_cgroups = children(mount, &cgroup.name)?;
            child_cgroups.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            found_cgroups.is_incomplete = searched_count + child_cgroups.len() > limit.cgroups;
            child_cgroups.truncate(limit.cgroups.saturating_sub(searched_count));
            searched_count += child_cgroups.len();
            pending.extend(child_cgroups);
        }
        if patterns.iter().any(|pattern| pattern.matches(&cgroup.name)) {
            found_cgroups.cgroups.push(cgroup);
        }
    }
    let cgroups = &mut found_cgroups.cgroups;
    cgroups.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(found_cgroups)
}

/// Returns the direct children of a cgroup.
fn children(mount: &Path, name: &Path) -> Result<Vec<FoundCgroup>> {
    let path = mount.join(name);
    let entries = match fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) if name != Path::new("") && concerns_one_cgroup(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("can't read {}", path.display())),
    };
    let is_cgroup = |entry: &&fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let cgroups = entries.iter().filter(is_cgroup).map(|entry| FoundCgroup {
        name: name.join(entry.file_name()),
        inode: entry.ino(),
    });
    Ok(cgroups.collect())
}

/// Returns whether an error of a directory concerns this cgroup alone: the cgroup was removed, its
/// owner has made it unreadable, or its path is too long.
fn concerns_one_cgroup(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(Errno::ENOENT | Errno::ENODEV | Errno::EACCES | Errno::ENAMETOOLONG)
    )
}

#[cfg(test)]
mod tests {
    use nix::fcntl::{OFlag, openat};
    use nix::sys::stat::{Mode, mkdirat};

    use super::*;

    /// Returns a folder with these folders in it, each with a file.
    fn make_tree(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for name in names {
            fs::create_dir_all(folder.path().join(name)).expect("there is room");
            fs::write(folder.path().join(name).join("cgroup.procs"), "").expect("there is room");
        }
        folder
    }

    fn names(folder: &Path, patterns: &[&str], limit: usize) -> (Vec<String>, bool) {
        let limit = SearchLimit {
            cgroups: limit,
            levels: usize::MAX,
        };
        names_within(folder, patterns, limit)
    }

    fn names_within(folder: &Path, patterns: &[&str], limit: SearchLimit) -> (Vec<String>, bool) {
        let patterns: Vec<Pattern> = patterns.iter().map(|text| Pattern::new(text)).collect();
        let search_result = search(folder, &patterns, limit).expect("it can be read");
        let names = search_result
            .cgroups
            .iter()
            .map(|cgroup| super::super::display_name(&cgroup.name));
        (names.collect(), search_result.is_incomplete)
    }

    #[test]
    fn cgroups_are_found_in_order_and_each_once() {
        let folder = make_tree(&["b/y", "b/x/1", "a", "c/x"]);
        let matching_names = |patterns: &[&str]| names(folder.path(), patterns, 100).0;
        let all_names = ["/", "a", "b", "b/x", "b/x/1", "b/y", "c", "c/x"];
        assert_eq!(matching_names(&["**"]), all_names);
        assert_eq!(matching_names(&["*"]), ["a", "b", "c"]);
        assert_eq!(
            matching_names(&["b/**", "b/x", "*/x"]),
            ["b", "b/x", "b/x/1", "b/y", "c/x"]
        );
        assert_eq!(matching_names(&["nothing", "b/nothing*"]), [""; 0]);
        assert_eq!(matching_names(&["/"]), ["/"]);
    }

    /// The system calls take paths of up to 4096 bytes.
    #[test]
    fn path_that_is_too_long_hides_no_other_cgroup() {
        let folder = make_tree(&["a", "b"]);
        let long_name = "n".repeat(255);
        let mut parent = fs::File::open(folder.path().join("a")).expect("it is there");
        for _ in 0..20 {
            mkdirat(&parent, long_name.as_str(), Mode::S_IRWXU).expect("there is room");
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY;
            let child = openat(&parent, long_name.as_str(), flags, Mode::empty());
            parent = child.expect("it was made").into();
        }
        let (found_names, is_incomplete) = names(folder.path(), &["**"], 1000);
        assert_eq!(found_names.first().map(String::as_str), Some("/"));
        assert_eq!(found_names.last().map(String::as_str), Some("b"));
        assert!(!is_incomplete);
    }

    #[test]
    fn no_more_than_the_limit_are_searched() {
        let folder = make_tree(&["a", "b/1", "b/2", "b/3", "c"]);
        let limited_names = |limit| names(folder.path(), &["**"], limit);
        let all_names = ["/", "a", "b", "b/1", "b/2", "b/3", "c"];
        assert_eq!(
            limited_names(7),
            (all_names.map(str::to_owned).to_vec(), false)
        );
        let first_six = ["/", "a", "b", "b/1", "b/2", "c"];
        assert_eq!(
            limited_names(6),
            (first_six.map(str::to_owned).to_vec(), true)
        );
        assert_eq!(limited_names(1), (vec!["/".to_owned()], true));
        // Cgroups with fewer levels come first.
        let folder = make_tree(&["a/1/x", "a/2/x", "b/1"]);
        let first_six = ["/", "a", "a/1", "a/2", "b", "b/1"];
        assert_eq!(
            names(folder.path(), &["**"], 6),
            (first_six.map(str::to_owned).to_vec(), true)
        );
        // Cgroups that can't contain matches are not searched.
        assert!(!names(folder.path(), &["*"], 3).1);
    }

    #[test]
    fn cgroups_below_the_deepest_level_are_not_found() {
        let folder = make_tree(&["a/b/c/d", "x"]);
        let found = |levels| {
            let limit = SearchLimit {
                cgroups: 100,
                levels,
            };
            names_within(folder.path(), &["**"], limit)
        };
        let expected = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned());
            (names.collect::<Vec<String>>(), false)
        };
        assert_eq!(found(2), expected(&["/", "a", "a/b", "x"]));
        assert_eq!(found(0), expected(&["/"]));
    }

    #[test]
    fn another_cgroup_with_the_same_name_has_another_inode() {
        let folder = make_tree(&["a", "b"]);
        let limit = SearchLimit {
            cgroups: 9,
            levels: 1,
        };
        let search = || search(folder.path(), &[Pattern::new("*")], limit).expect("it can be read");
        let inodes = || {
            let search_result = search();
            search_result
                .cgroups
                .into_iter()
                .map(|cgroup| cgroup.inode)
                .collect::<Vec<_>>()
        };
        let [a, b] = inodes()[..] else {
            panic!("there are two")
        };
        assert_ne!(a, b);
        let cgroups_before = search().cgroups;
        assert!(
            cgroups_before
                .iter()
                .all(|cgroup| cgroup.still_exists(folder.path()))
        );
        fs::rename(folder.path().join("a"), folder.path().join("c")).expect("it is ours");
        fs::rename(folder.path().join("b"), folder.path().join("a")).expect("it is ours");
        assert_eq!(inodes(), [b, a]);
        assert!(
            cgroups_before
                .iter()
                .all(|cgroup| !cgroup.still_exists(folder.path()))
        );
    }
}

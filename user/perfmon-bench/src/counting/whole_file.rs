// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes files that are replaced as a whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// Locks the folder of a file until the result is dropped; waits for others that have locked it. Returns `None` on a file
/// system without locks.
pub(crate) fn lock_folder(file: &Path) -> Option<Flock<File>> {
    let folder = File::open(folder_of(file)).ok()?;
    Flock::lock(folder, FlockArg::LockExclusive).ok()
}

/// Returns the folder of a file. A name without a slash has an empty parent: the file is in the current directory.
pub(crate) fn folder_of(file: &Path) -> &Path {
    let parent = file.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes a file. If it fails, an old file is unchanged. A path that is not a regular file, such as a pipe, is written
/// directly.
///
/// # Errors
/// The errors of the file system.
pub(crate) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
        return fs::write(path, text);
    }
    // If the path is a symbolic link to a file, that file is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (mut file, temporary) = create_temporary(&target)?;
    let result = file
        .write_all(text)
        .and_then(|()| fs::rename(&temporary, &target));
    if result.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    result
}

/// Creates a file with a temporary name beside `target`. A file or symbolic link of this name, which another user may have
/// made, is left alone.
fn create_temporary(target: &Path) -> io::Result<(File, PathBuf)> {
    let mut number = 0;
    loop {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}-{number}", std::process::id()));
        let temporary = target.with_file_name(name);
        match File::create_new(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            result => return result.map(|file| (file, temporary)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_at_the_temporary_name_is_not_followed() {
        let folder = tempfile::tempdir().expect("there is room");
        let (target, victim) = (folder.path().join("a.json"), folder.path().join("victim"));
        fs::write(&victim, "kept").expect("there is room");
        let (_, temporary) = create_temporary(&target).expect("there is room");
        fs::remove_file(&temporary).expect("it is ours");
        symlink(&victim, &temporary).expect("a link can be made");
        write(&target, b"new").expect("there is another name");
        assert_eq!(fs::read(&target).expect("it is there"), b"new");
        assert_eq!(fs::read(&victim).expect("it is there"), b"kept");
    }

    #[test]
    fn a_file_that_fails_leaves_the_old_one() {
        let folder = tempfile::tempdir().expect("there is room");
        let directory = folder.path().join("directory");
        fs::create_dir(&directory).expect("there is room");
        write(&directory, b"new").expect_err("it is no file");
        let missing = folder.path().join("missing/a.json");
        write(&missing, b"new").expect_err("there is no folder");
        let names = fs::read_dir(folder.path()).expect("it is ours");
        assert_eq!(names.count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_link_and_a_device_stay() {
        let folder = tempfile::tempdir().expect("there is room");
        let (link, target) = (folder.path().join("link"), folder.path().join("a.json"));
        fs::write(&target, "old").expect("there is room");
        symlink(&target, &link).expect("a link can be made");
        write(&link, b"new").expect("there is room");
        assert!(
            fs::symlink_metadata(&link)
                .expect("it is there")
                .is_symlink()
        );
        assert_eq!(fs::read(&target).expect("it is there"), b"new");
        write(Path::new("/dev/null"), b"new").expect("it takes all");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes files that appear at their paths only when they are complete.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::linkat;

use crate::system::stdio::NamedOutput;

/// A file that appears at its path when it is finished. Until then it has no name: the system
/// removes it when the process ends for any reason. On file systems without nameless files, it has
/// a temporary name in the same folder. A path that is not a regular file, such as a pipe, is
/// written directly.
pub(crate) struct WholeFile {
    file: NamedOutput<File>,
    location: Location,
    /// The path of the finished file.
    target: PathBuf,
}

/// The place of the file at present.
enum Location {
    /// The file has no name.
    Nameless,
    /// The file has this temporary name, in the folder of its path.
    Temporary(PathBuf),
    /// The file is at its path: it is finished, or is not a regular file.
    Target,
}

impl WholeFile {
    /// Creates a file.
    ///
    /// # Errors
    /// The errors of the file system, with the file's name.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let is_special = fs::metadata(path).is_ok_and(|facts| !facts.is_file());
        // If the path is a symbolic link to a file, that file is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let result = match open_nameless(&target) {
            _ if is_special => File::create(&target).map(|file| (file, Location::Target)),
            Ok(file) => Ok((file, Location::Nameless)),
            Err(_) => create_temporary(&target)
                .map(|(file, temporary)| (file, Location::Temporary(temporary))),
        };
        let name = path.display().to_string();
        let (output, location) = result.with_context(|| format!("can't write {name}"))?;
        Ok(Self {
            file: NamedOutput { output, name },
            location,
            target,
        })
    }

    /// Creates a file that only its owner may read.
    ///
    /// # Errors
    /// The errors of [`WholeFile::create`].
    pub(crate) fn create_private(path: &Path) -> Result<Self> {
        let file = Self::create(path)?;
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(file)
    }

    /// Sets the permissions of the file, unless its path is not a regular file.
    ///
    /// # Errors
    /// The errors of the file system, with the file's name.
    pub(crate) fn set_permissions(&self, permissions: Permissions) -> Result<()> {
        if matches!(self.location, Location::Target) {
            return Ok(());
        }
        let result = self.file.output.set_permissions(permissions);
        result.with_context(|| format!("can't write {}", self.file.name))
    }

    /// Finishes the file, so that it appears at its path.
    ///
    /// # Errors
    /// The errors of the file system, with the file's name. An earlier file at the path stays.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        // Signals are blocked, so that none ends pmctl while the file has its temporary name.
        let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter();
        let previous_mask = signals
            .collect::<SigSet>()
            .thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let result = self.move_to_target();
        if let Ok(previous_mask) = previous_mask {
            let _ = previous_mask.thread_set_mask();
        }
        self.file.with_name(result)
    }

    /// Gives the file a temporary name if it has none, and renames it to its path.
    fn move_to_target(&mut self) -> io::Result<()> {
        if matches!(self.location, Location::Nameless) {
            let own_path = path_of(&self.file.output);
            let link = |temporary: &Path| {
                let flags = AtFlags::AT_SYMLINK_FOLLOW;
                Ok(linkat(AT_FDCWD, &own_path, AT_FDCWD, temporary, flags)?)
            };
            let ((), temporary) = with_new_name(&self.target, link)?;
            self.location = Location::Temporary(temporary);
        }
        if let Location::Temporary(temporary) = &self.location {
            fs::rename(temporary, &self.target)?;
            self.location = Location::Target;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for WholeFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let result = self.file.output.seek(to);
        self.file.with_name(result)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Location::Temporary(temporary) = &self.location {
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes a file with `fill`. If that fails, the file does not appear.
///
/// # Errors
/// The errors of `fill`, and the errors of the file system, with the file's name.
pub(crate) fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<WholeFile>) -> Result<()>,
) -> Result<()> {
    fill_and_finish(WholeFile::create(path)?, fill)
}

/// Writes a file like [`write`]. Only the owner of the file may read it.
///
/// # Errors
/// The errors of [`write`].
pub(crate) fn write_private(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<WholeFile>) -> Result<()>,
) -> Result<()> {
    fill_and_finish(WholeFile::create_private(path)?, fill)
}

fn fill_and_finish(
    file: WholeFile,
    fill: impl FnOnce(&mut BufWriter<WholeFile>) -> Result<()>,
) -> Result<()> {
    let mut file = BufWriter::new(file);
    fill(&mut file)?;
    file.flush()?;
    Ok(file.get_mut().finish()?)
}

/// Opens a file without a name, which can later get a name in the folder of `target`.
fn open_nameless(target: &Path) -> io::Result<File> {
    let folder = match target.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut options = File::options();
    let file = options
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(folder)?;
    // /proc must be mounted, since the file gets its name through this path.
    fs::symlink_metadata(path_of(&file))?;
    Ok(file)
}

/// Returns a path of an open file, through its descriptor.
fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Creates a file with a temporary name.
fn create_temporary(target: &Path) -> io::Result<(File, PathBuf)> {
    with_new_name(target, |temporary| File::create_new(temporary))
}

/// Calls `make` with temporary paths of a file until one is new, and returns the result with that path. `make` must fail if
/// the path exists, also as a symbolic link: another user may have made one in a shared folder.
fn with_new_name<T>(
    target: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    let mut number = 0;
    loop {
        let mut name = OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}-{number}", std::process::id()));
        let temporary = target.with_file_name(name);
        match make(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            result => return result.map(|made| (made, temporary)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_that_fails_leaves_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("out");
        write(&path, |file| Ok(file.write_all(b"old")?)).expect("it can be written");
        let result = write(&path, |file| {
            file.write_all(b"new")?;
            anyhow::bail!("the end")
        });
        assert_eq!(result.expect_err("it fails").to_string(), "the end");
        assert_eq!(fs::read(&path).expect("it is there"), b"old");
        assert_eq!(folder.path().read_dir().expect("it is ours").count(), 1);
    }

    #[test]
    fn an_unfinished_file_has_no_name() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("out");
        let mut file = WholeFile::create(&path).expect("it can be written");
        file.write_all(b"half").expect("there is room");
        let number = || folder.path().read_dir().expect("it is ours").count();
        // On a file system without nameless files it has a temporary name.
        assert_eq!(
            number(),
            usize::from(matches!(file.location, Location::Temporary(_)))
        );
        file.finish().expect("it gets its name");
        drop(file);
        assert_eq!(
            (number(), fs::read(&path).expect("it is there")),
            (1, b"half".to_vec())
        );
        let path_private = folder.path().join("private");
        let mut private_file = WholeFile::create_private(&path_private).expect("it can be written");
        private_file.finish().expect("it gets its name");
        // Without `create_private`, the mode is that of any new file.
        let other_path = folder.path().join("other");
        let mode = |path: &Path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
        };
        fs::write(&other_path, "").expect("there is room");
        assert_eq!(mode(&path), mode(&other_path));
        assert_eq!(mode(&path_private) & 0o777, 0o600);
    }

    #[test]
    fn a_file_with_a_temporary_name_is_moved_or_removed() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let target = folder.path().join("out");
        for is_finished in [false, true] {
            let (output, temporary) = create_temporary(&target).expect("it can be written");
            let mut file = WholeFile {
                file: NamedOutput {
                    output,
                    name: "out".to_owned(),
                },
                location: Location::Temporary(temporary),
                target: target.clone(),
            };
            if is_finished {
                file.finish().expect("it can be moved");
            }
            drop(file);
            let names: Vec<PathBuf> = fs::read_dir(folder.path())
                .expect("it is ours")
                .map(|entry| entry.expect("it is ours").path())
                .collect();
            assert_eq!(
                names,
                if is_finished {
                    vec![target.clone()]
                } else {
                    vec![]
                }
            );
        }
    }

    #[test]
    fn a_link_at_the_temporary_path_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (target, victim) = (folder.path().join("out"), folder.path().join("victim"));
        fs::write(&victim, "kept").expect("there is room");
        let (_, temporary) = create_temporary(&target).expect("it can be written");
        fs::remove_file(&temporary).expect("it is ours");
        symlink(&victim, &temporary).expect("a link can be made");
        let (_, other) = create_temporary(&target).expect("there is another name");
        assert_ne!(other, temporary);
        // A file without a name gets its temporary name in the same way.
        write(&target, |file| Ok(file.write_all(b"new")?)).expect("there is another name");
        assert_eq!(fs::read(&target).expect("it is there"), b"new");
        assert_eq!(fs::read(&victim).expect("it is there"), b"kept");
    }

    #[test]
    fn a_device_is_written_directly() {
        write(Path::new("/dev/null"), |file| Ok(file.write_all(b"x")?)).expect("it takes all");
        let result = write(Path::new("/dev/full"), |file| Ok(file.write_all(b"x")?));
        let message = result.expect_err("there is no room").to_string();
        assert!(
            message.starts_with("can't write /dev/full: No space"),
            "{message}"
        );
        assert!(!fs::metadata("/dev/full").expect("it is there").is_file());
    }
}

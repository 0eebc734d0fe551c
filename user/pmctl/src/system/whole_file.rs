// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes files that appear at their paths only when they are complete.

use std::env;
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
/// removes it when the process ends for any reason. If the file system of its path has no nameless
/// files, it is in the folder of temporary files until then. A path that is not a regular file,
/// such as a pipe, is written directly.
pub(crate) struct WholeFile {
    file: NamedOutput<File>,
    location: Location,
    /// The path of the finished file.
    target: PathBuf,
}

/// The place of the file at present.
enum Location {
    /// The file has no name, and can get one in the folder of its path.
    Nameless,
    /// The file has no name, and is in the folder of temporary files.
    Elsewhere,
    /// The file is at its path: it is finished, or is not a regular file.
    Target,
}

impl WholeFile {
    /// Creates a file.
    ///
    /// # Errors
    /// The errors of the file system, with the file's name.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        // If the path is a symbolic link to a file, that file is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let result = match fs::metadata(path) {
            Ok(facts) if !facts.is_file() => {
                File::create(&target).map(|file| (file, Location::Target))
            }
            // For example, the name is too long.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => open_without_name(&target),
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
        let result = without_signals(|| self.move_to_target());
        self.file.with_name(result)
    }

    /// Gives the file a temporary name in the folder of its path, and renames it to its path.
    fn move_to_target(&mut self) -> io::Result<()> {
        let make = |temporary: &Path| match self.location {
            Location::Nameless => link(&self.file.output, temporary),
            Location::Elsewhere => copy(&mut self.file.output, temporary),
            Location::Target => Ok(()),
        };
        if !matches!(self.location, Location::Target) {
            let ((), temporary) = with_new_name(&self.target, make)?;
            fs::rename(&temporary, &self.target).inspect_err(|_| remove(&temporary))?;
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

/// Opens a file without a name, in the folder of `target` if possible.
fn open_without_name(target: &Path) -> io::Result<(File, Location)> {
    if let Ok(file) = open_nameless(target) {
        return Ok((file, Location::Nameless));
    }
    // Fails now, and not at the end, if the folder can't be written to.
    make_and_remove(target)?;
    let file = make_and_remove(&env::temp_dir().join("file"))?;
    Ok((file, Location::Elsewhere))
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

/// Creates a file in the folder of `target`, and removes its name.
fn make_and_remove(target: &Path) -> io::Result<File> {
    without_signals(|| {
        let (file, temporary) = with_new_name(target, |temporary| File::create_new(temporary))?;
        fs::remove_file(temporary)?;
        Ok(file)
    })
}

/// Gives an open file without a name this name, in the same file system.
fn link(file: &File, name: &Path) -> io::Result<()> {
    let flags = AtFlags::AT_SYMLINK_FOLLOW;
    Ok(linkat(AT_FDCWD, &path_of(file), AT_FDCWD, name, flags)?)
}

/// Copies an open file to a new file with this name and the same mode.
fn copy(file: &mut File, name: &Path) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    let mut options = File::options();
    let mut new_file = options.write(true).create_new(true).mode(mode).open(name)?;
    let result = file.rewind().and_then(|()| {
        // The umask may have removed bits of a mode that was set later.
        new_file.set_permissions(Permissions::from_mode(mode))?;
        io::copy(file, &mut new_file)?;
        // A full disk of a server is reported only now.
        new_file.sync_all()
    });
    result.inspect_err(|_| remove(name))
}

fn remove(temporary: &Path) {
    let _ = fs::remove_file(temporary);
}

/// Calls `action` with signals blocked, so that none ends pmctl while a file has a temporary name.
fn without_signals<T>(action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter();
    let previous_mask = signals
        .collect::<SigSet>()
        .thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let result = action();
    if let Ok(previous_mask) = previous_mask {
        let _ = previous_mask.thread_set_mask();
    }
    result
}

/// Calls `make` with temporary paths of a file until one is new, and returns the result with that path. `make` must fail if
/// the path exists, also as a symbolic link: another user may have made one in a shared folder.
fn with_new_name<T>(
    target: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    let mut number = 0;
    loop {
        // The name does not contain that of the target, which may have the largest length.
        let name = format!(".pmctl-{}-{number}", std::process::id());
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
        assert_eq!(number(), 0);
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
    fn a_file_in_another_folder_is_copied_at_the_end() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let target = folder.path().join("out");
        let number = || folder.path().read_dir().expect("it is ours").count();
        for mode in [0o644, 0o600] {
            let output = make_and_remove(&target).expect("it can be written");
            let mut file = WholeFile {
                file: NamedOutput {
                    output,
                    name: "out".to_owned(),
                },
                location: Location::Elsewhere,
                target: target.clone(),
            };
            let result = file.set_permissions(Permissions::from_mode(mode));
            result.expect("it is ours");
            file.write_all(b"x").expect("there is room");
            assert_eq!(number(), 0);
            file.finish().expect("it can be moved");
            assert_eq!((number(), fs::read(&target).ok()), (1, Some(b"x".to_vec())));
            let facts = fs::metadata(&target).expect("it is there");
            assert_eq!(facts.permissions().mode() & 0o777 & !mode, 0);
            fs::remove_file(&target).expect("it is there");
        }
    }

    #[test]
    fn a_name_has_any_length_that_the_file_system_allows() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let longest = folder.path().join("x".repeat(255));
        write(&longest, |file| Ok(file.write_all(b"x")?)).expect("it can be written");
        assert_eq!(fs::read(&longest).expect("it is there"), b"x");
        let too_long = WholeFile::create(&folder.path().join("x".repeat(256)));
        let message = format!("{:#}", too_long.err().expect("it can't be made"));
        assert!(message.contains("name too long"), "{message}");
    }

    #[test]
    fn a_link_at_the_temporary_path_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (target, victim) = (folder.path().join("out"), folder.path().join("victim"));
        fs::write(&victim, "kept").expect("there is room");
        let make = |temporary: &Path| File::create_new(temporary);
        let (_, temporary) = with_new_name(&target, make).expect("it can be written");
        fs::remove_file(&temporary).expect("it is ours");
        symlink(&victim, &temporary).expect("a link can be made");
        let (_, other) = with_new_name(&target, make).expect("there is another name");
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

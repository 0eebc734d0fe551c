// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens private files, and files whose names come from other users; tells whether a file has changed; sets the limit of
//! open files.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// Returns options that create a file for its owner only. An existing file keeps its mode.
pub(crate) fn private_options() -> OpenOptions {
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    options
}

/// A file that is opened for writing. If the file is new and still empty, dropping this value
/// removes the file.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    is_new: bool,
}

impl NewFile {
    /// Opens a file with these options, and creates it if it does not exist.
    ///
    /// # Errors
    /// The errors of open(2).
    pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<(File, Self)> {
        let result = options.clone().create_new(true).open(path);
        let is_new = result.is_ok();
        let file = match result {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path)?,
            result => result?,
        };
        let path = path.to_owned();
        Ok((file, Self { path, is_new }))
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        let is_empty =
            |path| fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.len() == 0);
        if self.is_new && is_empty(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Reads a file whose text may not be UTF-8, such as one in /proc, where names of threads are any bytes.
pub(crate) fn read_lossy(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = fs::read(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The soft and the hard limit of open files before [`allow_many_files`].
static LIMITS_BEFORE: OnceLock<(rlim_t, rlim_t)> = OnceLock::new();

/// Raises the soft limit of open files to the hard limit, if possible.
pub(crate) fn allow_many_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = LIMITS_BEFORE.set((soft, hard));
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Restores the limits of open files with which pmctl was started, in a process that will execute a command. The command
/// may use select(2), which does not work with more files than the usual soft limit.
pub(crate) fn restore_limit() -> Result<(), Errno> {
    match LIMITS_BEFORE.get() {
        Some((soft, hard)) => setrlimit(Resource::RLIMIT_NOFILE, *soft, *hard),
        None => Ok(()),
    }
}

/// Opens a regular file whose name comes from a recording, a program or another user.
///
/// # Errors
/// The errors of open(2), and `InvalidInput` for files that are not regular: opening a pipe could block pmctl, and a
/// device may have no end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, 0)
}

/// Opens a file like [`open`], with more flags of open(2).
pub(crate) fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    let require_file = |facts: fs::Metadata| {
        let error = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        facts.is_file().then_some(()).ok_or_else(error)
    };
    // The type is checked before opening, since opening a device may have effects, and again afterwards, since the name may
    // be that of another file by then.
    require_file(fs::metadata(path)?)?;
    let mut options = File::options();
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = options.read(true).custom_flags(flags).open(path)?;
    require_file(file.metadata()?)?;
    Ok(file)
}

/// Opens a file like [`open`], and reads it, if it has at most `max_size` bytes.
///
/// # Errors
/// The errors of [`open`] and of read(2), and `FileTooLarge`.
pub(crate) fn read(path: &Path, max_size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = open(path)?.take(max_size + 1).read_to_end(&mut bytes)?;
    if size as u64 > max_size {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Returns whether the file at a path is the one of an earlier time: whether it has this inode, if the inode is
/// known, and has not changed since then. Returns false if the time is not known.
pub(crate) fn is_unchanged(path: &Path, inode: Option<u64>, time: Option<SystemTime>) -> bool {
    let (Ok(facts), Some(time)) = (fs::metadata(path), time) else {
        return false;
    };
    inode.is_none_or(|inode| inode == facts.ino()) && last_change(&facts) <= time
}

/// Returns the time at which a file got its content or its path, at the latest. Programs that install or copy files may
/// set the time of modification to an earlier one, but not that of the inode's change.
fn last_change(facts: &Metadata) -> SystemTime {
    let since_1970 = |seconds: i64, nanoseconds: i64| {
        // A time before 1970 counts as the beginning of 1970.
        let seconds = Duration::from_secs(seconds.try_into().unwrap_or(0));
        UNIX_EPOCH + seconds + Duration::from_nanos(nanoseconds.try_into().unwrap_or(0))
    };
    let modified = since_1970(facts.mtime(), facts.mtime_nsec());
    modified.max(since_1970(facts.ctime(), facts.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[test]
    fn a_file_with_an_old_time_has_changed() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        let inode = file.as_file().metadata().expect("it is open").ino();
        let now = Some(SystemTime::now() + Duration::from_secs(1));
        assert!(is_unchanged(file.path(), Some(inode), now));
        assert!(is_unchanged(file.path(), None, now));
        assert!(!is_unchanged(file.path(), Some(inode + 1), now));
        assert!(!is_unchanged(file.path(), Some(inode), None));
        // As `cp -p` and `touch -d` do.
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        let result = file.as_file().set_modified(hour_ago);
        result.expect("it is ours");
        let half_hour_ago = hour_ago + Duration::from_secs(1800);
        assert!(!is_unchanged(file.path(), None, Some(half_hour_ago)));
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).expect("it can be made");
        for path in [&pipe, Path::new("/dev/zero"), folder.path()] {
            let error = open(path).expect_err("it is not a regular file");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
    }

    #[test]
    fn a_file_is_read_up_to_a_size() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        fs::write(file.path(), "1234").expect("it can be written");
        assert_eq!(read(file.path(), 4).expect("it is small"), b"1234");
        let error = read(file.path(), 3).expect_err("it is too large");
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}

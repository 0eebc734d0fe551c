// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cgroups that events can count, and where they are mounted.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::libc;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, fstatfs};
use nix::unistd::{AccessFlags, faccessat};

use crate::{Attempt, Cause, Error};

/// A cgroup of version 2: an open directory of it, for [`Builder::cgroup`](super::Builder::cgroup).
///
/// The object stays with the cgroup that was opened, even if another one gets its path. Events of a removed cgroup keep
/// their counts.
///
/// ```no_run
/// use perfmon::Event;
/// use perfmon::event::Cgroup;
///
/// let cgroup = Cgroup::named("system.slice/ssh.service")?;
/// let event = Event::instructions().cgroup(&cgroup).open()?;
/// # Ok::<(), perfmon::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cgroup(Arc<Directory>);

#[derive(Debug)]
struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Cgroup {
    /// Opens the cgroup whose directory has this path.
    ///
    /// # Errors
    /// [`Cause::NoSuchCgroup`] if nothing has the path, [`Cause::NotACgroup`] if something else has it,
    /// [`Cause::CgroupVersion1`] if it is a cgroup of version 1.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |cause| Error {
            attempt: Attempt::OpenCgroup(path.to_owned()),
            cause,
        };
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(path)
            .map_err(|error| failed(cause_of(&error)))?;
        let kind = fstatfs(&file).map_err(|errno| failed(Cause::Unexpected(errno)))?;
        match kind.filesystem_type() {
            CGROUP2_SUPER_MAGIC => Ok(Self::from_directory(file.into(), path)),
            CGROUP_SUPER_MAGIC => Err(failed(Cause::CgroupVersion1)),
            _ => Err(failed(Cause::NotACgroup)),
        }
    }

    /// Opens the cgroup of this name below the [place](Self::mount_point) where cgroups are mounted: as /proc/PID/cgroup
    /// has it behind `0::`, with or without the slash in front, or the whole path.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`mount_point`](Self::mount_point).
    pub fn named(name: impl AsRef<Path>) -> Result<Self, Error> {
        let mount = Self::mount_point()?;
        let name = name.as_ref();
        Self::open(mount.join(relative(name, &mount)))
    }

    /// The cgroup of a directory that is open already. Whether it is one is seen when an event is opened:
    /// [`Cause::NotACgroup`]. Errors call it `path`.
    #[must_use]
    pub fn from_directory(descriptor: OwnedFd, path: &Path) -> Self {
        Self(Arc::new(Directory {
            descriptor,
            path: path.to_owned(),
        }))
    }

    /// Returns where this process sees cgroups of version 2 mounted: of several places the one that shows most.
    ///
    /// # Errors
    /// [`Cause::NoCgroupMount`], or [`Cause::CgroupVersion1`] if only those of version 1 are mounted.
    pub fn mount_point() -> Result<PathBuf, Error> {
        let table = fs::read("/proc/self/mountinfo");
        let found = table.map_err(|error| unexpected(&error));
        found.and_then(|table| mount_in(&table)).map_err(|cause| {
            let attempt = Attempt::FindCgroups;
            Error { attempt, cause }
        })
    }

    /// Returns the path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns whether it has been removed.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        let found = faccessat(self, "cgroup.procs", AccessFlags::F_OK, AtFlags::empty());
        matches!(found, Err(Errno::ENOENT | Errno::ENODEV))
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }
}

/// Clones of one opening are equal.
impl PartialEq for Cgroup {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Cgroup {}

/// Returns why a directory could not be opened.
fn cause_of(error: &io::Error) -> Cause {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENODEV) => Cause::NoSuchCgroup,
        Some(Errno::ENOTDIR) => Cause::NotACgroup,
        _ => unexpected(error),
    }
}

fn unexpected(error: &io::Error) -> Cause {
    let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
    Cause::Unexpected(errno)
}

/// Returns a name without the slash in front, and without the place of the mount.
fn relative<'a>(name: &'a Path, mount: &Path) -> &'a Path {
    let name = name.strip_prefix(mount).unwrap_or(name);
    name.strip_prefix("/").unwrap_or(name)
}

/// Returns where cgroups are mounted, by the text of /proc/self/mountinfo: of several places the one that shows most, the
/// first of equal ones. In a container that may be one that was passed in from outside.
fn mount_in(table: &[u8]) -> Result<PathBuf, Cause> {
    let mut has_version_1 = false;
    let mut best: Option<(isize, &[u8])> = None;
    for line in table.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ');
        // The fields before are the mount's ID, its parent's ID, and the device.
        let (Some(root), Some(place)) = (fields.nth(3), fields.next()) else {
            continue;
        };
        // Behind the place are options, any number of further fields, and a dash.
        match fields.skip_while(|field| *field != b"-").nth(1) {
            Some(b"cgroup2") => {
                let height = height(root);
                if best.is_none_or(|(highest, _)| height > highest) {
                    best = Some((height, place));
                }
            }
            Some(b"cgroup") => has_version_1 = true,
            _ => {}
        }
    }
    match best {
        Some((_, place)) => Ok(PathBuf::from(OsString::from_vec(unescaped(place)))),
        None if has_version_1 => Err(Cause::CgroupVersion1),
        None => Err(Cause::NoCgroupMount),
    }
}

/// Returns how many levels the root of a mount is above the root of this process's cgroup namespace, of which the table
/// says `/../..`.
fn height(root: &[u8]) -> isize {
    let levels = root.split(|byte| *byte == b'/');
    let levels = levels.filter(|level| !level.is_empty());
    levels
        .map(|level| if level == b".." { 1 } else { -1 })
        .sum()
}

/// Returns a field of the table as it was before blanks became `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| *first == b'\\');
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_in_the_table() {
        let table = b"21 26 0:19 / /proc rw,nosuid shared:12 - proc proc rw
26 1 8:1 / / rw - ext4 /dev/sda1 rw
30 24 0:26 / /sys/fs/cgroup\\040x rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate
31 24 0:26 / /second rw - cgroup2 cgroup2 rw\n";
        let found = mount_in(table);
        assert_eq!(found, Ok(PathBuf::from("/sys/fs/cgroup x")));
        let only_1 = b"30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(mount_in(only_1), Err(Cause::CgroupVersion1));
        let both = [&only_1[..], b"31 24 0:27 / /unified rw - cgroup2 none rw\n"].concat();
        assert_eq!(mount_in(&both), Ok(PathBuf::from("/unified")));
        for none in [
            &b""[..],
            b"1 2 3",
            b"26 1 8:1 / /cgroup2 rw - ext4 /dev/a rw",
        ] {
            assert_eq!(mount_in(none), Err(Cause::NoCgroupMount));
        }
    }

    #[test]
    fn a_name_is_below_the_mount_in_each_form() {
        let mount = Path::new("/sys/fs/cgroup");
        for name in ["a/b", "/a/b", "/sys/fs/cgroup/a/b"] {
            assert_eq!(relative(Path::new(name), mount), Path::new("a/b"), "{name}");
        }
        for root in ["", "/", "/sys/fs/cgroup", "/sys/fs/cgroup/"] {
            assert_eq!(relative(Path::new(root), mount), Path::new(""), "{root}");
        }
    }

    #[test]
    fn bytes_are_unescaped() {
        assert_eq!(unescaped(br"a\040b\134\011"), b"a b\\\t");
        assert_eq!(unescaped(br"a\04"), br"a\04");
        assert_eq!(unescaped(br"\999"), br"\999");
    }

    #[test]
    fn what_is_no_cgroup_is_told() {
        let cause = |path: &str| Cgroup::open(path).expect_err("it is no cgroup").cause;
        assert_eq!(cause("/nonexistent"), Cause::NoSuchCgroup);
        assert_eq!(cause("/proc/self"), Cause::NotACgroup);
        assert_eq!(cause("/proc/self/status"), Cause::NotACgroup);
    }
}

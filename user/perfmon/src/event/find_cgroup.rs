// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens cgroups by their paths and names, and finds where they are mounted.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, fstatfs};

use super::Cgroup;
use crate::{Attempt, Cause, Error};

impl Cgroup {
    /// Opens the cgroup whose directory has this path.
    ///
    /// # Errors
    /// [`Cause::NoSuchCgroup`] if the path does not exist, [`Cause::NotACgroup`] if it is not the directory of a
    /// cgroup.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let open_error = |cause| Error {
            attempt: Attempt::OpenCgroup(path.to_owned()),
            cause,
        };
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(path)
            .map_err(|error| open_error(cause_of_open(&error)))?;
        let kind = fstatfs(&file).map_err(|errno| open_error(Cause::Unexpected(errno)))?;
        match kind.filesystem_type() {
            CGROUP2_SUPER_MAGIC | CGROUP_SUPER_MAGIC => Ok(Self::from_directory(file.into(), path)),
            _ => Err(open_error(Cause::NotACgroup)),
        }
    }

    /// Opens the cgroup of this name below the [mount point](Self::mount_point) of cgroups. The name is the path that
    /// /proc/PID/cgroup shows after `0::`, or after `perf_event:` where that hierarchy is mounted. The leading slash may be
    /// left out, and the mount point may be put in front.
    ///
    /// # Errors
    /// As [`open`](Self::open) and [`mount_point`](Self::mount_point).
    pub fn named(name: impl AsRef<Path>) -> Result<Self, Error> {
        let mount = Self::mount_point()?;
        let name = name.as_ref();
        Self::open(mount.join(strip_mount(name, &mount)))
    }

    /// Returns the mount point of the cgroups that perf counts. Their ids are also the ids in
    /// samples ([`Builder::cgroup_ids`](super::Builder::cgroup_ids)). These are the cgroups of
    /// version 1 if a hierarchy with the controller `perf_event` is mounted, and otherwise the
    /// cgroups of version 2. Of several mounts, the mount with the highest root wins, as it shows
    /// the most cgroups.
    ///
    /// # Errors
    /// [`Cause::NoCgroupMount`] if no cgroups are mounted, [`Cause::CgroupVersion1`] if only other
    /// hierarchies of version 1 are mounted.
    pub fn mount_point() -> Result<PathBuf, Error> {
        let table = fs::read("/proc/self/mountinfo");
        let table = table.map_err(|error| unexpected_cause(&error));
        table.and_then(|table| find_mount(&table)).map_err(|cause| {
            let attempt = Attempt::FindCgroups;
            Error { attempt, cause }
        })
    }
}

/// Returns the cause of the failure to open a directory.
fn cause_of_open(error: &io::Error) -> Cause {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENODEV) => Cause::NoSuchCgroup,
        Some(Errno::ENOTDIR) => Cause::NotACgroup,
        _ => unexpected_cause(error),
    }
}

fn unexpected_cause(error: &io::Error) -> Cause {
    match error.raw_os_error().map_or(Errno::EIO, Errno::from_raw) {
        Errno::EMFILE | Errno::ENFILE => Cause::NoDescriptor,
        errno => Cause::Unexpected(errno),
    }
}

/// Returns a name without the slash in front, and without the mount point.
fn strip_mount<'a>(name: &'a Path, mount: &Path) -> &'a Path {
    let name = name.strip_prefix(mount).unwrap_or(name);
    name.strip_prefix("/").unwrap_or(name)
}

/// The kinds of mounts of cgroups that events can count, in rising order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MountKind {
    Version2,
    Version1WithPerf,
}

/// Finds the mount point of cgroups in the text of /proc/self/mountinfo, as [`Cgroup::mount_point`]
/// describes it. The first of several equal mounts wins. In a container, the mount may have been
/// passed in from the host.
fn find_mount(table: &[u8]) -> Result<PathBuf, Cause> {
    let mut has_version_1 = false;
    let mut best: Option<((MountKind, isize), &[u8])> = None;
    for line in table.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ');
        // The first three fields are the mount's ID, its parent's ID, and the device.
        let (Some(root), Some(mount_point)) = (fields.nth(3), fields.next()) else {
            continue;
        };
        // The mount point is followed by options, any number of optional fields, a dash, the file system's type, its source,
        // and its options, which for version 1 include the controllers.
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let kind = match (fields.next(), fields.nth(1)) {
            (Some(b"cgroup2"), _) => MountKind::Version2,
            (Some(b"cgroup"), Some(options)) if has_perf_controller(options) => {
                MountKind::Version1WithPerf
            }
            (Some(b"cgroup"), _) => {
                has_version_1 = true;
                continue;
            }
            _ => continue,
        };
        let rank = (kind, levels_above_namespace_root(root));
        if best.is_none_or(|(best_rank, _)| rank > best_rank) {
            best = Some((rank, mount_point));
        }
    }
    match best {
        Some((_, mount_point)) => Ok(PathBuf::from(OsString::from_vec(unescape(mount_point)))),
        None if has_version_1 => Err(Cause::CgroupVersion1),
        None => Err(Cause::NoCgroupMount),
    }
}

/// Returns whether the options of a mount of version 1 include perf's controller.
fn has_perf_controller(options: &[u8]) -> bool {
    let mut options = options.split(|byte| *byte == b',');
    options.any(|option| option == b"perf_event")
}

/// Returns how many levels the root of a mount is above the root of this process's cgroup namespace: 2 for `/../..`,
/// negative for a root below it.
fn levels_above_namespace_root(root: &[u8]) -> isize {
    let levels = root.split(|byte| *byte == b'/');
    let levels = levels.filter(|level| !level.is_empty());
    levels
        .map(|level| if level == b".." { 1 } else { -1 })
        .sum()
}

/// Converts the octal escapes of mountinfo, such as `\040` for a blank, back to bytes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after_first)) = rest.split_first() {
        let octal = after_first.get(..3).filter(|_| *first == b'\\');
        let byte = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() {
            &after_first[3..]
        } else {
            after_first
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_with_the_highest_root_is_found() {
        let table = b"21 26 0:19 / /proc rw,nosuid shared:12 - proc proc rw
26 1 8:1 / / rw - ext4 /dev/sda1 rw
30 24 0:26 / /sys/fs/cgroup\\040x rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate
31 24 0:26 / /second rw - cgroup2 cgroup2 rw\n";
        let mount = find_mount(table);
        assert_eq!(mount, Ok(PathBuf::from("/sys/fs/cgroup x")));
        let other_version_1 = b"30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(find_mount(other_version_1), Err(Cause::CgroupVersion1));
        let both_versions = [
            &other_version_1[..],
            b"31 24 0:27 / /unified rw - cgroup2 none rw\n",
        ]
        .concat();
        assert_eq!(find_mount(&both_versions), Ok(PathBuf::from("/unified")));
        for none in [
            &b""[..],
            b"1 2 3",
            b"26 1 8:1 / /cgroup2 rw - ext4 /dev/a rw",
        ] {
            assert_eq!(find_mount(none), Err(Cause::NoCgroupMount));
        }
    }

    #[test]
    fn the_hierarchy_with_perfs_controller_comes_first() {
        let without_perf = &b"30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"[..];
        let with_perf =
            &b"31 24 0:27 / /perf\\040event rw shared:9 - cgroup cgroup rw,perf_event\n"[..];
        let version_2 = &b"32 24 0:28 / /unified rw - cgroup2 perf_event rw\n"[..];
        let mount_point_of = |lines: &[&[u8]]| find_mount(&lines.concat());
        assert_eq!(
            mount_point_of(&[without_perf, version_2]),
            Ok(PathBuf::from("/unified"))
        );
        assert_eq!(
            mount_point_of(&[without_perf, version_2, with_perf]),
            Ok(PathBuf::from("/perf event"))
        );
        // The mounts of a container: of its own cgroup, and of the host's root.
        let own_cgroup =
            &b"33 24 0:27 /kubepods/a /own rw - cgroup cgroup rw,nosuid,perf_event\n"[..];
        let same_root = &b"34 24 0:27 / /same rw - cgroup cgroup rw,perf_event\n"[..];
        for mounts in [
            &[own_cgroup, with_perf, same_root][..],
            &[with_perf, own_cgroup, same_root],
        ] {
            assert_eq!(mount_point_of(mounts), Ok(PathBuf::from("/perf event")));
        }
        assert_eq!(
            mount_point_of(&[version_2, own_cgroup]),
            Ok(PathBuf::from("/own"))
        );
    }

    #[test]
    fn mount_point_is_stripped_from_a_name() {
        let mount = Path::new("/sys/fs/cgroup");
        for name in ["a/b", "/a/b", "/sys/fs/cgroup/a/b"] {
            assert_eq!(
                strip_mount(Path::new(name), mount),
                Path::new("a/b"),
                "{name}"
            );
        }
        for root in ["", "/", "/sys/fs/cgroup", "/sys/fs/cgroup/"] {
            assert_eq!(strip_mount(Path::new(root), mount), Path::new(""), "{root}");
        }
    }

    #[test]
    fn bytes_are_unescaped() {
        assert_eq!(unescape(br"a\040b\134\011"), b"a b\\\t");
        assert_eq!(unescape(br"a\04"), br"a\04");
        assert_eq!(unescape(br"\999"), br"\999");
    }

    #[test]
    fn a_path_that_is_no_cgroup_is_refused() {
        let cause = |path: &str| Cgroup::open(path).expect_err("it is no cgroup").cause;
        assert_eq!(cause("/nonexistent"), Cause::NoSuchCgroup);
        assert_eq!(cause("/proc/self"), Cause::NotACgroup);
        assert_eq!(cause("/proc/self/status"), Cause::NotACgroup);
    }
}

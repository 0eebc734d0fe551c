// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up the guest's file systems, host name, clock and loopback device.

use std::fs::{self, Permissions};
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};
use nix::unistd::{chdir, chroot, sethostname};

use super::super::qemu::{HOST_FILES_TAG, share_mount_tag};
use super::super::task::{GuestTask, TOOLS_DIRECTORY};

nix::ioctl_write_ptr_bad!(set_flags, libc::SIOCSIFFLAGS, libc::ifreq);

/// Type, mount point and options of a file system.
type FileSystem = (&'static str, &'static str, &'static str);

/// File systems of the guest's kernel.
const OWN_FILE_SYSTEMS: [FileSystem; 6] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("debugfs", "/sys/kernel/debug", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", "ptmxmode=0666"),
    ("tmpfs", "/dev/shm", "mode=1777"),
];

/// Links that programs expect in /dev: target and path.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Mount point of the host's files, read-only.
const HOST_FILES_MOUNT: &str = "/lower";
/// Mount point of the changes to the host's files, which are kept in memory.
const CHANGES_MOUNT: &str = "/changes";
/// Mount point of the overlay of the host's files and the changes. It becomes the root.
const OVERLAY_MOUNT: &str = "/both";

/// Options for the host's files: long messages, and a cache that assumes that no other program changes the files.
const MOUNT_OPTIONS: &str = "trans=virtio,version=9p2000.L,msize=512000,cache=loose,access=any";
/// Options for directories that host and guest change. Without a cache, a write has reached the host when it returns, and
/// fails with the host's error. But files can't be mapped shared and writable.
const SHARED_MOUNT_OPTIONS: &str =
    "trans=virtio,version=9p2000.L,msize=512000,cache=none,access=any";
const OVERLAY_OPTIONS: &str =
    "lowerdir=/lower,upperdir=/changes/upper,workdir=/changes/work,redirect_dir=on";

/// Settings of the kernel's multi-generational LRU (Documentation/admin-guide/mm/multigen_lru.rst): it is enabled, and kills
/// processes when pages that were used within the last second would have to be freed. Without this limit, a command that
/// needs more memory than the machine has would read its own program again and again, and never end.
const PAGE_GENERATIONS: [(&str, &str); 2] = [("enabled", "y"), ("min_ttl_ms", "1000")];

/// Mounts the guest's own file systems, copies pmctl to its directory, limits the reclaim of pages, and enables the
/// loopback device.
pub(super) fn set_up() -> Result<()> {
    for (kind, target, options) in OWN_FILE_SYSTEMS {
        mount_at(kind, kind, target, MsFlags::empty(), options)?;
    }
    for (target, path) in DEVICE_LINKS {
        symlink(target, path).with_context(|| format!("can't make the link {path}"))?;
    }
    fs::create_dir(TOOLS_DIRECTORY)
        .and_then(|()| fs::copy("/init", Path::new(TOOLS_DIRECTORY).join("pmctl")))?;
    // The command may run as any user, whatever the mode of the file that was packed.
    fs::set_permissions(
        Path::new(TOOLS_DIRECTORY).join("pmctl"),
        Permissions::from_mode(0o755),
    )?;
    let page_generations = Path::new("/sys/kernel/mm/lru_gen");
    // A kernel may be built without generations of pages.
    if page_generations.exists() {
        for (name, value) in PAGE_GENERATIONS {
            fs::write(page_generations.join(name), value)
                .with_context(|| format!("can't set {name} of {}", page_generations.display()))?;
        }
    }
    enable_loopback().context("can't enable the loopback device")
}

/// Makes the host's files, with changes in memory, the root of the guest.
pub(super) fn mount_host_files(task: &GuestTask) -> Result<()> {
    mount_at(
        "9p",
        HOST_FILES_TAG,
        HOST_FILES_MOUNT,
        MsFlags::MS_RDONLY,
        MOUNT_OPTIONS,
    )?;
    mount_at("tmpfs", "tmpfs", CHANGES_MOUNT, MsFlags::empty(), "")?;
    for name in ["upper", "work"] {
        fs::create_dir(Path::new(CHANGES_MOUNT).join(name))
            .context("can't make a directory for the changes to the host's files")?;
    }
    mount_at(
        "overlay",
        "overlay",
        OVERLAY_MOUNT,
        MsFlags::empty(),
        OVERLAY_OPTIONS,
    )?;
    for path in ["/proc", "/sys", "/dev"] {
        move_mount(path, &format!("{OVERLAY_MOUNT}{path}"))?;
    }
    chdir(OVERLAY_MOUNT)
        .and_then(|()| make_working_directory_root())
        .context("can't make the overlay the root directory of the virtual machine")?;
    for (index, directory) in task.shared_directories.iter().enumerate() {
        mount_shared(&share_mount_tag(index), Path::new(directory))?;
    }
    sethostname(&task.host_name).context("can't set the virtual machine's host name")?;
    let randomize = if task.randomize_addresses { "2" } else { "0" };
    fs::write("/proc/sys/kernel/randomize_va_space", randomize).context("can't set address randomization (/proc/sys/kernel/randomize_va_space) in the virtual machine")
}

/// Sets the guest's clock to a time since 1970.
pub(super) fn set_clock(time: Duration) -> Result<()> {
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from(time))
        .context("can't set the virtual machine's clock")
}

/// Mounts a directory of the host that the command may change, in the place of the same directory in the overlay.
fn mount_shared(tag: &str, directory: &Path) -> Result<()> {
    mount(
        Some(tag),
        directory,
        Some("9p"),
        MsFlags::empty(),
        Some(SHARED_MOUNT_OPTIONS),
    )
    .with_context(|| format!("can't mount {} (9p)", directory.display()))
}

/// Makes the working directory, which is a mount point, the root directory.
fn make_working_directory_root() -> nix::Result<()> {
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)?;
    chroot(".")?;
    chdir("/")
}

/// Mounts a file system, and makes its mount point if there is none.
fn mount_at(kind: &str, source: &str, target: &str, flags: MsFlags, options: &str) -> Result<()> {
    fs::create_dir_all(target).with_context(|| format!("can't make the directory {target}"))?;
    mount(Some(source), target, Some(kind), flags, Some(options))
        .with_context(|| format!("can't mount {target} ({kind})"))
}

/// Moves a mounted file system to another mount point.
fn move_mount(from: &str, to: &str) -> Result<()> {
    // The host may have no such directory.
    fs::create_dir_all(to).with_context(|| format!("can't make the directory {to}"))?;
    mount(Some(from), to, None::<&str>, MsFlags::MS_MOVE, None::<&str>)
        .with_context(|| format!("can't move the mount {from} to {to}"))
}

/// Enables the loopback device.
fn enable_loopback() -> Result<()> {
    let control_socket = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: `zeroed` requires a type for which zero bytes are a valid value. `ifreq` consists of integers, raw
    // pointers and unions of them.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::try_from(*from)?;
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING)?;
    // SAFETY: SIOCSIFFLAGS reads an `ifreq` from the pointer, which is that of the live local `request`.
    unsafe { set_flags(control_socket.as_raw_fd(), &raw const request) }?;
    Ok(())
}

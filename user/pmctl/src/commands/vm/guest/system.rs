// SPDX-License-Identifier: MIT OR Apache-2.0
//! The guest's file systems, its name, and its loopback device.

use std::fs;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_settime};
use nix::unistd::{chdir, chroot, sethostname};

use super::super::qemu::{HOST_FILES, shared_tag};
use super::super::task::{GuestTask, TOOLS_DIRECTORY};

nix::ioctl_write_ptr_bad!(set_flags, libc::SIOCSIFFLAGS, libc::ifreq);

/// Type, place and options of a file system.
type FileSystem = (&'static str, &'static str, &'static str);

const OWN_FILE_SYSTEMS: [FileSystem; 6] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("debugfs", "/sys/kernel/debug", ""),
    ("devtmpfs", "/dev", ""),
    ("devpts", "/dev/pts", "ptmxmode=0666"),
    ("tmpfs", "/dev/shm", "mode=1777"),
];

/// Links that programs expect beside the kernel's devices.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// The host's files, read-only; what is changed, in memory; both as one.
const HOST_FILES_MOUNT: &str = "/lower";
const CHANGES_MOUNT: &str = "/changes";
const OVERLAY_MOUNT: &str = "/both";

/// Messages of 9p are as long as this many bytes. Their answers are kept as if nothing else changed the host's files.
const MOUNT_OPTIONS: &str = "trans=virtio,version=9p2000.L,msize=512000,cache=loose,access=any";
/// For directories that both sides change: nothing is kept, so that a write is on the host when it returns, or fails as it
/// does there. It costs shared mappings that can be written.
const SHARED_MOUNT_OPTIONS: &str =
    "trans=virtio,version=9p2000.L,msize=512000,cache=none,access=any";
const OVERLAY_OPTIONS: &str =
    "lowerdir=/lower,upperdir=/changes/upper,workdir=/changes/work,redirect_dir=on";

/// What the kernel's generations of pages are set to (Documentation/admin-guide/mm/multigen_lru.rst): they are used, and
/// processes are killed when pages that were used within the last second would have to go. Else a command that needs more
/// memory than there is reads its own program again and again, and never ends.
const PAGE_GENERATIONS: [(&str, &str); 2] = [("enabled", "y"), ("min_ttl_ms", "1000")];

/// Mounts what every system has.
pub(super) fn set_up() -> Result<()> {
    for (kind, place, options) in OWN_FILE_SYSTEMS {
        mount_at(kind, kind, place, MsFlags::empty(), options)?;
    }
    for (target, place) in DEVICE_LINKS {
        symlink(target, place).with_context(|| format!("can't make {place}"))?;
    }
    fs::create_dir(TOOLS_DIRECTORY)
        .and_then(|()| fs::copy("/init", Path::new(TOOLS_DIRECTORY).join("pmctl")))?;
    let page_generations = Path::new("/sys/kernel/mm/lru_gen");
    // A kernel may be without.
    if page_generations.exists() {
        for (name, value) in PAGE_GENERATIONS {
            fs::write(page_generations.join(name), value)
                .with_context(|| format!("can't set {name} of {}", page_generations.display()))?;
        }
    }
    raise_loopback().context("can't set the loopback device up")
}

/// Makes the host's files those of the guest.
pub(super) fn mount_host_files(task: &GuestTask) -> Result<()> {
    mount_at(
        "9p",
        HOST_FILES,
        HOST_FILES_MOUNT,
        MsFlags::MS_RDONLY,
        MOUNT_OPTIONS,
    )?;
    mount_at("tmpfs", "tmpfs", CHANGES_MOUNT, MsFlags::empty(), "")?;
    for name in ["upper", "work"] {
        fs::create_dir(Path::new(CHANGES_MOUNT).join(name))
            .context("can't prepare changes of files")?;
    }
    mount_at(
        "overlay",
        "overlay",
        OVERLAY_MOUNT,
        MsFlags::empty(),
        OVERLAY_OPTIONS,
    )?;
    for place in ["/proc", "/sys", "/dev"] {
        move_mount(place, &format!("{OVERLAY_MOUNT}{place}"))?;
    }
    chdir(OVERLAY_MOUNT)
        .and_then(|()| make_root())
        .context("can't change the root")?;
    for (index, directory) in task.shared.iter().enumerate() {
        mount_shared(&shared_tag(index), Path::new(directory))?;
    }
    sethostname(&task.host_name).context("can't set the host's name")?;
    let randomize = if task.randomize { "2" } else { "0" };
    fs::write("/proc/sys/kernel/randomize_va_space", randomize).context("can't set address randomization (/proc/sys/kernel/randomize_va_space) in the virtual machine")
}

/// Sets the clock, to a time since 1970.
pub(super) fn set_clock(time: Duration) -> Result<()> {
    clock_settime(ClockId::CLOCK_REALTIME, TimeSpec::from(time)).context("can't set the clock")
}

/// Makes a directory of the host's the same one in the guest, in place of the one with changes of its own.
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

/// Makes the working directory, which is a mount, the root.
fn make_root() -> nix::Result<()> {
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)?;
    chroot(".")?;
    chdir("/")
}

fn mount_at(kind: &str, source: &str, place: &str, flags: MsFlags, options: &str) -> Result<()> {
    fs::create_dir_all(place).with_context(|| format!("can't make {place}"))?;
    mount(Some(source), place, Some(kind), flags, Some(options))
        .with_context(|| format!("can't mount {place} ({kind})"))
}

fn move_mount(from: &str, to: &str) -> Result<()> {
    // A root without it is odd, but possible.
    fs::create_dir_all(to).with_context(|| format!("can't make {to}"))?;
    mount(Some(from), to, None::<&str>, MsFlags::MS_MOVE, None::<&str>)
        .with_context(|| format!("can't move {from}"))
}

fn raise_loopback() -> Result<()> {
    let any = socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: A structure of numbers and unions of numbers and pointers, for which zeros are values.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::try_from(*from)?;
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING)?;
    // SAFETY: The socket is open, and the structure has the name and the flags that the call reads.
    unsafe { set_flags(any.as_raw_fd(), &raw const request) }?;
    Ok(())
}

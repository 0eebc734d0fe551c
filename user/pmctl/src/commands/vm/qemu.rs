// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's command line and process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;

use super::image::Image;
use super::monitor::Monitor;
use super::shared::SharedFolders;
use crate::args::{Vm, VmCpu};
use crate::system::signals::BlockedSignals;

/// Name of the serial port for the messages between host and guest.
pub(super) const PORT_NAME: &str = "pmctl";
/// Mount tag of the host's files.
pub(super) const HOST_FILES_TAG: &str = "host";

/// Name of the file with the machine's memory, in the directory of a snapshot.
pub(super) const MEMORY_FILE: &str = "memory";

/// Returns the mount tag of a directory of the host that the command may change.
pub(super) fn share_mount_tag(index: usize) -> String {
    format!("shared{index}")
}

/// The kernel's command line: few messages, no built-in tests, no calibration of clocks, no mitigations of CPU
/// vulnerabilities, no clearing of memory at its allocation, and after a panic a restart, which ends QEMU.
pub(super) const KERNEL_COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 oops=panic nmi_watchdog=0 no_timer_check tsc=reliable random.trust_cpu=on \
                      kunit.enable=0 mitigations=off init_on_alloc=0 rdinit=/init -- vm-guest";

/// The type of the machine, without unused devices that the kernel would wait for.
pub(super) const MACHINE_OPTIONS: &str = "q35,sata=off,smbus=off,vmport=off,i8042=off";

/// Options of the guest's clock: it starts at a fixed time, and runs by the virtual time of the machine.
const RTC_OPTIONS: &str = "base=2037-01-01T00:00:00,clock=vm";

/// Number of lines of QEMU's messages and the kernel's log that are shown when the machine fails.
const LAST_LINES: usize = 30;

/// Configuration of a machine.
#[derive(Clone, Copy)]
pub(super) struct VirtualMachine<'a> {
    pub(super) image: &'a Image,
    pub(super) args: &'a Vm,
    pub(super) shared: &'a SharedFolders,
}

/// The place of the machine's memory.
pub(super) enum Memory<'a> {
    /// In QEMU's own memory. The machine boots.
    New,
    /// In a file in this directory. The machine boots, and can be saved.
    Shared(&'a Path),
    /// Mapped privately from the file in this directory. The machine waits until the rest of its state is restored.
    Saved(&'a Path),
}

/// A running QEMU, which is killed when this is dropped.
pub(super) struct Qemu {
    process: Child,
    monitor: Option<UnixStream>,
    /// The kernel's log.
    log: File,
    /// QEMU's standard error.
    errors: File,
}

impl Qemu {
    /// Starts the machine, and returns it with a socket that is connected to its serial port.
    pub(super) fn start(
        machine: &VirtualMachine<'_>,
        memory: &Memory<'_>,
    ) -> Result<(Self, UnixStream)> {
        let qemu = &machine.image.qemu;
        let (socket, qemu_socket) = inherited_socket()?;
        let (monitor, qemu_monitor) = inherited_socket()?;
        let descriptors = [qemu_socket.as_raw_fd(), qemu_monitor.as_raw_fd()];
        let (log, errors) = (memory_file("log")?, memory_file("errors")?);
        let mut command = Command::new(qemu);
        command
            .args(qemu_arguments(machine, memory, descriptors))
            .stdin(Stdio::null())
            .stdout(
                log.try_clone()
                    .context("can't duplicate QEMU's output file")?,
            )
            .stderr(
                errors
                    .try_clone()
                    .context("can't duplicate QEMU's error file")?,
            )
            // Ctrl-C on the caller's terminal must not end QEMU: the signal is for the command.
            .process_group(0);
        let file_limits = getrlimit(Resource::RLIMIT_NOFILE);
        // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only
        // async-signal-safe code may run. This closure makes two system calls, prctl(2) and
        // setrlimit(2), with values that it has copied. The closure allocates no memory and takes
        // no locks.
        unsafe {
            command.pre_exec(move || {
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                // If the limit is lower than the number of files that the command has open, QEMU closes some and opens them
                // again by name. By then the name may belong to another file.
                if let Ok((_, hard)) = file_limits {
                    let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
                }
                Ok(())
            });
        }
        let result = command.spawn();
        let process = result.with_context(|| format!("can't run {}", qemu.display()))?;
        Ok((
            Self {
                process,
                monitor: Some(monitor),
                log,
                errors,
            },
            socket,
        ))
    }

    /// Returns the process ID.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Connects to the monitor. This works only once.
    pub(super) fn monitor<'a>(&mut self, signals: &'a BlockedSignals) -> Result<Monitor<'a>> {
        let socket = self
            .monitor
            .take()
            .context("QEMU's monitor was connected before")?;
        Monitor::new(socket, signals)
    }

    /// Returns the last lines that QEMU and the kernel have written, for a machine that ended by itself.
    pub(super) fn failure_log(&mut self) -> String {
        // Kills QEMU first, so that its output is complete.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let errors = read_all(&mut self.errors);
        // CPU models have features that TCG does not support, and that are not needed here.
        let errors = errors
            .lines()
            .filter(|line| !line.contains("TCG doesn't support requested feature"));
        let log = read_all(&mut self.log);
        let mut lines: Vec<&str> = errors.chain(log.lines()).collect();
        lines.drain(..lines.len().saturating_sub(LAST_LINES));
        lines.join("\n")
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // QEMU has nothing to save: all changes are in the machine's memory.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns QEMU's arguments for a machine, with the descriptors of its port and its monitor.
fn qemu_arguments(
    machine: &VirtualMachine<'_>,
    memory: &Memory<'_>,
    [port, monitor]: [RawFd; 2],
) -> Vec<OsString> {
    let VirtualMachine {
        image,
        args,
        shared,
    } = machine;
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |option: &str, value: OsString| words.extend([option.into(), value]);
    let text_options = [
        ("-accel", "tcg".to_owned()),
        ("-cpu", qemu_cpu_name(args.cpu).to_owned()),
        ("-smp", args.cpus.to_string()),
        ("-m", args.memory.to_string()),
        ("-display", "none".to_owned()),
        ("-append", KERNEL_COMMAND_LINE.to_owned()),
        ("-rtc", RTC_OPTIONS.to_owned()),
        ("-seed", "1".to_owned()),
        ("-chardev", "stdio,id=log,signal=off".to_owned()),
        ("-serial", "chardev:log".to_owned()),
        ("-chardev", format!("socket,id={PORT_NAME},fd={port}")),
        ("-device", "virtio-serial-pci".to_owned()),
        (
            "-device",
            format!("virtserialport,chardev={PORT_NAME},name={PORT_NAME}"),
        ),
        ("-chardev", format!("socket,id=monitor,fd={monitor}")),
        ("-mon", "chardev=monitor,mode=control".to_owned()),
        // The machine is stopped while it is saved. Without this option, a restored machine would be stopped, too.
        ("-global", "migration.store-global-state=off".to_owned()),
    ];
    for (option, value) in text_options {
        add(option, value.into());
    }
    let mut files = vec![file_options(HOST_FILES_TAG, ",readonly=on", Path::new("/"))];
    for (index, directory) in shared.directories().iter().enumerate() {
        files.push(file_options(&share_mount_tag(index), "", directory));
    }
    for (option, value) in files.into_iter().flatten() {
        add(option, value);
    }
    add("-L", image.firmware.clone().into());
    add("-kernel", image.kernel.clone().into());
    add("-initrd", image.initrd.clone().into());
    for (option, value) in memory_options(memory, &args.memory.to_string()) {
        add(option, value);
    }
    if args.exact {
        add("-icount", "shift=0,sleep=off".into());
    }
    words.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    words
}

/// Returns the options for a directory of the host that the guest mounts by this tag.
fn file_options(tag: &str, options: &str, path: &Path) -> [(&'static str, OsString); 2] {
    let mut files = OsString::from(format!(
        "local,id={tag},security_model=none,multidevs=remap{options},path="
    ));
    files.push(escape_commas(path));
    let device = format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}");
    [("-fsdev", files), ("-device", device.into())]
}

/// Returns the options for the machine and its memory of this size in MiB.
fn memory_options(memory: &Memory<'_>, size: &str) -> Vec<(&'static str, OsString)> {
    let (directory, share) = match memory {
        Memory::New => return vec![("-machine", MACHINE_OPTIONS.into())],
        Memory::Shared(directory) => (directory, "on"),
        Memory::Saved(directory) => (directory, "off"),
    };
    let mut file = OsString::from(format!(
        "memory-backend-file,id=ram,size={size}M,share={share},mem-path="
    ));
    file.push(escape_commas(&directory.join(MEMORY_FILE)));
    let mut options = vec![
        ("-object", file),
        (
            "-machine",
            format!("{MACHINE_OPTIONS},memory-backend=ram").into(),
        ),
    ];
    if matches!(memory, Memory::Saved(_)) {
        options.push(("-incoming", "defer".into()));
    }
    options
}

/// Escapes a path for use in an option: a comma is written twice.
fn escape_commas(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    let doubled_commas = bytes
        .iter()
        .flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 }));
    OsString::from_vec(doubled_commas.collect())
}

/// Makes a pair of connected sockets, the second of which is inherited by QEMU.
fn inherited_socket() -> Result<(UnixStream, OwnedFd)> {
    let (own, inherited) = UnixStream::pair().context("can't make a socket for QEMU")?;
    let inherited = OwnedFd::from(inherited);
    fcntl(&inherited, FcntlArg::F_SETFD(FdFlag::empty()))
        .context("can't make a socket inheritable by QEMU")?;
    Ok((own, inherited))
}

/// Returns QEMU's name of a CPU model with its options. PEBS format 14, which merges the samples of an instruction,
/// exists only in this QEMU.
pub(super) fn qemu_cpu_name(cpu: VmCpu) -> &'static str {
    match cpu {
        VmCpu::Intel => "Skylake-Client,pmu=on,pmu-pebs=14,tcg-pcid=on",
        VmCpu::Amd => "EPYC-Genoa,pmu=on,tcg-pcid=on",
    }
}

/// Makes an empty file in memory.
fn memory_file(name: &str) -> Result<File> {
    let file = memfd_create(name, MFdFlags::MFD_CLOEXEC).context("can't make a file in memory")?;
    Ok(file.into())
}

/// Returns the content of a file, as far as it can be read.
fn read_all(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let result: io::Result<()> = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_end(&mut bytes))
        .map(drop);
    drop(result);
    String::from_utf8_lossy(&bytes).into_owned()
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's command line, and its process.

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
use nix::sys::signal::Signal;

use super::image::Image;
use super::monitor::Monitor;
use super::shared::SharedFolders;
use crate::args::{Vm, VmCpu};
use crate::system::files::allow_many_files;

/// Name of the serial port that the messages go through.
pub(super) const PORT: &str = "pmctl";
/// Tag of the host's files.
pub(super) const HOST_FILES: &str = "host";

/// Name of the file with the machine's memory in the directory of a snapshot.
pub(super) const MEMORY: &str = "memory";

/// Returns the tag of a directory of the host that the command may change.
pub(super) fn shared_tag(index: usize) -> String {
    format!("shared{index}")
}

/// The kernel's command line: few messages, none of the tests that are built in, no calibration of clocks, and a
/// restart, which ends QEMU, after a panic.
const KERNEL_COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 oops=panic nmi_watchdog=0 no_timer_check tsc=reliable random.trust_cpu=on \
                      kunit.enable=0 rdinit=/init -- vm-guest";

/// The guest's clock is not that of the host, nor is its speed with `-icount`.
const RTC_OPTIONS: &str = "base=2037-01-01T00:00:00,clock=vm";

/// Lines of the kernel's log that are shown when the machine fails.
const LAST_LINES: usize = 30;

/// A machine that can be started.
#[derive(Clone, Copy)]
pub(super) struct VirtualMachine<'a> {
    pub(super) image: &'a Image,
    pub(super) args: &'a Vm,
    pub(super) shared: &'a SharedFolders,
}

/// The place of the machine's memory.
pub(super) enum Memory<'a> {
    /// In QEMU. The machine boots.
    New,
    /// In a file of this directory. The machine boots, and can be saved.
    Shared(&'a Path),
    /// Mapped from that file, which stays as it is. The machine waits for the rest of its state.
    Saved(&'a Path),
}

/// A running QEMU; it is killed when this is dropped.
pub(super) struct Qemu {
    process: Child,
    monitor: Option<UnixStream>,
    /// The kernel's log.
    log: File,
    /// QEMU's standard error.
    complaints: File,
}

impl Qemu {
    /// Starts the machine. Its serial port is the other end of the socket that is returned.
    pub(super) fn start(
        machine: &VirtualMachine<'_>,
        memory: &Memory<'_>,
    ) -> Result<(Self, UnixStream)> {
        let qemu = &machine.image.qemu;
        let (own, guests) = inherited_socket()?;
        let (monitor, its_monitor) = inherited_socket()?;
        let descriptors = [guests.as_raw_fd(), its_monitor.as_raw_fd()];
        let (log, complaints) = (memory_file("log")?, memory_file("complaints")?);
        let mut command = Command::new(qemu);
        command
            .args(arguments(machine, memory, descriptors))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("can't pass a file on")?)
            .stderr(complaints.try_clone().context("can't pass a file on")?)
            // A key that means a signal is for the command.
            .process_group(0);
        // SAFETY: The closure only makes system calls, which a forked process may.
        unsafe {
            command.pre_exec(|| {
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                // With fewer than the command has open, QEMU closes files and opens them again by name: by then another
                // file may have that name.
                allow_many_files();
                Ok(())
            });
        }
        let started = command.spawn();
        let process = started.with_context(|| format!("can't run {}", qemu.display()))?;
        Ok((
            Self {
                process,
                monitor: Some(monitor),
                log,
                complaints,
            },
            own,
        ))
    }

    /// Connects to the monitor, once.
    pub(super) fn monitor(&mut self) -> Result<Monitor> {
        let socket = self.monitor.take().context("the monitor is taken")?;
        Monitor::new(socket)
    }

    /// Returns what is known about a machine that ended by itself: the last lines that QEMU and the kernel have written.
    pub(super) fn failure_log(&mut self) -> String {
        // Kills QEMU first, so that its output is complete.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let complaints = read_all(&mut self.complaints);
        // Models have features that TCG has not; nothing here depends on them.
        let complaints = complaints
            .lines()
            .filter(|line| !line.contains("TCG doesn't support requested feature"));
        let log = read_all(&mut self.log);
        let mut lines: Vec<&str> = complaints.chain(log.lines()).collect();
        lines.drain(..lines.len().saturating_sub(LAST_LINES));
        lines.join("\n")
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // It has nothing to save: what it changed is in its memory.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the arguments of a machine, with the descriptors of its port and of its monitor.
fn arguments(
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
    let text = [
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
        ("-chardev", format!("socket,id={PORT},fd={port}")),
        ("-device", "virtio-serial-pci".to_owned()),
        (
            "-device",
            format!("virtserialport,chardev={PORT},name={PORT}"),
        ),
        ("-chardev", format!("socket,id=monitor,fd={monitor}")),
        ("-mon", "chardev=monitor,mode=control".to_owned()),
        // A machine that was stopped to be saved runs as soon as it is restored.
        ("-global", "migration.store-global-state=off".to_owned()),
    ];
    for (option, value) in text {
        add(option, value.into());
    }
    let mut add_files = |tag: &str, options: &str, path: &Path| {
        let mut files = OsString::from(format!(
            "local,id={tag},security_model=none,multidevs=remap{options},path="
        ));
        files.push(doubled_commas(path));
        add("-fsdev", files);
        add(
            "-device",
            format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}").into(),
        );
    };
    add_files(HOST_FILES, ",readonly=on", Path::new("/"));
    for (index, directory) in shared.directories().iter().enumerate() {
        add_files(&shared_tag(index), "", directory);
    }
    add("-L", image.firmware.clone().into());
    add("-kernel", image.kernel.clone().into());
    add("-initrd", image.initrd.clone().into());
    // Devices that would be waited for, and are not used.
    let machine = "q35,sata=off,smbus=off,vmport=off";
    match memory {
        Memory::New => add("-machine", machine.into()),
        Memory::Shared(directory) | Memory::Saved(directory) => {
            let share = if matches!(memory, Memory::Shared(_)) {
                "on"
            } else {
                "off"
            };
            let mut file = OsString::from(format!(
                "memory-backend-file,id=ram,size={}M,share={share},mem-path=",
                args.memory
            ));
            file.push(doubled_commas(&directory.join(MEMORY)));
            add("-object", file);
            add("-machine", format!("{machine},memory-backend=ram").into());
        }
    }
    if matches!(memory, Memory::Saved(_)) {
        add("-incoming", "defer".into());
    }
    if args.exact {
        add("-icount", "shift=0,sleep=off".into());
    }
    words.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(OsString::from));
    words
}

/// Returns a path as a part of an option: a comma is written twice.
fn doubled_commas(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    let doubled = bytes
        .iter()
        .flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b',' { 2 } else { 1 }));
    OsString::from_vec(doubled.collect())
}

/// Returns two ends of a socket, of which the second is inherited.
fn inherited_socket() -> Result<(UnixStream, OwnedFd)> {
    let (own, its) = UnixStream::pair().context("can't make a socket")?;
    let its = OwnedFd::from(its);
    fcntl(&its, FcntlArg::F_SETFD(FdFlag::empty())).context("can't pass a socket on")?;
    Ok((own, its))
}

/// Returns QEMU's name of a CPU.
fn qemu_cpu_name(cpu: VmCpu) -> &'static str {
    match cpu {
        VmCpu::Intel => "Skylake-Client,pmu=on,tcg-pcid=on",
        VmCpu::Amd => "EPYC-Genoa,pmu=on,tcg-pcid=on",
    }
}

/// Returns an empty file in memory.
fn memory_file(name: &str) -> Result<File> {
    let file = memfd_create(name, MFdFlags::MFD_CLOEXEC).context("can't make a file in memory")?;
    Ok(file.into())
}

fn read_all(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read: io::Result<()> = file
        .seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_end(&mut bytes))
        .map(drop);
    drop(read);
    String::from_utf8_lossy(&bytes).into_owned()
}

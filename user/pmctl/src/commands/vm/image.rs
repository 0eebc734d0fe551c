// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that the virtual machine is made of.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// The virtual machine's parts, below one directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// QEMU with a PMU.
    pub(super) qemu: PathBuf,
    /// Its firmware.
    pub(super) firmware: PathBuf,
    pub(super) kernel: PathBuf,
    /// Initial RAM disk: pmctl and the module.
    pub(super) initrd: PathBuf,
}

/// Where packages put it.
const INSTALLED_IMAGE: &str = "/usr/lib/perfmon-vm";

impl Image {
    /// Finds the virtual machine: in `chosen` or `PERFMON_VM`, beside pmctl, or where packages put it.
    pub(super) fn find(chosen: Option<&Path>) -> Result<Self> {
        let variable = env::var_os("PERFMON_VM")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        if let Some(directory) = chosen.map(Path::to_owned).or(variable) {
            let image = Self::of(&directory);
            if let Some(missing) = image.missing() {
                bail!(
                    "{} is no virtual machine: there is no {}.",
                    directory.display(),
                    missing.display()
                );
            }
            return Ok(image);
        }
        let beside = env::current_exe().ok();
        let beside = beside.as_deref().and_then(Path::parent);
        let beside = beside
            .into_iter()
            .flat_map(|bin| [bin.to_owned(), bin.join("../lib/perfmon-vm")]);
        let mut places = beside
            .into_iter()
            .chain([PathBuf::from(INSTALLED_IMAGE)])
            .map(|place| Self::of(&place));
        match places.find(|image| image.missing().is_none()) {
            Some(image) => Ok(image),
            None => bail!(
                "there is no virtual machine in {INSTALLED_IMAGE}.\nInstall the package perfmon-vm, or run `make vm-image` in \
                 perfmon's sources: the directory that it prints has the machine and a pmctl that finds it. Another pmctl is \
                 told by `--image DIR`, or PERFMON_VM=DIR."
            ),
        }
    }

    fn of(directory: &Path) -> Self {
        let path = |name| directory.join(name);
        Self {
            qemu: path("qemu-system-x86_64"),
            firmware: path("share"),
            kernel: path("vmlinux"),
            initrd: path("initrd"),
        }
    }

    /// Returns a part that does not exist.
    fn missing(&self) -> Option<&Path> {
        let parts = [&self.qemu, &self.firmware, &self.kernel, &self.initrd];
        parts
            .into_iter()
            .find(|part| !part.exists())
            .map(PathBuf::as_path)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the files of the virtual machine: QEMU, kernel and initial RAM disk.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// Paths of the virtual machine's files, which are in one directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image {
    /// QEMU, with an emulated PMU.
    pub(super) qemu: PathBuf,
    /// Directory of QEMU's firmware.
    pub(super) firmware: PathBuf,
    pub(super) kernel: PathBuf,
    /// Initial RAM disk with pmctl and the module.
    pub(super) initrd: PathBuf,
}

/// Directory into which packages install the virtual machine.
const INSTALLED_IMAGE: &str = "/usr/lib/perfmon-vm";

impl Image {
    /// Finds the virtual machine: in the directory `chosen`, in the directory of the variable `PERFMON_VM`, beside pmctl, or
    /// in [`INSTALLED_IMAGE`].
    pub(super) fn find(chosen: Option<&Path>) -> Result<Self> {
        let variable = env::var_os("PERFMON_VM")
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        if let Some(directory) = chosen.map(Path::to_owned).or(variable) {
            let image = Self::in_directory(&directory);
            if let Some(missing) = image.missing_file() {
                bail!(
                    "{} has no virtual machine: the file {} is missing.",
                    directory.display(),
                    missing.display()
                );
            }
            return Ok(image);
        }
        let program = env::current_exe().ok();
        let program_directory = program.as_deref().and_then(Path::parent);
        let directories = program_directory
            .into_iter()
            .flat_map(|bin| [bin.to_owned(), bin.join("../lib/perfmon-vm")]);
        let mut images = directories
            .chain([PathBuf::from(INSTALLED_IMAGE)])
            .map(|directory| Self::in_directory(&directory));
        match images.find(|image| image.missing_file().is_none()) {
            Some(image) => Ok(image),
            None => bail!(
                "there is no virtual machine in {INSTALLED_IMAGE}.\nInstall the package perfmon-vm, or run `make vm-image` in \
                 perfmon's sources, and use the pmctl in the directory that it prints. For this pmctl, name that directory \
                 with `--image DIR` or PERFMON_VM=DIR."
            ),
        }
    }

    /// Returns the paths of the files in a directory.
    fn in_directory(directory: &Path) -> Self {
        let path = |name| directory.join(name);
        Self {
            qemu: path("qemu-system-x86_64"),
            firmware: path("share"),
            kernel: path("vmlinux"),
            initrd: path("initrd"),
        }
    }

    /// Returns the path of a file that does not exist, if there is one.
    fn missing_file(&self) -> Option<&Path> {
        let files = [&self.qemu, &self.firmware, &self.kernel, &self.initrd];
        files
            .into_iter()
            .find(|file| !file.exists())
            .map(PathBuf::as_path)
    }
}

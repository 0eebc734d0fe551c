// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads model-specific registers through the kernel's own device, to see what the hardware holds.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

/// The registers of one CPU.
pub(crate) struct Msrs {
    file: File,
    cpu: usize,
}

impl Msrs {
    /// Opens the registers of a CPU.
    pub(crate) fn open(cpu: usize) -> Result<Self> {
        let path = format!("/dev/cpu/{cpu}/msr");
        let file = File::open(&path).with_context(|| {
            format!(
                "can't open {path}: run as root, and load the kernel's module `msr` (`modprobe msr`)"
            )
        })?;
        Ok(Self { file, cpu })
    }

    /// Reads the register with this number.
    pub(crate) fn read(&self, number: u32) -> Result<u64> {
        let mut bytes = [0; 8];
        // In the device, the offset is the number of the register.
        self.file
            .read_exact_at(&mut bytes, number.into())
            .with_context(|| format!("can't read register {number:#x} of CPU {}", self.cpu))?;
        Ok(u64::from_ne_bytes(bytes))
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine and the command of a recording.

/// Machine and command of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// The kernel's release.
    pub(crate) release: String,
    pub(crate) architecture: String,
    pub(crate) cpus_possible: u32,
    pub(crate) cpus_online: u32,
    /// The name that the vendor gives to the processor.
    pub(crate) processor: String,
    /// The processor's vendor, family, model and stepping, as perf writes them: `GenuineIntel,6,94,3`.
    pub(crate) cpuid: String,
    /// Memory of the machine, in KiB.
    pub(crate) memory: u64,
    /// The command line of the program that recorded.
    pub(crate) command_line: Vec<String>,
}

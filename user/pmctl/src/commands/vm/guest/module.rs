// SPDX-License-Identifier: MIT OR Apache-2.0
//! The module in the guest: loaded, and open to everyone.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use nix::kmod::{ModuleInitFlags, finit_module};

/// The module in the initial RAM disk.
const MODULE: &str = "/perfmon.ko";
/// Overflow interrupts may take any time: how long one takes here depends on the host.
const PARAMETERS: &std::ffi::CStr = c"perf_event_max_sample_rate=0 perf_cpu_time_max_percent=0";

/// All users may count everything, since the machine is the caller's own. NMIs may take any time: Linux's warning about
/// an NMI of a millisecond takes some 100,000 instructions within the NMI, which would lose samples.
const KERNEL_SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/kernel/perf_event_paranoid", "-1"),
    ("/proc/sys/kernel/kptr_restrict", "0"),
    ("/sys/kernel/debug/x86/nmi_longest_ns", "1000000000"),
];

/// Loads the module.
pub(super) fn load() -> Result<()> {
    let file = File::open(MODULE).context("the virtual machine's image has no perfmon.ko")?;
    finit_module(&file, PARAMETERS, ModuleInitFlags::empty())
        .context("can't load perfmon.ko in the virtual machine")?;
    for (name, value) in KERNEL_SETTINGS {
        fs::write(name, value).with_context(|| format!("can't set {name}"))?;
    }
    fs::set_permissions(perfmon::PATH, Permissions::from_mode(0o666)).context(
        "the module is loaded in the virtual machine, but /dev/perfmon can't be opened to all",
    )
}

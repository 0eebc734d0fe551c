// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the module in the guest, with access for all users.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use nix::kmod::{ModuleInitFlags, finit_module};

/// Path of the module in the initial RAM disk.
const MODULE: &str = "/perfmon.ko";
/// Parameters without limits for overflow interrupts, whose duration depends on the host.
const PARAMETERS: &std::ffi::CStr = c"perf_event_max_sample_rate=0 perf_cpu_time_max_percent=0";

/// Settings of the kernel. All users may count everything, since the machine belongs to the caller. Linux does not warn
/// about NMIs up to a second: the warning takes some 100,000 instructions within the NMI, in which samples would be lost.
const KERNEL_SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/kernel/perf_event_paranoid", "-1"),
    ("/proc/sys/kernel/kptr_restrict", "0"),
    ("/sys/kernel/debug/x86/nmi_longest_ns", "1000000000"),
];

/// Loads the module, and applies the settings.
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

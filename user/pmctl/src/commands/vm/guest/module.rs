// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads perfmon's module in the guest, with access for all users, and the drivers that the guest's kernel has not built in.

use std::ffi::CStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use nix::kmod::{ModuleInitFlags, finit_module};

/// Path of perfmon's module in the initial RAM disk.
const MODULE: &str = "/perfmon.ko";
/// Paths of the drivers for the host's files, each after the drivers that it needs. Debian's kernel has them as modules; for
/// a kernel that has them built in, there are no such files.
const DRIVERS: [&str; 5] = [
    "/netfs.ko",
    "/9pnet.ko",
    "/9pnet_virtio.ko",
    "/9p.ko",
    "/overlay.ko",
];
/// The module's parameters: they remove the limits for overflow interrupts, whose duration depends on the host.
const PARAMETERS: &CStr = c"perf_event_max_sample_rate=0 perf_cpu_time_max_percent=0";

/// Settings of the kernel. All users may count everything, since the machine belongs to the caller. Linux does not warn
/// about NMIs up to a second: the warning takes some 100,000 instructions within the NMI, in which samples would be lost.
const KERNEL_SETTINGS: [(&str, &str); 3] = [
    ("/proc/sys/kernel/perf_event_paranoid", "-1"),
    ("/proc/sys/kernel/kptr_restrict", "0"),
    ("/sys/kernel/debug/x86/nmi_longest_ns", "1000000000"),
];

/// Loads the drivers and the module, and applies the settings.
pub(super) fn load() -> Result<()> {
    for driver in DRIVERS.map(Path::new) {
        if driver.exists() {
            load_file(driver, c"")?;
        }
    }
    load_file(Path::new(MODULE), PARAMETERS)?;
    for (name, value) in KERNEL_SETTINGS {
        fs::write(name, value).with_context(|| format!("can't set {name}"))?;
    }
    fs::set_permissions(perfmon::PATH, Permissions::from_mode(0o666)).context(
        "the module is loaded in the virtual machine, but /dev/perfmon can't be opened to all",
    )
}

/// Loads the module in a file of the initial RAM disk, with these parameters.
fn load_file(path: &Path, parameters: &CStr) -> Result<()> {
    let file = File::open(path)
        .with_context(|| format!("the virtual machine's image has no {}", path.display()))?;
    finit_module(&file, parameters, ModuleInitFlags::empty())
        .with_context(|| format!("can't load {} in the virtual machine", path.display()))
}

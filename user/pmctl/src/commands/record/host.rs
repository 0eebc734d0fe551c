// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the machine in a recording.

use std::{env, fs};

use anyhow::{Context, Result};
use nix::sys::sysinfo::sysinfo;
use nix::sys::utsname::uname;
use perfmon_compare::document;
use raw_cpuid::{CpuId, CpuIdReaderNative};

use crate::recording::perfdata::Host;

/// Returns the description of the machine for a recording. `online` is the number of online CPUs.
pub(super) fn describe_host(online: usize) -> Result<Host> {
    let names = uname().context("can't read the kernel's release (uname)")?;
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").ok();
    let possible = possible.and_then(|list| crate::system::machine::parse_cpus(list.trim()));
    let online = u32::try_from(online)?;
    let cpuid = CpuId::new();
    Ok(Host {
        name: text(names.nodename()),
        release: text(names.release()),
        architecture: text(names.machine()),
        cpus_possible: possible.map_or(Ok(online), |cpus| u32::try_from(cpus.len()))?,
        cpus_online: online,
        processor: document::brand(&cpuid),
        cpuid: vendor_and_model(&cpuid),
        memory: sysinfo()
            .context("can't read the size of memory (sysinfo)")?
            .ram_total()
            / 1024,
        command_line: env::args_os().map(|word| text(&word)).collect(),
    })
}

/// Returns the processor's vendor, family, model and stepping.
fn vendor_and_model(cpuid: &CpuId<CpuIdReaderNative>) -> String {
    let vendor = cpuid.get_vendor_info();
    let (family, model, stepping) = cpuid.get_feature_info().map_or((0, 0, 0), |info| {
        (info.family_id(), info.model_id(), info.stepping_id())
    });
    let vendor = vendor.as_ref().map_or("unknown", |vendor| vendor.as_str());
    format!("{vendor},{family},{model},{stepping}")
}

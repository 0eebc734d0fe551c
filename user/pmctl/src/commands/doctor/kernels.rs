// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the installed kernels, and those of them that have the module.

use std::fs;

use crate::system::machine::Machine;

/// Returns the release of the running kernel, as `uname -r` prints it.
pub(super) fn running_release(machine: &Machine) -> Option<String> {
    machine.text("/proc/sys/kernel/osrelease").ok().flatten()
}

/// Returns whether counting a whole CPU always takes a capability. On Linux 7.2, the oldest kernel that the module
/// supports, modules can't read `perf_event_paranoid`.
pub(super) fn always_needs_capability(machine: &Machine) -> bool {
    running_release(machine).is_some_and(|release| is_before_7_3(&release))
}

fn is_before_7_3(release: &str) -> bool {
    version_numbers(release)[..] < [7, 3][..]
}

/// Returns whether modprobe(8) finds the module for a kernel.
pub(super) fn is_module_installed(machine: &Machine, release: &str) -> bool {
    let list = machine.text(&format!("/lib/modules/{release}/modules.dep"));
    list.ok().flatten().is_some_and(|list| {
        let files = list.lines().filter_map(|line| line.split(':').next());
        let mut names = files.filter_map(|file| file.rsplit('/').next());
        names.any(|name| name.split('.').next() == Some("perfmon"))
    })
}

/// Returns the releases of the installed kernels that are newer than this one, the oldest first.
pub(super) fn releases_newer_than(machine: &Machine, release: &str) -> Vec<String> {
    let folders = fs::read_dir(machine.path("/lib/modules"));
    let mut newer: Vec<String> = folders
        .into_iter()
        .flatten()
        .flatten()
        .filter(|folder| folder.path().join("modules.dep").exists())
        .filter_map(|folder| folder.file_name().into_string().ok())
        .filter(|other| version_numbers(other) > version_numbers(release))
        .collect();
    newer.sort_by_key(|release| version_numbers(release));
    newer
}

/// Returns the numbers at the beginning of a release, such as 7, 3 and 4 of `7.3.4+deb13-amd64`.
fn version_numbers(release: &str) -> Vec<u32> {
    release
        .split(|letter: char| !letter.is_ascii_digit())
        .map_while(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_ordered_by_their_numbers() {
        assert_eq!(version_numbers("7.3.4+deb13-amd64"), [7, 3, 4]);
        assert_eq!(version_numbers("7.3-rc1"), [7, 3]);
        assert!(version_numbers("7.10.1") > version_numbers("7.9.12+deb13-amd64"));
        assert!(version_numbers("") < version_numbers("7"));
    }

    #[test]
    fn linux_7_2_is_before_7_3() {
        assert!(is_before_7_3("7.2.12-amd64"));
        assert!(!is_before_7_3("7.3-rc1"));
        assert!(!is_before_7_3("7.3.4+deb13-amd64"));
    }
}

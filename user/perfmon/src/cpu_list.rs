// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux's lists of CPUs, such as `0-7,16`.

use std::fs;
use std::ops::RangeInclusive;

use nix::sched::CpuSet;

/// Returns the CPUs of a list; `None` if the text is not a list, or if the list is empty.
pub(crate) fn to_set(list: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    for cpu in parse_ranges(list)?.into_iter().flatten() {
        cpus.set(cpu).ok()?;
    }
    Some(cpus)
}

/// Returns whether the machine can never have a CPU of this number: it is not in Linux's list of possible CPUs.
pub(crate) fn is_impossible(cpu: usize) -> bool {
    let list = fs::read_to_string("/sys/devices/system/cpu/possible");
    let ranges = list.ok().and_then(|list| parse_ranges(&list));
    ranges.is_some_and(|ranges| !ranges.iter().any(|range| range.contains(&cpu)))
}

/// Returns the ranges of a list; `None` if the text is not a list, or if the list is empty.
fn parse_ranges(list: &str) -> Option<Vec<RangeInclusive<usize>>> {
    let parse_range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').map(parse_range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_parsed() {
        assert_eq!(parse_ranges("0-7,16\n"), Some(vec![0..=7, 16..=16]));
        assert_eq!(parse_ranges("3"), Some(vec![3..=3]));
        assert_eq!(parse_ranges(""), None);
        assert_eq!(parse_ranges("0-"), None);
    }

    #[test]
    fn cpu_0_is_possible_and_the_last_number_is_not() {
        assert!(!is_impossible(0));
        assert!(is_impossible(usize::MAX));
    }
}

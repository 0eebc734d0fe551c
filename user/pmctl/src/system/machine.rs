// SPDX-License-Identifier: MIT OR Apache-2.0
//! Facts about a machine: the machine that pmctl runs on, or another machine whose files were
//! recorded.
//!
//! A recorded machine is a folder with copies of its files under their own names (`proc/modules`,
//! `sys/...`, `dev/perfmon`), and the file `cpuid` with the output of `cpuid -1 -r`. On a hybrid
//! processor, this is the output on a big core, and the file `cpuid.cpu_atom` has the output on a
//! small core.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use perfmon::pmu::BigCoreCpuid;
use raw_cpuid::{CpuIdReader, CpuIdResult};

/// A machine, as the source of its files and CPUID leaves.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    root: PathBuf,
    cpuid: Leaves,
}

impl Machine {
    /// Returns the machine that pmctl runs on.
    pub(crate) fn here() -> Self {
        Self {
            root: PathBuf::from("/"),
            cpuid: Leaves::Native,
        }
    }

    /// Reads a machine that was recorded in `folder`.
    pub(crate) fn recorded(folder: &Path) -> Result<Self> {
        let path = folder.join("cpuid");
        let text =
            fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
        let leaves = parse_leaves(&text).with_context(|| format!("{}", path.display()))?;
        Ok(Self {
            root: folder.to_owned(),
            cpuid: Leaves::Recorded(leaves),
        })
    }

    /// Returns whether this is the machine that pmctl runs on.
    pub(crate) fn is_this_machine(&self) -> bool {
        matches!(self.cpuid, Leaves::Native)
    }

    /// Returns the CPUID leaves. For the machine that pmctl runs on, these are of the current CPU; on a hybrid processor, of
    /// a big core.
    pub(crate) fn cpuid(&self) -> &Leaves {
        &self.cpuid
    }

    /// Returns the CPUID leaves of a kind of core of a recorded hybrid processor, which are in a file of their own; `None`
    /// without such a file, and for the machine that pmctl runs on.
    pub(crate) fn recorded_cpuid_of(&self, kind: &str) -> Option<Leaves> {
        if self.is_this_machine() {
            return None;
        }
        let text = self.text(&format!("/cpuid.{kind}")).ok()??;
        parse_leaves(&text).ok().map(Leaves::Recorded)
    }

    /// Returns the numbers of the CPUs that are online.
    pub(crate) fn online_cpus(&self) -> Result<Vec<usize>> {
        const FILE: &str = "/sys/devices/system/cpu/online";
        let text = self.text(FILE).context(FILE)?;
        let list = text.ok_or_else(|| anyhow!("{FILE} does not exist. Mount /sys (sysfs)."))?;
        parse_cpus(&list).with_context(|| format!("{FILE} has no list of CPUs, but `{list}`"))
    }

    /// Returns the path of the machine's file with this absolute name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name.trim_start_matches('/'))
    }

    /// Returns the content of a file without white space at the end; `None` if there is no such file.
    pub(crate) fn text(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.path(name)) {
            Ok(text) => Ok(Some(text.trim_end().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Parses a list of CPUs such as `0-3,8`. Returns `None` for a malformed list, and for a list with
/// more CPUs than a kernel supports.
pub(crate) fn parse_cpus(list: &str) -> Option<Vec<usize>> {
    // The limit is far above the 8192 CPUs that Linux has on x86, so that a user who gives too
    // large a number gets a better message than that of a malformed list. The limit guards against
    // the lists of recorded machines, which are not trusted.
    const LIMIT: usize = 1 << 20;
    let mut cpus = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= LIMIT || cpus.len() + (last - first) >= LIMIT {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// A source of CPUID leaves.
#[derive(Clone, Debug)]
pub(crate) enum Leaves {
    /// The CPUID instruction.
    Native,
    /// Leaves by their number and subleaf; others read as 0.
    Recorded(HashMap<(u32, u32), CpuIdResult>),
}

impl Leaves {
    /// Creates leaves for a test, each from its number and the registers EAX to EDX.
    pub(crate) fn recorded(leaves: &[(u32, [u32; 4])]) -> Self {
        let leaf = |(number, [eax, ebx, ecx, edx]): &(u32, [u32; 4])| {
            (
                (*number, 0),
                CpuIdResult {
                    eax: *eax,
                    ebx: *ebx,
                    ecx: *ecx,
                    edx: *edx,
                },
            )
        };
        Self::Recorded(leaves.iter().map(leaf).collect())
    }
}

impl CpuIdReader for Leaves {
    fn cpuid2(&self, leaf: u32, subleaf: u32) -> CpuIdResult {
        const NO_LEAF: CpuIdResult = CpuIdResult {
            eax: 0,
            ebx: 0,
            ecx: 0,
            edx: 0,
        };
        match self {
            Self::Native => BigCoreCpuid.cpuid2(leaf, subleaf),
            Self::Recorded(leaves) => leaves.get(&(leaf, subleaf)).copied().unwrap_or(NO_LEAF),
        }
    }
}

/// Parses lines such as `   0x0000000a 0x00: eax=0x07300404 ebx=0x00000000 ecx=0x00000000 edx=0x00000603`.
fn parse_leaves(text: &str) -> Result<HashMap<(u32, u32), CpuIdResult>> {
    text.lines()
        .map(str::trim)
        // `cpuid` prints a heading for each CPU.
        .filter(|line| line.starts_with("0x"))
        .map(|line| {
            parse_leaf(line).with_context(|| format!("this line is not a CPUID leaf: {line}"))
        })
        .collect()
}

fn parse_leaf(line: &str) -> Option<((u32, u32), CpuIdResult)> {
    let parse_hexadecimal = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (numbers, registers) = line.split_once(':')?;
    let (leaf, subleaf) = numbers.split_once(' ')?;
    let mut registers = registers.split_whitespace();
    let mut register =
        |name: &str| parse_hexadecimal(registers.next()?.strip_prefix(name)?.strip_prefix('=')?);
    let result = CpuIdResult {
        eax: register("eax")?,
        ebx: register("ebx")?,
        ecx: register("ecx")?,
        edx: register("edx")?,
    };
    Some((
        (parse_hexadecimal(leaf)?, parse_hexadecimal(subleaf.trim())?),
        result,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_cpuid_is_parsed() {
        let text = "CPU:\n   0x0000000a 0x00: eax=0x07300404 ebx=0x000000ff ecx=0x00000001 edx=0x00000603\n";
        let leaves = Leaves::Recorded(parse_leaves(text).expect("it is well formed"));
        let leaf = leaves.cpuid2(0xa, 0);
        assert_eq!(
            (leaf.eax, leaf.ebx, leaf.ecx, leaf.edx),
            (0x0730_0404, 0xff, 1, 0x603)
        );
        assert_eq!(leaves.cpuid2(0xa, 1).eax, 0, "a missing leaf reads as zero");
    }

    #[test]
    fn cpu_lists_are_parsed() {
        assert_eq!(parse_cpus("0"), Some(vec![0]));
        assert_eq!(parse_cpus("0-1,4,6-7"), Some(vec![0, 1, 4, 6, 7]));
        assert_eq!(parse_cpus("3-0"), None);
        assert_eq!(parse_cpus(""), None);
        assert_eq!(parse_cpus("1048575"), Some(vec![1_048_575]));
        assert_eq!(parse_cpus("1048576"), None);
        assert_eq!(parse_cpus("0-18446744073709551615"), None);
        assert_eq!(parse_cpus("0-1048575,0"), None);
    }

    #[test]
    fn the_message_has_the_malformed_line() {
        let error = parse_leaves("0x0000000a 0x00: eax=0x0 ebx=zero").expect_err("it is broken");
        assert!(error.to_string().contains("ebx=zero"), "{error}");
    }
}

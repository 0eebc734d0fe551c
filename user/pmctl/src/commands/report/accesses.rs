// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of a report that show the memory access of samples.

use std::borrow::Cow;

use crate::args::Key;
use crate::recording::address_spaces::FileNumber;
use crate::recording::perfdata::{DataSource, is_kernel};
use crate::recording::profile::{NamedSample, SampleNames};

/// The memory access of a row, as numbers. Members that no key shows are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct AccessId {
    source: DataSource,
    latency: u32,
    address: u64,
    file: Option<FileNumber>,
    /// Process whose memory has the address; 0 for the kernel's.
    pid: u32,
}

impl AccessId {
    /// Adds what a key shows of a sample.
    pub(super) fn add_key(&mut self, key: Key, named: &NamedSample<'_>, names: &SampleNames<'_>) {
        let access = &named.sample.access;
        match key {
            Key::LocalWeight | Key::Weight => self.latency = access.weight.latency,
            Key::DsoDaddr => self.file = names.data_site(named).number(),
            Key::SymbolDaddr => {
                self.address = access.address;
                if !is_kernel(access.address) {
                    self.pid = named.stamp.task.pid;
                }
            }
            _ => self.source = access.source,
        }
    }
}

/// Returns the text of a key of memory accesses for a sample.
pub(super) fn access_text(key: Key, named: &NamedSample<'_>, names: &SampleNames<'_>) -> String {
    let access = &named.sample.access;
    match key {
        Key::Tlb => access.source.tlb(),
        Key::Locked => access.source.locked().to_owned(),
        Key::Snoop => access.source.snoop(),
        Key::Blocked => access.source.blocked(),
        Key::LocalWeight | Key::Weight => access.weight.latency.to_string(),
        Key::SymbolDaddr => data_text(named, names),
        Key::DsoDaddr => names.data_site(named).dso().into_owned(),
        _ => access.source.level(),
    }
}

/// Returns the variable of the sampled data and the offset in it, or the address, with perf's mark of kernel or program.
fn data_text(named: &NamedSample<'_>, names: &SampleNames<'_>) -> String {
    let address = named.sample.access.address;
    let mode = if is_kernel(address) { "[k]" } else { "[.]" };
    let site = names.data_site(named);
    if site.has_symbol() {
        format!("{mode} {}+{:#x}", site.symbol(), site.offset)
    } else {
        format!("{mode} {address:#018x}")
    }
}

/// Returns a cell of a row as it is shown: the weight of a row is the sum of those of its samples, as in perf.
fn shown_cell(key: Key, cell: &str, samples: u64) -> Cow<'_, str> {
    match (key, cell.parse::<u64>()) {
        (Key::Weight, Ok(latency)) => latency.saturating_mul(samples).to_string().into(),
        _ => cell.into(),
    }
}

/// Returns the cells of a row as they are shown.
pub(crate) fn shown_cells(keys: &[Key], cells: &[String], samples: u64) -> Vec<String> {
    let cells = keys.iter().zip(cells);
    cells
        .map(|(key, cell)| shown_cell(*key, cell, samples).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_the_sum_of_its_samples() {
        assert_eq!(shown_cell(Key::Weight, "30", 4), "120");
        assert_eq!(shown_cell(Key::LocalWeight, "30", 4), "30");
        let cells = ["30".to_owned(), "L1 hit".to_owned()];
        let shown = shown_cells(&[Key::Weight, Key::Mem], &cells, 2);
        assert_eq!(shown, ["60", "L1 hit"]);
    }
}

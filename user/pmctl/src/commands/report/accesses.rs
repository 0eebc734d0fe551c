// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of a report that show the memory access of samples.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::mode_mark::mode_mark;
use crate::args::Key;
use crate::recording::address_spaces::FileNumber;
use crate::recording::perfdata::{DataSource, is_kernel_address};
use crate::recording::profile::{NamedSample, SampleNames};

/// The memory access of a row, as numbers. Members that no key shows have their default.
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
    /// Sets the member that a key shows, to the value of a sample.
    pub(super) fn add_key(&mut self, key: Key, named: &NamedSample<'_>, names: &SampleNames<'_>) {
        let access = &named.sample.access;
        match key {
            Key::LocalWeight | Key::Weight => self.latency = access.weight.latency,
            Key::DsoDaddr => self.file = names.data_site(named).file_number(),
            Key::SymbolDaddr => {
                self.address = access.address;
                if !is_kernel_address(access.address) {
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
    let site = names.data_site(named);
    let mode = mode_mark(&site, address);
    if site.has_symbol() {
        format!("{mode} {}+{:#x}", site.symbol(), site.offset)
    } else {
        format!("{mode} {address:#018x}")
    }
}

/// Returns a cell of a row as it is shown. For the key `weight`, the cell has the sum of the
/// weights of the row's samples, as in perf.
fn shown_cell(key: Key, cell: &str, samples: u64) -> Cow<'_, str> {
    match (key, cell.parse::<u64>()) {
        (Key::Weight, Ok(latency)) => latency.saturating_mul(samples).to_string().into(),
        _ => cell.into(),
    }
}

/// Converts the cells of a row to the cells that are shown, as [`shown_cell`] does for each.
pub(crate) fn shown_cells(keys: &[Key], cells: &[String], samples: u64) -> Vec<String> {
    let cells = keys.iter().zip(cells);
    cells
        .map(|(key, cell)| shown_cell(*key, cell, samples).into_owned())
        .collect()
}

/// Compares the cells of rows with an equal share: cells without a number come first, then numbers by their value.
pub(crate) fn compare_cells(keys: &[Key], one: &[String], other: &[String]) -> Ordering {
    let number = |key: Key, cell: &str| match key {
        Key::Pid | Key::Tid | Key::Cpu | Key::LocalWeight | Key::Weight => cell.parse::<i64>().ok(),
        _ => None,
    };
    let pairs = one.iter().zip(other);
    let mut orders = keys.iter().zip(pairs).map(|(key, (one, other))| {
        let order = number(*key, one).cmp(&number(*key, other));
        order.then_with(|| one.cmp(other))
    });
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_numbers_are_compared_by_their_value() {
        let compare = |keys: &[Key], one: [&str; 2], other: [&str; 2]| {
            compare_cells(keys, &one.map(str::to_owned), &other.map(str::to_owned))
        };
        let weights = [Key::LocalWeight, Key::Mem];
        assert_eq!(compare(&weights, ["9", "b"], ["10", "a"]), Ordering::Less);
        assert_eq!(compare(&weights, ["9", "b"], ["9", "a"]), Ordering::Greater);
        assert_eq!(compare(&weights, ["9", "a"], ["9", "a"]), Ordering::Equal);
        for key in [Key::Pid, Key::Tid, Key::Cpu, Key::Weight] {
            let keys = [Key::Comm, key];
            assert_eq!(compare(&keys, ["a", "100"], ["a", "20"]), Ordering::Greater);
            assert_eq!(compare(&keys, ["a", "?"], ["a", "20"]), Ordering::Less);
        }
        let names = [Key::Symbol, Key::Dso];
        assert_eq!(compare(&names, ["9", ""], ["10", ""]), Ordering::Greater);
    }

    #[test]
    fn a_weight_is_the_sum_of_its_samples() {
        assert_eq!(shown_cell(Key::Weight, "30", 4), "120");
        assert_eq!(shown_cell(Key::LocalWeight, "30", 4), "30");
        let cells = ["30".to_owned(), "L1 hit".to_owned()];
        let cells = shown_cells(&[Key::Weight, Key::Mem], &cells, 2);
        assert_eq!(cells, ["60", "L1 hit"]);
    }
}

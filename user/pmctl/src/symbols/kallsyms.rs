// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own functions, as `/proc/kallsyms` has them.
//!
//! The kernel makes each line when it is read, which takes it thousands of instructions, and there may be 200,000. So
//! they are read once, no further than is needed, and kept only if they are an answer.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// A symbol: it reaches to the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: u64,
    pub(super) name: String,
}

/// Returns the symbol of each address of the running kernel; of several with the same address the first. The addresses
/// must be in ascending order.
pub(super) fn look_up(addresses: &[u64]) -> Vec<Option<Found>> {
    match File::open("/proc/kallsyms") {
        Ok(file) => find(BufReader::with_capacity(1 << 16, file), addresses),
        Err(_) => vec![None; addresses.len()],
    }
}

/// All symbols of the kernel, read when one is asked for.
#[derive(Debug, Default)]
pub(super) struct Kept {
    symbols: Vec<Found>,
    /// Behind the symbols that are not of modules: these stay as they are.
    end: u64,
    /// When they were read.
    since: Option<Instant>,
}

impl Kept {
    /// The least time from one reading to the next.
    const INTERVAL: Duration = Duration::from_secs(60);

    /// Returns what [`look_up`] does. Where modules are, others may be by now: then all symbols are read anew, but once a
    /// minute at most.
    pub(super) fn look_up(&mut self, addresses: &[u64]) -> Vec<Option<Found>> {
        let may_have_changed = addresses.last().is_some_and(|last| *last > self.end);
        let is_old = |since: Instant| may_have_changed && since.elapsed() >= Self::INTERVAL;
        if self.since.is_none_or(is_old) {
            self.since = Some(Instant::now());
            if let Ok(file) = File::open("/proc/kallsyms") {
                self.read(BufReader::with_capacity(1 << 16, file));
            }
        }
        addresses.iter().map(|address| self.at(*address)).collect()
    }

    /// Takes all symbols of these lines in place of those before.
    fn read(&mut self, mut lines: impl BufRead) {
        self.symbols.clear();
        self.end = 0;
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).unwrap_or(0) != 0 {
            if let Some((start, name)) = parse(&line) {
                if !line.contains(&b'[') {
                    self.end = self.end.max(start);
                }
                self.symbols.push(Found {
                    start,
                    name: String::from_utf8_lossy(name).into_owned(),
                });
            }
            line.clear();
        }
        // Of several at one address the first stays the first.
        self.symbols.sort_by_key(|symbol| symbol.start);
        self.symbols.dedup_by_key(|symbol| symbol.start);
    }

    fn at(&self, address: u64) -> Option<Found> {
        let behind = self.symbols.partition_point(|s| s.start <= address);
        self.symbols[..behind].last().cloned()
    }
}

/// Finds addresses among lines. The kernel's lines come by address, those of modules behind them come in any order.
fn find(mut lines: impl BufRead, addresses: &[u64]) -> Vec<Option<Found>> {
    // Of each address, the last symbol behind the address before it.
    let mut nearest: Vec<Found> = vec![Found::default(); addresses.len()];
    // The place among the addresses of the symbol before, with the addresses on its two sides.
    let (mut place, mut low, mut high) = (0, 0, 0);
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).unwrap_or(0) != 0 {
        if let Some((start, name)) = parse(&line) {
            if start <= low || start > high {
                place = addresses.partition_point(|address| *address < start);
                low = place.checked_sub(1).map_or(0, |before| addresses[before]);
                high = addresses.get(place).copied().unwrap_or(u64::MAX);
            }
            match nearest.get_mut(place) {
                Some(found) if start > found.start => {
                    found.start = start;
                    found.name.clear();
                    found.name.push_str(&String::from_utf8_lossy(name));
                }
                // Behind all addresses, and not a module's.
                None if !line.contains(&b'[') => break,
                _ => {}
            }
        }
        line.clear();
    }
    let mut last = None;
    let found = nearest.into_iter().map(|found| {
        if found.start != 0 {
            last = Some(found);
        }
        last.clone()
    });
    found.collect()
}

/// Returns the address and the name of a line as `ffffffff81000000 T name\t[module]`; `None` if the address is hidden.
fn parse(line: &[u8]) -> Option<(u64, &[u8])> {
    let mut words = line.trim_ascii_end().split(u8::is_ascii_whitespace);
    let mut address = 0;
    for digit in words.next()? {
        let digit = char::from(*digit).to_digit(16)?;
        address = address << 4 | u64::from(digit);
    }
    let name = words.nth(1)?;
    (address != 0).then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
0000000000000000 A fixed_percpu_data
0000000000001000 A cpu_tss
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t first
ffffffff81000200 T second
ffffffff81000300 D data
ffffffff81000400 t __pfx_init
ffffffffc0002000 t last\t[module]
ffffffffc0001000 t earlier\t[module]
";

    fn names(addresses: &[u64]) -> Vec<Option<String>> {
        let found = find(LINES.as_bytes(), addresses).into_iter();
        found.map(|found| found.map(|found| found.name)).collect()
    }

    #[test]
    fn each_address_has_the_symbol_before_it() {
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(
            names(&[
                0x10,
                0x1008,
                0xffff_ffff_8100_0000,
                0xffff_ffff_8100_0010,
                0xffff_ffff_8100_0100,
                0xffff_ffff_8100_01ff,
                0xffff_ffff_8100_0210,
                0xffff_ffff_c000_1010,
                0xffff_ffff_c000_2fff,
            ]),
            [
                None,
                some("cpu_tss"),
                some("_text"),
                some("_text"),
                some("first"),
                some("first"),
                some("second"),
                some("earlier"),
                some("last"),
            ]
        );
        assert_eq!(names(&[0xffff_ffff_c000_1010]), [some("earlier")]);
        assert_eq!(names(&[]), []);
    }

    #[test]
    fn kept_symbols_are_the_same_and_not_read_again() {
        let addresses = [
            0x10,
            0x1008,
            0xffff_ffff_8100_0010,
            0xffff_ffff_8100_01ff,
            0xffff_ffff_8100_0300,
            0xffff_ffff_c000_1010,
            0xffff_ffff_c000_2fff,
        ];
        let mut kept = Kept {
            since: Some(Instant::now()),
            ..Kept::default()
        };
        kept.read(LINES.as_bytes());
        assert_eq!(kept.end, 0xffff_ffff_8100_0400);
        // A second reading would bring those of this machine.
        let found = kept.look_up(&addresses);
        assert_eq!(found, find(LINES.as_bytes(), &addresses));
        let minute = Instant::now().checked_sub(Kept::INTERVAL);
        if let Some(before) = minute {
            kept.since = Some(before);
            kept.look_up(&addresses[..5]);
            assert_eq!(kept.since, Some(before), "the kernel itself stays");
            kept.look_up(&addresses);
            assert!(kept.since > Some(before), "modules come and go");
        }
    }

    #[test]
    fn what_is_behind_all_addresses_is_not_read() {
        let mut lines = LINES.as_bytes();
        let found = find(&mut lines, &[0xffff_ffff_8100_0110]);
        assert_eq!(found[0].as_ref().map(|found| &*found.name), Some("first"));
        assert!(lines.starts_with(b"ffffffff81000300 D data"), "{lines:?}");
    }

    #[test]
    fn hidden_addresses_are_none() {
        let lines = "0000000000000000 T _text\n0000000000000000 t x\t[m]\n";
        assert_eq!(find(lines.as_bytes(), &[0xffff_ffff_8100_0110]), [None]);
    }
}

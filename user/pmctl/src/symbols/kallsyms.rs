// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's own functions, as `/proc/kallsyms` has them.
//!
//! The kernel makes each line when it is read, which takes it thousands of instructions, and there may be 200,000. So
//! they are read once, no further than is needed, and kept only if they are an answer.

use std::fs::File;
use std::io::{BufRead, BufReader};

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

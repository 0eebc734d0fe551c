// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of all models' events, sorted, packed in blocks.
//!
//! A name is stored as the number of bytes that it shares with the name before it, the number of its other bytes, and its
//! other bytes. The first name of a block shares none.

use std::cmp::Ordering;

use blocks::{BLOCKS, NAME_COUNT, NAMES_PER_BLOCK};

/// The offsets of the blocks, which the build script generates.
#[allow(clippy::unreadable_literal, reason = "no one reads them")]
mod blocks {
    include!(concat!(env!("OUT_DIR"), "/blocks.rs"));
}

static PACKED_NAMES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/names.bin"));

/// Returns the name with this number.
pub(super) fn get(number: usize) -> String {
    let mut names = Names::new(number / NAMES_PER_BLOCK);
    for _ in 0..=number % NAMES_PER_BLOCK {
        names.advance();
    }
    String::from_utf8_lossy(&names.name).into_owned()
}

/// Returns the number of a name; case does not matter.
pub(super) fn find(name: &str) -> Option<usize> {
    let next_block = BLOCKS.partition_point(|block| {
        let start = *block as usize;
        let first = &PACKED_NAMES[start + 2..start + 2 + usize::from(PACKED_NAMES[start + 1])];
        compare_ignoring_case(first, name.as_bytes()) != Ordering::Greater
    });
    let block = next_block.checked_sub(1)?;
    let first = block * NAMES_PER_BLOCK;
    let mut names = Names::new(block);
    (first..NAME_COUNT.min(first + NAMES_PER_BLOCK)).find(|_| {
        names.advance();
        compare_ignoring_case(&names.name, name.as_bytes()) == Ordering::Equal
    })
}

/// Compares two names without regard to case.
fn compare_ignoring_case(a: &[u8], b: &[u8]) -> Ordering {
    a.iter()
        .map(u8::to_ascii_lowercase)
        .cmp(b.iter().map(u8::to_ascii_lowercase))
}

/// Unpacks the names one after the other.
struct Names {
    position: usize,
    name: Vec<u8>,
}

impl Names {
    /// Creates an iterator that is before the first name of a block.
    fn new(block: usize) -> Self {
        Self {
            position: BLOCKS[block] as usize,
            name: Vec::with_capacity(64),
        }
    }

    /// Unpacks the next name.
    fn advance(&mut self) {
        let [shared, length] =
            [PACKED_NAMES[self.position], PACKED_NAMES[self.position + 1]].map(usize::from);
        let start = self.position + 2;
        self.name.truncate(shared);
        self.name.extend(&PACKED_NAMES[start..start + length]);
        self.position = start + length;
    }
}

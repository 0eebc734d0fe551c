// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only pmctl puts into the file, and other tools skip: the feature of number 255, as JSON.
//!
//! It says how far the numbers can be trusted, and it holds the symbols of what was sampled: so a report looks the
//! same on any machine.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::text::{printable, thousands};

/// What other tools have no place for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// Of this format: [`Notes::VERSION`].
    pub(crate) version: u32,
    /// What was recorded, in words.
    pub(crate) scope: String,
    /// How often each event happened in all, samples or not; in the order of the events.
    pub(crate) totals: Vec<u64>,
    /// Why samples may be said to be of the wrong task, or of none; in words.
    pub(crate) degraded: Vec<String>,
    pub(crate) losses: Vec<Loss>,
    pub(crate) gaps: Gaps,
    pub(crate) symbols: Vec<SymbolTable>,
}

impl Notes {
    /// The version that is written and read.
    pub(crate) const VERSION: u32 = 1;

    /// Whether all that happened is in the file, if one knows of the gaps.
    pub(crate) fn is_whole(&self) -> bool {
        self.losses.is_empty()
    }
}

/// Tells what is wrong with a recording, a line for each thing; nothing if all is well.
pub(crate) fn warn(notes: &Notes, output: &mut impl Write) -> io::Result<()> {
    for loss in &notes.losses {
        let Loss {
            cpu,
            reason,
            samples,
        } = loss;
        let what = match samples {
            0 => "an unknown number of samples".to_owned(),
            1 => "1 sample or more".to_owned(),
            samples => format!("{} samples or more", thousands(*samples)),
        };
        let reason = printable(reason);
        writeln!(output, "LOST: CPU {cpu} ({reason}): {what}.")?;
    }
    let Gaps {
        number,
        nanoseconds,
    } = notes.gaps;
    if number > 0 {
        let time = Duration::from_nanos(nanoseconds).as_secs_f64() * 1000.0;
        writeln!(
            output,
            "The buffers were changed {number} times; {time:.1} ms in all were not recorded."
        )?;
    }
    for reason in &notes.degraded {
        writeln!(output, "DEGRADED: {}.", printable(reason))?;
    }
    Ok(())
}

/// What a CPU did not record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loss {
    pub(crate) cpu: u32,
    /// Why: the flags of its buffer, in words.
    pub(crate) reason: String,
    /// At least so many samples, as far as it is known.
    pub(crate) samples: u64,
}

impl Loss {
    /// How many samples are missing, or more.
    pub(crate) fn least(&self) -> u64 {
        self.samples.max(1)
    }
}

/// The time between two buffers, in which nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gaps {
    pub(crate) number: u64,
    /// All together.
    pub(crate) nanoseconds: u64,
}

/// The symbols of a file, as far as samples are in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SymbolTable {
    /// Its name, as in the records of what is mapped.
    pub(crate) file: String,
    /// By address, none within another.
    pub(crate) symbols: Vec<Symbol>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Symbol {
    /// Where it begins in the file; for the kernel, its address.
    pub(crate) start: u64,
    /// In bytes.
    pub(crate) length: u64,
    pub(crate) name: String,
}

impl SymbolTable {
    /// The function that an offset in the file is in.
    pub(crate) fn at(&self, offset: u64) -> Option<&Symbol> {
        let behind = self
            .symbols
            .partition_point(|symbol| symbol.start <= offset);
        let symbol = self.symbols[..behind].last()?;
        // In a file that is damaged they may be in any order.
        let inside = offset.checked_sub(symbol.start)?;
        (inside < symbol.length).then_some(symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_in_the_function_that_begins_before_it() {
        let symbol = |start, name: &str| Symbol {
            start,
            length: 0x10,
            name: name.to_owned(),
        };
        let table = SymbolTable {
            file: "x".to_owned(),
            symbols: vec![symbol(0x100, "first"), symbol(0x120, "second")],
        };
        let name = |offset| table.at(offset).map(|symbol| symbol.name.as_str());
        assert_eq!(name(0xff), None);
        assert_eq!(name(0x100), Some("first"));
        assert_eq!(name(0x10f), Some("first"));
        assert_eq!(name(0x110), None);
        assert_eq!(name(0x12f), Some("second"));
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only pmctl puts into the file, and other tools skip: the feature of number 255, as JSON.
//!
//! It says how far the numbers can be trusted, and it holds the symbols of what was sampled: so a report looks the
//! same on any machine.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::text::{count, printable};

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
    /// Why the file ends before the recording did, if so; in words.
    #[serde(default)]
    pub(crate) cut: Option<String>,
    pub(crate) symbols: Vec<SymbolTable>,
}

impl Notes {
    /// The version that is written and read.
    pub(crate) const VERSION: u32 = 1;

    /// Whether all that happened is in the file, if one knows of the gaps.
    pub(crate) fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.cut.is_none()
    }

    /// Whether the totals are all that happened while it was recorded.
    pub(crate) fn counted_all(&self) -> bool {
        self.losses.iter().all(|loss| loss.counted)
    }
}

/// Tells what is wrong with a recording, a line for each thing; nothing if all is well.
pub(crate) fn warn(notes: &Notes, output: &mut impl Write) -> io::Result<()> {
    for loss in &notes.losses {
        let reason = printable(&loss.reason);
        writeln!(
            output,
            "LOST: CPU {} ({reason}): {}.",
            loss.cpu,
            loss.what()
        )?;
    }
    if let Some(reason) = &notes.cut {
        let reason = printable(reason);
        writeln!(
            output,
            "LOST: the end of the recording: the file could not grow ({reason})."
        )?;
    }
    let Gaps {
        number,
        nanoseconds,
    } = notes.gaps;
    if number > 0 {
        let time = Duration::from_nanos(nanoseconds).as_secs_f64() * 1000.0;
        let times = count(number, "time");
        writeln!(
            output,
            "The buffers were changed {times}; {time:.1} ms in all were not recorded."
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
    /// Samples that were not made, though their events were counted.
    pub(crate) samples: u64,
    /// Whether these are all: no event went uncounted. Recordings of earlier versions don't say.
    #[serde(default)]
    pub(crate) counted: bool,
}

impl Loss {
    /// What is missing, in words.
    fn what(&self) -> String {
        const UNKNOWN: &str = "an unknown number of events that were neither counted nor sampled";
        let samples = count(self.samples, "sample");
        match (self.samples, self.counted) {
            (0, false) => UNKNOWN.to_owned(),
            (_, false) => format!("{samples} whose events were counted, and {UNKNOWN}"),
            (_, true) => format!("{samples} whose events were counted; no event is missing"),
        }
    }

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
    fn what_was_counted_is_told_from_what_was_not() {
        let lost = |reason: &str, samples, counted| {
            let reason = reason.to_owned();
            let loss = Loss {
                cpu: 1,
                reason,
                samples,
                counted,
            };
            let notes = Notes {
                losses: vec![loss],
                ..Notes::default()
            };
            let mut text = Vec::new();
            warn(&notes, &mut text).expect("a vector takes everything");
            (
                String::from_utf8(text).expect("it is text"),
                notes.counted_all(),
            )
        };
        let unknown = "an unknown number of events that were neither counted nor sampled.\n";
        assert_eq!(
            lost("full", 0, false),
            (format!("LOST: CPU 1 (full): {unknown}"), false)
        );
        let (text, all) = lost("full", 2, false);
        assert_eq!(
            text,
            format!("LOST: CPU 1 (full): 2 samples whose events were counted, and {unknown}")
        );
        assert!(!all);
        let (text, all) = lost("throttled", 1, true);
        assert_eq!(
            text,
            "LOST: CPU 1 (throttled): 1 sample whose events were counted; no event is missing.\n"
        );
        assert!(all);
    }

    #[test]
    fn a_single_change_of_buffers_is_one_time() {
        let gaps = Gaps {
            number: 1,
            nanoseconds: 2_500_000,
        };
        let mut text = Vec::new();
        warn(
            &Notes {
                gaps,
                ..Notes::default()
            },
            &mut text,
        )
        .expect("a vector takes everything");
        assert_eq!(
            text,
            b"The buffers were changed 1 time; 2.5 ms in all were not recorded.\n"
        );
    }

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

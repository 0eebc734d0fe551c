// SPDX-License-Identifier: MIT OR Apache-2.0
//! pmctl's own part of the file, as JSON. It is after the last feature, where other tools don't look, and begins with
//! [`MARK`] and the length of the JSON in bytes.
//!
//! The notes say what was lost, and hold the names of the sampled functions, so that a report looks the same on any
//! machine.

use std::io::{self, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bytes::{Put, Reader};
use super::sections::{ReadError, part};
use super::source::RecordingBytes;
use super::symbol_table::SymbolTable;
use crate::system::screen::Colors;
use crate::system::text::{count, printable};

/// The first eight bytes of the notes; in a stream, the type of the updates that contain the notes.
pub(super) const MARK: u64 = u64::from_le_bytes(*b"pmctl\0\0\0");
/// Bytes of the mark and the length.
const NOTES_HEAD_SIZE: u64 = 16;

/// pmctl's own part of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a member of the JSON object"
)]
pub(crate) struct Notes {
    /// Version of the format: [`Notes::VERSION`].
    pub(crate) version: u32,
    /// Scope of the recording, in words, such as "the whole machine".
    pub(crate) scope: String,
    /// The count of each event on all CPUs, whether or not samples stand for it, in the order of the events. Empty if
    /// the counts are not known.
    pub(crate) totals: Vec<u64>,
    /// Reasons why samples may have a wrong task or no task, in words.
    pub(crate) degraded: Vec<String>,
    pub(crate) losses: Vec<Loss>,
    /// Number of records that Linux's perf has lost, on any CPU. Always 0 in recordings of pmctl.
    #[serde(default)]
    pub(crate) lost_by_perf: u64,
    /// Only the recorded tasks were counted. Always false in recordings of earlier versions.
    #[serde(default)]
    pub(crate) tasks_only: bool,
    /// The rings were overwritten (`--overwrite`), so that only the newest samples are left. Always false in recordings of
    /// earlier versions.
    #[serde(default)]
    pub(crate) overwritten: bool,
    /// The file ends at its size limit (`--max-size`), so that later samples are missing. Always false in recordings of
    /// earlier versions.
    #[serde(default)]
    pub(crate) reached_max_size: bool,
    /// The buffers were replaced when one was nearly full (`--rotate`). Always false in recordings of earlier versions.
    #[serde(default)]
    pub(crate) rotate: bool,
    pub(crate) gaps: BufferGaps,
    /// Reason why the file ends before the recording did, in words.
    #[serde(default)]
    pub(crate) cut: Option<String>,
    pub(crate) symbols: Vec<SymbolTable>,
}

impl Notes {
    /// The version that this pmctl writes and reads.
    pub(crate) const VERSION: u32 = 1;

    /// Encodes the notes with mark and length.
    pub(super) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let notes = serde_json::to_vec(self)?;
        let mut bytes = Vec::new();
        bytes.u64(MARK);
        bytes.u64(notes.len() as u64);
        bytes.extend(notes);
        Ok(bytes)
    }

    /// Reads the notes at an offset of the file.
    ///
    /// # Errors
    /// [`ReadError`]: there are no notes at the offset, or they would end after the end of the file.
    pub(super) fn read(source: &RecordingBytes, offset: u64) -> Result<Self, ReadError> {
        const NOTES: &str = "list of pmctl's notes";
        let broken_notes = ReadError::Broken(NOTES);
        let head = part(source, (offset, NOTES_HEAD_SIZE), NOTES)?;
        let mut reader = Reader(&head);
        let (mark, length) = reader.u64().zip(reader.u64()).ok_or(broken_notes)?;
        if mark != MARK {
            return Err(broken_notes);
        }
        let notes = part(source, (offset + NOTES_HEAD_SIZE, length), NOTES)?;
        serde_json::from_slice(&notes).map_err(|_| broken_notes)
    }

    /// Returns whether no records were lost, except in the gaps between buffers.
    pub(crate) fn is_whole(&self) -> bool {
        self.losses.is_empty() && self.lost_by_perf == 0 && self.cut.is_none()
    }

    /// Returns the count of an event, sampled or not, if it is known.
    pub(crate) fn total(&self, event: usize) -> Option<u64> {
        self.totals.get(event).copied()
    }

    /// Returns whether the totals include all events, even if samples are missing.
    pub(crate) fn counted_all(&self) -> bool {
        self.losses.iter().all(|loss| loss.counted)
    }
}

/// Writes warnings about what is missing or wrong in a recording, with advice.
pub(crate) fn warn(notes: &Notes, colors: Colors, output: &mut impl Write) -> io::Result<()> {
    let style = colors.warning;
    warn_of_losses(notes, colors, output)?;
    if notes.overwritten {
        writeln!(
            output,
            "A flight recording (--overwrite): of each CPU the newest samples that its ring had room for."
        )?;
    }
    if notes.reached_max_size {
        writeln!(
            output,
            "The recording ends where the file reached its size limit (--max-size)."
        )?;
    }
    let BufferGaps {
        number,
        nanoseconds,
    } = notes.gaps;
    if number > 0 {
        let time = Duration::from_nanos(nanoseconds).as_secs_f64() * 1000.0;
        let times = count(number, "time");
        writeln!(
            output,
            "The buffers were replaced {times}; {time:.1} ms in all were not recorded."
        )?;
    }
    for table in notes.symbols.iter().filter(|table| table.replaced) {
        let file = printable(&table.file);
        let reason = if file.starts_with('[') {
            "the kernel that was recorded is not the running one, or the module was removed"
        } else {
            "it was replaced or removed"
        };
        writeln!(
            output,
            "{style}DEGRADED{style:#}: {file} is not what was recorded, {reason}: its functions have no names."
        )?;
    }
    for reason in &notes.degraded {
        writeln!(output, "{style}DEGRADED{style:#}: {}.", printable(reason))?;
    }
    Ok(())
}

/// Writes warnings about lost samples, with advice.
pub(crate) fn warn_of_losses(
    notes: &Notes,
    colors: Colors,
    output: &mut impl Write,
) -> io::Result<()> {
    let style = colors.warning;
    for loss in &notes.losses {
        let reason = printable(&loss.reason);
        writeln!(
            output,
            "{style}LOST{style:#}: CPU {} ({reason}): {}.",
            loss.cpu,
            loss.in_words()
        )?;
    }
    for advice in advice(&notes.losses, notes.rotate) {
        writeln!(output, "{advice}")?;
    }
    if let Some(reason) = &notes.cut {
        let reason = printable(reason);
        writeln!(
            output,
            "{style}LOST{style:#}: the end of the recording: the file could not grow: {reason}. All before it is there.\n  \
             Give a file on a disk with more room (-o), or limit the recording (--max-size)."
        )?;
    }
    Ok(())
}

/// Returns advice against losses, each text once. `rotate`: the recording was made with `--rotate`.
fn advice(losses: &[Loss], rotate: bool) -> Vec<&'static str> {
    /// Advice for full buffers of a recording with `--rotate`.
    const ROTATED_ADVICE: &str = "  The buffer filled between two reads, 100 ms apart: give larger ones (-m),\n  or a larger \
                           -c.";
    /// Words in the reason of a loss, each with advice.
    const LOSS_ADVICE: [(&str, &str); 7] = [
        // The driver reports a full ring in the same words as an overflow that is handled after the
        // next overflow was due.
        (
            "too fast",
            "  Samples came faster than they could be taken or read: take fewer (a larger\n  \
             -c, a smaller -F), or give larger rings (-m).",
        ),
        // A reason in recordings of earlier versions.
        (
            "ring full",
            "  Samples came faster than they were read: give larger rings (-m), or take\n  \
             fewer samples (a larger -c, a smaller -F).",
        ),
        (
            "full",
            "  Record with larger buffers (-m), with fewer samples (a larger -c), or with\n  \
             --rotate, which loses a moment instead of the rest.",
        ),
        (
            "throttled",
            "  The driver takes no samples of a CPU until its next tick if they are more\n  \
             than the module's limits, by default 100,000 a second and a quarter of the\n  \
             CPU's time; and, with any limits, if an interrupt has found overflows\n  \
             eight times. Take fewer (a larger -c, a smaller -F), or load the module\n  \
             with higher limits:\n  \
             perf_event_max_sample_rate=, perf_cpu_time_max_percent=.",
        ),
        (
            "throttled by Linux",
            "  Linux limits the samples of its own PMUs: such an event pauses until the\n  \
             next tick (kernel.perf_event_max_sample_rate, perf_cpu_time_max_percent).\n  \
             Take fewer (a larger -c, a smaller -F).",
        ),
        (
            "offline",
            "  The CPU went offline: what it did until then is recorded.",
        ),
        (
            "lost",
            "  Something else changed the registers of the PMU: see `dmesg`.",
        ),
    ];
    let applies = |(word, _): &&(&str, &str)| {
        let mut reasons = losses.iter().flat_map(|loss| loss.reason.split(", "));
        reasons.any(|reason| reason == *word)
    };
    let advice = LOSS_ADVICE.iter().filter(applies);
    let advice_for_recording = |(word, advice): &(&str, &'static str)| match *word {
        "full" if rotate => ROTATED_ADVICE,
        _ => *advice,
    };
    advice.map(advice_for_recording).collect()
}

/// Samples of a CPU that are missing, with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loss {
    pub(crate) cpu: u32,
    /// Reasons in words, from the flags of the CPU's buffer, separated by ", ".
    pub(crate) reason: String,
    /// Number of samples that were not taken although their events were counted.
    pub(crate) samples: u64,
    /// All events were counted, also those without a sample. Always false in recordings of earlier versions.
    #[serde(default)]
    pub(crate) counted: bool,
}

impl Loss {
    /// Describes the missing samples in words.
    fn in_words(&self) -> String {
        const UNKNOWN_LOSS: &str = "an unknown number of events";
        let samples = count(self.samples, "sample");
        match (self.samples, self.counted) {
            (0, false) => UNKNOWN_LOSS.to_owned(),
            (_, false) => format!("{samples}, and {UNKNOWN_LOSS}"),
            (_, true) => format!("{samples}; all events were counted"),
        }
    }

    /// Returns the least number of missing samples.
    pub(crate) fn min_samples(&self) -> u64 {
        self.samples.max(1)
    }
}

/// The gaps between two buffers, in which nothing was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BufferGaps {
    pub(crate) number: u64,
    /// Sum of all gaps.
    pub(crate) nanoseconds: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the warnings about these notes.
    fn warning(notes: &Notes) -> String {
        let mut text = Vec::new();
        warn(notes, Colors::default(), &mut text).expect("a vector takes everything");
        String::from_utf8(text).expect("it is text")
    }

    fn lost(reason: &str, samples: u64, counted: bool) -> Notes {
        let reason = reason.to_owned();
        let loss = Loss {
            cpu: 1,
            reason,
            samples,
            counted,
        };
        Notes {
            losses: vec![loss],
            ..Notes::default()
        }
    }

    #[test]
    fn losses_with_and_without_counts_differ() {
        let first = |notes: &Notes| warning(notes).lines().next().map(str::to_owned);
        let unknown = "an unknown number of events.";
        let notes = lost("full", 0, false);
        assert_eq!(
            first(&notes),
            Some(format!("LOST: CPU 1 (full): {unknown}"))
        );
        assert!(!notes.counted_all());
        let notes = lost("full", 2, false);
        assert_eq!(
            first(&notes),
            Some(format!("LOST: CPU 1 (full): 2 samples, and {unknown}"))
        );
        let notes = lost("throttled", 1, true);
        assert_eq!(
            first(&notes).as_deref(),
            Some("LOST: CPU 1 (throttled): 1 sample; all events were counted.")
        );
        assert!(notes.counted_all());
    }

    #[test]
    fn a_cut_recording_names_the_reason_without_nested_brackets() {
        let notes = Notes {
            cut: Some("File too large".to_owned()),
            ..Notes::default()
        };
        let text = warning(&notes);
        assert!(
            text.contains("the file could not grow: File too large. All before"),
            "{text}"
        );
    }

    #[test]
    fn advice_matches_the_reasons_of_losses() {
        let advise =
            |reason: &str, rotate| advice(&lost(reason, 1, false).losses, rotate).join(" ");
        let advice = |reason: &str| advise(reason, false);
        assert_eq!(advice("not traced"), "");
        assert!(advice("full").contains("-m") && advice("full").contains("--rotate"));
        let rotation_advice = advise("full", true);
        assert!(
            rotation_advice.contains("-m")
                && rotation_advice.contains("-c")
                && !rotation_advice.contains("--rotate")
        );
        let fast = advice("too fast");
        assert!(fast.contains("-m") && fast.contains("-c") && !fast.contains("--rotate"));
        assert_eq!(advise("throttled", true), advice("throttled"));
        let throttling_advice = advice("throttled");
        assert!(throttling_advice.contains("-c") && throttling_advice.contains("max_sample_rate"));
        assert!(!throttling_advice.contains("-m)"));
        assert!(advice("offline").contains("offline") && !advice("offline").contains("-c"));
        let reasons = [
            "too fast",
            "ring full",
            "full",
            "throttled",
            "offline",
            "lost",
        ];
        let texts = reasons.map(advice).into_iter().chain([rotation_advice]);
        for line in texts.collect::<Vec<_>>().join("\n").lines() {
            assert!(line.len() <= 76, "it fits into the window of `tui`: {line}");
        }
        assert!(advice("full, lost").contains("dmesg") && advice("full, lost").contains("-m"));
        assert!(!advice("unlost").contains("dmesg"));
    }

    #[test]
    fn a_replaced_file_is_warned_of() {
        let table = |file: &str, replaced| SymbolTable {
            file: file.to_owned(),
            replaced,
            ..SymbolTable::default()
        };
        let notes = Notes {
            symbols: vec![table("/bin/a", false), table("/bin/b", true)],
            ..Notes::default()
        };
        assert_eq!(
            warning(&notes),
            "DEGRADED: /bin/b is not what was recorded, it was replaced or removed: its functions have no names.\n"
        );
    }

    #[test]
    fn a_single_change_of_buffers_is_one_time() {
        let gaps = BufferGaps {
            number: 1,
            nanoseconds: 2_500_000,
        };
        let notes = Notes {
            gaps,
            ..Notes::default()
        };
        assert_eq!(
            warning(&notes),
            "The buffers were replaced 1 time; 2.5 ms in all were not recorded.\n"
        );
    }
}

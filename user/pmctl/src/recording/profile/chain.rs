// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of a call chain.

use std::mem;

use super::{NamedSample, SampleNames, Site, SourceLines};
use crate::recording::perfdata::{Sample, is_kernel};
use crate::recording::symbols::{SourceLine, Text};
use crate::recording::unwind::UNWOUND;

/// A function of a call chain.
#[derive(Clone, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) address: u64,
    /// The names of the address.
    pub(crate) site: Site<'a>,
    /// The address is where a caller returns to.
    pub(crate) is_return: bool,
    /// The function that was inlined at the address, if this is one.
    pub(crate) inlined: Option<Text>,
    /// The source line, if it was asked for.
    pub(crate) line: Option<Text>,
    /// The line as path and number.
    pub(crate) source: Option<SourceLine>,
}

impl<'a> Frame<'a> {
    /// Returns the function at the sampled address.
    pub(crate) fn of_sample(named: &NamedSample<'a>) -> Self {
        Self {
            address: named.sample.ip,
            site: named.site,
            is_return: false,
            inlined: None,
            line: None,
            source: None,
        }
    }
}

impl Frame<'_> {
    /// Returns the name for a list of functions, as perf has it.
    pub(crate) fn label(&self) -> String {
        match &self.inlined {
            Some(name) => format!("{} (inlined)", name.text),
            None => self.site.symbol().to_owned(),
        }
    }

    /// Returns the source line.
    pub(crate) fn line(&self) -> &str {
        self.line.as_ref().map_or(NO_LINE, |line| &line.text)
    }
}

/// Stands for a line that is not known, as with addr2line.
const NO_LINE: &str = "??:0";

/// Returns whether a sample is of the kernel and its call chain of the program only, as without the kernel's callers: then
/// the function of the sample is none of the chain.
pub(crate) fn is_above_its_chain(sample: &Sample) -> bool {
    let first = sample.chain.iter().find(|word| !is_mark(**word));
    first.is_some_and(|first| is_kernel(sample.ip) && !is_kernel(*first))
}

impl SampleNames<'_> {
    /// Returns the functions of a sample's call chain, from the sampled address outward. Without a call chain it is the
    /// function at the sampled address alone.
    pub(crate) fn chain<'b>(
        &'b self,
        named: &'b NamedSample<'_>,
    ) -> impl Iterator<Item = Frame<'b>> + 'b {
        let (pid, sample) = (named.stamp.task.pid, named.sample);
        let has_chain = sample.chain.iter().any(|word| !is_mark(*word));
        let alone = if has_chain { None } else { Some(sample.ip) };
        // Behind a mark is where the kernel or the program was interrupted.
        let mut is_return = false;
        let mut is_exact = false;
        let addresses = alone.into_iter().chain(sample.chain.iter().copied());
        addresses.filter_map(move |address| {
            if is_mark(address) {
                is_return = false;
                is_exact = address == UNWOUND;
                return None;
            }
            let frame = Frame {
                address,
                site: self.site(pid, address),
                is_return,
                inlined: None,
                line: None,
                source: None,
            };
            is_return = !is_exact;
            Some(frame)
        })
    }

    /// Returns at most `limit` of these with the functions that were inlined there, if `inline` is set, and with source
    /// lines.
    pub(crate) fn chain_with_lines<'b>(
        &'b self,
        named: &'b NamedSample<'_>,
        source_lines: &SourceLines<'_>,
        (inline, limit): (bool, usize),
    ) -> Vec<Frame<'b>> {
        let mut frames = Vec::new();
        for frame in self.chain(named).take(limit) {
            let levels = source_lines.at(&frame.site, frame.is_return);
            let first = if inline { 0 } else { levels.len() - 1 };
            // The innermost line is that of the address.
            let innermost = levels.first();
            for level in &levels[first..] {
                let at = innermost.filter(|_| !inline).unwrap_or(level);
                frames.push(Frame {
                    inlined: level.inlined.clone(),
                    line: at.line.clone(),
                    source: at.source.clone(),
                    ..frame.clone()
                });
            }
        }
        frames
    }
}

/// Replaces the program's part of a call chain, but for its first address, with the calls that the CPU recorded, the newest
/// first, as perf does. Returns how many they are.
pub(super) fn join_calls(sample: &mut Sample) -> usize {
    let calls = mem::take(&mut sample.branches);
    let user = sample.chain.iter().position(|word| *word == USER);
    let Some(user) = user.filter(|_| !calls.is_empty()) else {
        return 0;
    };
    sample.chain.truncate(user + 2);
    sample.chain[user] = UNWOUND;
    sample.chain.extend(calls.iter().map(|call| call.from));
    calls.len()
}

/// A mark in a call chain: the program's addresses follow.
const USER: u64 = 512_u64.wrapping_neg();

/// Returns whether a word of a call chain is a mark between kernel and program: `enum perf_callchain_context`.
const fn is_mark(word: u64) -> bool {
    word >= 4095_u64.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::recording::perfdata::{Branch, Recording};
    use crate::recording::profile::each_sample;
    use crate::recording::symbols::testing::Inlined;

    /// A recording with one sample, in a function that was inlined.
    fn recorded(program: &Inlined) -> Recording {
        let here = Inlined::START + program.here;
        program.recorded(&[Sample {
            ip: here,
            // As if the place were a return address, too.
            chain: vec![USER, here, here + 1],
            ..Sample::default()
        }])
    }

    #[test]
    fn calls_take_the_place_of_frame_pointers() {
        const KERNEL: u64 = 128_u64.wrapping_neg();
        let call = |from| Branch {
            from,
            to: from + 100,
            ..Branch::default()
        };
        let joined = |chain: &[u64], calls: &[u64]| {
            let mut sample = Sample {
                chain: chain.to_vec(),
                branches: calls.iter().copied().map(call).collect(),
                ..Sample::default()
            };
            join_calls(&mut sample);
            assert_eq!(sample.branches, []);
            sample.chain
        };
        assert_eq!(
            joined(&[KERNEL, 1 << 63, USER, 10, 20], &[30, 40]),
            [KERNEL, 1 << 63, UNWOUND, 10, 30, 40]
        );
        assert_eq!(joined(&[USER, 10, 20], &[]), [USER, 10, 20]);
        assert_eq!(joined(&[USER], &[30]), [UNWOUND, 30]);
        assert_eq!(joined(&[KERNEL, 1 << 63], &[30]), [KERNEL, 1 << 63]);
    }

    #[test]
    fn a_chain_without_the_kernels_part_is_below_its_sample() {
        const KERNEL: u64 = 1 << 63;
        let is_above = |ip, chain: &[u64]| {
            is_above_its_chain(&Sample {
                ip,
                chain: chain.to_vec(),
                ..Sample::default()
            })
        };
        assert!(is_above(KERNEL, &[USER, 10, 20]));
        assert!(!is_above(
            KERNEL,
            &[128_u64.wrapping_neg(), KERNEL, USER, 10]
        ));
        assert!(!is_above(10, &[USER, 10, 20]));
        assert!(!is_above(KERNEL, &[USER]));
        assert!(!is_above(KERNEL, &[]));
    }

    /// The functions and lines of the sample, and the warnings.
    fn frames(recording: &Recording, inline: bool) -> (Vec<String>, Vec<String>) {
        let source_lines = SourceLines::new(recording);
        let mut all = Vec::new();
        let walked = each_sample(recording, |named, names| {
            let frames = names.chain_with_lines(named, &source_lines, (inline, 9));
            all.extend(frames.iter().map(|f| format!("{} {}", f.label(), f.line())));
            Ok(())
        });
        walked.expect("nothing fails");
        (all, source_lines.warnings())
    }

    #[test]
    fn inlined_functions_are_frames_of_their_own() {
        let program = Inlined::new(&["-g"]);
        let recording = recorded(&program);
        let once = [
            "inner (inlined) inlined.c:2",
            "middle (inlined) inlined.c:5",
            "[unknown] inlined.c:8",
        ];
        let (all, warnings) = frames(&recording, true);
        assert_eq!(all, [once, once].concat());
        assert_eq!(warnings, [""; 0]);
        let (all, _) = frames(&recording, false);
        assert_eq!(all, ["[unknown] inlined.c:2"; 2]);
    }

    #[test]
    fn a_program_without_lines_is_named_once() {
        let program = Inlined::new(&[]);
        let (all, warnings) = frames(&recorded(&program), true);
        assert_eq!(all, ["[unknown] ??:0"; 2]);
        let [warning] = &warnings[..] else {
            panic!("{warnings:?}")
        };
        assert!(warning.contains("compile it with -g"), "{warning}");
    }

    #[test]
    fn a_program_that_was_replaced_has_no_lines() {
        let program = Inlined::new(&["-g"]);
        let mut recording = recorded(&program);
        recording.build_ids[0].id[0] ^= 1;
        let (all, warnings) = frames(&recording, true);
        assert_eq!(all, ["[unknown] ??:0"; 2]);
        assert!(warnings[0].contains("was replaced"), "{warnings:?}");
        recording.build_ids[0].file = PathBuf::from("/other");
        let (_, warnings) = frames(&recording, true);
        assert!(warnings[0].contains("has no build-id"), "{warnings:?}");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call chains of samples, as lists of functions.

use std::{iter, mem};

use perfmon_core::logic::perf_event::PERF_CONTEXT_USER;

use super::sample_names::{NamedSample, SampleNames, Site};
use super::source_lines::SourceLines;
use crate::recording::call_chain::{self, Walk, is_mark};
use crate::recording::perfdata::{Sample, is_kernel_address};
use crate::recording::symbols::{SourceLine, Text};
use crate::recording::unwind::UNWOUND;

/// A function of a call chain.
#[derive(Clone, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) address: u64,
    /// The names of the address.
    pub(crate) site: Site<'a>,
    /// The address is a return address.
    pub(crate) is_return: bool,
    /// Name of the function that was inlined at the address; `None` if the frame is the function that contains the
    /// address.
    pub(crate) inlined: Option<Text>,
    /// The source line as text, if it was looked up.
    pub(crate) line: Option<Text>,
    /// The source line as path and number, if it was looked up.
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
    /// Returns the name of the function as perf shows it.
    pub(crate) fn label(&self) -> String {
        match &self.inlined {
            Some(name) => format!("{} (inlined)", name.text),
            None => self.site.symbol().to_owned(),
        }
    }

    /// Returns the source line as text.
    pub(crate) fn line(&self) -> &str {
        self.line.as_ref().map_or(NO_LINE, |line| &line.text)
    }
}

/// The text for an unknown line, the same as addr2line's.
const NO_LINE: &str = "??:0";

/// Returns the callers of the sampled address in a call chain, and the mark in front of them, if they have one.
///
/// The chain of a precise sample begins where the interrupt came, which is later than the sample.
/// So the sampled address takes the place of the first address that is in the same mode. If the
/// sampled address is the program's, the kernel's functions in front of that first address are left
/// out. If the kernel was sampled, but its callers were not recorded, the chain has only the
/// program's part, and all its addresses are callers.
fn callers(sample: &Sample) -> (Option<u64>, &[u64]) {
    let in_kernel = is_kernel_address(sample.ip);
    let chain = &sample.chain[..];
    let is_in_mode = |word: &u64| !is_mark(*word) && is_kernel_address(*word) == in_kernel;
    match chain.iter().position(is_in_mode) {
        Some(first) => {
            let mark = chain[..first].last().filter(|word| is_mark(**word));
            (mark.copied(), &chain[first + 1..])
        }
        None if in_kernel => (None, chain),
        None => (None, &[]),
    }
}

impl SampleNames<'_> {
    /// Returns the functions of a sample, from the sampled one to the outermost caller.
    pub(crate) fn chain<'b>(
        &'b self,
        named: &'b NamedSample<'_>,
    ) -> impl Iterator<Item = Frame<'b>> + 'b {
        let (mark, callers) = callers(named.sample);
        let callers = self.frames(
            named,
            callers,
            Walk {
                is_at_caller: true,
                has_call_addresses: mark == Some(UNWOUND),
            },
        );
        iter::once(Frame::of_sample(named)).chain(callers)
    }

    /// Returns the functions of a sample's recorded call chain. If the sample has no call chain,
    /// returns only the sampled function.
    pub(crate) fn recorded_chain<'b>(
        &'b self,
        named: &'b NamedSample<'_>,
    ) -> impl Iterator<Item = Frame<'b>> + 'b {
        let chain = &named.sample.chain;
        let has_chain = chain.iter().any(|word| !is_mark(*word));
        let sampled_only = (!has_chain).then(|| Frame::of_sample(named));
        let recorded = self.frames(named, chain, Walk::default());
        sampled_only.into_iter().chain(recorded)
    }

    /// Returns the functions at the addresses of a call chain, or of its last part.
    fn frames<'b>(
        &'b self,
        named: &'b NamedSample<'_>,
        chain: &'b [u64],
        walk: Walk,
    ) -> impl Iterator<Item = Frame<'b>> + 'b {
        call_chain::addresses(chain, walk).map(move |(address, is_return)| Frame {
            address,
            site: self.chain_site(named, address, is_return),
            is_return,
            inlined: None,
            line: None,
            source: None,
        })
    }

    /// Returns the functions of a sample, from the sampled one to the outermost caller. With source lines, inlined
    /// functions are included.
    pub(crate) fn stack<'b>(
        &'b self,
        named: &'b NamedSample<'_>,
        source_lines: Option<&SourceLines<'_>>,
    ) -> Vec<Frame<'b>> {
        let chain = self.chain(named);
        match source_lines {
            Some(source_lines) => with_lines(chain, source_lines, true),
            None => chain.collect(),
        }
    }
}

/// Returns functions of a call chain with their source lines; with `inline`, also the functions that were inlined into
/// them.
pub(crate) fn with_lines<'a>(
    chain: impl Iterator<Item = Frame<'a>>,
    source_lines: &SourceLines<'_>,
    inline: bool,
) -> Vec<Frame<'a>> {
    let mut frames = Vec::new();
    for frame in chain {
        let levels = source_lines.at(&frame.site, frame.is_return);
        let first = if inline { 0 } else { levels.len() - 1 };
        // The innermost level has the line of the address itself.
        let innermost = levels.first();
        for level in &levels[first..] {
            let shown_level = innermost.filter(|_| !inline).unwrap_or(level);
            frames.push(Frame {
                inlined: level.inlined.clone(),
                line: shown_level.line.clone(),
                source: shown_level.source.clone(),
                ..frame.clone()
            });
        }
    }
    frames
}

/// Replaces the program's part of a call chain, except its first address, by the calls that the CPU recorded, the newest
/// first, as perf does. Returns the number of these calls.
pub(super) fn use_recorded_calls(sample: &mut Sample) -> usize {
    let calls = mem::take(&mut sample.branches);
    let user_mark = sample
        .chain
        .iter()
        .position(|word| *word == PERF_CONTEXT_USER);
    let Some(user_mark) = user_mark.filter(|_| !calls.is_empty()) else {
        return 0;
    };
    sample.chain.truncate(user_mark + 2);
    sample.chain[user_mark] = UNWOUND;
    sample.chain.extend(calls.iter().map(|call| call.from));
    calls.len()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use perfmon_core::logic::perf_event::PERF_CONTEXT_KERNEL;

    use super::*;
    use crate::recording::perfdata::{Body, Branch, Record, Recording, Records, Stamp};
    use crate::recording::profile::each_sample;
    use crate::recording::symbols::testing::Inlined;

    /// Returns a recording with one sample, in a function that was inlined.
    fn recorded(program: &Inlined) -> Recording {
        let address = Inlined::START + program.here;
        program.recorded(&[Sample {
            ip: address,
            // The same address as the sampled one, and as a return address.
            chain: vec![PERF_CONTEXT_USER, address, address + 1],
            ..Sample::default()
        }])
    }

    #[test]
    fn recorded_calls_replace_frame_pointers() {
        let call = |from| Branch {
            from,
            to: from + 100,
            ..Branch::default()
        };
        let with_calls = |chain: &[u64], calls: &[u64]| {
            let mut sample = Sample {
                chain: chain.to_vec(),
                branches: calls.iter().copied().map(call).collect(),
                ..Sample::default()
            };
            use_recorded_calls(&mut sample);
            assert_eq!(sample.branches, []);
            sample.chain
        };
        assert_eq!(
            with_calls(
                &[PERF_CONTEXT_KERNEL, 1 << 63, PERF_CONTEXT_USER, 10, 20],
                &[30, 40]
            ),
            [PERF_CONTEXT_KERNEL, 1 << 63, UNWOUND, 10, 30, 40]
        );
        assert_eq!(
            with_calls(&[PERF_CONTEXT_USER, 10, 20], &[]),
            [PERF_CONTEXT_USER, 10, 20]
        );
        assert_eq!(with_calls(&[PERF_CONTEXT_USER], &[30]), [UNWOUND, 30]);
        assert_eq!(
            with_calls(&[PERF_CONTEXT_KERNEL, 1 << 63], &[30]),
            [PERF_CONTEXT_KERNEL, 1 << 63]
        );
    }

    #[test]
    fn a_stack_begins_with_the_sampled_function() {
        const IN_KERNEL: u64 = 1 << 63;
        for (ip, chain, expected) in [
            (
                IN_KERNEL,
                vec![PERF_CONTEXT_USER, 10, 20],
                vec![IN_KERNEL, 10, 20],
            ),
            (10, vec![PERF_CONTEXT_USER, 10, 20], vec![10, 20]),
            (10, vec![], vec![10]),
            // The interrupt of a precise sample came later, in the same mode or in the other one.
            (10, vec![PERF_CONTEXT_USER, 11, 20], vec![10, 20]),
            (
                IN_KERNEL,
                vec![
                    PERF_CONTEXT_KERNEL,
                    IN_KERNEL + 1,
                    IN_KERNEL + 2,
                    PERF_CONTEXT_USER,
                    10,
                    20,
                ],
                vec![IN_KERNEL, IN_KERNEL + 2, 10, 20],
            ),
            (
                10,
                vec![
                    PERF_CONTEXT_KERNEL,
                    IN_KERNEL,
                    IN_KERNEL + 1,
                    PERF_CONTEXT_USER,
                    11,
                    20,
                ],
                vec![10, 20],
            ),
            (
                10,
                vec![PERF_CONTEXT_KERNEL, IN_KERNEL, IN_KERNEL + 1],
                vec![10],
            ),
            (
                10,
                vec![PERF_CONTEXT_KERNEL, IN_KERNEL, UNWOUND, 11, 20],
                vec![10, 20],
            ),
        ] {
            let sample = Sample {
                ip,
                chain,
                ..Sample::default()
            };
            let record = Record {
                stamp: Stamp::default(),
                body: Body::Sample(sample),
            };
            let recording = Recording {
                records: Records::from(&[record][..]),
                ..Recording::default()
            };
            let mut addresses = Vec::new();
            let result = each_sample(&recording, |named, names| {
                let stack = names.stack(named, None);
                addresses.extend(stack.iter().map(|frame| frame.address));
                Ok(())
            });
            result.expect("nothing fails");
            assert_eq!(addresses, expected);
        }
    }

    /// Returns the functions and lines of the sample, and the warnings.
    fn frames(recording: &Recording, inline: bool) -> (Vec<String>, Vec<String>) {
        let source_lines = SourceLines::new(recording);
        let mut all = Vec::new();
        let result = each_sample(recording, |named, names| {
            let frames = with_lines(names.chain(named), &source_lines, inline);
            all.extend(frames.iter().map(|f| format!("{} {}", f.label(), f.line())));
            Ok(())
        });
        result.expect("nothing fails");
        (all, source_lines.warnings())
    }

    #[test]
    fn inlined_functions_are_frames_of_their_own() {
        let program = Inlined::new(&["-g"]);
        let recording = recorded(&program);
        let inlined_frames = [
            "inner (inlined) inlined.c:2",
            "middle (inlined) inlined.c:5",
            "[unknown] inlined.c:8",
        ];
        let (all, warnings) = frames(&recording, true);
        assert_eq!(all, [inlined_frames, inlined_frames].concat());
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The modes of `pmctl record --call-graph`.

use std::ffi::OsString;

use crate::recording::perfdata::UserStack;

/// The method that finds callers in the program (`--call-graph`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallGraphMode {
    /// Frame pointers, which the driver follows when it takes a sample.
    FramePointers,
    /// The program's unwind tables, applied to a copy of the stack. The number is the size of the
    /// copy in each sample, in bytes.
    Dwarf(u32),
    /// The calls that the CPU records (LBR).
    LastBranches,
}

/// The call chains of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallGraph {
    FramePointers(Callers),
    Dwarf {
        /// Bytes of the program's stack in each sample.
        stack: u32,
        kernel: KernelCallers,
    },
    LastBranches(KernelCallers),
}

/// The callers that a call chain by frame pointers includes: those in programs, in the kernel, or
/// in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callers {
    All,
    Programs,
    Kernel,
}

/// The treatment of callers in the kernel: call chains include them, or leave them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelCallers {
    Recorded,
    LeftOut,
}

impl CallGraphMode {
    /// Parses perf's names of the modes. The error is a message for the user.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mode, size) = match text.split_once(',') {
            Some((mode, size)) => (mode, Some(size)),
            None => (text, None),
        };
        match (mode, size) {
            ("fp", None) => Ok(Self::FramePointers),
            ("lbr", None) => Ok(Self::LastBranches),
            ("dwarf", None) => Ok(Self::Dwarf(UserStack::DEFAULT_SIZE)),
            ("dwarf", Some(size)) => parse_stack_size(size).map(Self::Dwarf),
            _ => Err("it takes `fp`, `dwarf`, `dwarf,BYTES` or `lbr`".to_owned()),
        }
    }
}

/// Parses the size of a stack in bytes, rounded up to a multiple of 8, the same as perf does. The error is a message for
/// the user.
fn parse_stack_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| *size > 0);
    let size = size.and_then(|size: u32| size.checked_next_multiple_of(8));
    size.filter(|size| *size <= UserStack::MAX_SIZE)
        .ok_or_else(|| format!("a stack has from 8 to {} bytes", UserStack::MAX_SIZE))
}

/// Replaces `-g dwarf` in pmctl's arguments by `-g --call-graph=dwarf`; `None` if there is no such mode to replace.
///
/// `command` is the last part of `words`: the words that clap took for the command to run. clap
/// takes the mode after `-g` for the name of a program, so `command` begins with the mode if there
/// is one.
pub(crate) fn with_mode_as_option(
    words: &[OsString],
    command: &[OsString],
) -> Option<Vec<OsString>> {
    let command_index = words.len().checked_sub(command.len())?;
    let (option, mode) = (words[..command_index].last()?, command.first()?);
    // The option `-g` stands alone, or is the last of several letters.
    let is_option =
        |word: &str| word.starts_with('-') && !word.starts_with("--") && word.ends_with('g');
    let is_mode = |word: &str| matches!(word.split(',').next(), Some("fp" | "dwarf" | "lbr"));
    let has_separate_mode =
        option.to_str().is_some_and(is_option) && mode.to_str().is_some_and(is_mode);
    has_separate_mode.then(|| {
        let mut words = words.to_vec();
        let mut option = OsString::from("--call-graph=");
        option.push(mode);
        words[command_index] = option;
        words
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modes_of_perf_are_parsed() {
        let parse = CallGraphMode::parse;
        assert_eq!(parse("fp"), Ok(CallGraphMode::FramePointers));
        assert_eq!(parse("lbr"), Ok(CallGraphMode::LastBranches));
        assert_eq!(parse("dwarf"), Ok(CallGraphMode::Dwarf(8192)));
        assert_eq!(parse("dwarf,1"), Ok(CallGraphMode::Dwarf(8)));
        assert_eq!(parse("dwarf,65528"), Ok(CallGraphMode::Dwarf(65528)));
        for wrong in [
            "",
            "dwarf,",
            "dwarf,0",
            "dwarf,65529",
            "dwarf,4294967295",
            "fp,8",
            "x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mode_after_g_is_not_the_command() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let with_mode_after = |before: &str, command: &str| {
            let command = words(command);
            with_mode_as_option(&[words(before), command.clone()].concat(), &command)
        };
        assert_eq!(
            with_mode_after("pmctl record -ag", "dwarf,64 -c 9 -- ls -g dwarf"),
            Some(words(
                "pmctl record -ag --call-graph=dwarf,64 -c 9 -- ls -g dwarf"
            ))
        );
        for (before, command) in [
            ("pmctl record -g", "ls -g dwarf"),
            ("pmctl record -g --", "dwarf"),
            ("pmctl record", "dwarf"),
            ("pmctl record --debug", "dwarf"),
        ] {
            assert_eq!(with_mode_after(before, command), None, "{before} {command}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! How `pmctl record` finds out call chains.

use std::ffi::OsString;

use super::Record;
use crate::recording::perfdata::UserStack;

/// What the program's part of call chains comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallGraph {
    /// Frame pointers, which the driver follows.
    FramePointers,
    /// So many bytes of the stack, which are looked into later, by the tables of programs.
    Dwarf(u32),
    /// Branches that the CPU records.
    LastBranches,
}

impl CallGraph {
    /// Parses perf's words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (mode, size) = match text.split_once(',') {
            Some((mode, size)) => (mode, Some(size)),
            None => (text, None),
        };
        match (mode, size) {
            ("fp", None) => Ok(Self::FramePointers),
            ("lbr", None) => Ok(Self::LastBranches),
            ("dwarf", None) => Ok(Self::Dwarf(UserStack::DEFAULT)),
            ("dwarf", Some(size)) => stack_size(size).map(Self::Dwarf),
            _ => Err("it takes `fp`, `dwarf`, `dwarf,BYTES` or `lbr`".to_owned()),
        }
    }
}

/// Returns a size of a stack, rounded up as perf does it.
fn stack_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| *size > 0);
    let size = size.and_then(|size: u32| size.checked_next_multiple_of(8));
    size.filter(|size| *size <= UserStack::MOST).ok_or_else(|| {
        format!(
            "dwarf,{text}: a stack has from 8 to {} bytes",
            UserStack::MOST
        )
    })
}

/// Returns these arguments of the program with `-g --call-graph=dwarf` in the place of `-g dwarf`; `None` if there is
/// nothing to replace. `command` is what was taken for the command: behind `-g dwarf` it begins with the mode, and the
/// options behind that are in it, too.
pub(crate) fn with_mode(words: &[OsString], command: &[OsString]) -> Option<Vec<OsString>> {
    let place = words.len().checked_sub(command.len())?;
    let (before, mode) = (words[..place].last()?, command.first()?);
    // Alone, or as the last of several letters.
    let is_option =
        |word: &str| word.starts_with('-') && !word.starts_with("--") && word.ends_with('g');
    let is_mode = |word: &str| matches!(word.split(',').next(), Some("fp" | "dwarf" | "lbr"));
    let applies = before.to_str().is_some_and(is_option) && mode.to_str().is_some_and(is_mode);
    applies.then(|| {
        let mut words = words.to_vec();
        let mut option = OsString::from("--call-graph=");
        option.push(mode);
        words[place] = option;
        words
    })
}

impl Record {
    /// Returns how call chains are found out, if they are asked for.
    pub(crate) fn call_graph(&self) -> Option<CallGraph> {
        let frame_pointers = self.chains.then_some(CallGraph::FramePointers);
        self.call_graph.or(frame_pointers)
    }

    /// Returns whether samples have the calls that the CPU has recorded.
    pub(crate) fn has_calls(&self) -> bool {
        self.call_graph() == Some(CallGraph::LastBranches)
    }

    /// Returns the bytes of the stack that samples have.
    pub(crate) fn stack(&self) -> Option<u32> {
        match self.call_graph() {
            Some(CallGraph::Dwarf(bytes)) => Some(bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_perfs() {
        let parse = CallGraph::parse;
        assert_eq!(parse("fp"), Ok(CallGraph::FramePointers));
        assert_eq!(parse("lbr"), Ok(CallGraph::LastBranches));
        assert_eq!(parse("dwarf"), Ok(CallGraph::Dwarf(8192)));
        assert_eq!(parse("dwarf,1"), Ok(CallGraph::Dwarf(8)));
        assert_eq!(parse("dwarf,65528"), Ok(CallGraph::Dwarf(65528)));
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
    fn a_mode_behind_g_is_no_command() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let replaced = |before: &str, command: &str| {
            let command = words(command);
            with_mode(&[words(before), command.clone()].concat(), &command)
        };
        assert_eq!(
            replaced("pmctl record -ag", "dwarf,64 -c 9 -- ls -g dwarf"),
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
            assert_eq!(replaced(before, command), None, "{before} {command}");
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of one command, read without the definition of all others: making that takes more instructions than
//! anything else in a short `pmctl stat`.

use std::ffi::OsString;

use clap::{Args, Parser};

use super::{Command, Record, call_graph};

/// The options of one command.
#[derive(Debug, Parser)]
#[command(name = "pmctl")]
struct Only<A: Args> {
    #[command(flatten)]
    options: A,
}

/// Returns the command of a command line that is right; `None` if it is another command, asks for help, or is wrong: the
/// whole definition tells what is to be said then.
pub(crate) fn parse(words: &[OsString]) -> Option<Command> {
    let line = words.get(1..)?;
    match line.first()?.to_str()? {
        "stat" => options(line).map(Command::Stat),
        // Its call graphs may take another look.
        "record" => options(line)
            .filter(|record: &Record| call_graph::with_mode(words, &record.command).is_none())
            .map(Command::Record),
        "report" => options(line).map(Command::Report),
        "script" => options(line).map(Command::Script),
        _ => None,
    }
}

fn options<A: Args>(line: &[OsString]) -> Option<A> {
    let only = Only::<A>::try_parse_from(line).ok()?;
    Some(only.options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    #[test]
    fn both_ways_read_the_same() {
        for line in [
            "pmctl stat true",
            "pmctl stat -e cycles,instructions:u -r 3 -x, -- ls -l --json",
            "pmctl stat -a -I100 --timeout 1000",
            "pmctl record -g -F 99 -o x -- make -j2",
            "pmctl report -i x --sort comm",
            "pmctl script -i x",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let quick = parse(&words).expect(line);
            let whole = Cli::parse_words(&words).expect(line);
            assert_eq!(format!("{quick:?}"), format!("{:?}", whole.command));
        }
    }

    #[test]
    fn what_needs_an_answer_is_left_to_the_whole() {
        for line in [
            "pmctl",
            "pmctl list",
            "pmctl stat --help",
            "pmctl stat --no-such",
            "pmctl stat -r x true",
            "pmctl help stat",
            "pmctl -V",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert!(parse(&words).is_none(), "{line}");
        }
    }
}

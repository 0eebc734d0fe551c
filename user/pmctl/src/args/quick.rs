// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the command line of frequent commands with a parser for that command alone. Building the parser for all commands
//! takes more instructions than anything else in a short `pmctl stat`.

use std::ffi::OsString;

use clap::{Args, Parser};

use super::{Command, Json, Record, Stat, call_graph};

/// The options of one command.
#[derive(Debug, Parser)]
#[command(name = "pmctl")]
struct SingleCommand<A: Args> {
    #[command(flatten)]
    options: A,
}

/// Returns the command of a correct command line; `None` for other commands, for help and for
/// mistakes: the parser for all commands handles these.
pub(crate) fn parse(words: &[OsString]) -> Option<Command> {
    let line = words.get(1..)?;
    match line.first()?.to_str()? {
        "stat" => parse_frequent_stat(&line[1..])
            .or_else(|| parse_options(line))
            .map(Command::Stat),
        // `record -g dwarf` needs the arguments to be parsed twice, which `Cli::parse_words` does.
        "record" => parse_options(line)
            .filter(|record: &Record| {
                call_graph::with_mode_as_option(words, &record.command).is_none()
            })
            .map(Command::Record),
        "report" => parse_options(line).map(Command::Report),
        "script" => parse_options(line).map(Command::Script),
        _ => None,
    }
}

/// Parses the most frequent options of `pmctl stat` without clap; `None` if there are other options, or one is wrong or
/// given twice.
fn parse_frequent_stat(words: &[OsString]) -> Option<Stat> {
    let mut stat = Stat {
        td_level: 1,
        ..Stat::default()
    };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut value = || {
            let value = rest.next()?.to_str()?;
            let is_option = value.len() > 1 && value.starts_with('-');
            (!value.is_empty() && !is_option).then_some(value)
        };
        match word.to_str()? {
            "-e" => stat.events.push(value()?.to_owned()),
            "-a" if !stat.all_cpus => stat.all_cpus = true,
            "-j" | "--json" if stat.json.is_none() => stat.json = Some(Json::Perf),
            "-o" if stat.output.is_none() => stat.output = Some(value()?.into()),
            "-r" if stat.repeat.is_none() => stat.repeat = Some(value()?.parse().ok()?),
            "--" => {
                stat.command = rest.cloned().collect();
                return Some(stat);
            }
            option if option.starts_with('-') => return None,
            _ => {
                stat.command = [word].into_iter().chain(rest).cloned().collect();
                let has_mark = stat.command.iter().any(|word| word == "--");
                return (!has_mark).then_some(stat);
            }
        }
    }
    Some(stat)
}

/// Parses the options of one command, whose name is the first word; `None` if there is a mistake.
fn parse_options<A: Args>(line: &[OsString]) -> Option<A> {
    let command_line = SingleCommand::<A>::try_parse_from(line).ok()?;
    Some(command_line.options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;

    #[test]
    fn both_parsers_agree() {
        for line in [
            "pmctl stat true",
            "pmctl stat -e cycles,instructions:u -r 3 -x, -- ls -l --json",
            "pmctl stat -a -I100 --timeout 1000",
            "pmctl record -g -F 99 -o x -- make -j2",
            "pmctl report -i x --sort comm",
            "pmctl script -i x",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let command = parse(&words).expect(line);
            let expected = Cli::parse_words(&words).expect(line);
            assert_eq!(format!("{command:?}"), format!("{:?}", expected.command));
        }
    }

    #[test]
    fn frequent_options_are_parsed_like_clap_does() {
        let words = [
            "-e", "cycles", "-a", "-j", "--json", "-o", "-", "x", "-r", "3", "--", "true", "-v",
            "", "-e5",
        ];
        let mut random = 1_u64;
        let mut number = |limit: usize| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(random >> 33).expect("31 bits") % limit
        };
        let mut same_count = 0;
        for _ in 0..3000 {
            let mut line = vec![OsString::from("stat")];
            line.extend((0..number(7)).map(|_| OsString::from(words[number(words.len())])));
            let Some(stat) = parse_frequent_stat(&line[1..]) else {
                continue;
            };
            let expected: Stat =
                parse_options(&line).unwrap_or_else(|| panic!("{line:?} is refused"));
            assert_eq!(format!("{stat:?}"), format!("{expected:?}"), "{line:?}");
            same_count += 1;
        }
        assert!(same_count > 300, "{same_count}");
    }

    #[test]
    fn help_and_mistakes_are_left_to_the_other_parser() {
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

// SPDX-License-Identifier: MIT OR Apache-2.0
//! The runs: the commands in turns.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use anyhow::{Result, bail};
use perfmon::spec::EventSpec;
use perfmon_compare::document::BenchEntry;

use crate::args::Bench;
use crate::commands::stat::LEFT_PROGRAM_REASON;
use crate::commands::stat::series::{Series, SingleRun};
use crate::system::child::{self, CannotRun, Command, Ending, Streams, Waiting};
use crate::system::exit::{Failed, Usage};
use crate::system::signals::{Event, Signals};

/// Advice where one of several commands is not found: it may be an argument of the first.
const QUOTING_ADVICE: &str = "Each COMMAND is one argument, with its own in quotes: `pmctl bench './program input' './other input'`. \
                        Behind -- stands one command: `pmctl bench -- ./program input`.";

/// A command that was found, and how it was written.
pub(super) struct NamedCommand {
    pub(super) name: String,
    advice: Advice,
    command: Command,
}

/// Advice for the message about a command that fails.
struct Advice {
    /// The command for a shell.
    typed: String,
    /// A word of it that only a shell understands.
    for_shell: Option<String>,
}

impl Advice {
    /// Returns that on a command of these words. If it `is_split`, no shell has looked at them.
    fn new(words: &[OsString], is_split: bool) -> Self {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let all = words.iter().map(|word| &**word);
        let for_shell = all.clone().find(|word| is_split && is_for_shell(word));
        Self {
            for_shell: for_shell.map(str::to_owned),
            // It fails for a NUL, which no command can have.
            typed: shlex::try_join(all).unwrap_or_else(|_| words.join(" ")),
        }
    }
}

/// Returns whether a shell would not give this word to a program.
fn is_for_shell(word: &str) -> bool {
    const SHELL_OPERATORS: [&str; 9] = ["|", "||", "&&", "&", ";", "<", ">", ">>", "2>&1"];
    // With a blank in it, it was in quotes.
    SHELL_OPERATORS.contains(&word) || word.contains('$') && !word.contains(char::is_whitespace)
}

/// Returns the commands.
pub(super) fn commands(args: &Bench) -> Result<Vec<NamedCommand>> {
    let named = |name, words: &[OsString], is_split| {
        Ok(NamedCommand {
            name,
            advice: Advice::new(words, is_split),
            command: Command::find(words)?.with(Streams::None),
        })
    };
    if !args.command.is_empty() {
        let words = args.command.iter().map(|word| word.to_string_lossy());
        let name = words.collect::<Vec<_>>().join(" ");
        return Ok(vec![named(name, &args.command, false)?]);
    }
    let commands = args.commands.iter().map(|command| {
        let name = command.to_string_lossy().into_owned();
        let words = if args.shell {
            vec!["sh".into(), "-c".into(), command.clone()]
        } else {
            split(command)?
        };
        named(name, &words, !args.shell)
    });
    commands.collect::<Result<_>>().map_err(|error| {
        let is_missing = error.downcast_ref::<CannotRun>();
        match (is_missing, args.commands.len()) {
            (Some(missing), 2..) => {
                Failed::new(missing.exit_code(), &format!("{missing}\n{QUOTING_ADVICE}")).into()
            }
            _ => error,
        }
    })
}

/// Returns the words of a command, as a shell splits them.
fn split(command: &OsString) -> Result<Vec<OsString>> {
    let text = command.to_string_lossy();
    let words = command.to_str().and_then(shlex::split);
    match words {
        Some(words) if !words.is_empty() => Ok(words.into_iter().map(OsString::from).collect()),
        _ => Err(Usage(format!(
            "`{text}` can't be split into words: a quotation mark is open, or it has none.\nGive one command with its \
             arguments behind --, or let a shell run it with --shell."
        ))
        .into()),
    }
}

/// Runs all commands as often as it is wanted. Returns the events that were counted, and the numbers: first how
/// long it took, then theirs.
pub(super) fn run(
    args: &Bench,
    events: &[EventSpec],
    commands: Vec<NamedCommand>,
    signals: &Signals,
) -> Result<(Vec<EventSpec>, Vec<BenchEntry>)> {
    let prepare = args
        .prepare
        .as_ref()
        .map(PrepareCommand::find)
        .transpose()?;
    let mut entries = Vec::new();
    let (mut series, mut advice) = (Vec::new(), Vec::new());
    for named in commands {
        entries.push(BenchEntry {
            command: named.name,
            values: vec![Vec::new(); events.len() + 1],
        });
        series.push(Series::new(named.command, events.to_vec())?);
        advice.push(named.advice);
    }
    let rounds = args.warmup.saturating_add(args.repeat);
    let progress = BenchProgress::new(rounds);
    'rounds: for round in 0..rounds {
        let mut done: Vec<Option<SingleRun>> = vec![None; series.len()];
        // Another one begins each time.
        for turn in 0..series.len() {
            let index = (turn + round as usize) % series.len();
            progress.show(round);
            if let Some(prepare) = &prepare {
                if prepare.run(signals)? {
                    break 'rounds;
                }
            }
            let once = series[index].run(signals)?;
            if once.is_stopped {
                break 'rounds;
            }
            check(args, (&entries[index].command, &advice[index]), &once)?;
            done[index] = Some(once);
        }
        if round < args.warmup {
            continue;
        }
        for (entry, once) in entries.iter_mut().zip(done.into_iter().flatten()) {
            let elapsed = u64::try_from(once.elapsed.as_nanos()).unwrap_or(u64::MAX);
            let values = [Some(elapsed)].into_iter().chain(once.counts);
            for (runs, value) in entry.values.iter_mut().zip(values) {
                // It is there: it was checked.
                runs.extend(value);
            }
        }
    }
    drop(progress);
    if entries.iter().any(|entry| entry.values[0].is_empty()) {
        bail!(
            "stopped before every command had run once, so there are no numbers. Let it run longer."
        );
    }
    Ok((series[0].events(), entries))
}

fn has_failed(ending: Ending) -> bool {
    ending.exit_code() != 0
}

/// Returns the end of a command in words.
fn ending_in_words(ending: Ending) -> String {
    match ending {
        Ending::Exit(code) => format!("ended with exit code {code}"),
        Ending::Killed(signal) => format!("was killed by {}", child::name_of(signal)),
    }
}

/// Fails if the run is not one to compare.
fn check(args: &Bench, (name, advice): (&str, &Advice), once: &SingleRun) -> Result<()> {
    if let Some(ending) = once
        .ending
        .filter(|ending| has_failed(*ending) && !args.ignore_failure)
    {
        let for_shell = advice.for_shell.as_ref().map_or_else(String::new, |word| {
            format!("`{word}` is an argument here: --shell runs it in a shell.\n")
        });
        bail!(
            "`{name}` {}. Its numbers may be those of a failure.\n{for_shell}`pmctl stat -- {}` shows what it prints; \
             --ignore-failure goes on.",
            ending_in_words(ending),
            advice.typed
        );
    }
    if once.has_left_program {
        bail!("`{name}` was not counted: {LEFT_PROGRAM_REASON}");
    }
    if once.counts.contains(&None) {
        bail!(
            "an event could not be counted while `{name}` ran: the CPU lacks it, or perf took its counter.\n\
             `pmctl stat` with the same events says which."
        );
    }
    Ok(())
}

/// The command of --prepare.
struct PrepareCommand {
    command_line: String,
    command: Command,
}

impl PrepareCommand {
    fn find(command: &OsString) -> Result<Self> {
        let words = ["sh".into(), "-c".into(), command.clone()];
        Ok(Self {
            command_line: command.to_string_lossy().into_owned(),
            command: Command::find(&words)?.with(Streams::None),
        })
    }

    /// Runs it; returns whether a signal asks for the end.
    fn run(&self, signals: &Signals) -> Result<bool> {
        let running = Waiting::fork(&self.command, signals.mask_before())?.release()?;
        let mut is_stopped = false;
        let ending = loop {
            if let Event::End {
                signal,
                by_terminal,
            } = signals.wait(None, None)?
            {
                is_stopped = true;
                // The terminal sends its signals to the command, too.
                if !by_terminal {
                    running.signal(signal);
                }
            }
            if let Some(ending) = running.ending()? {
                break ending;
            }
        };
        if !is_stopped && has_failed(ending) {
            bail!(
                "--prepare: `{}` {}.",
                self.command_line,
                ending_in_words(ending)
            );
        }
        Ok(is_stopped)
    }
}

/// A line that says how far it is, on a terminal.
struct BenchProgress {
    rounds: u32,
    is_shown: bool,
}

impl BenchProgress {
    fn new(rounds: u32) -> Self {
        Self {
            rounds,
            is_shown: io::stderr().is_terminal(),
        }
    }

    fn show(&self, round: u32) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\rround {} of {} ", round + 1, self.rounds);
        }
    }
}

impl Drop for BenchProgress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_shells() {
        let words = |text: &str| split(&text.into());
        let expected: Vec<OsString> = ["a", "b c", "d"].map(OsString::from).to_vec();
        assert_eq!(words("a 'b c' \"d\"").expect("it is well formed"), expected);
        assert!(words("a 'b").is_err());
        assert!(words("  ").is_err());
    }

    #[test]
    fn advice_is_for_a_shell() {
        let advice = |text: &str, is_split| {
            let words = split(&text.into()).expect("it is well formed");
            let Advice { typed, for_shell } = Advice::new(&words, is_split);
            (typed, for_shell)
        };
        let piped = advice("ls / | wc", true);
        assert_eq!(piped, ("ls / '|' wc".to_owned(), Some("|".to_owned())));
        let program = advice("awk '{ print $1 }' words", true);
        assert_eq!(program, ("awk '{ print $1 }' words".to_owned(), None));
        assert_eq!(advice("ls $HOME", true).1.as_deref(), Some("$HOME"));
        assert_eq!(advice("sh -c 'a | b'", false).1, None);
        assert_eq!(advice("echo |", false).1, None);
    }
}

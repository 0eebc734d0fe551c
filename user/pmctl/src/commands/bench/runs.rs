// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the commands in turns, and collects their numbers.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use perfmon::spec::EventSpec;
use perfmon_compare::document::BenchEntry;

use crate::args::Bench;
use crate::commands::stat::UNCOUNTED_PROGRAM_REASON;
use crate::commands::stat::series::{Series, SingleRun};
use crate::system::child::{self, CannotRun, Command, Ending, Streams, WaitingCommand};
use crate::system::exit::{Failed, Usage};
use crate::system::signals::{BlockedSignals, Event};
use crate::system::stdio::complain;
use crate::system::text::count;

/// Advice if one of several commands is not found: the word may be meant as an argument of the first command.
const QUOTING_ADVICE: &str = "Each COMMAND is one argument, with its own in quotes: \
                              `pmctl bench './program input' './other input'`. \
                        After -- write one command: `pmctl bench -- ./program input`.";

/// A command whose program was found, and the command's name in the output.
pub(super) struct NamedCommand {
    pub(super) name: String,
    advice: Advice,
    command: Command,
}

/// Advice for the message about a command that fails.
struct Advice {
    /// The command line, quoted for a shell.
    quoted: String,
    /// A word of the command that only a shell understands.
    shell_word: Option<String>,
}

impl Advice {
    /// Returns the advice on a command of these words. `is_split` is true if pmctl, and not a shell, has split the
    /// command into words.
    fn new(words: &[OsString], is_split: bool) -> Self {
        let mut texts = words.iter().map(|word| word.to_string_lossy());
        let shell_word = texts.find(|word| is_split && is_for_shell(word));
        Self {
            shell_word: shell_word.map(Cow::into_owned),
            quoted: quoted(words),
        }
    }
}

/// Returns the words of a command as they are typed in a shell, so that other words have another text.
fn quoted(words: &[OsString]) -> String {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let texts = words.iter().map(|word| &**word);
    // Quoting fails only for a NUL, which no command can have.
    shlex::try_join(texts).unwrap_or_else(|_| words.join(" "))
}

/// Returns whether a shell would interpret this word, and not pass it to a program.
fn is_for_shell(word: &str) -> bool {
    const SHELL_OPERATORS: [&str; 9] = ["|", "||", "&&", "&", ";", "<", ">", ">>", "2>&1"];
    // A word with a blank was in quotes, so its `$` is not meant for a shell.
    SHELL_OPERATORS.contains(&word) || word.contains('$') && !word.contains(char::is_whitespace)
}

/// Finds the commands of the command line.
pub(super) fn find_commands(args: &Bench) -> Result<Vec<NamedCommand>> {
    let to_command = |name, words: &[OsString], is_split| {
        Ok(NamedCommand {
            name,
            advice: Advice::new(words, is_split),
            command: Command::find(words)?.with_streams(Streams::None),
        })
    };
    if !args.command.is_empty() {
        return Ok(vec![to_command(
            quoted(&args.command),
            &args.command,
            false,
        )?]);
    }
    let commands = args.commands.iter().map(|command| {
        let name = command.to_string_lossy().into_owned();
        let words = if args.shell {
            vec!["sh".into(), "-c".into(), command.clone()]
        } else {
            split_words(command)?
        };
        to_command(name, &words, !args.shell)
    });
    commands.collect::<Result<_>>().map_err(|error| {
        let cannot_run = error.downcast_ref::<CannotRun>();
        match (cannot_run, args.commands.len()) {
            (Some(error), 2..) => {
                Failed::new(error.exit_code(), &format!("{error}\n{QUOTING_ADVICE}")).into()
            }
            _ => error,
        }
    })
}

/// Returns the words of a command, as a shell splits them.
fn split_words(command: &OsString) -> Result<Vec<OsString>> {
    let text = command.to_string_lossy();
    let words = command.to_str().and_then(shlex::split);
    match words {
        Some(words) if !words.is_empty() => Ok(words.into_iter().map(OsString::from).collect()),
        _ => Err(Usage(format!(
            "`{text}` can't be split into words: a quotation mark is not closed, or there is no word.\n\
             Give one command with its arguments after --, or let a shell run it with --shell."
        ))
        .into()),
    }
}

/// Runs all commands as often as the options ask for. Returns the counted events, and for each command the values of its
/// runs: first the elapsed time in nanoseconds, then the count of each event.
pub(super) fn run_all(
    args: &Bench,
    events: &[EventSpec],
    commands: Vec<NamedCommand>,
    signals: &BlockedSignals,
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
    let mut progress = BenchProgress::new(rounds);
    let mut is_stopped = false;
    'rounds: for round in 0..rounds {
        let mut runs: Vec<Option<SingleRun>> = vec![None; series.len()];
        // Each round begins with another command.
        for turn in 0..series.len() {
            let index = (turn + round as usize) % series.len();
            let Some(run) = run_once(&mut series[index], prepare.as_ref(), signals)? else {
                is_stopped = true;
                break 'rounds;
            };
            check_run(args, (&entries[index].command, &advice[index]), &run)?;
            runs[index] = Some(run);
        }
        progress.show(round + 1);
        if round < args.warmup {
            continue;
        }
        for (entry, run) in entries.iter_mut().zip(runs.into_iter().flatten()) {
            add_run(entry, run);
        }
    }
    if entries.iter().any(|entry| entry.values[0].is_empty()) {
        bail!(
            "stopped before every command had run once, so there are no numbers. Let it run longer."
        );
    }
    if is_stopped {
        complain(stop_in_words(entries[0].values[0].len(), args.repeat));
    }
    Ok((series[0].events(), entries))
}

/// Returns the message about a signal that came after this number of complete rounds.
fn stop_in_words(complete: usize, requested: u32) -> String {
    format!(
        "stopped in round {} of {requested}: the numbers are those of the {} before",
        complete + 1,
        count(complete as u64, "round")
    )
}

/// Runs the command of --prepare and then a command. Returns `None` if a signal has stopped them.
fn run_once(
    series: &mut Series,
    prepare: Option<&PrepareCommand>,
    signals: &BlockedSignals,
) -> Result<Option<SingleRun>> {
    if let Some(prepare) = prepare {
        if prepare.run(signals)? {
            return Ok(None);
        }
    }
    let run = series.run(signals)?;
    Ok((!run.is_stopped).then_some(run))
}

/// Adds the numbers of a run to those of its command. [`check_run`] has made sure that there is a value of each event.
fn add_run(entry: &mut BenchEntry, run: SingleRun) {
    let elapsed = u64::try_from(run.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let values = [Some(elapsed)].into_iter().chain(run.counts);
    for (column, value) in entry.values.iter_mut().zip(values) {
        column.extend(value);
    }
}

fn has_failed(ending: Ending) -> bool {
    ending.exit_code() != 0
}

/// Returns the end of a command in words.
fn ending_in_words(ending: Ending) -> String {
    match ending {
        Ending::Exit(code) => format!("ended with exit code {code}"),
        Ending::Killed(signal) => format!("was killed by {}", child::signal_name(signal)),
    }
}

/// Fails if the numbers of a run can't be compared, because the command failed, or a count is missing.
fn check_run(args: &Bench, (name, advice): (&str, &Advice), run: &SingleRun) -> Result<()> {
    if let Some(ending) = run
        .ending
        .filter(|ending| has_failed(*ending) && !args.ignore_failure)
    {
        let shell_advice = advice.shell_word.as_ref().map_or_else(String::new, |word| {
            format!("`{word}` was passed as an argument: --shell runs the command in a shell.\n")
        });
        bail!(
            "`{name}` {}. Its numbers may be those of a failure.\n{shell_advice}`pmctl stat -- {}` shows what it prints; \
             --ignore-failure goes on.",
            ending_in_words(ending),
            advice.quoted
        );
    }
    if run.has_left_program {
        bail!("`{name}` was not counted: {UNCOUNTED_PROGRAM_REASON}");
    }
    if run.counts.contains(&None) {
        bail!(
            "an event could not be counted while `{name}` ran: the CPU lacks it, no task ran on its kind of core, or perf \
             took its counter.\n\
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
            command: Command::find(&words)?.with_streams(Streams::None),
        })
    }

    /// Runs the command. Returns whether a signal has asked pmctl to end.
    fn run(&self, signals: &BlockedSignals) -> Result<bool> {
        let running = WaitingCommand::fork(&self.command, signals.previous_mask())?.release()?;
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

/// Lines of progress for a terminal. The commands use the same terminal, so each line is complete, and is written only
/// between two rounds.
struct BenchProgress {
    rounds: u32,
    started: Instant,
    /// The time from the start to the next line; `None` if standard error is not a terminal. Doubled after each line.
    next_line_time: Option<Duration>,
}

impl BenchProgress {
    /// The time from the start to the first line.
    const FIRST_LINE_TIME: Duration = Duration::from_secs(5);

    fn new(rounds: u32) -> Self {
        Self {
            rounds,
            started: Instant::now(),
            next_line_time: io::stderr().is_terminal().then_some(Self::FIRST_LINE_TIME),
        }
    }

    /// Writes a line if it is time for one. `complete` is the number of rounds that are complete, at least 1.
    fn show(&mut self, complete: u32) {
        let elapsed = self.started.elapsed();
        if let Some(next) = self.next_line_time.filter(|next| elapsed >= *next) {
            self.next_line_time = Some(next * 2);
            if complete < self.rounds {
                complain(progress_in_words(complete, self.rounds, elapsed));
            }
        }
    }
}

/// Returns the message that `complete` of `rounds` rounds have taken `elapsed`.
fn progress_in_words(complete: u32, rounds: u32, elapsed: Duration) -> String {
    let remaining_time = elapsed / complete * (rounds - complete);
    format!(
        "{complete} of {rounds} rounds are complete; the others take about {} s",
        remaining_time.as_secs().max(1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_stop_has_the_complete_rounds() {
        assert_eq!(
            stop_in_words(3, 100),
            "stopped in round 4 of 100: the numbers are those of the 3 rounds before"
        );
        assert!(stop_in_words(1, 5).ends_with("those of the 1 round before"));
    }

    #[test]
    fn progress_has_the_time_of_the_remaining_rounds() {
        assert_eq!(
            progress_in_words(2, 10, Duration::from_secs(10)),
            "2 of 10 rounds are complete; the others take about 40 s"
        );
    }

    #[test]
    fn words_are_split_as_by_a_shell() {
        let words = |text: &str| split_words(&text.into());
        let expected: Vec<OsString> = ["a", "b c", "d"].map(OsString::from).to_vec();
        assert_eq!(words("a 'b c' \"d\"").expect("it is well formed"), expected);
        assert!(words("a 'b").is_err());
        assert!(words("  ").is_err());
    }

    #[test]
    fn other_words_have_another_name() {
        let name = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            quoted(&words)
        };
        assert_eq!(name(&["./p", "a b"]), "./p 'a b'");
        assert_eq!(name(&["./p", "a", "b"]), "./p a b");
        assert_eq!(name(&["./p", "", "$x"]), "./p '' '$x'");
    }

    #[test]
    fn advice_is_for_a_shell() {
        let advice = |text: &str, is_split| {
            let words = split_words(&text.into()).expect("it is well formed");
            let Advice { quoted, shell_word } = Advice::new(&words, is_split);
            (quoted, shell_word)
        };
        let pipe_advice = advice("ls / | wc", true);
        assert_eq!(
            pipe_advice,
            ("ls / '|' wc".to_owned(), Some("|".to_owned()))
        );
        let program = advice("awk '{ print $1 }' words", true);
        assert_eq!(program, ("awk '{ print $1 }' words".to_owned(), None));
        assert_eq!(advice("ls $HOME", true).1.as_deref(), Some("$HOME"));
        assert_eq!(advice("sh -c 'a | b'", false).1, None);
        assert_eq!(advice("echo |", false).1, None);
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates pmctl's manual page, its completions for shells and the page for users of perf from the definition of its
//! command line, or checks that the committed files are up to date.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// The part of the manual page that is written by hand, with marks for the generated parts.
const PAGE_TEMPLATE: &str = "user/pmctl/man/pmctl.1.in";
const SYNOPSIS_MARK: &str = ".\\\" @SYNOPSIS@\n";
const OPTIONS_MARK: &str = ".\\\" @OPTIONS@\n";
const PAGE: &str = "Documentation/pmctl.1";
const FOR_PERF_USERS: &str = "Documentation/pmctl-for-perf-users.rst";
const COMPLETIONS: &str = "user/pmctl/completions";

/// Writes the files.
pub(crate) fn write(top: &Path) -> Result<()> {
    for (name, text) in generate(top)? {
        let path = top.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// Fails unless the committed files are up to date with the command line.
pub(crate) fn check(top: &Path) -> Result<()> {
    for (name, text) in generate(top)? {
        let committed_text = fs::read_to_string(top.join(&name)).unwrap_or_default();
        if committed_text != text {
            bail!(
                "{name} is not up to date with the command line.\nRun `cargo xtask pmctl` in user/."
            );
        }
    }
    Ok(())
}

/// Returns the files: paths relative to the top folder, and texts.
fn generate(top: &Path) -> Result<Vec<(String, String)>> {
    let mut command = pmctl::command();
    command.build();
    let mut files = vec![
        (PAGE.to_owned(), page(top, &command)?),
        (
            FOR_PERF_USERS.to_owned(),
            pmctl::perf_options_page(&command),
        ),
    ];
    for (shell, name) in [
        (Shell::Bash, "pmctl"),
        (Shell::Zsh, "_pmctl"),
        (Shell::Fish, "pmctl.fish"),
    ] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut pmctl::command(), "pmctl", &mut text);
        let text = String::from_utf8(text).context("a completion is not UTF-8")?;
        let text = if shell == Shell::Bash {
            with_names(&text)?
        } else {
            text
        };
        files.push((format!("{COMPLETIONS}/{name}"), with_license(&text)));
    }
    Ok(files)
}

/// Functions of bash that complete the last event or metric of a list, and names of models. Event
/// names are lower case unless a capital letter was typed.
const NAMES_IN_BASH: &str = r#"_pmctl_events() {
    local last=${cur##*,} names
    names=$(pmctl list --raw 2>/dev/null)
    [[ -z ${last} || ${last} == *[A-Z]* ]] || names=${names,,}
    COMPREPLY=($(compgen -P "${cur%"${last}"}" -W "${names}" -- "${last}"))
    compopt -o nospace 2>/dev/null
}

_pmctl_metrics() {
    local last=${cur##*,}
    COMPREPLY=($(compgen -P "${cur%"${last}"}" -W "$(pmctl list metrics --raw 2>/dev/null)" -- "${last}"))
    compopt -o nospace 2>/dev/null
}

_pmctl_models() {
    COMPREPLY=($(compgen -W "$(pmctl list --model help 2>/dev/null)" -- "${cur}"))
}

"#;

/// Returns bash's completion, completing names of events, metrics and models where clap would complete names of files.
fn with_names(bash: &str) -> Result<String> {
    const FILES: &str = r#"COMPREPLY=($(compgen -f "${cur}"))"#;
    let (mut text, mut command, mut option) = (NAMES_IN_BASH.to_owned(), "", "");
    let mut replaced_count = 0;
    for line in bash.lines() {
        let word = line.trim();
        if let Some(name) = word
            .strip_prefix("pmctl__subcmd__")
            .and_then(|rest| rest.strip_suffix(')'))
        {
            command = name;
        } else if let Some(name) = word.strip_suffix(')').filter(|name| name.starts_with('-')) {
            option = name;
        }
        let function = match (command, option) {
            (
                "stat" | "record" | "top" | "bench" | "serve",
                "-e" | "--event" | "--timebase" | "--count",
            ) => "_pmctl_events",
            ("stat", "-M" | "--metrics") => "_pmctl_metrics",
            ("list" | "encode", "-m" | "--model") => "_pmctl_models",
            _ => FILES,
        };
        let changed_line = line.replace(FILES, function);
        replaced_count += usize::from(changed_line != line);
        text += &changed_line;
        text.push('\n');
    }
    if replaced_count != 18 {
        bail!("bash's completion has {replaced_count} places for names, not 18 as expected");
    }
    Ok(text)
}

/// Returns a completion with its licence. zsh's mark stays in front, because it must be the first line.
fn with_license(completion: &str) -> String {
    const ZSH: &str = "#compdef pmctl\n";
    // REUSE-IgnoreStart
    let license = "# SPDX-License-Identifier: MIT OR Apache-2.0\n";
    // REUSE-IgnoreEnd
    let mark = "# Made by `cargo xtask pmctl`: not to be edited.\n";
    match completion.strip_prefix(ZSH) {
        Some(rest) => format!("{ZSH}{license}{mark}{rest}"),
        None => format!("{license}{mark}{completion}"),
    }
}

/// Returns the manual page.
fn page(top: &Path, command: &Command) -> Result<String> {
    let path = top.join(PAGE_TEMPLATE);
    let template =
        fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let (mut synopsis, mut options) = (String::from(".nf\n"), String::new());
    for command in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let usage = command.clone().render_usage().to_string();
        let usage = escape(usage.trim_start_matches("Usage: "));
        synopsis += &format!("\\fB{}\\fR\n", usage.replacen(" [", "\\fR [", 1));
        options += &options_of(command)?;
    }
    synopsis += ".fi\n";
    for mark in [SYNOPSIS_MARK, OPTIONS_MARK] {
        if !template.contains(mark) {
            bail!("{PAGE_TEMPLATE} has no line {mark}");
        }
    }
    let page = template
        .replace(SYNOPSIS_MARK, &synopsis)
        .replace(OPTIONS_MARK, &options);
    Ok(page)
}

/// Returns the section of a command: its description, its options, and the text that follows the
/// options in its help.
fn options_of(command: &Command) -> Result<String> {
    let about = command.get_about().map(ToString::to_string);
    let mut text = format!(
        ".SS {}\n{}.\n",
        command.get_name(),
        escape(&about.unwrap_or_default())
    );
    let mut options = Vec::new();
    Man::new(command.clone()).render_options_section(&mut options)?;
    let options = String::from_utf8(options).context("the options are not UTF-8")?;
    // The first lines are the preamble and the heading of a separate page.
    let (_, options) = options
        .split_once(".SH OPTIONS\n")
        .context("there is no section OPTIONS")?;
    text += options;
    for paragraph in command
        .get_after_help()
        .map(ToString::to_string)
        .iter()
        .flat_map(|help| help.split("\n\n"))
    {
        let (before, after) = if paragraph.contains("\n  ") {
            (".PP\n.nf\n", ".fi\n")
        } else {
            (".PP\n", "")
        };
        text += &format!("{before}{}\n{after}", escape(paragraph));
    }
    Ok(text)
}

/// Escapes a text for roff, where a backslash, a hyphen, and a dot or an apostrophe at the start of a line are special.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.lines().map(|line| match line.chars().next() {
        Some('.' | '\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

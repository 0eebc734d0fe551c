// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report as a TUI, which uses the whole screen and keys.

mod app;
mod draw;
mod functions;
mod table;
mod terminal;
#[cfg(test)]
mod tests;

use std::env;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use crossterm::event::Event as Input;

use crate::args::{Key, Order, Report};
use crate::commands::report::{self, Grouping, Shares, key_heading};
use crate::recording::perfdata::{self, Recording};
use crate::recording::profile::{self, SourceLines};
use crate::system::screen::{Colors, has_unicode};
use app::{App, UserRequest};
use draw::Theme;
use functions::AnnotatedFunctions;
use table::{CallTable, ShownLimits};
use terminal::{Terminal, TerminalEvent};

/// Returns whether a report is to be shown as a TUI, and not as text.
pub(crate) fn is_wanted(args: &Report) -> bool {
    let is_cut = args.limit.is_some() || args.width.is_some();
    let is_text = args.stdio || args.view.no_pager || args.branches || is_cut;
    !is_text && Terminal::is_usable()
}

/// Returns whether there is a terminal that a TUI can use.
pub(crate) fn has_terminal() -> bool {
    Terminal::is_usable()
}

/// Shows a report, and returns the exit code.
pub(crate) fn report(args: &Report) -> Result<u8> {
    let recording = profile::open(&args.input.input)?;
    report::check_recording(args, &recording)?;
    let mut grouping = Grouping::from_args(args);
    if recording.parts().has_chain {
        grouping.graph = grouping.graph.or(Some(Order::Callee));
    }
    let mut tui = Tui::new(&grouping, recording.notes.scope.clone());
    tui.limits = ShownLimits {
        row: args.percent_limit,
        caller: args.graph().map_or(0.0, |graph| graph.min_percent),
    };
    tui.has_name_warnings = true;
    tui.replace_recording(recording)?;
    tui.run(|_| Ok(false))
}

/// A TUI: its state, and the recording that it shows.
pub(crate) struct Tui {
    grouping: Grouping,
    limits: ShownLimits,
    /// Warnings about functions without names are shown. `pmctl top` has no such warnings, since they would change with
    /// each table.
    has_name_warnings: bool,
    app: App,
    functions: AnnotatedFunctions,
}

impl Tui {
    /// Creates a TUI without samples.
    pub(crate) fn new(grouping: &Grouping, title: String) -> Self {
        let headings = grouping.keys.iter().map(|key| key_heading(*key)).collect();
        Self {
            grouping: grouping.clone(),
            limits: ShownLimits::default(),
            has_name_warnings: false,
            app: App::new(title, headings, Vec::new()),
            functions: AnnotatedFunctions::default(),
        }
    }

    /// Shows a recording instead of the previous one.
    pub(crate) fn replace_recording(&mut self, recording: Recording) -> Result<()> {
        let wants_lines = self.grouping.inline || self.grouping.keys.contains(&Key::Srcline);
        let source_lines = wants_lines.then(|| SourceLines::new(&recording));
        let (shares, gaps) = report::sum_by_row(&recording, &self.grouping, source_lines.as_ref())?;
        let tables = shares.iter().enumerate();
        let tables = tables.map(|(index, shares)| self.table(&recording, (index, shares)));
        self.app.replace_tables(tables.collect::<Result<_>>()?);
        let (mut warnings, no_colors) = (Vec::new(), Colors::default());
        if !recording.is_unfinished {
            perfdata::warn(&recording.notes, no_colors, &mut warnings)?;
        }
        if self.has_name_warnings {
            let options = (&self.grouping, source_lines.as_ref());
            gaps.write_warnings(&recording, options, no_colors, &mut warnings)?;
        }
        drop(source_lines);
        let warnings = String::from_utf8_lossy(&warnings);
        self.app.warnings = warnings.lines().map(str::to_owned).collect();
        self.functions = AnnotatedFunctions::new(Rc::new(recording), self.grouping.filter.clone());
        Ok(())
    }

    /// Returns the table of an event.
    fn table(&self, recording: &Recording, (index, shares): (usize, &Shares)) -> Result<CallTable> {
        let event = &recording.events[index];
        let (name, unit) = (&event.name[..], event.attr.unit());
        if let Some(unit) = unit.filter(|unit| !unit.grows()) {
            let range = report::value_range(recording, &self.grouping.filter, (index, unit))?;
            return Ok(CallTable::of_level((name, unit), shares, range));
        }
        let children = self.grouping.children;
        let keys = &self.grouping.keys;
        Ok(CallTable::new(
            (name, unit),
            (keys, shares),
            children,
            self.limits,
        ))
    }

    /// Shows a message in the place of the keys.
    pub(crate) fn show_status(&mut self, text: String) {
        self.app.status = Some(text);
        self.app.change_count += 1;
    }

    /// Runs the TUI until the user quits, and returns the exit code. `refresh` is called several times a second; the TUI
    /// ends when it returns true.
    pub(crate) fn run(&mut self, mut refresh: impl FnMut(&mut Self) -> Result<bool>) -> Result<u8> {
        const TICK: Duration = Duration::from_millis(250);
        let no_color = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let theme = Theme {
            has_colors: !no_color,
            has_unicode: has_unicode(),
        };
        let mut terminal = Terminal::enter()?;
        loop {
            terminal.draw(|frame| draw::draw(frame, &mut self.app, theme))?;
            // Nothing is drawn until something changes.
            loop {
                match terminal.wait(TICK)? {
                    TerminalEvent::End(code) => return Ok(code),
                    TerminalEvent::Nothing => {
                        let last_count = self.app.change_count;
                        if refresh(self)? {
                            return Ok(0);
                        }
                        if self.app.change_count != last_count {
                            break;
                        }
                    }
                    TerminalEvent::Input(input) => {
                        if self.handle_input(&input) {
                            return Ok(0);
                        }
                        break;
                    }
                }
            }
        }
    }

    /// Handles an input. Returns whether the user quits.
    fn handle_input(&mut self, input: &Input) -> bool {
        // Other inputs are new sizes of the terminal, which need only drawing.
        let Input::Key(key) = input else {
            return false;
        };
        match self.app.handle_key(*key) {
            Some(UserRequest::Quit) => return true,
            Some(UserRequest::Annotate) => {
                let path = self.app.selected_path();
                let view = path.map(|(cells, callers)| {
                    let keys = &self.grouping.keys;
                    self.functions.view(self.app.event, keys, &cells, &callers)
                });
                match view {
                    Some(Ok(view)) => self.app.show_function(view),
                    Some(Err(reason)) => self.app.status = Some(reason),
                    None => {}
                }
            }
            None => {}
        }
        false
    }
}

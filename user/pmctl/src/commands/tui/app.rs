// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the TUI, and its changes by keys.

use std::collections::HashSet;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::table::{CallPath, CallTable, TableLine};
use crate::commands::annotate::Listing;

/// A request of the user that needs more than the state of the TUI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserRequest {
    Quit,
    /// The instructions of the selected row's function.
    Annotate,
}

/// Number of columns that a key scrolls.
const SCROLL_COLUMNS: usize = 16;

/// The part of the screen that keys act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Table,
    /// The text to search for, while it is typed.
    Search,
    Help,
    /// The window with all warnings.
    Warnings,
}

/// The visible part of a text that can be longer than the screen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scroll {
    /// The first line on the screen.
    pub(super) first: usize,
    /// The largest value of `first`, with which the last line is on the screen.
    pub(super) last: usize,
    /// Number of lines on the screen.
    pub(super) page: usize,
}

/// An annotated function.
#[derive(Clone, Debug)]
pub(super) struct FunctionView {
    pub(super) title: String,
    pub(super) listing: Listing,
    /// Index of the selected line.
    pub(super) selected: usize,
    /// The first line on the screen; `None` puts the selected line into the middle.
    pub(super) offset: Option<usize>,
}

/// The state of the TUI.
#[derive(Clone, Debug)]
pub(super) struct App {
    /// The first line of the screen.
    pub(super) title: String,
    pub(super) warnings: Vec<String>,
    /// The visible part of the warnings.
    pub(super) scroll: Scroll,
    pub(super) headings: Vec<&'static str>,
    pub(super) tables: Vec<CallTable>,
    /// Index of the table that is shown.
    pub(super) event: usize,
    /// Index of the selected line of the table.
    pub(super) selected: usize,
    /// The first line of the table that is on the screen.
    pub(super) offset: usize,
    /// Number of characters that are scrolled out at the left of each line.
    pub(super) column: usize,
    /// The lines whose callers are shown.
    pub(super) open_lines: HashSet<CallPath>,
    /// Text that rows must contain, or that is searched for in a function.
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) view: Option<FunctionView>,
    /// A message in the place of the keys, until the next key.
    pub(super) status: Option<String>,
    /// Number of lines of the table on the screen.
    pub(super) page: usize,
    /// Number of changes of the screen that no key has caused.
    pub(super) change_count: u64,
}

impl App {
    pub(super) fn new(title: String, headings: Vec<&'static str>, tables: Vec<CallTable>) -> Self {
        Self {
            title,
            warnings: Vec::new(),
            scroll: Scroll::default(),
            headings,
            tables,
            event: 0,
            selected: 0,
            offset: 0,
            column: 0,
            open_lines: HashSet::new(),
            filter: String::new(),
            mode: Mode::Table,
            view: None,
            status: None,
            page: 1,
            change_count: 0,
        }
    }

    /// Returns the table of the event that is shown.
    pub(super) fn table(&self) -> Option<&CallTable> {
        self.tables.get(self.event)
    }

    /// Returns the lines of the table that is shown.
    pub(super) fn lines(&self) -> Vec<TableLine> {
        let table = self.table();
        table.map_or_else(Vec::new, |table| {
            table.lines(&self.filter, &self.open_lines)
        })
    }

    /// Replaces the tables. The same row stays selected, if it still exists.
    pub(super) fn replace_tables(&mut self, tables: Vec<CallTable>) {
        let selected_path = self.selected_path();
        self.tables = tables;
        self.change_count += 1;
        self.event = self.event.min(self.tables.len().saturating_sub(1));
        let lines = self.lines();
        if let (Some((key, callers)), Some(table)) = (selected_path, self.table()) {
            let is_selected =
                |line: &TableLine| table.rows[line.row].key == key && line.callers == callers;
            // If the first line is selected, the selection stays there, so that new rows are seen.
            if self.selected > 0 {
                if let Some(index) = lines.iter().position(is_selected) {
                    self.selected = index;
                }
            }
        }
        self.selected = self.selected.min(lines.len().saturating_sub(1));
    }

    fn selected_line(&self) -> Option<TableLine> {
        self.lines().into_iter().nth(self.selected)
    }

    /// Returns the key of the selected row, and the callers from the row to the selected line.
    pub(super) fn selected_path(&self) -> Option<CallPath> {
        let line = self.selected_line()?;
        let row = self.table()?.rows.get(line.row)?;
        Some((row.key.clone(), line.callers))
    }

    /// Shows an annotated function.
    pub(super) fn show_function(&mut self, view: FunctionView) {
        self.view = Some(view);
        self.column = 0;
    }

    /// Handles a key. Returns a request if the key asks for more than a change of the state.
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> Option<UserRequest> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.status = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(UserRequest::Quit);
        }
        match self.mode {
            Mode::Search => {
                self.handle_search_key(key.code);
                None
            }
            Mode::Warnings if self.scroll.handle_key(key.code) => None,
            Mode::Help | Mode::Warnings => {
                self.mode = Mode::Table;
                None
            }
            Mode::Table if key.code == KeyCode::Char('w') && !self.warnings.is_empty() => {
                self.mode = Mode::Warnings;
                self.scroll = Scroll::default();
                None
            }
            // Drawing limits the column to the end of the text.
            Mode::Table if key.code == KeyCode::Char('>') => {
                self.column += SCROLL_COLUMNS;
                None
            }
            Mode::Table if key.code == KeyCode::Char('<') => {
                self.column = self.column.saturating_sub(SCROLL_COLUMNS);
                None
            }
            Mode::Table if self.view.is_some() => self.handle_view_key(key.code),
            Mode::Table => self.handle_table_key(key.code),
        }
    }

    /// Handles a key while the text of a search is typed.
    fn handle_search_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => {
                self.mode = Mode::Table;
                if let Some(view) = &mut self.view {
                    if !view.find(&self.filter, true) {
                        self.status = Some(format!("`{}` is not found below", self.filter));
                    }
                }
            }
            KeyCode::Esc => {
                self.mode = Mode::Table;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
        if self.view.is_none() {
            self.selected = 0;
        }
    }

    /// Handles a key while the table is shown.
    fn handle_table_key(&mut self, key: KeyCode) -> Option<UserRequest> {
        let last = self.lines().len().saturating_sub(1);
        match key {
            KeyCode::Char('q') => return Some(UserRequest::Quit),
            KeyCode::Char('a') if self.selected_line().is_some() => {
                return Some(UserRequest::Annotate);
            }
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => {
                self.mode = Mode::Search;
                self.filter.clear();
            }
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Enter | KeyCode::Char('+' | ' ') => self.toggle_callers(),
            KeyCode::Char('E') => self.unfold_all(),
            KeyCode::Char('C') => self.open_lines.clear(),
            KeyCode::Tab | KeyCode::Right if self.tables.len() > 1 => {
                self.event = (self.event + 1) % self.tables.len();
            }
            KeyCode::BackTab | KeyCode::Left if self.tables.len() > 1 => {
                self.event = (self.event + self.tables.len() - 1) % self.tables.len();
            }
            other => {
                let line = line_after_key(self.selected, other, self.page, last);
                self.selected = line.unwrap_or(self.selected);
            }
        }
        let last = self.lines().len().saturating_sub(1);
        self.selected = self.selected.min(last);
        None
    }

    /// Handles a key while a function is shown.
    fn handle_view_key(&mut self, key: KeyCode) -> Option<UserRequest> {
        let view = self.view.as_mut()?;
        let last = view.listing.lines.len().saturating_sub(1);
        match key {
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Left => {
                self.view = None;
                self.column = 0;
                self.filter.clear();
            }
            KeyCode::Char('/') => {
                self.mode = Mode::Search;
                self.filter.clear();
            }
            KeyCode::Char('n') => {
                if !view.find(&self.filter, false) {
                    self.status = Some(format!("`{}` is not found below", self.filter));
                }
            }
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Tab => view.select_next_hottest(),
            other => {
                let line = line_after_key(view.selected, other, self.page, last);
                view.selected = line.unwrap_or(view.selected);
            }
        }
        None
    }

    /// Shows or hides the callers of the selected line.
    fn toggle_callers(&mut self) {
        let Some(line) = self.selected_line() else {
            return;
        };
        let Some(is_open) = line.is_open else {
            let has_callers = self.table().is_some_and(CallTable::has_callers);
            let text = if line.hides_callers {
                "the callers are below the percentage of -g"
            } else if has_callers && line.callers.is_empty() {
                "no callers: record programs without frame pointers with --call-graph dwarf"
            } else if has_callers {
                "the call chain begins here"
            } else {
                "no callers were recorded: use -g with `record` or `top`"
            };
            self.status = Some(text.to_owned());
            return;
        };
        if let Some(path) = self.selected_path() {
            if is_open {
                self.open_lines.remove(&path);
            } else {
                self.open_lines.insert(path);
            }
        }
    }

    /// Shows all direct and indirect callers of the selected row.
    fn unfold_all(&mut self) {
        const MAX_UNFOLDED_LINES: usize = 10_000;
        let Some(row) = self.selected_line().map(|line| line.row) else {
            return;
        };
        loop {
            let Some(table) = self.tables.get(self.event) else {
                return;
            };
            let lines = table.lines(&self.filter, &self.open_lines);
            let closed_lines = lines
                .iter()
                .filter(|line| line.row == row && line.is_open == Some(false));
            let paths: Vec<CallPath> = closed_lines
                .map(|line| (table.rows[row].key.clone(), line.callers.clone()))
                .collect();
            if paths.is_empty() || lines.len() > MAX_UNFOLDED_LINES {
                return;
            }
            self.open_lines.extend(paths);
        }
    }
}

impl Scroll {
    /// Scrolls by a key. Returns false if the key is not for scrolling, or all text is visible.
    fn handle_key(&mut self, key: KeyCode) -> bool {
        let first = line_after_key(self.first, key, self.page, self.last);
        let first = first.filter(|_| self.last > 0);
        self.first = first.unwrap_or(self.first);
        first.is_some()
    }
}

impl FunctionView {
    /// Shows a function, with its hottest instruction selected.
    pub(super) fn new(title: String, listing: Listing) -> Self {
        let lines = listing.lines.iter().enumerate();
        let hottest = lines.max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share));
        Self {
            title,
            selected: hottest.map_or(0, |(index, _)| index),
            offset: None,
            listing,
        }
    }

    /// Selects the next line that contains a text. With `from_selected`, the search begins at the selected line,
    /// otherwise at the line after it. Returns whether a line was found.
    fn find(&mut self, text: &str, from_selected: bool) -> bool {
        let text = text.to_lowercase();
        let lines = self.listing.lines.iter().enumerate();
        let mut lines = lines.skip(self.selected + usize::from(!from_selected));
        let next_match = lines.find(|(_, line)| line.text().to_lowercase().contains(&text));
        if let Some((index, _)) = next_match {
            self.selected = index;
            self.offset = None;
        }
        next_match.is_some()
    }

    /// Selects the instruction with the next smaller share; after the one with the smallest share, the hottest
    /// instruction again.
    fn select_next_hottest(&mut self) {
        let mut hot_lines: Vec<usize> = (0..self.listing.lines.len())
            .filter(|index| self.listing.lines[*index].share > 0.0)
            .collect();
        let share = |index: &usize| self.listing.lines[*index].share;
        hot_lines.sort_by(|a, b| share(b).total_cmp(&share(a)));
        let current = hot_lines.iter().position(|index| *index == self.selected);
        let next = current.map_or(0, |current| (current + 1) % hot_lines.len());
        if let Some(index) = hot_lines.get(next) {
            self.selected = *index;
            self.offset = None;
        }
    }
}

/// Returns the line that a key moves to; `None` if the key is not for moving.
fn line_after_key(line: usize, key: KeyCode, page: usize, last: usize) -> Option<usize> {
    let page = page.saturating_sub(1).max(1);
    let target = match key {
        KeyCode::Up | KeyCode::Char('k') => line.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => line + 1,
        KeyCode::PageUp => line.saturating_sub(page),
        KeyCode::PageDown => line + page,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => return None,
    };
    Some(target.min(last))
}

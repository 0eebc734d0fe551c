// SPDX-License-Identifier: MIT OR Apache-2.0
//! Draws the screen: a title, warnings, the table or a function, and the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::app::{App, FunctionView, Mode, Scroll};
use super::table::{CallTable, TableLine};
use crate::commands::annotate::LineContent;
use crate::commands::report::PERCENT_LIMIT_ADVICE;
use crate::system::table::hidden_rows_line;
use crate::system::text::{count, printable, push_left, push_right, thousands, wrap};

/// A key and what it does.
type KeyHelp = (&'static str, &'static str);

const CALLERS_KEY: KeyHelp = ("Enter", "callers");
const EVENT_KEY: KeyHelp = ("Tab", "event");
const TABLE_KEYS: [KeyHelp; 6] = [
    ("q", "quit"),
    ("/", "search"),
    CALLERS_KEY,
    ("a", "annotate"),
    EVENT_KEY,
    ("h", "help"),
];

const VIEW_KEYS: [KeyHelp; 5] = [
    ("q", "back"),
    ("/", "search"),
    ("n", "next"),
    ("Tab", "hottest"),
    ("h", "help"),
];

/// The largest number of lines of warnings above the table. If there are more warnings, the last line says so.
const WARNING_LINES: usize = 3;

const HELP: [&str; 16] = [
    "Up Down PgUp PgDn Home End    move, as j k g G do",
    "Enter + Space                 show or hide callers",
    "E  C                          expand all its callers, collapse all",
    "/ TEXT Enter                  rows with TEXT; Esc: all rows",
    "a                             instructions and source lines",
    "Tab Right  Left               next event, previous event",
    ">  <                          scroll to the right, to the left: long names",
    "w                             all warnings of the recording",
    "q  Ctrl-C                     quit",
    "",
    "In instructions:",
    "/ TEXT Enter  n               a line with TEXT, the next one",
    "Tab                           the hottest line, the next hottest",
    "q Esc Left                    back",
    "",
    "Press any key to continue.",
];

/// The colors and characters that the terminal can show and that the user wants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) has_colors: bool,
    /// Boxes are drawn with Unicode characters.
    pub(super) has_unicode: bool,
}

const ASCII_BORDER: border::Set = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

impl Theme {
    /// Returns the style of a share of the whole, from 0 to 1. The limits are the same as perf's.
    fn share_style(self, share: f64) -> Style {
        match share {
            _ if !self.has_colors => Style::new(),
            large if large >= 0.05 => Style::new().fg(Color::Red),
            medium if medium >= 0.005 => Style::new().fg(Color::Green),
            _ => Style::new(),
        }
    }

    /// Returns the characters for the border of a box.
    const fn border(self) -> border::Set {
        if self.has_unicode {
            border::PLAIN
        } else {
            ASCII_BORDER
        }
    }
}

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let warnings = warning_lines(&app.warnings);
    let height = u16::try_from(warnings.len()).unwrap_or(0);
    let [title_area, warning_area, body, key_area] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let bold = Style::new().add_modifier(Modifier::BOLD);
    frame.render_widget(
        Paragraph::new(Text::styled(title_line(app), bold)),
        title_area,
    );
    frame.render_widget(Paragraph::new(warnings), warning_area);
    app.page = usize::from(body.height);
    match &mut app.view {
        Some(view) => draw_view(frame, view, &mut app.column, body, theme),
        None => draw_table(frame, app, body, theme),
    }
    draw_keys(frame, app, key_area);
    match app.mode {
        Mode::Help => draw_help(frame, theme),
        Mode::Warnings => draw_warnings(frame, &app.warnings, &mut app.scroll, theme),
        Mode::Table | Mode::Search => {}
    }
}

/// Returns the warnings that are shown above the table.
fn warning_lines(all: &[String]) -> Vec<Text<'static>> {
    let shown_warnings = if all.len() > WARNING_LINES {
        WARNING_LINES - 1
    } else {
        all.len()
    };
    let mut lines = all[..shown_warnings].to_vec();
    if shown_warnings < all.len() {
        let hidden_lines = count((all.len() - shown_warnings) as u64, "more line");
        lines.push(format!("{hidden_lines}: w shows all"));
    }
    lines.into_iter().map(Text::raw).collect()
}

/// Returns the first line of the screen.
fn title_line(app: &App) -> String {
    if let Some(view) = &app.view {
        return view.title.clone();
    }
    let Some(table) = app.table() else {
        return app.title.clone();
    };
    let event_number = match app.tables.len() {
        1 => String::new(),
        all => format!(" ({} of {all})", app.event + 1),
    };
    let amount = table.amount();
    let amount = amount.map_or_else(String::new, |amount| format!(", {amount}"));
    format!(
        "Samples: {} of event '{}'{event_number}{amount}  {}",
        thousands(table.samples),
        printable(&table.event),
        app.title
    )
}

/// Returns the index of the first line to show, as near to `offset` as possible. The selected line must be on the
/// screen of `height` lines, and the screen must be full unless `all`, the number of lines, is too small.
fn first_visible_line((offset, selected): (usize, usize), height: usize, all: usize) -> usize {
    offset
        .min(all.saturating_sub(height))
        .min(selected)
        .max((selected + 1).saturating_sub(height))
}

/// Returns `width` characters of a text from `column` on, padded with blanks.
fn visible_part(text: &str, column: usize, width: usize) -> String {
    let visible_text: String = text.chars().skip(column).take(width).collect();
    format!("{visible_text:<width$}")
}

/// Limits the horizontal scroll: the end of the longest text never moves left of the right edge of the screen.
fn limit_column(column: &mut usize, texts: &[String], width: usize) {
    let longest = texts.iter().map(|text| text.chars().count()).max();
    *column = (*column).min(longest.unwrap_or(0).saturating_sub(width));
}

fn draw_table(frame: &mut Frame<'_>, app: &mut App, area: Rect, theme: Theme) {
    let lines = app.lines();
    let hidden_count = app.table().map_or(0, |table| table.hidden);
    // The headings, and a line with the number of hidden rows if rows are hidden.
    let other_lines = 1 + usize::from(hidden_count > 0);
    let height = usize::from(area.height).saturating_sub(other_lines).max(1);
    app.page = height;
    app.selected = app.selected.min(lines.len().saturating_sub(1));
    app.offset = first_visible_line((app.offset, app.selected), height, lines.len());
    let Some(table) = app.table() else {
        frame.render_widget(Paragraph::new("No samples yet."), area);
        return;
    };
    if let Some(range) = &table.range {
        let text = Paragraph::new(range.as_str()).wrap(Wrap { trim: true });
        frame.render_widget(text, area);
        return;
    }
    let mut headings: Vec<&str> = if table.children {
        vec!["children", "overhead", "samples"]
    } else {
        vec!["overhead", "samples"]
    };
    let number_columns = headings.len();
    headings.extend(&app.headings);
    let end = lines.len().min(app.offset + height);
    let shown_lines = lines.get(app.offset..end).unwrap_or_default();
    let widths = column_widths(table, shown_lines, &headings);
    let join = |cells: &[String]| join_cells(cells, &widths, number_columns);
    let width = usize::from(area.width);
    let heading: Vec<String> = headings
        .iter()
        .map(|heading| (*heading).to_owned())
        .collect();
    let underlined_style = Style::new().add_modifier(Modifier::UNDERLINED);
    let contents: Vec<String> = shown_lines
        .iter()
        .map(|line| join(&table.cells(line)))
        .collect();
    let mut column = app.column;
    limit_column(&mut column, &contents, width);
    let heading = visible_part(&join(&heading), column, width);
    let mut texts = vec![Text::styled(heading, underlined_style)];
    for (index, (line, content)) in shown_lines.iter().zip(&contents).enumerate() {
        let text = visible_part(content, column, width);
        let mut style = theme.share_style(table.share_of_all(line.events));
        if app.offset + index == app.selected {
            style = style.add_modifier(Modifier::REVERSED);
        }
        texts.push(Text::styled(text, style));
    }
    texts.extend(lines_below_rows(
        lines.is_empty(),
        app.filter.is_empty(),
        hidden_count,
    ));
    frame.render_widget(Paragraph::new(texts), area);
    app.column = column;
}

/// Returns the lines below the rows: a message if there is no row, and the number of hidden rows.
fn lines_below_rows(is_empty: bool, shows_all: bool, hidden: usize) -> Vec<Text<'static>> {
    let no_rows = match (is_empty, shows_all) {
        (true, false) => Some("No row has this text. Esc shows all."),
        (true, true) if hidden == 0 => Some("No samples."),
        _ => None,
    };
    let rest = (hidden > 0).then(|| hidden_rows_line(hidden, PERCENT_LIMIT_ADVICE));
    let lines = no_rows.map(Text::raw).into_iter();
    lines.chain(rest.map(Text::raw)).collect()
}

/// Returns the cells as a line, the first `number_columns` of them aligned to the right. A single cell is the whole line.
fn join_cells(cells: &[String], widths: &[usize], number_columns: usize) -> String {
    if let [cell] = cells {
        return cell.clone();
    }
    let mut line = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if index > 0 {
            line.push_str("  ");
        }
        if index < number_columns {
            push_right(&mut line, cell, *width);
        } else {
            push_left(&mut line, cell, *width);
        }
    }
    line
}

/// Returns the widths of the columns that the headings and the lines on the screen need.
fn column_widths(table: &CallTable, lines: &[TableLine], headings: &[&str]) -> Vec<usize> {
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.len()).collect();
    for line in lines.iter().filter(|line| line.callers.is_empty()) {
        for (width, cell) in widths.iter_mut().zip(table.cells(line)) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

fn draw_view(
    frame: &mut Frame<'_>,
    view: &mut FunctionView,
    column: &mut usize,
    area: Rect,
    theme: Theme,
) {
    let height = usize::from(area.height).max(1);
    let line_count = view.listing.lines.len();
    let offset = view
        .offset
        .unwrap_or(view.selected.saturating_sub(height / 2));
    let offset = first_visible_line((offset, view.selected), height, line_count);
    view.offset = Some(offset);
    let width = usize::from(area.width);
    let lines = view.listing.lines.iter().skip(offset).take(height);
    let contents: Vec<String> = lines
        .clone()
        .map(|line| format!("{:>8} : {}", line.percent(), line.text()))
        .collect();
    limit_column(column, &contents, width);
    let lines = lines.zip(&contents).enumerate();
    let texts = lines.map(|(index, (line, content))| {
        let mut style = match line.content {
            LineContent::Instruction { .. } => theme.share_style(line.share),
            _ => Style::new().add_modifier(Modifier::BOLD),
        };
        if offset + index == view.selected {
            style = style.add_modifier(Modifier::REVERSED);
        }
        Text::styled(visible_part(content, *column, width), style)
    });
    frame.render_widget(Paragraph::new(texts.collect::<Vec<_>>()), area);
}

/// Returns the keys that have an effect at present.
fn effective_keys(app: &App) -> Vec<KeyHelp> {
    if app.view.is_some() {
        return VIEW_KEYS.to_vec();
    }
    let has_callers = app.table().is_some_and(CallTable::has_callers);
    let mut keys = TABLE_KEYS.to_vec();
    keys.retain(|key| {
        (has_callers || *key != CALLERS_KEY) && (app.tables.len() > 1 || *key != EVENT_KEY)
    });
    keys
}

/// Returns the keys that fit into a line. The last key, for help, is dropped last.
fn keys_that_fit(mut keys: Vec<KeyHelp>, width: usize) -> Vec<KeyHelp> {
    const BLANKS: usize = 5;
    // The two blanks after the last key need no room.
    while keys
        .iter()
        .map(|(key, what)| key.len() + what.len() + BLANKS)
        .sum::<usize>()
        > width + 2
    {
        keys.remove(keys.len().saturating_sub(2));
    }
    keys
}

fn draw_keys(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let line = match (&app.mode, &app.status) {
        (Mode::Search, _) => Text::raw(format!(
            "/{}_   Enter: done  Esc: all",
            printable(&app.filter)
        )),
        (_, Some(status)) => Text::raw(printable(status)),
        _ => {
            let mut spans = Vec::new();
            if app.view.is_none() && !app.filter.is_empty() {
                spans.push(Span::raw(format!("[{}] ", printable(&app.filter))));
            }
            let used_width: usize = spans.iter().map(Span::width).sum();
            let room = usize::from(area.width).saturating_sub(used_width);
            for (key, what) in keys_that_fit(effective_keys(app), room) {
                let key_style = Style::new().add_modifier(Modifier::REVERSED);
                spans.push(Span::styled(format!(" {key} "), key_style));
                spans.push(Span::raw(format!(" {what}  ")));
            }
            Text::from(spans)
        }
    };
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_help(frame: &mut Frame<'_>, theme: Theme) {
    let width = HELP.iter().map(|line| line.len()).max().unwrap_or(0);
    let lines = HELP.map(|line| Text::raw(format!(" {line}")));
    let text = Paragraph::new(lines.to_vec());
    draw_box(frame, " Keys ", text, (width + 4, HELP.len() + 2), theme);
}

fn draw_warnings(frame: &mut Frame<'_>, warnings: &[String], scroll: &mut Scroll, theme: Theme) {
    const BORDERS: usize = 2;
    let area = frame.area();
    let height = usize::from(area.height).saturating_sub(BORDERS);
    let width = usize::from(area.width).saturating_sub(BORDERS);
    let mut lines: Vec<String> = warnings
        .iter()
        .flat_map(|line| wrap_indented(line, width.max(1)))
        .collect();
    let end = ["", "Press any key to continue."].map(str::to_owned);
    if lines.len() + end.len() <= height {
        *scroll = Scroll::default();
        lines.extend(end);
    } else {
        scroll.page = height.saturating_sub(1).max(1);
        scroll.last = lines.len().saturating_sub(scroll.page);
        scroll.first = scroll.first.min(scroll.last);
        let remaining_lines = scroll.last - scroll.first;
        lines = lines.split_off(scroll.first);
        lines.truncate(scroll.page);
        lines.push(if remaining_lines > 0 {
            format!(
                "{}: Down. Other keys: back.",
                count(remaining_lines as u64, "more line")
            )
        } else {
            "Other keys: back.".to_owned()
        });
    }
    let lines: Vec<Text<'_>> = lines.into_iter().map(Text::raw).collect();
    let text = Paragraph::new(lines);
    draw_box(frame, " Warnings ", text, (usize::MAX, usize::MAX), theme);
}

/// Wraps a line to lines of at most `width` characters, each with the indent of the line.
fn wrap_indented(line: &str, width: usize) -> Vec<String> {
    let text = line.trim_start();
    let indent = (line.len() - text.len()).min(width - 1);
    let mut lines = Vec::new();
    for words in wrap(text, width - indent) {
        // A word can be longer than a line.
        let characters: Vec<char> = words.chars().collect();
        let parts = characters.chunks(width - indent);
        lines.extend(parts.map(|part| format!("{:indent$}{}", "", String::from_iter(part))));
    }
    lines
}

/// Draws a box of this size in the middle of the screen, or a smaller one if there is less room.
fn draw_box(
    frame: &mut Frame<'_>,
    title: &str,
    text: Paragraph<'_>,
    (width, height): (usize, usize),
    theme: Theme,
) {
    let area = frame.area();
    let size = |wanted: usize, limit: u16| u16::try_from(wanted).unwrap_or(limit).min(limit);
    let (width, height) = (size(width, area.width), size(height, area.height));
    let box_area = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, box_area);
    let block = Block::bordered().border_set(theme.border()).title(title);
    frame.render_widget(text.block(block), box_area);
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the TUI's screens, on a terminal in memory. tests/tui.rs tests the TUI on a real terminal.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use perfmon::Modes;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::app::{Mode, UserRequest};
use super::draw::{Theme, draw};
use super::*;
use crate::args::Key;
use crate::commands::report::PERCENT_LIMIT_ADVICE;
use crate::events::values;
use crate::recording::perfdata::example::example;
use crate::recording::perfdata::{Attr, EventKind, SampleParts};
use crate::recording::profile::Filter;
use crate::system::table::hidden_rows_line;

const RECORDING: &[u8] = include_bytes!("../../../tests/recordings/callers.data");
const TIMEBASE: &[u8] = include_bytes!("../../../tests/recordings/timebase.data");

/// A TUI on a terminal in memory.
struct TestTui {
    tui: Tui,
    terminal: Terminal<TestBackend>,
}

impl TestTui {
    fn new(bytes: &[u8], size: (u16, u16)) -> Self {
        Self::with(bytes, size, |_| {})
    }

    /// Creates a TUI, applies `change` to it, and shows a recording.
    fn with(bytes: &[u8], (width, height): (u16, u16), change: impl FnOnce(&mut Tui)) -> Self {
        let recording = perfdata::read(bytes).expect("it is whole");
        let grouping = Grouping {
            keys: vec![Key::Comm, Key::Dso, Key::Symbol],
            children: false,
            graph: recording.parts().has_chain.then_some(Order::Callee),
            inline: false,
            max_stack: 127,
            filter: Filter::default(),
        };
        let mut tui = Tui::new(&grouping, recording.notes.scope.clone());
        change(&mut tui);
        tui.replace_recording(recording).expect("it is whole");
        let backend = TestBackend::new(width, height);
        let terminal = Terminal::new(backend).expect("it is memory");
        Self { tui, terminal }
    }

    /// Presses these keys.
    fn keys(&mut self, text: &str) -> &mut Self {
        for c in text.chars() {
            self.key(match c {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            });
        }
        self
    }

    fn key(&mut self, code: KeyCode) {
        self.screen();
        let key = KeyEvent::new(code, KeyModifiers::NONE);
        let input = crossterm::event::Event::Key(key);
        self.tui.handle_input(&input);
    }

    /// Returns the lines of the screen without blanks at their ends.
    fn screen(&mut self) -> Vec<String> {
        let theme = Theme {
            has_colors: true,
            has_unicode: true,
        };
        let app = &mut self.tui.app;
        let result = self.terminal.draw(|frame| draw(frame, app, theme));
        let buffer = result.expect("it is memory").buffer;
        let width = usize::from(buffer.area.width);
        let lines = buffer.content.chunks(width);
        let text = |line: &[ratatui::buffer::Cell]| {
            let symbols: String = line.iter().map(ratatui::buffer::Cell::symbol).collect();
            symbols.trim_end().to_owned()
        };
        lines.map(text).collect()
    }

    /// Returns the first line of the screen that contains a text.
    fn line(&mut self, part: &str) -> Option<String> {
        let mut lines = self.screen().into_iter();
        lines.find(|line| line.contains(part))
    }
}

#[test]
fn a_screen_of_80_columns_has_title_rows_and_keys() {
    let screen = TestTui::new(TIMEBASE, (80, 24)).screen();
    assert_eq!(screen.len(), 24);
    assert!(
        screen[0].starts_with("Samples: 46 of event 'cycles' (1 of 2), event count 23,000,414"),
        "{screen:?}"
    );
    assert_eq!(
        screen[1],
        " overhead  samples  comm          dso                symbol"
    );
    assert_eq!(
        screen[2],
        "   17.39%        8  dd            [kernel.kallsyms]  [k] do_syscall_64"
    );
    assert_eq!(
        screen[23],
        " q  quit   /  search   a  annotate   Tab  event   h  help"
    );
}

#[test]
fn keys_are_offered_where_they_do_something() {
    let mut test = TestTui::new(RECORDING, (80, 24));
    assert_eq!(
        test.screen()[23],
        " q  quit   /  search   Enter  callers   a  annotate   h  help"
    );
    test.tui.app.tables.clear();
    assert_eq!(
        test.screen()[23],
        " q  quit   /  search   a  annotate   h  help"
    );
}

#[test]
fn values_have_their_units() {
    let screen = |name: &str| {
        let mut recording = example(false);
        let (_, values) = values::split(&[name.to_owned()]);
        let kind = EventKind::Value(u64::from(values[0].event as u32));
        recording.events[0] = perfdata::Event {
            name: name.to_owned(),
            attr: Attr::sampled(kind, 0, Modes::Both, SampleParts::default()),
        };
        let mut test = TestTui::new(TIMEBASE, (80, 24));
        test.tui.replace_recording(recording).expect("it is whole");
        // Keys must do no harm without rows.
        test.keys("jE\na/x\n\x1b").screen()
    };
    let level = screen("temperature");
    let head = "Samples: 1 of event 'temperature' (1 of 2)  ";
    assert!(level[0].starts_with(head), "{level:?}");
    let range = "From 1000 to 1000 °C, median 1000 °C of 1 sample";
    assert_eq!((&level[1][..], &level[2][..]), (range, ""));

    let energy = screen("energy-pkg");
    let head = "Samples: 1 of event 'energy-pkg' (1 of 2), sum 0.000000 Joules  ";
    assert!(energy[0].starts_with(head), "{energy:?}");
    assert!(energy[2].contains("100.00%"), "{energy:?}");
}

#[test]
fn long_lines_are_scrolled_as_far_as_there_is_text() {
    let mut test = TestTui::new(TIMEBASE, (40, 24));
    let screen_before = test.screen();
    assert_eq!(screen_before[2], "   17.39%        8  dd            [kerne");
    let scrolled_screen = test.keys(">").screen();
    assert_eq!(
        scrolled_screen[2],
        " 8  dd            [kernel.kallsyms]  [k]"
    );
    assert_eq!(
        scrolled_screen[1],
        "es  comm          dso                sym"
    );
    let end = test.keys(">>>>").screen();
    assert!(end[2].ends_with("[k] do_syscall_64"), "{end:?}");
    assert_eq!(test.keys(">").screen(), end);
    assert_eq!(test.keys("<<<<<").screen(), screen_before);
    // On a wide screen there is nothing to scroll.
    let mut wide_tui = TestTui::new(TIMEBASE, (200, 24));
    assert_eq!(wide_tui.screen(), wide_tui.keys(">").screen());
}

#[test]
fn names_may_have_any_length() {
    let mut test = TestTui::new(TIMEBASE, (80, 24));
    let name = "a".repeat(70_000);
    test.tui.app.tables[0].rows[1].cells[0] = name.clone();
    let screen = test.screen();
    assert_eq!(screen[2], "   17.39%        8  dd");
    assert_eq!(screen[3], format!("   17.39%        8  {}", &name[..60]));
}

#[test]
fn shares_have_perfs_colors_and_the_selected_row_is_reversed() {
    let mut test = TestTui::new(TIMEBASE, (80, 24));
    test.keys("jj");
    test.screen();
    let buffer = test.terminal.backend().buffer();
    let style = |row: u16| (buffer[(5, row)].fg, buffer[(5, row)].modifier);
    assert_eq!(style(2), (Color::Red, Modifier::empty()));
    assert_eq!(style(4), (Color::Red, Modifier::REVERSED));
    assert_eq!(style(12).0, Color::Green);
}

#[test]
fn callers_unfold_one_by_one_and_all_at_once() {
    let mut test = TestTui::new(RECORDING, (80, 24));
    let row = test.line("outer").expect("it has samples");
    assert!(row.starts_with("+  50.00%"), "{row}");
    let place = test.screen().iter().position(|line| line.contains("outer"));
    let place = place.expect("it is on the screen") - 2;
    test.keys(&"j".repeat(place)).keys("\n");
    let screen = test.screen();
    assert!(screen[place + 2].starts_with("-  50.00%"), "{screen:?}");
    assert_eq!(screen[place + 3], "    +  50.00%  turn");
    test.keys("j+");
    assert_eq!(test.screen()[place + 4], "      +  50.00%  main");
    test.keys("k\n");
    assert_eq!(test.line("  turn"), None);
    test.keys("E");
    assert!(test.line("__libc_start_call_main").is_some());
    test.keys("C");
    assert_eq!(test.line("  turn"), None);
}

#[test]
fn without_callers_the_screen_says_so() {
    let mut test = TestTui::new(TIMEBASE, (80, 24));
    let screen = test.keys("\n").screen();
    assert!(screen[23].contains("use -g with `record`"), "{screen:?}");
    // The next key removes the message.
    let screen = test.keys("j").screen();
    assert!(screen[23].contains("quit"));
}

#[test]
fn a_row_without_callers_beside_others_has_advice() {
    let mut test = TestTui::new(RECORDING, (80, 24));
    test.keys("E");
    let last = test.tui.app.lines().iter().position(|line| {
        // The outermost function has no callers.
        !line.callers.is_empty() && line.is_open.is_none()
    });
    test.keys(&"j".repeat(last.expect("all callers are shown")));
    let screen = test.keys("\n").screen();
    assert!(screen[23].contains("chain begins here"), "{screen:?}");

    let rows = &mut test.tui.app.tables[0].rows;
    rows[0].share.callers = crate::commands::report::Tree::default();
    assert!(rows.iter().any(|row| !row.share.callers.is_empty()));
    let screen = test.keys("g\n").screen();
    assert!(screen[23].contains("--call-graph dwarf"), "{screen:?}");
}

#[test]
fn small_rows_and_callers_are_left_out() {
    let full_table = TestTui::new(TIMEBASE, (80, 24)).tui.app.tables[0].clone();
    let mut test = TestTui::with(TIMEBASE, (80, 24), |tui| tui.limits.row = 10.0);
    let table = &test.tui.app.tables[0];
    let shown_rows = table.rows.len();
    assert!(shown_rows > 0 && shown_rows < full_table.rows.len());
    assert_eq!(
        (table.samples, table.events),
        (full_table.samples, full_table.events)
    );
    assert!(test.line("17.39%").is_some());
    let hidden_rows = full_table.rows.len() - shown_rows;
    let rest = hidden_rows_line(hidden_rows, PERCENT_LIMIT_ADVICE);
    assert_eq!(test.screen()[2 + shown_rows], rest);
    test.terminal.backend_mut().resize(80, 6);
    let screen = test.keys("G").screen();
    assert_eq!(screen[4], rest, "{screen:?}");
    assert_eq!(test.tui.app.offset, shown_rows - 2);

    let mut test = TestTui::with(TIMEBASE, (80, 24), |tui| tui.limits.row = 99.0);
    let screen = test.screen();
    assert_eq!(
        screen[2],
        hidden_rows_line(full_table.rows.len(), PERCENT_LIMIT_ADVICE)
    );
    assert_eq!(screen[3], "");

    let mut test = TestTui::with(RECORDING, (80, 24), |tui| tui.limits.caller = 60.0);
    let place = test.screen().iter().position(|line| line.contains("outer"));
    test.keys(&"j".repeat(place.expect("it is on the screen") - 2));
    let screen = test.keys("\n").screen();
    assert!(screen[23].contains("below the percentage"), "{screen:?}");
}

#[test]
fn warnings_are_cut_and_w_shows_all() {
    let mut test = TestTui::new(TIMEBASE, (40, 24));
    test.keys("w");
    assert_eq!(test.tui.app.mode, Mode::Table);
    test.tui.app.warnings = ["LOST: one", "two", "three"].map(str::to_owned).to_vec();
    assert_eq!(test.screen()[3], "three");
    let long_warning = format!("NO SYMBOLS: {} end", "file ".repeat(10));
    test.tui.app.warnings.push(long_warning);
    let screen = test.screen();
    assert_eq!(screen[2], "two");
    assert_eq!(screen[3], "2 more lines: w shows all");
    test.keys("w");
    assert!(test.line(" end").is_some());
    test.keys("x");
    assert_eq!(test.line(" end"), None);
}

#[test]
fn warnings_that_are_longer_than_the_screen_are_scrolled() {
    let mut test = TestTui::new(TIMEBASE, (40, 8));
    test.tui.app.warnings = (0..9).map(|number| format!("  line {number}")).collect();
    let screen = test.keys("w").screen();
    assert!(screen[1].contains("  line 0"), "{screen:?}");
    assert!(screen[5].contains("  line 4"), "{screen:?}");
    let last_line = "4 more lines: Down. Other keys: back.";
    assert!(screen[6].contains(last_line), "{screen:?}");
    let screen = test.keys("j").screen();
    assert!(screen[1].contains("line 1"), "{screen:?}");
    let screen = test.keys("G").screen();
    assert!(screen[5].contains("line 8"), "{screen:?}");
    assert!(!screen[6].contains("more"), "{screen:?}");
    assert_eq!(test.keys("jjj").screen(), screen);
    test.keys("x");
    assert_eq!(test.line("line 8"), None);
    assert!(test.keys("w").screen()[1].contains("line 0"));

    // A text that fits is not scrolled.
    test.tui.app.warnings = vec!["word ".repeat(20)];
    assert!(test.line("Press any key to continue.").is_some());
    test.keys("j");
    assert_eq!(test.tui.app.mode, Mode::Table);

    test.tui.app.warnings = vec!["x".repeat(1000)];
    test.keys("w");
    for size in [(1, 1), (2, 2), (3, 3)] {
        test.terminal.backend_mut().resize(size.0, size.1);
        test.keys("jG").screen();
    }
}

#[test]
fn files_without_symbols_are_warned_of_in_reports_only() {
    let lacks = |test: &TestTui| {
        let mut warnings = test.tui.app.warnings.iter();
        warnings.any(|line| line.starts_with("NO SYMBOLS"))
    };
    let test = TestTui::with(TIMEBASE, (80, 24), |tui| tui.has_name_warnings = true);
    assert!(lacks(&test));
    assert!(!lacks(&TestTui::new(TIMEBASE, (80, 24))));
}

#[test]
fn search_leaves_the_rows_with_a_text() {
    let mut test = TestTui::new(TIMEBASE, (80, 24));
    test.keys("/SHARE_");
    assert_eq!(test.tui.app.mode, Mode::Search);
    let screen = test.screen();
    assert!(screen[23].starts_with("/SHARE__"), "{screen:?}");
    assert!(screen[2].ends_with("share_60") && screen[3].ends_with("share_30"));
    assert_eq!(screen[4], "");
    let screen = test.keys("\n").screen();
    assert!(screen[23].starts_with("[SHARE_]  q "), "{screen:?}");
    assert!(screen[23].ends_with(" h  help"), "{screen:?}");
    let screen = test.keys("\x1b").screen();
    assert!(!screen[4].is_empty());
    let screen = test.keys("/nowhere\n").screen();
    assert_eq!(screen[2], "No row has this text. Esc shows all.");
    // Keys must do no harm without rows.
    test.keys("a\nEj").screen();
}

#[test]
fn tab_shows_the_next_event() {
    let mut test = TestTui::new(TIMEBASE, (80, 24));
    assert!(test.keys("\t").screen()[0].contains("'branches' (2 of 2)"));
    assert!(test.keys("\t").screen()[0].contains("'cycles' (1 of 2)"));
}

#[test]
fn a_small_screen_scrolls_and_cuts() {
    for (width, height) in [(20, 5), (1, 1), (300, 100)] {
        let mut test = TestTui::new(TIMEBASE, (width, height));
        test.keys("jjjjjjG").screen();
        test.terminal.backend_mut().resize(80, 8);
        let screen = test.screen();
        let last = test.tui.app.lines().len() - 1;
        assert_eq!(test.tui.app.selected, last);
        assert!(screen[6].contains("[unknown]"), "{screen:?}");
        test.keys("g").screen();
        assert_eq!(test.tui.app.offset, 0);
    }
}

#[test]
fn help_is_shown_over_the_table() {
    let mut test = TestTui::new(TIMEBASE, (80, 24));
    test.keys("h");
    assert!(test.line("show or hide callers").is_some());
    test.keys("x");
    assert_eq!(test.line("show or hide callers"), None);
}

#[test]
fn a_function_that_cannot_be_annotated_has_a_message() {
    let mut test = TestTui::new(TIMEBASE, (120, 24));
    let screen = test.keys("/share_60\na").screen();
    assert!(
        screen[23].contains("pmctl_shares is not on this machine"),
        "{screen:?}"
    );
}

#[test]
fn annotated_functions_have_the_chosen_samples() {
    for (comms, expected) in [
        (vec![], "pmctl_shares is not on this machine"),
        (
            vec!["dd".to_owned()],
            "none of the samples is in this function",
        ),
    ] {
        let mut test = TestTui::with(TIMEBASE, (120, 24), |tui| tui.grouping.filter.comms = comms);
        let cells = ["[.] share_60".to_owned()];
        let view = test.tui.functions.view(0, &[Key::Symbol], &cells, &[]);
        let Err(reason) = view else {
            panic!("the program is not here");
        };
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn instructions_are_a_screen_of_their_own() {
    use crate::commands::annotate::{LineContent, Listing};
    let mut test = TestTui::new(TIMEBASE, (60, 10));
    let mut listing = Listing::default();
    for address in 0..30 {
        listing.push(
            if address == 20 { 0.75 } else { 0.0 },
            LineContent::Instruction {
                address,
                text: format!("insn{address}"),
            },
        );
    }
    test.tui
        .app
        .show_function(app::FunctionView::new("a function".to_owned(), listing));
    let screen = test.screen();
    assert_eq!(screen[0], "a function");
    let hot_line = "   75.00 :         14:  insn20";
    // The hottest instruction is in the middle of the screen.
    assert_eq!(screen[5], hot_line, "{screen:?}");
    assert!(screen[9].contains("back"));
    test.keys("g/insn2\n");
    assert!(test.line("insn2").is_some());
    test.keys("n");
    assert_eq!(
        test.tui.app.view.as_ref().map(|view| view.selected),
        Some(20)
    );
    test.keys("q");
    assert!(test.tui.app.view.is_none());
    assert!(test.screen()[0].starts_with("Samples"));
}

#[test]
fn q_and_control_c_quit() {
    let mut test = TestTui::new(TIMEBASE, (80, 24));
    let app = &mut test.tui.app;
    let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    assert_eq!(app.handle_key(q), Some(UserRequest::Quit));
    let c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.handle_key(c), Some(UserRequest::Quit));
}

#[test]
fn new_samples_leave_the_selection_where_it_was() {
    let mut test = TestTui::new(TIMEBASE, (80, 24));
    test.keys("jjj");
    let path_before = test.tui.app.selected_path();
    // The same rows in another order.
    let recording = perfdata::read(TIMEBASE).expect("it is whole");
    test.tui.app.tables[0].rows.reverse();
    test.tui.app.selected = test.tui.app.tables[0].rows.len() - 4;
    assert_eq!(test.tui.app.selected_path(), path_before);
    test.tui.replace_recording(recording).expect("it is whole");
    assert_eq!(test.tui.app.selected_path(), path_before);
    assert_eq!(test.tui.app.selected, 3);
}

/// Panics while the terminal is taken. The next test runs this one on a terminal.
#[test]
#[ignore = "it panics"]
fn panics_with_the_terminal() {
    let _terminal = super::Terminal::enter().expect("there is one");
    panic!("the panic of the test");
}

#[test]
fn a_panic_is_written_to_the_restored_terminal() {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    let pair = nix::pty::openpty(None, None).expect("a terminal is made");
    let modes_before = nix::sys::termios::tcgetattr(&pair.slave).expect("it is one");
    let end = || pair.slave.try_clone().expect("it is open");
    let (_crate, module) = module_path!().split_once("::").expect("it is in one");
    let test = format!("{module}::panics_with_the_terminal");
    let mut command = std::process::Command::new(env::current_exe().expect("it runs"));
    command
        .args(["--ignored", "--exact", "--nocapture", &test])
        .stdin(end())
        .stdout(end())
        .stderr(end());
    // SAFETY: `pre_exec` requires a closure that is safe between fork and exec, where only async-signal-safe code may run:
    // setsid(2) is a system call without pointers, and the closure neither allocates memory nor takes locks.
    unsafe { command.pre_exec(|| Ok(nix::unistd::setsid().map(drop)?)) };
    let status = command.status().expect("it runs");
    assert_eq!(status.code(), Some(101));
    let modes_after = nix::sys::termios::tcgetattr(&pair.slave).expect("it is one");
    assert_eq!(modes_after, modes_before);
    drop((pair.slave, command));
    let mut text = Vec::new();
    // The end of a terminal is EIO.
    let _ = std::fs::File::from(pair.master).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let place = |part: &str| text.find(part);
    assert!(place("\x1b[?1049h").is_some(), "{text:?}");
    assert!(
        place("\x1b[?1049l") < place("the panic of the test"),
        "{text:?}"
    );
}

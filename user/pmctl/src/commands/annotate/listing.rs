// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of an annotated function: instructions, and the source lines that they were compiled from.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::Path;

use ahash::AHashMap;

use super::SampledFunction;
use super::assembly::disassemble;
use super::code::Code;
use super::rust_sources;
use crate::args::Syntax;
use crate::recording::file_text::path_of_text;
use crate::recording::perfdata::{Recording, is_kernel_address};
use crate::recording::symbols::{DebugFiles, Lines, SourceLine, Targets};
use crate::system::files;
use crate::system::text::{count, printable};

/// The largest source file that is read, in bytes.
const MAX_SOURCE_SIZE: u64 = 1 << 26;

/// An annotated function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    pub(crate) lines: Vec<ListingLine>,
    /// Notes that say which parts are missing, and why.
    pub(crate) notes: Vec<String>,
    /// Event count of the samples at the listed instructions.
    pub(super) shown_events: u64,
}

/// A line of a listing.
#[derive(Clone, Debug)]
pub(crate) struct ListingLine {
    /// Share of the function's event count, from 0 to 1; 0 for a source line.
    pub(crate) share: f64,
    pub(crate) content: LineContent,
}

/// Content of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineContent {
    /// The name of a source file.
    File(String),
    Source {
        number: u32,
        text: String,
    },
    Instruction {
        address: u64,
        text: String,
    },
}

impl ListingLine {
    /// Returns the share in percent as text; an empty text if it is 0.
    pub(crate) fn percent(&self) -> String {
        if self.share > 0.0 {
            format!("{:.2}", self.share * 100.0)
        } else {
            String::new()
        }
    }

    /// Returns the text of the line, without the share.
    pub(crate) fn text(&self) -> String {
        match &self.content {
            LineContent::File(name) => printable(name),
            LineContent::Source { number, text } => {
                let text = text.replace('\t', "        ");
                format!("{number:<6}{}", printable(&text))
            }
            LineContent::Instruction { address, text } => {
                format!("{address:10x}:  {}", printable(text))
            }
        }
    }
}

impl Listing {
    /// Appends a line.
    pub(crate) fn push(&mut self, share: f64, content: LineContent) {
        self.lines.push(ListingLine { share, content });
    }

    /// Reads a function's instructions, and its source if `with_source`.
    ///
    /// # Errors
    /// A message with the reason why there are no instructions.
    pub(super) fn new(
        recording: &Recording,
        function: &SampledFunction,
        (syntax, with_source): (Syntax, bool),
    ) -> Result<Self, String> {
        let code = Code::read(recording, function)?;
        // Distance from an offset in the file to its address; 0 for the kernel.
        let delta = code.address.wrapping_sub(function.start);
        let end = code.address.wrapping_add(code.bytes.len() as u64);
        let mut tables = recording.notes.symbols.iter();
        let table = tables.find(|table| table.file == function.path);
        let targets = OnceCell::new();
        let name = |address: u64| {
            if (code.address..end).contains(&address) {
                return Some((Cow::Borrowed(&function.name[..]), address - code.address));
            }
            if let Some(path) = &code.path {
                let targets = targets.get_or_init(|| Targets::of(path));
                if let Some((name, offset)) = targets.at(address) {
                    return Some((Cow::Owned(name), offset));
                }
            }
            let offset = address.wrapping_sub(delta);
            let symbol = table?.at(offset)?;
            Some((Cow::Borrowed(&symbol.name[..]), offset - symbol.start))
        };
        let mut source = (with_source && !is_kernel_address(function.start))
            .then(|| SourceLines::new(recording, function));
        let mut listing = Self::default();
        for instruction in disassemble(&code, syntax, name) {
            let offset = instruction.address.wrapping_sub(delta);
            if let Some(source) = &mut source {
                listing.lines.extend(source.lines_before(offset));
            }
            // A sample in the middle of an instruction belongs to that instruction.
            let counts = function
                .events_by_offset
                .range(offset..offset + instruction.length);
            let events = counts.fold(0, |sum: u64, (_, events)| sum.saturating_add(*events));
            listing.shown_events = listing.shown_events.saturating_add(events);
            listing.push(
                events as f64 / function.events.max(1) as f64,
                LineContent::Instruction {
                    address: instruction.address,
                    text: instruction.text,
                },
            );
        }
        listing.notes = source.map(SourceLines::notes).unwrap_or_default();
        Ok(listing)
    }
}

/// The source lines of a function.
struct SourceLines<'a> {
    lines: Lines,
    recording: &'a Recording,
    function: &'a SampledFunction,
    /// The lines of each file; `None` if it can't be read.
    files: AHashMap<String, Option<Vec<String>>>,
    /// The source line that was shown last: the number of its file, and the line number.
    last_shown: Option<(u32, u32)>,
    /// Paths of the files that can't be read.
    missing_files: BTreeSet<String>,
}

impl<'a> SourceLines<'a> {
    fn new(recording: &'a Recording, function: &'a SampledFunction) -> Self {
        Self {
            lines: Lines::new(DebugFiles::of_user()),
            recording,
            function,
            files: AHashMap::new(),
            last_shown: None,
            missing_files: BTreeSet::new(),
        }
    }

    /// Returns the lines to show before the instruction at an offset: none if its source line is that of the previous
    /// instruction.
    fn lines_before(&mut self, offset: u64) -> Vec<ListingLine> {
        let path = &*path_of_text(&self.function.path);
        let version = || self.recording.version(path);
        let levels = self.lines.at((0, path), version, offset);
        let Some(SourceLine { path, number }) =
            levels.first().and_then(|level| level.source.clone())
        else {
            return Vec::new();
        };
        let source_line = Some((path.number, number));
        let is_new_file = self.last_shown.is_none_or(|(file, _)| file != path.number);
        if self.last_shown == source_line || number == 0 {
            return Vec::new();
        }
        self.last_shown = source_line;
        let line = |content| ListingLine {
            share: 0.0,
            content,
        };
        let mut lines = Vec::new();
        if is_new_file {
            lines.push(line(LineContent::File(path.text.to_string())));
        }
        let text = self.source_text(&path.text, number).unwrap_or_default();
        lines.push(line(LineContent::Source { number, text }));
        lines
    }

    /// Returns the text of a line of a source file; `None` if the file can't be read, or has no such line.
    fn source_text(&mut self, path: &str, number: u32) -> Option<String> {
        let lines = self.files.entry(path.to_owned()).or_insert_with(|| {
            let text = files::read(Path::new(path), MAX_SOURCE_SIZE);
            let library_source =
                || files::read(&rust_sources::find_source(path)?, MAX_SOURCE_SIZE).ok();
            let text = text.ok().or_else(library_source)?;
            let text = String::from_utf8_lossy(&text);
            Some(text.lines().map(str::to_owned).collect())
        });
        match lines {
            Some(lines) => lines.get(number as usize - 1).cloned(),
            None => {
                self.missing_files.insert(path.to_owned());
                None
            }
        }
    }

    /// Returns notes on the sources that could not be read.
    fn notes(self) -> Vec<String> {
        let files = missing_files_note(&self.missing_files);
        self.lines.warnings().into_iter().chain(files).collect()
    }
}

/// Returns a sentence on source files that can't be read.
fn missing_files_note(files: &BTreeSet<String>) -> Option<String> {
    let first = files.first()?;
    let sentence = match files.len() {
        1 => format!("{first} can't be read, so only its line numbers are shown"),
        all => format!(
            "{} can't be read, so only their line numbers are shown: {first} and {} more",
            count(all as u64, "source file"),
            all - 1
        ),
    };
    let is_in_rust_library = files
        .iter()
        .any(|file| rust_sources::is_in_rust_library(file));
    Some(if is_in_rust_library {
        format!("{sentence}. `rustup component add rust-src` has those of Rust's library")
    } else {
        sentence
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    use crate::commands::annotate::SampledFunctions;
    use crate::recording::perfdata::{FileFacts, Sample, Symbol, SymbolTable};
    use crate::recording::profile::Filter;
    use crate::recording::symbols::testing::Inlined;

    /// Returns a recording with two samples at an address of a program, and a symbol for the function around it.
    fn recorded(program: &Inlined) -> Recording {
        let sample = Sample {
            ip: Inlined::START + program.here,
            period: 5,
            ..Sample::default()
        };
        let mut recording = program.recorded(&[sample.clone(), sample]);
        recording.notes.symbols = vec![SymbolTable {
            file: program.path.to_string_lossy().into_owned(),
            symbols: vec![Symbol {
                start: program.here,
                length: 4,
                name: "outer".to_owned(),
            }],
            facts: FileFacts::of(&program.path).filter(|_| program.build_id.is_none()),
            ..SymbolTable::default()
        }];
        recording
    }

    fn listing(recording: &Recording) -> Result<Listing, String> {
        let functions =
            SampledFunctions::collect(recording, 0, &Filter::default()).expect("nothing fails");
        let function = functions.find(Some("outer"))?[0];
        assert_eq!((function.events, function.samples), (10, 2));
        Listing::new(recording, function, (Syntax::Att, true))
    }

    #[test]
    fn an_instruction_has_its_share_and_its_line() {
        let program = Inlined::new(&["-g"]);
        let listing = listing(&recorded(&program)).expect("all is there");
        assert_eq!(listing.shown_events, 10);
        let [file, source, first, ..] = &listing.lines[..] else {
            panic!("{listing:?}")
        };
        assert!(matches!(&file.content, LineContent::File(name) if name.ends_with("inlined.c")));
        assert!(
            matches!(&source.content, LineContent::Source { number: 2, text } if !text.is_empty()),
            "{source:?}"
        );
        assert!((first.share - 1.0).abs() < 1e-12, "{first:?}");
        assert_eq!(first.percent(), "100.00");
    }

    #[test]
    fn a_pipe_in_place_of_the_source_is_not_read() {
        let program = Inlined::new(&["-g"]);
        let source = program.path.with_file_name("inlined.c");
        fs::remove_file(&source).expect("it is there");
        nix::unistd::mkfifo(&source, nix::sys::stat::Mode::S_IRWXU).expect("it can be made");
        let listing = listing(&recorded(&program)).expect("the instructions are there");
        let note = format!("{} can't be read", source.display());
        assert!(listing.notes[0].starts_with(&note), "{:?}", listing.notes);
    }

    #[test]
    fn sources_that_are_missing_are_one_line() {
        let words = |files: &[&str]| {
            missing_files_note(&files.iter().map(|file| (*file).to_owned()).collect())
        };
        assert_eq!(words(&[]), None);
        let line = words(&["/a.c", "/rustc/1/b.rs", "/rustc/1/c.rs"]).expect("some are");
        assert!(line.starts_with("3 source files can't be read"), "{line}");
        assert!(
            line.contains("/a.c and 2 more. `rustup component"),
            "{line}"
        );
        let line = words(&["/a.c"]).expect("one is");
        assert!(
            line.starts_with("/a.c can't") && !line.contains("rustup"),
            "{line}"
        );
    }

    #[test]
    fn another_version_has_no_instructions() {
        let program = Inlined::new(&["-g"]);
        let mut recording = recorded(&program);
        recording.build_ids[0].id[0] ^= 1;
        let error = listing(&recording).expect_err("it is another version");
        assert!(error.contains("was replaced"), "{error}");
        recording.build_ids.clear();
        let error = listing(&recording).expect_err("it may be another version");
        assert!(error.contains("no build-id"), "{error}");
    }

    #[test]
    fn a_program_without_a_build_id_has_instructions_until_it_changes() {
        let program = Inlined::new(&["-g", Inlined::NO_BUILD_ID]);
        let recording = recorded(&program);
        let listing_before = listing(&recording).expect("it is unchanged");
        assert_eq!(listing_before.shown_events, 10);
        let is_source = |line: &ListingLine| matches!(line.content, LineContent::Source { .. });
        assert!(listing_before.lines.iter().any(is_source));
        program.touch();
        let error = listing(&recording).expect_err("it may be another version");
        assert!(error.contains("was replaced"), "{error}");
    }

    #[test]
    fn a_wrong_name_is_answered_with_similar_ones() {
        let recording = recorded(&Inlined::new(&[]));
        let functions =
            SampledFunctions::collect(&recording, 0, &Filter::default()).expect("nothing fails");
        let error = functions.find(Some("outre")).expect_err("there is none");
        assert!(error.contains("Similar names: `outer`"), "{error}");
        assert_eq!(functions.find(None).map(|list| list.len()), Ok(1));
    }
}

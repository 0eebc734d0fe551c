// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source lines and inlined functions, from the debug information of programs.
//!
//! Lines are looked up when a report shows them, for single addresses. Reading all debug information of a large program
//! would take longer than the report, and storing it would make the recording much larger.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ahash::AHashMap;
use blazesym::symbolize::source::{self, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use gimli::{DW_AT_GNU_dwo_name, DW_AT_dwo_name, LittleEndian};
use object::ReadCache;

use super::demangle::demangle;
use super::elf::SplitDebug;
use super::sections::{oversized_section, section_content};
use super::{DebugFiles, Elf, LocatedFile};
use crate::recording::perfdata::FileVersion;
use crate::system::files;

/// A text and its number. Equal texts have the same number.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) number: u32,
    pub(crate) text: Rc<str>,
}

/// A function at an address: one that was inlined there, or the function that the address is in.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Name of the inlined function; `None` for the function that the address is in.
    pub(crate) inlined: Option<Text>,
    /// The source line of the address in this function, such as `file.c:12`. If another function
    /// was inlined at the address, the line of the call of that function.
    pub(crate) line: Option<Text>,
    /// The line as the file's path and the line's number.
    pub(crate) source: Option<SourceLine>,
}

/// A line of a source file.
#[derive(Clone, Debug)]
pub(crate) struct SourceLine {
    pub(crate) path: Text,
    /// Number of the line, from 1 on; 0 if it is not known.
    pub(crate) number: u32,
}

/// Looks up source lines and inlined functions.
pub(crate) struct Lines {
    symbolizer: Symbolizer,
    debug_files: DebugFiles,
    cache: RefCell<LookupCache>,
}

#[derive(Default)]
struct LookupCache {
    /// Files so far; `None` if a file has no debug information that can be read.
    files: AHashMap<PathBuf, Option<DebugProgram>>,
    /// Results so far, by the file's number and the offset.
    levels: AHashMap<(u32, u64), Rc<[Level]>>,
    texts: AHashMap<Rc<str>, u32>,
    warnings: Vec<String>,
}

/// A program with its debug information.
#[derive(Clone)]
struct DebugProgram {
    elf: Rc<Elf>,
    /// The program or its debug file.
    path: Rc<Path>,
}

impl Lines {
    /// Creates an instance that has read no file yet, and looks for separate debug files in these folders.
    pub(crate) fn new(debug_files: DebugFiles) -> Self {
        Self {
            symbolizer: Symbolizer::builder().enable_auto_reload(false).build(),
            debug_files,
            cache: RefCell::default(),
        }
    }

    /// Returns the functions at an offset of a file: first the innermost inlined function, and last
    /// the function that contains the offset. Without debug information, returns only the
    /// containing function. `key` is the file's number; debug information is used only if it
    /// belongs to the version of the file that `version` returns, which is called once for each file.
    pub(crate) fn at<'a>(
        &self,
        (key, file): (u32, &Path),
        version: impl FnOnce() -> FileVersion<'a>,
        offset: u64,
    ) -> Rc<[Level]> {
        let cache = &mut *self.cache.borrow_mut();
        if let Some(levels) = cache.levels.get(&(key, offset)) {
            return levels.clone();
        }
        let program = match cache.files.get(file) {
            Some(program) => program.clone(),
            None => {
                let program = self.find(file, version());
                if let Ok(program) = &program {
                    cache
                        .warnings
                        .extend(unread_parts_warning(file, &program.path));
                }
                let program = program.map_err(|reason| cache.warnings.push(reason)).ok();
                cache.files.insert(file.to_owned(), program.clone());
                program
            }
        };
        let levels =
            program.and_then(|program| self.read_levels(&program, offset, &mut cache.texts));
        let levels = levels.unwrap_or_else(|| {
            [Level {
                inlined: None,
                line: None,
                source: None,
            }]
            .into()
        });
        cache.levels.insert((key, offset), Rc::clone(&levels));
        levels
    }

    /// Returns the reasons why files have no lines, a sentence for each file.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.cache.borrow().warnings.clone()
    }

    /// Finds the debug information of a file.
    fn find(&self, file: &Path, version: FileVersion<'_>) -> Result<DebugProgram, String> {
        let name = file.display();
        let not_shown = "its source lines and inlined functions are not shown";
        let located_file = self.debug_files.locate(file, version);
        let LocatedFile { path, elf } = located_file
            .map_err(|absence| format!("{}: {not_shown}", absence.reason(&name.to_string())))?;
        let path = if elf.has_lines {
            Some(path)
        } else {
            self.debug_files.find(&path, &elf)
        };
        if let Some(other) = path
            .as_deref()
            .and_then(|path| self.debug_files.irregular_companion(path))
        {
            return Err(format!(
                "{} is not a regular file: {not_shown}",
                other.display()
            ));
        }
        if let Some(section) = path
            .as_deref()
            .and_then(|path| oversized_section(path, true))
        {
            return Err(format!(
                "{name}: section {section} unpacks to more than pmctl reads: {not_shown}"
            ));
        }
        match path {
            Some(path) => Ok(DebugProgram {
                elf: elf.into(),
                path: path.into(),
            }),
            None => Err(format!(
                "{name} has no debug information: compile it with -g, or install its debug symbols"
            )),
        }
    }

    /// Looks up the functions at an offset of a program, in the program's debug information.
    fn read_levels(
        &self,
        program: &DebugProgram,
        offset: u64,
        texts: &mut AHashMap<Rc<str>, u32>,
    ) -> Option<Rc<[Level]>> {
        let address = program.elf.address(offset)?;
        let source = Source::Elf(source::Elf::new(&*program.path));
        let symbol = self
            .symbolizer
            .symbolize_single(&source, Input::VirtOffset(address));
        let Ok(Symbolized::Sym(symbol)) = symbol else {
            return None;
        };
        let mut line = |info: &CodeInfo<'_>| {
            let line = info.line.unwrap_or(0);
            let text = format!("{}:{line}", info.file.to_string_lossy());
            let source = SourceLine {
                path: intern(&info.to_path().to_string_lossy(), texts),
                number: line,
            };
            (intern(&text, texts), source)
        };
        let own_line = symbol.code_info.as_deref().map(&mut line).unzip();
        let inlined: Vec<_> = symbol
            .inlined
            .iter()
            .map(|f| (&f.name, f.code_info.as_ref().map(&mut line).unzip()))
            .collect();
        // blazesym has the outermost function first.
        let inlined = inlined
            .into_iter()
            .rev()
            .map(|(name, (line, source))| Level {
                inlined: Some(intern(&demangle(name), texts)),
                line,
                source,
            });
        let inlined: Vec<Level> = inlined.collect();
        let outer_level = Level {
            inlined: None,
            line: own_line.0,
            source: own_line.1,
        };
        Some(inlined.into_iter().chain([outer_level]).collect())
    }
}

/// Returns a warning if parts of the debug information of the program `file` can't be read. `path` is the file with the
/// debug information: the program itself, or its debug file.
fn unread_parts_warning(file: &Path, path: &Path) -> Option<String> {
    let elf = Elf::read(path)?;
    let name = file.display();
    if elf.split_debug == SplitDebug::Shared {
        return Some(format!(
            "a part of the debug information of {name} is in a file that dwz made, which pmctl can't read: some lines and \
             inlined functions are missing. A build that dwz has not processed has them"
        ));
    }
    let mut package = path.as_os_str().to_owned();
    package.push(".dwp");
    let has_package = Path::new(&package).is_file();
    let may_be_split = elf.split_debug == SplitDebug::PerSourceFile;
    (may_be_split && !has_package && is_split(path)).then(|| {
        format!(
            "the inlined functions of {name} are in .dwo files (-gsplit-dwarf), which pmctl can't read: pack them with \
             `dwp -e {name} -o {name}.dwp`"
        )
    })
}

/// Returns whether the debug information of a file refers to `.dwo` files, one for each source file.
fn is_split(path: &Path) -> bool {
    let Ok(file) = files::open(path) else {
        return false;
    };
    let cache = ReadCache::new(file);
    let Ok(file) = object::File::parse(&cache) else {
        return false;
    };
    let (Some(units), Some(abbreviations)) = (
        section_content(&file, ".debug_info"),
        section_content(&file, ".debug_abbrev"),
    ) else {
        return false;
    };
    let abbreviations = gimli::DebugAbbrev::new(&abbreviations, LittleEndian);
    let mut units = gimli::DebugInfo::new(&units, LittleEndian).units();
    while let Ok(Some(unit)) = units.next() {
        let Ok(abbreviations) = unit.abbreviations(&abbreviations) else {
            return false;
        };
        let mut entries = unit.entries(&abbreviations);
        let Ok(Some((_, root))) = entries.next_dfs() else {
            return false;
        };
        let has = |name| root.attr(name).is_ok_and(|attribute| attribute.is_some());
        if has(DW_AT_dwo_name) || has(DW_AT_GNU_dwo_name) {
            return true;
        }
    }
    false
}

/// Returns the text with its number. A new text gets the next number.
fn intern(text: &str, texts: &mut AHashMap<Rc<str>, u32>) -> Text {
    if let Some((text, number)) = texts.get_key_value(text) {
        let text = Rc::clone(text);
        return Text {
            number: *number,
            text,
        };
    }
    let number = u32::try_from(texts.len()).unwrap_or(u32::MAX);
    let text: Rc<str> = text.into();
    texts.insert(Rc::clone(&text), number);
    Text { number, text }
}

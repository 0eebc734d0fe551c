// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source lines and inlined functions at the addresses of a recording.

use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use super::sample_names::Site;
use crate::recording::perfdata::Recording;
use crate::recording::symbols::{DebugFiles, Level, Lines, jit};
use crate::system::screen::Colors;
use crate::system::text::{count, printable};

/// Source lines and inlined functions of a recording.
pub(crate) struct SourceLines<'a> {
    lines: Lines,
    recording: &'a Recording,
}

impl<'a> SourceLines<'a> {
    /// Creates an instance that has read no file yet.
    pub(crate) fn new(recording: &'a Recording) -> Self {
        Self {
            lines: Lines::new(DebugFiles::of_user()),
            recording,
        }
    }

    /// Returns the function at the address of a site and the functions inlined there, the innermost first. For a return
    /// address, returns the functions at the call instruction in front of the address.
    pub(crate) fn at(&self, site: &Site<'_>, is_return: bool) -> Rc<[Level]> {
        let file = site.file.filter(|(_, path)| is_file(path));
        let Some((number, path)) = file else {
            return UNKNOWN_LEVEL.into();
        };
        let offset = site.file_offset().wrapping_sub(u64::from(is_return));
        let version = || self.recording.version(path);
        self.lines.at((number.number(), path), version, offset)
    }

    /// Returns the reasons why files have no lines, a sentence for each file.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.lines.warnings()
    }

    /// Writes the reasons why files have no lines.
    pub(crate) fn write_warnings(&self, colors: Colors, output: &mut impl Write) -> io::Result<()> {
        const MAX_WARNINGS: usize = 5;
        let style = colors.warning;
        let warnings = self.warnings();
        for warning in warnings.iter().take(MAX_WARNINGS) {
            writeln!(output, "{style}NO LINES{style:#}: {}.", printable(warning))?;
        }
        match warnings.len().saturating_sub(MAX_WARNINGS) {
            0 => Ok(()),
            more => writeln!(
                output,
                "{style}NO LINES{style:#}: {}.",
                count(more as u64, "more file")
            ),
        }
    }
}

/// The level of an address whose source line is not known.
const UNKNOWN_LEVEL: [Level; 1] = [Level {
    inlined: None,
    line: None,
    source: None,
}];

/// Returns whether the path names a file, and not a part of the kernel or JIT code.
fn is_file(path: &Path) -> bool {
    path.is_absolute() && jit::process_of(path).is_none()
}

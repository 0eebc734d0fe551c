// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source lines of a recording's sites.

use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

use super::Site;
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
    /// Creates one that has read nothing yet.
    pub(crate) fn new(recording: &'a Recording) -> Self {
        Self {
            lines: Lines::new(DebugFiles::of_user()),
            recording,
        }
    }

    /// Returns what is at the address of a site, from inside outward; at a return address, what is before it.
    pub(crate) fn at(&self, site: &Site<'_>, is_return: bool) -> Rc<[Level]> {
        let file = site.file.filter(|(_, path)| is_file(path));
        let Some((number, path)) = file else {
            return UNKNOWN_LEVEL.into();
        };
        let offset = site.place().wrapping_sub(u64::from(is_return));
        let version = self.recording.version(path);
        self.lines.at((number.number(), path), version, offset)
    }

    /// Returns why some files have no lines, a sentence for each.
    pub(super) fn warnings(&self) -> Vec<String> {
        self.lines.warnings()
    }

    /// Writes why some files have no lines.
    pub(crate) fn write_warnings(&self, colors: Colors, output: &mut impl Write) -> io::Result<()> {
        const MAX_WARNINGS: usize = 5;
        let mark = colors.warning;
        let warnings = self.warnings();
        for warning in warnings.iter().take(MAX_WARNINGS) {
            writeln!(output, "{mark}NO LINES{mark:#}: {}.", printable(warning))?;
        }
        match warnings.len().saturating_sub(MAX_WARNINGS) {
            0 => Ok(()),
            more => writeln!(
                output,
                "{mark}NO LINES{mark:#}: {}.",
                count(more as u64, "more file")
            ),
        }
    }
}

/// Where nothing is known.
const UNKNOWN_LEVEL: [Level; 1] = [Level {
    inlined: None,
    line: None,
    source: None,
}];

/// Returns whether it is the name of a file, and not of the kernel or of memory without a file.
fn is_file(path: &Path) -> bool {
    path.is_absolute() && jit::process_of(path).is_none()
}

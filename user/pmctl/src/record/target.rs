// SPDX-License-Identifier: MIT OR Apache-2.0
//! Destination of a recording: a file, or at its end standard output.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::libc;

use crate::stdio;

/// Destination of a recording.
pub(super) enum Target {
    /// This file; what is in it goes to a file of the same name with `.old`.
    File(PathBuf),
    /// Standard output. The header is written last, so the recording is in a file without a name until then.
    Output,
}

impl Target {
    /// Opens the destination of `-o`; what is in it stays until the recording begins.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            stdio::require_output()?;
            if io::stdout().is_terminal() {
                bail!(
                    "-o -: standard output is a terminal, and a recording is no text. Give a file or a pipe."
                );
            }
            return Ok(Self::Output);
        }
        let cannot_write = || format!("can't write {}", path.display());
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let file = options.open(path).with_context(cannot_write)?;
        if !file.metadata().with_context(cannot_write)?.is_file() {
            bail!(
                "can't write {}: it is no file, and the beginning of a recording is written last. \
                 `-o -` writes to standard output.",
                path.display()
            );
        }
        Ok(Self::File(path.to_owned()))
    }

    /// Returns the name for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Output => "standard output".to_owned(),
        }
    }

    /// Creates an empty file for the recording.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn begin(&self) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true);
        match self {
            Self::File(path) => {
                if fs::metadata(path).is_ok_and(|there| there.len() > 0) {
                    fs::rename(path, old(path))?;
                }
                options.create(true).truncate(true).open(path)
            }
            Self::Output => options.custom_flags(libc::O_TMPFILE).open(env::temp_dir()),
        }
    }

    /// Copies the recording to standard output, if that is the destination.
    ///
    /// # Errors
    /// Those of standard output.
    pub(super) fn end(&self, mut file: File) -> io::Result<()> {
        if let Self::Output = self {
            file.rewind()?;
            io::copy(&mut file, &mut io::stdout().lock())?;
        }
        Ok(())
    }
}

/// Returns the name for what was there before.
fn old(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".old");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_there_before_is_kept() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("perf.data");
        for content in ["first", "second"] {
            let target = Target::open(&path).expect("it can be written");
            let mut file = target.begin().expect("it can be made");
            file.write_all(content.as_bytes()).expect("there is room");
            target.end(file).expect("it is there already");
        }
        let content = |name: &str| fs::read(folder.path().join(name)).expect("it is there");
        assert_eq!(content("perf.data"), b"second");
        assert_eq!(content("perf.data.old"), b"first");
    }

    #[test]
    fn what_is_no_file_is_told_by_its_name() {
        let told = |path: &str| match Target::open(Path::new(path)) {
            Ok(_) => panic!("{path} was taken"),
            Err(error) => format!("{error:#}"),
        };
        assert!(told("/dev/null").starts_with("can't write /dev/null: it is no file"));
        assert!(told("/nonexistent/x").starts_with("can't write /nonexistent/x: No such file"));
    }
}

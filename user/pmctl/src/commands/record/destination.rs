// SPDX-License-Identifier: MIT OR Apache-2.0
//! Destination of a recording: a file, or a stream to standard output.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::recording::perfdata::{
    self, BuildId, Event, Finished, Host, Notes, Pipe, Record, Writer,
};
use crate::system::files::{NewFile, private_options};
use crate::system::stdio;

/// Destination of a recording.
pub(super) enum Destination {
    /// A file. An earlier recording in it is renamed to `.old`.
    File(NewFile),
    /// Standard output, as a stream.
    Output,
}

/// A recording that is being written.
pub(super) enum Sink {
    File(Writer<File>),
    Output(Pipe<File>),
}

impl Sink {
    /// Appends a record.
    ///
    /// # Errors
    /// An error if the output can't be written. After an error, the records that were not written yet are lost.
    pub(super) fn append(&mut self, record: &Record) -> io::Result<()> {
        match self {
            Self::File(writer) => writer.append(record),
            Self::Output(pipe) => pipe.append(record),
        }
    }

    /// Appends a record as the kernel has written it, with the event's identifier in it. `time` is that of a sample, and
    /// `None` for other records.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub(super) fn append_raw(&mut self, bytes: &[u8], time: Option<u64>) -> io::Result<()> {
        match self {
            Self::File(writer) => writer.append_raw(bytes, time),
            Self::Output(pipe) => pipe.append_raw(bytes, time),
        }
    }

    /// Returns the size of all records so far in bytes, written or not.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::File(writer) => writer.size(),
            Self::Output(pipe) => pipe.size(),
        }
    }

    /// Writes all records, so that a reader finds them.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub(super) fn save(&mut self) -> io::Result<()> {
        match self {
            Self::File(writer) => writer.save(),
            Self::Output(pipe) => pipe.save(),
        }
    }

    /// Returns whether an error means that nothing more can be written, while the records so far can be kept.
    pub(super) fn is_full(&self, error: &io::Error) -> bool {
        match self {
            Self::File(_) => perfdata::is_full(error),
            Self::Output(_) => {
                error.kind() == io::ErrorKind::BrokenPipe || perfdata::is_full(error)
            }
        }
    }

    /// Writes the parts that follow the records: the host, the build IDs and the notes.
    ///
    /// # Errors
    /// The errors of [`append`](Self::append).
    pub(super) fn finish(
        self,
        host: &Host,
        build_ids: &[BuildId],
        notes: &mut Notes,
    ) -> io::Result<Finished<File>> {
        match self {
            Self::File(writer) => {
                let finished = writer.finish(host, build_ids, notes)?;
                finished.output.set_len(finished.size)?;
                Ok(finished)
            }
            Self::Output(pipe) => pipe.finish(build_ids, notes),
        }
    }
}

impl Destination {
    /// Opens the destination of `-o`. An existing file keeps its content until the recording begins.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.as_os_str() == "-" {
            stdio::require_output()?;
            if io::stdout().is_terminal() {
                bail!(
                    "-o -: standard output is a terminal, and a recording is binary data. Give a file or a pipe."
                );
            }
            return Ok(Self::Output);
        }
        let write_error = || format!("can't write {}", path.display());
        let (file, new) =
            NewFile::open(path, private_options().truncate(false)).with_context(write_error)?;
        if !file.metadata().with_context(write_error)?.is_file() {
            bail!(
                "can't write {}: it is not a regular file, and the beginning of a recording is written last. \
                 `-o -` writes to standard output.",
                path.display()
            );
        }
        Ok(Self::File(new))
    }

    /// Returns the name for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(file) => file.path().display().to_string(),
            Self::Output => "standard output".to_owned(),
        }
    }

    /// Begins to write a recording of these events.
    ///
    /// # Errors
    /// An error if the file can't be created or written.
    pub(super) fn begin(&self, events: Vec<Event>, host: &Host) -> io::Result<Sink> {
        match self {
            Self::File(file) => {
                rename_to_old(file.path())?;
                let file = private_options()
                    .read(true)
                    .truncate(true)
                    .open(file.path())?;
                Ok(Sink::File(Writer::new(file, events)?))
            }
            Self::Output => {
                let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
                Ok(Sink::Output(Pipe::new(output, &events, host)?))
            }
        }
    }
}

/// Appends `.old` to the name of an existing file, unless the file is empty.
pub(crate) fn rename_to_old(path: &Path) -> io::Result<()> {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
        return Ok(());
    }
    match fs::rename(path, old_path(path)) {
        // Another recording has moved the file meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Returns the path that an earlier recording is renamed to.
pub(super) fn old_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".old");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_earlier_recording_is_kept() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("perf.data");
        for content in ["first", "second"] {
            let destination = Destination::open(&path).expect("it can be written");
            let begun = destination.begin(Vec::new(), &Host::default());
            assert!(matches!(begun, Ok(Sink::File(_))));
            fs::write(&path, content).expect("there is room");
        }
        let content = |name: &str| fs::read(folder.path().join(name)).expect("it is there");
        assert_eq!(content("perf.data"), b"second");
        assert_eq!(content("perf.data.old"), b"first");
    }

    #[test]
    fn a_recording_is_for_its_owner_only() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("perf.data");
        let mode = |path: &Path| {
            let facts = fs::metadata(path).expect("it is there");
            facts.permissions().mode() & 0o777
        };
        let destination = Destination::open(&path).expect("it can be written");
        assert_eq!(mode(&path), 0o600);
        // The earlier file keeps the mode that its owner gave it, the new one is private.
        fs::write(&path, "before").expect("there is room");
        let readable = Permissions::from_mode(0o644);
        fs::set_permissions(&path, readable.clone()).expect("it is ours");
        let begin = || drop(destination.begin(Vec::new(), &Host::default()));
        begin();
        assert_eq!((mode(&path), mode(&old_path(&path))), (0o600, 0o644));
        // An empty file is no earlier recording: it is written to, and keeps its mode.
        fs::write(&path, "").expect("there is room");
        fs::set_permissions(&path, readable).expect("it is ours");
        begin();
        assert_eq!(mode(&path), 0o644);
    }

    #[test]
    fn errors_name_the_path() {
        let message = |path: &str| match Destination::open(Path::new(path)) {
            Ok(_) => panic!("{path} was taken"),
            Err(error) => format!("{error:#}"),
        };
        assert!(
            message("/dev/null").starts_with("can't write /dev/null: it is not a regular file")
        );
        assert!(message("/nonexistent/x").starts_with("can't write /nonexistent/x: No such file"));
    }
}

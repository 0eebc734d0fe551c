// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends the files that the host needs after the command has ended.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::super::task::{GuestContent, GuestFile, GuestTask};
use super::super::wire::{CHUNK_SIZE, Channel, Message, Stream};
use super::relay;
use crate::system::text::error_text;

/// Facts of a file. At least one of them changes when the file is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeStamp {
    device: u64,
    inode: u64,
    /// Time of the last change, in seconds and nanoseconds.
    change_time: (i64, i64),
}

impl ChangeStamp {
    fn of(facts: &Metadata) -> Self {
        Self {
            device: facts.dev(),
            inode: facts.ino(),
            change_time: (facts.ctime(), facts.ctime_nsec()),
        }
    }
}

/// Returns the stamp of each file of the task; `None` for files that do not exist.
pub(super) fn stamps(task: &GuestTask) -> Vec<Option<ChangeStamp>> {
    let facts = task.files.iter().map(|name| fs::metadata(path(task, name)));
    facts
        .map(|facts| Some(ChangeStamp::of(&facts.ok()?)))
        .collect()
}

/// Sends the files of the task that the command has changed since `stamps_before` were taken. For each other file,
/// sends the reason why it is missing.
pub(super) fn send_changed(
    channel: &mut Channel<File>,
    task: &GuestTask,
    stamps_before: &[Option<ChangeStamp>],
) -> Result<()> {
    for (index, (name, before)) in task.files.iter().zip(stamps_before).enumerate() {
        let (content, file) = match open_changed(task, name, *before) {
            Ok(content_and_file) => content_and_file,
            Err(error) => (GuestContent::Missing(error_text(&error)), None),
        };
        channel.send(&Message::File(GuestFile { index, content }))?;
        if let Some(file) = file {
            send_content(channel, file)?;
            channel.send(&Message::End(Stream::File))?;
        }
    }
    Ok(())
}

/// Finds a file that the command has written, and opens it if it is not on the host already.
fn open_changed(
    task: &GuestTask,
    name: &OsString,
    before: Option<ChangeStamp>,
) -> io::Result<(GuestContent, Option<File>)> {
    let path = match path(task, name).canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(io::Error::other("the command wrote no such file"));
        }
        path => path?,
    };
    // Opening a pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let file = File::open(&path)?;
    let facts = file.metadata()?;
    if before == Some(ChangeStamp::of(&facts)) {
        return Err(io::Error::other("the command did not write it"));
    }
    if task
        .shared_directories
        .iter()
        .any(|directory| path.starts_with(directory))
    {
        return Ok((GuestContent::OnHost, None));
    }
    Ok((GuestContent::Follows(facts.mode()), Some(file)))
}

/// Returns the path of a file of the task.
fn path(task: &GuestTask, name: &OsString) -> PathBuf {
    Path::new(&task.directory).join(name)
}

/// Sends the content of a file.
fn send_content(channel: &mut Channel<File>, mut file: File) -> Result<()> {
    let mut bytes = vec![0; CHUNK_SIZE];
    loop {
        let length = file
            .read(&mut bytes)
            .context("can't read what the command has written")?;
        if length == 0 {
            return Ok(());
        }
        channel.send_data(Stream::File, &bytes[..length])?;
        if channel.is_full() {
            relay::flush(channel)?;
        }
    }
}

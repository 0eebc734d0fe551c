// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the host wants when the command has ended.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::super::task::{GuestContent, GuestFile, GuestTask};
use super::super::wire::{CHUNK, Channel, Message, Stream};
use super::relay;

/// The version of a file: its device, inode and time of change, one of which differs after a write or a replacement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangeStamp {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl ChangeStamp {
    fn of(facts: &Metadata) -> Self {
        Self {
            device: facts.dev(),
            inode: facts.ino(),
            changed: (facts.ctime(), facts.ctime_nsec()),
        }
    }
}

/// Returns the files' versions before the command starts; `None` for those that are not there.
pub(super) fn versions(task: &GuestTask) -> Vec<Option<ChangeStamp>> {
    let facts = task.files.iter().map(|name| fs::metadata(path(task, name)));
    facts
        .map(|facts| Some(ChangeStamp::of(&facts.ok()?)))
        .collect()
}

/// Sends the files, if they are not those of `before`.
pub(super) fn send(
    channel: &mut Channel<File>,
    task: &GuestTask,
    before: &[Option<ChangeStamp>],
) -> Result<()> {
    for (index, (name, before)) in task.files.iter().zip(before).enumerate() {
        let (content, file) = match find(task, name, *before) {
            Ok(found) => found,
            Err(error) => (GuestContent::Missing(error.to_string()), None),
        };
        channel.send(&Message::File(GuestFile { index, content }))?;
        if let Some(file) = file {
            copy(channel, file)?;
            channel.send(&Message::End(Stream::File))?;
        }
    }
    Ok(())
}

/// Finds a file that the command has written, and opens it if it is not on the host already.
fn find(
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
    // A pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let file = File::open(&path)?;
    let facts = file.metadata()?;
    if before == Some(ChangeStamp::of(&facts)) {
        return Err(io::Error::other("the command did not write it"));
    }
    if task
        .shared
        .iter()
        .any(|directory| path.starts_with(directory))
    {
        return Ok((GuestContent::OnHost, None));
    }
    Ok((GuestContent::Follows(facts.mode()), Some(file)))
}

fn path(task: &GuestTask, name: &OsString) -> PathBuf {
    Path::new(&task.directory).join(name)
}

fn copy(channel: &mut Channel<File>, mut file: File) -> Result<()> {
    let mut bytes = vec![0; CHUNK];
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

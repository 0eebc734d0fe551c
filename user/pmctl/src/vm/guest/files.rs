// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the host wants when the command has ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::task::{Content, Found, Task};
use super::super::wire::{CHUNK, Channel, Message, Stream};
use super::relay;

/// Sends the files, if they were written since `start`, a time since 1970.
pub(super) fn send(channel: &mut Channel<File>, task: &Task, start: Duration) -> Result<()> {
    for (index, name) in task.files.iter().enumerate() {
        let (content, file) = match find(task, name, start) {
            Ok(found) => found,
            Err(error) => (Content::Missing(error.to_string()), None),
        };
        channel.send(&Message::File(Found { index, content }))?;
        if let Some(file) = file {
            copy(channel, file)?;
            channel.send(&Message::End(Stream::File))?;
        }
    }
    Ok(())
}

/// Finds a file that the command has written, and opens it if it is not on the host already.
fn find(task: &Task, name: &OsString, start: Duration) -> io::Result<(Content, Option<File>)> {
    let path = match Path::new(&task.directory).join(name).canonicalize() {
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
    // Files that were there are older than the time when the command started.
    if facts.ctime().unsigned_abs() < start.as_secs() {
        return Err(io::Error::other("the command did not write it"));
    }
    if task
        .shared
        .iter()
        .any(|directory| path.starts_with(directory))
    {
        return Ok((Content::OnHost, None));
    }
    Ok((Content::Follows(facts.mode()), Some(file)))
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

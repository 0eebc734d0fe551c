// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the host wants when the command has ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

use super::super::task::{Found, Task};
use super::super::wire::{CHUNK, Channel, Message, Stream};
use super::relay;
use super::system::CLOCK;

/// Sends the files.
pub(super) fn send(channel: &mut Channel<File>, task: &Task) -> Result<()> {
    for (index, name) in task.files.iter().enumerate() {
        match open(task, name) {
            Ok((file, mode)) => {
                channel.send(&Message::File(Found {
                    index,
                    mode: Ok(mode),
                }))?;
                copy(channel, file)?;
                channel.send(&Message::End(Stream::File))?;
            }
            Err(error) => channel.send(&Message::File(Found {
                index,
                mode: Err(error.to_string()),
            }))?,
        }
    }
    Ok(())
}

/// Opens a file, and returns its permission bits, too.
fn open(task: &Task, name: &OsString) -> io::Result<(File, u32)> {
    let path = Path::new(&task.directory).join(name);
    // A pipe would wait for a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let file = File::open(path)?;
    let facts = file.metadata()?;
    // The host's files are older than the guest's clock.
    if facts.ctime() < CLOCK {
        return Err(io::Error::other("the command did not write it"));
    }
    Ok((file, facts.mode()))
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
        channel.send(&Message::Data(Stream::File, bytes[..length].to_vec()))?;
        if channel.is_full() {
            relay::flush(channel)?;
        }
    }
}

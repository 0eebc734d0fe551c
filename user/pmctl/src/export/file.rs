// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that is whole or not there.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Writes a file beside its place, and moves it there when it is whole. What is there and is no file, as a pipe, is
/// written itself.
///
/// # Errors
/// Those of `fill`, and of the file, with its name.
pub(super) fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let is_special = fs::metadata(path).is_ok_and(|facts| !facts.is_file());
    // A link stays a link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = if is_special {
        target.clone()
    } else {
        unfinished(&target)
    };
    let written = fill_file(&beside, fill).and_then(|()| {
        if is_special {
            return Ok(());
        }
        Ok(fs::rename(&beside, &target)?)
    });
    if written.is_err() && !is_special {
        let _ = fs::remove_file(&beside);
    }
    written.with_context(|| format!("can't write {}", path.display()))
}

fn fill_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    fill(&mut file)?;
    Ok(file.flush()?)
}

/// Returns the name of a file until it is whole.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_fails_leaves_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("out");
        write(&path, |file| Ok(file.write_all(b"old")?)).expect("it can be written");
        let failed = write(&path, |file| {
            file.write_all(b"new")?;
            anyhow::bail!("the end")
        });
        let message = format!("{:#}", failed.expect_err("it fails"));
        assert!(message.starts_with("can't write ") && message.ends_with("out: the end"));
        assert_eq!(fs::read(&path).expect("it is there"), b"old");
        assert_eq!(folder.path().read_dir().expect("it is ours").count(), 1);
    }

    #[test]
    fn a_device_is_written_itself() {
        write(Path::new("/dev/null"), |file| Ok(file.write_all(b"x")?)).expect("it takes all");
        let full = write(Path::new("/dev/full"), |file| Ok(file.write_all(b"x")?));
        assert!(full.is_err());
        assert!(!fs::metadata("/dev/full").expect("it is there").is_file());
    }
}

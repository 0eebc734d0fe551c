// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that the command has written in the guest, and that are copied to the host.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result, anyhow};

use super::task::{GuestContent, GuestFile};
use crate::args::{Command, Vm};
use crate::commands::record::rename_to_old;
use crate::system::stdio::complain;
use crate::system::whole_file::WholeFile;

/// A file that is to be copied: one that --out names, or one that pmctl's command in the guest writes.
#[derive(Debug, PartialEq, Eq)]
struct WantedFile {
    path: PathBuf,
    /// The file is named by --out, so that a missing file is an error. If another file is missing, pmctl in the guest has
    /// reported the error.
    is_named: bool,
    /// An existing file on the host is renamed to `.old`.
    is_recording: bool,
}

/// Writes the files on the host, as the guest sends them.
pub(super) struct ResultFiles {
    wanted_files: Vec<WantedFile>,
    /// The file that the guest sends at present.
    open_file: Option<WholeFile>,
    /// A file of --out is missing, or a file can't be written.
    pub(super) has_failed: bool,
}

impl ResultFiles {
    /// Lists the files of --out, and those that pmctl's command writes in the guest.
    pub(super) fn new(args: &Vm, command: Option<&Command>) -> Self {
        let own_files = command.map(files_written_by).unwrap_or_default();
        Self {
            wanted_files: wanted_files(&args.out, own_files),
            open_file: None,
            has_failed: false,
        }
    }

    /// Returns the names of the files.
    pub(super) fn names(&self) -> Vec<OsString> {
        let names = self.wanted_files.iter().map(|wanted| wanted.path.clone());
        names.map(PathBuf::into_os_string).collect()
    }

    /// Creates a file whose content the guest sends next, or reports why the file is missing.
    pub(super) fn begin_file(&mut self, guest_file: &GuestFile) {
        let Some(wanted) = self.wanted_files.get(guest_file.index) else {
            return;
        };
        match &guest_file.content {
            GuestContent::Follows(mode) => match create_file(wanted, *mode) {
                Ok(file) => self.open_file = Some(file),
                Err(error) => self.report_error(&error),
            },
            GuestContent::Missing(reason) if wanted.is_named => {
                let path = wanted.path.display();
                let error = anyhow!("can't copy {path} out of the virtual machine: {reason}");
                self.report_error(&error);
            }
            GuestContent::Missing(_) | GuestContent::OnHost => {}
        }
    }

    /// Appends bytes to the file.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.open_file else {
            return;
        };
        if let Err(error) = file.write_all(bytes) {
            self.open_file = None;
            self.report_error(&error.into());
        }
    }

    /// Finishes the file, and gives it its name.
    pub(super) fn finish_file(&mut self) {
        let finish_result = self.open_file.take().map(|mut file| file.finish());
        if let Some(Err(error)) = finish_result {
            self.report_error(&error.into());
        }
    }

    /// Reports that a file can't be copied. The other files are still copied.
    fn report_error(&mut self, error: &anyhow::Error) {
        complain(format_args!("{error:#}"));
        self.has_failed = true;
    }
}

/// Creates a file with these permission bits.
fn create_file(wanted: &WantedFile, mode: u32) -> Result<WholeFile> {
    if wanted.is_recording {
        rename_to_old(&wanted.path)
            .with_context(|| format!("can't rename {}", wanted.path.display()))?;
    }
    let file = WholeFile::create(&wanted.path)?;
    file.set_permissions(Permissions::from_mode(mode & 0o777))?;
    Ok(file)
}

/// Returns the files that pmctl's command writes.
fn files_written_by(command: &Command) -> Vec<WantedFile> {
    let (files, is_recording) = match command {
        Command::Stat(stat) => (vec![stat.output.clone(), stat.record.clone()], false),
        Command::Record(record) => (vec![Some(record.output.clone())], true),
        Command::Bench(bench) => (vec![bench.save.clone()], false),
        _ => (Vec::new(), false),
    };
    let files = files.into_iter().flatten();
    files
        .filter(|path| path.as_os_str() != "-")
        .map(|path| WantedFile {
            path,
            is_named: false,
            is_recording,
        })
        .collect()
}

/// Returns the files that pmctl's command writes and those of --out, each file once.
fn wanted_files(named_paths: &[PathBuf], own_files: Vec<WantedFile>) -> Vec<WantedFile> {
    let mut files = own_files;
    for path in named_paths {
        match files
            .iter_mut()
            .find(|wanted| is_same_path(&wanted.path, path))
        {
            Some(wanted) => wanted.is_named = true,
            None => files.push(WantedFile {
                path: path.clone(),
                is_named: true,
                is_recording: false,
            }),
        }
    }
    files
}

/// Returns whether two paths name the same file, by their absolute forms.
fn is_same_path(one: &Path, other: &Path) -> bool {
    match (absolute(one), absolute(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_and_written_comes_once() {
        let wanted_file = |path: &str, is_named, is_recording| WantedFile {
            path: path.into(),
            is_named,
            is_recording,
        };
        let named_files = ["notes".into(), "./perf.data".into(), "notes".into()];
        let expected = [
            wanted_file("perf.data", true, true),
            wanted_file("notes", true, false),
        ];
        assert_eq!(
            wanted_files(&named_files, vec![wanted_file("perf.data", false, true)]),
            expected
        );
    }
}

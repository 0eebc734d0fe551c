// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a recording for the commands that show one: each sample with its names.

mod chain;
mod end;
mod filter;
mod frame_pointers;
mod refresh;
mod sample_names;
mod source_lines;

use std::io::ErrorKind;
use std::mem;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use ahash::AHashSet;
use anyhow::{Context, Result, anyhow};
use nix::unistd::Uid;

pub(crate) use chain::{Frame, with_lines};
pub(crate) use filter::{Filter, TimeSpan};
pub(crate) use sample_names::{NamedSample, SampleNames, Site};
pub(crate) use source_lines::SourceLines;

use crate::recording::file_text::path_of_text;
use crate::recording::perfdata::{
    self, Body, BuildId, Recording, RecordingBytes, Sample, Stamp, SymbolTable,
};
use crate::recording::places::Places;
use crate::recording::symbols::DebugFiles;
use crate::recording::unwind::{self, CutChains, RecordedFiles, Unwinder};
use crate::system::text::quoted;
use crate::system::users::UserName;

/// Opens a recording.
///
/// # Errors
/// A message with the file's name.
pub(crate) fn open(path: &Path) -> Result<Recording> {
    const NO_FILE_ADVICE: &str =
        "Record with `pmctl record -- COMMAND`, or name another recording with -i.";
    open_with_advice(path, NO_FILE_ADVICE)
}

/// Opens a recording; `advice` says what to do if there is no such file.
///
/// # Errors
/// A message with the file's name.
pub(crate) fn open_with_advice(path: &Path, advice: &str) -> Result<Recording> {
    let source = RecordingBytes::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow!("there is no file {}\n{advice}", path.display()),
        ErrorKind::IsADirectory => anyhow!("{}", folder_message(path)),
        ErrorKind::PermissionDenied => anyhow!("{}", forbidden_message(path)),
        _ => anyhow!("can't read {}: {error}", path.display()),
    })?;
    let file = source.file_facts();
    let mut recording = perfdata::read(source).with_context(|| path.display().to_string())?;
    recording.end = end::end_of(&recording, file.as_ref());
    if recording.is_unfinished || recording.is_from_perf {
        // The recording has no symbols: they are looked up when a recording by pmctl ends.
        let mut places = Places::for_recording(&recording);
        let mut reader = recording.records.reader();
        while let Some(record) = reader.next_record()? {
            places.note_record(record);
        }
        let (symbols, build_ids) = places.look_up();
        add_build_ids(&mut recording.build_ids, build_ids);
        let is_affected = |table: &SymbolTable| {
            is_replaced_program(table) && recording.build_id(&path_of_text(&table.file)).is_none()
        };
        if recording.end.is_none() && symbols.iter().any(is_affected) {
            recording.notes.degraded.push(UNKNOWN_END.to_owned());
        }
        recording.notes.symbols = symbols;
    } else {
        refresh::refresh(&mut recording, &DebugFiles::of_user())?;
    }
    Ok(recording)
}

/// The note on a recording whose programs may have changed since, as nothing tells when it ended.
const UNKNOWN_END: &str = "programs without build-id have no names, since it can't be told whether they have changed: the \
                           recording is of another machine, of before the last start of this one, or without times";

fn is_replaced_program(table: &SymbolTable) -> bool {
    table.replaced && table.file.starts_with('/')
}

/// The default name of a recording.
const USUAL_FILE: &str = "perf.data";

/// Returns the message for a folder that was to be read as a recording.
fn folder_message(path: &Path) -> String {
    let name = path.display();
    let data = path.join("data");
    if path.join("data.0").exists() {
        // The message is the same as for the file in the folder.
        return format!("{name}: {}", perfdata::ReadError::Divided);
    }
    let usual_path = path.join(USUAL_FILE);
    let advice = if data.exists() {
        format!(
            "It was made by `perf record --kcore`: name the file {}.",
            data.display()
        )
    } else if usual_path.exists() {
        format!(
            "The recording in it is the file {}: name that file.",
            usual_path.display()
        )
    } else {
        format!("Name the file: there is no {USUAL_FILE} in it.")
    };
    format!("{name} is a folder, not a recording\n{advice}")
}

/// Returns the message for a recording that this user may not read.
fn forbidden_message(path: &Path) -> String {
    let name = path.display();
    let user = UserName(Uid::effective());
    let advice = match path.metadata() {
        Ok(facts) => format!(
            "It belongs to {}, with mode {:04o}: recordings are private. Read it as that user, or let root give it to {user}: \
             `chown {} {}`.",
            UserName(Uid::from_raw(facts.uid())),
            facts.permissions().mode() & 0o777,
            user.as_argument(),
            quoted(&name.to_string())
        ),
        // A folder of the path can't be searched.
        Err(_) => format!(
            "A folder of this path is closed to {user}: let its owner move the file out of it."
        ),
    };
    format!("can't read {name}: the permissions do not allow it to {user}\n{advice}")
}

/// Adds the build-ids of files on this machine to those of the recording, each file once. If both
/// have a file, the build-id of this machine is kept.
fn add_build_ids(recorded: &mut Vec<BuildId>, of_this_machine: Vec<BuildId>) {
    let mut files = AHashSet::new();
    let ids = of_this_machine.into_iter().chain(mem::take(recorded));
    recorded.extend(ids.filter(|id| files.insert(id.file.clone())));
}

/// Returns the number of a process or thread as text; -1 for an unknown one, as perf shows it.
pub(crate) fn task_number_text(number: u32) -> String {
    match number {
        u32::MAX => "-1".to_owned(),
        known => known.to_string(),
    }
}

/// Calls `visit` for each sample, with the names as of its time. Returns the call chains that could not be unwound.
pub(crate) fn each_sample(
    recording: &Recording,
    visit: impl FnMut(&NamedSample<'_>, &SampleNames<'_>) -> Result<()>,
) -> Result<CutChains> {
    let mut unwinder = Unwinder::default();
    visit_samples(recording, Some(&mut unwinder), visit)?;
    Ok(unwinder.into_cut_chains())
}

/// Calls `visit` for each sample, for callers that need no call chains: stacks are not unwound.
pub(crate) fn each_sample_without_unwinding(
    recording: &Recording,
    visit: impl FnMut(&NamedSample<'_>, &SampleNames<'_>) -> Result<()>,
) -> Result<CutChains> {
    visit_samples(recording, None, visit)?;
    Ok(CutChains::default())
}

/// Calls `visit` for each sample, for callers that need no call chains, and look the names up with
/// [`SampleNames::named`] where they need them.
pub(crate) fn each_unnamed_sample(
    recording: &Recording,
    mut visit: impl FnMut(Stamp, &Sample, &SampleNames<'_>) -> Result<()>,
) -> Result<()> {
    let mut names = SampleNames::new(recording);
    let mut reader = recording.records.reader();
    while let Some(record) = reader.next_record()? {
        match &record.body {
            Body::Sample(sample) => visit(record.stamp, sample, &names)?,
            _ => names.apply(record),
        }
    }
    Ok(())
}

/// Calls `visit` for each sample; unwinds its stack if there is an unwinder.
fn visit_samples(
    recording: &Recording,
    mut unwinder: Option<&mut Unwinder>,
    mut visit: impl FnMut(&NamedSample<'_>, &SampleNames<'_>) -> Result<()>,
) -> Result<()> {
    let mut names = SampleNames::new(recording);
    let programs = RecordedFiles::of(recording);
    let has_call_stack = recording.has_call_stack();
    let mut reader = recording.records.reader();
    while let Some(record) = reader.next_record()? {
        let Body::Sample(sample) = &mut record.body else {
            names.apply(record);
            continue;
        };
        if has_call_stack {
            let calls = chain::use_recorded_calls(sample);
            if let Some(unwinder) = &mut unwinder {
                unwinder.count_calls(calls);
            }
        }
        let process = unwind::UnwoundProcess {
            pid: record.stamp.task.pid,
            spaces: &names.spaces,
            programs: &programs,
        };
        let host_stack = sample
            .user_stack
            .as_ref()
            .filter(|_| sample.guest_mode.is_none());
        if let (Some(user_stack), Some(unwinder)) = (host_stack, &mut unwinder) {
            unwinder.append(process, sample.ip, user_stack, &mut sample.chain);
        }
        let has_frame_pointers = !has_call_stack && sample.user_stack.is_none();
        let named = names.named(record.stamp, sample);
        if let (true, Some(unwinder)) = (has_frame_pointers, &mut unwinder) {
            if let Some(ends_early) = names.ends_early(&named) {
                unwinder.count_by_frame_pointers(process, named.sample.ip, ends_early);
            }
        }
        visit(&named, &names)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Recordings that the tests of the command line use, too.
    const RECORDINGS: [&[u8]; 2] = [
        include_bytes!("../../../tests/recordings/branches.data"),
        include_bytes!("../../../tests/recordings/timebase.data"),
    ];

    #[test]
    fn a_recording_of_another_user_names_its_owner() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        let message = forbidden_message(file.path());
        let user = UserName(Uid::effective());
        let owner = format!("It belongs to {user}, with mode 0600");
        assert!(message.contains(&owner), "{message}");
        let message = forbidden_message(Path::new("/nonexistent/perf.data"));
        assert!(message.contains("A folder of this path"), "{message}");
    }

    #[test]
    fn samples_have_names() {
        let recording = perfdata::read(RECORDINGS[1]).expect("it is whole");
        let mut symbols = Vec::new();
        each_sample(&recording, |named, names| {
            if names.comm(named.stamp.task) == "pmctl_shares" {
                assert_eq!(
                    named.site.dso() == "pmctl_shares",
                    !named.sample.in_kernel()
                );
                symbols.push(named.site.symbol().to_owned());
            }
            Ok(())
        })
        .expect("nothing fails");
        assert!(
            symbols.iter().any(|symbol| symbol == "share_60"),
            "{symbols:?}"
        );
    }

    proptest! {
        #[test]
        fn damage_does_not_panic(
            which in 0..RECORDINGS.len(),
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        ) {
            let mut bytes = RECORDINGS[which].to_vec();
            for (place, value) in places {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            if let Ok(recording) = perfdata::read(bytes) {
                let result = each_sample(&recording, |named, names| {
                    for branch in &named.sample.branches {
                        names.branch_sites(named, branch);
                    }
                    Ok(())
                });
                prop_assert!(result.is_ok());
            }
        }
    }
}

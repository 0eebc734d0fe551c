// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a recording: a single one, or with `--switch-output` several, one after the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::maps::Maps;
use super::plan::SamplingPlan;
use super::sampled_tasks::SampledTasks;
use super::samplers::Samplers;
use super::stream::RingStream;
use crate::args::{EventOptions, SwitchOutput};
use crate::commands::record::destination::{Destination, old_path};
use crate::commands::record::local_time::LocalTime;
use crate::commands::record::summary::{RecordingSummary, summarize};
use crate::recording::perfdata::{self, Event, Finished, Host, Loss, Notes};
use crate::system::files::private_options;
use crate::system::screen::Colors;
use crate::system::stdio::{complain, write_message};

/// The message for a command that has executed a program that must not be sampled: the events
/// stopped at that exec.
const UNSAMPLED_PROGRAM_REASON: &str = "the command executed a program that has more rights than its caller (setuid, setgid, \
                                   capabilities of its file), or that the caller may not read: this program is not sampled; start pmctl with the \
                    program's rights, or sample whole CPUs with -a";

/// The files of a recording.
pub(super) struct Files<'a> {
    options: &'a EventOptions,
    destination: Destination,
    events: Vec<Event>,
    host: Host,
    scope: String,
    /// Reasons why samples differ from those that were requested.
    degraded: Vec<String>,
    smallest_period: Option<u32>,
    sample_name: &'static str,
    tasks_only: bool,
    /// The time when the current file was begun.
    file_begin: Instant,
    /// The time when sampling stopped.
    stopped_at: Option<Instant>,
    /// The delay of -D, if the recording ended before the delay was over.
    delay: Option<Duration>,
    /// The count of each event at the end of the previous file.
    totals: Vec<u64>,
    /// The number of lost samples of each CPU at the end of the previous file.
    lost: BTreeMap<u32, u64>,
    /// The paths of the finished files of --switch-output, the oldest first.
    finished: VecDeque<PathBuf>,
    /// A finished file lacks samples.
    has_losses: bool,
    /// Set when a file could not grow, which ends the recording: the notes and the summary of that file, or the error
    /// if the end of the file could not be written.
    cut_file: Option<Result<(Notes, RecordingSummary)>>,
}

impl<'a> Files<'a> {
    /// Opens the destination of the command line.
    pub(super) fn new(
        options: &'a EventOptions,
        destination: Destination,
        (plan, tasks): (&SamplingPlan, &SampledTasks),
        host: Host,
    ) -> Self {
        Self {
            options,
            destination,
            events: plan.describe(),
            host,
            scope: options.scope_in_words(),
            degraded: plan.degraded.clone(),
            smallest_period: plan.smallest_period(),
            sample_name: plan.sample_name(),
            tasks_only: tasks.are_selected() || plan.has_cgroups(),
            file_begin: Instant::now(),
            stopped_at: None,
            delay: None,
            totals: vec![0; plan.event_count()],
            lost: BTreeMap::new(),
            finished: VecDeque::new(),
            has_losses: false,
            cut_file: None,
        }
    }

    fn write_error(&self) -> String {
        format!("can't write {}", self.destination.name())
    }

    /// Returns the time until the next file begins; `None` unless --switch-output has a time.
    pub(super) fn time_left(&self) -> Option<Duration> {
        match self.options.switch_output {
            Some(SwitchOutput::Time(limit)) => {
                Some(limit.saturating_sub(self.file_begin.elapsed()))
            }
            _ => None,
        }
    }

    /// Returns whether a new file is due.
    pub(super) fn is_due(&self, stream: &RingStream) -> bool {
        match self.options.switch_output {
            Some(SwitchOutput::Time(limit)) => self.file_begin.elapsed() >= limit,
            Some(SwitchOutput::Size(limit)) => stream.size() >= limit,
            Some(SwitchOutput::Signal) | None => false,
        }
    }

    /// Begins the first file, unless --overwrite writes it at the end only.
    pub(super) fn begin_first_file(&mut self, stream: &mut RingStream) -> Result<()> {
        self.file_begin = Instant::now();
        if self.options.overwrite {
            return Ok(());
        }
        self.open_file(stream)
    }

    fn open_file(&self, stream: &mut RingStream) -> Result<()> {
        let sink = self.destination.begin(self.events.clone(), &self.host);
        sink.and_then(|sink| stream.begin_file(sink))
            .with_context(|| self.write_error())
    }

    /// Ends the file, and begins the next one. Breaks, which ends the recording, if either file could not grow.
    pub(super) fn switch_file(
        &mut self,
        stream: &mut RingStream,
        samplers: &mut Samplers,
        maps: &mut Maps,
    ) -> Result<ControlFlow<()>> {
        let switched = self.end_and_begin(stream, samplers, maps);
        self.break_if_full(switched)
    }

    /// Turns the error of a file that could not grow into a break, and leaves the error to [`Self::end_last_file`]: the
    /// command still runs, and pmctl has to wait for it.
    fn break_if_full(&mut self, switched: Result<ControlFlow<()>>) -> Result<ControlFlow<()>> {
        let is_full = |error: &anyhow::Error| {
            let error = error.downcast_ref::<io::Error>();
            error.is_some_and(perfdata::is_full)
        };
        match switched {
            Err(error) if is_full(&error) => {
                self.cut_file = Some(Err(error));
                Ok(ControlFlow::Break(()))
            }
            result => result,
        }
    }

    /// Ends the file, and begins the next one. Breaks, without a next file, if the ended file could not grow.
    fn end_and_begin(
        &mut self,
        stream: &mut RingStream,
        samplers: &mut Samplers,
        maps: &mut Maps,
    ) -> Result<ControlFlow<()>> {
        let (notes, summary) = self.close_file(stream, samplers, maps)?;
        if self.report_finished_file(notes, summary).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if !self.options.overwrite {
            self.open_file(stream)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Reports a finished file that is not the last one, and its losses. If the file could not grow, breaks, and leaves
    /// the report to [`Self::end_last_file`].
    fn report_finished_file(&mut self, notes: Notes, summary: RecordingSummary) -> ControlFlow<()> {
        if notes.cut.is_some() {
            self.cut_file = Some(Ok((notes, summary)));
            return ControlFlow::Break(());
        }
        self.has_losses |= !notes.is_whole();
        complain(summary.result());
        // A warning that can't be printed is no reason to fail: the exit code and the file report the losses, too.
        let mut warning = Vec::new();
        let _ = perfdata::warn_of_losses(&notes, Colors::new(true), &mut warning);
        write_message(&warning);
        ControlFlow::Continue(())
    }

    /// Takes note that sampling has stopped: the time until [`Self::end_last_file`] is not part of the recording. `delay`
    /// is the delay of -D, if the end came before sampling began.
    pub(super) fn note_stop(&mut self, delay: Option<Duration>) {
        self.stopped_at = Some(Instant::now());
        self.delay = delay;
    }

    /// Ends the last file, and prints the summary. Returns whether the files have all samples.
    pub(super) fn end_last_file(
        &mut self,
        stream: &mut RingStream,
        samplers: &mut Samplers,
        maps: &mut Maps,
    ) -> Result<bool> {
        let (notes, summary) = match self.cut_file.take() {
            Some(file) => file?,
            None => self.close_file(stream, samplers, maps)?,
        };
        // A summary that can't be printed is no reason to fail: the recording is complete.
        let _ = summarize(&self.options.common, &notes, &summary);
        Ok(self.are_whole(&notes) && !summary.has_left_program)
    }

    /// Returns whether the files have all samples. `notes` are those of the last file.
    fn are_whole(&self, notes: &Notes) -> bool {
        !self.has_losses && notes.is_whole()
    }

    /// Writes the rest of the file and its end, renames the file with --switch-output, and returns its notes and
    /// summary.
    fn close_file(
        &mut self,
        stream: &mut RingStream,
        samplers: &mut Samplers,
        maps: &mut Maps,
    ) -> Result<(Notes, RecordingSummary)> {
        let now = self.stopped_at.unwrap_or_else(Instant::now);
        let elapsed = now.saturating_duration_since(self.file_begin);
        self.file_begin = now;
        if self.options.overwrite {
            self.open_file(stream)?;
            stream.dump(samplers, maps)?;
        }
        let name = self.destination.name();
        let write_error = || format!("can't write {name}");
        let (symbols, build_ids) = stream.write_rest().with_context(write_error)?;
        let totals = samplers.totals()?;
        let previous_totals = mem::replace(&mut self.totals, totals.clone());
        let has_left_program = samplers.have_left_program()?;
        let left_program = has_left_program.then(|| UNSAMPLED_PROGRAM_REASON.to_owned());
        let mut notes = Notes {
            version: Notes::VERSION,
            scope: self.scope.clone(),
            totals: totals
                .iter()
                .zip(previous_totals)
                .map(|(now, previous)| now.saturating_sub(previous))
                .collect(),
            degraded: [
                self.degraded.clone(),
                maps.degraded_reasons(samplers.lost_records()?),
                samplers.degraded_reasons()?,
                Vec::from_iter(left_program),
            ]
            .concat(),
            losses: self.losses(samplers, &stream.take_throttled())?,
            tasks_only: self.tasks_only,
            overwritten: self.options.overwrite,
            symbols,
            ..Notes::default()
        };
        let Finished {
            samples,
            size,
            output,
        } = stream
            .finish(&self.host, &build_ids, &mut notes)
            .with_context(write_error)?;
        let renamed = match (self.options.switch_output, &self.destination) {
            (Some(_), Destination::File(file)) => {
                Some(add_time_to_name(file.path(), &output).with_context(write_error)?)
            }
            _ => None,
        };
        let name_now = renamed.as_ref().map(|path| path.display().to_string());
        self.finished.extend(renamed);
        self.remove_oldest();
        let summary = RecordingSummary {
            cut_chains: stream.take_cut_chains(),
            name: name_now.unwrap_or(name),
            samples,
            sample_name: self.sample_name,
            size,
            left_out_samples: 0,
            has_left_program,
            elapsed,
            delay: self.delay,
            cpus: self.host.cpus_online,
            period: self.smallest_period,
            is_only_file: self.finished.len() <= 1,
            has_chains: self.options.call_graph.is_some(),
        };
        Ok((notes, summary))
    }

    /// Returns the losses since the previous file. `throttled` has the CPUs that lost samples by throttling.
    fn losses(&mut self, samplers: &mut Samplers, throttled: &BTreeSet<u32>) -> Result<Vec<Loss>> {
        let mut losses = Vec::new();
        for (cpu, lost) in samplers.lost_by_cpu()? {
            let previously_lost = self.lost.insert(cpu, lost).unwrap_or(0);
            let samples = lost.saturating_sub(previously_lost);
            if samples > 0 {
                losses.push(Loss {
                    cpu,
                    // A ring that is overwritten always has room, so only throttling loses samples.
                    reason: if self.options.overwrite || throttled.contains(&cpu) {
                        "throttled"
                    } else {
                        "too fast"
                    }
                    .to_owned(),
                    samples,
                    counted: true,
                });
            }
        }
        let uncounted = |reason: &'static str| {
            move |cpu| Loss {
                cpu,
                reason: reason.to_owned(),
                ..Loss::default()
            }
        };
        let missed = samplers.cpus_with_missed_events().into_iter();
        losses.extend(missed.map(uncounted("lost")));
        let throttled = samplers.take_throttled_by_linux().into_iter();
        losses.extend(throttled.map(uncounted("throttled by Linux")));
        Ok(losses)
    }

    /// Removes the oldest files if there are more than `--switch-max-files`.
    fn remove_oldest(&mut self) {
        let max_files = self.options.max_files.unwrap_or(u32::MAX) as usize;
        while self.finished.len() > max_files {
            if let Some(path) = self.finished.pop_front() {
                if let Err(error) = fs::remove_file(&path) {
                    complain(format_args!("can't remove {}: {error}", path.display()));
                }
            }
        }
    }
}

/// Renames a file to `path` with the time appended, as perf does, and returns the new path. `file` is the open file.
///
/// The file is at `path`, or at that path with `.old` if another recording to the same path has moved it.
fn add_time_to_name(path: &Path, file: &File) -> io::Result<PathBuf> {
    let own_metadata = file.metadata()?;
    let is_own = |path: &PathBuf| {
        let metadata = fs::metadata(path);
        metadata.is_ok_and(|metadata| {
            (metadata.dev(), metadata.ino()) == (own_metadata.dev(), own_metadata.ino())
        })
    };
    let current = [path.to_owned(), old_path(path)].into_iter().find(is_own);
    let current = current.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "the file was removed, or another recording has replaced it. Give each recording a name of its own with -o",
        )
    })?;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", LocalTime::now()));
        let name = PathBuf::from(name);
        match private_options().create_new(true).open(&name) {
            // Another file got this name within the same hundredth of a second.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
            // The new empty file reserves the name, and is replaced by the recording.
            Ok(_) => {
                fs::rename(&current, &name)?;
                return Ok(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use nix::libc;

    use super::*;
    use crate::args::{Cli, Command, Recorder};
    use crate::commands::record::destination::Sink;

    fn options(text: &str) -> EventOptions {
        let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        let cli = Cli::parse_words(&words).expect("the words are options");
        let Command::Record(args) = cli.command else {
            panic!("{text}");
        };
        match Recorder::new(&args) {
            Ok(Recorder::Events(events)) => events,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Returns the files of a recording that has begun.
    fn files(options: &EventOptions) -> Files<'_> {
        Files {
            options,
            destination: Destination::Output,
            events: Vec::new(),
            host: Host::default(),
            scope: String::new(),
            degraded: Vec::new(),
            smallest_period: None,
            sample_name: "precise sample",
            tasks_only: true,
            file_begin: Instant::now(),
            stopped_at: None,
            delay: None,
            totals: Vec::new(),
            lost: BTreeMap::new(),
            finished: VecDeque::new(),
            has_losses: false,
            cut_file: None,
        }
    }

    #[test]
    fn a_file_that_cannot_grow_ends_the_recording() {
        let options = options("pmctl record --switch-output=200K true");
        let mut files = files(&options);
        let cut = Notes {
            cut: Some("File too large".to_owned()),
            ..Notes::default()
        };
        assert!(
            files
                .report_finished_file(Notes::default(), RecordingSummary::example())
                .is_continue()
        );
        assert!(files.cut_file.is_none());
        assert!(
            files
                .report_finished_file(cut.clone(), RecordingSummary::example())
                .is_break()
        );
        let cut_file = files.cut_file.take().expect("the summary is of it");
        let (notes, _) = cut_file.expect("it has an end");
        assert_eq!(notes, cut);
        assert!(!files.are_whole(&notes));
    }

    #[test]
    fn a_file_without_room_for_its_end_ends_the_recording() {
        let options = options("pmctl record --switch-output=200K true");
        let mut files = files(&options);
        let failed = |error: i32| {
            let error = io::Error::from_raw_os_error(error);
            Err(error).context("can't write perf.data")
        };
        let is_break = |result: Result<ControlFlow<()>>| result.map(|flow| flow.is_break());
        let other = files.break_if_full(failed(libc::EIO));
        assert!(other.is_err() && files.cut_file.is_none());
        let full = files.break_if_full(failed(libc::ENOSPC));
        assert!(is_break(full).is_ok_and(|is_break| is_break));
        assert!(files.cut_file.is_some_and(|file| file.is_err()));
    }

    #[test]
    fn losses_of_earlier_files_count() {
        let options = options("pmctl record --switch-output true");
        let mut files = files(&options);
        assert!(
            files
                .report_finished_file(Notes::default(), RecordingSummary::example())
                .is_continue()
        );
        assert!(files.are_whole(&Notes::default()));
        let lossy = Notes {
            losses: vec![Loss::default()],
            ..Notes::default()
        };
        assert!(
            files
                .report_finished_file(lossy, RecordingSummary::example())
                .is_continue()
        );
        assert!(!files.are_whole(&Notes::default()));
    }

    #[test]
    fn two_recordings_with_one_name_keep_their_files() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("q.data");
        let begin = |text: &str| {
            let destination = Destination::open(&path).expect("it can be written");
            let sink = destination.begin(Vec::new(), &Host::default());
            assert!(matches!(sink, Ok(Sink::File(_))));
            drop(sink);
            fs::write(&path, text).expect("there is room");
            File::open(&path).expect("it is there")
        };
        let read = |path: &Path| fs::read_to_string(path).expect("it is there");
        let (first, second) = (begin("first"), begin("second"));
        let moved = add_time_to_name(&path, &first).expect("it was moved to another name");
        assert_eq!(read(&moved), "first");
        let moved = add_time_to_name(&path, &second).expect("it has its name");
        assert_eq!(read(&moved), "second");
        assert_eq!(folder.path().read_dir().expect("it is ours").count(), 2);

        // There are only two names, the path and the path with `.old`. So the first of these three
        // files is replaced.
        let files = ["third", "fourth", "fifth"].map(begin);
        let error = add_time_to_name(&path, &files[0]).expect_err("it is gone");
        assert!(error.to_string().contains("name of its own with -o"));
        for file in &files[1..] {
            add_time_to_name(&path, file).expect("it is there");
        }
    }
}

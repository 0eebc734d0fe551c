// SPDX-License-Identifier: MIT OR Apache-2.0
//! The main loop of a recording by events, until the command, a time limit or the user ends it.

use std::time::Instant;

use anyhow::Result;

use super::files::Files;
use super::maps::Maps;
use super::sampled_tasks::SampledTasks;
use super::samplers::Samplers;
use super::stream::RingStream;
use crate::args::EventOptions;
use crate::commands::record::watch::Watch;
use crate::recording::procfs;
use crate::system::child::{Ending, WaitingCommand};
use crate::system::signals::{BlockedSignals, Event};

/// Records until the end. The rings are read when one is half full, and ten times a second: if
/// pmctl is killed, the samples of at most a tenth of a second are lost.
pub(super) fn record_until_end(
    options: &EventOptions,
    (samplers, tasks): (&mut Samplers, &SampledTasks),
    (signals, waiting): (&BlockedSignals, Option<WaitingCommand<'_>>),
    (stream, files): (&mut RingStream, &mut Files<'_>),
    maps: &mut Maps,
) -> Result<Option<Ending>> {
    let begin = Instant::now();
    if options.delay.is_none() {
        samplers.start()?;
    }
    let mut watch = Watch::new(&options.common, begin, (signals, waiting))?;
    let recorded = record_rounds(
        options,
        (samplers, tasks),
        (signals, &mut watch),
        (stream, files),
        maps,
    );
    if recorded.is_err() {
        // The command runs on, but is no longer sampled.
        let _ = samplers.stop();
    }
    let ((), ending) = watch.wait_for_command(recorded)?;
    Ok(ending)
}

/// Records while the command runs: until the end of the recording.
fn record_rounds(
    options: &EventOptions,
    (samplers, tasks): (&mut Samplers, &SampledTasks),
    (signals, watch): (&BlockedSignals, &mut Watch<'_>),
    (stream, files): (&mut RingStream, &mut Files<'_>),
    maps: &mut Maps,
) -> Result<()> {
    let mut delay_to_start = options.delay;
    loop {
        let time_to_start = delay_to_start.map(|delay| delay.saturating_sub(watch.elapsed()));
        let Some(limit) =
            watch.next_round([time_to_start, files.time_left()].into_iter().flatten())
        else {
            break;
        };
        if time_to_start.is_some_and(|time| time.is_zero()) {
            delay_to_start = None;
            samplers.start()?;
        }
        let mut descriptors = samplers.descriptors();
        let polled = descriptors.len();
        let event = signals.wait_for_any(limit, &mut descriptors)?;
        if descriptors.len() < polled {
            samplers.skip_ended();
        }
        let mut switches_file = event == Event::Switch;
        if watch.handle_event(event)?.is_break() {
            break;
        }
        if options.overwrite {
            stream.keep_task_records(samplers, maps)?;
        } else if stream.write_round(samplers, maps)?.is_break() {
            if !stream.check_size() {
                watch.complain_of_full_output();
            }
            break;
        }
        switches_file |= files.is_due(stream);
        if switches_file && files.switch_file(stream, samplers, maps)?.is_break() {
            watch.complain_of_full_output();
            break;
        }
        if options.overwrite && stream.check_size() {
            break;
        }
        if !watch.has_command() && tasks.are_selected() && !procfs::is_any_alive(tasks.tids()) {
            break;
        }
        // The size of a ring that is overwritten shows no progress.
        watch.show_progress((!options.overwrite).then(|| stream.total_size()));
    }
    samplers.stop()?;
    files.note_stop(delay_to_start);
    if !options.overwrite {
        // The recording ends here whether the output is full or not.
        let _ = stream.write_round(samplers, maps)?;
    }
    Ok(())
}

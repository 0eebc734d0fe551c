// SPDX-License-Identifier: MIT OR Apache-2.0
//! A recording by events from its start to its end, by the command, by the clock or by the user.

use std::time::Instant;

use anyhow::Result;

use super::files::Files;
use super::maps::Maps;
use super::plan::SampledTasks;
use super::samplers::Samplers;
use super::stream::RingStream;
use crate::args::EventOptions;
use crate::commands::record::watch::Watch;
use crate::recording::procfs;
use crate::system::child::{Ending, Waiting};
use crate::system::signals::{Event, Signals};

/// Records until the end. A round is made when a ring is half full, and ten times a second: so much at most is missing
/// from the file of a pmctl that is killed.
pub(super) fn run(
    options: &EventOptions,
    (samplers, tasks): (&mut Samplers, &SampledTasks),
    (signals, waiting): (&Signals, Option<Waiting<'_>>),
    (stream, files): (&mut RingStream, &mut Files<'_>),
    maps: &mut Maps,
) -> Result<Option<Ending>> {
    let begin = Instant::now();
    if options.delay.is_none() {
        samplers.start()?;
    }
    let mut to_start = options.delay;
    let mut watch = Watch::new(&options.common, begin, (signals, waiting))?;
    // How many of the rings still have tasks.
    let mut ended = 0;
    loop {
        let wait = to_start.map(|delay| delay.saturating_sub(watch.elapsed()));
        let Some(limit) = watch.round([wait, files.time_left()].into_iter().flatten()) else {
            break;
        };
        if wait.is_some_and(|wait| wait.is_zero()) {
            to_start = None;
            samplers.start()?;
        }
        let event = {
            let mut descriptors = samplers.descriptors();
            // Of those that have ended, poll(2) would say so each time.
            let all = descriptors.len();
            if ended == all {
                descriptors.clear();
            }
            let event = signals.wait_for_any(limit, &mut descriptors)?;
            if ended < all && descriptors.is_empty() {
                ended = all;
            }
            event
        };
        let mut switch = event == Event::Switch;
        if watch.react(event)?.is_break() {
            break;
        }
        if options.overwrite {
            stream.keep(samplers, maps)?;
        } else if stream.round(samplers, maps)?.is_break() {
            if !stream.is_at_limit() {
                watch.complain_of_full_output();
            }
            break;
        }
        switch |= files.is_due(stream);
        if switch {
            files.switch(stream, samplers, maps)?;
        }
        if options.overwrite && stream.is_at_limit() {
            break;
        }
        if !watch.has_command() && tasks.are_some() && !procfs::is_one_alive(tasks.tids()) {
            break;
        }
        // What is overwritten gets no larger.
        watch.show((!options.overwrite).then(|| stream.total()));
    }
    samplers.stop()?;
    files.stop(to_start);
    if !options.overwrite {
        // What it says is of no use any more.
        let _ = stream.round(samplers, maps)?;
    }
    watch.end()
}

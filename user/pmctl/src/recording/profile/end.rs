// SPDX-License-Identifier: MIT OR Apache-2.0
//! Estimates when a recording ended. Files that have changed since then may not be those that were recorded.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

use nix::sys::utsname::uname;
use nix::time::{ClockId, clock_gettime};

use crate::recording::perfdata::Recording;

/// Time by which the result may be too late: the difference between perf's clock and the clocks that programs can read.
const MARGIN: Duration = Duration::from_secs(1);

/// Returns the time at which a recording ended, for [`Recording::end`]. `file` has the facts of its file; `None` if it was
/// read from a pipe. Returns `None` if the time can't be told, as for a recording of another machine.
pub(super) fn end_of(recording: &Recording, file: Option<&Metadata>) -> Option<SystemTime> {
    let own_name = uname().ok()?;
    let host = &recording.host.name;
    if !host.is_empty() && own_name.nodename() != host.as_str() {
        return None;
    }
    let written = file.and_then(|facts| facts.modified().ok());
    let last_time = Duration::from_nanos(recording.records.last_time());
    let clock = recording.events.iter().find_map(|event| event.attr.clock());
    estimate(written, last_time, Clocks::now(clock)?)
}

/// The clocks of this machine at one moment.
#[derive(Clone, Copy)]
struct Clocks {
    now: SystemTime,
    /// The time since the machine was started, with the time for which it was suspended.
    since_boot: Duration,
    /// The clock of the records. perf's own clock is the same without the time for which it was suspended.
    of_records: Duration,
}

impl Clocks {
    /// Reads the clocks. `record_clock` is the `clockid` of the records; `None` for perf's own clock.
    fn now(record_clock: Option<i32>) -> Option<Self> {
        let time = |clock| clock_gettime(clock).ok().map(Duration::from);
        let of_records = match record_clock {
            Some(clock) => time(ClockId::from_raw(clock))?,
            // Programs can't read perf's own clock. One of these is adjusted to the time of the network, the other is not;
            // the one that is behind gives the later result.
            None => time(ClockId::CLOCK_MONOTONIC)?.min(time(ClockId::CLOCK_MONOTONIC_RAW)?),
        };
        Some(Self {
            now: SystemTime::now(),
            since_boot: time(ClockId::CLOCK_BOOTTIME)?,
            of_records,
        })
    }
}

/// Estimates the end of a recording. `written` is the time at which its file was written to last, which is that of a copy
/// if the file was copied. `last_time` is the time of the last record by the clock of the records; 0 if they have no times.
///
/// perf's own clock begins when the machine starts. A copy of a recording that was made before the last start can't be told
/// from a copy of a later one, unless the machine had run for longer at that time than it has now.
fn estimate(
    written: Option<SystemTime>,
    last_time: Duration,
    clocks: Clocks,
) -> Option<SystemTime> {
    let boot = clocks.now.checked_sub(clocks.since_boot)?;
    if written.is_some_and(|written| written < boot) {
        return written;
    }
    if last_time.is_zero() {
        return None;
    }
    // The clocks may differ a little, so that the last record seems to be later than now.
    let age = (clocks.of_records + MARGIN).checked_sub(last_time)?;
    let recorded = (clocks.now + 2 * MARGIN).checked_sub(age)?;
    Some(written.map_or(recorded, |written| written.min(recorded)))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::recording::perfdata::Host;

    /// A moment of a machine that was started at 1000 s, ran for 300 s, and was suspended for 100 s.
    fn clocks() -> Clocks {
        Clocks {
            now: at(1400),
            since_boot: Duration::from_secs(400),
            of_records: Duration::from_secs(300),
        }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn end(written: Option<u64>, last_time: u64) -> Option<SystemTime> {
        estimate(written.map(at), Duration::from_secs(last_time), clocks())
    }

    #[test]
    fn a_recording_ends_with_its_last_record() {
        assert_eq!(end(Some(1400), 300), Some(at(1400)), "just made");
        assert_eq!(
            end(Some(1390), 280),
            Some(at(1380) + MARGIN),
            "copied later"
        );
        assert_eq!(end(None, 280), Some(at(1380) + MARGIN), "from a pipe");
        assert_eq!(
            end(Some(1200), 200),
            Some(at(1200)),
            "before the suspension"
        );
    }

    #[test]
    fn the_end_before_the_last_start_is_that_of_the_file() {
        assert_eq!(end(Some(900), 280), Some(at(900)));
        assert_eq!(end(Some(900), 500), Some(at(900)));
        assert_eq!(end(Some(1200), 500), None, "copied after the start");
        assert_eq!(end(None, 500), None);
        assert_eq!(end(Some(1200), 0), None, "without times");
    }

    #[test]
    fn the_end_on_another_machine_is_not_known() {
        let recording = |host: &str| {
            let record = crate::recording::perfdata::Record {
                stamp: crate::recording::perfdata::Stamp {
                    time: 1,
                    ..Default::default()
                },
                ..Default::default()
            };
            Recording {
                host: Host {
                    name: host.to_owned(),
                    ..Host::default()
                },
                records: [record][..].into(),
                ..Recording::default()
            }
        };
        assert_eq!(end_of(&recording("another machine"), None), None);
        assert!(end_of(&recording(""), None).is_some());
    }
}

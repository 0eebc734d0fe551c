// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions for `fuzz-targets`: each reads any bytes or text, and panics if the result lacks a property that it must have.
#![doc(hidden)]

use std::io::Cursor;

use perfmon::{CounterId, EventSelect, Modes, spec};

use crate::events::schedule::{CounterSupply, schedule};
use crate::recording::perfdata::{self, Event, Recording};
use crate::recording::profile;
use crate::system::pmu::testing;

/// Bits 22:19 of an event select, which no text may set: pin control, interrupt, any thread, enable.
const DRIVER_BITS: u64 = 0xf << 19;

/// Reads a `perf.data` file. If it can be read, looks up the names of its samples, writes it, and reads it again.
///
/// # Panics
/// If a sample is missing, or if the written recording is read as a different one.
pub fn recording(file: &[u8]) {
    let recording = match perfdata::read(file) {
        Ok(recording) => recording,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut samples = 0;
    let outcome = profile::each_sample(&recording, |named, names| {
        samples += 1;
        for branch in &named.sample.branches {
            names.branch_sites(named, branch);
        }
        names.data_site(named);
        assert!(!named.sample.access.source.to_string().is_empty());
        Ok(())
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(samples, recording.samples().count());

    let rewritten = encode(&recording);
    let as_written = |event: Event| Event {
        attr: event.attr.as_written(),
        ..event
    };
    let expected = Recording {
        events: recording.events.into_iter().map(as_written).collect(),
        is_from_perf: false,
        ..recording
    };
    assert_eq!(perfdata::read(rewritten), Ok(expected));
}

/// Returns a small `perf.data` file, with or without branches.
///
/// # Panics
/// Never: writing to memory does not fail.
#[must_use]
pub fn example(branches: bool) -> Vec<u8> {
    encode(&perfdata::example::example(branches))
}

fn encode(recording: &Recording) -> Vec<u8> {
    let file = perfdata::write_recording(recording, Cursor::new(Vec::new()));
    file.expect("writing to memory does not fail").into_inner()
}

/// Reads the text after `-e`, for Intel's CPUs and for AMD's, and assigns counters to the events.
///
/// # Panics
/// If an event can't be passed to the driver, if the counters are wrong, or if an error does not point into the text.
pub fn events(text: &str) {
    for pmu in [testing::intel(), testing::amd()] {
        let events = match spec::parse_without_groups(text, &pmu) {
            Ok(events) => events,
            Err(error) => {
                assert!(error.to_string().contains('^'), "{error}");
                continue;
            }
        };
        assert!(!events.is_empty());
        for event in &events {
            assert!(!event.label.is_empty());
            assert!(event.general.is_some() || event.fixed.is_some());
            let bits = event.select_on(CounterId::General(0)).bits();
            assert_eq!(bits & DRIVER_BITS, 0, "{event:?}");
            assert_ne!(bits & EventSelect::fixed().modes(Modes::Both).bits(), 0);
        }
        let supply = CounterSupply {
            general: pmu.general_counters(),
            fixed: pmu.fixed_bitmap(),
            busy: 0,
        };
        match schedule(&events, supply) {
            Ok(places) => {
                assert_eq!(places.len(), events.len());
                for (n, (event, counter)) in events.iter().zip(&places).enumerate() {
                    assert!(!places[..n].contains(counter), "{counter} twice");
                    assert!(event.pinned.is_none_or(|pinned| pinned == *counter));
                    match counter {
                        CounterId::General(number) => {
                            assert!(event.general.is_some() && *number < supply.general);
                        }
                        CounterId::Fixed(number) => assert_eq!(event.fixed, Some(*number)),
                    }
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prints a histogram of program counters: where a running process spends its cycles.
//!
//! `histogram PID SECONDS`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use perfmon::sampler::{Ready, Record};
use perfmon::{Error, Event};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok());
    let (Some(pid), Some(seconds)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: histogram PID SECONDS");
        std::process::exit(2);
    };
    let event = Event::cycles().user().pid(pid).frequency(1000);
    let mut sampler = event.wake_after(100).sample()?;

    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    let end = Instant::now() + Duration::from_secs(seconds.into());
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        let ready = sampler.wait(Some(left))?;
        for record in &sampler.records() {
            if let Record::Sample(sample) = record? {
                // A cache line has 64 bytes.
                *places.entry(sample.ip & !63).or_default() += 1;
            }
        }
        if ready == Ready::Ended {
            break;
        }
    }
    let highest_count = places.values().copied().max().unwrap_or(1);
    for (place, samples) in places {
        let bar = "#".repeat(usize::try_from(samples * 60 / highest_count).unwrap_or(60));
        println!("{place:#018x} {samples:6} {bar}");
    }
    Ok(())
}

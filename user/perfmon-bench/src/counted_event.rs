// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event as a measurement for criterion.

use std::env;
use std::ffi::OsString;

use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter};
use perfmon_compare::errors::without_error_numbers;

use crate::counting::{PassCounter, Reading};

/// A measurement for criterion that counts an event instead of time: [`criterion`](crate::criterion).
#[derive(Debug)]
pub struct CountedEvent {
    name: String,
    /// The counter; `None` if benchmarks are only listed or tried, so that nothing is measured.
    counter: Option<PassCounter>,
}

impl CountedEvent {
    /// Counts instructions in user mode. Without the driver, the whole program is replaced by a run of itself in the
    /// virtual machine of `pmctl vm`.
    ///
    /// Counts only if the arguments include `--bench`, as `cargo bench` gives it, and neither
    /// `--test` nor `--list`. Otherwise nothing is counted, and neither the driver nor a virtual
    /// machine is needed.
    ///
    /// # Panics
    /// If the event can't be counted. The message gives the reason, and advice.
    #[must_use]
    pub fn instructions() -> Self {
        Self::named("instructions:u")
    }

    /// Counts the event of this name, like [`instructions`](Self::instructions).
    ///
    /// # Panics
    /// As [`instructions`](Self::instructions); also if no event has the name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let open = || {
            PassCounter::open(name)
                .unwrap_or_else(|error| panic!("{}", without_error_numbers(&error)))
        };
        Self {
            name: name.to_owned(),
            counter: is_measuring(env::args_os().skip(1)).then(open),
        }
    }
}

/// Returns whether criterion measures with these arguments; otherwise it lists the benchmarks or calls each once.
fn is_measuring(arguments: impl Iterator<Item = OsString>) -> bool {
    let arguments: Vec<_> = arguments.collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    has("--bench") && !has("--test") && !has("--list")
}

/// The beginning of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Begin(Option<Reading>);

impl Measurement for CountedEvent {
    type Intermediate = Begin;
    type Value = u64;

    fn start(&self) -> Begin {
        Begin(self.counter.as_ref().map(PassCounter::read))
    }

    fn end(&self, begin: Begin) -> u64 {
        let counter = self.counter.as_ref().zip(begin.0);
        counter.map_or(0, |(counter, begin)| counter.count_since(&begin))
    }

    fn add(&self, a: &u64, b: &u64) -> u64 {
        a + b
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self
    }
}

impl ValueFormatter for CountedEvent {
    fn scale_values(&self, _typical: f64, _values: &mut [f64]) -> &'static str {
        "events"
    }

    fn scale_throughputs(
        &self,
        _typical: f64,
        throughput: &Throughput,
        values: &mut [f64],
    ) -> &'static str {
        let (units, unit) = match throughput {
            Throughput::Elements(elements) => (*elements, "events/element"),
            Throughput::Bytes(bytes) | Throughput::BytesDecimal(bytes) => (*bytes, "events/byte"),
            Throughput::Bits(bits) => (*bits, "events/bit"),
        };
        for value in values {
            *value /= units as f64;
        }
        unit
    }

    fn scale_for_machines(&self, _values: &mut [f64]) -> &'static str {
        "events"
    }

    fn format_value(&self, value: f64) -> String {
        let label = self
            .counter
            .as_ref()
            .map_or(&*self.name, PassCounter::label);
        format!("{value:.1} {label}")
    }
}

/// Creates the manager of a criterion suite, which counts instructions: [`criterion`](mod@crate::criterion).
///
/// # Panics
/// As [`CountedEvent::instructions`].
#[must_use]
pub fn criterion() -> ::criterion::Criterion<CountedEvent> {
    ::criterion::Criterion::default().with_measurement(CountedEvent::instructions())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criterion_measures_only_by_cargo_bench() {
        let is_measured = |line: &str| is_measuring(line.split(' ').map(OsString::from));
        assert!(is_measured("--bench"));
        assert!(is_measured("sort --bench --save-baseline main"));
        for line in [
            "",
            "sort",
            "--bench --test",
            "--list --bench",
            "--list --format terse",
        ] {
            assert!(!is_measured(line), "{line}");
        }
    }

    #[test]
    fn a_listed_event_measures_nothing() {
        // The program of the tests has no argument `--bench`.
        let event = CountedEvent::named("no such event");
        let begin = event.start();
        assert_eq!(event.end(begin), 0);
        assert_eq!(event.format_value(0.0), "0.0 no such event");
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event as a measurement for criterion.

use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter};
use perfmon::event::UserPage;
use perfmon::{Error, Event};

use crate::vm::{ensure_driver, with_help};

/// Number of pairs of readings with nothing in between, the smallest of which is subtracted.
const EMPTY_PASSES: usize = 8;

/// A measurement for criterion that counts an event instead of time. An existing suite changes one line to use it.
///
/// ```no_run
/// use criterion::{Criterion, criterion_group, criterion_main};
/// use perfmon_bench::CountedEvent;
///
/// fn sum(criterion: &mut Criterion<CountedEvent>) {
///     let numbers: Vec<u64> = (0..1000).collect();
///     criterion.bench_function("sum", |bencher| bencher.iter(|| numbers.iter().sum::<u64>()));
/// }
///
/// criterion_group! {
///     name = benches;
///     // Was: `Criterion::default()`.
///     config = Criterion::default().with_measurement(CountedEvent::instructions());
///     targets = sum
/// }
/// criterion_main!(benches);
/// ```
#[derive(Debug)]
pub struct CountedEvent {
    label: String,
    page: UserPage<'static>,
    /// The smallest count of two readings in a row.
    overhead: u64,
}

impl CountedEvent {
    /// Counts instructions in user mode. Without the driver, the whole program is replaced by a run of itself in the
    /// virtual machine of `pmctl vm`.
    ///
    /// # Panics
    /// If the event can't be counted; the message says why, and what to do.
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
        let result =
            ensure_driver(None).and_then(|()| Self::open(name).map_err(|error| with_help(&error)));
        result.unwrap_or_else(|error| panic!("{error}"))
    }

    fn open(name: &str) -> Result<Self, Error> {
        let event = Event::named(name)?.this_thread().open()?;
        // Leaked, because it counts as long as the program runs.
        let event: &'static Event = Box::leak(Box::new(event));
        let mut measurement = Self {
            label: event.label().to_string(),
            page: event.user_page()?,
            overhead: 0,
        };
        let mut overhead = u64::MAX;
        for _ in 0..EMPTY_PASSES {
            let begin = measurement.page.read()?;
            overhead = overhead.min(measurement.page.read()? - begin);
        }
        measurement.overhead = overhead;
        Ok(measurement)
    }

    fn read(&self) -> u64 {
        // Panics, because criterion's interface has no errors, and a wrong number must not be shown.
        self.page
            .read()
            .unwrap_or_else(|error| panic!("{}", with_help(&error)))
    }
}

impl Measurement for CountedEvent {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        self.read()
    }

    fn end(&self, begin: u64) -> u64 {
        (self.read() - begin).saturating_sub(self.overhead)
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
            #[allow(unreachable_patterns, reason = "later versions of criterion have more")]
            _ => (1, "events"),
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
        format!("{value:.1} {}", self.label)
    }
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values that no counter counts: energy, temperatures, clocks. They are of the machine, whatever is counted beside
//! them; a trace without buffers to speak of records them from the start to the stop.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use perfmon::spec::EventSpec;
use perfmon::trace::{
    Alloc, Buffer, Config, Event, EventId, MiscEvent, Record, Running, Staged, Trace,
};
use perfmon::{Encoding, EventSelect, Info, Session};

use super::Column;
use super::source::{Count, Counts, Source, Uncounted};
use crate::cli::Stat;
use crate::exit::{self, Usage};

/// What a number is that is no count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The number is in 2^-32 Joules.
    Joules,
    /// Degrees.
    Celsius,
    /// Cycles.
    Cycles,
    /// The number is in nanoseconds.
    Milliseconds,
}

impl Unit {
    /// Returns whether it grows, so that what came since the value before is of use; otherwise it is a level.
    pub(crate) const fn grows(self) -> bool {
        !matches!(self, Self::Celsius)
    }

    /// Returns a number in this unit with its name, and six digits behind the point of what has some.
    pub(crate) fn in_words(self, value: u64) -> String {
        match self {
            Self::Joules => format!("{:.6} Joules", value as f64 / 4_294_967_296.0),
            Self::Celsius | Self::Milliseconds => {
                format!("{} {}", self.number(value), self.name())
            }
            Self::Cycles => value.to_string(),
        }
    }

    /// Returns its name, as it stands behind a number.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Joules => "Joules",
            Self::Celsius => "\u{b0}C",
            Self::Cycles => "",
            Self::Milliseconds => "msec",
        }
    }

    /// Returns a number in this unit.
    pub(super) fn number(self, value: u64) -> String {
        match self {
            // Exact to the last digit that is shown: 2^32 has 10.
            Self::Joules => format!("{:.2}", value as f64 / 4_294_967_296.0),
            Self::Celsius | Self::Cycles => value.to_string(),
            Self::Milliseconds => format!("{:.2}", value as f64 / 1e6),
        }
    }
}

/// How the records of several packages, cores or CPUs become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    Sum,
    Hottest,
    LeastMargin,
}

/// A value that -e can ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) name: &'static str,
    pub(crate) event: MiscEvent,
    pub(crate) unit: Unit,
    whole: Whole,
}

/// The values by their names; those of perf, where it has them.
const VALUES: [Value; 10] = {
    use MiscEvent as M;

    const fn value(name: &'static str, event: MiscEvent, unit: Unit, whole: Whole) -> Value {
        Value {
            name,
            event,
            unit,
            whole,
        }
    }
    [
        value("energy-pkg", M::EnergyPackage, Unit::Joules, Whole::Sum),
        value("energy-cores", M::EnergyCores, Unit::Joules, Whole::Sum),
        value("energy-core", M::EnergyCore, Unit::Joules, Whole::Sum),
        value("energy-ram", M::EnergyMemory, Unit::Joules, Whole::Sum),
        value(
            "temperature",
            M::TemperaturePackage,
            Unit::Celsius,
            Whole::Hottest,
        ),
        value(
            "temperature-core",
            M::TemperatureCore,
            Unit::Celsius,
            Whole::Hottest,
        ),
        value(
            "margin",
            M::MarginPackage,
            Unit::Celsius,
            Whole::LeastMargin,
        ),
        value(
            "margin-core",
            M::MarginCore,
            Unit::Celsius,
            Whole::LeastMargin,
        ),
        value("aperf", M::Aperf, Unit::Cycles, Whole::Sum),
        value("mperf", M::Mperf, Unit::Cycles, Whole::Sum),
    ]
};

/// Returns the value of this name.
pub(super) fn find(word: &str) -> Option<Value> {
    let name = without_pmu(word.trim());
    VALUES.into_iter().find(|value| value.name == name)
}

/// Takes the values out of what -e asks for, and returns the rest.
pub(crate) fn split(texts: &[String]) -> (Vec<String>, Vec<Value>) {
    let mut values: Vec<Value> = Vec::new();
    let mut rest = Vec::new();
    for text in texts {
        let mut others = Vec::new();
        for word in text.split(',') {
            match find(word) {
                Some(value) if values.iter().any(|known| known.name == value.name) => {}
                Some(value) => values.push(value),
                None => others.push(word),
            }
        }
        if !others.is_empty() {
            rest.push(others.join(","));
        }
    }
    (rest, values)
}

/// Returns the name of a value that is written as perf's, `power/energy-pkg/`.
fn without_pmu(word: &str) -> &str {
    let mut names = ["power/", "power_core/"]
        .into_iter()
        .filter_map(|pmu| word.strip_prefix(pmu)?.strip_suffix('/'));
    names.next().unwrap_or(word)
}

/// Returns the value with this number in `PERFMON_GROUP_MISC`.
pub(crate) fn numbered(number: u64) -> Option<Value> {
    let mut values = VALUES.into_iter();
    values.find(|value| u64::from(value.event as u32) == number)
}

/// Fails if the machine lacks one of these values.
pub(crate) fn require(info: &Info, values: &[Value]) -> Result<(), Usage> {
    let missing = |value: &&Value| info.misc_events >> value.event as u32 & 1 == 0;
    let Some(value) = values.iter().find(missing) else {
        return Ok(());
    };
    let there = VALUES.iter().filter(|value| !missing(value));
    let names: Vec<&str> = there.map(|value| value.name).collect();
    Err(Usage(if names.is_empty() {
        format!(
            "{}: this machine has no such register, nor any other of energy, temperatures or clocks; virtual \
             machines rarely have.",
            value.name
        )
    } else {
        format!(
            "{}: this machine has no such register. It has: {}",
            value.name,
            names.join(" ")
        )
    }))
}

/// Returns whether this is the name of a value.
pub(crate) fn is_value(name: &str) -> bool {
    find(name).is_some()
}

/// Refuses what has no meaning for values.
pub(super) fn refuse_the_impossible(
    args: &Stat,
    values: &[Value],
    parts: usize,
) -> Result<(), Usage> {
    let Some(value) = values.first() else {
        return Ok(());
    };
    let parts = [
        (args.interval.is_some(), "-I"),
        (args.cpu.is_some(), "-C"),
        (args.no_aggr, "-A"),
        (args.per_core, "--per-core"),
        (args.per_socket, "--per-socket"),
        (args.per_thread, "--per-thread"),
        (parts > 1, "-M"),
    ];
    match parts.iter().find(|(given, _)| *given) {
        Some((_, option)) => Err(Usage(format!(
            "{option}: {0} is read once, at the end, and is of the whole machine. Leave out {option}, or record it: \
             `pmctl record -a --timebase cycles --count {0}`.",
            value.name
        ))),
        None => Ok(()),
    }
}

/// The trace, which has a config all the time. Between two states there is none for a moment.
enum Recording {
    Staged(Trace<Staged>),
    Running(Trace<Running>),
    Failed,
}

/// Counts, and values beside them.
pub(super) struct WithValues {
    counts: Box<dyn Source>,
    values: Vec<Value>,
    recording: Recording,
    buffers: Vec<Buffer>,
    read: Vec<Option<u64>>,
}

impl WithValues {
    /// Reads these values beside what `counts` counts.
    pub(super) fn new(
        session: &Session,
        values: Vec<Value>,
        counts: Box<dyn Source>,
    ) -> Result<Self> {
        let info = session.device().info().map_err(exit::with_help)?;
        require(&info, &values)?;
        let config = values
            .iter()
            .fold(Config::builder(), |config, value| {
                config.event(Event::value(value.event))
            })
            .build()
            .context("the driver has these values")?;
        let trace = session
            .allocate(Alloc::new(&info, 1))
            .map_err(exit::with_help)?;
        let trace = trace
            .stage(&config)
            .map_err(|refused| exit::with_help(refused.error))?;
        let buffers = trace.buffers().map_err(exit::with_help)?;
        Ok(Self {
            counts,
            read: vec![None; values.len()],
            values,
            recording: Recording::Staged(trace),
            buffers,
        })
    }

    /// Starts the trace.
    fn record(&mut self) -> Result<()> {
        if let Recording::Staged(trace) = std::mem::replace(&mut self.recording, Recording::Failed)
        {
            let trace = trace
                .start()
                .map_err(|refused| exit::with_help(refused.error))?;
            self.recording = Recording::Running(trace);
        }
        Ok(())
    }

    /// Stops the trace, and takes what it has recorded.
    fn take(&mut self) -> Result<()> {
        if let Recording::Running(trace) = std::mem::replace(&mut self.recording, Recording::Failed)
        {
            let trace = trace
                .stop()
                .map_err(|refused| exit::with_help(refused.error))?;
            self.recording = Recording::Staged(trace);
        }
        let mut found: BTreeMap<EventId, Vec<u64>> = BTreeMap::new();
        for buffer in &mut self.buffers {
            let chunk = buffer.records().map_err(exit::with_help)?;
            for timed in chunk.records() {
                if let Record::Value { event, value } = timed?.record {
                    found.entry(event).or_default().push(value);
                }
            }
            buffer.rewind();
        }
        let whole = |value: &Value| {
            let parts = found.get(&EventId::from(value.event))?.iter().copied();
            match value.whole {
                Whole::Sum => Some(parts.fold(0, u64::saturating_add)),
                Whole::Hottest => parts.max(),
                Whole::LeastMargin => parts.min(),
            }
        };
        self.read = self.values.iter().map(whole).collect();
        Ok(())
    }
}

impl Source for WithValues {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        self.counts.prepare(command)
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.counts.columns();
        let first = columns.len();
        let values = self.values.iter().zip(first..);
        columns.extend(values.map(|(value, number)| Column {
            place: None,
            number,
            // No counter counts it: only the name is used.
            event: EventSpec {
                encoding: Some(Encoding::Raw(EventSelect::fixed())),
                missing: None,
                ..EventSpec::absent(value.name, "")
            },
            counter: None,
            unit: Some(value.unit),
        }));
        columns
    }

    fn start(&mut self) -> Result<()> {
        self.record()?;
        self.counts.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counts.stop()?;
        self.take()
    }

    fn read(&self, elapsed: Duration) -> Result<Counts> {
        let mut counts = self.counts.read(elapsed)?;
        let count = |value: &Option<u64>| {
            value.map(|value| Count {
                value,
                ran: elapsed,
            })
        };
        counts.extend(self.read.iter().map(count));
        Ok(counts)
    }

    fn uncounted(&self) -> Result<Option<Uncounted>> {
        self.counts.uncounted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_among_events() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let of = |given: &[&str]| {
            let given: Vec<String> = texts(given);
            let (rest, values) = split(&given);
            let names: Vec<&str> = values.iter().map(|value| value.name).collect();
            (rest, names.join(" "))
        };
        assert_eq!(
            of(&["cycles,energy-pkg,{instructions,branches}:u", "temperature"]),
            (
                texts(&["cycles,{instructions,branches}:u"]),
                "energy-pkg temperature".to_owned()
            )
        );
        assert_eq!(
            of(&["energy-pkg", "aperf,energy-pkg"]),
            (Vec::new(), "energy-pkg aperf".to_owned())
        );
        assert_eq!(
            of(&["power/energy-pkg/", "power_core/energy-core/,power/cycles/"]),
            (
                texts(&["power/cycles/"]),
                "energy-pkg energy-core".to_owned()
            )
        );
        assert_eq!(of(&["energy"]), (texts(&["energy"]), String::new()));
    }

    #[test]
    fn numbers_have_their_units() {
        assert_eq!(Unit::Joules.number(3 << 31), "1.50");
        assert_eq!(Unit::Celsius.number(71), "71");
        assert_eq!(Unit::Cycles.number(71), "71");
    }
}

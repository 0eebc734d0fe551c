// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds [values that no counter counts](crate::events::values), such as energy, to a source of counts. A trace with
//! buffers of the smallest size records them from the start to the stop.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use perfmon::spec::EventSpec;
use perfmon::trace::{Alloc, Buffer, Config, Event, EventId, Record, Running, Staged, Trace};
use perfmon::{Encoding, EventSelect, Session};

use super::source::{ColumnCount, CountSource, Reasons, Summands};
use crate::args::Stat;
use crate::commands::stat::column::Column;
use crate::commands::stat::unit::ColumnUnit;
use crate::events::values::{Value, require};
use crate::system::exit::{self, Usage};

/// Refuses options that have no meaning for values.
pub(in crate::commands::stat) fn refuse_impossible_options(
    args: &Stat,
    values: &[Value],
    runs_per_count: usize,
) -> Result<(), Usage> {
    let Some(value) = values.first() else {
        return Ok(());
    };
    let refused_option = if args.interval.is_some() {
        Some("-I")
    } else if args.cpu.is_some() {
        Some("-C")
    } else {
        args.splitting_option(runs_per_count)
    };
    match refused_option {
        Some(option) => Err(Usage(format!(
            "{option}: {0} is read once, at the end, and is of the whole machine. Leave out {option}, or record it: \
             `pmctl record -a --timebase cycles --count {0}`.",
            value.name
        ))),
        None => Ok(()),
    }
}

/// The trace of the values, in one of its states.
enum ValueTrace {
    Staged(Trace<Staged>),
    Running(Trace<Running>),
    /// A change of state failed, or is under way.
    Failed,
}

/// Values, and the source that counts the other events.
pub(in crate::commands::stat) struct WithValues {
    counts: Box<dyn CountSource>,
    values: Vec<Value>,
    trace: ValueTrace,
    buffers: Vec<Buffer>,
    /// The values of the last run.
    recorded: Vec<Option<u64>>,
}

impl WithValues {
    /// Allocates a trace of `values`. `counts` counts the other events.
    pub(in crate::commands::stat) fn new(
        session: &Session,
        values: Vec<Value>,
        counts: Box<dyn CountSource>,
    ) -> Result<Self> {
        let info = session.device().info().map_err(exit::with_help)?;
        require(&info, &values)?;
        let config = values
            .iter()
            .fold(Config::builder(), |config, value| {
                config.event(Event::value(value.event))
            })
            .build()
            .context("can't configure a trace of these values")?;
        let trace = session
            .allocate(Alloc::new(&info, 1))
            .map_err(exit::with_help)?;
        let trace = trace
            .stage(&config)
            .map_err(|refused| exit::with_help(refused.error))?;
        let buffers = trace.buffers().map_err(exit::with_help)?;
        Ok(Self {
            counts,
            recorded: vec![None; values.len()],
            values,
            trace: ValueTrace::Staged(trace),
            buffers,
        })
    }

    /// Starts the trace.
    fn start_trace(&mut self) -> Result<()> {
        if let ValueTrace::Staged(trace) = std::mem::replace(&mut self.trace, ValueTrace::Failed) {
            let trace = trace
                .start()
                .map_err(|refused| exit::with_help(refused.error))?;
            self.trace = ValueTrace::Running(trace);
        }
        Ok(())
    }

    /// Stops the trace, and reads the values that it has recorded.
    fn stop_trace(&mut self) -> Result<()> {
        if let ValueTrace::Running(trace) = std::mem::replace(&mut self.trace, ValueTrace::Failed) {
            let trace = trace
                .stop()
                .map_err(|refused| exit::with_help(refused.error))?;
            self.trace = ValueTrace::Staged(trace);
        }
        let mut parts_by_event: BTreeMap<EventId, Vec<u64>> = BTreeMap::new();
        for buffer in &mut self.buffers {
            let chunk = buffer.records().map_err(exit::with_help)?;
            for timed in chunk.records() {
                if let Record::Value { event, value } = timed?.record {
                    parts_by_event.entry(event).or_default().push(value);
                }
            }
            buffer.rewind();
        }
        let combined = |value: &Value| {
            let parts = parts_by_event.get(&EventId::from(value.event))?;
            value.combination.combine(parts)
        };
        self.recorded = self.values.iter().map(combined).collect();
        Ok(())
    }
}

impl CountSource for WithValues {
    fn prepare(&mut self, command: Option<u32>) -> Result<()> {
        self.counts.prepare(command)
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = self.counts.columns();
        let first_index = columns.len();
        let values = self.values.iter().zip(first_index..);
        columns.extend(values.map(|(value, event_index)| Column {
            place: None,
            event_index,
            // The encoding only marks the event as present: no counter counts it.
            event: EventSpec {
                encoding: Some(Encoding::Raw(EventSelect::fixed())),
                missing: None,
                ..EventSpec::absent(value.name, "")
            },
            counter: None,
            unit: Some(ColumnUnit::Known(value.unit)),
        }));
        columns
    }

    fn start(&mut self) -> Result<()> {
        self.start_trace()?;
        self.counts.start()
    }

    fn stop(&mut self) -> Result<()> {
        self.counts.stop()?;
        self.stop_trace()
    }

    fn read(&self, elapsed: Duration) -> Result<Summands> {
        let mut counts = self.counts.read(elapsed)?;
        let count = |value: &Option<u64>| Some(vec![ColumnCount::whole((*value)?, elapsed)]);
        counts.extend(self.recorded.iter().map(count));
        Ok(counts)
    }

    fn uncounted_reasons(&self) -> Result<Reasons> {
        let mut reasons = self.counts.uncounted_reasons()?;
        reasons.extend(self.values.iter().map(|_| None));
        Ok(reasons)
    }
}

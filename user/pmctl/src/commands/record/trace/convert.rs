// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversion of the driver's trace records to samples.

use std::collections::BTreeMap;

use anyhow::Result;
use perfmon::trace::{self, Chunk, EventId, Timed};

use super::counted::{TraceCounts, ValueSums};
use super::plan::TracePlan;
use crate::commands::record::clock::Clock;
use crate::recording::perfdata::{Body, Branch, MemoryAccess, Record, Sample, Stamp, Task};

/// Converts a chunk of the driver's records, and appends the result to `samples`. The tasks of the
/// samples are not known yet.
///
/// # Errors
/// The bytes are not records of this plan. This is a fault of the driver.
pub(super) fn convert(
    chunk: &Chunk,
    plan: &TracePlan,
    clock: &Clock,
    counts: &mut TraceCounts,
    samples: &mut Vec<Record>,
) -> Result<()> {
    let before = samples.len();
    // All records of an interrupt have the same time.
    let mut records: Vec<Timed<'_>> = Vec::new();
    for record in chunk.records() {
        let record = record?;
        counts.totals.add(&record)?;
        if records
            .first()
            .is_some_and(|first| first.time != record.time)
        {
            let sums = (&mut counts.unsampled, &mut counts.values);
            InterruptRecords::new(&records, plan).convert(clock, sums, samples);
            records.clear();
        }
        records.push(record);
    }
    let sums = (&mut counts.unsampled, &mut counts.values);
    InterruptRecords::new(&records, plan).convert(clock, sums, samples);
    if let Some(last) = samples[before..].last() {
        counts
            .last_sample_times
            .insert(last.stamp.cpu, last.stamp.time);
    }
    Ok(())
}

/// The records of one interrupt, or of the end of the trace.
struct InterruptRecords<'a> {
    records: &'a [Timed<'a>],
    plan: &'a TracePlan,
}

impl<'a> InterruptRecords<'a> {
    fn new(records: &'a [Timed<'a>], plan: &'a TracePlan) -> Self {
        Self { records, plan }
    }

    fn convert(
        &self,
        clock: &Clock,
        (unsampled, values): (&mut BTreeMap<(u32, usize), u64>, &mut ValueSums),
        samples: &mut Vec<Record>,
    ) {
        let Some(Timed { time, cpu, .. }) = self.records.first().copied() else {
            return;
        };
        // The counter is never negative, but Fuchsia's interface has it as a signed number.
        let ticks = u64::try_from(time).unwrap_or(0);
        let timebase = self
            .plan
            .events
            .first()
            .and_then(|first| self.sample_address(first.id));
        for Timed { record, .. } in self.records {
            let Some(index) = self.event_index(record.event()) else {
                continue;
            };
            let period = self.plan.events[index].period;
            let (ip, count) = match (*record, period) {
                // Events between the overflow and the interrupt are part of the sample, beyond the period.
                (trace::Record::Pc { event, pc, .. }, Some(period)) => (
                    pc,
                    u64::from(period).saturating_add(self.events_beyond_period(event)),
                ),
                // The count since the last sample goes to the address of the timebase's sample.
                // Without such a sample, the count is the rest at the end of the trace, which makes
                // no sample.
                (trace::Record::Count { count, .. }, None) => match timebase {
                    Some(pc) => (pc, count),
                    None => continue,
                },
                (trace::Record::Value { value, .. }, None) => {
                    let growth = values.add((cpu, index), self.plan.events[index].unit, value);
                    match timebase {
                        Some(pc) => (pc, growth),
                        None => continue,
                    }
                }
                // The event has counts without a sample: the rest at the end of the trace, which is
                // less than a period, or the events of lost samples.
                (trace::Record::Count { event, count }, Some(_)) => {
                    if self.sample_address(event).is_none() {
                        let events = unsampled.entry((cpu, index)).or_default();
                        *events = events.saturating_add(count);
                    }
                    continue;
                }
                _ => continue,
            };
            let time = clock.nanoseconds(ticks);
            let task = Task::UNKNOWN;
            samples.push(Record {
                stamp: Stamp { time, task, cpu },
                body: Body::Sample(Sample {
                    event: index,
                    ip,
                    period: count,
                    chain: Vec::new(),
                    branches: self.sample_branches(record.event()),
                    user_stack: None,
                    access: MemoryAccess::default(),
                    cgroup: 0,
                    guest_mode: None,
                }),
            });
        }
    }

    fn event_index(&self, id: EventId) -> Option<usize> {
        self.plan.events.iter().position(|event| event.id == id)
    }

    /// Returns the address of an event's sample; `None` if the event has no sample here.
    fn sample_address(&self, id: EventId) -> Option<u64> {
        self.records.iter().find_map(|timed| match timed.record {
            trace::Record::Pc { event, pc, .. } if event == id => Some(pc),
            _ => None,
        })
    }

    /// Returns the events that were counted beyond the period of a sample.
    fn events_beyond_period(&self, id: EventId) -> u64 {
        let counts = self.records.iter().map(|timed| match timed.record {
            trace::Record::Count { event, count } if event == id => count,
            _ => 0,
        });
        counts.fold(0, u64::saturating_add)
    }

    /// Returns the branches of an event's sample. If several events overflow at once, the first one has the branches.
    fn sample_branches(&self, id: EventId) -> Vec<Branch> {
        let branches = self.records.iter().find_map(|timed| match timed.record {
            trace::Record::LastBranch {
                event, branches, ..
            } if event == id => Some(branches),
            _ => None,
        });
        let branch = |branch: trace::Branch| Branch {
            from: branch.from,
            to: branch.to,
            mispredicted: Some(branch.mispredicted),
            cycles: branch.cycles,
        };
        branches
            .iter()
            .flat_map(trace::Branches::iter)
            .map(branch)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::record::trace::plan::TracedEvent;
    use crate::events::values;
    use crate::system::pmu::testing;
    use perfmon::abi::perfmon_last_branch;
    use perfmon::spec;
    use perfmon::trace::{Branches, Config, Event, Record as Raw};

    const IP: u64 = 0x40_1000;

    fn id(index: u16) -> EventId {
        EventId::model(index)
    }

    /// Returns a plan in which event 0 makes a sample every 100 events, and event 1 is counted at these samples.
    fn plan() -> TracePlan {
        let events = spec::parse("cycles,instructions", &testing::intel());
        let events = events.expect("they exist").into_iter();
        let planned = |(event, (id, period))| TracedEvent::counted(&event, id, period);
        let config = Config::builder()
            .event(Event::sampling(id(0), 100).pc().last_branch())
            .event(Event::with_timebase(id(1)))
            .build();
        TracePlan {
            config: config.expect("it is well formed"),
            events: events
                .zip([(id(0), Some(100)), (id(1), None)])
                .map(planned)
                .collect(),
        }
    }

    fn chunk(cpu: u32, records: &[Raw<'_>]) -> Chunk {
        let mut bytes = Vec::new();
        for record in records {
            record.encode(&mut bytes);
        }
        Chunk::new(cpu, bytes)
    }

    /// The result of converting some chunks.
    #[derive(Debug, PartialEq)]
    struct Converted {
        samples: Vec<Record>,
        totals: [u64; 2],
        lost: BTreeMap<u32, u64>,
    }

    fn try_convert(chunks: &[Chunk]) -> Result<Converted> {
        let clock = Clock::Pairs(vec![(0, 0), (1000, 1000)]);
        let plan = plan();
        let mut counts = TraceCounts::zeros(&plan);
        let mut samples = Vec::new();
        for chunk in chunks {
            convert(chunk, &plan, &clock, &mut counts, &mut samples)?;
        }
        Ok(Converted {
            samples,
            totals: [0, 1].map(|n| counts.totals.total(id(n))),
            lost: counts.lost_samples(&plan),
        })
    }

    fn converted(chunks: &[Chunk]) -> Converted {
        try_convert(chunks).expect("it is well formed")
    }

    fn sample_record() -> Raw<'static> {
        Raw::Pc {
            event: id(0),
            aspace: 0,
            pc: IP,
        }
    }

    fn count(event: u16, count: u64) -> Raw<'static> {
        Raw::Count {
            event: id(event),
            count,
        }
    }

    fn samples(converted: &Converted) -> Vec<(u64, u32, usize, u64, u64)> {
        let sample = |record: &Record| match &record.body {
            Body::Sample(s) => (record.stamp.time, record.stamp.cpu, s.event, s.ip, s.period),
            other => panic!("it is no sample: {other:?}"),
        };
        converted.samples.iter().map(sample).collect()
    }

    #[test]
    fn a_sample_record_and_the_counts_beside_it_become_samples() {
        let raw = [perfmon_last_branch {
            from: 1,
            to: 2,
            info: 1 << 16 | 7,
        }];
        let last_branch = Raw::LastBranch {
            event: id(0),
            aspace: 0,
            branches: Branches::new(&raw).expect("it is one"),
        };
        let chunk = chunk(
            3,
            &[
                Raw::Time { time: 500 },
                sample_record(),
                count(1, 42),
                last_branch,
                Raw::Time { time: 900 },
                count(0, 99),
                count(1, 8),
            ],
        );
        let converted = converted(&[chunk]);
        assert_eq!(
            samples(&converted),
            [(500, 3, 0, IP, 100), (500, 3, 1, IP, 42)]
        );
        assert_eq!(
            converted.totals,
            [199, 50],
            "the rest at the end is no sample, but counted"
        );
        assert_eq!(converted.lost, BTreeMap::from([(3, 0)]));
        let Body::Sample(sample) = &converted.samples[0].body else {
            panic!("it is a sample")
        };
        let branch = Branch {
            from: 1,
            to: 2,
            mispredicted: Some(true),
            cycles: 7,
        };
        assert_eq!(sample.branches, [branch]);
        assert_eq!(converted.samples[0].stamp.task, Task::UNKNOWN);
    }

    #[test]
    fn energy_is_the_growth_since_the_last_sample() {
        let names = ["energy-pkg,temperature".to_owned()];
        let (_, values) = values::split(&names);
        let mut plan = plan();
        plan.events.extend(values.iter().map(TracedEvent::of_value));
        let (energy, temperature) = (plan.events[2].id, plan.events[3].id);
        plan.config = Config::builder()
            .event(Event::sampling(id(0), 100).pc())
            .event(Event::with_timebase(energy))
            .event(Event::with_timebase(temperature))
            .build()
            .expect("it is well formed");
        let value = |event, value| Raw::Value { event, value };
        let mut records = Vec::new();
        for (time, joules) in [(1_u32, 30), (2, 70), (3, 5)] {
            let at = time.into();
            records.extend([Raw::Time { time: at }, sample_record()]);
            records.extend([
                value(energy, joules),
                value(temperature, 60 + u64::from(time)),
            ]);
        }
        // At the end of the trace there is no sample to read the value at.
        records.extend([Raw::Time { time: 4 }, value(energy, 9)]);
        let mut counts = TraceCounts::zeros(&plan);
        let mut samples = Vec::new();
        let clock = Clock::Pairs(vec![(0, 0), (1000, 1000)]);
        let all = convert(
            &chunk(0, &records),
            &plan,
            &clock,
            &mut counts,
            &mut samples,
        );
        all.expect("it is well formed");
        let periods_of = |index| {
            let periods = samples.iter().filter_map(move |record| match &record.body {
                Body::Sample(sample) if sample.event == index => Some(sample.period),
                _ => None,
            });
            periods.collect::<Vec<_>>()
        };
        assert_eq!(
            periods_of(2),
            [30, 40, 5],
            "the third is of a trace that began again"
        );
        assert_eq!(periods_of(3), [61, 62, 63]);
        assert_eq!((counts.values.sum(2), counts.values.sum(3)), (79, 0));
    }

    #[test]
    fn events_that_were_counted_but_not_sampled_are_lost_samples() {
        let throttled = [
            Raw::Time { time: 1 },
            count(0, 350),
            Raw::Time { time: 2 },
            count(0, 420),
        ];
        let converted = converted(&[
            chunk(0, &throttled),
            chunk(1, &[Raw::Time { time: 3 }, sample_record()]),
        ]);
        assert_eq!(converted.lost, BTreeMap::from([(0, 7)]));
        assert_eq!(converted.totals, [870, 0]);
        assert_eq!(samples(&converted), [(3, 1, 0, IP, 100)]);
    }

    #[test]
    fn remainders_add_up_to_lost_samples() {
        let parts = [(1, 50), (2, 60), (3, 90)];
        let parts = parts.map(|(time, events)| [Raw::Time { time }, count(0, events)]);
        let whole = converted(&[chunk(0, parts.as_flattened())]);
        assert_eq!(whole.lost, BTreeMap::from([(0, 2)]));
        let chunks = parts.map(|part| chunk(0, &part));
        assert_eq!(converted(&chunks), whole, "chunks make no difference");
        let elsewhere = [chunk(0, &parts[0]), chunk(1, &parts[1])];
        let lost = converted(&elsewhere).lost;
        assert_eq!(
            lost,
            BTreeMap::from([(0, 0), (1, 0)]),
            "each CPU for itself"
        );
    }

    #[test]
    fn a_late_interrupt_makes_one_sample_of_several_periods() {
        let late = [
            Raw::Time { time: 5 },
            sample_record(),
            count(0, 200),
            count(1, 30),
        ];
        let converted = converted(&[chunk(0, &late)]);
        assert_eq!(samples(&converted), [(5, 0, 0, IP, 300), (5, 0, 1, IP, 30)]);
        assert_eq!(converted.lost, BTreeMap::new());
        assert_eq!(converted.totals, [300, 30]);
    }

    #[test]
    fn bytes_that_are_no_records_are_an_error() {
        let foreign = chunk(0, &[Raw::Time { time: 1 }, count(9, 1)]);
        for chunk in [foreign, Chunk::new(0, vec![0xff; 8])] {
            assert!(try_convert(&[chunk]).is_err());
        }
    }
}

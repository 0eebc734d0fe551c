// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the driver's records to samples.

use std::collections::BTreeMap;

use anyhow::Result;
use perfmon::trace::{self, Chunk, EventId, Timed, Totals};

use super::clock::Clock;
use super::plan::Plan;
use super::tasks::Tasks;
use crate::perfdata::{Body, Branch, Record, Sample, Stamp, Task, is_kernel};
use crate::profile::Spaces;

/// How one knows which task a sample is of.
pub(super) enum Attribution {
    /// From the switches of tasks.
    Switches(Tasks),
    /// From what is at the address, as long as only one process has something there.
    Addresses(Spaces),
}

impl Attribution {
    fn of(&self, cpu: u32, time: u64, ip: u64) -> Task {
        let task = match self {
            Self::Switches(tasks) => tasks.at(cpu, time),
            Self::Addresses(_) if is_kernel(ip) => None,
            Self::Addresses(spaces) => spaces.only_owner(ip).map(Task::leader),
        };
        task.unwrap_or(Task::UNKNOWN)
    }
}

/// What the records say.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Converted {
    pub(super) samples: Vec<Record>,
    /// How often each event happened.
    pub(super) totals: Vec<u64>,
    /// How many samples each CPU would have made besides, had they not been lost: their events were counted.
    pub(super) lost: BTreeMap<u32, u64>,
}

/// Makes samples of the driver's records.
///
/// # Errors
/// If the bytes are no records of this plan: a fault of the driver.
pub(super) fn convert(
    chunks: &[Chunk],
    plan: &Plan,
    clock: &Clock,
    attribution: &Attribution,
) -> Result<Converted> {
    let mut totals = Totals::new(&plan.config);
    let mut converted = Converted::default();
    for chunk in chunks {
        let records: Vec<Timed<'_>> = chunk.records().collect::<Result<_, _>>()?;
        for record in &records {
            totals.add(record)?;
        }
        // All records of one interrupt have one time.
        for set in records.chunk_by(|a, b| a.time == b.time) {
            Set::new(set, plan).convert(clock, attribution, &mut converted);
        }
    }
    let ids = plan.events.iter().map(|event| event.id);
    converted.totals = ids.map(|id| totals.on_all(id)).collect();
    Ok(converted)
}

/// The records of one interrupt, or of the end of the trace.
struct Set<'a> {
    records: &'a [Timed<'a>],
    plan: &'a Plan,
}

impl<'a> Set<'a> {
    fn new(records: &'a [Timed<'a>], plan: &'a Plan) -> Self {
        Self { records, plan }
    }

    fn convert(&self, clock: &Clock, attribution: &Attribution, converted: &mut Converted) {
        let Some(Timed { time, cpu, .. }) = self.records.first().copied() else {
            return;
        };
        // The counter never is negative; FreeBSD's interface has it signed.
        let ticks = u64::try_from(time).unwrap_or(0);
        let timebase = self.plan.events.first().and_then(|first| self.pc(first.id));
        for Timed { record, .. } in self.records {
            let Some(index) = self.index(record.event()) else {
                continue;
            };
            let period = self.plan.events[index].period;
            let (ip, count) = match (*record, period) {
                // It may have happened more often than the period says before the interrupt came.
                (trace::Record::Pc { event, pc, .. }, Some(period)) => {
                    (pc, u64::from(period).saturating_add(self.count(event)))
                }
                // Counted since the sample before, and shown where the timebase is now. Without one it is
                // what was left at the end: no sample.
                (trace::Record::Count { count, .. }, None) => match timebase {
                    Some(pc) => (pc, count),
                    None => continue,
                },
                // What was counted and makes no sample: the rest at the end, which is less than a period,
                // and what was lost.
                (trace::Record::Count { event, count }, Some(period)) => {
                    if self.pc(event).is_none() {
                        *converted.lost.entry(cpu).or_default() += count / u64::from(period);
                    }
                    continue;
                }
                _ => continue,
            };
            let time = clock.nanoseconds(ticks);
            let task = attribution.of(cpu, time, ip);
            converted.samples.push(Record {
                stamp: Stamp { time, task, cpu },
                body: Body::Sample(Sample {
                    event: index,
                    ip,
                    period: count,
                    branches: self.branches(record.event()),
                }),
            });
        }
    }

    fn index(&self, id: EventId) -> Option<usize> {
        self.plan.events.iter().position(|event| event.id == id)
    }

    /// Where the CPU was when an event ticked.
    fn pc(&self, id: EventId) -> Option<u64> {
        self.records.iter().find_map(|timed| match timed.record {
            trace::Record::Pc { event, pc, .. } if event == id => Some(pc),
            _ => None,
        })
    }

    /// What was counted of an event besides its tick.
    fn count(&self, id: EventId) -> u64 {
        let counts = self.records.iter().map(|timed| match timed.record {
            trace::Record::Count { event, count } if event == id => count,
            _ => 0,
        });
        counts.fold(0, u64::saturating_add)
    }

    /// The branches that were recorded for an event; when several tick at once, the first has them.
    fn branches(&self, id: EventId) -> Vec<Branch> {
        let branches = self.records.iter().find_map(|timed| match timed.record {
            trace::Record::LastBranch {
                event, branches, ..
            } if event == id => Some(branches),
            _ => None,
        });
        let branch = |branch: trace::Branch| Branch {
            from: branch.from,
            to: branch.to,
            mispredicted: branch.mispredicted,
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
    use crate::events;
    use crate::pmu::Pmu;
    use crate::record::plan::Planned;
    use perfmon::abi::perfmon_last_branch;
    use perfmon::trace::{Branches, Config, Event, Record as Raw};

    const IP: u64 = 0x40_1000;

    fn id(index: u16) -> EventId {
        EventId::model(index)
    }

    /// Event 0 makes a sample every 100 times, and event 1 is counted with it.
    fn plan() -> Plan {
        let events = events::events("cycles,instructions", &Pmu::for_tests());
        let events = events.expect("they exist").into_iter();
        let planned = |(event, (id, period))| Planned { event, id, period };
        let config = Config::builder()
            .event(Event::sampling(id(0), 100).pc().last_branch())
            .event(Event::with_timebase(id(1)))
            .build();
        Plan {
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

    fn converted(chunks: &[Chunk]) -> Converted {
        let clock = Clock::Pairs(vec![(0, 0), (1000, 1000)]);
        let attribution = Attribution::Switches(Tasks::default());
        convert(chunks, &plan(), &clock, &attribution).expect("it is well formed")
    }

    fn tick() -> Raw<'static> {
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
    fn a_tick_is_a_sample_and_so_are_the_counts_with_it() {
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
                tick(),
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
            mispredicted: true,
            cycles: 7,
        };
        assert_eq!(sample.branches, [branch]);
        assert_eq!(converted.samples[0].stamp.task, Task::UNKNOWN);
    }

    #[test]
    fn what_was_counted_and_not_sampled_is_lost() {
        let throttled = [
            Raw::Time { time: 1 },
            count(0, 350),
            Raw::Time { time: 2 },
            count(0, 420),
        ];
        let converted = converted(&[
            chunk(0, &throttled),
            chunk(1, &[Raw::Time { time: 3 }, tick()]),
        ]);
        assert_eq!(converted.lost, BTreeMap::from([(0, 7)]));
        assert_eq!(converted.totals, [870, 0]);
        assert_eq!(samples(&converted), [(3, 1, 0, IP, 100)]);
    }

    #[test]
    fn a_late_interrupt_makes_one_sample_of_several_periods() {
        let late = [Raw::Time { time: 5 }, tick(), count(0, 200), count(1, 30)];
        let converted = converted(&[chunk(0, &late)]);
        assert_eq!(samples(&converted), [(5, 0, 0, IP, 300), (5, 0, 1, IP, 30)]);
        assert_eq!(converted.lost, BTreeMap::new());
        assert_eq!(converted.totals, [300, 30]);
    }

    #[test]
    fn other_bytes_are_told() {
        let clock = Clock::Pairs(Vec::new());
        let attribution = Attribution::Switches(Tasks::default());
        let foreign = chunk(0, &[Raw::Time { time: 1 }, count(9, 1)]);
        for chunk in [foreign, Chunk::new(0, vec![0xff; 8])] {
            assert!(convert(&[chunk], &plan(), &clock, &attribution).is_err());
        }
    }

    #[test]
    fn without_switches_the_address_decides() {
        let task = Task::leader(7);
        let mut spaces = Spaces::default();
        spaces.apply(&Record {
            stamp: Stamp::default(),
            body: Body::Map(crate::perfdata::Map {
                task,
                start: IP,
                length: 0x1000,
                ..Default::default()
            }),
        });
        let attribution = Attribution::Addresses(spaces);
        assert_eq!(attribution.of(0, 1, IP), task);
        assert_eq!(attribution.of(0, 1, 1), Task::UNKNOWN);
        assert_eq!(attribution.of(0, 1, u64::MAX), Task::UNKNOWN);
    }
}

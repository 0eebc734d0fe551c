// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of decoding, merging and adding up, on bytes and records of every kind.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::HashMap;

use perfmon::Modes;
use perfmon::abi::{PERFMON_MAX_NUM_LAST_BRANCH, perfmon_last_branch};
use perfmon::trace::{
    ArchEvent, Branches, Chunk, Config, DecodeError, Decoder, Event, EventId, FixedEvent, Mismatch,
    Problem, Record, Timed, Totals, merge,
};
use proptest::prelude::*;

/// A record that owns its branches.
#[derive(Clone, Debug)]
enum OwnedRecord {
    Plain(Record<'static>),
    LastBranch(EventId, u64, Vec<[u64; 3]>),
}

impl OwnedRecord {
    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Plain(record) => record.encode(bytes),
            &Self::LastBranch(event, aspace, ref branches) => {
                let branches: Vec<_> = branches.iter().map(branch).collect();
                let branches = Branches::new(&branches).unwrap();
                Record::LastBranch {
                    event,
                    aspace,
                    branches,
                }
                .encode(bytes);
            }
        }
    }

    fn equals(&self, record: &Record<'_>) -> bool {
        match self {
            Self::Plain(plain) => plain == record,
            Self::LastBranch(event, aspace, branches) => matches!(
                record,
                Record::LastBranch { event: e, aspace: a, branches: b }
                    if e == event
                        && a == aspace
                        && b.iter().eq(branches.iter().map(branch).map(Into::into))
            ),
        }
    }
}

fn branch(&[from, to, info]: &[u64; 3]) -> perfmon_last_branch {
    perfmon_last_branch { from, to, info }
}

fn any_event() -> impl Strategy<Value = EventId> {
    any::<u16>().prop_map(EventId::from_bits)
}

fn any_record() -> impl Strategy<Value = OwnedRecord> {
    let max_branches = PERFMON_MAX_NUM_LAST_BRANCH as usize;
    prop_oneof![
        any::<i64>().prop_map(|time| OwnedRecord::Plain(Record::Time { time })),
        any_event().prop_map(|event| OwnedRecord::Plain(Record::Tick { event })),
        (any_event(), any::<u64>())
            .prop_map(|(event, count)| OwnedRecord::Plain(Record::Count { event, count })),
        (any_event(), any::<u64>())
            .prop_map(|(event, value)| OwnedRecord::Plain(Record::Value { event, value })),
        (any_event(), any::<u64>(), any::<u64>())
            .prop_map(|(event, aspace, pc)| OwnedRecord::Plain(Record::Pc { event, aspace, pc })),
        (
            any_event(),
            any::<u64>(),
            prop::collection::vec(any::<[u64; 3]>(), 0..=max_branches)
        )
            .prop_map(|(event, aspace, branches)| OwnedRecord::LastBranch(event, aspace, branches)),
    ]
}

fn encode(records: &[OwnedRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        record.encode(&mut bytes);
    }
    bytes
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_to_their_end_or_to_one_error(
        bytes in prop::collection::vec(any::<u8>(), 0..2000)
    ) {
        let mut decoder = Decoder::new(&bytes);
        let mut offset = 0;
        while let Some(record) = decoder.next() {
            match record {
                Ok(record) => {
                    let mut reencoded = Vec::new();
                    record.encode(&mut reencoded);
                    prop_assert!(reencoded.len() >= 4);
                    prop_assert_eq!(&bytes[offset..][..reencoded.len()], reencoded);
                }
                Err(error) => {
                    prop_assert_eq!(error.offset, offset);
                    prop_assert!(!error.to_string().is_empty());
                    prop_assert_eq!(decoder.next(), None);
                    return Ok(());
                }
            }
            prop_assert!(decoder.offset() > offset);
            offset = decoder.offset();
        }
        prop_assert_eq!(offset, bytes.len());
    }

    /// Valid records with one changed byte reach deeper into the decoder than random bytes do.
    #[test]
    fn damaged_records_cause_no_panic(
        records in prop::collection::vec(any_record(), 1..20),
        place: prop::sample::Index,
        byte: u8,
    ) {
        let mut bytes = encode(&records);
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let chunk = Chunk::new(0, bytes);
        let items = chunk.records().count();
        prop_assert!(items <= chunk.bytes().len() / 4);
        prop_assert!(chunk.records().skip_while(Result::is_ok).nth(1).is_none());
        prop_assert_eq!(merge([&chunk]).count(), items);
    }

    #[test]
    fn encoded_records_are_decoded_again(
        records in prop::collection::vec(any_record(), 0..50),
        misalign in 0_usize..4,
    ) {
        let mut bytes = vec![0; misalign];
        bytes.extend(encode(&records));
        let decoder = Decoder::new(&bytes[misalign..]);
        let decoded_records: Vec<_> = decoder.collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(decoded_records.len(), records.len());
        let mut reencoded = Vec::new();
        for record in &decoded_records {
            record.encode(&mut reencoded);
        }
        prop_assert_eq!(&bytes[misalign..], reencoded);
        for (record, decoded) in records.iter().zip(&decoded_records) {
            prop_assert!(record.equals(decoded), "{:?} {:?}", record, decoded);
        }
    }

    #[test]
    fn every_cut_is_reported(record in any_record(), step in 1_usize..4) {
        let encoded_record = encode(std::slice::from_ref(&record));
        let time_record = encode(&[OwnedRecord::Plain(Record::Time { time: 0 })]);
        for left in (1..encoded_record.len()).step_by(step) {
            let bytes = [&time_record[..], &encoded_record[..left]].concat();
            let error = Decoder::new(&bytes).nth(1).unwrap().unwrap_err();
            prop_assert_eq!((error.cpu, error.offset), (None, time_record.len()));
            let Problem::Truncated { needed, left: reported } = error.problem else {
                return Err(TestCaseError::fail(format!("{error}")));
            };
            prop_assert!(reported == left && left < needed && needed <= encoded_record.len());
        }
    }

    #[test]
    fn merging_is_a_stable_sort(
        times in prop::collection::vec(prop::collection::vec(0_i64..50, 0..30), 0..8)
    ) {
        let mut number = 0;
        let mut expected = Vec::new();
        let chunks: Vec<Chunk> = (0..).zip(times).map(|(cpu, mut times)| {
            times.sort_unstable();
            let mut bytes = Vec::new();
            for time in times {
                Record::Time { time }.encode(&mut bytes);
                for _ in 0..2 {
                    number += 1;
                    let record = Record::Value { event: EventId::misc(0), value: number };
                    record.encode(&mut bytes);
                    expected.push(Timed { time, cpu, record });
                }
            }
            Chunk::new(cpu, bytes)
        }).collect();
        expected.sort_by_key(|timed| (timed.time, timed.cpu));
        // The order of the chunks in the argument does not matter.
        let merged_records: Vec<_> = merge(chunks.iter().rev()).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(merged_records, expected);
    }

    #[test]
    fn totals_are_rate_times_ticks_and_counts(
        rate in 1_u32..,
        records in prop::collection::vec((0_u32..4, 0_u16..2, prop::option::of(0_u64..1 << 40)), 0..100)
    ) {
        let (ticks, counts) = (EventId::model(0), EventId::model(1));
        let config = Config::builder()
            .event(Event::sampling(ticks, rate))
            .event(Event::counting(counts))
            .build()
            .unwrap();
        let mut totals = Totals::new(&config);
        let mut expected = HashMap::<_, u64>::new();
        for (cpu, event, count) in records {
            let event = EventId::model(event);
            let count = if event == counts { Some(count.unwrap_or(0)) } else { count };
            let record = count.map_or(Record::Tick { event }, |count| Record::Count { event, count });
            totals.add(&Timed { time: 0, cpu, record }).unwrap();
            *expected.entry((event, cpu)).or_default() += count.unwrap_or(rate.into());
        }
        for (event, cpu, count) in totals.iter() {
            prop_assert_eq!(expected.remove(&(event, cpu)), Some(count));
            prop_assert_eq!(totals.total_on_cpu(event, cpu), count);
        }
        prop_assert!(expected.is_empty());
        let sum: u64 = totals.iter().filter(|row| row.0 == ticks).map(|row| row.2).sum();
        prop_assert_eq!(totals.total(ticks), sum);
    }
}

/// Returns the first error in some bytes.
fn first_error(bytes: &[u8]) -> Option<DecodeError> {
    Decoder::new(bytes).find_map(Result::err)
}

#[test]
fn each_problem_is_reported() {
    let mut long_record = vec![6, 0, 1, 8, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    long_record.resize(long_record.len() + 33 * 24, 0);
    let time = [1, 0, 0x04, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0];
    let table: [(&[u8], Problem); 7] = [
        (&[0, 0, 0, 0], Problem::UnknownType(0)),
        (&[7, 0, 0, 0], Problem::UnknownType(7)),
        (&[2, 0x80, 0, 0], Problem::UnknownFlags(0x80)),
        (&time, Problem::TimeOfEvent(EventId::model(4))),
        (&long_record, Problem::TooManyBranches(33)),
        (&[2, 0, 0], Problem::Truncated { needed: 4, left: 3 }),
        (
            &long_record[..15],
            Problem::Truncated {
                needed: 16,
                left: 15,
            },
        ),
    ];
    for (bytes, problem) in table {
        let expected = DecodeError {
            cpu: None,
            offset: 0,
            problem,
        };
        assert_eq!(first_error(bytes), Some(expected));
    }
    long_record[4] = 32;
    assert_eq!(first_error(&long_record[..16 + 32 * 24]), None);
}

#[test]
fn a_record_without_a_time_is_an_error() {
    let mut bytes = Vec::new();
    let tick = Record::Tick {
        event: EventId::model(0),
    };
    tick.encode(&mut bytes);
    Record::Time { time: 7 }.encode(&mut bytes);
    tick.encode(&mut bytes);
    let chunk = Chunk::new(5, bytes);
    let mut records = chunk.records();
    let error = records.next().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "CPU 5: the record at offset 0 has no time: no time record comes before it"
    );
    assert_eq!(records.next(), None);
}

#[test]
fn an_error_ends_only_its_own_chunk() {
    let chunk = |cpu, times: [i64; 2], broken: bool| {
        let mut bytes = Vec::new();
        for time in times {
            Record::Time { time }.encode(&mut bytes);
            let event = EventId::model(0);
            Record::Tick { event }.encode(&mut bytes);
            if broken {
                bytes.push(0xff);
            }
        }
        Chunk::new(cpu, bytes)
    };
    let chunks = [chunk(0, [10, 30], true), chunk(1, [20, 40], false)];
    let merged_records: Vec<_> = merge(&chunks)
        .map(|record| record.map(|timed| timed.time).map_err(|e| e.cpu))
        .collect();
    assert_eq!(merged_records, [Ok(10), Err(Some(0)), Ok(20), Ok(40)]);
}

#[test]
fn records_of_another_config_are_not_added_up() {
    let (first, second, other) = (EventId::model(0), EventId::model(1), EventId::model(2));
    let config = Config::builder()
        .event(Event::sampling(first, 10))
        .event(Event {
            rate: 10,
            ..Event::with_timebase(second)
        })
        .build()
        .unwrap();
    let mut totals = Totals::new(&config);
    let mut add = |record| {
        let timed = Timed {
            time: 0,
            cpu: 3,
            record,
        };
        totals.add(&timed)
    };
    let mismatch = |event| Err(Mismatch { event, cpu: 3 });
    let count = |event| Record::Count { event, count: 5 };
    assert_eq!(add(Record::Tick { event: first }), Ok(()));
    assert_eq!(add(count(second)), Ok(()));
    // An event that follows the timebase has no ticks, even with a rate.
    assert_eq!(add(Record::Tick { event: second }), mismatch(second));
    assert_eq!(add(count(other)), mismatch(other));
    assert_eq!(add(count(EventId::NONE)), mismatch(EventId::NONE));
    let value = u64::MAX;
    assert_eq!(
        add(Record::Value {
            event: first,
            value
        }),
        Ok(())
    );
    assert_eq!(
        add(Record::Count {
            event: first,
            count: value
        }),
        Ok(())
    );
    assert_eq!(
        (
            totals.total_on_cpu(first, 3),
            totals.total_on_cpu(second, 3)
        ),
        (u64::MAX, 5)
    );
}

/// The example bytes of Documentation/trace-format.rst decode to the addresses and sums that the page gives.
#[test]
fn documented_example_decodes_as_described() {
    let text = include_str!("../../../Documentation/trace-format.rst");
    let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let mut bytes = Vec::new();
    for line in text.lines() {
        let Some((offset, rest)) = line.trim_start().split_once("  ") else {
            continue;
        };
        if offset.len() == 4 && hex(offset) == Some(bytes.len() as u64 + 24) {
            let (row, _) = rest.split_once("  ").unwrap();
            bytes.extend(
                row.split(' ')
                    .map(|byte| u8::from_str_radix(byte, 16).unwrap()),
            );
        }
    }
    assert_eq!(bytes.len(), 160 - 24);

    let instructions = EventId::fixed(FixedEvent::Instructions);
    let misses = EventId::arch(ArchEvent::LlcMisses);
    let config = Config::builder()
        .event(Event::sampling(instructions, 1000).modes(Modes::User).pc())
        .event(Event::with_timebase(misses).modes(Modes::User))
        .build()
        .unwrap();
    let chunk = Chunk::new(0, bytes);
    let mut totals = Totals::new(&config);
    let mut places = Vec::new();
    for timed in chunk.records() {
        let timed = timed.unwrap();
        totals.add(&timed).unwrap();
        if let Record::Pc { aspace, pc, .. } = timed.record {
            places.push((timed.time, aspace, pc));
        }
    }
    assert_eq!(
        places,
        [(4096, 0x2c4_e000, 0x40_1136), (6656, 0x2c4_e000, 0x40_1140)]
    );
    assert_eq!(
        (
            totals.total_on_cpu(instructions, 0),
            totals.total_on_cpu(misses, 0)
        ),
        (3617, 4)
    );
}

// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of reading buffers.

use perfmon::trace::{Buffer, Record};
use perfmon::{Attempt, Cause};

use super::machine::{HEADER_SIZE, INSTRUCTIONS, Machine, session, stage_trace};

fn time(time: i64) -> Record<'static> {
    Record::Time { time }
}

const TICK: Record<'_> = Record::Tick {
    event: INSTRUCTIONS,
};

/// Returns the times of the buffer's new records.
fn record_times(buffer: &mut Buffer) -> Vec<i64> {
    let chunk = buffer.records().unwrap();
    let times = chunk.records().map(|record| record.unwrap().time);
    times.collect()
}

#[test]
fn a_buffer_returns_each_record_once() {
    let machine = Machine::new();
    let session = session(&machine);
    let trace = stage_trace(&session);
    let mut buffers = trace.buffers().unwrap();
    let trace = trace.start().unwrap();
    assert_eq!(record_times(&mut buffers[1]), [0; 0]);

    let end = machine.record(1, HEADER_SIZE, &[time(10), TICK, TICK, time(20), TICK]);
    assert_eq!(record_times(&mut buffers[1]), [10, 10, 20]);
    assert_eq!(record_times(&mut buffers[1]), [0; 0]);
    assert_eq!(record_times(&mut buffers[0]), [0; 0]);
    machine.record(1, end, &[time(30), TICK]);
    assert_eq!(record_times(&mut buffers[1]), [30]);
    buffers[1].rewind();
    assert_eq!(record_times(&mut buffers[1]), [10, 10, 20, 30]);
    assert_eq!(buffers[1].records().unwrap().cpu(), 1);
    assert_eq!(buffers[1].cpu(), 1);

    drop((trace, session));
    let mut last = buffers.pop().unwrap();
    last.rewind();
    machine.record(1, HEADER_SIZE, &[time(40), TICK]);
    drop(machine);
    assert_eq!(record_times(&mut last), [40]);
}

#[test]
fn a_second_run_overwrites_the_first() {
    let machine = Machine::new();
    let trace = stage_trace(&session(&machine));
    let mut buffer = trace.buffer(0).unwrap();
    let trace = trace.start().unwrap();
    machine.record(0, HEADER_SIZE, &[time(10), TICK]);
    assert_eq!(record_times(&mut buffer), [10]);
    let _trace = trace.stop().unwrap().start().unwrap();
    let error = buffer.records().unwrap_err();
    assert_eq!(
        (error.attempt, error.cause),
        (Attempt::ReadBuffer(0), Cause::BadHeader)
    );
    buffer.rewind();
    machine.record(0, HEADER_SIZE, &[time(20), TICK]);
    assert_eq!(record_times(&mut buffer), [20]);
}

#[test]
fn an_impossible_end_in_the_header_is_an_error() {
    let machine = Machine::new();
    let trace = stage_trace(&session(&machine));
    let mut buffer = trace.buffer(0).unwrap();
    for end in [0, HEADER_SIZE - 4, HEADER_SIZE + 2, 2 * 4096 + 4, u64::MAX] {
        machine.publish(0, end);
        let error = buffer.records().unwrap_err();
        assert_eq!(error.cause, Cause::BadHeader, "{end}");
    }
    machine.publish(0, 2 * 4096);
    let chunk = buffer.records().unwrap();
    assert_eq!(chunk.bytes().len() as u64, 2 * 4096 - HEADER_SIZE);
}

#[test]
fn the_header_has_flags_and_frequency() {
    let machine = Machine::new();
    let trace = stage_trace(&session(&machine));
    let buffer = trace.buffer(0).unwrap();
    assert_eq!(buffer.header().ticks_per_second, None);
    assert_eq!(buffer.header().flags.to_string(), "");
    machine.write_bytes(0, 4, &0b1001_u32.to_ne_bytes());
    machine.write_bytes(0, 8, &2_500_000_000_i64.to_ne_bytes());
    let header = buffer.header();
    assert!(header.flags.is_full() && header.flags.is_not_traced());
    assert!(!header.flags.is_throttled() && !header.flags.is_offline());
    assert_eq!(header.flags.to_string(), "full, not traced");
    assert_eq!(header.ticks_per_second, Some(2_500_000_000));
    assert_eq!(header.capture_end, HEADER_SIZE);
}

#[test]
fn a_buffer_of_another_version_is_refused() {
    let machine = Machine::new();
    machine.write_bytes(1, 0, &7_u16.to_ne_bytes());
    let error = stage_trace(&session(&machine)).buffers().unwrap_err();
    assert_eq!(
        (error.attempt, error.cause),
        (Attempt::Map(1), Cause::BufferVersion(7))
    );
}

#[test]
fn a_reader_sees_only_whole_sets() {
    const SETS: i64 = 400;
    let machine = Machine::new();
    let trace = stage_trace(&session(&machine));
    let mut buffer = trace.buffer(0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..SETS).fold(HEADER_SIZE, |end, n| {
                machine.record(0, end, &[time(n), TICK, TICK])
            });
        });
        let mut expected = 0;
        while expected < SETS {
            for pair in record_times(&mut buffer).chunks(2) {
                assert_eq!(pair, [expected; 2]);
                expected += 1;
            }
        }
    });
}

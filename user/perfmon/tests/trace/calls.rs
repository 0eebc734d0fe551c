// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the calls that a trace makes in each state.

use std::sync::Arc;

use perfmon::trace::{Alloc, EventId};
use perfmon::{Cause, CounterId, Errno, EventSelect, Modes};
use perfmon_core::logic::trace_state::TraceState;

use super::machine::{CPUS, Machine, config, session, stage_trace};

#[test]
fn each_method_is_one_call() {
    let machine = Machine::new();
    let session = session(&machine);
    let info = session.device().info().unwrap();
    assert_eq!((info.cpu_ids, info.has_full_width_writes), (CPUS, true));
    machine.state().features ^= u64::MAX;
    assert!(!session.device().info().unwrap().has_full_width_writes);
    let loads = EventSelect::new(0xd0, 0x81).modes(Modes::User);
    session.define_event(EventId::model(3), loads).unwrap();
    let alloc = Alloc::new(&info, 2);
    let trace = session.allocate(alloc).unwrap();
    assert_eq!(trace.allocation().unwrap(), alloc);
    let trace = trace.stage(&config()).unwrap();
    assert_eq!(trace.configuration().unwrap(), config());
    assert_eq!(trace.buffers().unwrap().len(), 2);
    let trace = trace.start().unwrap();
    let trace = trace.stop().unwrap();
    trace.free().unwrap();
    let calls = [
        "define 0xc03 0x181d0",
        "alloc 2 of 2",
        "get alloc",
        "stage",
        "get config",
        "buffer 0",
        "buffer 1",
        "start",
        "stop",
        "free",
    ];
    assert_eq!(machine.take_calls(), calls);
}

#[test]
fn the_config_is_the_structure_of_the_interface() {
    let machine = Machine::new();
    let _trace = stage_trace(&session(&machine));
    let staged_config = machine.state().staged_config.unwrap();
    assert_eq!(staged_config.events[..3], [0x801, 0x404, 0]);
    assert_eq!(staged_config.rate[..3], [1000, 0, 0]);
    assert_eq!(staged_config.flags[..3], [0b00110, 0b01011, 0]);
}

#[test]
fn a_dropped_trace_stops_and_is_freed() {
    let machine = Machine::new();
    let session = session(&machine);
    let trace = stage_trace(&session).start().unwrap();
    machine.take_calls();
    drop(trace);
    assert_eq!(machine.take_calls(), ["stop", "free"]);
    assert_eq!(machine.state().trace_state, TraceState::Idle);
}

#[test]
fn a_trace_outlives_its_session() {
    let machine = Machine::new();
    let trace = stage_trace(&session(&machine));
    trace.start().unwrap().stop().unwrap();
    assert_eq!(Arc::strong_count(&machine), 1);
}

#[test]
fn a_refused_call_returns_the_trace_unchanged() {
    let machine = Machine::new();
    let session = session(&machine);

    let trace = session
        .allocate(Alloc {
            buffers: 2,
            pages: 2,
        })
        .unwrap();
    machine.fail_next_call(Errno::EINVAL);
    let refused = trace.stage(&config()).unwrap_err();
    assert_eq!(refused.error.cause, Cause::InvalidConfig);
    let trace = refused.trace.stage(&config()).unwrap();

    machine.fail_next_call(Errno::EINVAL);
    let refused = trace.stage(&config()).unwrap_err();
    machine.fail_next_call(Errno::EBUSY);
    let refused = refused.trace.start().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "can't start the trace: the hardware counters are in use already"
    );
    let trace = refused.trace.start().unwrap();

    machine.fail_next_call(Errno::EIO);
    let refused = trace.stop().unwrap_err();
    assert_eq!(refused.error.cause, Cause::Untrusted);
    let trace = refused.trace.stop().unwrap();

    machine.fail_next_call(Errno::EACCES);
    let refused = trace.free().unwrap_err();
    assert_eq!(refused.error.cause, Cause::Forbidden);
    machine.take_calls();
    drop(refused);
    assert_eq!(machine.take_calls(), ["stop", "free"]);
}

#[test]
fn a_session_can_have_one_trace_and_counters_at_once() {
    let machine = Machine::new();
    let session = session(&machine);
    let trace = stage_trace(&session);
    let alloc = Alloc {
        buffers: 2,
        pages: 2,
    };
    let error = session.allocate(alloc).unwrap_err();
    assert_eq!(error.cause, Cause::WrongState);
    let select = EventSelect::new(0xc0, 0);
    let error = session.define_event(EventId::model(0), select).unwrap_err();
    assert_eq!(error.cause, Cause::WrongState);
    session.counter(CounterId::General(0), select).unwrap();
    drop(trace);
    session.allocate(alloc).unwrap();
}

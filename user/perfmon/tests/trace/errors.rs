// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the errors of traces.

use std::sync::Arc;

use perfmon::sys::{Call, Driver};
use perfmon::trace::{Alloc, ArchEvent, EventId};
use perfmon::{Attempt, Cause, Errno, EventSelect, Session};

use super::machine::{CPUS, Machine, session, stage_trace};

/// A call that may fail.
type FallibleCall<'a> = &'a dyn Fn() -> Option<perfmon::Error>;

#[test]
fn errors_say_what_was_attempted_and_why_it_failed() {
    let machine = Machine::new();
    let session = session(&machine);
    let alloc = Alloc {
        buffers: 3,
        pages: 9,
    };
    let id = EventId::arch(ArchEvent::Branches);
    let select = EventSelect::new(0xc4, 0);

    let allocate: FallibleCall<'_> = &|| session.allocate(alloc).err();
    let define: FallibleCall<'_> = &|| session.define_event(id, select).err();
    let info: FallibleCall<'_> = &|| session.device().info().err();
    assert_eq!(info(), None);
    let calls_before_staging = [
        (Errno::EINVAL, allocate, Cause::InvalidAlloc),
        (Errno::ENOMEM, allocate, Cause::NoMemory),
        (Errno::EPERM, allocate, Cause::MemoryLimit),
        (Errno::EPERM, define, Cause::LockedDown),
        (Errno::EINVAL, define, Cause::InvalidEvent),
        (Errno::EACCES, define, Cause::Forbidden),
        (Errno::EOPNOTSUPP, define, Cause::NotForCounters),
    ];
    for (errno, attempt, cause) in calls_before_staging {
        machine.fail_next_call(errno);
        assert_eq!(attempt().unwrap().cause, cause, "{errno}");
    }
    // GET_ALLOC fails with EPERM, too: the kernel is locked down.
    machine.state().locked_down = true;
    assert_eq!(allocate().unwrap().cause, Cause::LockedDown);
    machine.state().locked_down = false;
    machine.fail_next_call(Errno::EINVAL);
    assert_eq!(
        allocate().unwrap().to_string(),
        "can't allocate 3 buffers of 9 pages: the number of buffers differs from that of the CPUs, \
         or a buffer has too many pages or none"
    );
    machine.fail_next_call(Errno::EINVAL);
    assert_eq!(
        define().unwrap().to_string(),
        "can't define architectural event 5 as event select 0x300c4: \
         the ID is not a model-specific one, or the event select is not allowed"
    );

    let trace = stage_trace(&session);
    let buffer = |cpu| trace.buffer(cpu).unwrap_err();
    assert_eq!(buffer(CPUS).cause, Cause::NoSuchBuffer);
    for errno in [Errno::EMFILE, Errno::ENFILE] {
        machine.fail_next_call(errno);
        let error = buffer(0);
        assert_eq!(error.cause, Cause::NoDescriptor);
        assert_eq!(error.attempt, Attempt::BufferHandle(0));
    }
    machine.state().map_errno = Some(Errno::ENOMEM);
    let error = buffer(1);
    assert_eq!(
        (error.attempt, error.cause),
        (Attempt::Map(1), Cause::NoMemory)
    );
}

#[test]
fn an_impossible_config_is_an_error() {
    let machine = Machine::new();
    let trace = stage_trace(&session(&machine));
    machine.state().staged_config.as_mut().unwrap().flags[0] = 0;
    let error = trace.configuration().unwrap_err();
    assert_eq!(error.cause, Cause::Unexpected(Errno::ERANGE));
}

#[test]
fn a_driver_without_buffers_does_not_know_the_command() {
    #[derive(Debug)]
    struct WithoutBuffers(Arc<Machine>);

    // SAFETY: `Driver` requires that the descriptors of `open_event` are events of the kernel: this
    // driver opens no events.
    unsafe impl Driver for WithoutBuffers {
        fn call(&self, call: Call<'_>) -> Result<(), Errno> {
            self.0.call(call)
        }
    }

    let session = Session::with_driver(Arc::new(WithoutBuffers(Machine::new()))).unwrap();
    let error = stage_trace(&session).buffer(0).unwrap_err();
    assert_eq!(error.cause, Cause::UnknownCommand);
}

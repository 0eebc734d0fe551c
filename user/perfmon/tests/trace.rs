// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces through the seam: what is asked of the driver in which state, and how a buffer is read.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};

use nix::sys::memfd::{MFdFlags, memfd_create};
use perfmon::sys::{Call, Driver, Mapping};
use perfmon::trace::{
    Alloc, ArchEvent, Buffer, Config, Event, EventId, FixedEvent, Record, Staged, Trace,
};
use perfmon::{Attempt, Cause, CounterId, Errno, EventSelect, Modes, Session, abi};
use perfmon_core::logic::trace_state::{TraceCall, TraceState};

/// CPUs of the machine below.
const CPUS: u32 = 2;

/// A driver with the module's own states, and files in memory for its buffers.
#[derive(Debug)]
struct Machine {
    inner: Mutex<Inner>,
    buffers: Vec<File>,
}

struct Inner {
    asked: Vec<String>,
    life: TraceState,
    staged: Option<abi::perfmon_config>,
    /// Error of the next call for a trace.
    errno: Option<Errno>,
    /// All calls for a trace fail with EPERM.
    locked_down: bool,
    features: u64,
    /// Error of the next mmap.
    map_errno: Option<Errno>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.asked)
    }
}

impl Machine {
    fn new() -> Arc<Self> {
        let buffer = |_| {
            let file = File::from(memfd_create("buffer", MFdFlags::empty()).unwrap());
            file.set_len(2 * 4096).unwrap();
            file
        };
        let machine = Self {
            inner: Mutex::new(Inner {
                asked: Vec::new(),
                life: TraceState::Idle,
                staged: None,
                errno: None,
                locked_down: false,
                features: abi::PERFMON_FEATURE_FULL_WIDTH_WRITES.into(),
                map_errno: None,
            }),
            buffers: (0..CPUS).map(buffer).collect(),
        };
        for cpu in 0..CPUS {
            machine.publish(cpu, HEADER);
        }
        Arc::new(machine)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Returns the calls since the last call of this function.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.inner().asked)
    }

    fn fail(&self, errno: Errno) {
        self.inner().errno = Some(errno);
    }

    fn put(&self, cpu: u32, offset: u64, bytes: &[u8]) {
        self.buffers[cpu as usize]
            .write_all_at(bytes, offset)
            .unwrap();
    }

    /// Writes records, and then where they end.
    fn record(&self, cpu: u32, offset: u64, records: &[Record<'_>]) -> u64 {
        let mut bytes = Vec::new();
        for record in records {
            record.encode(&mut bytes);
        }
        self.put(cpu, offset, &bytes);
        let end = offset + bytes.len() as u64;
        self.publish(cpu, end);
        end
    }

    fn publish(&self, cpu: u32, capture_end: u64) {
        self.put(cpu, 16, &capture_end.to_ne_bytes());
    }
}

/// Bytes of the header.
const HEADER: u64 = 24;

impl Driver for Machine {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        let mut inner = self.inner();
        let (text, wanted) = match &call {
            Call::Properties(_) => ("properties".to_owned(), None),
            Call::Info(_) => ("info".to_owned(), None),
            Call::Setup2(_) | Call::Stop(_) => ("counting".to_owned(), None),
            Call::DefineEvent(event) => (
                format!("define {:#x} {:#x}", event.id, event.select),
                Some(TraceCall::Define),
            ),
            Call::AllocTrace(alloc) => (
                format!(
                    "alloc {} of {}",
                    alloc.num_buffers, alloc.buffer_size_in_pages
                ),
                Some(TraceCall::Alloc),
            ),
            Call::FreeTrace => ("free".to_owned(), Some(TraceCall::Free)),
            Call::GetAlloc(_) => ("get alloc".to_owned(), Some(TraceCall::GetAlloc)),
            Call::StageConfig(_) => ("stage".to_owned(), Some(TraceCall::Stage)),
            Call::GetConfig(_) => ("get config".to_owned(), Some(TraceCall::GetConfig)),
            Call::StartTrace => ("start".to_owned(), Some(TraceCall::Start)),
            Call::StopTrace => ("stop".to_owned(), Some(TraceCall::Stop)),
            _ => unreachable!("tests/seam.rs"),
        };
        if let Some(wanted) = wanted {
            inner.asked.push(text);
            if inner.locked_down {
                return Err(Errno::EPERM);
            }
            let after = inner.life.after(wanted).map_err(|_| Errno::EBADFD)?;
            if let Some(errno) = inner.errno.take() {
                return Err(errno);
            }
            inner.life = after;
        }
        match call {
            Call::Properties(properties) => properties.api_version = 3,
            Call::Info(info) => {
                info.nr_cpu_ids = CPUS;
                info.features = inner.features;
            }
            Call::GetAlloc(alloc) => (alloc.num_buffers, alloc.buffer_size_in_pages) = (CPUS, 2),
            Call::StageConfig(config) => inner.staged = Some(*config),
            Call::GetConfig(config) => *config = inner.staged.unwrap(),
            Call::StartTrace => (0..CPUS).for_each(|cpu| self.publish(cpu, HEADER)),
            _ => {}
        }
        Ok(())
    }

    fn buffer_handle(&self, request: &abi::perfmon_buffer_handle_req) -> Result<OwnedFd, Errno> {
        let mut inner = self.inner();
        inner.asked.push(format!("buffer {}", request.descriptor));
        inner
            .life
            .after(TraceCall::GetBufferHandle)
            .map_err(|_| Errno::EBADFD)?;
        if let Some(errno) = inner.errno.take() {
            return Err(errno);
        }
        let file = self.buffers.get(request.descriptor as usize);
        Ok(file.ok_or(Errno::EINVAL)?.try_clone().unwrap().into())
    }

    fn map(&self, handle: BorrowedFd<'_>, length: NonZeroUsize) -> Result<Mapping, Errno> {
        match self.inner().map_errno.take() {
            None => Mapping::new(handle, length),
            Some(errno) => Err(errno),
        }
    }
}

const INSTRUCTIONS: EventId = EventId::fixed(FixedEvent::Instructions);

fn config() -> Config {
    Config::builder()
        .event(Event::sampling(INSTRUCTIONS, 1000).modes(Modes::User).pc())
        .event(Event::with_timebase(ArchEvent::LlcMisses))
        .build()
        .unwrap()
}

fn session(machine: &Arc<Machine>) -> Session {
    Session::with_driver(Arc::clone(machine) as _).unwrap()
}

fn staged(session: &Session) -> Trace<Staged> {
    let info = session.device().info().unwrap();
    let trace = session.allocate(Alloc::new(&info, 2)).unwrap();
    trace.stage(&config()).unwrap()
}

fn time(time: i64) -> Record<'static> {
    Record::Time { time }
}

const TICK: Record<'_> = Record::Tick {
    event: INSTRUCTIONS,
};

/// The times of the records that a buffer has more of.
fn times(buffer: &mut Buffer) -> Vec<i64> {
    let chunk = buffer.records().unwrap();
    let times = chunk.records().map(|record| record.unwrap().time);
    times.collect()
}

#[test]
fn each_method_is_one_call() {
    let machine = Machine::new();
    let session = session(&machine);
    let info = session.device().info().unwrap();
    assert_eq!((info.cpu_ids, info.full_width_writes), (CPUS, true));
    machine.inner().features ^= u64::MAX;
    assert!(!session.device().info().unwrap().full_width_writes);
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
    assert_eq!(machine.asked(), calls);
}

#[test]
fn the_config_is_the_structure_of_the_interface() {
    let machine = Machine::new();
    let _trace = staged(&session(&machine));
    let raw = machine.inner().staged.unwrap();
    assert_eq!(raw.events[..3], [0x801, 0x404, 0]);
    assert_eq!(raw.rate[..3], [1000, 0, 0]);
    assert_eq!(raw.flags[..3], [0b00110, 0b01011, 0]);
}

#[test]
fn a_dropped_trace_stops_and_is_freed() {
    let machine = Machine::new();
    let session = session(&machine);
    let trace = staged(&session).start().unwrap();
    machine.asked();
    drop(trace);
    assert_eq!(machine.asked(), ["stop", "free"]);
    assert_eq!(machine.inner().life, TraceState::Idle);
}

#[test]
fn a_trace_outlives_its_session() {
    let machine = Machine::new();
    let trace = staged(&session(&machine));
    trace.start().unwrap().stop().unwrap();
    assert_eq!(Arc::strong_count(&machine), 1);
}

#[test]
fn a_refused_trace_comes_back_as_it_was() {
    let machine = Machine::new();
    let session = session(&machine);

    let trace = session
        .allocate(Alloc {
            buffers: 2,
            pages: 2,
        })
        .unwrap();
    machine.fail(Errno::EINVAL);
    let refused = trace.stage(&config()).unwrap_err();
    assert_eq!(refused.error.cause, Cause::InvalidConfig);
    let trace = refused.trace.stage(&config()).unwrap();

    machine.fail(Errno::EINVAL);
    let refused = trace.stage(&config()).unwrap_err();
    machine.fail(Errno::EBUSY);
    let refused = refused.trace.start().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "can't start the trace: the hardware counters are in use already"
    );
    let trace = refused.trace.start().unwrap();

    machine.fail(Errno::EIO);
    let refused = trace.stop().unwrap_err();
    assert_eq!(refused.error.cause, Cause::Untrusted);
    let trace = refused.trace.stop().unwrap();

    machine.fail(Errno::EACCES);
    let refused = trace.free().unwrap_err();
    assert_eq!(refused.error.cause, Cause::Forbidden);
    machine.asked();
    drop(refused);
    assert_eq!(machine.asked(), ["stop", "free"]);
}

#[test]
fn a_session_has_one_trace_and_counters_beside_it() {
    let machine = Machine::new();
    let session = session(&machine);
    let trace = staged(&session);
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

#[test]
fn a_buffer_is_read_from_where_it_was_read_to() {
    let machine = Machine::new();
    let session = session(&machine);
    let trace = staged(&session);
    let mut buffers = trace.buffers().unwrap();
    let trace = trace.start().unwrap();
    assert_eq!(times(&mut buffers[1]), [0; 0]);

    let end = machine.record(1, HEADER, &[time(10), TICK, TICK, time(20), TICK]);
    assert_eq!(times(&mut buffers[1]), [10, 10, 20]);
    assert_eq!(times(&mut buffers[1]), [0; 0]);
    assert_eq!(times(&mut buffers[0]), [0; 0]);
    machine.record(1, end, &[time(30), TICK]);
    assert_eq!(times(&mut buffers[1]), [30]);
    buffers[1].rewind();
    assert_eq!(times(&mut buffers[1]), [10, 10, 20, 30]);
    assert_eq!(buffers[1].records().unwrap().cpu(), 1);
    assert_eq!(buffers[1].cpu(), 1);

    drop((trace, session));
    let mut last = buffers.pop().unwrap();
    last.rewind();
    machine.record(1, HEADER, &[time(40), TICK]);
    drop(machine);
    assert_eq!(times(&mut last), [40]);
}

#[test]
fn a_second_run_overwrites_the_first() {
    let machine = Machine::new();
    let trace = staged(&session(&machine));
    let mut buffer = trace.buffer(0).unwrap();
    let trace = trace.start().unwrap();
    machine.record(0, HEADER, &[time(10), TICK]);
    assert_eq!(times(&mut buffer), [10]);
    let _trace = trace.stop().unwrap().start().unwrap();
    let error = buffer.records().unwrap_err();
    assert_eq!(
        (error.attempt, error.cause),
        (Attempt::ReadBuffer(0), Cause::BadHeader)
    );
    buffer.rewind();
    machine.record(0, HEADER, &[time(20), TICK]);
    assert_eq!(times(&mut buffer), [20]);
}

#[test]
fn a_header_is_believed_only_as_far_as_the_memory_goes() {
    let machine = Machine::new();
    let trace = staged(&session(&machine));
    let mut buffer = trace.buffer(0).unwrap();
    for end in [0, HEADER - 4, HEADER + 2, 2 * 4096 + 4, u64::MAX] {
        machine.publish(0, end);
        let error = buffer.records().unwrap_err();
        assert_eq!(error.cause, Cause::BadHeader, "{end}");
    }
    machine.publish(0, 2 * 4096);
    let chunk = buffer.records().unwrap();
    assert_eq!(chunk.bytes().len() as u64, 2 * 4096 - HEADER);
}

#[test]
fn the_header_tells_what_happened() {
    let machine = Machine::new();
    let trace = staged(&session(&machine));
    let buffer = trace.buffer(0).unwrap();
    assert_eq!(buffer.header().ticks_per_second, None);
    assert_eq!(buffer.header().flags.to_string(), "");
    machine.put(0, 4, &0b1001_u32.to_ne_bytes());
    machine.put(0, 8, &2_500_000_000_i64.to_ne_bytes());
    let header = buffer.header();
    assert!(header.flags.is_full() && header.flags.is_not_traced());
    assert!(!header.flags.is_throttled() && !header.flags.is_offline());
    assert_eq!(header.flags.to_string(), "full, not traced");
    assert_eq!(header.ticks_per_second, Some(2_500_000_000));
    assert_eq!(header.capture_end, HEADER);
}

#[test]
fn a_buffer_of_another_version_is_refused() {
    let machine = Machine::new();
    machine.put(1, 0, &7_u16.to_ne_bytes());
    let error = staged(&session(&machine)).buffers().unwrap_err();
    assert_eq!(
        (error.attempt, error.cause),
        (Attempt::Map(1), Cause::BufferVersion(7))
    );
}

#[test]
fn sets_are_whole_while_they_are_written() {
    const SETS: i64 = 400;
    let machine = Machine::new();
    let trace = staged(&session(&machine));
    let mut buffer = trace.buffer(0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..SETS).fold(HEADER, |end, n| {
                machine.record(0, end, &[time(n), TICK, TICK])
            });
        });
        let mut expected = 0;
        while expected < SETS {
            for pair in times(&mut buffer).chunks(2) {
                assert_eq!(pair, [expected; 2]);
                expected += 1;
            }
        }
    });
}

/// A call that may fail.
type Try<'a> = &'a dyn Fn() -> Option<perfmon::Error>;

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

    let allocate: Try<'_> = &|| session.allocate(alloc).err();
    let define: Try<'_> = &|| session.define_event(id, select).err();
    let info: Try<'_> = &|| session.device().info().err();
    assert_eq!(info(), None);
    let before = [
        (Errno::EINVAL, allocate, Cause::InvalidAlloc),
        (Errno::ENOMEM, allocate, Cause::NoMemory),
        (Errno::EPERM, allocate, Cause::MemoryLimit),
        (Errno::EPERM, define, Cause::LockedDown),
        (Errno::EINVAL, define, Cause::InvalidEvent),
        (Errno::EACCES, define, Cause::Forbidden),
    ];
    for (errno, attempt, cause) in before {
        machine.fail(errno);
        assert_eq!(attempt().unwrap().cause, cause, "{errno}");
    }
    // EPERM again from the call that asks why.
    machine.inner().locked_down = true;
    assert_eq!(allocate().unwrap().cause, Cause::LockedDown);
    machine.inner().locked_down = false;
    machine.fail(Errno::EINVAL);
    assert_eq!(
        allocate().unwrap().to_string(),
        "can't allocate 3 buffers of 9 pages: the number of buffers is not that of the CPUs, \
         or a buffer has too many pages or none"
    );
    machine.fail(Errno::EINVAL);
    assert_eq!(
        define().unwrap().to_string(),
        "can't define architectural event 5 as event select 0x300c4: \
         the id is not a model-specific one, or the event select is not allowed"
    );

    let trace = staged(&session);
    let buffer = |cpu| trace.buffer(cpu).unwrap_err();
    assert_eq!(buffer(CPUS).cause, Cause::NoSuchBuffer);
    for errno in [Errno::EMFILE, Errno::ENFILE] {
        machine.fail(errno);
        let error = buffer(0);
        assert_eq!(error.cause, Cause::NoDescriptor);
        assert_eq!(error.attempt, Attempt::BufferHandle(0));
    }
    machine.inner().map_errno = Some(Errno::ENOMEM);
    let error = buffer(1);
    assert_eq!(
        (error.attempt, error.cause),
        (Attempt::Map(1), Cause::NoMemory)
    );
}

#[test]
fn a_config_that_can_not_be_is_an_error() {
    let machine = Machine::new();
    let trace = staged(&session(&machine));
    machine.inner().staged.as_mut().unwrap().flags[0] = 0;
    let error = trace.configuration().unwrap_err();
    assert_eq!(error.cause, Cause::Unexpected(Errno::ERANGE));
}

#[test]
fn a_driver_without_buffers_does_not_know_the_command() {
    #[derive(Debug)]
    struct Without(Arc<Machine>);

    impl Driver for Without {
        fn call(&self, call: Call<'_>) -> Result<(), Errno> {
            self.0.call(call)
        }
    }

    let session = Session::with_driver(Arc::new(Without(Machine::new()))).unwrap();
    let error = staged(&session).buffer(0).unwrap_err();
    assert_eq!(error.cause, Cause::UnknownCommand);
}

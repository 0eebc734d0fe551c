// SPDX-License-Identifier: MIT OR Apache-2.0
//! A driver for the tests of traces.

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard};

use nix::sys::memfd::{MFdFlags, memfd_create};
use perfmon::sys::{Call, Driver, Mapping};
use perfmon::trace::{Alloc, ArchEvent, Config, Event, EventId, FixedEvent, Record, Staged, Trace};
use perfmon::{Errno, Modes, Session, abi};
use perfmon_core::logic::trace_state::{TraceCall, TraceState};

/// Number of CPUs of a [`Machine`].
pub(crate) const CPUS: u32 = 2;

/// A driver with the module's own state machine, and files in memory as its buffers.
#[derive(Debug)]
pub(crate) struct Machine {
    state: Mutex<MachineState>,
    buffers: Vec<File>,
}

pub(crate) struct MachineState {
    pub(crate) calls: Vec<String>,
    pub(crate) trace_state: TraceState,
    pub(crate) staged_config: Option<abi::perfmon_config>,
    /// Error of the next call for a trace.
    pub(crate) errno: Option<Errno>,
    /// All calls for a trace fail with EPERM.
    pub(crate) locked_down: bool,
    pub(crate) features: u64,
    /// Error of the next mmap.
    pub(crate) map_errno: Option<Errno>,
}

impl std::fmt::Debug for MachineState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.calls)
    }
}

impl Machine {
    pub(crate) fn new() -> Arc<Self> {
        let buffer = |_| {
            let file = File::from(memfd_create("buffer", MFdFlags::empty()).unwrap());
            file.set_len(2 * 4096).unwrap();
            file
        };
        let machine = Self {
            state: Mutex::new(MachineState {
                calls: Vec::new(),
                trace_state: TraceState::Idle,
                staged_config: None,
                errno: None,
                locked_down: false,
                features: abi::PERFMON_FEATURE_FULL_WIDTH_WRITES.into(),
                map_errno: None,
            }),
            buffers: (0..CPUS).map(buffer).collect(),
        };
        for cpu in 0..CPUS {
            machine.publish(cpu, HEADER_SIZE);
        }
        Arc::new(machine)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, MachineState> {
        self.state.lock().unwrap()
    }

    /// Returns the calls since the last call of this function.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state().calls)
    }

    /// Makes the next call for a trace fail with `errno`.
    pub(crate) fn fail_next_call(&self, errno: Errno) {
        self.state().errno = Some(errno);
    }

    /// Writes bytes at `offset` of the buffer of `cpu`.
    pub(crate) fn write_bytes(&self, cpu: u32, offset: u64, bytes: &[u8]) {
        self.buffers[cpu as usize]
            .write_all_at(bytes, offset)
            .unwrap();
    }

    /// Writes records at `offset`, publishes their end, and returns it.
    pub(crate) fn record(&self, cpu: u32, offset: u64, records: &[Record<'_>]) -> u64 {
        let mut bytes = Vec::new();
        for record in records {
            record.encode(&mut bytes);
        }
        self.write_bytes(cpu, offset, &bytes);
        let end = offset + bytes.len() as u64;
        self.publish(cpu, end);
        end
    }

    pub(crate) fn publish(&self, cpu: u32, capture_end: u64) {
        self.write_bytes(cpu, 16, &capture_end.to_ne_bytes());
    }
}

/// Size of the header in bytes.
pub(crate) const HEADER_SIZE: u64 = 24;

// SAFETY: `Driver` requires that the descriptors of `open_event` are events of the kernel: this
// driver opens no events.
unsafe impl Driver for Machine {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        let mut state = self.state();
        let (text, trace_call) = match &call {
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
            _ => unreachable!("tested in tests/counters.rs"),
        };
        if let Some(trace_call) = trace_call {
            state.calls.push(text);
            if state.locked_down {
                return Err(Errno::EPERM);
            }
            let next_state = state
                .trace_state
                .after(trace_call)
                .map_err(|_| Errno::EBADFD)?;
            if let Some(errno) = state.errno.take() {
                return Err(errno);
            }
            state.trace_state = next_state;
        }
        match call {
            Call::Properties(properties) => properties.api_version = 3,
            Call::Info(info) => {
                info.nr_cpu_ids = CPUS;
                info.features = state.features;
            }
            Call::GetAlloc(alloc) => (alloc.num_buffers, alloc.buffer_size_in_pages) = (CPUS, 2),
            Call::StageConfig(config) => state.staged_config = Some(*config),
            Call::GetConfig(config) => *config = state.staged_config.unwrap(),
            Call::StartTrace => (0..CPUS).for_each(|cpu| self.publish(cpu, HEADER_SIZE)),
            _ => {}
        }
        Ok(())
    }

    fn buffer_handle(&self, request: &abi::perfmon_buffer_handle_req) -> Result<OwnedFd, Errno> {
        let mut state = self.state();
        state.calls.push(format!("buffer {}", request.descriptor));
        state
            .trace_state
            .after(TraceCall::GetBufferHandle)
            .map_err(|_| Errno::EBADFD)?;
        if let Some(errno) = state.errno.take() {
            return Err(errno);
        }
        let file = self.buffers.get(request.descriptor as usize);
        Ok(file.ok_or(Errno::EINVAL)?.try_clone().unwrap().into())
    }

    fn map(&self, handle: BorrowedFd<'_>, length: NonZeroUsize) -> Result<Mapping, Errno> {
        match self.state().map_errno.take() {
            None => Mapping::new(handle, length),
            Some(errno) => Err(errno),
        }
    }
}

pub(crate) const INSTRUCTIONS: EventId = EventId::fixed(FixedEvent::Instructions);

pub(crate) fn config() -> Config {
    Config::builder()
        .event(Event::sampling(INSTRUCTIONS, 1000).modes(Modes::User).pc())
        .event(Event::with_timebase(ArchEvent::LlcMisses))
        .build()
        .unwrap()
}

pub(crate) fn session(machine: &Arc<Machine>) -> Session {
    Session::with_driver(Arc::clone(machine) as _).unwrap()
}

pub(crate) fn stage_trace(session: &Session) -> Trace<Staged> {
    let info = session.device().info().unwrap();
    let trace = session.allocate(Alloc::new(&info, 2)).unwrap();
    trace.stage(&config()).unwrap()
}
